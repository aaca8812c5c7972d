//! Answers that are none, and how their failures are told.

use std::{
    io::{ErrorKind, Read},
    thread::sleep,
    time::Duration,
};

use rgit_testkit::scripted::{Gate, Server, Step};
use rgit_transport::{Body, Stage, Transport};

use crate::support::{CHUNKED, LAST_CHUNK, Mount, Options, chunk, endless, failed, get, plain, post, read};

/// A server that answers each request with `bytes` and then does `last`.
fn answering(mount: &Mount, bytes: impl Into<Vec<u8>>, last: Step) -> Server {
    let bytes = bytes.into();
    mount.serve(move |_| vec![Step::ReadRequest, Step::write(bytes.clone()), last.clone()])
}

pub(crate) fn a_truncated_answer_is_an_unexpected_end(mount: &Mount) {
    let chunks = [CHUNKED.as_bytes(), &chunk("hello")].concat();
    for (bytes, body) in [
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello".to_vec(),
            &b"hello"[..],
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n".to_vec(), b""),
        (chunks.clone(), b"hello"),
        ([&chunks[..], b"a\r\n01234"].concat(), b"hello01234"),
        ([&chunks[..], b"0\r\n"].concat(), b"hello"),
        ([&chunks[..], b"1"].concat(), b"hello"),
    ] {
        let server = answering(mount, bytes, Step::Close);
        let mut answer = plain(mount)
            .exchange(get(&server.url("/")))
            .expect("an answer")
            .into_body();
        let mut got = Vec::new();
        let err = answer.read_to_end(&mut got).expect_err("it is cut");
        assert_eq!((err.kind(), got.as_slice()), (ErrorKind::UnexpectedEof, body));
        let again = answer
            .read(&mut [0; 10])
            .expect_err("a cut answer never becomes a whole one");
        assert_eq!(again.kind(), ErrorKind::UnexpectedEof);
    }
}

pub(crate) fn what_is_no_framing_is_invalid(mount: &Mount) {
    let server = answering(mount, [CHUNKED.as_bytes(), b"no size\r\n"].concat(), Step::Close);
    let response = plain(mount).exchange(get(&server.url("/"))).expect("an answer");
    assert_eq!(read(response).expect_err("no chunks").kind(), ErrorKind::InvalidData);
}

pub(crate) fn what_is_no_answer_fails_at_receiving(mount: &Mount) {
    let header = |line: &str| format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n").into_bytes();
    let hold = || Step::Open(Gate::new());
    for (bytes, last) in [
        (b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(), hold()),
        (b"220 smtp.example.org\r\n".to_vec(), hold()),
        (b"<html>".to_vec(), hold()),
        (b"HTTP/3.0 200 OK\r\n\r\n".to_vec(), hold()),
        (b"HTTP/1.1 099 OK\r\n\r\n".to_vec(), hold()),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n".to_vec(),
            hold(),
        ),
        (header("no colon"), hold()),
        (header("Content-Length: 1\r\nContent-Length: 2"), hold()),
        (header("Content-Length: -1"), hold()),
        (header("Transfer-Encoding: gzip"), hold()),
        (header(&format!("X-Long: {}", "x".repeat(100_000))), hold()),
        (header(&"X-Many: x\r\n".repeat(1000)), hold()),
        (b"HTTP/1.1 200 OK\r\nContent-Len".to_vec(), Step::Close),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n".to_vec(), Step::Reset),
    ] {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        let server = answering(mount, bytes, last);
        for request in [
            get(&server.url("/")),
            post(&server.url("/"), Body::stream(None, endless(1000))),
        ] {
            let result = plain(mount).exchange(request);
            assert_eq!(failed(result, &server.url("/")), Stage::Receive, "{shown}");
        }
    }
}

pub(crate) fn a_head_without_end_is_given_up(mount: &Mount) {
    // Not a line ends, so that looking only at whole lines would see nothing.
    for start in ["HTTP/1.1 200 ", "HTTP/1.1 200 OK\r\nX-Long: ", "\r\n\r\n\r\n"] {
        let taken = Gate::new();
        let gate = taken.clone();
        let server = mount.serve(move |_| {
            let rest = if start.starts_with('\r') { "\r\n" } else { "xx" };
            let endless = format!("{start}{}", rest.repeat(20_000_000));
            vec![Step::ReadRequest, Step::write(endless), Step::Open(gate.clone())]
        });
        for request in [
            get(&server.url("/")),
            post(&server.url("/"), Body::stream(None, endless(1000))),
        ] {
            let result = plain(mount).exchange(request);
            assert_eq!(failed(result, &server.url("/")), Stage::Receive);
        }
        assert!(!taken.is_open(), "all of it was taken in");
    }
}

