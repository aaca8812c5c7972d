//! Which road exchanges take to a server that speaks both, behind a link that takes its time.

use std::{io::Read, sync::Arc, time::Duration};

use http::{Method, Request, Response, Version};
use rgit_testkit::{
    certificate::Authority,
    relay::{Link, Relay},
    reply::{Reply, Rest, When},
    requests::Request as Seen,
    server::{GitServer, Protocols},
};
use rgit_transport::{Answer, Body, Brief, Transport, Wire};
use rgit_transport_auto::{Choice, Name, choose};

const MIB: u32 = 1024 * 1024;

/// A server, the way to it, and the transport that chooses.
struct World {
    server: GitServer,
    relay: Relay,
    transport: Arc<dyn Transport>,
    _files: tempfile::TempDir,
}

impl World {
    fn new(protocols: Protocols, window: u32, round_trip: Duration) -> World {
        let authority = Authority::new();
        let files = tempfile::tempdir().expect("a directory");
        let server = GitServer::builder()
            .tls(&authority)
            .protocols(protocols)
            .window(window)
            .connection_window(window)
            .start()
            .expect("a server");
        server.create("repo.git", &[]);
        let relay = Relay::start(server.address(), Link::round_trip(round_trip)).expect("a relay");
        let mut choice = Choice::default();
        choice.name = Name::Auto;
        choice.ca_file = Some(authority.write_ca(files.path()));
        choice.idle_timeout = Some(Duration::from_secs(60));
        World {
            server,
            relay,
            transport: choose(&choice).expect("a transport"),
            _files: files,
        }
    }

    fn exchange(&self, method: Method, body: Body<'_>) -> Response<Answer> {
        self.transport.exchange(self.request(method, body)).expect("an answer")
    }

    fn request<'b>(&self, method: Method, body: Body<'b>) -> Request<Body<'b>> {
        let base = self.server.base_url_at("127.0.0.1", self.relay.port());
        let path = match method {
            Method::GET => "info/refs?service=git-upload-pack",
            _ => "git-receive-pack",
        };
        Request::builder()
            .method(method)
            .uri(format!("{base}/repo.git/{path}"))
            .body(body)
            .expect("a request")
    }

    /// One of those that nothing large follows.
    fn brief(&self) -> Response<Answer> {
        let mut request = self.request(Method::GET, Body::Empty);
        request.extensions_mut().insert(Brief);
        self.transport.exchange(request).expect("an answer")
    }

    fn small(&self) -> Response<Answer> {
        self.exchange(Method::GET, Body::Empty)
    }

    /// Of more bytes than a small window lets through in one go, of which nobody knows how many there are.
    fn bulk(&self, bytes: usize) -> Response<Answer> {
        let data = vec![b'x'; bytes];
        self.exchange(Method::POST, Body::stream(None, &data[..]))
    }
}

fn version(response: &Response<Answer>) -> Version {
    response.extensions().get::<Wire>().expect("how it travelled").protocol
}

fn read(response: Response<Answer>) {
    response.into_body().read_to_end(&mut Vec::new()).expect("its body");
}

#[test]
fn one_after_the_other_goes_over_one_connection_of_http1() {
    let world = World::new(Protocols::Both, 64 * 1024, Duration::ZERO);
    for _ in 0..3 {
        let answer = world.small();
        assert_eq!(version(&answer), Version::HTTP_11);
        read(answer);
    }
    let answer = world.bulk(300_000);
    assert_eq!(version(&answer), Version::HTTP_11);
    assert_eq!(world.relay.connections(), 1);
}

#[test]
fn small_ones_at_once_share_http2_and_a_bulk_upload_leaves_a_small_window() {
    let world = World::new(Protocols::Both, 64 * 1024, Duration::from_millis(30));
    let first = world.small();
    assert_eq!(version(&first), Version::HTTP_11);
    let others = [world.small(), world.small(), world.small()];
    for other in &others {
        assert_eq!(version(other), Version::HTTP_2);
    }
    assert_eq!(world.relay.connections(), 2);
    // HTTP/2 is all that is idle: the first answer was not read to its end.
    drop(first);
    others.into_iter().for_each(read);
    let bulk = world.bulk(300_000);
    assert_eq!(
        version(&bulk),
        Version::HTTP_11,
        "the window is known, and too small for this link"
    );
    assert_eq!(world.relay.connections(), 3);
}

