//! Streams that are reset, connections that go away, and what is sent again.

use std::{
    io::Read,
    sync::Mutex,
    time::{Duration, Instant},
};

use rgit_testkit::{
    frames::{Peer, Server, flag, kind},
    scripted::Gate,
};
use rgit_transport::{Body, Error, Repeatable, Stage, Transport};

use crate::support::{
    CANCEL, ENHANCE_YOUR_CALM, HTTP_1_1_REQUIRED, INTERNAL_ERROR, NO_ERROR, REFUSED_STREAM, endless, get, plain, post,
    read, said, text, tuning, wire, with,
};

const MANY: u64 = 300_000_000;

/// Serves every request until the client goes.
fn serve(peer: &mut Peer) -> std::io::Result<()> {
    loop {
        let head = peer.until(kind::HEADERS)?;
        if !head.has(flag::END_STREAM) {
            peer.window_update(0, 1 << 25)?;
            peer.window_update(head.stream, 1 << 25)?;
            while !peer.until(kind::DATA)?.has(flag::END_STREAM) {}
        }
        peer.answer(head.stream, "served")?;
    }
}

#[test]
fn an_answer_outlives_the_reset_behind_it() {
    for (status, code) in [(401, NO_ERROR), (401, CANCEL), (413, NO_ERROR), (200, NO_ERROR)] {
        let server = Server::start(move |_, mut peer| {
            peer.greet(&[])?;
            let stream = peer.request()?;
            peer.body(10_000)?;
            peer.headers(stream, status, &[("x-said", "enough")], 0)?;
            peer.data(stream, b"the reason", flag::END_STREAM)?;
            peer.reset_stream(stream, code)?;
            serve(&mut peer)
        });
        let transport = plain();
        let body = Body::stream(None, endless(MANY));
        let response = transport.exchange(post(&server.url("/"), body)).unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["x-said"]),
            (status, &"enough".parse().unwrap())
        );
        let wire = wire(&response);
        assert!(wire.early && wire.sent >= 10_000 && wire.sent < 1_000_000, "{wire:?}");
        assert_eq!(read(response).unwrap(), b"the reason");
        // Only that stream is over.
        assert_eq!(text(&transport, get(&server.url("/"))), "served");
        assert_eq!(server.connections(), 1);
    }
}

#[test]
fn an_upload_that_was_refused_is_reset_when_its_answer_is_done_with() {
    let server = Server::start(|_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        peer.body(10_000)?;
        peer.headers(stream, 403, &[], flag::END_STREAM)?;
        let reset = peer.until(kind::RST_STREAM)?;
        assert_eq!((reset.stream, reset.number_at(0)), (stream, CANCEL));
        serve(&mut peer)
    });
    let transport = plain();
    let body = Body::stream(Some(MANY), endless(MANY));
    let response = transport.exchange(post(&server.url("/"), body)).unwrap();
    assert_eq!(response.status(), 403);
    assert_eq!(text(&transport, get(&server.url("/"))), "served");
}

#[test]
fn a_reset_without_an_answer_names_code_and_stage() {
    for (code, name) in [
        (CANCEL, "CANCEL"),
        (INTERNAL_ERROR, "INTERNAL_ERROR"),
        (NO_ERROR, "NO_ERROR"),
    ] {
        for (size, stage) in [(MANY, Stage::Send), (1000, Stage::Wait)] {
            let server = Server::start(move |_, mut peer| {
                peer.greet(&[])?;
                let stream = peer.request()?;
                peer.body(if size == MANY { 10_000 } else { 2000 })?;
                peer.reset_stream(stream, code)?;
                serve(&mut peer)
            });
            let transport = plain();
            // It can be replayed, but the server may have processed it.
            let body = Body::replay(None, || Ok(endless(size)));
            let err = transport.exchange(post(&server.url("/"), body)).unwrap_err();
            assert_eq!((err.code(), err.stage()), (Some(code), Some(stage)), "{}", said(&err));
            assert!(err.to_string().contains(name), "{err}");
            assert!(err.sent() > 0 && err.sent() <= size, "{}", err.sent());
            assert_eq!(text(&transport, get(&server.url("/"))), "served");
            assert_eq!(server.connections(), 1);
        }
    }
}

