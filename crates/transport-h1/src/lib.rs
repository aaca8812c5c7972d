//! HTTP/1.1 (RFC 9112) over a pool of connections.
//!
//! This room owns message framing, the pool, and the loop that sends a request and receives its answer. It refuses everything
//! above (redirects, credentials, codings) and below (names, sockets, TLS: [`rgit_dial`]).
//!
//! # The loop
//! [`H1`] is full duplex: while it sends, it looks after every piece whether the server has something to say. That is what makes an
//! early refusal arrive at any body size, instead of being lost in a connection reset.
//! 1. Read the first piece of the body. Take the youngest idle connection that is not stale then, or dial.
//! 2. Write head and first body bytes in one piece; then body pieces of [`Settings::buffer`] bytes, read from the body just when the
//!    socket takes them. Between pieces, and whenever the socket takes no more, read what has come.
//! 3. A final head with status 300 or more ends the sending. One of 2xx does not: up to 1 MiB of such an answer is set aside until
//!    the body is through. A server that insists on having more of its answer read before it reads on runs into the idle timeout.
//! 4. When writing fails, what the server said before is read; if a final head is there, it is the answer.
//! 5. The body of the answer is then read straight from the connection, which goes back into the pool with the last byte. It also does
//!    when the answer is dropped between two chunks, as by a reader who knows from the content that there is no more: servers leave the
//!    last chunk, of five bytes, to Nagle's algorithm, and to wait for it can cost a round trip. A request that can be sent again is then
//!    sent while the last chunk is still to come (RFC 9112, section 9.3.2); another one waits for it.
//!
//! # What is sent again
//! Idle connections are checked before use, so a connection that the server has closed costs nothing. A *reused* connection can still be
//! closed by the server at the moment it is used. Then, if no byte of an answer came, the request is sent once more, on a new
//! connection, when its body can be replayed and
//! - its method is safe, GET, HEAD or OPTIONS (RFC 9110, section 9.2.2; RFC 9112, section 9.3.1), or its sender says that it is
//!   [`Repeatable`](rgit_transport::Repeatable), or
//! - its head had not been handed to the socket whole, so that no server can have begun to act on it.
//!
//! So is a request that went out as early data, on a connection that was new for it and then was closed without an answer: that the server
//! can't cope with early data is likelier than that it can't with the request.
//!
//! Another POST whose head is out may have started a CGI program, even if its body was not finished: that error goes to the caller.
//!
//! # Early data
//! A request that may ([`Early`](rgit_transport::Early)) goes along with the TLS handshake of a new connection, where the dialer's settings
//! and the server's ticket allow it. If the server takes it, its answer is one round trip away from the TCP handshake instead of two. If it
//! doesn't, the request is sent when the handshake is through. If it takes it and then says 425 (RFC 8470, section 5.2), the request is sent
//! again, once, on the same connection if that can still be used. Other requests wait for the handshake as ever.
//!
//! # Why neither ureq nor ureq-proto
//! ureq's own send loop is half duplex. Driving ureq-proto's states by hand does not help: its `SendBody` can't parse an answer, and its
//! parser can't be told to accept folded header lines (which servers of old send, and git's own tests, too), bare line feeds in chunk
//! framing, or chunk extensions longer than a few bytes. What would be left of it is httparse, which is used here directly.

mod answer;
mod chunked;
mod connect;
mod exchange;
mod framing;
mod head;
mod outgoing;
mod pool;
mod pooled;
mod request;
pub mod serve;
mod settings;

use std::{
    fmt,
    io::{self, Read},
    sync::Arc,
};

use http::StatusCode;
use rgit_dial::{Connection, Dialer, Early, Origin};
use rgit_transport::{Answer, Body, Cancel, EarlyData, Error, Held, Transport, Wire, authenticates_connection};

use answer::AnswerBody;
pub use answer::Trailers;
pub use connect::Connect;
use exchange::{Failure, Received};
use framing::Receiving;
use outgoing::Outgoing;
use pool::Pool;
use pooled::Pooled;
use request::{Request, Target};
pub use settings::{PoolSettings, Settings};

/// How much of a 425's content is read to keep its connection: a sentence.
const TOO_EARLY: u64 = 64 * 1024;

/// The HTTP/1.1 transport. Share one: its connections are reused only within itself.
pub struct H1 {
    connect: Box<dyn Connect>,
    target: Target,
    pool: Arc<Pool>,
    settings: Settings,
}

impl H1 {
    /// A transport that connects by `dialer`.
    pub fn new(dialer: Arc<Dialer>, settings: Settings) -> H1 {
        H1::with(Box::new(dialer), Target::Origin, settings)
    }

    /// A transport whose connections, to whatever origin, lead to somebody who passes requests on: they carry the whole URI in the
    /// request line (RFC 9112, section 3.2.2).
    pub fn through(connect: impl Connect + 'static, settings: Settings) -> H1 {
        H1::with(Box::new(connect), Target::Absolute, settings)
    }

    fn with(connect: Box<dyn Connect>, target: Target, settings: Settings) -> H1 {
        H1 {
            connect,
            target,
            pool: Arc::new(Pool::new(settings.pool.clone())),
            settings,
        }
    }

    /// How many connections to `origin` lie idle. That they can still be used is seen only when one is.
    pub fn idle(&self, origin: &Origin) -> usize {
        self.pool.idle(origin)
    }

