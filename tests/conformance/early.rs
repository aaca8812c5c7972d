//! Promise 2: an answer that refuses comes through at any body size; one that agrees does not stop the sending.

use rgit_testkit::{
    certificate::Authority,
    scripted::{Gate, Step},
};
use rgit_transport::{Body, Transport};

use crate::support::{
    CHUNKED, LAST_CHUNK, Mount, Options, answer, chunk, echo_step, endless, get, ok, plain, post, read, text, wire,
};

const SIZES: [u64; 3] = [100_000, 10_000_000, 300_000_000];

/// Reads the start of a request, refuses, and then does `last`.
fn refuse(status: &'static str, last: Step) -> Vec<Step> {
    // A small body may have been sent whole before: the server alone knows that it won't read it.
    let refusal = answer(
        &format!("{status}\r\nConnection: close"),
        format!("because of {status}"),
    );
    vec![Step::ReadHead, Step::ReadBytes(2000), Step::write(refusal), last]
}

fn expect_refusal(transport: &dyn Transport, url: &str, status: &str, size: u64) {
    for length in [Some(size), None] {
        let response = transport
            .exchange(post(url, Body::stream(length, endless(size))))
            .expect("the refusal");
        assert_eq!(response.status().as_str(), status);
        let wire = wire(&response);
        assert!(wire.sent >= 1000 && wire.sent <= size, "{wire:?}");
        if size == 300_000_000 {
            assert!(wire.early && wire.sent < size / 2, "{wire:?}");
        }
        let text = read(response).expect("its text");
        assert!(text.starts_with(format!("because of {status}").as_bytes()));
    }
}

pub(crate) fn refusals_come_through_at_any_body_size(mount: &Mount) {
    for status in ["401", "403", "413", "500"] {
        for last in [Step::Open(Gate::new()), Step::Close, Step::Reset, Step::HalfClose] {
            let server = mount.serve(move |_| refuse(status, last.clone()));
            let transport = plain(mount);
            for size in SIZES {
                expect_refusal(&*transport, &server.url("/"), status, size);
            }
            assert_eq!(
                server.connections(),
                6,
                "a connection with half a request on it serves no other"
            );
        }
    }
}

pub(crate) fn refusals_come_through_over_tls(mount: &Mount) {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let transport = mount.make(Options::trusting(authority.write_ca(directory.path())));
    for last in [Step::Open(Gate::new()), Step::Close, Step::Reset] {
        let config = authority.server_config(&["127.0.0.1"], mount.alpn());
        let server = mount.serve_tls(config, move |_| refuse("401", last.clone()));
        for size in SIZES {
            expect_refusal(&*transport, &server.url("/"), "401", size);
        }
    }
}

pub(crate) fn a_success_does_not_stop_the_sending(mount: &Mount) {
    let server = mount.serve(|_| {
        vec![
            Step::ReadHead,
            Step::write(CHUNKED),
            Step::write(chunk("progress 1\n")),
            Step::ReadRequest,
            Step::write(chunk("progress 2\n")),
            Step::write(LAST_CHUNK),
            echo_step(),
        ]
    });
    let transport = plain(mount);
    let size = 20_000_000;
    let response = transport
        .exchange(post(&server.url("/"), Body::stream(None, endless(size))))
        .expect("an answer");
    let wire = wire(&response);
    assert_eq!((response.status().as_u16(), wire.sent, wire.early), (200, size, true));
    assert_eq!(read(response).expect("its body"), b"progress 1\nprogress 2\n");
    let requests = server.requests();
    assert!(requests[0][0].complete && requests[0][0].length == size);
    // Both sides are in step, so the connection serves on.
    assert_eq!(text(&*transport, get(&server.url("/next"))), "/next");
    assert_eq!(server.connections(), 1);
}

pub(crate) fn a_success_is_returned_when_the_server_takes_no_more(mount: &Mount) {
    for last in [Step::Close, Step::Reset] {
        let server = mount.serve(move |_| {
            vec![
                Step::ReadHead,
                Step::ReadBytes(2000),
                Step::write(ok("done")),
                last.clone(),
            ]
        });
        let transport = plain(mount);
        let body = Body::stream(None, endless(300_000_000));
        let response = transport.exchange(post(&server.url("/"), body)).expect("the answer");
        let wire = wire(&response);
        assert!(
            response.status().is_success() && wire.early && wire.sent < 300_000_000,
            "{wire:?}"
        );
        assert_eq!(read(response).expect("its body"), b"done");
    }
}

pub(crate) fn progress_of_half_a_megabyte_is_set_aside(mount: &Mount) {
    let progress = vec![b'p'; 500_000];
    let answered = progress.clone();
    let server = mount.serve(move |_| {
        let first = Step::write([CHUNKED.as_bytes(), &chunk(&answered)].concat());
        vec![Step::ReadHead, first, Step::ReadRequest, Step::write(LAST_CHUNK)]
    });
    let body = Body::stream(None, endless(20_000_000));
    let response = plain(mount).exchange(post(&server.url("/"), body)).expect("an answer");
    assert_eq!(wire(&response).sent, 20_000_000);
    assert!(read(response).expect("its body") == progress);
}
