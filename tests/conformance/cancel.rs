//! Promise 8: an exchange can be ended from outside.

use std::{
    io::Read,
    time::{Duration, Instant},
};

use rgit_testkit::scripted::{Gate, Server, Step};
use rgit_transport::{Body, Cancel, Repeatable, Transport};

use crate::support::{CHUNKED, Mount, chunk, get, plain, text};

/// Far below the idle timeout, which would end it, too.
const SOON: Duration = Duration::from_secs(20);

fn with(cancel: &Cancel, url: &str) -> http::Request<Body<'static>> {
    let mut request = get(url);
    request.extensions_mut().insert(cancel.clone());
    // It could be sent again, and is not.
    request.extensions_mut().insert(Repeatable);
    request
}

fn came(server: &Server, count: usize) {
    server.wait_until(|requests| requests.concat().len() == count);
}

/// Serves one request, and holds the answer to the next back after `begun`.
fn holding(mount: &Mount, begun: Vec<u8>, gate: &Gate) -> Server {
    let gate = gate.clone();
    mount.serve(move |number| match number {
        0 => vec![
            Step::ReadRequest,
            Step::write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"),
            Step::ReadRequest,
            Step::write(begun.clone()),
            Step::Wait(gate.clone()),
        ],
        _ => vec![crate::support::echo_step()],
    })
}

pub(crate) fn a_request_that_nobody_waits_for_any_more_ends_and_is_not_repeated(mount: &Mount) {
    let gate = Gate::new();
    let server = holding(mount, Vec::new(), &gate);
    let transport = plain(mount);
    assert_eq!(text(&*transport, get(&server.url("/first"))), "first");
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| transport.exchange(with(&cancel, &server.url("/held"))));
        came(&server, 2);
        let begun = Instant::now();
        cancel.cancel();
        let outcome = waiting.join().expect("it ends");
        assert!(outcome.is_err() && begun.elapsed() < SOON, "{outcome:?}");
    });
    assert_eq!(server.requests().concat().len(), 2);
    gate.open();
}

pub(crate) fn an_answer_that_nobody_reads_any_more_is_broken_off(mount: &Mount) {
    let gate = Gate::new();
    let server = holding(mount, [CHUNKED.as_bytes(), &chunk("begun")].concat(), &gate);
    let transport = plain(mount);
    assert_eq!(text(&*transport, get(&server.url("/first"))), "first");
    let cancel = Cancel::new();
    let mut answer = transport
        .exchange(with(&cancel, &server.url("/held")))
        .expect("an answer")
        .into_body();
    answer.read_exact(&mut [0; 5]).expect("its beginning");
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| answer.read(&mut [0; 5]));
        let begun = Instant::now();
        cancel.cancel();
        let outcome = reading.join().expect("it ends");
        assert!(outcome.is_err() && begun.elapsed() < SOON, "{outcome:?}");
    });
    gate.open();
}

pub(crate) fn an_exchange_that_is_over_cannot_be_ended(mount: &Mount) {
    let server = crate::support::echo(mount);
    let transport = plain(mount);
    let cancel = Cancel::new();
    assert_eq!(text(&*transport, with(&cancel, &server.url("/one"))), "/one");
    cancel.cancel();
    assert_eq!(text(&*transport, get(&server.url("/two"))), "/two");
    assert_eq!(server.connections(), 1);
    // One that was ended before it began never gets an answer.
    assert!(transport.exchange(with(&cancel, &server.url("/three"))).is_err());
}
