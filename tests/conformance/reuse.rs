//! Promise 3: reading an answer to its end frees the connection; dropping it ends only that exchange.

use std::io::Read;

use http::{Method, Request};
use rgit_testkit::scripted::{Gate, Step};
use rgit_transport::Body;

use crate::support::{
    CHUNKED, LAST_CHUNK, Mount, answer, chunk, echo, echo_step, get, ok, pattern, plain, post, read, text, wire,
};

pub(crate) fn an_answer_read_to_its_end_frees_its_connection(mount: &Mount) {
    let server = mount.serve(|_| {
        vec![Step::serve(|request| match request.target() {
            "/length" => ok("some text"),
            "/chunked" => [CHUNKED.as_bytes(), &chunk("some text"), LAST_CHUNK.as_bytes()].concat(),
            "/refused" => answer("401 Unauthorized", "no"),
            "/head" => b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n".to_vec(),
            "/unchanged" => b"HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n".to_vec(),
            _ => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        })]
    });
    let transport = plain(mount);
    let paths = ["/length", "/chunked", "/refused", "/head", "/nothing", "/unchanged"];
    for (turn, path) in paths.iter().cycle().take(12).enumerate() {
        let method = if *path == "/head" { Method::HEAD } else { Method::GET };
        let request = Request::builder()
            .method(method)
            .uri(server.url(path))
            .body(Body::Empty)
            .expect("a request");
        let response = transport.exchange(request).expect("an answer");
        assert_eq!(wire(&response).reused, turn > 0, "{path}");
        let bodiless = ["/head", "/nothing", "/unchanged"].contains(path);
        assert_eq!(read(response).expect("its body").is_empty(), bodiless, "{path}");
    }
    assert_eq!(server.connections(), 1);
}

pub(crate) fn the_last_byte_is_enough(mount: &Mount) {
    let body = pattern(100_000);
    let served = body.clone();
    let server = mount.serve(move |_| {
        let served = served.clone();
        vec![Step::serve(move |_| ok(&served))]
    });
    let transport = plain(mount);
    for at_once in [1000, 50_000] {
        let mut kept = Vec::new();
        for _ in 0..3 {
            let response = transport.exchange(get(&server.url("/"))).expect("an answer");
            let (mut answer, mut got) = (response.into_body(), vec![0; body.len()]);
            for piece in got.chunks_mut(at_once) {
                answer.read_exact(piece).expect("a piece");
            }
            assert!(got == body);
            // Neither read to the zero, nor dropped.
            kept.push(answer);
        }
    }
    assert_eq!(server.connections(), 1);
    // An answer without a body needs no read at all.
    let server = mount.serve(|_| vec![Step::serve(|_| ok(""))]);
    let kept: Vec<_> = (0..3)
        .map(|_| transport.exchange(get(&server.url("/"))).expect("an answer"))
        .collect();
    assert_eq!((kept.len(), server.connections()), (3, 1));
}

pub(crate) fn dropping_an_answer_ends_only_that_exchange(mount: &Mount) {
    let server = mount.serve(|_| {
        vec![Step::serve(|request| match request.target() {
            "/large" => ok(vec![b'x'; 10_000_000]),
            target => ok(target),
        })]
    });
    let transport = plain(mount);
    let mut other = transport
        .exchange(get(&server.url("/other")))
        .expect("an answer")
        .into_body();
    let mut dropped = transport
        .exchange(get(&server.url("/large")))
        .expect("an answer")
        .into_body();
    dropped.read_exact(&mut [0; 10]).expect("its start");
    drop(dropped);
    assert_eq!(text(&*transport, get(&server.url("/next"))), "/next");
    let mut text = String::new();
    other.read_to_string(&mut text).expect("its body");
    assert_eq!(text, "/other");
}

pub(crate) fn connections_end_when_either_side_says_so(mount: &Mount) {
    let server = mount.serve(|_| {
        vec![Step::serve(|request| match request.target() {
            "/close" => answer("200 OK\r\nConnection: Close", "bye"),
            target => ok(target),
        })]
    });
    let transport = plain(mount);
    let asked = || {
        let request = Request::get(server.url("/asked")).header("connection", "close");
        request.body(Body::Empty).expect("a request")
    };
    for (request, connections) in [
        (get(&server.url("/a")), 1),
        (get(&server.url("/close")), 1),
        (get(&server.url("/b")), 2),
        (asked(), 2),
        (get(&server.url("/c")), 3),
        (get(&server.url("/d")), 3),
    ] {
        text(&*transport, request);
        assert_eq!(server.connections(), connections);
    }
}

