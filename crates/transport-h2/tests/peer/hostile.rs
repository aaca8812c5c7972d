//! Bytes that are no HTTP/2, or too much of it, and silence.

use std::{
    io::{ErrorKind, Read},
    time::Duration,
};

use rgit_testkit::frames::{Peer, Server, block, encode, flag, kind};
use rgit_transport::{Body, Stage, Transport};

use crate::support::{CANCEL, NO_ERROR, endless, get, pattern, plain, post, read, said, text, tuning, wire, with};

/// What a server does when a request's head has come, on the stream of that.
type Script = fn(&mut Peer, u32) -> std::io::Result<()>;

/// The stage at which both a GET and a large POST fail against `script`, which plays from the request's head on.
fn stages(script: Script) -> [Option<Stage>; 2] {
    let server = Server::start(move |_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        script(&mut peer, stream)?;
        peer.hold();
        Ok(())
    });
    [Body::Empty, Body::stream(None, endless(300_000_000))].map(|body| {
        let err = plain().exchange(post(&server.url("/"), body)).unwrap_err();
        assert_eq!(err.code(), None, "nobody but us complained: {}", said(&err));
        assert!(!said(&err).contains("without an answer"), "{}", said(&err));
        err.stage()
    })
}

#[test]
fn what_breaks_the_protocol_fails_at_receiving() {
    let misdeeds: [Script; 12] = [
        |peer, _| peer.raw(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
        |peer, _| peer.raw(&pattern(100_000)),
        |peer, _| peer.raw(&[0xff; 100_000]),
        // A frame larger than we allow.
        |peer, stream| peer.data(stream, &[0; 100_000], 0),
        // DATA before HEADERS, and on a stream that nobody opened.
        |peer, stream| peer.data(stream, b"x", 0),
        |peer, stream| peer.data(stream + 2, b"x", 0),
        // No status; a status that is none; a name that is none.
        |peer, stream| peer.headers(stream, 0, &[("x", "y")], flag::END_STREAM),
        |peer, stream| peer.headers(stream, 0, &[(":status", "abc")], flag::END_STREAM),
        |peer, stream| peer.headers(stream, 200, &[("Upper", "case")], flag::END_STREAM),
        // HPACK that points nowhere.
        |peer, stream| peer.send(kind::HEADERS, flag::END_HEADERS, stream, &[0xff, 0xff, 0xff, 0x0f]),
        // A window that grows past all bounds.
        |peer, _| {
            peer.window_update(0, (1 << 31) - 1)?;
            peer.window_update(0, (1 << 31) - 1)
        },
        // Push, which we have forbidden.
        |peer, stream| {
            let promise = [&2u32.to_be_bytes()[..], &block(200, &[])].concat();
            peer.send(kind::PUSH_PROMISE, flag::END_HEADERS, stream, &promise)
        },
    ];
    for (number, misdeed) in misdeeds.into_iter().enumerate() {
        assert_eq!(stages(misdeed), [Some(Stage::Receive); 2], "misdeed {number}");
    }
}

#[test]
fn header_blocks_have_bounds() {
    // Without end: the connection is not read on for ever.
    let flood: Script = |peer, stream| {
        peer.send(kind::HEADERS, 0, stream, &block(200, &[]))?;
        for _ in 0..100_000 {
            peer.send(kind::CONTINUATION, 0, stream, &block(0, &[("x", "y")]))?;
        }
        panic!("all of it was taken in");
    };
    assert_eq!(stages(flood), [Some(Stage::Receive); 2]);
    // Empty ones don't grow anything, and are none the better for it.
    let empty: Script = |peer, stream| {
        peer.send(kind::HEADERS, 0, stream, &block(200, &[]))?;
        for _ in 0..10_000_000 {
            peer.send(kind::CONTINUATION, 0, stream, &[])?;
        }
        panic!("all of it was taken in");
    };
    assert_eq!(stages(empty), [Some(Stage::Receive); 2]);
    let large: Script = |peer, stream| {
        let value = "x".repeat(15_000);
        let fields = [
            ("a", &*value),
            ("b", &*value),
            ("c", &*value),
            ("d", &*value),
            ("e", &*value),
        ];
        let block = block(200, &fields);
        let (first, rest) = block.split_at(16_000);
        peer.send(kind::HEADERS, flag::END_STREAM, stream, first)?;
        let mut pieces = rest.chunks(16_000).peekable();
        while let Some(piece) = pieces.next() {
            let flags = if pieces.peek().is_none() { flag::END_HEADERS } else { 0 };
            peer.send(kind::CONTINUATION, flags, stream, piece)?;
        }
        Ok(())
    };
    assert_eq!(stages(large), [Some(Stage::Receive); 2]);
}

#[test]
fn a_large_head_in_pieces_is_taken() {
    let server = Server::start(|_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        let value = "x".repeat(15_000);
        let block = block(200, &[("a", &value), ("b", &value)]);
        peer.send(kind::HEADERS, 0, stream, &block[..10_000])?;
        peer.send(kind::CONTINUATION, 0, stream, &block[10_000..20_000])?;
        peer.send(kind::CONTINUATION, flag::END_HEADERS, stream, &block[20_000..])?;
        peer.data(stream, b"body", flag::END_STREAM)
    });
    let response = plain().exchange(get(&server.url("/"))).unwrap();
    assert_eq!(response.headers()["b"].len(), 15_000);
    assert_eq!(read(response).unwrap(), b"body");
}

