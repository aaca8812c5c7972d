//! Idle connections that are asked whether they are still there.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rgit_testkit::{
    frames::{Peer, Server, flag, kind},
    scripted::Gate,
};
use rgit_transport::Transport;

use crate::support::{get, read, text, tuning, wire, with};

const OFTEN: Duration = Duration::from_millis(50);

/// The next PING that asks.
fn asked(peer: &mut Peer) -> std::io::Result<()> {
    while peer.until(kind::PING)?.has(flag::ACK) {}
    Ok(())
}

#[test]
fn an_idle_connection_is_asked_again_and_again_and_serves_on() {
    let alive = Gate::new();
    let gate = alive.clone();
    let server = Server::start(move |_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        peer.answer(stream, "first")?;
        for _ in 0..5 {
            asked(&mut peer)?;
        }
        gate.open();
        let stream = peer.request()?;
        peer.answer(stream, "second")
    });
    let transport = with(tuning().ping_interval(OFTEN));
    assert_eq!(text(&transport, get(&server.url("/"))), "first");
    alive.wait();
    let response = transport.exchange(get(&server.url("/"))).unwrap();
    assert!(wire(&response).reused);
    assert_eq!(read(response).unwrap(), b"second");
    assert_eq!(server.connections(), 1);
}

#[test]
fn one_that_does_not_answer_is_dropped_and_nobody_runs_into_it() {
    let dropped = Gate::new();
    let gate = dropped.clone();
    let server = Server::start(move |number, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        peer.answer(stream, "served")?;
        // As a path that lets nothing through any more; the one who asked goes all the same.
        peer.polite = number > 0;
        peer.hold();
        if number == 0 {
            gate.open();
        }
        Ok(())
    });
    let transport = with(tuning().ping_interval(OFTEN).ping_patience(Duration::from_millis(200)));
    assert_eq!(text(&transport, get(&server.url("/"))), "served");
    dropped.wait();
    let response = transport.exchange(get(&server.url("/"))).unwrap();
    assert!(!wire(&response).reused);
    assert_eq!(read(response).unwrap(), b"served");
    assert_eq!(server.connections(), 2);
}

#[test]
fn nobody_is_asked_where_that_is_not_wanted() {
    // The first PING measures the round trip. What ends the count is the connection's age.
    for (interval, often) in [(Duration::ZERO, false), (OFTEN, true)] {
        let (asked, gone) = (Arc::new(AtomicUsize::new(0)), Gate::new());
        let (count, gate) = (asked.clone(), gone.clone());
        let server = Server::start(move |_, mut peer| {
            peer.greet(&[])?;
            let stream = peer.request()?;
            peer.answer(stream, "served")?;
            while let Ok(frame) = peer.frame() {
                if frame.kind == kind::PING && !frame.has(flag::ACK) {
                    count.fetch_add(1, Ordering::SeqCst);
                }
            }
            gate.open();
            Ok(())
        });
        let transport = with(tuning().ping_interval(interval).idle_age(Duration::from_secs(1)));
        assert_eq!(text(&transport, get(&server.url("/"))), "served");
        gone.wait();
        let asked = asked.load(Ordering::SeqCst);
        assert_eq!(asked > 1, often, "{asked} at {interval:?}");
    }
}

#[test]
fn a_silent_server_at_work_is_not_taken_for_a_lost_one() {
    let server = Server::start(|_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        // For longer than an idle connection would be waited for.
        peer.polite = false;
        // The pause is the server's silence itself.
        std::thread::park_timeout(Duration::from_millis(600));
        peer.answer(stream, "late")?;
        peer.polite = true;
        peer.hold();
        Ok(())
    });
    let transport = with(tuning().ping_interval(OFTEN).ping_patience(Duration::from_millis(100)));
    assert_eq!(text(&transport, get(&server.url("/"))), "late");
    assert_eq!(server.connections(), 1);
}
