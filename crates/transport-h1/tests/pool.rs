//! How many connections are kept, and for how long.

use std::{
    io::Read,
    sync::Arc,
    time::{Duration, Instant},
};

use rgit_dial::Dialer;
use rgit_testkit::scripted::{Server, Step};
use rgit_transport::{Body, Transport, Wire};
use rgit_transport_h1::{H1, PoolSettings, Settings};

fn server() -> Server {
    Server::start(|_| {
        vec![Step::serve(|_| {
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx".to_vec()
        })]
    })
}

fn transport(pool: PoolSettings) -> H1 {
    let dialer = Dialer::new(rgit_dial::Settings::default()).unwrap();
    H1::new(Arc::new(dialer), Settings::default().pool(pool))
}

/// Exchanges that are all under way at once: how many found a connection ready.
fn at_once(transport: &H1, server: &Server, count: usize) -> usize {
    let begun: Vec<_> = (0..count)
        .map(|_| {
            let request = http::Request::get(server.url("/")).body(Body::Empty).unwrap();
            transport.exchange(request).unwrap()
        })
        .collect();
    let reused = begun
        .iter()
        .filter(|answer| answer.extensions().get::<Wire>().unwrap().reused)
        .count();
    for answer in begun {
        assert_eq!(answer.into_body().read(&mut [0; 10]).unwrap(), 1);
    }
    reused
}

#[test]
fn as_many_are_kept_as_allowed() {
    for (kept, reused) in [(0, 0), (2, 2), (64, 5)] {
        let (server, transport) = (server(), transport(PoolSettings::default().idle_per_origin(kept)));
        assert_eq!(at_once(&transport, &server, 5), 0);
        assert_eq!(at_once(&transport, &server, 5), reused);
        assert_eq!(server.connections(), 10 - reused);
    }
}

#[test]
fn each_origin_has_its_own() {
    let (one, other) = (server(), server());
    let transport = transport(PoolSettings::default().idle_per_origin(1));
    for turn in 0..3 {
        let expected = usize::from(turn > 0);
        assert_eq!(
            [&one, &other].map(|server| at_once(&transport, server, 1)),
            [expected; 2]
        );
    }
}

#[test]
fn the_old_are_not_used() {
    let (server, transport) = (server(), transport(PoolSettings::default().idle_age(Duration::ZERO)));
    for _ in 0..3 {
        assert_eq!(at_once(&transport, &server, 1), 0);
    }
    assert_eq!(server.connections(), 3);
}

#[test]
fn connections_end_with_their_transport() {
    let gone = rgit_testkit::scripted::Gate::new();
    let gate = gone.clone();
    let server = Server::start(move |_| {
        let answer = Step::write("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
        vec![Step::ReadRequest, answer, Step::ReadToEnd, Step::Open(gate.clone())]
    });
    let transport = transport(PoolSettings::default());
    at_once(&transport, &server, 1);
    let begun = Instant::now();
    drop(transport);
    gone.wait();
    assert!(begun.elapsed() < Duration::from_secs(30));
}
