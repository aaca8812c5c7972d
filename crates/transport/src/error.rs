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
            Error::Body { sent, .. } | Error::Broken { sent, .. } => *sent,
        }
    }

    /// The HTTP/2 error code, if the peer gave one.
    pub fn code(&self) -> Option<u32> {
        match self {
            Error::Broken { code, .. } => *code,
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
                    write!(f, " (HTTP/2 error code {code:#x})")?;
                }
                Ok(())
            }
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Request { .. } => None,
            Error::Body { source, .. } => Some(source),
            Error::Broken { source, .. } => Some(&**source),
        }
    }
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
}
