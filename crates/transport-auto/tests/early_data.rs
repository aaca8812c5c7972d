//! TLS 1.3 early data by way of the daemon, whose tickets outlive its clients.
#![cfg(unix)]

use std::{io::Read, path::PathBuf, time::Duration};

use http::request::Builder;
use rgit_testkit::{
    certificate::Authority,
    early::{Mood, Seen, Server},
};
use rgit_transport::{Body, Early, EarlyData, Transport, Wire};
use rgit_transport_auto::{
    Choice, DaemonChoice, Name, choose,
    daemon::{Daemon, Handle, Settings, SocketPath, Upkeep, factory},
};

struct World {
    server: Server,
    place: SocketPath,
    authorities: PathBuf,
    handle: Handle,
    _files: tempfile::TempDir,
}

impl World {
    fn new(answers: impl Fn(&Seen) -> String + Send + Sync + 'static) -> World {
        let authority = Authority::new();
        let files = tempfile::tempdir().expect("a directory");
        let place = SocketPath::within(files.path().join("rgit"));
        let listener = Daemon::bind(&place).expect("a socket");
        let mut settings = Settings::default();
        // A connection made ahead would spare even more.
        settings.reopen = Duration::ZERO;
        let daemon = Daemon::new(listener, place.clone(), factory(Upkeep::default()), settings).expect("a daemon");
        let handle = daemon.handle();
        std::thread::spawn(move || daemon.run().expect("it leaves when it is told to"));
        World {
            server: Server::start(&authority, |_| Mood::Takes, answers),
            place,
            authorities: authority.write_ca(files.path()),
            handle,
            _files: files,
        }
    }

    /// Another client's request, each with a transport of its own: what came of it.
    fn ask(&self, request: Builder, configure: impl FnOnce(&mut Choice)) -> (u16, Wire) {
        let mut daemon = DaemonChoice::default();
        self.place.directory().clone_into(&mut daemon.directory);
        daemon.early_data = true;
        let mut choice = Choice::default();
        choice.name = Name::Auto;
        choice.ca_file = Some(self.authorities.clone());
        choice.daemon = Some(daemon);
        configure(&mut choice);
        let transport = choose(&choice).expect("a transport");
        let body = Body::Empty;
        let response = transport
            .exchange(request.body(body).expect("a request"))
            .expect("an answer");
        let (status, wire) = (response.status(), response.extensions().get::<Wire>().copied());
        response
            .into_body()
            .read_to_end(&mut Vec::new())
            .expect("the whole of it");
        (status.as_u16(), wire.expect("how it travelled"))
    }

    fn get(&self) -> Builder {
        http::Request::get(self.server.url("/refs")).extension(Early)
    }

    fn last(&self) -> Seen {
        self.server.seen().pop().expect("a request")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.handle.leave();
    }
}

fn closing(_: &Seen) -> String {
    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx".into()
}

#[test]
fn the_mark_crosses_the_hop_and_so_does_what_became_of_it() {
    let world = World::new(closing);
    let (_, wire) = world.ask(world.get(), |_| {});
    assert_eq!((wire.early_data, world.last().early), (EarlyData::Unused, false));
    let (_, wire) = world.ask(world.get(), |_| {});
    assert_eq!((wire.early_data, world.last().early), (EarlyData::Accepted, true));
    assert_eq!((wire.resent, world.last().flights), (0, 0));
    for line in world.server.seen().iter().flat_map(|seen| seen.head.lines()) {
        assert!(!line.contains("rgit-hop"), "{line}");
    }
}

#[test]
fn a_425_is_the_daemons_to_settle() {
    let world = World::new(|seen| match seen.early {
        true => "HTTP/1.1 425 Too Early\r\nContent-Length: 0\r\n\r\n".into(),
        false => closing(seen),
    });
    world.ask(world.get(), |_| {});
    let (status, wire) = world.ask(world.get(), |_| {});
    assert_eq!((status, wire.early_data, wire.resent), (200, EarlyData::Accepted, 1));
}

#[test]
fn a_client_that_wants_none_gets_none() {
    let world = World::new(closing);
    for _ in 0..3 {
        let (_, wire) = world.ask(world.get(), |choice| {
            choice.daemon.as_mut().expect("a daemon").early_data = false;
        });
        assert_eq!((wire.early_data, world.last().early), (EarlyData::Unused, false));
    }
    assert!(world.last().resumed, "not for want of tickets");
}

#[test]
fn what_is_not_marked_waits_for_the_handshake() {
    let world = World::new(closing);
    world.ask(world.get(), |_| {});
    for request in [
        http::Request::get(world.server.url("/refs")),
        http::Request::post(world.server.url("/refs")).extension(Early),
    ] {
        let (_, wire) = world.ask(request, |_| {});
        assert_eq!((wire.early_data, world.last().early), (EarlyData::Unused, false));
    }
    assert!(world.last().resumed, "not for want of tickets");
}

#[test]
fn tickets_of_one_profile_serve_no_other() {
    let world = World::new(closing);
    world.ask(world.get(), |_| {});
    let (_, wire) = world.ask(world.get(), |choice| (choice.ca_file, choice.insecure) = (None, true));
    let seen = world.last();
    assert_eq!(
        (wire.early_data, seen.early, seen.resumed),
        (EarlyData::Unused, false, false)
    );
    let (_, wire) = world.ask(world.get(), |_| {});
    assert_eq!(wire.early_data, EarlyData::Accepted);
}

#[test]
fn a_transport_of_ones_own_sends_early_data_when_it_is_told_to() {
    let world = World::new(closing);
    for (name, early_data) in [
        (Name::H1, true),
        (Name::Auto, true),
        (Name::H1, false),
        (Name::Auto, false),
    ] {
        let mut choice = Choice::default();
        choice.name = name;
        choice.early_data = early_data;
        choice.ca_file = Some(world.authorities.clone());
        let transport = choose(&choice).expect("a transport");
        for turn in 0..2 {
            let request = world.get().body(Body::Empty).expect("a request");
            let response = transport.exchange(request).expect("an answer");
            let wire = *response.extensions().get::<Wire>().expect("how it travelled");
            response
                .into_body()
                .read_to_end(&mut Vec::new())
                .expect("the whole of it");
            let expected = early_data && turn == 1;
            assert_eq!(
                wire.early_data == EarlyData::Accepted,
                expected,
                "{name} {early_data} {turn}"
            );
            assert_eq!(world.last().early, expected);
        }
    }
}
