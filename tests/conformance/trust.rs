//! TLS under a transport: whom it trusts, and that exchanges are the same.

use std::io::ErrorKind;

use rgit_testkit::{certificate::Authority, scripted::Step};
use rgit_transport::{Body, Stage, Transport};

use crate::support::{Mount, Options, echo_step, failed, get, pattern, plain, post, read, text, wire};

fn trusting(mount: &Mount, authority: &Authority) -> (std::sync::Arc<dyn Transport>, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    (
        mount.make(Options::trusting(authority.write_ca(directory.path()))),
        directory,
    )
}

pub(crate) fn only_known_authorities_are_trusted(mount: &Mount) {
    let authority = Authority::new();
    let server = mount.serve_tls(authority.server_config(&["127.0.0.1"], mount.alpn()), |_| {
        vec![echo_step()]
    });
    let url = server.url("/x");
    assert_eq!(failed(plain(mount).exchange(get(&url)), &url), Stage::Tls);
    let (other, _directory) = trusting(mount, &Authority::new());
    assert_eq!(failed(other.exchange(get(&url)), &url), Stage::Tls);
    let (knowing, _directory) = trusting(mount, &authority);
    assert_eq!(text(&*knowing, get(&url)), "/x");
    assert_eq!(
        server.requests().concat().len(),
        1,
        "nothing is sent to those who are not trusted"
    );
    let missing = mount.make(Options::trusting("/does/not/exist.pem".into()));
    assert_eq!(failed(missing.exchange(get(&url)), &url), Stage::Tls);
}

pub(crate) fn certificates_for_other_names_are_refused(mount: &Mount) {
    let authority = Authority::new();
    let server = mount.serve_tls(authority.server_config(&["example.org"], mount.alpn()), |_| {
        vec![echo_step()]
    });
    let (transport, _directory) = trusting(mount, &authority);
    assert_eq!(
        failed(transport.exchange(get(&server.url("/"))), &server.url("/")),
        Stage::Tls
    );
}

pub(crate) fn exchanges_over_tls_are_like_others(mount: &Mount) {
    let authority = Authority::new();
    let server = mount.serve_tls(authority.server_config(&["127.0.0.1"], mount.alpn()), |_| {
        vec![echo_step()]
    });
    let (transport, _directory) = trusting(mount, &authority);
    let data = pattern(1_000_000);
    for turn in 0..4 {
        let response = transport
            .exchange(post(&server.url("/x"), Body::stream(None, &data[..])))
            .expect("an answer");
        assert_eq!((wire(&response).reused, wire(&response).sent), (turn > 0, 1_000_000));
        assert_eq!(read(response).expect("its body"), b"/x");
    }
    // A handshake that offers what the server doesn't speak is no connection.
    let requests: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|requests| !requests.is_empty())
        .collect();
    assert_eq!(requests.len(), 1);
    assert!(
        requests[0]
            .iter()
            .all(|request| request.complete && request.body == data)
    );
}

pub(crate) fn a_cut_is_no_end(mount: &Mount) {
    let authority = Authority::new();
    let server = mount.serve_tls(authority.server_config(&["127.0.0.1"], mount.alpn()), |number| {
        let last = if number == 0 { Step::Close } else { Step::Cut };
        vec![
            Step::ReadRequest,
            Step::write("HTTP/1.1 200 OK\r\n\r\nall of it?"),
            last,
        ]
    });
    let (transport, _directory) = trusting(mount, &authority);
    let whole = transport.exchange(get(&server.url("/"))).expect("an answer");
    assert_eq!(read(whole).expect("closed in due form"), b"all of it?");
    // Anyone in the path can end a TCP connection; only the server can end TLS.
    let cut = transport.exchange(get(&server.url("/"))).expect("an answer");
    assert_eq!(read(cut).expect_err("cut").kind(), ErrorKind::UnexpectedEof);
}
