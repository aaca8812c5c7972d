//! What a server saw: one [`Request`] an exchange, one [`Connection`] an accepted TCP connection.
//!
//! Owns the log and the counts of what is still alive. Every count is made before the bytes go on, so a test that has
//! seen the end of an answer finds it complete in the log.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use http::{HeaderMap, Version, request::Parts};

use crate::tally::Tally;

/// Diagnostics kept of all children together; older bytes go first.
const STDERR_KEPT: usize = 64 * 1024;

/// One request as the server saw it, and how far its answer got.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Request {
    /// Which accepted connection it came on: [`Connection::id`].
    pub connection: u64,
    /// `GET`, `POST`, ...
    pub method: String,
    /// The path as sent, percent-encoding untouched.
    pub path: String,
    /// What followed `?`, or nothing.
    pub query: String,
    /// HTTP/1.1 or HTTP/2.
    pub version: Version,
    /// The request's header fields, credentials included.
    pub headers: HeaderMap,
    /// Body bytes received so far, after transfer framing, before content decoding.
    pub request_bytes: u64,
    /// The answer's status; `None` while there is none.
    pub status: Option<u16>,
    /// Body bytes of the answer handed to the connection so far.
    pub response_bytes: u64,
    /// Whether the answer's body was handed over to its end.
    pub finished: bool,
}

impl Request {
    /// The first value of a header, when there is one and it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn of(connection: u64, parts: &Parts) -> Self {
        Request {
            connection,
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            version: parts.version,
            headers: parts.headers.clone(),
            request_bytes: 0,
            status: None,
            response_bytes: 0,
            finished: false,
        }
    }
}

/// One accepted TCP connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Connection {
    /// Counted from 1 in order of acceptance, never used twice.
    pub id: u64,
    /// Whether TLS was set up on it; `false` on plain HTTP and while the handshake lasts.
    pub secure: bool,
    /// The protocol ALPN settled on.
    pub alpn: Option<Vec<u8>>,
    /// Whether the handshake resumed an earlier session.
    pub resumed: bool,
}

/// A log entry in the making.
#[derive(Debug)]
pub(crate) struct Entry {
    seen: Request,
    request_bytes: AtomicU64,
    response_bytes: AtomicU64,
    status: AtomicU16,
    finished: AtomicBool,
}

impl Entry {
    pub(crate) fn received(&self, bytes: usize) {
        self.request_bytes.fetch_add(bytes as u64, Ordering::SeqCst);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.response_bytes.fetch_add(bytes as u64, Ordering::SeqCst);
    }

    pub(crate) fn answered(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    pub(crate) fn finished(&self) {
        self.finished.store(true, Ordering::SeqCst);
    }

    fn snapshot(&self) -> Request {
        let status = self.status.load(Ordering::SeqCst);
        Request {
            request_bytes: self.request_bytes.load(Ordering::SeqCst),
            response_bytes: self.response_bytes.load(Ordering::SeqCst),
            status: (status != 0).then_some(status),
            finished: self.finished.load(Ordering::SeqCst),
            ..self.seen.clone()
        }
    }
}

/// The log of one server.
#[derive(Debug, Default)]
pub(crate) struct Log {
    requests: Mutex<Vec<Arc<Entry>>>,
    connections: Mutex<Vec<Connection>>,
    accepted: AtomicU64,
    pub(crate) tally: Tally,
    stderr: Mutex<VecDeque<u8>>,
}

impl Log {
    pub(crate) fn open(&self, seen: Request) -> Arc<Entry> {
        let entry = Arc::new(Entry {
            seen,
            request_bytes: AtomicU64::new(0),
            response_bytes: AtomicU64::new(0),
            status: AtomicU16::new(0),
            finished: AtomicBool::new(false),
        });
        lock(&self.requests).push(entry.clone());
        entry
    }

    pub(crate) fn accept(&self) -> u64 {
        let id = self.accepted.fetch_add(1, Ordering::SeqCst) + 1;
        lock(&self.connections).push(Connection {
            id,
            secure: false,
            alpn: None,
            resumed: false,
        });
        id
    }

    pub(crate) fn secured(&self, id: u64, alpn: Option<&[u8]>, resumed: bool) {
        if let Some(connection) = lock(&self.connections)
            .iter_mut()
            .find(|connection| connection.id == id)
        {
            connection.secure = true;
            connection.alpn = alpn.map(<[u8]>::to_vec);
            connection.resumed = resumed;
        }
    }

    pub(crate) fn diagnose(&self, bytes: &[u8]) {
        let mut kept = lock(&self.stderr);
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(STDERR_KEPT);
        kept.drain(..excess);
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        lock(&self.requests).iter().map(|entry| entry.snapshot()).collect()
    }

    pub(crate) fn connections(&self) -> Vec<Connection> {
        lock(&self.connections).clone()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(lock(&self.stderr).make_contiguous()).into_owned()
    }

    pub(crate) fn clear(&self) {
        lock(&self.requests).clear();
        lock(&self.connections).clear();
        lock(&self.stderr).clear();
    }
}

/// How many of something are alive, and a way to wait until none is.
#[derive(Debug, Default)]
pub(crate) struct Living {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Living {
    /// Counts one more until the returned guard is dropped.
    pub(crate) fn join(self: &Arc<Self>) -> Alive {
        *lock(&self.count) += 1;
        Alive(self.clone())
    }

    pub(crate) fn count(&self) -> usize {
        *lock(&self.count)
    }

    /// Whether the count reached zero within `patience`.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut count = lock(&self.count);
        while *count > 0 {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            count = self
                .changed
                .wait_timeout(count, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }
}

/// One living thing in a [`Living`] count.
#[derive(Debug)]
pub(crate) struct Alive(Arc<Living>);

impl Drop for Alive {
    fn drop(&mut self) {
        *lock(&self.0.count) -= 1;
        self.0.changed.notify_all();
    }
}

/// A test that panicked elsewhere must not turn this into a second panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
