//! Windows: what the peer allows, and what an upload does with it.

use std::{io::Read, time::Duration};

use rgit_testkit::{
    frames::{Server, flag, kind, setting},
    scripted::Gate,
};
use rgit_transport::{Body, PeerSettings, Stage, Transport};

use crate::support::{endless, get, pattern, plain, post, read, said, tuning, wire, with};

#[test]
fn one_byte_windows_are_used_to_the_last() {
    let server = Server::start(|_, mut peer| {
        peer.greet(&[(setting::INITIAL_WINDOW_SIZE, 1)])?;
        let stream = peer.request()?;
        let mut body = Vec::new();
        loop {
            let frame = peer.until(kind::DATA)?;
            // What left before our SETTINGS arrived obeyed the protocol's default.
            body.extend_from_slice(&frame.payload);
            if frame.has(flag::END_STREAM) {
                break;
            }
            peer.window_update(stream, 1)?;
        }
        peer.headers(stream, 200, &[], 0)?;
        peer.data(stream, &body, flag::END_STREAM)
    });
    let transport = plain();
    let data = pattern(300);
    // The first exchange waits for the SETTINGS.
    transport.probe(&server.url("/").parse().unwrap()).unwrap();
    let response = transport
        .exchange(post(&server.url("/"), Body::stream(None, &data[..])))
        .unwrap();
    let wire = wire(&response);
    assert_eq!((wire.sent, wire.peer.unwrap().initial_window), (300, 1));
    assert!(wire.starved > Duration::ZERO);
    assert_eq!(read(response).unwrap(), data);
}

/// Yields a few bytes first, as a program does that writes a head before it computes the rest.
struct Hesitant<R>(R, bool);

impl<R: Read> Read for Hesitant<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = if std::mem::replace(&mut self.1, true) {
            buffer.len()
        } else {
            300
        };
        let most = most.min(buffer.len());
        self.0.read(&mut buffer[..most])
    }
}

#[test]
fn each_round_trip_uses_the_whole_window_of_a_server_that_gives_it_back_by_halves() {
    const WINDOW: usize = 65_535;
    const BODY: usize = 20 * WINDOW;
    let (tell, told) = std::sync::mpsc::channel();
    let server = Server::start(move |_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        let (mut granted, mut unacknowledged, mut got, mut rounds) = (WINDOW, 0, 0, 0);
        // The first time it is slow to look, and sees three quarters used.
        let mut least = WINDOW * 3 / 4;
        while got < BODY {
            // All that is allowed arrives at once, and the answer to it is a round trip away.
            let (burst, mut released) = (granted.min(BODY - got), 0);
            let mut arrived = 0;
            while arrived < burst {
                let frame = peer.until(kind::DATA)?;
                arrived += frame.payload.len();
                unacknowledged += frame.payload.len();
                if unacknowledged >= least {
                    least = WINDOW / 2;
                    released += std::mem::take(&mut unacknowledged);
                }
            }
            got += arrived;
            granted = granted - arrived + released;
            rounds += 1;
            if released > 0 {
                peer.window_update(0, u32::try_from(released).unwrap())?;
                peer.window_update(stream, u32::try_from(released).unwrap())?;
            }
        }
        let _ = tell.send(rounds);
        peer.answer(stream, "done")
    });
    let body = Hesitant(endless(BODY as u64), false);
    let response = plain()
        .exchange(post(&server.url("/"), Body::stream(None, body)))
        .unwrap();
    assert_eq!(read(response).unwrap(), b"done");
    let rounds: usize = told.recv().unwrap();
    // A window of an odd number of bytes has halves of one byte less; the second round trip has but what the first gave back.
    assert!(rounds <= BODY.div_ceil(WINDOW - 1) + 1, "{rounds} round trips");
}

