//! How the daemon's upstreams keep what lies idle.
#![cfg(unix)]

use std::{io::Read, time::Duration};

use http::Request;
use rgit_testkit::{
    certificate::Authority,
    frames::{Server, flag, kind},
    scripted::Gate,
};
use rgit_transport::Body;
use rgit_transport_auto::daemon::{Upkeep, factory};
use rgit_transport_persistent::{Profile, Road};

#[test]
fn idle_connections_of_http2_are_asked_whether_they_are_still_there() {
    for road in [Road::Http2, Road::Auto] {
        let asked = Gate::new();
        let gate = asked.clone();
        let authority = Authority::new();
        let files = tempfile::tempdir().expect("a directory");
        let server = Server::start_tls(authority.server_config(&["127.0.0.1"], &[b"h2"]), move |_, mut peer| {
            peer.greet(&[])?;
            let stream = peer.request()?;
            peer.answer(stream, "served")?;
            for _ in 0..3 {
                while peer.until(kind::PING)?.has(flag::ACK) {}
            }
            gate.open();
            peer.hold();
            Ok(())
        });
        let mut profile = Profile::default();
        profile.road = road;
        profile.ca_file = Some(authority.write_ca(files.path()));
        let mut upkeep = Upkeep::default();
        upkeep.ping_interval = Duration::from_millis(50);
        let upstream = factory(upkeep)(&profile).expect("an upstream");
        let request = Request::get(server.url("/")).body(Body::Empty).expect("a request");
        let response = upstream.transport().exchange(request).expect("an answer");
        let mut text = String::new();
        response.into_body().read_to_string(&mut text).expect("all of it");
        assert_eq!(text, "served");
        asked.wait();
    }
}
