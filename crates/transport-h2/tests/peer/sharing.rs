//! Many exchanges on a connection, and what happens to it between them.

use std::{
    io::{self, Read},
    time::Duration,
};

use rgit_testkit::{
    frames::{Server, flag, kind, setting},
    scripted::Gate,
};
use rgit_transport::{Body, Stage, Transport};

use crate::support::{CANCEL, NO_ERROR, get, plain, post, read, said, text, tuning, wire, with};

#[test]
fn requests_run_side_by_side() {
    const THREADS: usize = 16;
    let server = Server::start(|_, mut peer| {
        peer.greet(&[])?;
        for _ in 0..10 {
            // Not one is answered before all are there.
            let mut streams = Vec::new();
            while streams.len() < THREADS {
                streams.push(peer.request()?);
            }
            for stream in streams.into_iter().rev() {
                peer.answer(stream, &format!("{stream}"))?;
            }
        }
        peer.hold();
        Ok(())
    });
    let transport = plain();
    let mut streams: Vec<u32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    (0..10)
                        .map(|_| text(&transport, get(&server.url("/"))).parse().unwrap())
                        .collect::<Vec<u32>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    streams.sort_unstable();
    let expected: Vec<u32> = (0..160).map(|number| 2 * number + 1).collect();
    assert_eq!(streams, expected);
    assert_eq!(server.connections(), 1);
}

#[test]
fn what_is_beyond_the_servers_limit_goes_over_another_connection() {
    for limit in [1, 2] {
        let server = Server::start(move |_, mut peer| {
            peer.greet(&[(setting::MAX_CONCURRENT_STREAMS, limit)])?;
            let mut open = 0;
            loop {
                let frame = peer.frame()?;
                match frame.kind {
                    kind::HEADERS => {
                        open += 1;
                        assert!(open <= limit, "more than {limit} at a time");
                        peer.headers(frame.stream, 200, &[], 0)?;
                        peer.data(frame.stream, b"unfinished", 0)?;
                    }
                    kind::RST_STREAM => open -= 1,
                    _ => {}
                }
            }
        });
        let transport = plain();
        // All held by one thread: waiting for one to end would be waiting for ever.
        let mut held: Vec<_> = (0..5)
            .map(|_| transport.exchange(get(&server.url("/"))).unwrap())
            .collect();
        let expected = 5usize.div_ceil(limit as usize);
        assert_eq!(server.connections(), expected);
        // A place that becomes free is used.
        held.remove(0);
        held.push(transport.exchange(get(&server.url("/"))).unwrap());
        assert_eq!(server.connections(), expected);
    }
}

#[test]
fn a_server_that_allows_nothing_is_waited_for_and_given_up() {
    let server = Server::start(|_, mut peer| {
        peer.greet(&[(setting::MAX_CONCURRENT_STREAMS, 0)])?;
        peer.hold();
        Ok(())
    });
    let transport = with(tuning().idle_timeout(Duration::from_millis(200)));
    transport.probe(&server.url("/").parse().unwrap()).unwrap();
    let err = transport.exchange(get(&server.url("/"))).unwrap_err();
    assert_eq!((err.stage(), err.sent()), (Some(Stage::Send), 0), "{}", said(&err));
}

#[test]
fn pings_are_answered_between_calls() {
    let answered = Gate::new();
    let gate = answered.clone();
    let server = Server::start(move |_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        peer.answer(stream, "first")?;
        for _ in 0..3 {
            peer.send(kind::PING, 0, 0, b"are you?")?;
            while !peer.until(kind::PING)?.has(flag::ACK) {}
            peer.settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 20)])?;
            while !peer.until(kind::SETTINGS)?.has(flag::ACK) {}
        }
        gate.open();
        let stream = peer.request()?;
        peer.answer(stream, "second")
    });
    let transport = plain();
    assert_eq!(text(&transport, get(&server.url("/"))), "first");
    answered.wait();
    let response = transport.exchange(get(&server.url("/"))).unwrap();
    assert!(wire(&response).reused);
    assert_eq!(read(response).unwrap(), "second".as_bytes());
}