#[test]
fn a_connection_cut_in_the_middle_of_a_frame_is_said_to_be() {
    for (cut, stage) in [(5, Stage::Send), (12, Stage::Receive)] {
        let server = Server::start(move |_, mut peer| {
            peer.greet(&[])?;
            let stream = peer.request()?;
            peer.body(10_000)?;
            let frame = encode(kind::HEADERS, flag::END_HEADERS, stream, &block(200, &[("a", "b")]));
            peer.raw(&frame[..cut])
        });
        let body = Body::stream(None, endless(300_000_000));
        let err = plain().exchange(post(&server.url("/"), body)).unwrap_err();
        assert_eq!(err.stage(), Some(stage), "{}", said(&err));
    }
}

#[test]
fn an_answer_that_breaks_off_never_looks_whole() {
    let endings: [(Script, ErrorKind); 6] = [
        (|_, _| Ok(()), ErrorKind::UnexpectedEof),
        (
            |peer, stream| peer.reset_stream(stream, NO_ERROR),
            ErrorKind::UnexpectedEof,
        ),
        (
            |peer, stream| peer.reset_stream(stream, CANCEL),
            ErrorKind::UnexpectedEof,
        ),
        (
            |peer, stream| peer.raw(&encode(kind::DATA, 0, stream, b"abc")[..10]),
            ErrorKind::UnexpectedEof,
        ),
        // Shorter than announced, and longer.
        (
            |peer, stream| peer.data(stream, b"", flag::END_STREAM),
            ErrorKind::InvalidData,
        ),
        (
            |peer, stream| peer.data(stream, b"0123456789", flag::END_STREAM),
            ErrorKind::InvalidData,
        ),
    ];
    for (ending, kind) in endings {
        let server = Server::start(move |_, mut peer| {
            peer.greet(&[])?;
            let stream = peer.request()?;
            peer.headers(stream, 200, &[("content-length", "10")], 0)?;
            peer.data(stream, b"hello", 0)?;
            ending(&mut peer, stream)
        });
        let mut answer = plain().exchange(get(&server.url("/"))).unwrap().into_body();
        let mut got = Vec::new();
        let err = answer.read_to_end(&mut got).unwrap_err();
        assert_eq!((err.kind(), got.as_slice()), (kind, &b"hello"[..]), "{err}");
        assert_eq!(answer.read(&mut [0; 9]).unwrap_err().kind(), kind, "still broken");
    }
}

