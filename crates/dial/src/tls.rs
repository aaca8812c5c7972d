//! A rustls session pumped over a non-blocking socket.
//!
//! rustls' own stream adapters read 4 KiB a system call and write one TLS record a system call. Here a large buffer lies under the
//! session for reading, and all records at hand go out in one vectored write.

use std::{
    io::{self, IoSlice, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Instant,
};

use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};

use crate::{
    Early,
    connection::{Interest, wait_on},
};

/// Bytes taken from the socket a system call: eight full TLS records.
const READ_BUFFER: usize = 128 * 1024;
/// Ciphertext held back at most: a body piece of 128 KiB is always taken in whole, and sixteen records go out a system call.
const WRITE_BUFFER: usize = 256 * 1024;

pub(crate) struct Tls {
    session: ClientConnection,
    socket: TcpStream,
    /// Bytes from the socket that the session has not taken yet: `buffer[start..end]`.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Plaintext waiting in the session.
    plaintext: usize,
    /// The socket is at its end, or the peer said it sends no more, or what it sent is no TLS.
    ended: bool,
    /// Why nothing more can be read, where that is the session's own finding: the session itself tells it only once.
    failed: Option<rustls::Error>,
    early: Early,
}

impl Tls {
    /// A session that is to be on `socket`. `early` data will go with the first flight, if all of it may.
    pub(crate) fn new(
        socket: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        early: &[u8],
    ) -> io::Result<Tls> {
        let mut session = ClientConnection::new(config, name).map_err(invalid)?;
        session.set_buffer_limit(Some(WRITE_BUFFER));
        let outcome = match session.early_data() {
            // Part of it would spare nothing: the rest has to wait for the handshake.
            Some(mut writer) if !early.is_empty() && early.len() <= writer.bytes_left() => {
                writer.write_all(early)?;
                // Until the peer says otherwise.
                Early::Rejected
            }
            _ => Early::Unused,
        };
        Ok(Tls {
            session,
            socket,
            buffer: vec![0; READ_BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            plaintext: 0,
            ended: false,
            failed: None,
            early: outcome,
        })
    }

    /// Do the handshake. Takes until `deadline`, then fails with [`TimedOut`](io::ErrorKind::TimedOut).
    pub(crate) fn handshake(&mut self, deadline: Instant) -> io::Result<()> {
        loop {
            let step = match self.session.wants_write() {
                true => self.send(),
                false if !self.session.is_handshaking() => break,
                false => self.receive(),
            };
            match step {
                Ok(()) if self.ended && self.session.is_handshaking() => {
                    let said = "the server closed the connection during the TLS handshake";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, said));
                }
                Ok(()) => {}
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let interest = match self.session.wants_write() {
                        true => Interest::WRITE,
                        false => Interest::READ,
                    };
                    if left.is_zero() || !wait_on(&self.socket, interest, left)?.any() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(err) => return Err(err),
            }
        }
        if self.early == Early::Rejected && self.session.is_early_data_accepted() {
            self.early = Early::Accepted;
        }
        Ok(())
    }

    pub(crate) fn early(&self) -> Early {
        self.early
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(crate) fn session(&self) -> &ClientConnection {
        &self.session
    }

    /// Whether a read would yield something without the socket's help.
    pub(crate) fn holds_input(&self) -> bool {
        self.plaintext > 0 || self.start < self.end || self.ended
    }

    /// Whether ciphertext waits for the socket.
    pub(crate) fn holds_output(&self) -> bool {
        self.session.wants_write()
    }

    /// Tell the peer that nothing more comes; the socket must still be flushed.
    pub(crate) fn send_close_notify(&mut self) {
        self.session.send_close_notify();
    }

    /// Whether the peer sent anything but what TLS itself needs (late session tickets, key updates): then an idle connection is
    /// of no use. Takes in what has arrived.
    pub(crate) fn is_stale(&mut self) -> bool {
        loop {
            if self.plaintext > 0 || self.ended {
                return true;
            }
            match self.receive() {
                Ok(()) => {}
                Err(err) => return err.kind() != io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Feed the session from the buffer, and the buffer from the socket where it is empty.
    fn receive(&mut self) -> io::Result<()> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            self.end = (&self.socket).read(&mut self.buffer)?;
            if self.end == 0 {
                self.ended = true;
                // Lets the session tell a clean end from a truncation (RFC 8446, section 6.1).
                self.session.read_tls(&mut io::empty())?;
            }
        }
        while self.start < self.end && self.plaintext == 0 {
            let mut rest = &self.buffer[self.start..self.end];
            let taken = self.session.read_tls(&mut rest)?;
            self.start += taken;
            match self.session.process_new_packets() {
                Ok(state) => {
                    self.plaintext = state.plaintext_bytes_to_read();
                    if state.peer_has_closed() || taken == 0 {
                        self.ended = true;
                        self.start = self.end;
                    }
                }
                Err(err) => {
                    // Let the peer know why (the alert); whether that arrives does not matter any more.
                    self.send().ok();
                    self.ended = true;
                    self.failed = Some(err.clone());
                    return Err(invalid(err));
                }
            }
        }
        Ok(())
    }

    /// Fill `buf` as far as whole records lie here, without asking the socket: who reads large pieces would else get a record at a time.
    /// What goes wrong is told by the next read.
    fn more(&mut self, buf: &mut [u8]) -> usize {
        let mut got = 0;
        while got < buf.len() && self.start < self.end && !self.ended {
            if self.receive().is_err() || self.plaintext == 0 {
                break;
            }
            match self.session.reader().read(&mut buf[got..]) {
                Ok(count) if count > 0 => {
                    self.plaintext = self.plaintext.saturating_sub(count);
                    got += count;
                }
                _ => break,
            }
        }
        got
    }

    /// Hand the socket all ciphertext at hand.
    fn send(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            if self.session.write_tls(&mut &self.socket)? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

impl Read for Tls {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            if self.plaintext > 0 || self.ended {
                match self.session.reader().read(buf) {
                    Ok(got) => {
                        self.plaintext = self.plaintext.saturating_sub(got);
                        return Ok(got + self.more(&mut buf[got..]));
                    }
                    Err(err) if err.kind() == io::ErrorKind::WouldBlock && !self.ended => self.plaintext = 0,
                    // Never `WouldBlock` at the end: nothing will come, and whoever waits is told at once to read.
                    Err(err) => return Err(self.failed.clone().map_or(err, invalid)),
                }
            }
            let received = self.receive();
            // What was received may call for an answer (a key update), and what was written before may still lie here: waiting also
            // waits for that, so it must be tried even if nothing came. That it can't be sent is no reason not to read on: behind
            // a broken write may lie the peer's explanation.
            self.send().ok();
            match received {
                // What came whole before that is still to be had, the failure behind it.
                Err(_) if self.failed.is_some() => {}
                other => other?,
            }
        }
    }
}

impl Write for Tls {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if bufs.iter().all(|buf| buf.is_empty()) {
            return Ok(0);
        }
        // Make room first: encrypting more than the socket takes would only fill the session's buffer.
        match self.send() {
            Err(err) if err.kind() != io::ErrorKind::WouldBlock => return Err(err),
            _ => {}
        }
        let taken = self.session.writer().write_vectored(bufs)?;
        match self.send() {
            // What was taken may be partly out: that must be said now, and the error is found again by the next call.
            _ if taken > 0 => Ok(taken),
            Ok(()) => Err(io::ErrorKind::WouldBlock.into()),
            Err(err) => Err(err),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

fn invalid(err: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, err)
}
