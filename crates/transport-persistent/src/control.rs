//! What client and daemon tell one another about an exchange, in headers that no server and no caller can set: all that begin with
//! `rgit-hop-` are taken out of what comes from either.

use std::{error::Error as StdError, fmt, io, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Version};
use rgit_transport::{EarlyData, Error, PeerSettings, Stage, Wire};

use crate::fields::{self, Fields};

const PREFIX: &str = "rgit-hop-";
/// To the daemon: the [`Profile`](crate::Profile).
pub(crate) const PROFILE: HeaderName = HeaderName::from_static("rgit-hop-profile");
/// To the daemon: what may be done with the request.
pub(crate) const ASK: HeaderName = HeaderName::from_static("rgit-hop-ask");
/// From the daemon: how the exchange travelled. Every server's answer has it.
pub(crate) const WIRE: HeaderName = HeaderName::from_static("rgit-hop-wire");
/// From the daemon: there is no answer of a server, but this error.
pub(crate) const FAILURE: HeaderName = HeaderName::from_static("rgit-hop-error");
/// From the daemon: the server's `transfer-encoding`, or else its `content-length`. On the hop, all bodies are chunked.
pub(crate) const FRAMING: HeaderName = HeaderName::from_static("rgit-hop-framing");
/// From the daemon, in the trailer: how the body ended.
pub(crate) const END: HeaderName = HeaderName::from_static("rgit-hop-end");

/// Take all control headers out.
pub(crate) fn strip(headers: &mut HeaderMap) {
    let names: Vec<_> = headers
        .keys()
        .filter(|name| name.as_str().starts_with(PREFIX))
        .cloned()
        .collect();
    for name in names {
        headers.remove(name);
    }
}

/// What may be done with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ask {
    /// It may be processed twice.
    pub(crate) repeatable: bool,
    /// Its body can be had again.
    pub(crate) replays: bool,
    /// Its answer may be remembered.
    pub(crate) remember: bool,
    /// What is remembered already is wrong.
    pub(crate) anew: bool,
    /// It may go out before a handshake is through.
    pub(crate) early: bool,
}

impl Ask {
    pub(crate) fn header(self) -> HeaderValue {
        Fields::default()
            .flag("repeatable", self.repeatable)
            .flag("replays", self.replays)
            .flag("remember", self.remember)
            .flag("anew", self.anew)
            .flag("early", self.early)
            .header()
    }

    pub(crate) fn read(headers: &HeaderMap) -> Ask {
        let has = |flag| text(headers, &ASK).is_some_and(|text| fields::read(text).any(|field| field == (flag, None)));
        Ask {
            repeatable: has("repeatable"),
            replays: has("replays"),
            remember: has("remember"),
            anew: has("anew"),
            early: has("early"),
        }
    }
}

/// A header's value, where it is text.
pub(crate) fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

const VERSIONS: [(&str, Version); 3] = [
    ("1.0", Version::HTTP_10),
    ("1.1", Version::HTTP_11),
    ("2", Version::HTTP_2),
];

fn version_name(version: Version) -> &'static str {
    let known = VERSIONS.iter().find(|(_, known)| *known == version);
    known.map_or("1.1", |(name, _)| name)
}

fn version_named(name: &str) -> Option<Version> {
    VERSIONS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, version)| *version)
}

pub(crate) fn wire_header(wire: &Wire) -> HeaderValue {
    let micros = |time: Duration| time.as_micros();
    Fields::default()
        .value("version", Some(version_name(wire.protocol)))
        .flag("reused", wire.reused)
        .value("dial", wire.dial_time.map(micros))
        .value("round", wire.round_trip.map(micros))
        .value("sent", Some(wire.sent))
        .value("resent", Some(wire.resent))
        .flag("early", wire.early)
        .flag("remembered", wire.remembered)
        .flag("early-data-accepted", wire.early_data == EarlyData::Accepted)
        .flag("early-data-rejected", wire.early_data == EarlyData::Rejected)
        .value("starved", Some(micros(wire.starved)))
        .value("window", wire.peer.map(|peer| peer.initial_window))
        .value("connection", wire.peer.map(|peer| peer.connection_window))
        .value("frame", wire.peer.map(|peer| peer.max_frame_size))
        .value("streams", wire.peer.and_then(|peer| peer.max_concurrent_streams))
        .header()
}

