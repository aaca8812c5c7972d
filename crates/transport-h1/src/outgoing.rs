//! The bytes of a request on their way out: head, then body pieces in their framing.

use std::{
    io::{self, Cursor, IoSlice, Read, Write},
    ops::Range,
    time::{Duration, Instant},
};

use bytes::{Buf, Bytes};
use rgit_transport::{Body, Error};

use crate::request::{Request, Sending};

/// A chunk-size line: up to 16 hexadecimal digits and a line break.
const SIZE_LINE: usize = 18;
/// Behind the data: its line break and the last chunk with an empty trailer (RFC 9112, section 7.1).
const CHUNK_END: &[u8] = b"\r\n";
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// How long small reads are gathered into one piece: a slow source's bytes are not to wait for their successors.
const GATHER: Duration = Duration::from_millis(50);

/// A request being sent. Body data is read into the buffer just where it is written from, with room left around it for head and chunk
/// framing, so that it is never moved.
pub(crate) struct Outgoing<'s> {
    source: Option<Box<dyn Read + 's>>,
    /// A body at hand as a whole: sent as it lies.
    whole: Bytes,
    framing: Sending,
    /// Body bytes still to be read from the source, where the length is known.
    left: u64,
    /// The head, until it is put into the buffer.
    head: Vec<u8>,
    /// Bytes of the head that the connection has not taken.
    head_left: usize,
    piece: usize,
    buffer: Vec<u8>,
    /// What of the buffer is still to be written,
    pending: Range<usize>,
    /// and what of it is body data.
    data: Range<usize>,
    sent: u64,
}

