//! Connections to scripted servers on loopback.

use std::{
    error::Error as _,
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use rgit_dial::{Alpn, Connection, Dialer, Error, Interest, Origin, Settings, Verify};
use rgit_testkit::{
    certificate::Authority,
    scripted::{Gate, Server, Step},
};

const PATIENCE: Duration = Duration::from_secs(60);

fn origin(server: &Server) -> Origin {
    Origin::try_from(&server.url("/").parse().unwrap()).unwrap()
}

/// A TLS server, and a dialer that trusts it.
struct Secure {
    server: Server,
    authority: Authority,
    directory: tempfile::TempDir,
}

impl Secure {
    fn new(names: &[&str], alpn: &[&[u8]], script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static) -> Secure {
        let authority = Authority::new();
        Secure {
            server: Server::start_tls(authority.server_config(names, alpn), script),
            directory: tempfile::tempdir().unwrap(),
            authority,
        }
    }

    fn settings(&self) -> Settings {
        Settings::default().ca_file(self.authority.write_ca(self.directory.path()))
    }

    fn dial(&self, settings: Settings) -> Result<Connection, Error> {
        Dialer::new(settings)?.dial(&origin(&self.server), Alpn::Http1)
    }
}

fn read(connection: &mut Connection, buf: &mut [u8]) -> io::Result<usize> {
    loop {
        match connection.read(buf) {
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                assert!(connection.wait(Interest::READ, PATIENCE)?.any(), "nothing came");
            }
            other => return other,
        }
    }
}

fn write_all(connection: &mut Connection, mut bytes: &[u8]) {
    loop {
        let step = match bytes.is_empty() {
            true => connection.flush().map(|()| 0),
            false => connection.write(bytes),
        };
        match step {
            Ok(0) if bytes.is_empty() => return,
            Ok(count) => bytes = &bytes[count..],
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                assert!(
                    connection.wait(Interest::WRITE, PATIENCE).unwrap().any(),
                    "the peer takes nothing"
                );
            }
            Err(err) => panic!("{err}"),
        }
    }
}

fn to_end(connection: &mut Connection) -> io::Result<Vec<u8>> {
    let (mut all, mut piece) = (Vec::new(), vec![0; 100_000]);
    loop {
        match read(connection, &mut piece)? {
            0 => return Ok(all),
            count => all.extend_from_slice(&piece[..count]),
        }
    }
}

const REQUEST: &[u8] = b"POST / HTTP/1.1\r\ncontent-length: 3000000\r\n\r\n";