pub(crate) fn a_missing_answer_fails_at_waiting(mount: &Mount) {
    for last in [Step::Close, Step::Reset, Step::HalfClose] {
        let server = answering(mount, "", last);
        let result = plain(mount).exchange(post(&server.url("/"), Body::stream(None, endless(1000))));
        assert_eq!(result.as_ref().expect_err("no answer").sent(), 1000);
        assert_eq!(failed(result, &server.url("/")), Stage::Wait);
    }
    // And at sending, where the body was not through.
    for last in [Step::Close, Step::Reset, Step::HalfClose] {
        let server = mount.serve(move |_| vec![Step::ReadHead, Step::ReadBytes(2000), last.clone()]);
        let result = plain(mount).exchange(post(&server.url("/"), Body::stream(None, endless(300_000_000))));
        assert!((1..300_000_000).contains(&result.as_ref().expect_err("no answer").sent()));
        assert_eq!(failed(result, &server.url("/")), Stage::Send);
    }
}

/// What `attempt` yields under a short idle timeout; a machine too busy for that to mean anything gets more time.
fn patiently<T>(mount: &Mount, attempt: impl Fn(&dyn Transport) -> Result<T, Stage>) -> T {
    let mut stage = None;
    for idle in [100, 1000, 10_000] {
        match attempt(&*mount.make(Options::idle(idle))) {
            Ok(got) => return got,
            Err(reached) => stage = Some(reached),
        }
    }
    panic!("it never came further than {stage:?}");
}

pub(crate) fn silence_ends_after_the_idle_timeout(mount: &Mount) {
    let transport = mount.make(Options::idle(100));
    let silent = answering(mount, "", Step::Open(Gate::new()));
    assert_eq!(
        failed(transport.exchange(get(&silent.url("/"))), &silent.url("/")),
        Stage::Wait
    );
    let unread = mount.serve(|_| vec![Step::ReadHead]);
    let result = transport.exchange(post(&unread.url("/"), Body::stream(None, endless(300_000_000))));
    assert!(result.as_ref().expect_err("nobody reads").sent() > 0);
    assert_eq!(failed(result, &unread.url("/")), Stage::Send);
    let unfinished = answering(
        mount,
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        Step::Open(Gate::new()),
    );
    let response = patiently(mount, |transport| {
        let result = transport.exchange(get(&unfinished.url("/")));
        result.map_err(|err| err.stage().expect("a stage"))
    });
    let mut answer = response.into_body();
    let mut got = Vec::new();
    let err = answer.read_to_end(&mut got).expect_err("it stops");
    assert_eq!((err.kind(), got.as_slice()), (ErrorKind::TimedOut, &b"hello"[..]));
}

pub(crate) fn half_a_head_is_a_failure_of_receiving(mount: &Mount) {
    let stopped = answering(mount, "HTTP/1.1 200 OK\r\n", Step::Open(Gate::new()));
    patiently(mount, |transport| {
        match failed(transport.exchange(get(&stopped.url("/"))), &stopped.url("/")) {
            Stage::Receive => Ok(()),
            stage => Err(stage),
        }
    });
}

/// The pauses here are not for synchronisation: they are what is tested.
pub(crate) fn steady_bytes_never_time_out(mount: &Mount) {
    let gates: Vec<_> = (0..6).map(|_| Gate::new()).collect();
    let script = gates.clone();
    let server = mount.serve(move |_| {
        let mut steps = vec![Step::ReadRequest, Step::write(CHUNKED)];
        for gate in &script {
            steps.extend([Step::Wait(gate.clone()), Step::write(chunk("x"))]);
        }
        steps.push(Step::write(LAST_CHUNK));
        steps
    });
    let response = mount
        .make(Options::idle(2000))
        .exchange(get(&server.url("/")))
        .expect("an answer");
    let opener = std::thread::spawn(move || {
        for gate in gates {
            sleep(Duration::from_millis(400));
            gate.open();
        }
    });
    assert_eq!(
        read(response).expect("more than the timeout, but never silent for so long"),
        b"xxxxxx"
    );
    opener.join().expect("no panic");
}

pub(crate) fn an_unreachable_server_fails_at_dialling(mount: &Mount) {
    let url = mount.serve(|_| vec![]).url("/");
    assert_eq!(failed(plain(mount).exchange(get(&url)), &url), Stage::Dial);
    let url = "http://host.invalid:80/";
    assert_eq!(failed(plain(mount).exchange(get(url)), url), Stage::Dial);
}