/// A server whose first connections do `refuse` when a request's head has come, and whose others serve.
fn refusing(
    connections: usize,
    refuse: impl Fn(&mut Peer, u32) -> std::io::Result<()> + Send + Sync + 'static,
) -> Server {
    Server::start(move |number, mut peer| {
        peer.greet(&[])?;
        if number >= connections {
            return serve(&mut peer);
        }
        let stream = peer.request()?;
        refuse(&mut peer, stream)?;
        peer.hold();
        Ok(())
    })
}

#[test]
fn what_was_refused_is_sent_again_on_a_new_connection() {
    let refusals: [fn(&mut Peer, u32) -> std::io::Result<()>; 3] = [
        |peer, stream| peer.reset_stream(stream, REFUSED_STREAM),
        |peer, stream| peer.goaway(stream - 1, NO_ERROR),
        |peer, stream| peer.goaway(stream - 1, INTERNAL_ERROR),
    ];
    let bodies: [fn() -> Body<'static>; 4] = [
        || Body::Empty,
        || Body::full("some bytes"),
        || Body::replay(Some(20_000_000), || Ok(endless(20_000_000))),
        || Body::replay(None, || Ok(endless(100))),
    ];
    for refuse in refusals {
        for body in bodies {
            let server = refusing(1, refuse);
            let response = plain().exchange(post(&server.url("/"), body())).unwrap();
            let wire = wire(&response);
            assert_eq!((wire.reused, wire.resent), (false, 1), "{:?}", body());
            assert_eq!(read(response).unwrap(), b"served");
            assert_eq!(server.connections(), 2);
        }
        // What was read once can't be sent twice.
        let server = refusing(1, refuse);
        let body = Body::stream(None, &b"some bytes"[..]);
        let err = plain().exchange(post(&server.url("/"), body)).unwrap_err();
        assert!(matches!(err, Error::Broken { .. }), "{}", said(&err));
        assert_eq!(server.connections(), 1);
        // Nothing is sent a third time.
        let server = refusing(9, refuse);
        plain().exchange(post(&server.url("/"), Body::Empty)).unwrap_err();
        assert_eq!(server.connections(), 2);
    }
}

#[test]
fn a_goaway_at_or_above_our_stream_lets_it_finish() {
    // A peer that winds up names the highest stream there can be first, and then the last one that it takes.
    for highest in [false, true] {
        let goes = Gate::new();
        let gone = goes.clone();
        let server = Server::start(move |number, mut peer| {
            peer.greet(&[])?;
            if number > 0 {
                return serve(&mut peer);
            }
            let stream = peer.request()?;
            peer.headers(stream, 200, &[], 0)?;
            let last = if highest { u32::MAX >> 1 } else { stream };
            peer.goaway(last, NO_ERROR)?;
            // Whoever has this has seen the GOAWAY.
            peer.data(stream, b"begun, ", 0)?;
            gone.wait();
            peer.data(stream, b"ended", flag::END_STREAM)?;
            peer.hold();
            Ok(())
        });
        let transport = plain();
        let mut answer = transport.exchange(get(&server.url("/"))).unwrap().into_body();
        let mut start = [0; 7];
        answer.read_exact(&mut start).unwrap();
        // Others go elsewhere, and need not be sent twice for that.
        let other = transport.exchange(get(&server.url("/"))).unwrap();
        assert_eq!((wire(&other).reused, wire(&other).resent), (false, 0));
        assert_eq!(read(other).unwrap(), b"served");
        goes.open();
        let mut rest = String::new();
        answer.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "ended");
        assert_eq!(server.connections(), 2);
    }
}