#[test]
fn where_nothing_large_follows_http2_is_opened_and_left_when_something_does() {
    let world = World::new(Protocols::Both, 64 * 1024, Duration::from_millis(30));
    for _ in 0..2 {
        let answer = world.brief();
        assert_eq!(version(&answer), Version::HTTP_2);
        read(answer);
    }
    assert_eq!(world.relay.connections(), 1);
    assert_eq!(version(&world.bulk(300_000)), Version::HTTP_11);

    let world = World::new(Protocols::H1, 64 * 1024, Duration::ZERO);
    for _ in 0..2 {
        let answer = world.brief();
        assert_eq!(version(&answer), Version::HTTP_11);
        read(answer);
    }
    assert_eq!(world.relay.connections(), 1, "the one that was to be HTTP/2 is kept");

    // A connection that lies idle is taken as it is.
    let world = World::new(Protocols::Both, 64 * 1024, Duration::ZERO);
    read(world.small());
    assert_eq!(version(&world.brief()), Version::HTTP_11);
    assert_eq!(world.relay.connections(), 1);
}

#[test]
fn a_large_window_keeps_bulk_uploads_where_they_are() {
    let world = World::new(Protocols::Both, 16 * MIB, Duration::from_millis(30));
    let first = world.small();
    read(world.small());
    drop(first);
    let bulk = world.bulk(300_000);
    assert_eq!(version(&bulk), Version::HTTP_2);
    assert_eq!(world.relay.connections(), 2);
}

#[test]
fn a_server_of_one_protocol_gets_that_one() {
    for (protocols, expected, connections) in [
        (Protocols::H1, Version::HTTP_11, 2),
        // The first handshake offers what it doesn't speak.
        (Protocols::H2, Version::HTTP_2, 2),
    ] {
        let world = World::new(protocols, 64 * 1024, Duration::ZERO);
        let answers = [world.small(), world.small()];
        for answer in &answers {
            assert_eq!(version(answer), expected);
        }
        answers.into_iter().for_each(read);
        read(world.small());
        let bulk = world.bulk(300_000);
        assert_eq!(version(&bulk), expected);
        assert_eq!(world.relay.connections(), connections);
    }
}

#[test]
fn where_http1_is_refused_by_a_status_http2_is_taken() {
    for status in [426, 505] {
        let world = World::new(Protocols::Both, MIB, Duration::ZERO);
        world
            .server
            .respond(When::any(), move |request: &Seen| match request.version {
                Version::HTTP_2 => Reply::status(200),
                _ => Reply::status(status),
            });
        let answer = world.exchange(Method::POST, Body::full("abc"));
        assert_eq!((version(&answer), answer.status().as_u16()), (Version::HTTP_2, 200));
        read(answer);
        let answer = world.small();
        assert_eq!((version(&answer), answer.status().as_u16()), (Version::HTTP_2, 200));
        let seen = world.server.requests();
        let seen: Vec<_> = seen.iter().map(|seen| (seen.version, seen.request_bytes)).collect();
        let (old, new) = (Version::HTTP_11, Version::HTTP_2);
        assert_eq!(
            seen,
            [(old, 3), (new, 3), (new, 0)],
            "the first once more, and nothing was asked in vain again"
        );
    }
}

#[test]
fn a_refusal_of_http1_is_the_answer_where_nothing_else_can_be_had() {
    let world = World::new(Protocols::H1, MIB, Duration::ZERO);
    world.server.respond(When::any(), Reply::text(505, "too old"));
    for dialled in [2, 2] {
        let answer = world.small();
        assert_eq!((version(&answer), answer.status().as_u16()), (Version::HTTP_11, 505));
        let mut text = String::new();
        answer.into_body().read_to_string(&mut text).expect("its body");
        assert_eq!((text.as_str(), world.server.connections().len()), ("too old", dialled));
    }
    assert_eq!(world.server.requests().len(), 2);
    // What is too long to be kept can't be sent again: the refusal stands.
    let world = World::new(Protocols::Both, MIB, Duration::ZERO);
    world.server.respond(When::any(), Reply::status(426).rest(Rest::First));
    let answer = world.bulk(20 * MIB as usize);
    assert_eq!((version(&answer), answer.status().as_u16()), (Version::HTTP_11, 426));
    assert_eq!(world.server.requests().len(), 1);
}
