//! What becomes of a connection whose answer was dropped before its last chunk came.

use std::{io::Read, sync::Arc};

use rgit_dial::Dialer;
use rgit_testkit::scripted::{Gate, Server, Step};
use rgit_transport::{Body, Repeatable, Transport, Wire};
use rgit_transport_h1::{H1, Settings};

const BEGUN: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n0000";
const END: &str = "\r\n0\r\n\r\n";
const NEXT: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
const OTHER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ny";

fn transport() -> H1 {
    let dialer = Dialer::new(rgit_dial::Settings::default()).unwrap();
    H1::new(Arc::new(dialer), Settings::default())
}

/// Read the four bytes that a reader knows to be all.
fn begin(transport: &H1, server: &Server) {
    let request = http::Request::get(server.url("/")).body(Body::Empty).unwrap();
    let mut content = [0; 4];
    let response = transport.exchange(request).unwrap();
    response.into_body().read_exact(&mut content).unwrap();
    assert_eq!(&content, b"0000");
}

/// Make another request: what its answer says, and how it travelled.
fn go_on(transport: &H1, server: &Server, repeatable: bool) -> (String, Wire) {
    let mut request = http::Request::post(server.url("/"))
        .body(Body::full("question"))
        .unwrap();
    if repeatable {
        request.extensions_mut().insert(Repeatable);
    }
    let response = transport.exchange(request).unwrap();
    let wire = *response.extensions().get::<Wire>().unwrap();
    let mut text = String::new();
    response.into_body().read_to_string(&mut text).unwrap();
    (text, wire)
}

#[test]
fn a_request_that_can_be_sent_again_does_not_wait_for_it() {
    // The server has it go out with the next answer, as Nagle's algorithm may.
    for rest in [
        Step::write([END, NEXT].concat()),
        Step::WriteBytewise([END, NEXT].concat().into()),
        Step::write(["\r\n0;last\r\nTrailer: x\r\n\r\n", NEXT].concat()),
    ] {
        let script = vec![Step::ReadRequest, Step::write(BEGUN), Step::ReadRequest, rest];
        let server = Server::start(move |_| script.clone());
        let transport = transport();
        begin(&transport, &server);
        let (text, wire) = go_on(&transport, &server, true);
        assert_eq!((text.as_str(), wire.reused, wire.resent), ("x", true, 0));
        assert_eq!(server.connections(), 1);
    }
}

#[test]
fn another_request_waits_for_it() {
    for (rest, expected, connections) in [
        (END, "x", 1),
        ("\r\n1\r\nz", "y", 2),
        ("\r\n1\r\n", "y", 2),
        ("no", "y", 2),
    ] {
        let gate = Gate::new();
        let behind = gate.clone();
        let server = Server::start(move |connection| match connection {
            0 => vec![
                Step::ReadRequest,
                Step::write(BEGUN),
                Step::Wait(behind.clone()),
                Step::write(rest),
                Step::ReadRequest,
                Step::write(NEXT),
            ],
            _ => vec![Step::ReadRequest, Step::write(OTHER)],
        });
        let transport = transport();
        begin(&transport, &server);
        gate.open();
        let (text, wire) = go_on(&transport, &server, false);
        assert_eq!((text.as_str(), wire.resent), (expected, 0), "{rest:?}");
        assert_eq!(server.connections(), connections, "{rest:?}");
        assert!(server.requests()[0].len() <= 2 - (connections - 1), "{rest:?}");
    }
}

#[test]
fn without_it_another_request_takes_another_connection() {
    let server = Server::start(|connection| match connection {
        0 => vec![Step::ReadRequest, Step::write(BEGUN)],
        _ => vec![Step::ReadRequest, Step::write(OTHER)],
    });
    let transport = transport();
    begin(&transport, &server);
    assert_eq!(go_on(&transport, &server, false).0, "y");
}

#[test]
fn what_follows_instead_is_no_answer() {
    for more in ["\r\n1\r\nz\r\n0\r\n\r\n", "\r\n1\r\n", "no", ""] {
        let goes_on = [more, NEXT].concat();
        let server = Server::start(move |connection| match connection {
            0 => vec![
                Step::ReadRequest,
                Step::write(BEGUN),
                Step::ReadRequest,
                Step::write(goes_on.clone()),
            ],
            _ => vec![Step::ReadRequest, Step::write(OTHER)],
        });
        let transport = transport();
        begin(&transport, &server);
        let (text, wire) = go_on(&transport, &server, true);
        assert_eq!((text.as_str(), wire.resent), ("y", 1), "{more:?}");
        assert_eq!(server.connections(), 2, "{more:?}");
    }
}
