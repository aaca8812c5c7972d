//! Answers that take the backend's place, or change what it answers: [`When`] picks requests, [`Reply`] says what happens.
//!
//! Owns the matching and the description of an answer. Sends nothing itself: [`crate::server`] plays the reply.

use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use tokio::sync::watch;

use crate::requests::{Request, lock};

/// Which requests a reply is for. All conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct When {
    method: Option<Method>,
    path: Option<String>,
    query: Option<String>,
    skip: u64,
    times: Option<u64>,
}

impl When {
    /// Every request.
    pub fn any() -> Self {
        When::default()
    }

    /// Every GET.
    pub fn get() -> Self {
        When {
            method: Some(Method::GET),
            ..When::default()
        }
    }

    /// Every POST.
    pub fn post() -> Self {
        When {
            method: Some(Method::POST),
            ..When::default()
        }
    }

    /// Only where the path contains `part`, for example `/moved.git/` or `info/refs`.
    pub fn path(mut self, part: &str) -> Self {
        self.path = Some(part.to_owned());
        self
    }

    /// Only where the query contains `part`, for example `service=git-receive-pack`.
    pub fn query(mut self, part: &str) -> Self {
        self.query = Some(part.to_owned());
        self
    }

    /// Not the first `n` requests that fit.
    pub fn skip(mut self, n: u64) -> Self {
        self.skip = n;
        self
    }

    /// Only `n` requests that fit (after those skipped); later ones are as if this rule were not there.
    pub fn times(mut self, n: u64) -> Self {
        self.times = Some(n);
        self
    }

    /// Only one request: [`When::times`] 1.
    pub fn once(self) -> Self {
        self.times(1)
    }

    fn fits(&self, request: &Request) -> bool {
        self.method
            .as_ref()
            .is_none_or(|method| request.method == method.as_str())
            && self
                .path
                .as_ref()
                .is_none_or(|part| request.path.contains(part.as_str()))
            && self
                .query
                .as_ref()
                .is_none_or(|part| request.query.contains(part.as_str()))
    }
}

/// What becomes of a request body that is not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Rest {
    /// Answer at once and go on reading and discarding the body, so that the connection stays usable. As Apache does.
    #[default]
    Drain,
    /// Answer at once and read no more: HTTP/1.1 closes after the answer, HTTP/2 resets the stream with NO_ERROR.
    Close,
    /// Read the whole body first, answer then. Only for replies that don't ask the backend.
    First,
}

/// One answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(crate) source: Source,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) chunked: bool,
    pub(crate) shape: Shape,
    pub(crate) gate: Option<Gate>,
    pub(crate) rest: Option<Rest>,
}

#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// Asked of git; the status replaced when given.
    Backend(Option<u16>),
    Canned(u16, Bytes),
    HangUp,
}

/// What is done to the answer's body on its way out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shape {
    /// Break the connection after so many bytes.
    pub(crate) cut: Option<u64>,
    /// End the body in good form after so many bytes.
    pub(crate) end: Option<u64>,
    /// Hold the body back after so many bytes.
    pub(crate) stall: Option<(u64, Gate)>,
}

impl Reply {
    fn from_source(source: Source) -> Self {
        Reply {
            source,
            headers: Vec::new(),
            chunked: false,
            shape: Shape::default(),
            gate: None,
            rest: None,
        }
    }

    /// The backend's own answer, to be changed by what follows ([`Reply::header`], [`Reply::cut_after`], ...).
    pub fn backend() -> Self {
        Reply::from_source(Source::Backend(None))
    }

    /// An empty answer with this status.
    ///
    /// # Panics
    /// When `status` is none (100 to 999).
    pub fn status(status: u16) -> Self {
        assert!(
            http::StatusCode::from_u16(status).is_ok(),
            "{status} is not an HTTP status"
        );
        Reply::from_source(Source::Canned(status, Bytes::new()))
    }

    /// Plain text, as Git servers explain a refusal.
    pub fn text(status: u16, text: &str) -> Self {
        Reply::status(status)
            .body(text.as_bytes().to_vec())
            .header("content-type", "text/plain; charset=utf-8")
    }

    /// A web page: what a login wall or a wrong URL answers, often with 200.
    pub fn html(status: u16, page: &str) -> Self {
        Reply::status(status)
            .body(page.as_bytes().to_vec())
            .header("content-type", "text/html; charset=utf-8")
    }

    /// A redirect (301, 302, 303, 307, 308) to an absolute URL or an absolute path.
    pub fn redirect(status: u16, location: &str) -> Self {
        Reply::status(status).header("location", location)
    }

    /// No answer: HTTP/1.1 closes the connection, HTTP/2 resets the stream with INTERNAL_ERROR.
    pub fn hang_up() -> Self {
        Reply::from_source(Source::HangUp)
    }

