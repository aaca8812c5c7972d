//! How posts are framed, and what they take for an answer.

use std::{
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use proptest::prelude::*;
use rgit_smart_http::{Error, Service};
use rgit_transport::Body;

use crate::script::*;

const POST: &str = "POST https://h/r/git-receive-pack";

fn result() -> Step {
    step(
        POST,
        200,
        &[("content-type", "application/x-git-receive-pack-result; x=y")],
        "0000",
    )
}

fn post(limit: u64, body: Body<'_>) -> Result<Seen, Error> {
    let script = Script::new([result()]);
    session_with(
        &script,
        "https://h/r",
        |options| options.post_buffer = limit,
        &Diary::default(),
    )
    .post(Service::ReceivePack, None, body)?;
    Ok(script.seen().remove(0))
}

#[test]
fn asks_as_git_does() {
    let script = Script::new([step(
        "POST https://h/r/git-upload-pack",
        200,
        &[("content-type", "application/x-git-upload-pack-result")],
        "0008NAK\n",
    )]);
    let mut session = session_with(
        &script,
        "https://h/r",
        |options| {
            options.accept_language = Some("de".into());
            options.extra_headers = vec!["X-Trace: 1".into()];
        },
        &Diary::default(),
    );
    let reply = session
        .post(Service::UploadPack, Some("version=2"), Body::full("0000"))
        .unwrap();
    assert_eq!(reply.wire.unwrap().sent, 4);
    assert_eq!(text(reply), "0008NAK\n");
    let seen = script.seen().remove(0);
    let sent: Vec<_> = seen
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    assert_eq!(
        sent[1..],
        [
            ("accept-encoding", "identity"),
            ("content-type", "application/x-git-upload-pack-request"),
            ("accept", "application/x-git-upload-pack-result"),
            ("accept-language", "de"),
            ("git-protocol", "version=2"),
            ("x-trace", "1"),
        ]
    );
    assert_eq!((seen.kind, seen.length), ("full", Some(4)));
}

#[test]
fn what_fits_has_a_length_and_what_does_not_is_chunked() {
    let bytes = b"12345";
    let bodies: [fn() -> Body<'static>; 5] = [
        || Body::full("12345"),
        || Body::replay(Some(5), || Ok(&b"12345"[..])),
        || Body::replay(None, || Ok(&b"12345"[..])),
        || Body::stream(Some(5), &b"12345"[..]),
        || Body::stream(None, &b"12345"[..]),
    ];
    for (number, body) in bodies.iter().enumerate() {
        for (limit, length) in [(0, None), (4, None), (5, Some(5)), (6, Some(5)), (u64::MAX, Some(5))] {
            let seen = post(limit, body()).unwrap();
            assert_eq!(
                (seen.length, seen.body.as_slice()),
                (length, &bytes[..]),
                "body {number}, limit {limit}"
            );
        }
    }
    assert_eq!(post(5, Body::Empty).unwrap().kind, "empty");
}

#[test]
fn measuring_does_not_make_a_body_twice() {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = made.clone();
    let body = Body::replay(None, move || {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(&b"12345"[..])
    });
    assert_eq!(post(2, body).unwrap().body, b"12345");
    assert_eq!(made.load(Ordering::Relaxed), 1);
}

#[test]
fn a_body_that_fails_or_lies_says_so() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("object missing"))
        }
    }
    let script = Script::new([]);
    for body in [
        Body::stream(None, Fails),
        Body::replay(None, || Ok(Fails)),
        Body::stream(Some(9), &b"12345"[..]),
    ] {
        let error = session(&script, "https://h/r")
            .post(Service::ReceivePack, None, body)
            .unwrap_err();
        let Error::Body { url, source } = &error else {
            panic!("{error:?}")
        };
        assert_eq!(url, "https://h/r/git-receive-pack");
        assert!(
            source.to_string().contains("object missing") || source.to_string().contains("5 bytes"),
            "{source}"
        );
    }
}

#[test]
fn refusals_say_what_to_do() {
    let shown = |status, headers: &[(&'static str, &str)], body: &str| {
        let script = Script::new([step(POST, status, headers, body).taking(1)]);
        session(&script, "https://h/r")
            .post(Service::ReceivePack, None, Body::full("12345"))
            .unwrap_err()
            .to_string()
    };
    assert!(shown(413, &[], "").contains("client_max_body_size"));
    assert!(shown(411, &[], "").contains("http.postBuffer"));
    let text = shown(403, &[("content-type", "text/plain")], "read only today");
    assert!(text.contains("403 Forbidden to POST: read only today"), "{text}");
    assert!(shown(200, &[("content-type", "text/html")], "").contains("web page"));
    assert!(shown(200, &[("content-type", "text/plain")], "").contains(RECEIVED));
}

proptest! {
    /// Whatever its size, kind and the limit: the server gets the bytes, and a length exactly when they fit.
    #[test]
    fn bytes_arrive_whole(bytes in proptest::collection::vec(any::<u8>(), 0..300), limit in 0u64..300, kind in 0..3) {
        let body = match kind {
            0 => Body::full(bytes.clone()),
            1 => Body::replay(None, || Ok(&bytes[..])),
            _ => Body::stream(None, &bytes[..]),
        };
        let seen = post(limit, body).unwrap();
        let fits = bytes.len() as u64 <= limit;
        prop_assert_eq!(seen.length, fits.then_some(bytes.len() as u64));
        prop_assert_eq!(seen.body, bytes);
    }
}

#[test]
fn only_what_reads_may_be_repeated() {
    let answer = ("content-type", "application/x-git-upload-pack-result");
    let script = Script::new([
        result(),
        step("POST https://h/r/git-upload-pack", 200, &[answer], "0000"),
    ]);
    let mut session = session(&script, "https://h/r");
    for service in [Service::ReceivePack, Service::UploadPack] {
        session.post(service, None, Body::full("x")).unwrap();
    }
    let repeatable: Vec<_> = script.seen().iter().map(|seen| seen.repeatable).collect();
    assert_eq!(repeatable, [false, true]);
}
