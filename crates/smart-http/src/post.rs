//! Posts: `POST <base>/<service>` (gitprotocol-http(5), "Smart Service git-receive-pack"), and how their bodies are framed.
//!
//! As in git, `http.postBuffer` decides: a body that fits goes out whole with `content-length`, a larger one in chunks. A length is
//! found by reading up to one byte more than fits. What was read that way is sent first and freed as soon as it was.

use std::io::{self, Cursor, Read};

use bytes::Bytes;
use http::Method;
use rgit_transport::{Answer, Body, Wire};

use crate::{
    Error, Service, Session,
    headers::git_protocol,
    session::{Ask, check_type, wire},
};

/// A service's answer.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reply {
    /// The body, from its first byte.
    pub reader: Answer,
    /// How the last exchange travelled.
    pub wire: Option<Wire>,
}

impl Read for Reply {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buf)
    }
}

impl Session {
    /// Send `body` to `service`. `version` is the `git-protocol` header, such as `version=2`.
    ///
    /// When the server asks for credentials (or redirects, and that is followed) the body is sent again. Only a [`Body::Stream`] of
    /// more than [`Options::post_buffer`](crate::Options::post_buffer) bytes can't be, once it was read from.
    ///
    /// # Errors
    /// When no answer came, or one that is no smart server's result, or authentication failed. [`Error`] tells which.
    pub fn post(&mut self, service: Service, version: Option<&str>, body: Body<'_>) -> Result<Reply, Error> {
        let ask = Ask {
            method: Method::POST,
            service,
            tail: format!("/{service}"),
            git_protocol: git_protocol(version)?,
        };
        let mut source = Source::measure(body, self.options.post_buffer).map_err(|source| Error::Body {
            url: format!("{}{}", self.base.as_str(), ask.tail),
            source,
        })?;
        let landing = self.ask(&ask, &mut source)?;
        check_type(&landing.response, &landing.url, service, "result")?;
        let wire = wire(&landing.response);
        Ok(Reply {
            reader: landing.response.into_body(),
            wire,
        })
    }
}

type Reader<'a> = Box<dyn Read + Send + 'a>;
type Factory<'a> = Box<dyn FnMut() -> io::Result<Reader<'a>> + Send + 'a>;

/// What each attempt's body is made from.
pub(crate) enum Source<'a> {
    Empty,
    Full(Bytes),
    Replay {
        length: Option<u64>,
        /// What measuring began to read: the first attempt's body.
        begun: Option<Reader<'a>>,
        factory: Factory<'a>,
    },
    Stream {
        length: Option<u64>,
        reader: Untouched<'a>,
    },
}

impl<'a> From<Body<'a>> for Source<'a> {
    fn from(body: Body<'a>) -> Self {
        match body {
            Body::Full(bytes) => Source::Full(bytes),
            Body::Replay { length, factory } => Source::Replay {
                length,
                begun: None,
                factory,
            },
            Body::Stream { length, reader } => Source::Stream {
                length,
                reader: Untouched { reader, touched: false },
            },
            // `Body` may grow kinds, and this room with it; none but `Empty` is left today.
            _ => Source::Empty,
        }
    }
}

impl<'a> Source<'a> {
    /// Decide between a known length and chunks for `body`: known exactly where it is at most `limit` bytes.
    pub(crate) fn measure(body: Body<'a>, limit: u64) -> io::Result<Source<'a>> {
        Ok(match Source::from(body) {
            Source::Full(bytes) if bytes.len() as u64 > limit => Source::Replay {
                length: None,
                begun: None,
                factory: Box::new(move || Ok(Box::new(Cursor::new(bytes.clone())))),
            },
            Source::Replay {
                length: Some(length),
                factory,
                ..
            } => Source::Replay {
                length: (length <= limit).then_some(length),
                begun: None,
                factory,
            },
            Source::Replay { mut factory, .. } => match begin(factory()?, limit)? {
                Begun::Whole(bytes) => Source::Full(bytes),
                Begun::Part(reader) => Source::Replay {
                    length: None,
                    begun: Some(reader),
                    factory,
                },
            },
            Source::Stream { length, reader } => match length {
                Some(length) if length > limit => Source::Stream { length: None, reader },
                _ => match begin(reader.reader, limit)? {
                    Begun::Whole(bytes) if length.is_some_and(|length| length != bytes.len() as u64) => {
                        let reason = format!(
                            "it has {} bytes, and was to have {}",
                            bytes.len(),
                            length.unwrap_or_default()
                        );
                        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                    }
                    Begun::Whole(bytes) => Source::Full(bytes),
                    Begun::Part(reader) => Source::Stream {
                        length: None,
                        reader: Untouched { reader, touched: false },
                    },
                },
            },
            other => other,
        })
    }

    /// The body for the next attempt. Only to be called when [`Source::can_repeat`].
    pub(crate) fn attempt(&mut self) -> Body<'_> {
        match self {
            Source::Empty => Body::Empty,
            Source::Full(bytes) => Body::Full(bytes.clone()),
            Source::Replay { length, begun, factory } => Body::Replay {
                length: *length,
                factory: Box::new(move || match begun.take() {
                    Some(reader) => Ok(reader),
                    None => Ok(factory()? as Reader<'_>),
                }),
            },
            Source::Stream { length, reader } => Body::Stream {
                length: *length,
                reader: Box::new(reader),
            },
        }
    }

    /// Whether one more attempt would send the same bytes.
    pub(crate) fn can_repeat(&self) -> bool {
        !matches!(self, Source::Stream { reader, .. } if reader.touched)
    }
}

enum Begun<'a> {
    Whole(Bytes),
    Part(Reader<'a>),
}

fn begin(mut reader: Reader<'_>, limit: u64) -> io::Result<Begun<'_>> {
    let mut head = Vec::new();
    (&mut reader).take(limit.saturating_add(1)).read_to_end(&mut head)?;
    if head.len() as u64 <= limit {
        return Ok(Begun::Whole(head.into()));
    }
    Ok(Begun::Part(Box::new(HeadFirst {
        head: Some(Cursor::new(head)),
        rest: reader,
    })))
}

/// Some bytes, then a reader's. Unlike [`Read::chain`] it frees the bytes when they are through.
struct HeadFirst<'a> {
    head: Option<Cursor<Vec<u8>>>,
    rest: Reader<'a>,
}

impl Read for HeadFirst<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(head) = &mut self.head {
            let read = head.read(buf)?;
            if head.position() >= head.get_ref().len() as u64 {
                self.head = None;
            }
            if read > 0 || buf.is_empty() {
                return Ok(read);
            }
        }
        self.rest.read(buf)
    }
}

/// A stream that knows whether anything was read from it.
pub(crate) struct Untouched<'a> {
    reader: Reader<'a>,
    touched: bool,
}

impl Read for Untouched<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.touched = true;
        self.reader.read(buf)
    }
}
