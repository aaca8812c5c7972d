//! TLS 1.3 early data: which requests go so, and what becomes of them where the server doesn't play along.

use std::{
    io::Read,
    sync::Arc,
    time::{Duration, Instant},
};

use http::request::Builder;
use rgit_dial::Dialer;
use rgit_testkit::{
    certificate::Authority,
    early::{Mood, Seen, Server},
};
use rgit_transport::{Body, Early, EarlyData, Error, Repeatable, Stage, Transport, Wire};
use rgit_transport_h1::{H1, Settings};

/// A server, and who trusts it.
struct World {
    server: Server,
    settings: rgit_dial::Settings,
    transport: H1,
    _files: tempfile::TempDir,
}

impl World {
    /// The first connection's handshake is as usual; it brings the tickets. `mood` is what those after it are in.
    fn new(mood: Mood) -> World {
        World::with(
            move |connection| if connection == 0 { Mood::Takes } else { mood },
            closing,
        )
    }

    fn with(
        moods: impl Fn(usize) -> Mood + Send + Sync + 'static,
        answers: impl Fn(&Seen) -> String + Send + Sync + 'static,
    ) -> World {
        let authority = Authority::new();
        let files = tempfile::tempdir().unwrap();
        let settings = rgit_dial::Settings::default()
            .ca_file(authority.write_ca(files.path()))
            .early_data(true);
        World {
            server: Server::start(&authority, moods, answers),
            transport: transport(&settings),
            settings,
            _files: files,
        }
    }

    fn get(&self) -> Builder {
        http::Request::get(self.server.url("/refs")).extension(Early)
    }

    /// What came of a request, read to its end.
    fn ask(&self, request: Builder, body: Body<'_>) -> Result<(u16, String, Wire), Error> {
        ask(&self.transport, request, body)
    }

    /// Go and get tickets.
    fn begin(&self) {
        let (status, _, wire) = self.ask(self.get(), Body::Empty).unwrap();
        assert_eq!((status, wire.early_data), (200, EarlyData::Unused));
    }

    /// Of all requests: on which connection, and whether early.
    fn seen(&self) -> Vec<(usize, bool)> {
        let seen = self.server.seen();
        seen.iter().map(|seen| (seen.connection, seen.early)).collect()
    }
}

fn transport(settings: &rgit_dial::Settings) -> H1 {
    H1::new(Arc::new(Dialer::new(settings.clone()).unwrap()), Settings::default())
}

fn ask(transport: &H1, request: Builder, body: Body<'_>) -> Result<(u16, String, Wire), Error> {
    let response = transport.exchange(request.body(body).unwrap())?;
    let (status, wire) = (response.status(), *response.extensions().get::<Wire>().unwrap());
    let mut text = String::new();
    response.into_body().read_to_string(&mut text).unwrap();
    Ok((status.as_u16(), text, wire))
}

/// An answer after which another connection is needed.
fn closing(seen: &Seen) -> String {
    answer(
        "200 OK",
        "Connection: close\r\n",
        &format!("to {}", seen.head.lines().next().unwrap_or("")),
    )
}

fn answer(status: &str, headers: &str, text: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{text}",
        text.len()
    )
}

#[test]
fn a_request_that_may_goes_with_the_handshake_and_spares_a_round_trip() {
    let world = World::new(Mood::Takes);
    world.begin();
    // One for each ticket.
    for _ in 0..2 {
        let (status, text, wire) = world.ask(world.get(), Body::Empty).unwrap();
        assert_eq!((status, text.as_str()), (200, "to GET /refs HTTP/1.1"));
        assert_eq!(
            (wire.early_data, wire.resent, wire.reused),
            (EarlyData::Accepted, 0, false)
        );
        assert!(wire.dial_time.is_some());
    }
    let round_trips: Vec<_> = world.server.seen().iter().map(|seen| seen.flights + 1).collect();
    assert_eq!(round_trips, [2, 1, 1], "after TCP's own");
    assert_eq!(world.seen(), [(0, false), (1, true), (2, true)]);
}

#[test]
fn a_connection_that_began_early_goes_on_as_any() {
    let world = World::with(
        |_| Mood::Takes,
        |seen| {
            let close = if seen.connection == 0 {
                "Connection: close\r\n"
            } else {
                ""
            };
            answer("200 OK", close, &"x".repeat(1_000_000))
        },
    );
    world.begin();
    for (early_data, reused) in [
        (EarlyData::Accepted, false),
        (EarlyData::Unused, true),
        (EarlyData::Unused, true),
    ] {
        let (_, text, wire) = world.ask(world.get(), Body::Empty).unwrap();
        assert_eq!(text.len(), 1_000_000);
        assert_eq!((wire.early_data, wire.reused, wire.resent), (early_data, reused, 0));
    }
    assert_eq!(world.seen(), [(0, false), (1, true), (1, false), (1, false)]);
}

