//! The other end of the loop: requests taken from a stream, and answers written to it.
//!
//! For a program that passes requests on to a [`Transport`](rgit_transport::Transport). Its limits are those of the client's side, its
//! streams block. It takes what [`H1`](crate::H1) sends: it is no server for the open network, and answers no `expect`.

use std::io::{self, IoSliceMut, Read, Write};

use http::{HeaderMap, Method, StatusCode};

use crate::{
    framing::{Decoder, Receiving},
    head::{self, Malformed},
};

/// Bytes read from the stream at a time, beyond what goes straight into a reader's own buffer.
const READ: usize = 32 * 1024;
/// Reads at least this large go around the buffer.
const DIRECT: usize = 16 * 1024;
/// Bytes read behind a chunk that goes around the buffer: the line break, the next chunk's size, and few of its bytes, which are moved.
const BEHIND: usize = 32;
/// Room for the first piece of an answer's body: a TLS record.
const PIECE: usize = 16 * 1024;

/// A request's head.
#[derive(Debug)]
#[non_exhaustive]
pub struct Head {
    /// Its method.
    pub method: Method,
    /// What stands behind it in the request line, unread.
    pub target: String,
    /// Its headers, with those that frame it.
    pub headers: HeaderMap,
}

/// Requests that come one after another on one stream. Without `Debug`: its buffer holds whatever credentials came.
pub struct Requests<S> {
    stream: S,
    buffer: Vec<u8>,
    /// What of the buffer was not taken yet: `start..end`.
    start: usize,
    end: usize,
}

impl<S: Read> Requests<S> {
    /// Requests from the first byte of `stream`.
    pub fn new(stream: S) -> Self {
        Requests {
            stream,
            buffer: Vec::new(),
            start: 0,
            end: 0,
        }
    }

    /// The stream, to be written to and waited on.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Whether bytes of the next request are here already, so that there is no waiting for them on the stream.
    pub fn holds_input(&self) -> bool {
        self.start < self.end
    }

    /// The next request's head; `None` where the stream ends before its first byte.
    ///
    /// # Errors
    /// The stream's, or [`InvalidData`](io::ErrorKind::InvalidData) where what came is no request.
    pub fn next_head(&mut self) -> io::Result<Option<Head>> {
        loop {
            if self.holds_input()
                && let Some((length, head)) = parse(&self.buffer[self.start..self.end]).map_err(invalid)?
            {
                self.start += length;
                return Ok(Some(head));
            }
            self.make_room();
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) if self.holds_input() => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(0) => return Ok(None),
                Ok(count) => self.end += count,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
        }
    }

    /// The body that belongs to `head`; `None` where its framing says that there is none.
    ///
    /// # Errors
    /// [`InvalidData`](io::ErrorKind::InvalidData) where the framing contradicts itself.
    pub fn body(&mut self, head: &Head) -> io::Result<Option<RequestBody<'_, S>>> {
        let framing = Receiving::of_request(&head.headers).map_err(invalid)?;
        Ok(framing.map(|framing| RequestBody {
            length: match framing {
                Receiving::Length(length) => Some(length),
                _ => None,
            },
            decoder: Decoder::new(framing),
            requests: self,
        }))
    }

    fn make_room(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < self.end + READ {
            self.buffer.resize(self.end + READ, 0);
        }
    }
}

/// A request's body, freed from its framing. What isn't read of it stays before the next request: then the stream has to be given up.
pub struct RequestBody<'r, S> {
    requests: &'r mut Requests<S>,
    decoder: Decoder,
    length: Option<u64>,
}

impl<S: Read> RequestBody<'_, S> {
    /// How many bytes were announced.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Whether all of it was read, framing included.
    pub fn is_over(&self) -> bool {
        self.decoder.is_over()
    }

    /// Whether what comes next is certain to come: who announces a chunk has all of it.
    fn is_in_chunk(&self) -> bool {
        matches!(&self.decoder, Decoder::Chunked(chunked) if chunked.is_in_data())
    }

    /// Read from the stream once: straight into `room` as far as that holds nothing but data, else into the buffer. How many bytes of
    /// data came into `room`.
    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.decoder.plain()).unwrap_or(usize::MAX);
        let plain = left.min(room.len());
        let requests = &mut *self.requests;
        requests.make_room();
        let direct = if plain < DIRECT { 0 } else { plain };
        let most = match (direct, plain == left) {
            (0, _) => requests.buffer.len(),
            // Behind the data stands framing: with it, the next chunk is known without a read of its own.
            (_, true) => BEHIND,
            (_, false) => 0,
        };
        let (room, behind) = (&mut room[..direct], &mut requests.buffer[..most]);
        let into = &mut [IoSliceMut::new(room), IoSliceMut::new(behind)];
        let count = loop {
            match requests.stream.read_vectored(into) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                count => break count?,
            }
        };
        let data = count.min(direct);
        self.requests.end = count - data;
        self.decoder.skip(data);
        Ok(data)
    }
}