fn patterned(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn megabytes_pass_both_ways_plain_and_over_tls() {
    let script = |_| vec![Step::ReadRequest, Step::Write(patterned(3_000_000)), Step::Close];
    let plain = Server::start(script);
    let secure = Secure::new(&["127.0.0.1"], &[], script);
    let dialer = Dialer::new(Settings::default()).unwrap();
    let connections = [
        (dialer.dial(&origin(&plain), Alpn::Http1).unwrap(), &plain),
        (secure.dial(secure.settings()).unwrap(), &secure.server),
    ];
    for (mut connection, server) in connections {
        assert!(connection.round_trip() <= connection.dial_time());
        write_all(&mut connection, REQUEST);
        write_all(&mut connection, &patterned(3_000_000));
        assert!(to_end(&mut connection).unwrap() == patterned(3_000_000));
        let requests = server.requests();
        assert_eq!(requests[0][0].length, 3_000_000);
        assert!(requests[0][0].body == patterned(1 << 20));
    }
}

#[test]
fn a_write_that_finds_no_taker_blocks_instead_of_buffering() {
    let secure = Secure::new(&["127.0.0.1"], &[], |_| vec![]);
    let mut connection = secure.dial(secure.settings()).unwrap();
    let (piece, mut taken) = (vec![0; 1 << 20], 0);
    loop {
        match connection.write(&piece) {
            Ok(count) => taken += count,
            Err(err) => {
                assert_eq!(err.kind(), io::ErrorKind::WouldBlock);
                // The kernel may still make room for a moment.
                if !connection
                    .wait(Interest::WRITE, Duration::from_millis(100))
                    .unwrap()
                    .any()
                {
                    break;
                }
            }
        }
        assert!(taken < 100 << 20, "where do the bytes go?");
    }
}

#[test]
fn a_second_connection_of_a_dialer_resumes_the_session() {
    let secure = Secure::new(&["127.0.0.1"], &[b"http/1.1"], |_| vec![Step::write("x")]);
    let dialer = Dialer::new(secure.settings()).unwrap();
    for (alpn, resumed) in [(Alpn::Http1, false), (Alpn::Http1, true), (Alpn::Http2OrHttp1, true)] {
        let mut connection = dialer.dial(&origin(&secure.server), alpn).unwrap();
        assert_eq!(connection.is_resumed(), resumed, "{alpn:?}");
        assert_eq!(connection.alpn(), Some(&b"http/1.1"[..]));
        // The ticket comes before the first byte.
        assert_eq!(read(&mut connection, &mut [0; 10]).unwrap(), 1);
    }
    let mut other = secure.dial(secure.settings()).unwrap();
    assert!(!other.is_resumed(), "another dialer has another session cache");
    assert_eq!(read(&mut other, &mut [0; 10]).unwrap(), 1);
}

#[test]
fn the_caller_chooses_the_protocol() {
    let secure = Secure::new(&["127.0.0.1"], &[b"h2", b"http/1.1"], |_| vec![]);
    let dialer = Dialer::new(secure.settings()).unwrap();
    for (alpn, agreed) in [
        (Alpn::Http1, &b"http/1.1"[..]),
        (Alpn::Http2, b"h2"),
        (Alpn::Http2OrHttp1, b"h2"),
    ] {
        let connection = dialer.dial(&origin(&secure.server), alpn).unwrap();
        assert_eq!(connection.alpn(), Some(agreed));
    }
}

#[test]
fn certificates_are_checked_and_the_message_says_what_to_do() {
    let expect = |result: Result<Connection, Error>, advice: &str| {
        let err = result.unwrap_err();
        assert!(err.is_tls());
        assert!(matches!(err, Error::Tls { .. }), "{err:?}");
        assert!(err.to_string().contains(advice), "{err}");
        assert!(err.source().is_some());
    };
    let secure = Secure::new(&["127.0.0.1"], &[], |_| vec![]);
    let foreign = tempfile::tempdir().unwrap();
    let other = Settings::default().ca_file(Authority::new().write_ca(foreign.path()));
    expect(secure.dial(other), "http.sslCAInfo");
    let misnamed = Secure::new(&["example.org"], &[], |_| vec![]);
    expect(misnamed.dial(misnamed.settings()), "another name");
    let authority = Authority::new();
    let expired = Server::start_tls(authority.expired_server_config(&["127.0.0.1"], &[]), |_| vec![]);
    let settings = Settings::default().ca_file(authority.write_ca(foreign.path()));
    let dialer = Dialer::new(settings).unwrap();
    expect(dialer.dial(&origin(&expired), Alpn::Http1), "clock");
    let plain = Server::start(|_| vec![Step::write("HTTP/1.1 400 Bad Request\r\n\r\n"), Step::ReadToEnd]);
    let mut https = origin(&plain);
    https.scheme = rgit_dial::Scheme::Https;
    expect(dialer.dial(&https, Alpn::Http1), "does not speak TLS");
    for server in [&secure.server, &misnamed.server, &expired] {
        let unchecked = Dialer::new(Settings::default().verify(Verify::Off)).unwrap();
        assert!(unchecked.dial(&origin(server), Alpn::Http1).unwrap().is_tls());
    }
}

#[test]
fn a_missing_ca_file_is_no_matter_until_tls_is_spoken() {
    let plain = Server::start(|_| vec![]);
    let dialer = Dialer::new(Settings::default().ca_file("/does/not/exist.pem")).unwrap();
    assert!(!dialer.dial(&origin(&plain), Alpn::Http1).unwrap().is_tls());
    let secure = Secure::new(&["127.0.0.1"], &[], |_| vec![]);
    let err = dialer.dial(&origin(&secure.server), Alpn::Http1).unwrap_err();
    assert!(matches!(err, Error::CaFile { .. }));
    assert!(err.to_string().contains("/does/not/exist.pem"), "{err}");
}

#[test]
fn failures_tell_their_stage() {
    let gone = {
        let server = Server::start(|_| vec![]);
        origin(&server)
    };
    let dialer = Dialer::new(Settings::default()).unwrap();
    let err = dialer.dial(&gone, Alpn::Http1).unwrap_err();
    assert!(
        matches!(&err, Error::Connect { tried, .. } if tried.len() == 1) && !err.is_tls(),
        "{err:?}"
    );
    assert!(err.to_string().contains(&gone.to_string()), "{err}");

    let nameless = Origin::try_from(&"http://host.invalid/".parse().unwrap()).unwrap();
    let err = dialer.dial(&nameless, Alpn::Http1).unwrap_err();
    assert!(
        matches!(&err, Error::Resolve { host, .. } if host == "host.invalid"),
        "{err:?}"
    );

    let silent = Server::start(|_| vec![]);
    let mut https = origin(&silent);
    https.scheme = rgit_dial::Scheme::Https;
    let authority = Authority::new();
    let directory = tempfile::tempdir().unwrap();
    let hasty = Settings::default()
        .ca_file(authority.write_ca(directory.path()))
        .connect_timeout(Duration::from_millis(50));
    let err = Dialer::new(hasty.clone())
        .unwrap()
        .dial(&https, Alpn::Http1)
        .unwrap_err();
    assert!(matches!(err, Error::Timeout { tls: true, .. }), "{err:?}");

    let closing = Server::start(|_| vec![Step::Close]);
    let mut https = origin(&closing);
    https.scheme = rgit_dial::Scheme::Https;
    let err = Dialer::new(hasty.connect_timeout(PATIENCE))
        .unwrap()
        .dial(&https, Alpn::Http1)
        .unwrap_err();
    assert!(matches!(err, Error::Tls { .. }), "{err:?}");
}

#[test]
fn tls_tells_a_clean_end_from_a_cut() {
    let secure = Secure::new(&["127.0.0.1"], &[], |number| {
        vec![Step::write("text"), if number == 0 { Step::Close } else { Step::Cut }]
    });
    let mut clean = secure.dial(secure.settings()).unwrap();
    assert_eq!(to_end(&mut clean).unwrap(), b"text");
    let mut cut = secure.dial(secure.settings()).unwrap();
    assert_eq!(to_end(&mut cut).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

/// A TLS connection whose other side is played by `peer`, which has the bare socket: for what no TLS server would do.
fn over_a_bare_socket(
    peer: impl FnOnce(TcpStream, rustls::ServerConnection) + Send + 'static,
) -> (Connection, JoinHandle<()>) {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
    let config = authority.server_config(&["127.0.0.1"], &[]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut session = rustls::ServerConnection::new(config).unwrap();
        while session.is_handshaking() || session.wants_write() {
            session.complete_io(&mut socket).unwrap();
        }
        peer(socket, session);
    });
    let settings = Settings::default().ca_file(authority.write_ca(directory.path()));
    let origin = Origin::try_from(&format!("https://{address}/").parse().unwrap()).unwrap();
    let connection = Dialer::new(settings).unwrap().dial(&origin, Alpn::Http1).unwrap();
    (connection, thread)
}

#[test]
fn a_read_takes_all_whole_records_that_have_come() {
    const RECORD: usize = 10_000;
    let there = Gate::new();
    let gate = there.clone();
    let (mut connection, peer) = over_a_bare_socket(move |mut socket, mut session| {
        let mut bytes = Vec::new();
        for _ in 0..3 {
            session.writer().write_all(&patterned(RECORD)).unwrap();
            session.write_tls(&mut bytes).unwrap();
        }
        // The last one not whole, and the rest of it no TLS.
        let cut = bytes.len() - 1;
        socket.write_all(&bytes[..cut]).unwrap();
        gate.open();
        socket.read_exact(&mut [0]).unwrap();
        socket.write_all(&[!bytes[cut]]).unwrap();
    });
    there.wait();
    let mut got = vec![0; 10 * RECORD];
    assert_eq!(read(&mut connection, &mut got).unwrap(), 2 * RECORD);
    assert!(got[..RECORD] == patterned(RECORD) && got[RECORD..2 * RECORD] == patterned(RECORD));
    let blocked = connection.read(&mut got).unwrap_err();
    assert_eq!(
        blocked.kind(),
        io::ErrorKind::WouldBlock,
        "a part of a record is nothing yet"
    );
    write_all(&mut connection, b"x");
    for _ in 0..2 {
        assert_eq!(
            read(&mut connection, &mut got).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
    peer.join().unwrap();
}

#[test]
fn what_is_no_tls_stays_an_error_however_often_it_is_read() {
    let (mut connection, peer) = over_a_bare_socket(|mut socket, mut session| {
        let mut bytes = Vec::new();
        session.writer().write_all(b"text").unwrap();
        session.write_tls(&mut bytes).unwrap();
        bytes.extend_from_slice(b"no record of TLS");
        socket.write_all(&bytes).unwrap();
        // Still there, so that the end of the connection explains nothing.
        socket.read_to_end(&mut Vec::new()).ok();
    });
    let mut text = [0; 10];
    let got = read(&mut connection, &mut text).unwrap();
    assert_eq!(&text[..got], b"text", "what came before is not lost");
    let err = read(&mut connection, &mut text).unwrap_err();
    assert_eq!(err.kind(), io::ErrorKind::InvalidData, "{err}");
    for _ in 0..3 {
        // Were this `WouldBlock`, whoever waits and reads would do so for ever: there is something to be had, they'd be told.
        let err = connection.read(&mut [0; 10]).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::InvalidData, "{err}");
    }
    drop(connection);
    peer.join().unwrap();
}

#[test]
fn ciphertext_held_back_does_not_make_waiting_a_busy_loop() {
    let start = Gate::new();
    let gate = start.clone();
    let (mut connection, peer) = over_a_bare_socket(move |mut socket, _session| {
        gate.wait();
        // Reads all, and says nothing.
        socket.read_to_end(&mut Vec::new()).ok();
    });
    // More than the socket takes, so that ciphertext stays behind.
    let mut written = 0;
    loop {
        match connection.write(&[0; 100_000]) {
            Ok(count) => written += count,
            Err(err) => {
                assert_eq!(err.kind(), io::ErrorKind::WouldBlock);
                let pause = Duration::from_millis(100);
                if !connection.wait(Interest::WRITE, pause).unwrap().any() {
                    break;
                }
            }
        }
    }
    assert!(written > 0);
    start.open();
    let mut woken = 0;
    while connection
        .wait(Interest::READ, Duration::from_millis(500))
        .unwrap()
        .any()
    {
        let err = connection.read(&mut [0; 10]).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::WouldBlock);
        woken += 1;
        assert!(woken < 10_000, "there is nothing to read, and still no waiting");
    }
    connection.shutdown();
    drop(connection);
    peer.join().unwrap();
}

#[test]
fn a_timeout_beyond_the_clock_is_none() {
    let server = Server::start(|_| vec![]);
    let patient = Dialer::new(Settings::default().connect_timeout(Duration::MAX)).unwrap();
    assert!(patient.dial(&origin(&server), Alpn::Http1).is_ok());
}

#[test]
fn idle_connections_tell_whether_they_are_stale() {
    for last in [Step::write("unasked"), Step::Close, Step::HalfClose, Step::Reset] {
        let gate = Gate::new();
        let script = {
            let (last, gate) = (last.clone(), gate.clone());
            Arc::new(move |_| vec![Step::Wait(gate.clone()), last.clone()])
        };
        let plain = Server::start({
            let script = script.clone();
            move |number| script(number)
        });
        let secure = Secure::new(&["127.0.0.1"], &[], move |number| script(number));
        let dialer = Dialer::new(Settings::default()).unwrap();
        let mut connections = [
            dialer.dial(&origin(&plain), Alpn::Http1).unwrap(),
            // Its session tickets are on their way, and are no reason to give it up.
            secure.dial(secure.settings()).unwrap(),
        ];
        for connection in &mut connections {
            assert!(!connection.is_stale());
        }
        gate.open();
        for connection in &mut connections {
            // TLS may still have tickets in front of the last step's bytes.
            while !connection.is_stale() {
                assert!(connection.wait(Interest::READ, PATIENCE).unwrap().readable);
            }
        }
    }
}

#[test]
fn a_polite_end_reaches_the_peer() {
    let ended = Gate::new();
    let gate = ended.clone();
    let secure = Secure::new(&["127.0.0.1"], &[], move |_| {
        vec![Step::ReadToEnd, Step::Open(gate.clone())]
    });
    let mut connection = secure.dial(secure.settings()).unwrap();
    connection.shutdown();
    // Opens only after a clean end: without `close_notify` the server's read fails.
    ended.wait();
}

#[test]
fn the_systems_roots_can_be_read() {
    let authority = Authority::new();
    let server = Server::start_tls(authority.server_config(&["127.0.0.1"], &[]), |_| vec![]);
    let dialer = Dialer::new(Settings::default()).unwrap();
    let err = dialer.dial(&origin(&server), Alpn::Http1).unwrap_err();
    // A machine without any roots says so; otherwise its roots don't know our CA.
    assert!(matches!(err, Error::Tls { .. } | Error::Roots { .. }), "{err:?}");
}