    /// Take over a connection on which HTTP/1.1 was agreed and nothing was sent yet.
    pub fn adopt(&self, origin: Origin, connection: Connection) {
        let connection = self.pool.enter(&origin, connection);
        self.pool.put(origin, connection, None);
    }

    /// The connections that are there, in use or idle; that an idle one can still be used is seen only when it is.
    pub fn held(&self) -> Vec<Held> {
        self.pool.held()
    }

    /// See that a connection to `origin` lies idle, after dropping those that the server closed; `true` if one had to be made.
    ///
    /// # Errors
    /// As an exchange's that can't connect.
    pub fn warm(&self, origin: &Origin) -> Result<bool, Error> {
        if self.pool.refresh(origin) > 0 {
            return Ok(false);
        }
        let connection = self.pool.enter(origin, self.connect.connect(origin)?);
        self.pool.put(origin.clone(), connection, None);
        Ok(true)
    }

    fn answer(
        &self,
        request: &Request,
        connection: Pooled,
        received: Received,
        mut wire: Wire,
    ) -> http::Response<Answer> {
        let Received {
            head,
            framing,
            rest,
            whole,
            early,
        } = received;
        wire.protocol = head.version;
        wire.early = early;
        let reusable =
            whole && head.keeps_alive(framing) && !request.closes && !authenticates_connection(&head.headers);
        let body = AnswerBody::new(framing, rest, connection, self.settings.clone());
        let body = match reusable {
            true => body.hand_back_to(self.pool.clone(), request.origin.clone()),
            false => body,
        };
        let body = if early { body.may_be_reset() } else { body };
        let trailers = body.trailers();
        let mut response = http::Response::new(body.into_answer());
        *response.status_mut() = head.status;
        *response.version_mut() = head.version;
        *response.headers_mut() = head.headers;
        response.extensions_mut().insert(wire);
        if framing == Receiving::Chunked {
            response.extensions_mut().insert(trailers);
        }
        response
    }
}

impl Transport for H1 {
    fn exchange(&self, request: http::Request<Body<'_>>) -> Result<http::Response<Answer>, Error> {
        let (parts, mut body) = request.into_parts();
        let request = Request::new(&parts, &body, self.target)?;
        let cancel = parts.extensions.get::<Cancel>();
        let (mut resent, mut closed, mut too_early) = (0, false, false);
        let mut early_data = EarlyData::Unused;
        loop {
            let can_replay = body.can_replay();
            let mut outgoing = Outgoing::new(&request, &mut body, self.settings.buffer)?;
            // The first piece may be minutes of work. Meanwhile an idle connection would grow old in our hands: what it was when it
            // was chosen would mean nothing, and a POST on a connection that was closed since is lost.
            outgoing.fill().map_err(|source| Error::Body { sent: 0, source })?;
            let pooled = if resent == 0 || (too_early && !closed) {
                self.pool.take(&request.origin, request.repeatable && can_replay)
            } else {
                None
            };
            let reused = pooled.is_some();
            let (mut connection, rest) = match pooled {
                Some(pooled) => pooled,
                None => {
                    let connection = match request.early && resent == 0 {
                        true => self.connect.connect_early(&request.origin, &request.head)?,
                        false => self.connect.connect(&request.origin)?,
                    };
                    (self.pool.enter(&request.origin, connection), None)
                }
            };
            connection.begins(cancel);
            let early = if reused { Early::Unused } else { connection.early_data() };
            match early {
                Early::Accepted => {
                    early_data = EarlyData::Accepted;
                    outgoing.pass();
                }
                Early::Rejected => early_data = EarlyData::Rejected,
                Early::Lost => {
                    early_data = EarlyData::Rejected;
                    resent += 1;
                }
                _ => {}
            }
            let mut wire = Wire::new(http::Version::HTTP_11);
            wire.reused = reused;
            wire.dial_time = (!reused).then(|| connection.dial_time());
            wire.round_trip = Some(connection.round_trip());
            wire.resent = resent;
            wire.early_data = early_data;
            let outcome = exchange::run(
                &mut connection,
                &mut outgoing,
                &request.method,
                rest,
                self.settings.idle_timeout,
            );
            wire.sent = outgoing.sent();
            let head_sent = outgoing.head_sent();
            drop(outgoing);
            match outcome {
                Ok(received) if early == Early::Accepted && received.head.status == StatusCode::TOO_EARLY => {
                    tracing::debug!(origin = %request.origin, "too early for the server; sending again");
                    let refusal = self.answer(&request, connection, received, wire).into_body();
                    // What can't be read of it goes with its connection.
                    io::copy(&mut refusal.take(TOO_EARLY), &mut io::sink()).ok();
                    too_early = true;
                    resent += 1;
                }
                Ok(received) => return Ok(self.answer(&request, connection, received, wire)),
                Err(Failure::Silent { .. })
                    if (reused || early == Early::Accepted)
                        && !closed
                        && can_replay
                        && (request.repeatable || !head_sent)
                        && !cancel.is_some_and(Cancel::is_cancelled) =>
                {
                    tracing::debug!(origin = %request.origin, reused, "the server closed the connection; sending again");
                    closed = true;
                    resent += 1;
                }
                Err(failure) => return Err(failure.into_error(&request.origin, wire.sent)),
            }
        }
    }
}

impl fmt::Debug for H1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("H1")
            .field("connect", &self.connect)
            .field("idle", &self.pool)
            .finish_non_exhaustive()
    }
}
