//! Promises 1, 5 and 6: any status is an answer, headers go through as they are, and `Wire` tells how it went.

use std::time::Duration;

use http::{Request, Version};
use rgit_testkit::scripted::Step;
use rgit_transport::{Body, Error};

use crate::support::{Mount, answer, echo, get, ok, plain, post, read, text, wire};

pub(crate) fn any_status_is_an_answer(mount: &Mount) {
    let transport = plain(mount);
    let server = mount.serve(|_| {
        vec![Step::serve(|request| {
            let status = request.target().trim_start_matches('/');
            let reason = format!("{status} Reason\r\nLocation: /200\r\nWWW-Authenticate: Basic");
            answer(&reason, format!("text of {status}"))
        })]
    });
    for status in [
        "200", "201", "301", "302", "307", "400", "401", "403", "404", "407", "418", "500", "503", "599", "999",
    ] {
        let response = transport
            .exchange(get(&server.url(&format!("/{status}"))))
            .expect("an answer");
        assert_eq!(response.status().as_str(), status);
        assert_eq!(response.headers()["location"], "/200");
        assert_eq!(
            read(response).expect("its body"),
            format!("text of {status}").as_bytes()
        );
    }
    assert_eq!(server.requests().concat().len(), 15, "no redirect was followed");
}

pub(crate) fn headers_go_out_as_given_with_framing_added(mount: &Mount) {
    let server = echo(mount);
    let request = Request::post(server.url("/a%2fb//c?d=e%20f&g"))
        .header("Git-Protocol", "version=2")
        .header("x-twice", "one")
        .header("x-twice", "two")
        .body(Body::full("abc"))
        .expect("a request");
    assert_eq!(text(&*plain(mount), request), "/a%2fb//c?d=e%20f&g");
    let request = &server.requests()[0][0];
    let mut lines: Vec<_> = request.head.trim_end().lines().map(str::to_ascii_lowercase).collect();
    lines[1..].sort();
    let host = format!("host: {}", server.address());
    let first = format!("post /a%2fb//c?d=e%20f&g {:?}", mount.version).to_ascii_lowercase();
    let expected = [
        &first,
        "content-length: 3",
        "git-protocol: version=2",
        &host,
        "x-twice: one",
        "x-twice: two",
    ];
    assert_eq!(lines, expected);
    assert_eq!(request.header("x-twice"), ["one", "two"], "in their order");
}

pub(crate) fn users_in_urls_stay_here(mount: &Mount) {
    let server = echo(mount);
    let url = server.url("/x").replace("http://", "http://user:secret@");
    assert_eq!(text(&*plain(mount), get(&url)), "/x");
    let head = &server.requests()[0][0].head;
    assert!(!head.contains("secret") && !head.contains('@'), "{head}");
}

pub(crate) fn content_is_not_decoded(mount: &Mount) {
    let server = mount.serve(|_| {
        vec![Step::serve(|_| {
            answer("200 OK\r\nContent-Encoding: gzip\r\nSet-Cookie: a=b", "not gzip at all")
        })]
    });
    let transport = plain(mount);
    for _ in 0..2 {
        let response = transport.exchange(get(&server.url("/"))).expect("an answer");
        assert_eq!(response.headers()["content-encoding"], "gzip");
        assert_eq!(read(response).expect("its body"), b"not gzip at all");
    }
    let requests = server.requests().concat();
    assert!(
        requests
            .iter()
            .all(|request| !request.head.to_ascii_lowercase().contains("cookie"))
    );
    assert!(
        requests
            .iter()
            .all(|request| request.header("accept-encoding").is_empty())
    );
}

pub(crate) fn informational_answers_are_skipped(mount: &Mount) {
    let informational =
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    let server = mount.serve(move |_| {
        vec![Step::serve(move |request| {
            [informational.as_bytes(), &ok(request.target())].concat()
        })]
    });
    let transport = plain(mount);
    for request in [
        get(&server.url("/get")),
        post(&server.url("/post"), Body::stream(None, &b"abc"[..])),
    ] {
        let path = request.uri().path().to_owned();
        let response = transport.exchange(request).expect("an answer");
        assert_eq!(response.status(), 200);
        assert!(!response.headers().contains_key("link"));
        assert_eq!(read(response).expect("its body"), path.as_bytes());
    }
    let endless = mount.serve(|_| {
        vec![
            Step::ReadHead,
            Step::write("HTTP/1.1 102 Processing\r\n\r\n".repeat(10_000)),
        ]
    });
    assert!(
        transport.exchange(get(&endless.url("/"))).is_err(),
        "that could go on forever"
    );
}

pub(crate) fn old_servers_are_understood(mount: &Mount) {
    let server = mount.serve(|number| match number {
        0 => vec![
            Step::ReadRequest,
            Step::write("HTTP/1.0 200 OK\r\n\r\nuntil the end"),
            Step::Close,
        ],
        1 => vec![
            Step::ReadRequest,
            Step::write("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc"),
        ],
        _ => vec![Step::serve(|_| {
            b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nxyz".to_vec()
        })],
    });
    let transport = plain(mount);
    for (expected, reused) in [("until the end", false), ("abc", false), ("xyz", false), ("xyz", true)] {
        let response = transport.exchange(get(&server.url("/"))).expect("an answer");
        assert_eq!((response.version(), wire(&response).reused), (Version::HTTP_10, reused));
        assert_eq!(read(response).expect("its body"), expected.as_bytes());
    }
}

pub(crate) fn how_it_travelled_rides_along(mount: &Mount) {
    let server = echo(mount);
    let transport = plain(mount);
    for turn in 0..3 {
        let response = transport
            .exchange(post(&server.url("/"), Body::stream(None, &b"12345"[..])))
            .expect("an answer");
        let wire = wire(&response);
        assert_eq!((wire.protocol, response.version()), (mount.version, mount.version));
        assert_eq!((wire.reused, wire.dial_time.is_none()), (turn > 0, turn > 0));
        assert!(wire.round_trip.is_some());
        assert_eq!((wire.sent, wire.resent, wire.early), (5, 0, false));
        assert_eq!(wire.peer.is_some(), mount.multiplexes());
        assert_eq!(wire.starved, Duration::ZERO);
        read(response).expect("its body");
    }
}

pub(crate) fn what_is_no_request_is_refused(mount: &Mount) {
    let server = echo(mount);
    let transport = plain(mount);
    let too_long = Request::post(server.url("/"))
        .header("content-length", "4")
        .body(Body::full("abc"));
    for request in [get("/relative"), get("ftp://127.0.0.1/"), too_long.expect("a request")] {
        let shown = format!("{request:?}");
        assert!(
            matches!(transport.exchange(request), Err(Error::Request { .. })),
            "{shown}"
        );
    }
    assert_eq!(server.connections(), 0);
}