/// NTLM and Negotiate authenticate the connection: whoever comes after on it would be that user.
pub(crate) fn what_was_authenticated_serves_nobody_else(mount: &Mount) {
    let server = mount.serve(|_| {
        vec![Step::serve(|request| match request.target() {
            "/challenged" => answer("401 Unauthorized\r\nWWW-Authenticate: NTLM TlRM", "who?"),
            "/offered" => answer("401 Unauthorized\r\nWWW-Authenticate: Basic, Negotiate", "who?"),
            "/proven" => answer("200 OK\r\nWWW-Authenticate: Negotiate oYH=", "hello"),
            "/kept" => answer("200 OK\r\nPersistent-Auth: true", "hello"),
            target => ok(target),
        })]
    });
    let transport = plain(mount);
    let with = |path: &str, authorization: &str| {
        let request = Request::get(server.url(path)).header("authorization", authorization);
        request.body(Body::Empty).expect("a request")
    };
    for request in [
        with("/negotiate", "Negotiate YII="),
        with("/ntlm", "ntlm TlRM"),
        get(&server.url("/challenged")),
        get(&server.url("/proven")),
        get(&server.url("/kept")),
    ] {
        text(&*transport, request);
        // What authenticates no more than the request is no reason, nor is an offer.
        text(&*transport, get(&server.url("/offered")));
        text(&*transport, with("/next", "Basic bWU6aHVzaA=="));
        text(&*transport, get(&server.url("/next")));
    }
    let connections = server.requests();
    let mut last = 0;
    for requests in &connections {
        let targets: Vec<_> = requests.iter().map(|request| request.target()).collect();
        let (end, before) = targets.split_last().expect("each carried something");
        assert!(
            before.iter().all(|target| ["/next", "/offered"].contains(target)),
            "{targets:?}"
        );
        last += usize::from(!["/next", "/offered"].contains(end));
        if mount.multiplexes() && ["/negotiate", "/ntlm"].contains(end) {
            assert!(before.is_empty(), "others may be under way on it: {targets:?}");
        }
    }
    assert_eq!(last, 5);
    assert_eq!(text(&*transport, get(&server.url("/next"))), "/next");
    assert_eq!(server.connections(), connections.len(), "the last one is kept");
}

pub(crate) fn a_connection_that_the_server_closed_is_not_used(mount: &Mount) {
    for refuses_politely in [false, true] {
        let closed = [Gate::new(), Gate::new()];
        let gates = closed.clone();
        let server = mount.serve(move |number| {
            let Some(gate) = gates.get(number) else {
                return vec![echo_step()];
            };
            let mut steps = vec![Step::ReadRequest, Step::write(ok("first"))];
            if refuses_politely {
                // As some servers do when a connection has been idle for too long.
                steps.push(Step::write("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"));
            }
            steps.extend([Step::HalfClose, Step::Open(gate.clone())]);
            steps
        });
        let transport = plain(mount);
        // Two idle connections, both closed by the server.
        let answers = [(); 2].map(|()| transport.exchange(get(&server.url("/first"))).expect("an answer"));
        for answer in answers {
            assert_eq!(read(answer).expect("its body"), b"first");
        }
        closed.iter().for_each(Gate::wait);
        let body = pattern(1000);
        let response = transport
            .exchange(post(&server.url("/x"), Body::stream(None, &body[..])))
            .expect("an answer");
        let wire = wire(&response);
        assert_eq!((wire.reused, wire.resent), (false, 0));
        assert_eq!(read(response).expect("its body"), b"/x");
        assert_eq!(text(&*transport, get(&server.url("/y"))), "/y");
        assert_eq!(server.requests()[2][0].length, 1000);
        assert_eq!(server.connections(), 3);
    }
}

/// A pack's first bytes may take longer than a server keeps an idle connection.
pub(crate) fn a_connection_does_not_grow_old_while_the_body_is_made(mount: &Mount) {
    /// Yields its bytes when the server has closed.
    struct Late(Gate, Gate, &'static [u8]);
    impl Read for Late {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.0.open();
            self.1.wait();
            self.2.read(buf)
        }
    }
    let (asked, closed) = (Gate::new(), Gate::new());
    let (wait, done) = (asked.clone(), closed.clone());
    let server = mount.serve(move |number| match number {
        0 => vec![
            Step::ReadRequest,
            Step::write(ok("first")),
            Step::Wait(wait.clone()),
            Step::HalfClose,
            Step::Open(done.clone()),
        ],
        _ => vec![echo_step()],
    });
    let transport = plain(mount);
    assert_eq!(text(&*transport, get(&server.url("/first"))), "first");
    let body = Body::stream(None, Late(asked, closed, b"abc"));
    let response = transport.exchange(post(&server.url("/x"), body)).expect("an answer");
    assert_eq!((wire(&response).reused, wire(&response).resent), (false, 0));
    assert_eq!(read(response).expect("its body"), b"/x");
    assert_eq!(server.requests()[1][0].body, b"abc");
}

pub(crate) fn bytes_behind_an_answer_are_not_the_next_answer(mount: &Mount) {
    let server = mount.serve(|number| match number {
        0 => vec![
            Step::ReadRequest,
            Step::write([ok("first"), ok("smuggled")].concat()),
            echo_step(),
        ],
        _ => vec![echo_step()],
    });
    let transport = plain(mount);
    assert_eq!(text(&*transport, get(&server.url("/"))), "first");
    assert_eq!(text(&*transport, get(&server.url("/second"))), "/second");
    let behaved = echo(mount);
    assert_eq!(text(&*transport, get(&behaved.url("/third"))), "/third");
}