/// A read waits for the first byte, and then for no more than is sure to come: the rest of its chunk.
impl<S: Read> Read for RequestBody<'_, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut got = 0;
        while !self.decoder.is_over() {
            if self.requests.holds_input() {
                let input = &self.requests.buffer[self.requests.start..self.requests.end];
                let (used, written) = self.decoder.decode(input, &mut buf[got..]).map_err(invalid)?;
                self.requests.start += used;
                got += written;
                if used == 0 {
                    break;
                }
            } else if got == buf.len() || (got > 0 && !self.is_in_chunk()) {
                break;
            } else {
                got += self.receive(&mut buf[got..])?;
            }
        }
        Ok(got)
    }
}

/// Write the head of an answer.
///
/// # Errors
/// The stream's.
pub fn write_head(mut to: impl Write, status: StatusCode, headers: &HeaderMap) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} \r\n", status.as_str()).into_bytes();
    for (name, value) in headers {
        crate::request::line(&mut head, name.as_str(), value.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    to.write_all(&head)
}

/// Write the body of an answer in chunks, each as its bytes come: nothing is held back for more. What is read and written at a time
/// grows with what comes, up to `most` bytes with their framing.
///
/// `end` is told how reading `body` ended, and makes the trailer of it. Returns the bytes written, without framing.
///
/// # Errors
/// The stream's; what goes wrong with `body` only `end` is told.
pub fn write_chunks(
    mut to: impl Write,
    mut body: impl Read,
    most: usize,
    end: impl FnOnce(io::Result<()>) -> HeaderMap,
) -> io::Result<u64> {
    // Sizes of chunks so small are one line of so many digits, which may begin with zeros (RFC 9112, section 7.1).
    const SIZE: usize = 8 + 2;
    const FRAMING: usize = SIZE + 2;
    let most = most.clamp(FRAMING + 1, 0x0fff_ffff);
    let mut buffer = vec![0; most.min(PIECE + FRAMING)];
    let mut written = 0;
    let ended = loop {
        let room = buffer.len() - FRAMING;
        match body.read(&mut buffer[SIZE..SIZE + room]) {
            Ok(0) => break Ok(()),
            Ok(count) => {
                buffer[..SIZE].copy_from_slice(format!("{count:08x}\r\n").as_bytes());
                buffer[SIZE + count..SIZE + count + 2].copy_from_slice(b"\r\n");
                to.write_all(&buffer[..SIZE + count + 2])?;
                written += count as u64;
                if count == room && buffer.len() < most {
                    buffer.resize(most.min(buffer.len() * 4), 0);
                }
            }
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => break Err(err),
        }
    };
    let mut last = b"0\r\n".to_vec();
    for (name, value) in &end(ended) {
        crate::request::line(&mut last, name.as_str(), value.as_bytes());
    }
    last.extend_from_slice(b"\r\n");
    to.write_all(&last)?;
    Ok(written)
}

fn parse(bytes: &[u8]) -> Result<Option<(usize, Head)>, Malformed> {
    let window = &bytes[..bytes.len().min(head::LIMIT)];
    let mut lines = [httparse::EMPTY_HEADER; head::LINES];
    let mut parsed = httparse::Request::new(&mut lines);
    let Some(length) = head::length(parsed.parse(window), window.len())? else {
        return Ok(None);
    };
    let method = parsed.method.and_then(|method| method.parse().ok());
    let head = Head {
        method: method.ok_or(Malformed::Method)?,
        target: parsed.path.unwrap_or_default().to_owned(),
        headers: head::map(parsed.headers)?,
    };
    Ok(Some((length, head)))
}

fn invalid(err: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, err)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields what it holds in pieces of this many bytes.
    struct Pieces<'d>(&'d [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.read_vectored(&mut [IoSliceMut::new(buf)])
        }

        fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            let mut piece = &self.0[..self.1.min(self.0.len())];
            let count = piece.read_vectored(bufs)?;
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn requests_come_out_one_by_one_however_they_arrive() {
        let long = "x".repeat(100_000);
        let wire = format!(
            "GET http://h/a HTTP/1.1\r\nhost: h\r\n\r\nPOST /b HTTP/1.1\r\ncontent-length: 100000\r\n\r\n{long}\
             POST /c HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
             POST /d HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n186a0\r\n{long}\r\n0000186a0\r\n{long}\r\n1\r\n.\r\n0\r\n\r\n\
             GET /e HTTP/1.1\r\n\r\n"
        );
        for piece in [1, 7, 1000, 40_000, 1_000_000] {
            let mut requests = Requests::new(Pieces(wire.as_bytes(), piece));
            let mut got = Vec::new();
            while let Some(head) = requests.next_head().unwrap() {
                let mut text = String::new();
                let body = requests.body(&head).unwrap();
                let has_body = body.is_some();
                if let Some(mut body) = body {
                    body.read_to_string(&mut text).unwrap();
                    assert!(body.is_over());
                }
                got.push((head.target, has_body, text));
            }
            let expected = [
                ("http://h/a".to_owned(), false, String::new()),
                ("/b".to_owned(), true, long.clone()),
                ("/c".to_owned(), true, "abc".to_owned()),
                ("/d".to_owned(), true, format!("{long}{long}.")),
                ("/e".to_owned(), false, String::new()),
            ];
            assert!(got == expected, "{piece}");
        }
    }

    #[test]
    fn a_read_waits_for_the_rest_of_a_chunk_and_for_nothing_else() {
        let long = "x".repeat(50_000);
        let known = format!("POST / HTTP/1.1\r\ncontent-length: 60000\r\n\r\n{long}");
        let chunked = format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nc350\r\n{long}\r\n");
        for (wire, piece, expected) in [
            (&known, 10_000, 1..10_000),
            (&chunked, 10_000, 50_000..50_001),
            (&chunked, 20_000, 50_000..50_001),
            (&chunked, 1_000_000, 50_000..50_001),
        ] {
            // Whoever reads on comes to the end of the stream, which is an error in the middle of a body.
            let mut requests = Requests::new(Pieces(wire.as_bytes(), piece));
            let head = requests.next_head().unwrap().unwrap();
            let mut body = requests.body(&head).unwrap().unwrap();
            let mut buf = [0; 60_000];
            let first = body.read(&mut buf).unwrap();
            assert!(expected.contains(&first), "{piece}: {first}");
            let mut rest = Vec::new();
            let err = body.read_to_end(&mut rest).unwrap_err();
            assert_eq!((err.kind(), first + rest.len()), (io::ErrorKind::UnexpectedEof, 50_000));
        }
    }

    #[test]
    fn what_is_no_request_is_told_from_an_end() {
        assert!(Requests::new(&b""[..]).next_head().unwrap().is_none());
        for wire in [
            "GET /".to_owned(),
            "HTTP/1.1 200 OK\r\n\r\n".into(),
            format!("GET / HTTP/1.1\r\na: {}", "x".repeat(head::LIMIT)),
        ] {
            assert!(Requests::new(wire.as_bytes()).next_head().is_err(), "{wire:.40}");
        }
        let both = "POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut requests = Requests::new(both.as_bytes());
        let head = requests.next_head().unwrap().unwrap();
        assert!(requests.body(&head).is_err());
    }

    #[test]
    fn answers_are_read_by_the_other_side() {
        let mut wire = Vec::new();
        let end = |ended: io::Result<()>| {
            ended.unwrap();
            let mut trailer = HeaderMap::new();
            trailer.insert("x-end", "whole".parse().unwrap());
            trailer
        };
        let written = write_chunks(&mut wire, &b"hello, world"[..], 17, end).unwrap();
        assert_eq!(written, 12);
        let (mut decoder, mut output) = (Decoder::new(Receiving::Chunked), [0; 20]);
        assert_eq!(decoder.decode(&wire, &mut output).unwrap(), (wire.len(), 12));
        assert_eq!(&output[..12], b"hello, world");
        assert_eq!(
            (decoder.is_over(), decoder.trailer()),
            (true, &b"x-end: whole\r\n\r\n"[..])
        );
    }

    #[test]
    fn pieces_of_an_answer_grow_with_what_comes() {
        /// Counts what is written to it.
        struct Calls(Vec<usize>);

        impl Write for Calls {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                self.0.push(buf.len());
                Ok(buf.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let most = 256 * 1024;
        let mut calls = Calls(Vec::new());
        write_chunks(&mut calls, io::repeat(b'x').take(2_000_000), most, |_| HeaderMap::new()).unwrap();
        assert!(calls.0[0] < 20_000 && calls.0.contains(&most), "{:?}", calls.0);
        // A source that yields little gets no more room.
        let mut calls = Calls(Vec::new());
        write_chunks(&mut calls, Pieces(&[b'x'; 9000], 1000), most, |_| HeaderMap::new()).unwrap();
        assert_eq!(calls.0.len(), 9 + 1);
    }
}
