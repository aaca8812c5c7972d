//! Servers that want another HTTP.

use std::sync::Arc;

use http::Version;
use rgit_dial::{Dialer, Settings};
use rgit_testkit::{
    certificate::Authority,
    frames, scripted,
    server::{GitServer, Protocols},
};
use rgit_transport::{Body, Error, Transport};
use rgit_transport_h2::{H2, Tuning};

use crate::support::{get, post, said, text};

/// A transport that trusts `authority`.
pub(crate) fn trusting(authority: &Authority) -> (H2, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings::default().ca_file(authority.write_ca(directory.path()));
    let transport = H2::new(Arc::new(Dialer::new(settings).unwrap()), Tuning::default()).unwrap();
    (transport, directory)
}

fn wants_http_1(err: &Error) {
    assert_eq!(err.wanted_version(), Some(Version::HTTP_11), "{}", said(err));
    assert_eq!((err.sent(), err.code()), (0, None));
}

#[test]
fn a_server_without_http_2_is_told_apart() {
    let authority = Authority::new();
    let (transport, _directory) = trusting(&authority);
    for alpn in [&[&b"http/1.1"[..]][..], &[]] {
        let config = authority.server_config(&["127.0.0.1"], alpn);
        let server = scripted::Server::start_tls(config, |_| vec![scripted::Step::ReadHead]);
        for body in [Body::Empty, Body::full("abc")] {
            wants_http_1(&transport.exchange(post(&server.url("/"), body)).unwrap_err());
        }
        let probe = transport.probe(&server.url("/").parse().unwrap()).unwrap();
        assert_eq!(probe.alpn.as_deref(), alpn.first().map(|_| "http/1.1"));
        assert_eq!((probe.tls, probe.peer, probe.ping), (Some("TLSv1_3"), None, None));
        assert!(server.requests().concat().is_empty());
    }
}

#[test]
fn without_tls_http_2_is_spoken_only_to_those_known_to_understand_it() {
    let server = scripted::Server::start(|_| vec![scripted::Step::ReadHead]);
    let transport = H2::new(Arc::new(Dialer::new(Settings::default()).unwrap()), Tuning::default()).unwrap();
    wants_http_1(&transport.exchange(get(&server.url("/"))).unwrap_err());
    assert_eq!(server.connections(), 0);
    let server = frames::Server::start(|_, mut peer| {
        peer.greet(&[])?;
        let stream = peer.request()?;
        peer.answer(stream, "understood")
    });
    assert_eq!(text(&crate::support::plain(), get(&server.url("/"))), "understood");
}

#[test]
fn a_server_of_http_1_that_is_taken_for_another_fails_at_receiving() {
    let server = scripted::Server::start(|_| {
        let refusal = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        vec![
            scripted::Step::ReadHead,
            scripted::Step::write(refusal),
            scripted::Step::Close,
        ]
    });
    let err = crate::support::plain().exchange(get(&server.url("/"))).unwrap_err();
    assert_eq!(err.stage(), Some(rgit_transport::Stage::Receive), "{}", said(&err));
}

#[test]
fn a_real_server_of_http_2_only_is_probed_and_served_by() {
    let authority = Authority::new();
    let (transport, _directory) = trusting(&authority);
    for (window, connection_window, frame_size) in [
        (16 << 10, 65_535, 16 << 10),
        (64 << 10, 65_535, 64 << 10),
        (1 << 20, 4 << 20, 256 << 10),
        (16 << 20, 16 << 20, 1 << 20),
    ] {
        let server = GitServer::builder()
            .tls(&authority)
            .protocols(Protocols::H2)
            .window(window)
            .connection_window(connection_window)
            .frame_size(frame_size)
            .streams(77)
            .start()
            .unwrap();
        let url = server.base_url();
        let probe = transport.probe(&url.parse().unwrap()).unwrap();
        let peer = probe.peer.unwrap();
        assert_eq!(
            (peer.initial_window, peer.connection_window),
            (window, connection_window)
        );
        assert_eq!(
            (peer.max_frame_size, peer.max_concurrent_streams),
            (frame_size, Some(77))
        );
        assert_eq!((probe.alpn.as_deref(), probe.tls), (Some("h2"), Some("TLSv1_3")));
        assert!(probe.ping.is_some());
        let response = transport
            .exchange(get(&format!("{url}/nothing.git/info/refs")))
            .unwrap();
        let wire = crate::support::wire(&response);
        assert_eq!((response.status().as_u16(), wire.peer), (404, Some(peer)));
        assert_eq!(server.connections().len(), 1, "the probe's connection serves on");
    }
}