#[test]
fn a_window_below_zero_stops_the_sending_until_it_is_above() {
    let server = Server::start(|_, mut peer| {
        peer.greet(&[(setting::INITIAL_WINDOW_SIZE, 50_000)])?;
        let stream = peer.request()?;
        let mut got = peer.body(50_000)?;
        // 50,000 were granted and used: now it is 49,990 below zero, and a grant of 49,990 does not lift it above.
        peer.settings(&[(setting::INITIAL_WINDOW_SIZE, 10)])?;
        peer.window_update(stream, 49_990)?;
        peer.send(kind::PING, 0, 0, b"in order")?;
        loop {
            let frame = peer.frame()?;
            assert_ne!(frame.kind, kind::DATA, "nothing may be sent now");
            if frame.kind == kind::PING && frame.has(flag::ACK) {
                break;
            }
        }
        peer.window_update(0, 1_000_000)?;
        peer.window_update(stream, 1_000_000)?;
        while got < 200_000 {
            got += peer.body(1)?;
        }
        peer.answer(stream, "all of it")
    });
    let transport = plain();
    transport.probe(&server.url("/").parse().unwrap()).unwrap();
    let response = transport
        .exchange(post(&server.url("/"), Body::stream(None, endless(200_000))))
        .unwrap();
    assert_eq!(wire(&response).sent, 200_000);
    assert_eq!(read(response).unwrap(), b"all of it");
}

#[test]
fn settings_in_the_middle_of_an_upload_count_at_once() {
    let server = Server::start(|_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        peer.body(65_535)?;
        peer.settings(&[
            (setting::INITIAL_WINDOW_SIZE, 16 << 20),
            (setting::MAX_FRAME_SIZE, 1 << 20),
        ])?;
        peer.window_update(0, 16 << 20)?;
        let (mut got, mut largest) = (65_535, 0);
        while got < 10_000_000 {
            let frame = peer.until(kind::DATA)?;
            got += frame.payload.len();
            largest = largest.max(frame.payload.len());
        }
        assert!(largest > 16_384, "frames stayed at {largest}");
        peer.answer(stream, "all of it")
    });
    let body = Body::stream(Some(10_000_000), endless(10_000_000));
    let response = plain().exchange(post(&server.url("/"), body)).unwrap();
    assert_eq!(read(response).unwrap(), b"all of it");
}

#[test]
fn what_the_peer_allows_is_told_exactly() {
    let server = Server::start(|_, mut peer| {
        peer.greet(&[
            (setting::INITIAL_WINDOW_SIZE, 70_001),
            (setting::MAX_FRAME_SIZE, 32_769),
            (setting::MAX_CONCURRENT_STREAMS, 7),
        ])?;
        peer.window_update(0, 100_000)?;
        loop {
            let stream = peer.request()?;
            peer.answer(stream, "x")?;
        }
    });
    let expected = PeerSettings::new(70_001, 165_535, 32_769).max_concurrent_streams(Some(7));
    let transport = plain();
    let probe = transport.probe(&server.url("/").parse().unwrap()).unwrap();
    assert_eq!((probe.peer, probe.tls, probe.alpn), (Some(expected), None, None));
    assert!(probe.ping.is_some_and(|ping| ping > Duration::ZERO));
    for body in [Body::Empty, Body::full(pattern(5000))] {
        let response = transport.exchange(post(&server.url("/"), body)).unwrap();
        assert_eq!(
            wire(&response).peer,
            Some(expected),
            "what was used of a window makes it no smaller"
        );
        assert!(wire(&response).round_trip <= probe.ping, "the smallest PING so far");
        read(response).unwrap();
    }
    assert_eq!(server.connections(), 1, "the probe's connection serves on");
}