#[test]
fn an_upload_finishes_after_a_goaway() {
    let server = Server::start(|_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        peer.body(10_000)?;
        peer.goaway(stream, NO_ERROR)?;
        peer.window_update(0, 10_000_000)?;
        peer.window_update(stream, 10_000_000)?;
        peer.body(5_000_000)?;
        peer.answer(stream, "all of it")
    });
    let body = Body::stream(Some(5_000_000), endless(5_000_000));
    let response = plain().exchange(post(&server.url("/"), body)).unwrap();
    assert_eq!(wire(&response).sent, 5_000_000);
    assert_eq!(read(response).unwrap(), b"all of it");
}

#[test]
fn a_connection_that_goes_away_with_an_error_says_which() {
    let server = Server::start(|_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        peer.goaway(stream, INTERNAL_ERROR)
    });
    let err = plain().exchange(post(&server.url("/"), Body::full("abc"))).unwrap_err();
    assert_eq!(err.code(), Some(INTERNAL_ERROR), "{}", said(&err));
    assert_eq!(server.connections(), 1, "it may have been processed");
}

#[test]
fn http_1_1_required_is_told_apart() {
    let refusals: [fn(&mut Peer, u32) -> std::io::Result<()>; 2] = [
        |peer, stream| peer.reset_stream(stream, HTTP_1_1_REQUIRED),
        |peer, stream| peer.goaway(stream - 1, HTTP_1_1_REQUIRED),
    ];
    for refuse in refusals {
        let server = refusing(9, refuse);
        let err = plain().exchange(post(&server.url("/"), Body::full("abc"))).unwrap_err();
        assert_eq!(err.wanted_version(), Some(http::Version::HTTP_11), "{}", said(&err));
        assert_eq!(err.code(), Some(HTTP_1_1_REQUIRED));
        assert_eq!(server.connections(), 1, "HTTP/2 is not tried again");
    }
}

/// When each connection was made, told from the server's side.
fn calming(refuse: fn(&mut Peer, u32) -> std::io::Result<()>) -> (Server, std::sync::Arc<Mutex<Vec<Instant>>>) {
    let times = std::sync::Arc::new(Mutex::new(Vec::new()));
    let made = times.clone();
    let server = Server::start(move |number, mut peer| {
        made.lock().unwrap().push(Instant::now());
        peer.greet(&[])?;
        if number > 0 {
            return serve(&mut peer);
        }
        let stream = peer.request()?;
        refuse(&mut peer, stream)?;
        peer.hold();
        Ok(())
    });
    (server, times)
}

/// A pause can be shown to be long enough, whatever the machine does meanwhile.
#[test]
fn a_server_that_asks_for_calm_is_left_in_peace() {
    const CALM: Duration = Duration::from_millis(300);
    let transport = || with(tuning().calm(CALM));
    let expect_pause = |times: &Mutex<Vec<Instant>>| {
        let times = times.lock().unwrap();
        assert!(times.len() == 2 && times[1] - times[0] >= CALM, "{times:?}");
    };
    // Below our stream: nothing was processed.
    let (server, times) = calming(|peer, stream| peer.goaway(stream - 1, ENHANCE_YOUR_CALM));
    let response = transport().exchange(post(&server.url("/"), Body::full("abc"))).unwrap();
    assert_eq!(wire(&response).resent, 1);
    expect_pause(&times);
    // A reset leaves that open, but to ask twice does no harm.
    for mut request in [get("http://h/"), post("http://h/", Body::full("abc"))] {
        request.extensions_mut().insert(Repeatable);
        let (server, times) = calming(|peer, stream| peer.reset_stream(stream, ENHANCE_YOUR_CALM));
        *request.uri_mut() = server.url("/").parse().unwrap();
        assert_eq!(wire(&transport().exchange(request).unwrap()).resent, 1);
        expect_pause(&times);
    }
    // Here it might. The next request has to wait all the same.
    let (server, times) = calming(|peer, stream| peer.reset_stream(stream, ENHANCE_YOUR_CALM));
    let transport = transport();
    let err = transport
        .exchange(post(&server.url("/"), Body::full("abc")))
        .unwrap_err();
    assert_eq!(err.code(), Some(ENHANCE_YOUR_CALM), "{}", said(&err));
    assert_eq!(text(&transport, get(&server.url("/"))), "served");
    expect_pause(&times);
}