#[test]
fn what_the_server_does_not_take_is_sent_after_the_handshake_and_processed_once() {
    for (mood, resumed) in [(Mood::Refuses, true), (Mood::Forgets, false)] {
        let world = World::new(mood);
        world.begin();
        let (status, text, wire) = world.ask(world.get(), Body::Empty).unwrap();
        assert_eq!((status, text.as_str()), (200, "to GET /refs HTTP/1.1"), "{mood:?}");
        assert_eq!((wire.early_data, wire.resent), (EarlyData::Rejected, 0), "{mood:?}");
        assert_eq!(world.seen(), [(0, false), (1, false)], "{mood:?}");
        let seen = world.server.seen();
        assert_eq!((seen[1].flights, seen[1].resumed), (1, resumed), "{mood:?}");
    }
}

#[test]
fn only_what_may_goes_early() {
    let world = World::new(Mood::Takes);
    world.begin();
    let url = world.server.url("/refs");
    let requests = [
        (http::Request::get(&url), Body::Empty),
        (http::Request::get(&url).extension(Repeatable), Body::Empty),
        (http::Request::get(&url).extension(Early), Body::full("x")),
        (http::Request::post(&url).extension(Early), Body::Empty),
        (http::Request::post(&url).extension(Early), Body::full("x")),
        (
            http::Request::post(&url).extension(Early).extension(Repeatable),
            Body::full("x"),
        ),
    ];
    for (number, (request, body)) in requests.into_iter().enumerate() {
        let (status, _, wire) = world.ask(request, body).unwrap();
        assert_eq!((status, wire.early_data), (200, EarlyData::Unused), "{number}");
        let seen = world.server.seen().pop().unwrap();
        assert_eq!((seen.early, seen.resumed), (false, true), "{number}");
    }
    // Not for want of tickets.
    let (_, _, wire) = world.ask(world.get(), Body::Empty).unwrap();
    assert_eq!(wire.early_data, EarlyData::Accepted);
}

#[test]
fn nothing_goes_early_unless_the_dialer_was_told_so() {
    let world = World::new(Mood::Takes);
    let cautious = transport(&world.settings.clone().early_data(false));
    for resumed in [false, true, true] {
        let (_, _, wire) = ask(&cautious, world.get(), Body::Empty).unwrap();
        assert_eq!(wire.early_data, EarlyData::Unused);
        let seen = world.server.seen().pop().unwrap();
        assert_eq!((seen.early, seen.resumed), (false, resumed));
    }
}

#[test]
fn tickets_serve_their_own_dialer_only() {
    let world = World::new(Mood::Takes);
    world.begin();
    // Whoever trusts otherwise has another one; so has whoever trusts the same.
    let careless = world.settings.clone().verify(rgit_dial::Verify::Off);
    for settings in [careless, world.settings.clone()] {
        let (_, _, wire) = ask(&transport(&settings), world.get(), Body::Empty).unwrap();
        assert_eq!(wire.early_data, EarlyData::Unused);
        let seen = world.server.seen().pop().unwrap();
        assert_eq!((seen.early, seen.resumed), (false, false));
    }
}

#[test]
fn more_than_the_ticket_allows_waits_for_the_handshake() {
    let world = World::new(Mood::Takes);
    world.begin();
    let long = world.get().header("x-long", "x".repeat(10_000));
    let (status, _, wire) = world.ask(long, Body::Empty).unwrap();
    assert_eq!((status, wire.early_data), (200, EarlyData::Unused));
    assert_eq!(world.seen(), [(0, false), (1, false)]);
}

#[test]
fn what_came_too_early_is_sent_again_on_the_same_connection() {
    let world = World::with(
        |_| Mood::Takes,
        |seen| match (seen.connection, seen.early) {
            (0, _) => closing(seen),
            (_, true) => answer("425 Too Early", "", "come back later"),
            (_, false) => answer("200 OK", "", "now"),
        },
    );
    world.begin();
    let (status, text, wire) = world.ask(world.get(), Body::Empty).unwrap();
    assert_eq!((status, text.as_str()), (200, "now"));
    assert_eq!(
        (wire.early_data, wire.resent, wire.reused),
        (EarlyData::Accepted, 1, true)
    );
    assert_eq!(world.seen(), [(0, false), (1, true), (1, false)]);
}

