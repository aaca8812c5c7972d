//! One connection being played.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{Framing, Request, Shared, Step, lock};

/// Body bytes kept of a request; the rest is only counted.
const KEPT: usize = 1 << 20;
/// A request head longer than this is a bug of the code under test.
const HEAD_LIMIT: usize = 1 << 20;

enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

/// One connection being played.
pub(super) struct Peer<'a> {
    wire: Wire,
    /// Bytes read but not consumed.
    ahead: Vec<u8>,
    number: usize,
    shared: &'a Shared,
}

impl<'a> Peer<'a> {
    pub(super) fn accept(
        socket: TcpStream,
        config: Option<Arc<ServerConfig>>,
        number: usize,
        shared: &'a Shared,
    ) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let wire = match config {
            None => Wire::Plain(socket),
            Some(config) => {
                let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
                let mut socket = socket;
                while session.is_handshaking() {
                    session.complete_io(&mut socket)?;
                }
                Wire::Tls(Box::new(StreamOwned::new(session, socket)))
            }
        };
        Ok(Peer {
            wire,
            ahead: Vec::new(),
            number,
            shared,
        })
    }

    pub(super) fn play(&mut self, steps: &[Step]) -> io::Result<()> {
        for step in steps {
            match step {
                Step::ReadHead => self.read_head()?,
                Step::ReadBytes(count) => self.take(*count, |_| {})?,
                Step::ReadRequest => self.read_request()?,
                Step::ReadToEnd => {
                    while self.more()? > 0 {
                        self.ahead.clear();
                    }
                }
                Step::Write(bytes) => self.write(bytes)?,
                Step::WriteBytewise(bytes) => bytes.iter().try_for_each(|byte| self.write(&[*byte]))?,
                Step::Wait(gate) => {
                    if !gate.wait_unless(&self.shared.stop) {
                        return Ok(());
                    }
                }
                Step::Open(gate) => gate.open(),
                Step::Serve(handler) => loop {
                    self.read_request()?;
                    let Some(request) = self.last_request() else { continue };
                    self.write(&handler(&request))?;
                },
                Step::HalfClose => {
                    self.say_goodbye();
                    self.socket().shutdown(Shutdown::Write)?;
                }
                Step::Close => {
                    self.say_goodbye();
                    return self.end(None);
                }
                Step::Cut => return self.end(None),
                Step::Reset => return self.end(Some(Duration::ZERO)),
            }
        }
        // Held open, unread, until the server ends.
        let mut guard = lock(&self.shared.requests);
        while !self.shared.stop.load(Ordering::SeqCst) {
            guard = self.shared.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    fn socket(&self) -> &TcpStream {
        match &self.wire {
            Wire::Plain(socket) => socket,
            Wire::Tls(stream) => &stream.sock,
        }
    }

    /// The kernel closes a socket with its last descriptor: the one kept for waking must go, too.
    fn end(&self, linger: Option<Duration>) -> io::Result<()> {
        socket2::SockRef::from(self.socket()).set_linger(linger)?;
        lock(&self.shared.sockets).remove(&self.number);
        Ok(())
    }

    fn say_goodbye(&mut self) {
        if let Wire::Tls(stream) = &mut self.wire {
            stream.conn.send_close_notify();
            stream.flush().ok();
        }
    }

    fn last_request(&self) -> Option<Request> {
        lock(&self.shared.requests)[self.number].last().cloned()
    }

    fn note(&self, change: impl FnOnce(&mut Vec<Request>)) {
        change(&mut lock(&self.shared.requests)[self.number]);
        self.shared.changed.notify_all();
    }

    fn more(&mut self) -> io::Result<usize> {
        let mut piece = vec![0; 64 * 1024];
        let got = match &mut self.wire {
            Wire::Plain(socket) => socket.read(&mut piece),
            Wire::Tls(stream) => stream.read(&mut piece),
        }?;
        self.ahead.extend_from_slice(&piece[..got]);
        Ok(got)
    }

    fn need_more(&mut self) -> io::Result<()> {
        match self.more()? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    fn read_head(&mut self) -> io::Result<()> {
        let end = loop {
            if let Some(at) = self.ahead.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.ahead.len() < HEAD_LIMIT, "a request head without end");
            self.need_more()?;
        };
        let head: Vec<u8> = self.ahead.drain(..end).collect();
        let mut request = Request {
            head: String::from_utf8_lossy(&head).into_owned(),
            ..Request::default()
        };
        let length = request
            .header("content-length")
            .first()
            .and_then(|value| value.parse().ok());
        request.framing = match (length, request.header("transfer-encoding").first()) {
            (_, Some(_)) => Framing::Chunked,
            (Some(length), None) => Framing::Length(length),
            (None, None) => Framing::None,
        };
        self.note(|requests| requests.push(request));
        Ok(())
    }

    fn read_request(&mut self) -> io::Result<()> {
        if self.last_request().is_none_or(|request| request.complete) {
            self.read_head()?;
        }
        let framing = self.last_request().map_or(Framing::None, |request| request.framing);
        match framing {
            Framing::None => {}
            Framing::Length(length) => self.take_body(length)?,
            Framing::Chunked => loop {
                let line = self.line()?;
                let size = line.split(';').next().unwrap_or("").trim();
                let size =
                    u64::from_str_radix(size, 16).map_err(|err| io::Error::new(io::ErrorKind::InvalidData, err))?;
                self.take_body(size)?;
                if !self.line()?.is_empty() {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "bytes behind a chunk"));
                }
                if size == 0 {
                    break;
                }
            },
        }
        self.note(|requests| {
            if let Some(request) = requests.last_mut() {
                request.complete = true;
            }
        });
        Ok(())
    }

    fn take_body(&mut self, count: u64) -> io::Result<()> {
        let (shared, number) = (self.shared, self.number);
        self.take(count, |piece| {
            if let Some(request) = lock(&shared.requests)[number].last_mut() {
                let room = KEPT.saturating_sub(request.body.len()).min(piece.len());
                request.body.extend_from_slice(&piece[..room]);
                request.length += piece.len() as u64;
            }
            shared.changed.notify_all();
        })
    }

    fn take(&mut self, mut count: u64, mut sink: impl FnMut(&[u8])) -> io::Result<()> {
        while count > 0 {
            if self.ahead.is_empty() {
                self.need_more()?;
            }
            let piece = usize::try_from(count).unwrap_or(usize::MAX).min(self.ahead.len());
            sink(&self.ahead[..piece]);
            self.ahead.drain(..piece);
            count -= piece as u64;
        }
        Ok(())
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = self.ahead.windows(2).position(|window| window == b"\r\n") {
                let line: Vec<u8> = self.ahead.drain(..at + 2).take(at).collect();
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            self.need_more()?;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.wire {
            Wire::Plain(socket) => socket.write_all(bytes),
            Wire::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}