/// CPU time of the calling thread, where the system tells.
fn cpu() -> Option<Duration> {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = schedstat.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[test]
fn a_starved_upload_costs_no_cpu_and_says_that_it_starves() {
    let server = Server::start(|_, mut peer| {
        peer.greet(&[])?;
        peer.hold();
        Ok(())
    });
    let idle = Duration::from_secs(2);
    let transport = with(tuning().idle_timeout(idle));
    let before = cpu();
    let err = transport
        .exchange(post(&server.url("/"), Body::stream(None, endless(300_000_000))))
        .unwrap_err();
    assert_eq!((err.stage(), err.sent()), (Some(Stage::Send), 65_535), "{}", said(&err));
    assert!(said(&err).contains("window"), "{}", said(&err));
    // Waiting took two seconds; a busy loop would have used them up.
    match before.zip(cpu()) {
        Some((before, after)) => assert!(after - before < idle / 20, "{:?}", after - before),
        None => skip("this system does not tell a thread's CPU time"),
    }
}

#[allow(clippy::print_stderr, reason = "a skipped test says why")]
fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

#[test]
fn starving_is_measured() {
    let (starving, waited) = (Gate::new(), Gate::new());
    let (seen, go) = (starving.clone(), waited.clone());
    let server = Server::start(move |_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        peer.body(65_535)?;
        seen.open();
        go.wait();
        peer.window_update(0, 1_000_000)?;
        peer.window_update(stream, 1_000_000)?;
        peer.body(100_000 - 65_535)?;
        peer.answer(stream, "done")
    });
    const PAUSE: Duration = Duration::from_millis(200);
    let opener = std::thread::spawn(move || {
        starving.wait();
        // Not for synchronisation: it is what is measured.
        std::thread::sleep(PAUSE);
        waited.open();
    });
    let response = plain()
        .exchange(post(&server.url("/"), Body::stream(None, endless(100_000))))
        .unwrap();
    opener.join().unwrap();
    assert!(wire(&response).starved >= PAUSE / 2, "{:?}", wire(&response));
    assert_eq!(read(response).unwrap(), b"done");
    // What the network takes at once starves nobody.
    let server = Server::start(|_, mut peer| {
        peer.greet(&[(setting::INITIAL_WINDOW_SIZE, 16 << 20)])?;
        peer.window_update(0, 16 << 20)?;
        let stream = peer.request()?;
        peer.body(1_000_000)?;
        peer.answer(stream, "done")
    });
    let transport = plain();
    transport.probe(&server.url("/").parse().unwrap()).unwrap();
    let response = transport
        .exchange(post(
            &server.url("/"),
            Body::stream(Some(1_000_000), endless(1_000_000)),
        ))
        .unwrap();
    assert_eq!(wire(&response).starved, Duration::ZERO);
}

#[test]
fn our_windows_and_frames_are_announced() {
    let server = Server::start(|_, mut peer| {
        peer.read_preface()?;
        let settings = peer.until(kind::SETTINGS)?;
        let told: Vec<(u16, u32)> = settings
            .payload
            .chunks(6)
            .map(|chunk| {
                (
                    u16::from_be_bytes([chunk[0], chunk[1]]),
                    u32::from_be_bytes(chunk[2..].try_into().unwrap()),
                )
            })
            .collect();
        assert!(told.contains(&(setting::INITIAL_WINDOW_SIZE, 1 << 20)), "{told:?}");
        assert!(told.contains(&(setting::MAX_FRAME_SIZE, 32_768)), "{told:?}");
        assert!(told.contains(&(2, 0)), "no server push: {told:?}");
        peer.settings(&[])?;
        let update = peer.until(kind::WINDOW_UPDATE)?;
        assert_eq!((update.stream, update.number_at(0)), (0, (1 << 21) - 65_535));
        let stream = peer.request()?;
        peer.headers(stream, 200, &[], 0)?;
        // All of the window at once, and half of it again after it was read.
        for _ in 0..32 {
            peer.data(stream, &[b'x'; 32_768], 0)?;
        }
        let mut granted = 0;
        while granted < 1 << 19 {
            let update = peer.until(kind::WINDOW_UPDATE)?;
            if update.stream == stream {
                granted += update.number_at(0);
            }
        }
        peer.data(stream, b"", flag::END_STREAM)
    });
    let tuning = tuning()
        .stream_window(1 << 20)
        .connection_window(1 << 21)
        .max_frame_size(32_768);
    let mut answer = with(tuning).exchange(get(&server.url("/"))).unwrap().into_body();
    let mut got = Vec::new();
    answer.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), 1 << 20);
}
