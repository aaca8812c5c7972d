//! The connection as h2 sees it: bytes in, bytes out, and never a wait.
//!
//! Owns the staging of what goes out, the budget of what comes in, and the words a server says after it broke the connection.
//! Waiting is the driver's ([`crate::link`]).

use std::{
    collections::VecDeque,
    io::{self, IoSlice, Read, Write},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use rgit_dial::{Connection, Interest};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    frames::{DATA, Head, Scanner, Seen},
    observed::{Observed, lock},
};

/// The client's connection preface (RFC 9113, section 3.4).
const PREFACE: usize = 24;
/// Bytes staged before they are written: h2 hands over each frame's head and payload, and would have each flushed. Gathered, sixteen
/// frames leave with one system call, and TLS records are full instead of a full one and one of nine bytes for each frame.
const STAGED: usize = 256 * 1024;
/// Frames at least this large go past the stage where there is no TLS, whose copy would be the only one.
const DIRECT: usize = 16 * 1024;
/// Bytes taken from the connection at once.
const READ: usize = 64 * 1024;

/// What lies between h2 and the connection.
pub(crate) struct Plumbing {
    connection: Connection,
    staged: Vec<u8>,
    /// How much of what is staged the connection took.
    written: usize,
    /// Where in the stage a record of TLS has to end.
    ends: VecDeque<usize>,
    buffer: Box<[u8]>,
    budget: usize,
    /// h2 would read on, but the budget is spent.
    more: bool,
    /// What h2 waits for.
    reading: bool,
    writing: bool,
    /// Writing has failed. h2 is not told as long as something is left to be read: it would drop everything, and the server may have
    /// said why it closes the connection.
    broken: Option<(io::ErrorKind, String)>,
    ended: bool,
    inbound: Scanner,
    outbound: Scanner,
    observed: Arc<Observed>,
}

impl Plumbing {
    pub(crate) fn new(connection: Connection, observed: Arc<Observed>) -> Plumbing {
        Plumbing {
            connection,
            staged: Vec::with_capacity(STAGED),
            written: 0,
            ends: VecDeque::new(),
            buffer: vec![0; READ].into_boxed_slice(),
            budget: usize::MAX,
            more: false,
            reading: false,
            writing: false,
            broken: None,
            ended: false,
            inbound: Scanner::new(0),
            outbound: Scanner::new(PREFACE),
            observed,
        }
    }

    /// h2 is about to be polled, and may take in `budget` bytes.
    pub(crate) fn begin(&mut self, budget: usize) {
        self.budget = budget;
        self.more = false;
        self.reading = false;
        self.writing = false;
    }

    /// h2 has been polled: send what it left. What to wait for, and whether h2 could go on at once.
    pub(crate) fn finish(&mut self) -> (Interest, bool) {
        if self.broken.is_none() {
            self.send();
        }
        let interest = Interest {
            read: self.reading || self.more,
            write: self.writing && self.broken.is_none(),
        };
        (interest, self.more)
    }

    /// The peer closed its side, or broke the connection.
    pub(crate) fn ended(&self) -> bool {
        self.ended || self.broken.is_some()
    }

    /// In the middle of which frame the peer's bytes ended.
    pub(crate) fn open_frame(&self) -> Option<Head> {
        self.inbound.open_frame()
    }

    /// Say goodbye, as far as that is possible without waiting.
    pub(crate) fn close(&mut self) {
        self.send();
        self.connection.shutdown();
        self.ended = true;
    }

    fn send(&mut self) {
        while self.written < self.staged.len() {
            while self.ends.front().is_some_and(|end| *end <= self.written) {
                self.ends.pop_front();
            }
            let end = self.ends.front().copied().unwrap_or(self.staged.len());
            match self.connection.write(&self.staged[self.written..end]) {
                Ok(0) => return self.fail(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                    self.writing = true;
                    return;
                }
                Err(err) => return self.fail(err),
            }
        }
        self.staged.clear();
        self.ends.clear();
        self.written = 0;
        match self.connection.flush() {
            Ok(()) => {}
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => self.writing = true,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => self.writing = true,
            Err(err) => self.fail(err),
        }
    }