/// `None` where this is no [`WIRE`].
pub(crate) fn wire(headers: &HeaderMap) -> Option<Wire> {
    let mut wire = Wire::new(Version::HTTP_11);
    let mut peer = PeerSettings::new(0, 0, 0);
    let mut has_peer = false;
    for (key, value) in fields::read(text(headers, &WIRE)?) {
        let number = value.and_then(|value| value.parse::<u64>().ok());
        let small = number.and_then(|number| u32::try_from(number).ok());
        match key {
            "version" => wire.protocol = version_named(value?)?,
            "reused" => wire.reused = true,
            "early" => wire.early = true,
            "remembered" => wire.remembered = true,
            "early-data-accepted" => wire.early_data = EarlyData::Accepted,
            "early-data-rejected" => wire.early_data = EarlyData::Rejected,
            "dial" => wire.dial_time = Some(Duration::from_micros(number?)),
            "round" => wire.round_trip = Some(Duration::from_micros(number?)),
            "starved" => wire.starved = Duration::from_micros(number?),
            "sent" => wire.sent = number?,
            "resent" => wire.resent = small?,
            "window" => (peer.initial_window, has_peer) = (small?, true),
            "connection" => peer.connection_window = small?,
            "frame" => peer.max_frame_size = small?,
            "streams" => peer.max_concurrent_streams = Some(small?),
            _ => return None,
        }
    }
    wire.peer = has_peer.then_some(peer);
    Some(wire)
}

/// What the daemon says instead of a server's answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing was processed, and another attempt needs the body once more.
    Again,
    /// In the words of the trait.
    Error(Error),
}

const STAGES: [(&str, Stage); 5] = [
    ("dial", Stage::Dial),
    ("tls", Stage::Tls),
    ("send", Stage::Send),
    ("wait", Stage::Wait),
    ("receive", Stage::Receive),
];

impl Failure {
    /// Body bytes that went to the server.
    pub(crate) fn sent(&self) -> u64 {
        match self {
            Failure::Again => 0,
            Failure::Error(error) => error.sent(),
        }
    }

    /// As header and text: the causes, one a line.
    pub(crate) fn write(&self) -> (HeaderValue, String) {
        let stage = |stage: Stage| {
            let known = STAGES.iter().find(|(_, known)| *known == stage);
            known.map_or("send", |(name, _)| name)
        };
        let error = match self {
            Failure::Again => return (HeaderValue::from_static("kind=again"), String::new()),
            Failure::Error(error) => error,
        };
        let (kind, stage, origin, text) = match error {
            Error::Request { reason } => ("request", None, None, line(reason)),
            Error::Version { origin, reason, .. } => ("version", None, Some(origin), line(reason)),
            Error::Broken {
                stage: reached,
                origin,
                source,
                ..
            } => ("broken", Some(stage(*reached)), Some(origin), chain(&**source)),
            other => ("broken", Some("send"), None, chain(other)),
        };
        let header = Fields::default()
            .value("kind", Some(kind))
            .value("stage", stage)
            .value("origin", origin)
            .value("sent", Some(error.sent()))
            .value("code", error.code())
            .value("wanted", error.wanted_version().map(version_name))
            .header();
        (header, text)
    }

    /// `None` where this is no [`FAILURE`].
    pub(crate) fn read(headers: &HeaderMap, text_of: &str) -> Option<Failure> {
        let (mut kind, mut stage, mut origin, mut sent, mut code, mut wanted) = ("", None, "", 0, None, None);
        for (key, value) in fields::read(text(headers, &FAILURE)?) {
            let value = value?;
            match key {
                "kind" => kind = value,
                "stage" => stage = STAGES.iter().find(|(name, _)| *name == value).map(|(_, stage)| *stage),
                "origin" => origin = value,
                "sent" => sent = value.parse().ok()?,
                "code" => code = Some(value.parse().ok()?),
                "wanted" => wanted = version_named(value),
                _ => return None,
            }
        }
        let origin = origin.to_owned();
        let reason = || text_of.lines().collect::<Vec<_>>().join(": ");
        Some(match kind {
            "again" => Failure::Again,
            "request" => Failure::Error(Error::Request { reason: reason() }),
            "version" => Failure::Error(Error::Version {
                origin,
                wanted: wanted?,
                reason: reason(),
                sent,
                code,
            }),
            "broken" => Failure::Error(Error::Broken {
                stage: stage?,
                origin,
                sent,
                code,
                source: Told::chain(text_of),
            }),
            _ => return None,
        })
    }
}

/// An error and its causes, a line each.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut lines = vec![line(&error.to_string())];
    let mut next = error.source();
    while let Some(error) = next {
        lines.push(line(&error.to_string()));
        next = error.source();
    }
    lines.join("\n")
}

fn line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ")
}

