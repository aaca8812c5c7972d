#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::{
    fmt,
    io::{self, IoSlice, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fd::{AsFd, BorrowedFd, OwnedFd},
    io::Errno,
};

use crate::{Early, tls::Tls};

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest {
    /// Bytes to read, or the end.
    pub read: bool,
    /// Room to write.
    pub write: bool,
}

impl Interest {
    /// Only reading.
    pub const READ: Interest = Interest {
        read: true,
        write: false,
    };
    /// Only writing.
    pub const WRITE: Interest = Interest {
        read: false,
        write: true,
    };
    /// Whichever comes first.
    pub const BOTH: Interest = Interest {
        read: true,
        write: true,
    };
}

/// What became possible. Neither means that the timeout passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready {
    /// A read yields bytes, the end or an error. With TLS it may still find only part of a record.
    pub readable: bool,
    /// A write takes bytes or yields an error. With TLS this is also reported, unasked, when ciphertext held back can go on.
    pub writable: bool,
}

impl Ready {
    /// Whether anything became possible.
    pub fn any(self) -> bool {
        self.readable || self.writable
    }
}

/// A connected, non-blocking stream of plaintext bytes, over TCP, TLS, or a Unix socket that somebody else connected.
///
/// Reads and writes return [`WouldBlock`](io::ErrorKind::WouldBlock) instead of waiting; [`wait`](Self::wait) waits. With TLS, a
/// successful write may leave ciphertext behind: [`flush`](Write::flush) until it succeeds before relying on the peer having
/// everything. A read of zero bytes is the end of the peer's data; with TLS only after the peer's `close_notify`, while a connection
/// cut without one yields [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) (RFC 8446, section 6.1).
///
/// Dropping it closes the socket at once; see [`shutdown`](Self::shutdown) for a polite end.
pub struct Connection {
    stream: Stream,
    dial_time: Duration,
    round_trip: Duration,
    early: Early,
}

enum Stream {
    Plain(TcpStream),
    #[cfg(unix)]
    Local(UnixStream),
    Tls(Box<Tls>),
}

impl Connection {
    pub(crate) fn plain(socket: TcpStream, dial_time: Duration, round_trip: Duration) -> Self {
        Connection {
            stream: Stream::Plain(socket),
            dial_time,
            round_trip,
            early: Early::Unused,
        }
    }

    pub(crate) fn tls(tls: Tls, dial_time: Duration, round_trip: Duration) -> Self {
        Connection {
            early: tls.early(),
            stream: Stream::Tls(Box::new(tls)),
            dial_time,
            round_trip,
        }
    }

    /// One that was made after a handshake with early data had failed: it took so long in all.
    pub(crate) fn after_lost_data(self, dial_time: Duration) -> Self {
        Connection {
            early: Early::Lost,
            dial_time,
            ..self
        }
    }