    fn fail(&mut self, err: io::Error) {
        self.broken.get_or_insert((err.kind(), err.to_string()));
        self.staged.clear();
        self.ends.clear();
        self.written = 0;
    }

    /// Take `bufs` over: how much of them.
    fn take(&mut self, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let offered = bufs.iter().map(|buf| buf.len()).sum();
        if self.broken.is_some() {
            return Poll::Ready(Ok(offered));
        }
        let taken = if offered >= DIRECT && !self.connection.is_tls() {
            match self.pass(bufs)? {
                Some(taken) => taken,
                None => return Poll::Pending,
            }
        } else {
            if self.staged.len() >= STAGED {
                self.send();
                if self.broken.is_some() {
                    return Poll::Ready(Ok(offered));
                }
                if self.staged.len() >= STAGED {
                    return Poll::Pending;
                }
            }
            let (mut room, mut taken) = (STAGED - self.staged.len(), 0);
            for buf in bufs {
                let piece = room.min(buf.len());
                self.staged.extend_from_slice(&buf[..piece]);
                room -= piece;
                taken += piece;
            }
            taken
        };
        let (mut left, mut ends_data) = (taken, false);
        for buf in bufs {
            let piece = left.min(buf.len());
            self.outbound.advance(&buf[..piece], |seen| {
                ends_data = matches!(seen, Seen::End(head, _) if head.kind == DATA);
                self.observed.outgoing(seen);
            });
            left -= piece;
        }
        // h2 hands over a frame's head only when it has handed over all of the one before, so this is where the frame ends.
        if ends_data && self.connection.is_tls() && self.observed.is_tight() {
            self.ends.push_back(self.staged.len());
        }
        Poll::Ready(Ok(taken))
    }

    /// Write what is staged and then `bufs`, at once; `None` when the connection takes none of `bufs`.
    fn pass(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        let staged = self.staged.len() - self.written;
        let mut all = Vec::with_capacity(bufs.len() + 1);
        all.push(IoSlice::new(&self.staged[self.written..]));
        all.extend(bufs.iter().map(|buf| IoSlice::new(buf)));
        let written = loop {
            match self.connection.write_vectored(&all) {
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        match written {
            Ok(count) if count > staged => {
                self.staged.clear();
                self.written = 0;
                Ok(Some(count - staged))
            }
            Ok(count) => {
                self.written += count;
                self.writing = true;
                Ok(None)
            }
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                self.writing = true;
                Ok(None)
            }
            Err(err) => {
                self.fail(err);
                Ok(Some(bufs.iter().map(|buf| buf.len()).sum()))
            }
        }
    }

    fn fill(&mut self, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.budget == 0 {
            self.more = true;
            return Poll::Pending;
        }
        let room = buf.remaining().min(self.buffer.len());
        match self.connection.read(&mut self.buffer[..room]) {
            Ok(count) => {
                self.ended |= count == 0 && room > 0;
                self.budget = self.budget.saturating_sub(count);
                let bytes = &self.buffer[..count];
                self.inbound.advance(bytes, |seen| self.observed.incoming(seen));
                buf.put_slice(bytes);
                Poll::Ready(Ok(()))
            }
            Err(err) if matches!(err.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                if let Some((kind, said)) = &self.broken {
                    // The server's last words were in the socket already, or will never be.
                    return Poll::Ready(Err(io::Error::new(*kind, said.clone())));
                }
                self.reading = true;
                Poll::Pending
            }
            Err(err) => {
                self.ended = true;
                Poll::Ready(Err(err))
            }
        }
    }
}

/// h2's end of the plumbing.
pub(crate) struct Socket(pub(crate) Arc<Mutex<Plumbing>>);

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).fill(buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        lock(&self.0).take(&[IoSlice::new(buf)])
    }

    fn poll_write_vectored(self: Pin<&mut Self>, _: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        lock(&self.0).take(bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Left to the driver, once h2 has said all it wants to say.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).close();
        Poll::Ready(Ok(()))
    }
}