#[test]
fn padding_trailers_and_unknown_frames_are_passed_over() {
    let server = Server::start(|_, mut peer| {
        peer.greet(&[(0x7777, 42)])?;
        let stream = peer.request()?;
        peer.send(0x77, 0xff, 0, b"what is this")?;
        peer.send(kind::PING, 0, 0, b"in order")?;
        // PRIORITY, long deprecated.
        peer.send(2, 0, stream, &[0, 0, 0, 0, 15])?;
        let padded = [&[200][..], &block(200, &[("a", "b")]), &[0; 200]].concat();
        peer.send(kind::HEADERS, flag::PADDED | flag::END_HEADERS, stream, &padded)?;
        for text in ["one ", "", "two"] {
            let padded = [&[100][..], text.as_bytes(), &[0; 100]].concat();
            peer.send(kind::DATA, flag::PADDED, stream, &padded)?;
        }
        let trailer = block(0, &[("grpc-status", "0")]);
        peer.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &trailer)?;
        let stream = peer.request()?;
        peer.answer(stream, "next")
    });
    let transport = plain();
    let response = transport.exchange(get(&server.url("/"))).unwrap();
    assert_eq!(response.headers()["a"], "b");
    assert!(!response.headers().contains_key("grpc-status"));
    assert_eq!(read(response).unwrap(), b"one two");
    assert_eq!(text(&transport, get(&server.url("/"))), "next");
}

#[test]
fn silence_ends_and_names_its_stage() {
    let idle = Duration::from_millis(200);
    type Whole = fn(&mut Peer) -> std::io::Result<()>;
    let scripts: [(Whole, Stage); 4] = [
        // Not a byte, not even SETTINGS.
        (|peer| peer.read_preface(), Stage::Wait),
        (|peer| peer.greet(&[]), Stage::Wait),
        // Words, but none about the exchange.
        (
            |peer| {
                peer.greet(&[])?;
                loop {
                    peer.send(kind::PING, 0, 0, b"are you?")?;
                    // Until it is answered.
                    peer.until(kind::PING)?;
                }
            },
            Stage::Wait,
        ),
        // Half a head.
        (
            |peer| {
                peer.greet(&[])?;
                let stream = peer.request()?;
                peer.send(kind::HEADERS, 0, stream, &block(200, &[]))
            },
            Stage::Receive,
        ),
    ];
    for (script, stage) in scripts {
        let server = Server::start(move |_, mut peer| {
            script(&mut peer)?;
            peer.hold();
            Ok(())
        });
        let err = with(tuning().idle_timeout(idle))
            .exchange(get(&server.url("/")))
            .unwrap_err();
        assert_eq!(err.stage(), Some(stage), "{}", said(&err));
        assert!(said(&err).contains("200ms"), "{}", said(&err));
    }
    // An answer that stops.
    let server = Server::start(|_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        peer.headers(stream, 200, &[], 0)?;
        peer.data(stream, b"hello", 0)?;
        peer.hold();
        Ok(())
    });
    let transport = with(tuning().idle_timeout(Duration::from_secs(3)));
    let mut answer = transport.exchange(get(&server.url("/"))).unwrap().into_body();
    let mut got = Vec::new();
    let err = answer.read_to_end(&mut got).unwrap_err();
    assert_eq!((err.kind(), got.as_slice()), (ErrorKind::TimedOut, &b"hello"[..]));
}

#[test]
fn a_slow_upload_is_no_silence() {
    // A byte of window at a time, each well within the timeout, all of them far beyond it.
    let server = Server::start(|_, mut peer| {
        peer.greet(&[(rgit_testkit::frames::setting::INITIAL_WINDOW_SIZE, 0)])?;
        let stream = peer.request()?;
        for _ in 0..8 {
            // Not for synchronisation: the slow pace is what is tested.
            std::thread::sleep(Duration::from_millis(400));
            peer.window_update(stream, 1)?;
        }
        peer.body(8)?;
        peer.answer(stream, "patience")
    });
    let transport = with(tuning().idle_timeout(Duration::from_secs(2)));
    transport.probe(&server.url("/").parse().unwrap()).unwrap();
    let response = transport
        .exchange(post(&server.url("/"), Body::full(pattern(8))))
        .unwrap();
    assert!(wire(&response).starved > Duration::from_secs(2));
    assert_eq!(read(response).unwrap(), b"patience");
}
