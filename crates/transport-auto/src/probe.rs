//! What a server offers, found out without a request, and what follows from it.
//!
//! [`probe`] connects twice at most: once offering HTTP/2 and HTTP/1.1, and, where that ended in HTTP/2, once offering only HTTP/1.1.
//! It sends no request and knows no credentials. The [`Report`] is plain data; everything derived from it is a pure function:
//! [`uploads`] (what the window costs), [`decisions`] (what [`Auto`](crate::Auto) would do, and why) and [`advise`] (what the server's
//! operator can change).

mod advice;
mod decision;
pub mod units;
mod upload;

use std::{error::Error as StdError, time::Duration};

use rgit_dial::{Alpn, Dialer, Origin, Scheme};
use rgit_transport::{Error, PeerSettings, Stage};
use rgit_transport_h2::H2;

use crate::Choice;
pub use advice::{Advice, Knob, Limit, Needed, advise};
pub use decision::{Decision, Kind, Open, decisions};
pub use upload::{UPLOAD, Upload, uploads};

/// How long a server may take to show its SETTINGS where the caller sets no idle timeout: as long as for connecting.
const PATIENCE: Duration = Duration::from_secs(30);
/// No round trip is shorter; the clock may say that it was.
const SHORTEST: Duration = Duration::from_micros(1);

/// Whether a server speaks a protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spoken {
    /// It agreed to it.
    Yes,
    /// It did not.
    No {
        /// How that came out.
        reason: String,
    },
    /// That can't be told without a request.
    Unknown {
        /// Why not.
        reason: String,
    },
}

impl Spoken {
    fn no(reason: &str) -> Spoken {
        Spoken::No { reason: reason.into() }
    }

    fn unknown(reason: &str) -> Spoken {
        Spoken::Unknown { reason: reason.into() }
    }

    /// `yes`, `no` or `unknown`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Spoken::Yes => "yes",
            Spoken::No { .. } => "no",
            Spoken::Unknown { .. } => "unknown",
        }
    }

    /// Why it is not a plain yes. May hold text from the server: mask it before it is shown.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Spoken::Yes => None,
            Spoken::No { reason } | Spoken::Unknown { reason } => Some(reason),
        }
    }
}

/// What was found out about one server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// `scheme://host:port`; never a path, query or user.
    pub origin: String,
    /// Whether it is spoken to by TLS.
    pub is_tls: bool,
    /// The version of TLS, as `TLSv1_3`; `None` without TLS.
    pub tls_version: Option<&'static str>,
    /// What the server chose by ALPN (RFC 7301) when HTTP/2 and HTTP/1.1 were offered; `None` where it takes no part in that.
    pub alpn: Option<String>,
    /// Whether it speaks HTTP/1.1.
    pub http1: Spoken,
    /// Whether it speaks HTTP/2.
    pub http2: Spoken,
    /// How long it took to connect: name, TCP and TLS.
    pub dial_time: Duration,
    /// One round trip, as the TCP handshake took it.
    pub tcp_round_trip: Duration,
    /// One round trip of an HTTP/2 PING; `None` without HTTP/2 or an answer.
    pub ping: Option<Duration>,
    /// What the server allows; `None` without HTTP/2.
    pub peer: Option<PeerSettings>,
}

impl Report {
    /// The round trip to whoever gives windows back: the PING's, else TCP's; never zero. They differ where something on the way
    /// accepts connections in the server's name.
    pub fn round_trip(&self) -> Duration {
        self.ping.unwrap_or(self.tcp_round_trip).max(SHORTEST)
    }

    /// How many bytes of a request's body may be on their way over HTTP/2: the smaller one of the stream's and the connection's window.
    /// `None` without HTTP/2.
    pub fn window(&self) -> Option<u64> {
        self.peer.map(|peer| u64::from(peer.upload_window()))
    }
}

/// Find out what the server of `url` offers. Path, query and user of the URL are not looked at; of `choice` its trust, idle timeout
/// and HTTP/2 settings are, its transport is not.
///
/// # Errors
/// When there is no connection, or a server that agreed to HTTP/2 sends no SETTINGS. That the second connection fails is no error.
pub fn probe(choice: &Choice, url: &http::Uri) -> Result<Report, Error> {
    let request = |reason: String| Error::Request { reason };
    let origin = Origin::try_from(url).map_err(|err| request(err.to_string()))?;
    let dialer = choice
        .dialer()
        .map_err(|err| Error::broken(Stage::Tls, origin.to_string(), 0, err))?;
    let tuning = choice.h2.tuning(Some(choice.idle_timeout.unwrap_or(PATIENCE)));
    let h2 = H2::new(dialer.clone(), tuning)
        .map_err(|err| request(format!("HTTP/2 can't be set up here: {err}; are too many files open?")))?;
    let probed = h2.probe(url)?;
    let (http1, http2) = match (origin.scheme, probed.alpn.as_deref()) {
        (Scheme::Http, _) => (
            Spoken::unknown("only a request would show it, and none is sent"),
            Spoken::unknown("without TLS, a server can't say that it speaks HTTP/2"),
        ),
        (Scheme::Https, Some("h2")) => (http1(&dialer, &origin), Spoken::Yes),
        (Scheme::Https, Some(_)) => (
            Spoken::Yes,
            Spoken::no("offered HTTP/2 and HTTP/1.1, it chose HTTP/1.1"),
        ),
        (Scheme::Https, None) => (
            Spoken::unknown("it takes no part in ALPN; such servers speak HTTP/1.1"),
            Spoken::no("it takes no part in ALPN, so that HTTP/2 can't be agreed on"),
        ),
    };
    Ok(Report {
        origin: origin.to_string(),
        is_tls: origin.scheme == Scheme::Https,
        tls_version: probed.tls,
        alpn: probed.alpn,
        http1,
        http2,
        dial_time: probed.dial_time,
        tcp_round_trip: probed.round_trip,
        ping: probed.ping,
        peer: probed.peer,
    })
}

/// Whether a server that prefers HTTP/2 speaks HTTP/1.1, too.
fn http1(dialer: &Dialer, origin: &Origin) -> Spoken {
    match dialer.dial(origin, Alpn::Http1) {
        Ok(mut connection) => {
            let agreed = connection.alpn() == Some(b"http/1.1");
            connection.shutdown();
            match agreed {
                true => Spoken::Yes,
                false => Spoken::unknown("it connected when only that was offered, but did not agree to it"),
            }
        }
        Err(err) if err.is_alpn_refused() => Spoken::no("it refused when only that was offered"),
        Err(err) => Spoken::Unknown {
            reason: format!("when only that was offered, it did not connect: {}", chain(&err)),
        },
    }
}

fn chain(err: &dyn StdError) -> String {
    let mut text = err.to_string();
    let mut source = err.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