/// An error that the daemon saw, with its causes.
#[derive(Debug)]
struct Told {
    text: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Told {
    fn chain(text: &str) -> Box<dyn StdError + Send + Sync> {
        let mut lines = text.lines().rev();
        let told = |text: &str, cause| {
            Box::new(Told {
                text: text.to_owned(),
                cause,
            }) as Box<dyn StdError + Send + Sync>
        };
        let last = told(lines.next().unwrap_or("the daemon gave no reason"), None);
        lines.fold(last, |cause, line| told(line, Some(cause)))
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for Told {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

const KINDS: [(&str, io::ErrorKind); 4] = [
    ("cut", io::ErrorKind::UnexpectedEof),
    ("late", io::ErrorKind::TimedOut),
    ("reset", io::ErrorKind::ConnectionReset),
    ("invalid", io::ErrorKind::InvalidData),
];

/// The trailer of a body that ended like that.
pub(crate) fn end(ended: &io::Result<()>) -> HeaderMap {
    let value = match ended {
        Ok(()) => HeaderValue::from_static("whole"),
        Err(err) => {
            let known = KINDS.iter().find(|(_, kind)| *kind == err.kind());
            let text = chain(err).replace(['\n', ';', '='], ", ");
            let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
            Fields::default()
                .value("kind", Some(known.map_or("other", |(name, _)| name)))
                .value("text", Some(text))
                .header()
        }
    };
    HeaderMap::from_iter([(END, value)])
}

/// How a body ended, by its trailer.
pub(crate) fn ended(trailer: Option<&HeaderMap>) -> io::Result<()> {
    let Some(value) = trailer.and_then(|fields| fields.get(&END)) else {
        let said = "the daemon ended before the answer did";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, said));
    };
    if value == "whole" {
        return Ok(());
    }
    let value = String::from_utf8_lossy(value.as_bytes());
    let field = |name| {
        fields::read(&value)
            .find(|(key, _)| *key == name)
            .and_then(|(_, value)| value)
    };
    let kind = KINDS.iter().find(|(name, _)| field("kind") == Some(name));
    let kind = kind.map_or(io::ErrorKind::Other, |(_, kind)| *kind);
    Err(io::Error::new(
        kind,
        field("text").unwrap_or("the server's answer broke off").to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wires_read_as_they_were_written() {
        let mut full = Wire::new(Version::HTTP_2);
        full.reused = true;
        full.early = true;
        full.remembered = true;
        full.dial_time = Some(Duration::from_micros(7));
        full.round_trip = Some(Duration::from_millis(100));
        (full.sent, full.resent) = (1 << 40, 1);
        full.starved = Duration::from_secs(2);
        full.peer = Some(PeerSettings::new(1, 2, 3).max_concurrent_streams(Some(4)));
        full.early_data = EarlyData::Accepted;
        let mut rejected = full;
        rejected.early_data = EarlyData::Rejected;
        for expected in [full, rejected, Wire::new(Version::HTTP_10)] {
            let headers = HeaderMap::from_iter([(WIRE, wire_header(&expected))]);
            assert_eq!(wire(&headers), Some(expected));
        }
        let odd = HeaderMap::from_iter([(WIRE, HeaderValue::from_static("version=1.1;sent=x"))]);
        assert_eq!((wire(&odd), wire(&HeaderMap::new())), (None, None));
    }

    #[test]
    fn errors_read_as_they_were_written() {
        let inner = io::Error::other("the\ncause");
        let mut broken = Error::broken(Stage::Tls, "https://h:1", 5, inner);
        if let Error::Broken { code, .. } = &mut broken {
            *code = Some(11);
        }
        let version = Error::Version {
            origin: "https://h:1".into(),
            wanted: Version::HTTP_2,
            reason: "because".into(),
            sent: 1,
            code: Some(13),
        };
        for error in [broken, version, Error::Request { reason: "odd".into() }] {
            let shown = error.to_string();
            let (stage, wanted) = (error.stage(), error.wanted_version());
            let causes = StdError::source(&error).map(|source| line(&source.to_string()));
            let (header, text) = Failure::Error(error).write();
            let headers = HeaderMap::from_iter([(FAILURE, header)]);
            let Some(Failure::Error(read)) = Failure::read(&headers, &text) else {
                panic!("{shown}")
            };
            assert_eq!(read.to_string(), shown);
            assert_eq!((read.stage(), read.wanted_version()), (stage, wanted));
            assert_eq!(StdError::source(&read).map(ToString::to_string), causes);
        }
        let (header, _) = Failure::Again.write();
        let headers = HeaderMap::from_iter([(FAILURE, header)]);
        assert!(matches!(Failure::read(&headers, ""), Some(Failure::Again)));
        assert!(Failure::read(&HeaderMap::new(), "").is_none());
    }

    #[test]
    fn a_body_is_whole_only_when_that_is_said() {
        assert!(ended(Some(&end(&Ok(())))).is_ok());
        for kind in [
            io::ErrorKind::TimedOut,
            io::ErrorKind::InvalidData,
            io::ErrorKind::Other,
        ] {
            let err = ended(Some(&end(&Err(io::Error::new(kind, "a=b; c\nd"))))).unwrap_err();
            assert_eq!(err.kind(), kind);
            assert!(err.to_string().contains("c d"), "{err}");
        }
        for trailer in [None, Some(&HeaderMap::new())] {
            assert_eq!(ended(trailer).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn nobody_else_sets_control_headers() {
        let mut headers = HeaderMap::new();
        for name in ["rgit-hop-wire", "rgit-hop-anything", "rgit-hopeful", "date"] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static("x"));
        }
        strip(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["date", "rgit-hopeful"]);
    }
}