impl<'s> Outgoing<'s> {
    /// Begin an attempt: a body that can be replayed is opened anew.
    pub(crate) fn new(request: &Request, body: &'s mut Body<'_>, piece: usize) -> Result<Self, Error> {
        let mut whole = Bytes::new();
        let source: Option<Box<dyn Read + 's>> = match body {
            Body::Empty => None,
            // Chunked although the length is known: only where the caller's header asked for it.
            Body::Full(bytes) if request.framing == Sending::Chunked => Some(Box::new(Cursor::new(bytes.clone()))),
            Body::Full(bytes) => {
                whole = bytes.clone();
                None
            }
            Body::Replay { factory, .. } => Some(factory().map_err(|source| Error::Body { sent: 0, source })?),
            Body::Stream { reader, .. } => Some(Box::new(reader)),
            _ => {
                return Err(Error::Request {
                    reason: "HTTP/1.1 does not know this kind of body".into(),
                });
            }
        };
        let left = match request.framing {
            Sending::Length(length) => length,
            Sending::Nothing | Sending::Chunked => 0,
        };
        let mut outgoing = Outgoing {
            source,
            whole,
            framing: request.framing,
            left,
            head: request.head.clone(),
            head_left: request.head.len(),
            piece,
            buffer: Vec::new(),
            pending: 0..0,
            data: 0..0,
            sent: 0,
        };
        if outgoing.source.is_none() {
            outgoing.buffer = std::mem::take(&mut outgoing.head);
            outgoing.pending = 0..outgoing.buffer.len();
            // An empty body under `transfer-encoding: chunked` still has its last chunk.
            if request.framing == Sending::Chunked {
                outgoing.buffer.extend_from_slice(LAST_CHUNK);
                outgoing.pending.end = outgoing.buffer.len();
                outgoing.data = outgoing.pending.end..outgoing.pending.end;
            }
        }
        Ok(outgoing)
    }

    /// Whether all that was read of the body is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.whole.is_empty()
    }

    /// Whether the body was read to its end.
    pub(crate) fn is_last(&self) -> bool {
        self.source.is_none()
    }

    /// Whether the connection took everything.
    pub(crate) fn is_through(&self) -> bool {
        self.is_empty() && self.is_last()
    }

    /// The connection took the head while it was made. Only where there is no body.
    pub(crate) fn pass(&mut self) {
        self.pending.start = self.pending.end;
        self.head_left = 0;
    }

    /// Body bytes the connection took, without framing.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether the connection took the whole head.
    pub(crate) fn head_sent(&self) -> bool {
        self.head_left == 0
    }

    /// Read the next piece of the body, blocking as its source does. Only when [`is_empty`](Self::is_empty) and not
    /// [`is_last`](Self::is_last).
    ///
    /// # Errors
    /// The source's, or a length that is not the one announced: noticed before the last piece is written, so that the server can't
    /// take the request for complete.
    pub(crate) fn fill(&mut self) -> io::Result<()> {
        let Some(source) = &mut self.source else { return Ok(()) };
        let chunked = self.framing == Sending::Chunked;
        let begin = self.head.len() + SIZE_LINE;
        let needed = begin + self.piece + CHUNK_END.len() + LAST_CHUNK.len();
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
        }
        let limit = match chunked {
            true => self.piece,
            false => self.piece.min(usize::try_from(self.left).unwrap_or(usize::MAX)),
        };
        // The head leaves with whatever the first read yields: a source that then computes for minutes must not hold it back.
        let gather = if self.head.is_empty() { GATHER } else { Duration::ZERO };
        let begun = Instant::now();
        let (mut got, mut over) = (0, false);
        while got < limit {
            match read(source, &mut self.buffer[begin + got..begin + limit])? {
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
        if !chunked {
            self.left -= got as u64;
            over = over || self.left == 0;
            if self.left > 0 && over {
                let said = format!("the body ended {} bytes before its announced length", self.left);
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, said));
            }
            if self.left == 0 && read(source, &mut [0])? > 0 {
                let said = "the body goes on after its announced length";
                return Err(io::Error::new(io::ErrorKind::InvalidData, said));
            }
        }
        self.data = begin..begin + got;
        self.pending = self.data.clone();
        if chunked {
            if got > 0 {
                self.prepend(format!("{got:x}\r\n").as_bytes());
                self.append(CHUNK_END);
            }
            if over {
                self.append(LAST_CHUNK);
            }
        }
        let head = std::mem::take(&mut self.head);
        self.prepend(&head);
        if over {
            self.source = None;
        }
        Ok(())
    }

    fn prepend(&mut self, bytes: &[u8]) {
        let start = self.pending.start - bytes.len();
        self.buffer[start..self.pending.start].copy_from_slice(bytes);
        self.pending.start = start;
    }

    fn append(&mut self, bytes: &[u8]) {
        let end = self.pending.end + bytes.len();
        self.buffer[self.pending.end..end].copy_from_slice(bytes);
        self.pending.end = end;
    }

    /// Hand `to` what it takes in one write.
    pub(crate) fn write(&mut self, to: &mut impl Write) -> io::Result<()> {
        let rest = &self.buffer[self.pending.clone()];
        let taken = match (rest.is_empty(), self.whole.is_empty()) {
            (false, false) => to.write_vectored(&[IoSlice::new(rest), IoSlice::new(&self.whole)])?,
            (false, true) => to.write(rest)?,
            (true, _) => to.write(&self.whole)?,
        };
        if taken == 0 && !self.is_empty() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let from_buffer = taken.min(rest.len());
        let before = self.pending.start;
        self.pending.start += from_buffer;
        let data = before.max(self.data.start)..self.pending.start.min(self.data.end);
        self.sent += data.len() as u64;
        // The head is the first thing in the first buffer.
        self.head_left = self.head_left.saturating_sub(from_buffer);
        self.whole.advance(taken - from_buffer);
        self.sent += (taken - from_buffer) as u64;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that takes at most so many bytes a write.
    struct Narrow(Vec<u8>, usize);

    impl Write for Narrow {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            let taken = buf.len().min(self.1);
            self.0.extend_from_slice(&buf[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What goes over the wire after the head, and the body bytes counted.
    fn sent(mut body: Body<'_>, header: Option<(&str, &str)>, width: usize) -> io::Result<(String, u64)> {
        let mut build = http::Request::post("http://h/");
        if let Some((name, value)) = header {
            build = build.header(name, value);
        }
        let (parts, ()) = build.body(()).unwrap().into_parts();
        let request = Request::new(&parts, &body, crate::request::Target::Origin).unwrap();
        let mut outgoing = Outgoing::new(&request, &mut body, 8).unwrap();
        let mut wire = Narrow(Vec::new(), width);
        loop {
            if outgoing.is_empty() {
                if outgoing.is_last() {
                    break;
                }
                outgoing.fill()?;
            }
            assert_eq!(outgoing.head_sent(), wire.0.len() >= request.head.len());
            if !outgoing.is_empty() {
                outgoing.write(&mut wire)?;
            }
        }
        assert!(outgoing.head_sent());
        let rest = wire
            .0
            .strip_prefix(request.head.as_slice())
            .expect("the head comes first");
        Ok((String::from_utf8(rest.to_vec()).unwrap(), outgoing.sent()))
    }

    #[test]
    fn framing_is_the_same_however_little_the_connection_takes() {
        let text = "0123456789abc";
        for width in [1, 3, 7, 1000] {
            let chunked = |body| sent(body, Some(("transfer-encoding", "chunked")), width).unwrap();
            let stream = || Body::stream(None, text.as_bytes());
            for body in [stream(), Body::replay(None, || Ok(text.as_bytes()))] {
                let (wire, count) = sent(body, None, width).unwrap();
                assert_eq!((wire.as_str(), count), ("8\r\n01234567\r\n5\r\n89abc\r\n0\r\n\r\n", 13));
            }
            assert_eq!(chunked(Body::full(text)), sent(stream(), None, width).unwrap());
            assert_eq!(chunked(Body::Empty), ("0\r\n\r\n".into(), 0));
            assert_eq!(sent(Body::full(text), None, width).unwrap(), (text.into(), 13));
            let known = Body::stream(Some(13), text.as_bytes());
            assert_eq!(sent(known, None, width).unwrap(), (text.into(), 13));
            assert_eq!(
                sent(Body::stream(Some(0), io::empty()), None, width).unwrap(),
                (String::new(), 0)
            );
            assert_eq!(
                sent(Body::stream(None, io::empty()), None, width).unwrap(),
                ("0\r\n\r\n".into(), 0)
            );
        }
    }

    #[test]
    fn a_body_of_another_length_is_an_error_before_its_last_piece() {
        let short = sent(Body::stream(Some(4), &b"abc"[..]), None, 1000).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
        let long = sent(Body::stream(Some(2), &b"abc"[..]), None, 1000).unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::InvalidData);
    }
}
