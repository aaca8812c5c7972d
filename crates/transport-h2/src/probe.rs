use std::{
    task::Poll,
    time::{Duration, Instant},
};

use rgit_dial::Origin;
use rgit_transport::{Error, PeerSettings, Stage};

use crate::{H2, driver::Leave, link::idle_for};

/// How long to wait for a PING's answer once the server has shown its SETTINGS: some never answer.
const PING: Duration = Duration::from_secs(10);

/// What a server offers, found out without asking it for anything.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probe {
    /// The protocol agreed on by ALPN, where there is TLS and both sides spoke it.
    pub alpn: Option<String>,
    /// The version of TLS, as `TLSv1_3`; `None` without TLS.
    pub tls: Option<&'static str>,
    /// How long it took to connect: name, TCP and TLS.
    pub dial_time: Duration,
    /// One round trip, as the TCP handshake took it.
    pub round_trip: Duration,
    /// One round trip of an HTTP/2 PING. `None` where it is not HTTP/2 that was agreed on, or the server does not answer.
    pub ping: Option<Duration>,
    /// What the server allows. `None` where it is not HTTP/2 that was agreed on.
    pub peer: Option<PeerSettings>,
}

impl H2 {
    /// Connect to the origin of `uri` and find out what its server allows, without a request. A server that chooses HTTP/1.1 is no error
    /// here. An HTTP/2 connection stays for the exchanges that follow.
    ///
    /// # Errors
    /// When there is no connection, or the server sends no SETTINGS within the idle timeout.
    pub fn probe(&self, uri: &http::Uri) -> Result<Probe, Error> {
        let origin = Origin::try_from(uri).map_err(|err| Error::Request {
            reason: err.to_string(),
        })?;
        let connection = self.connect(&origin)?;
        let alpn = connection.alpn().map(|name| String::from_utf8_lossy(name).into_owned());
        let mut probe = Probe {
            tls: connection.tls_version(),
            dial_time: connection.dial_time(),
            round_trip: connection.round_trip(),
            ping: None,
            peer: None,
            alpn,
        };
        let speaks_h2 = match connection.is_tls() {
            true => probe.alpn.as_deref() == Some("h2"),
            false => self.tuning.prior_knowledge,
        };
        if !speaks_h2 {
            return Ok(probe);
        }
        let link = self.speak(connection, &origin)?;
        self.offer(link.clone());
        let wait = |limit: Duration, done: &dyn Fn(&std::task::Waker) -> bool| {
            let deadline = Instant::now() + limit;
            link.wait_for(
                Leave::Listening,
                || deadline,
                |cx| match done(cx.waker()) || !link.is_usable() {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                },
            )
        };
        let idle = self.tuning.idle_timeout;
        let settled = wait(idle, &|waker| link.observed.settled(waker));
        probe.peer = link.observed.peer_settings();
        if probe.peer.is_none() {
            link.retire();
            let source: Box<dyn std::error::Error + Send + Sync> = match settled {
                Some(()) => "the server closed the connection, or speaks no HTTP/2, before it sent any SETTINGS".into(),
                None => idle_for(idle).into(),
            };
            return Err(Error::broken(Stage::Receive, origin.to_string(), 0, source));
        }
        wait(PING.min(idle), &|waker| link.observed.measured(waker));
        // The window of the connection may have been raised just behind the SETTINGS.
        probe.peer = link.observed.peer_settings();
        probe.ping = link.observed.round_trip();
        Ok(probe)
    }
}