#[test]
fn what_came_too_early_is_sent_again_on_another_connection_where_its_own_ends() {
    let world = World::with(
        |_| Mood::Takes,
        |seen| match seen.early {
            true => answer("425 Too Early", "Connection: close\r\n", "come back later"),
            false => closing(seen),
        },
    );
    world.begin();
    let (status, _, wire) = world.ask(world.get(), Body::Empty).unwrap();
    assert_eq!((status, wire.resent, wire.reused), (200, 1, false));
    assert_eq!(world.seen(), [(0, false), (1, true), (2, false)]);
}

#[test]
fn a_server_to_which_it_is_always_too_early_has_the_last_word() {
    for close in ["", "Connection: close\r\n"] {
        let world = World::with(
            |_| Mood::Takes,
            move |seen| match seen.connection {
                0 => closing(seen),
                _ => answer("425 Too Early", close, "never"),
            },
        );
        world.begin();
        let (status, text, wire) = world.ask(world.get(), Body::Empty).unwrap();
        assert_eq!((status, text.as_str(), wire.resent), (425, "never", 1));
        let early: Vec<_> = world.server.seen().iter().map(|seen| seen.early).collect();
        assert_eq!(early, [false, true, false]);
    }
}

#[test]
fn a_425_to_what_was_not_early_is_an_answer() {
    let world = World::with(|_| Mood::Takes, |_| answer("425 Too Early", "", "never"));
    let (status, text, wire) = world.ask(world.get(), Body::Empty).unwrap();
    assert_eq!((status, text.as_str(), wire.resent), (425, "never", 0));
    assert_eq!(world.seen(), [(0, false)]);
}

#[test]
fn where_the_handshake_breaks_another_is_made_without_and_no_more_is_sent_early() {
    let world = World::with(
        |connection| if connection == 1 { Mood::Breaks } else { Mood::Takes },
        closing,
    );
    world.begin();
    let (status, _, wire) = world.ask(world.get(), Body::Empty).unwrap();
    assert_eq!((status, wire.early_data, wire.resent), (200, EarlyData::Rejected, 1));
    let (status, _, wire) = world.ask(world.get(), Body::Empty).unwrap();
    assert_eq!((status, wire.early_data, wire.resent), (200, EarlyData::Unused, 0));
    assert_eq!(world.seen(), [(0, false), (2, false), (3, false)]);
}

#[test]
fn a_server_that_breaks_every_handshake_is_asked_twice() {
    let world = World::new(Mood::Breaks);
    world.begin();
    let err = world.ask(world.get(), Body::Empty).unwrap_err();
    assert_eq!(err.stage(), Some(Stage::Tls), "{err}");
    assert_eq!(world.server.connections(), 3);
}

#[test]
fn a_server_that_hangs_is_given_up_with_the_connect_timeout() {
    let mut world = World::new(Mood::Hangs);
    // Long enough for the handshakes that do come to an end.
    let timeout = Duration::from_millis(1500);
    world.transport = transport(&world.settings.clone().connect_timeout(timeout));
    world.begin();
    let begun = Instant::now();
    let err = world.ask(world.get(), Body::Empty).unwrap_err();
    assert_eq!(err.stage(), Some(Stage::Tls), "{err}");
    assert!(begun.elapsed() >= timeout, "{:?}", begun.elapsed());
    assert_eq!(world.server.connections(), 2, "it is not asked a second time");
}

#[test]
fn where_no_answer_comes_to_early_data_it_is_sent_once_more_without() {
    let world = World::with(
        |connection| if connection == 1 { Mood::Leaves } else { Mood::Takes },
        closing,
    );
    world.begin();
    let (status, _, wire) = world.ask(world.get(), Body::Empty).unwrap();
    assert_eq!((status, wire.early_data, wire.resent), (200, EarlyData::Accepted, 1));
    assert_eq!(world.seen(), [(0, false), (1, true), (2, false)]);

    let world = World::new(Mood::Leaves);
    world.begin();
    let err = world.ask(world.get(), Body::Empty).unwrap_err();
    assert_eq!(err.stage(), Some(Stage::Wait), "{err}");
    assert_eq!(world.seen(), [(0, false), (1, true), (2, false)]);
}
