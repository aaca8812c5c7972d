//! A request's body on its way out, in pieces that h2 takes over without copying.

use std::{
    io::{self, Read},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use rgit_transport::{Body, Error};

use crate::{observed::lock, request::Request};

/// How long small reads are gathered into one piece: a slow source's bytes are not to wait for their successors.
const GATHER: Duration = Duration::from_millis(50);
/// Buffers kept for the next pieces: as many as are under way at a time with the default send buffer.
const KEPT: usize = 8;

/// A body being sent.
pub(crate) struct Outgoing<'s> {
    source: Option<Box<dyn Read + 's>>,
    /// Read, and not handed over.
    pub(crate) piece: Bytes,
    /// Bytes still to be read of an announced length.
    left: Option<u64>,
    chunk: usize,
    begun: bool,
    /// Handed over so far.
    pub(crate) handed: u64,
    spare: Spare,
}

impl<'s> Outgoing<'s> {
    /// Begin an attempt: a body that can be replayed is opened anew.
    pub(crate) fn new(request: &Request, body: &'s mut Body<'_>, chunk: usize) -> Result<Self, Error> {
        let mut piece = Bytes::new();
        let source: Option<Box<dyn Read + 's>> = match body {
            Body::Empty => None,
            Body::Full(bytes) => {
                piece = bytes.clone();
                None
            }
            Body::Replay { factory, .. } => Some(factory().map_err(|source| Error::Body { sent: 0, source })?),
            Body::Stream { reader, .. } => Some(Box::new(reader)),
            _ => {
                return Err(Error::Request {
                    reason: "HTTP/2 does not know this kind of body".into(),
                });
            }
        };
        Ok(Outgoing {
            source,
            piece,
            left: request.length,
            chunk,
            begun: false,
            handed: 0,
            spare: Spare::default(),
        })
    }

    /// Whether the body was read to its end.
    pub(crate) fn is_last(&self) -> bool {
        self.source.is_none()
    }

    /// Whether there is no body byte left.
    pub(crate) fn is_through(&self) -> bool {
        self.is_last() && self.piece.is_empty()
    }

    /// Read the next piece, blocking as its source does. Only when there is none and the body was not read to its end.
    ///
    /// # Errors
    /// The source's, or a length that is not the one announced: noticed before the last piece is handed over, so that the server can't
    /// take the request for complete.
    pub(crate) fn fill(&mut self) -> io::Result<()> {
        let Some(source) = &mut self.source else { return Ok(()) };
        let mut buffer = self.spare.take(self.chunk);
        let limit = match self.left {
            Some(left) => self.chunk.min(usize::try_from(left).unwrap_or(usize::MAX)),
            None => self.chunk,
        };
        // The first piece leaves with whatever the first read yields: a source that then computes for minutes must not hold it back.
        let gather = if self.begun { GATHER } else { Duration::ZERO };
        self.begun = true;
        let begun = Instant::now();
        let (mut got, mut over) = (0, false);
        while got < limit {
            match read(source, &mut buffer[got..limit])? {
                0 => {
                    over = true;
                    break;
                }
                count => got += count,
            }
            if begun.elapsed() >= gather {
                break;
            }
        }
        if let Some(left) = &mut self.left {
            *left -= got as u64;
            if *left > 0 && over {
                let said = format!("the body ended {left} bytes before its announced length");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, said));
            }
            over = *left == 0;
            if over && read(source, &mut [0])? > 0 {
                let said = "the body goes on after its announced length";
                return Err(io::Error::new(io::ErrorKind::InvalidData, said));
            }
        }
        if over {
            self.source = None;
        }
        self.piece = self.spare.lend(buffer).slice(..got);
        Ok(())
    }
}

fn read(source: &mut dyn Read, buf: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(buf) {
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Buffers that come back: a new one for each piece would have the kernel clear its pages each time.
#[derive(Debug, Clone, Default)]
struct Spare(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spare {
    fn take(&self, length: usize) -> Vec<u8> {
        lock(&self.0).pop().unwrap_or_else(|| vec![0; length])
    }

    fn lend(&self, buffer: Vec<u8>) -> Bytes {
        Bytes::from_owner(Lent {
            buffer,
            home: self.clone(),
        })
    }
}

struct Lent {
    buffer: Vec<u8>,
    home: Spare,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut kept = lock(&self.home.0);
        if kept.len() < KEPT {
            kept.push(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(mut body: Body<'_>, announced: Option<&str>) -> io::Result<Vec<Bytes>> {
        let mut build = http::Request::post("http://h/");
        if let Some(length) = announced {
            build = build.header("content-length", length);
        }
        let (parts, ()) = build.body(()).unwrap().into_parts();
        let request = Request::new(&parts, &body).unwrap();
        let mut outgoing = Outgoing::new(&request, &mut body, 8).unwrap();
        let mut all = Vec::new();
        loop {
            if outgoing.piece.is_empty() {
                if outgoing.is_last() {
                    return Ok(all);
                }
                outgoing.fill()?;
            }
            let piece = std::mem::take(&mut outgoing.piece);
            // The last piece is known to be the last, unless its length was not announced.
            all.push(piece);
        }
    }

    #[test]
    fn bytes_are_the_same_in_any_kind_of_body() {
        let text = "0123456789abc";
        for body in [
            Body::full(text),
            Body::stream(None, text.as_bytes()),
            Body::stream(Some(13), text.as_bytes()),
            Body::replay(None, || Ok(text.as_bytes())),
        ] {
            let shown = format!("{body:?}");
            assert_eq!(pieces(body, None).unwrap().concat(), text.as_bytes(), "{shown}");
        }
        assert!(pieces(Body::Empty, None).unwrap().is_empty());
    }

    #[test]
    fn a_body_of_another_length_is_an_error_before_its_last_piece() {
        let short = pieces(Body::stream(Some(4), &b"abc"[..]), None).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
        let long = pieces(Body::stream(None, &b"abc"[..]), Some("2")).unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn buffers_come_back() {
        let spare = Spare::default();
        let lent = spare.lend(spare.take(8));
        let at = lent.as_ptr();
        let slice = lent.slice(2..4);
        drop(lent);
        assert!(lock(&spare.0).is_empty(), "still in use");
        drop(slice);
        let taken = spare.take(8);
        assert_eq!(taken.as_ptr(), at);
    }
}
