//! Promise 4: only what the server provably did not process is sent again, and only a body that can be replayed.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::Request;
use rgit_testkit::scripted::{Server, Step};
use rgit_transport::{Body, Repeatable, Stage, Transport};

use crate::support::{Mount, echo_step, failed, get, ok, plain, post, read, text, wire};

/// A server whose first connection dies of its second request, and a transport that has that connection idle.
fn dying(
    mount: &Mount,
    death: Step,
    later: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static,
) -> (Server, std::sync::Arc<dyn Transport>) {
    let server = mount.serve(move |number| match number {
        0 => vec![
            Step::ReadRequest,
            Step::write(ok("first")),
            Step::ReadHead,
            death.clone(),
            Step::Close,
        ],
        number => later(number),
    });
    let transport = plain(mount);
    assert_eq!(text(&*transport, get(&server.url("/first"))), "first");
    (server, transport)
}

fn alive(_: usize) -> Vec<Step> {
    vec![echo_step()]
}

pub(crate) fn a_get_on_a_dying_connection_is_sent_again(mount: &Mount) {
    for death in [Step::Close, Step::Reset] {
        let (server, transport) = dying(mount, death, alive);
        let response = transport.exchange(get(&server.url("/again"))).expect("an answer");
        let wire = wire(&response);
        assert_eq!((wire.reused, wire.resent), (false, 1));
        assert_eq!(read(response).expect("its body"), b"/again");
        let targets: Vec<_> = server
            .requests()
            .concat()
            .iter()
            .map(|request| request.target().to_owned())
            .collect();
        assert_eq!(targets, ["/first", "/again", "/again"]);
    }
}

pub(crate) fn a_post_that_may_have_been_processed_is_not(mount: &Mount) {
    let bodies: [fn() -> Body<'static>; 4] = [
        || Body::stream(None, &b"abc"[..]),
        || Body::full("abc"),
        || Body::replay(None, || Ok(&b"abc"[..])),
        || Body::Empty,
    ];
    for death in [Step::Close, Step::Reset] {
        for body in bodies {
            let (server, transport) = dying(mount, death.clone(), alive);
            let stage = failed(transport.exchange(post(&server.url("/post"), body())), &server.url("/"));
            assert!([Stage::Send, Stage::Wait].contains(&stage), "{stage:?}");
            assert_eq!(text(&*transport, get(&server.url("/next"))), "/next");
            let posts = server
                .requests()
                .concat()
                .iter()
                .filter(|request| request.method() == "POST")
                .count();
            assert_eq!(posts, 1, "{:?}", body());
        }
    }
}

pub(crate) fn a_post_that_may_be_repeated_is(mount: &Mount) {
    for death in [Step::Close, Step::Reset] {
        let (server, transport) = dying(mount, death, alive);
        let mut request = post(&server.url("/post"), Body::full("abc"));
        request.extensions_mut().insert(Repeatable);
        let response = transport.exchange(request).expect("an answer");
        assert_eq!((wire(&response).reused, wire(&response).resent), (false, 1));
        assert_eq!(read(response).expect("its body"), b"/post");
        assert_eq!(server.requests()[1][0].body, b"abc");
    }
}

pub(crate) fn nothing_is_sent_a_third_time(mount: &Mount) {
    let (server, transport) = dying(mount, Step::Close, |_| vec![Step::ReadHead, Step::Close]);
    let stage = failed(transport.exchange(get(&server.url("/"))), &server.url("/"));
    assert_eq!(stage, Stage::Wait);
    assert_eq!(server.connections(), 2);
}

pub(crate) fn new_connections_get_no_second_chance(mount: &Mount) {
    let server = mount.serve(|_| vec![Step::ReadHead, Step::Close]);
    let stage = failed(plain(mount).exchange(get(&server.url("/"))), &server.url("/"));
    assert_eq!((stage, server.connections()), (Stage::Wait, 1));
}

pub(crate) fn a_begun_answer_rules_it_out(mount: &Mount) {
    let (server, transport) = dying(mount, Step::write("HTTP/1.1 2"), alive);
    let stage = failed(transport.exchange(get(&server.url("/"))), &server.url("/"));
    assert_eq!((stage, server.connections()), (Stage::Receive, 1));
}

pub(crate) fn replayed_bodies_are_opened_anew(mount: &Mount) {
    let (server, transport) = dying(mount, Step::Close, alive);
    let opened = AtomicUsize::new(0);
    let body = Body::replay(None, || {
        opened.fetch_add(1, Ordering::SeqCst);
        Ok(&b"abc"[..])
    });
    let request = Request::options(server.url("/again")).body(body).expect("a request");
    assert_eq!(text(&*transport, request), "/again");
    assert_eq!(opened.load(Ordering::SeqCst), 2);
    let requests = server.requests();
    assert_eq!(
        (requests[1][0].body.as_slice(), requests[1][0].complete),
        (&b"abc"[..], true)
    );
    // What can't be replayed is not, even by a safe method.
    let (server, transport) = dying(mount, Step::Close, alive);
    let request = Request::options(server.url("/"))
        .body(Body::stream(None, &b"abc"[..]))
        .expect("a request");
    let stage = failed(transport.exchange(request), &server.url("/"));
    assert!([Stage::Send, Stage::Wait].contains(&stage), "{stage:?}");
    assert_eq!(server.connections(), 1);
}