    /// Replaces the answer's body. On [`Reply::backend`] git is no longer asked.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        let status = match self.source {
            Source::Canned(status, _) | Source::Backend(Some(status)) => status,
            Source::Backend(None) | Source::HangUp => 200,
        };
        self.source = Source::Canned(status, body.into());
        self
    }

    /// Replaces the answer's status.
    pub fn with_status(mut self, status: u16) -> Self {
        match &mut self.source {
            Source::Canned(old, _) => *old = status,
            Source::Backend(old) => *old = Some(status),
            Source::HangUp => {}
        }
        self
    }

    /// Sets a header field, in place of the backend's or an earlier one of this name.
    ///
    /// # Panics
    /// When name or value can't stand in a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
        let value = HeaderValue::from_str(value).expect("a header value");
        self.headers.push((name, value));
        self
    }

    /// Sends no Content-Length: HTTP/1.1 answers chunked.
    pub fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// Breaks the answer off after `bytes` of its body, by closing the connection (HTTP/1.1) or resetting the stream
    /// (HTTP/2). What came before has been flushed first, unless an HTTP/2 window holds it back.
    pub fn cut_after(mut self, bytes: u64) -> Self {
        self.shape.cut = Some(bytes);
        self
    }

    /// Ends the answer after `bytes` of its body in well-formed HTTP: what is cut is the pkt-line stream inside.
    pub fn end_after(mut self, bytes: u64) -> Self {
        self.shape.end = Some(bytes);
        self
    }

    /// Holds the answer's body back after `bytes` until `gate` opens.
    pub fn stall_after(mut self, bytes: u64, gate: &Gate) -> Self {
        self.shape.stall = Some((bytes, gate.clone()));
        self
    }

    /// Holds the whole exchange back until `gate` opens: the backend is not started before.
    pub fn gate(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// What becomes of the request's body; without it the server's own way ([`Rest::Drain`] unless told otherwise).
    pub fn rest(mut self, rest: Rest) -> Self {
        self.rest = Some(rest);
        self
    }
}

/// What [`crate::server::GitServer::respond`] takes: a [`Reply`], or a closure that makes one from the request.
pub trait Respond: Send + Sync + 'static {
    /// The answer to this request.
    fn reply(&self, request: &Request) -> Reply;
}

impl Respond for Reply {
    fn reply(&self, _: &Request) -> Reply {
        self.clone()
    }
}

impl<F: Fn(&Request) -> Reply + Send + Sync + 'static> Respond for F {
    fn reply(&self, request: &Request) -> Reply {
        self(request)
    }
}

/// A rule in force.
pub(crate) struct Rule {
    when: When,
    fitted: AtomicU64,
    respond: Arc<dyn Respond>,
}

impl Rule {
    pub(crate) fn new(when: When, respond: Arc<dyn Respond>) -> Self {
        Rule {
            when,
            fitted: AtomicU64::new(0),
            respond,
        }
    }

    /// The responder, when this request is one of those meant. Counts it.
    pub(crate) fn apply(&self, request: &Request) -> Option<Arc<dyn Respond>> {
        if !self.when.fits(request) {
            return None;
        }
        let nth = self.fitted.fetch_add(1, Ordering::SeqCst);
        let wanted = nth.checked_sub(self.when.skip)?;
        self.when
            .times
            .is_none_or(|times| wanted < times)
            .then(|| self.respond.clone())
    }
}

/// Something a test opens by hand: exchanges wait at it, and the test can wait until they have arrived.
#[derive(Debug, Clone)]
pub struct Gate(Arc<GateState>);

#[derive(Debug)]
struct GateState {
    open: watch::Sender<bool>,
    arrived: Mutex<u64>,
    changed: Condvar,
}

impl Default for Gate {
    fn default() -> Self {
        Gate::new()
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Gate(Arc::new(GateState {
            open: watch::Sender::new(false),
            arrived: Mutex::new(0),
            changed: Condvar::new(),
        }))
    }

    /// Lets everyone through, for good.
    pub fn open(&self) {
        self.0.open.send_replace(true);
    }

    /// Blocks until `n` exchanges have arrived at the gate (since it was made); `false` when `patience` ran out first.
    pub fn wait_for(&self, n: u64, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut arrived = lock(&self.0.arrived);
        while *arrived < n {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            arrived = self
                .0
                .changed
                .wait_timeout(arrived, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    /// Arrives, and waits until the gate is open.
    pub(crate) async fn pass(&self) {
        *lock(&self.0.arrived) += 1;
        self.0.changed.notify_all();
        // The sender lives in `self`: there is no error to wait out.
        let _ = self.0.open.subscribe().wait_for(|open| *open).await;
    }
}
