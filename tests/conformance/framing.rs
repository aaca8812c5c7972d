//! Bodies in both directions, in every framing.

use std::io::{self, Read};

use http::Request;
use rgit_testkit::scripted::{Framing, Step};
use rgit_transport::{Body, Error};

use crate::support::{CHUNKED, LAST_CHUNK, Mount, chunk, echo, echo_step, get, ok, pattern, plain, post, read, text};

pub(crate) fn bodies_arrive_whole_in_the_framing_their_length_calls_for(mount: &Mount) {
    let server = echo(mount);
    let transport = plain(mount);
    for length in [0, 1, 1000, 128 * 1024, 128 * 1024 + 1, 3_000_000] {
        let data = pattern(length);
        let known = length as u64;
        // In HTTP/2 the end of a body without bytes goes along with the head.
        let unknown = match length {
            0 if mount.multiplexes() => Framing::None,
            _ => Framing::Chunked,
        };
        for (body, framing) in [
            (Body::full(data.clone()), Framing::Length(known)),
            (Body::stream(Some(known), &data[..]), Framing::Length(known)),
            (Body::replay(Some(known), || Ok(&data[..])), Framing::Length(known)),
            (Body::stream(None, &data[..]), unknown),
            (Body::replay(None, || Ok(&data[..])), unknown),
        ] {
            let shown = format!("{length} {body:?}");
            assert_eq!(text(&*transport, post(&server.url("/x"), body)), "/x");
            let requests = server.requests();
            let request = requests[0].last().expect("a request");
            assert_eq!((request.framing, request.length), (framing, known), "{shown}");
            assert!(
                request.complete && request.body == data[..length.min(1 << 20)],
                "{shown}"
            );
        }
    }
    text(&*transport, post(&server.url("/"), Body::Empty));
    text(&*transport, get(&server.url("/")));
    let requests = server.requests().concat();
    let framings: Vec<_> = requests[requests.len() - 2..]
        .iter()
        .map(|request| request.framing)
        .collect();
    assert_eq!(framings, [Framing::Length(0), Framing::None]);
    assert_eq!(server.connections(), 1);
}

pub(crate) fn a_body_of_another_length_is_never_completed(mount: &Mount) {
    let server = echo(mount);
    let transport = plain(mount);
    let data = pattern(300_000);
    for announced in [299_999, 300_001] {
        let err = transport
            .exchange(post(&server.url("/"), Body::stream(Some(announced), &data[..])))
            .unwrap_err();
        assert!(matches!(err, Error::Body { .. }), "{err:?}");
        assert!(err.sent() <= 300_000);
    }
    assert_eq!(text(&*transport, get(&server.url("/next"))), "/next");
    let requests = server.requests().concat();
    assert!(
        requests
            .iter()
            .all(|request| request.method() == "GET" || !request.complete),
        "{requests:?}"
    );
}

pub(crate) fn a_failing_body_is_not_the_networks_fault(mount: &Mount) {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let server = echo(mount);
    let transport = plain(mount);
    let body = pattern(1_000_000);
    let err = transport
        .exchange(post(&server.url("/"), Body::stream(None, body.chain(Failing))))
        .unwrap_err();
    let Error::Body { sent, source } = &err else {
        panic!("{err:?}")
    };
    assert_eq!(source.to_string(), "the disk is gone");
    assert!(*sent > 0 && *sent <= 1_000_000, "{sent}");
    let unopened = Body::replay(None, || Err::<io::Empty, _>(io::Error::other("no such file")));
    let err = transport.exchange(post(&server.url("/"), unopened)).unwrap_err();
    assert!(matches!(err, Error::Body { sent: 0, .. }), "{err:?}");
    assert_eq!(text(&*transport, get(&server.url("/next"))), "/next");
    server.wait_until(|all| all.concat().iter().any(|request| request.target() == "/next"));
    assert!(
        server
            .requests()
            .concat()
            .iter()
            .all(|request| request.method() == "GET" || !request.complete)
    );
}

pub(crate) fn answers_of_any_framing_arrive_whole(mount: &Mount) {
    let data = pattern(5_000_000);
    let by_length = ok(&data);
    let in_chunks = {
        let mut wire = CHUNKED.as_bytes().to_vec();
        for piece in data.chunks(77_777) {
            wire.extend(chunk(piece));
        }
        wire.extend(b"0\r\nTrailer: dropped\r\n\r\n");
        wire
    };
    let to_the_end = [b"HTTP/1.1 200 OK\r\n\r\n", &data[..]].concat();
    let answers = [by_length, in_chunks, to_the_end];
    let server = mount.serve(move |number| {
        let last = if number % 3 == 2 { Step::Close } else { Step::ReadToEnd };
        vec![Step::ReadRequest, Step::write(answers[number % 3].clone()), last]
    });
    for at_once in [1000, 20_000, 1_000_000] {
        for kind in 0..3 {
            // A transport for each, so that each has the next connection.
            let response = plain(mount).exchange(get(&server.url("/"))).expect("an answer");
            let (mut body, mut got, mut piece) = (response.into_body(), Vec::new(), vec![0; at_once]);
            loop {
                match body.read(&mut piece).expect("a whole answer") {
                    0 => break,
                    count => got.extend_from_slice(&piece[..count]),
                }
            }
            assert!(got == data, "{kind}, {at_once} bytes a read");
            assert_eq!(body.read(&mut piece).expect("still the end"), 0);
        }
    }
}

pub(crate) fn heads_may_come_in_pieces_folded_or_with_bare_line_feeds(mount: &Mount) {
    let odd = [
        "HTTP/1.1 200 OK\r\nX-Folded: one\r\n two\r\n\t three\r\nContent-Length: 4\r\n\r\nbody".to_owned(),
        "HTTP/1.1 200\nX-Folded: one two\n three\nContent-Length: 4\n\nbody".to_owned(),
        format!(
            "{}4;ext=\"1\"\r\nbody\r\n{LAST_CHUNK}",
            CHUNKED.replace("\r\n\r\n", "\r\nx-folded:one two three\r\n\r\n")
        ),
    ];
    for wire in odd {
        for bytewise in [false, true] {
            let bytes = wire.clone().into_bytes();
            let server = mount.serve(move |_| {
                let step = if bytewise { Step::WriteBytewise } else { Step::Write };
                vec![Step::ReadRequest, step(bytes.clone()), echo_step()]
            });
            let transport = plain(mount);
            let response = transport.exchange(get(&server.url("/"))).expect("an answer");
            assert_eq!(response.headers()["x-folded"], "one two three");
            assert_eq!(read(response).expect("its body"), b"body");
            // What followed was understood, too: the connection is still in step.
            let request = Request::get(server.url("/next")).body(Body::Empty).expect("a request");
            assert_eq!(text(&*transport, request), "/next");
            assert_eq!(server.connections(), 1);
        }
    }
}
