//! The words a script is written in, and what is recorded.

use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{PATIENCE, lock};

/// Answers a request, for [`Step::Serve`].
pub type Handler = Arc<dyn Fn(&Request) -> Vec<u8> + Send + Sync>;

/// One thing to do on a connection. After the last step the connection is held open, unread, until the server ends.
#[derive(Clone)]
pub enum Step {
    /// Read a request's head and nothing beyond it.
    ReadHead,
    /// Read that many bytes behind the head, as they are framed.
    ReadBytes(u64),
    /// Read the rest of the request: its head, if not read yet, and the body by `content-length` or chunks.
    ReadRequest,
    /// Read and drop whatever comes until the client stops.
    ReadToEnd,
    /// Write these bytes.
    Write(Vec<u8>),
    /// Write these bytes one at a time, each a segment (and TLS record) of its own.
    WriteBytewise(Vec<u8>),
    /// Go on when the gate is open.
    Wait(Gate),
    /// Open the gate.
    Open(Gate),
    /// Read requests and write what the handler says, until the client closes.
    Serve(Handler),
    /// Send no more (FIN, with TLS `close_notify` before), but go on.
    HalfClose,
    /// Close. With TLS after a `close_notify`. Unread bytes make the kernel send a reset.
    Close,
    /// Close without the `close_notify` that TLS wants.
    Cut,
    /// Close with a reset.
    Reset,
}

impl Step {
    /// [`Step::Write`] of text or bytes.
    pub fn write(bytes: impl Into<Vec<u8>>) -> Step {
        Step::Write(bytes.into())
    }

    /// [`Step::Serve`] with a closure.
    pub fn serve(handler: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Step {
        Step::Serve(Arc::new(handler))
    }
}

/// Lets a script wait for the test, or the test for a script.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Let everyone pass, now and later.
    pub fn open(&self) {
        *lock(&self.0.0) = true;
        self.0.1.notify_all();
    }

    /// Whether it is open already.
    pub fn is_open(&self) -> bool {
        *lock(&self.0.0)
    }

    /// Wait until it is open.
    ///
    /// # Panics
    /// After a minute.
    pub fn wait(&self) {
        assert!(self.wait_unless(&AtomicBool::new(false)), "the gate stayed closed");
    }

    pub(super) fn wait_unless(&self, stop: &AtomicBool) -> bool {
        let end = Instant::now() + PATIENCE;
        let mut open = lock(&self.0.0);
        while !*open && !stop.load(Ordering::Relaxed) && Instant::now() < end {
            // The short time is for seeing `stop`, which has no condition variable of its own.
            let slice = Duration::from_millis(10);
            open = self
                .0
                .1
                .wait_timeout(open, slice)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        *open
    }
}

/// How a request's body was framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// Neither length nor chunks.
    #[default]
    None,
    /// `content-length`.
    Length(u64),
    /// `transfer-encoding: chunked`; over HTTP/2, DATA frames without a `content-length`.
    Chunked,
}

/// A request as it was received.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Request line and headers as they came, with the empty line.
    pub head: String,
    /// How the body was framed.
    pub framing: Framing,
    /// The body without chunk framing, its first MiB.
    pub body: Vec<u8>,
    /// How long the body was.
    pub length: u64,
    /// Whether the request was received to its end.
    pub complete: bool,
}

impl Request {
    /// The method.
    pub fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or("")
    }

    /// The request target.
    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or("")
    }

    /// The values of a header, by its name in any case.
    pub fn header(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect()
    }
}