    /// A stream to a process on this machine, made in `dial_time`. Its round trip counts as none.
    ///
    /// # Errors
    /// When the socket can't be made non-blocking.
    #[cfg(unix)]
    pub fn local(socket: UnixStream, dial_time: Duration) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Connection {
            stream: Stream::Local(socket),
            dial_time,
            round_trip: Duration::ZERO,
            early: Early::Unused,
        })
    }

    fn socket(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Plain(socket) => socket.as_fd(),
            #[cfg(unix)]
            Stream::Local(socket) => socket.as_fd(),
            Stream::Tls(tls) => tls.socket().as_fd(),
        }
    }

    /// Wait until `interest` can be served or `timeout` passes. Plaintext that lies in the TLS session counts as readable at once.
    pub fn wait(&self, interest: Interest, timeout: Duration) -> io::Result<Ready> {
        let Stream::Tls(tls) = &self.stream else {
            return wait_on(&self.socket(), interest, timeout);
        };
        let held = interest.read && tls.holds_input();
        let asked = Interest {
            read: interest.read,
            write: interest.write || tls.holds_output(),
        };
        let ready = wait_on(tls.socket(), asked, if held { Duration::ZERO } else { timeout })?;
        Ok(Ready {
            readable: held || ready.readable,
            ..ready
        })
    }

    /// The protocol agreed on by ALPN (RFC 7301), where both sides spoke it.
    pub fn alpn(&self) -> Option<&[u8]> {
        match &self.stream {
            Stream::Tls(tls) => tls.session().alpn_protocol(),
            _ => None,
        }
    }

    /// Whether bytes are protected by TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }

    /// The version of TLS as its specification is called, `TLSv1_3` or `TLSv1_2`; `None` without TLS.
    pub fn tls_version(&self) -> Option<&'static str> {
        match &self.stream {
            Stream::Tls(tls) => tls.session().protocol_version()?.as_str(),
            _ => None,
        }
    }

    /// Another descriptor of the socket, to wait on together with other things. Not to be read or written: with TLS its bytes are
    /// ciphertext. Plaintext that lies in the TLS session does not show there, so read until [`WouldBlock`](io::ErrorKind::WouldBlock)
    /// before waiting on it. The socket is closed when the connection and every such descriptor are.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.socket().try_clone_to_owned()
    }

    /// Whether the TLS handshake took up an earlier session, which spares the certificates.
    pub fn is_resumed(&self) -> bool {
        match &self.stream {
            Stream::Tls(tls) => tls.session().handshake_kind() == Some(rustls::HandshakeKind::Resumed),
            _ => false,
        }
    }

    /// What became of the data that was to go with the handshake.
    pub fn early_data(&self) -> Early {
        self.early
    }

    /// How long dialling took: name, TCP and TLS.
    pub fn dial_time(&self) -> Duration {
        self.dial_time
    }

    /// One round trip to the peer, as the TCP handshake took it.
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// The peer's address; a Unix socket has none.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        match &self.stream {
            Stream::Plain(socket) => socket.peer_addr(),
            #[cfg(unix)]
            Stream::Local(_) => Err(io::ErrorKind::Unsupported.into()),
            Stream::Tls(tls) => tls.socket().peer_addr(),
        }
    }

    /// Whether an *idle* connection is of no use any more: closed by the peer, broken, or holding bytes nobody asked for. Costs one
    /// system call and never waits. TLS 1.3 session tickets that arrive late are taken in and do no harm.
    ///
    /// A connection that the peer closes at this very moment can still look fresh.
    pub fn is_stale(&mut self) -> bool {
        match &mut self.stream {
            Stream::Tls(tls) => tls.is_stale(),
            _ => !matches!(
                wait_on(&self.socket(), Interest::READ, Duration::ZERO),
                Ok(Ready { readable: false, .. })
            ),
        }
    }

    /// Say goodbye, as far as that is possible without waiting: TLS `close_notify`, then the end of our data.
    pub fn shutdown(&mut self) {
        if let Stream::Tls(tls) = &mut self.stream {
            tls.send_close_notify();
            tls.flush().ok();
        }
        match &self.stream {
            Stream::Plain(socket) => socket.shutdown(Shutdown::Write),
            #[cfg(unix)]
            Stream::Local(socket) => socket.shutdown(Shutdown::Write),
            Stream::Tls(tls) => tls.socket().shutdown(Shutdown::Write),
        }
        .ok();
    }
}

impl Read for Connection {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.read(buf),
            #[cfg(unix)]
            Stream::Local(socket) => socket.read(buf),
            Stream::Tls(tls) => tls.read(buf),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.write(buf),
            #[cfg(unix)]
            Stream::Local(socket) => socket.write(buf),
            Stream::Tls(tls) => tls.write(buf),
        }
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.write_vectored(bufs),
            #[cfg(unix)]
            Stream::Local(socket) => socket.write_vectored(bufs),
            Stream::Tls(tls) => tls.write_vectored(bufs),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tls(tls) => tls.flush(),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("peer", &self.peer().ok())
            .field("tls", &self.is_tls())
            .field("dial_time", &self.dial_time)
            .field("round_trip", &self.round_trip)
            .field("early_data", &self.early)
            .finish_non_exhaustive()
    }
}

/// `poll` for one socket.
pub(crate) fn wait_on(socket: &impl AsFd, interest: Interest, timeout: Duration) -> io::Result<Ready> {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, interest.read);
    flags.set(PollFlags::OUT, interest.write);
    let mut fds = [PollFd::new(socket, flags)];
    poll(&mut fds, timeout)?;
    let got = fds[0].revents();
    // A dead socket answers every call at once: let the caller make the call it wants and see the error.
    let dead = got.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
    Ok(Ready {
        readable: got.contains(PollFlags::IN) || (dead && interest.read),
        writable: got.contains(PollFlags::OUT) || (dead && interest.write),
    })
}

/// `poll(2)` that goes on after signals, for `timeout` in all.
pub(crate) fn poll(fds: &mut [PollFd<'_>], timeout: Duration) -> io::Result<usize> {
    // A timeout too long for the clock is as good as none.
    let deadline = Instant::now().checked_add(timeout);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(fds, left.as_ref()) {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}