#[test]
fn a_connection_that_went_away_between_calls_is_not_used() {
    for says_so in [true, false] {
        let gone = Gate::new();
        let gate = gone.clone();
        let server = Server::start(move |number, mut peer| {
            peer.greet(&[])?;
            let stream = peer.request()?;
            peer.answer(stream, "served")?;
            if number == 0 {
                if says_so {
                    peer.goaway(stream, NO_ERROR)?;
                }
                drop(peer);
                gate.open();
                return Ok(());
            }
            peer.hold();
            Ok(())
        });
        let transport = plain();
        assert_eq!(text(&transport, get(&server.url("/"))), "served");
        gone.wait();
        // It can't be replayed, and need not be.
        let response = transport
            .exchange(post(&server.url("/"), Body::stream(None, &b"abc"[..])))
            .unwrap();
        assert_eq!((wire(&response).reused, wire(&response).resent), (false, 0));
        assert_eq!(read(response).unwrap(), b"served");
    }
}

#[test]
fn a_body_that_takes_its_time_holds_nobody_up() {
    struct Late(Gate, Gate);
    impl Read for Late {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            if self.0.is_open() {
                return Ok(0);
            }
            self.1.open();
            self.0.wait();
            buf[0] = b'x';
            Ok(1)
        }
    }
    let server = Server::start(|_, mut peer| {
        peer.greet(&[])?;
        let mut posted = 0;
        loop {
            let frame = peer.frame()?;
            match frame.kind {
                kind::HEADERS if frame.has(flag::END_STREAM) => peer.answer(frame.stream, "got")?,
                kind::HEADERS => posted = frame.stream,
                kind::DATA if frame.has(flag::END_STREAM) => peer.answer(posted, "posted")?,
                _ => {}
            }
        }
    });
    let (done, blocking) = (Gate::new(), Gate::new());
    let transport = plain();
    std::thread::scope(|scope| {
        let body = Body::stream(None, (&b"first piece"[..]).chain(Late(done.clone(), blocking.clone())));
        let upload = scope.spawn(|| text(&transport, post(&server.url("/"), body)));
        blocking.wait();
        for _ in 0..20 {
            assert_eq!(text(&transport, get(&server.url("/"))), "got");
        }
        done.open();
        assert_eq!(upload.join().unwrap(), "posted");
    });
    assert_eq!(server.connections(), 1);
}

#[test]
fn dropping_an_answer_resets_its_stream() {
    let server = Server::start(|_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        peer.headers(stream, 200, &[], 0)?;
        peer.data(stream, &[b'x'; 10_000], 0)?;
        let reset = peer.until(kind::RST_STREAM)?;
        assert_eq!((reset.stream, reset.number_at(0)), (stream, CANCEL));
        let stream = peer.request()?;
        peer.answer(stream, "next")
    });
    let transport = plain();
    let mut answer = transport.exchange(get(&server.url("/"))).unwrap().into_body();
    answer.read_exact(&mut [0; 10]).unwrap();
    drop(answer);
    assert_eq!(text(&transport, get(&server.url("/"))), "next");
}

#[test]
fn connections_end_with_their_transport_or_of_old_age() {
    for (age, drops) in [(Duration::from_secs(3600), true), (Duration::from_millis(100), false)] {
        let (polite, gone) = (Gate::new(), Gate::new());
        let gates = (polite.clone(), gone.clone());
        let server = Server::start(move |_, mut peer| {
            peer.greet(&[])?;
            let stream = peer.request()?;
            peer.answer(stream, "served")?;
            let goaway = peer.until(kind::GOAWAY)?;
            assert_eq!(goaway.number_at(4), NO_ERROR);
            gates.0.open();
            peer.hold();
            gates.1.open();
            Ok(())
        });
        let transport = with(tuning().idle_age(age));
        assert_eq!(text(&transport, get(&server.url("/"))), "served");
        if drops {
            drop(transport);
        }
        polite.wait();
        gone.wait();
    }
}

#[test]
fn an_answer_outlives_its_transport() {
    let dropped = Gate::new();
    let gate = dropped.clone();
    let server = Server::start(move |_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        peer.headers(stream, 200, &[], 0)?;
        gate.wait();
        peer.data(stream, b"still here", flag::END_STREAM)?;
        peer.hold();
        Ok(())
    });
    let transport = plain();
    let answer = transport.exchange(get(&server.url("/"))).unwrap();
    drop(transport);
    dropped.open();
    assert_eq!(read(answer).unwrap(), b"still here");
}
