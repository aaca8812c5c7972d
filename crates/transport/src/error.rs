use std::{error::Error as StdError, fmt};

/// How far an exchange had come when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Resolving the name or connecting.
    Dial,
    /// Negotiating TLS, certificate checks included.
    Tls,
    /// Sending the request's head or body.
    Send,
    /// Everything was sent; the answer's head did not come.
    Wait,
    /// The answer's head was being received and is no HTTP, or stopped in the middle.
    Receive,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Dial => "connecting",
            Stage::Tls => "negotiating TLS",
            Stage::Send => "sending the request",
            Stage::Wait => "waiting for the answer",
            Stage::Receive => "receiving the answer",
        })
    }
}

/// Why no answer arrived.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The request can't be carried as it is: a relative URI, a scheme that isn't `http(s)`, a length that contradicts the body.
    Request {
        /// What is wrong with it.
        reason: String,
    },
    /// The request's own body could not be read; the network is not to blame.
    Body {
        /// Body bytes sent before that.
        sent: u64,
        /// What the body's reader said.
        source: std::io::Error,
    },
    /// The exchange broke off.
    Broken {
        /// Where.
        stage: Stage,
        /// `scheme://host:port` of the server; never a path, query or user.
        origin: String,
        /// Body bytes handed to the network before it broke.
        sent: u64,
        /// The HTTP/2 error code of a reset or GOAWAY (RFC 9113, section 7).
        code: Option<u32>,
        /// What was seen.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The server wants another version of HTTP than this transport speaks, and has processed nothing of this request: a transport
    /// that speaks the wanted version may send it again, if its body can be replayed.
    Version {
        /// `scheme://host:port` of the server.
        origin: String,
        /// What the server wants, as far as is known.
        wanted: http::Version,
        /// How that came out.
        reason: String,
        /// Body bytes handed to the network before.
        sent: u64,
        /// The HTTP/2 error code `HTTP_1_1_REQUIRED`, where that is how it came out.
        code: Option<u32>,
    },
}

impl Error {
    /// An exchange with `origin` that broke off at `stage` after `sent` body bytes.
    pub fn broken(
        stage: Stage,
        origin: impl Into<String>,
        sent: u64,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Error::Broken {
            stage,
            origin: origin.into(),
            sent,
            code: None,
            source: source.into(),
        }
    }

    /// The stage, where a connection was involved at all.
    pub fn stage(&self) -> Option<Stage> {
        match self {
            Error::Broken { stage, .. } => Some(*stage),
            _ => None,
        }
    }

    /// Request body bytes handed to the network.
    pub fn sent(&self) -> u64 {
        match self {
            Error::Request { .. } => 0,
            Error::Body { sent, .. } | Error::Broken { sent, .. } | Error::Version { sent, .. } => *sent,
        }
    }

    /// The HTTP/2 error code, if the peer gave one.
    pub fn code(&self) -> Option<u32> {
        match self {
            Error::Broken { code, .. } | Error::Version { code, .. } => *code,
            _ => None,
        }
    }

    /// The version of HTTP that a transport must speak to get an answer to this request.
    pub fn wanted_version(&self) -> Option<http::Version> {
        match self {
            Error::Version { wanted, .. } => Some(*wanted),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Request { reason } => write!(f, "this request can't be sent: {reason}"),
            Error::Body { sent, .. } => write!(f, "the request's body could not be read after {sent} bytes were sent"),
            Error::Broken {
                stage,
                origin,
                sent,
                code,
                ..
            } => {
                write!(f, "no answer from {origin}: failed while {stage}")?;
                if *sent > 0 {
                    write!(f, " ({sent} body bytes sent)")?;
                }
                if let Some(code) = code {
                    write!(f, " (HTTP/2 error code {code:#x}, {})", code_name(*code))?;
                }
                Ok(())
            }
            Error::Version {
                origin, wanted, reason, ..
            } => write!(
                f,
                "{origin} has to be spoken to in {wanted:?}: {reason}; choose a transport that speaks it"
            ),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Request { .. } | Error::Version { .. } => None,
            Error::Body { source, .. } => Some(source),
            Error::Broken { source, .. } => Some(&**source),
        }
    }
}

/// The name of an HTTP/2 error code (RFC 9113, section 7).
fn code_name(code: u32) -> &'static str {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    let index = usize::try_from(code).unwrap_or(usize::MAX);
    NAMES.get(index).copied().unwrap_or("no code of RFC 9113")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_stage_origin_and_bytes() {
        let err = Error::broken(
            Stage::Send,
            "https://example.com:443",
            42,
            std::io::Error::other("reset"),
        );
        assert_eq!(
            err.to_string(),
            "no answer from https://example.com:443: failed while sending the request (42 body bytes sent)"
        );
        assert_eq!((err.stage(), err.sent(), err.code()), (Some(Stage::Send), 42, None));
        assert_eq!(err.source().unwrap().to_string(), "reset");
    }

    #[test]
    fn codes_have_names() {
        for (code, name) in [
            (0, "0x0, NO_ERROR"),
            (8, "0x8, CANCEL"),
            (13, "0xd, HTTP_1_1_REQUIRED"),
            (14, "0xe, no code"),
        ] {
            let err = Error::Broken {
                stage: Stage::Wait,
                origin: "https://example.com:443".into(),
                sent: 0,
                code: Some(code),
                source: "reset".into(),
            };
            assert!(err.to_string().contains(name), "{err}");
            assert_eq!(err.code(), Some(code));
        }
    }

    #[test]
    fn another_version_is_told_apart() {
        let err = Error::Version {
            origin: "https://example.com:443".into(),
            wanted: http::Version::HTTP_11,
            reason: "by ALPN".into(),
            sent: 0,
            code: None,
        };
        assert_eq!(err.wanted_version(), Some(http::Version::HTTP_11));
        assert_eq!(
            err.to_string(),
            "https://example.com:443 has to be spoken to in HTTP/1.1: by ALPN; choose a transport that speaks it"
        );
    }
}
