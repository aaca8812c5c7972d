//! HTTP/2 (RFC 9113), tuned, with a blocking face.
//!
//! This room owns streams, windows and frames as far as the `h2` crate leaves them open, who drives a connection, which connection takes
//! a request, and what is sent again. It refuses everything above (redirects, credentials, codings) and below (names, sockets, TLS:
//! [`rgit_dial`]), and nothing async leaves it.
//!
//! # Who drives
//! h2's connection is a future: unless it is polled, nothing is sent, received or answered. A thread of its own that polls it costs two
//! hand-overs between threads for every piece of a body; polling it only in calls leaves PING, SETTINGS and GOAWAY unanswered while a
//! program computes. So the driver changes:
//! 1. Whoever waits for something (room in the window, an answer's head, its next bytes) takes the connection's seat and drives it on its
//!    own thread: polls h2, sends what h2 left, waits on the socket. One request at a time never leaves its thread.
//! 2. Other threads that wait on the same connection sleep until h2 wakes them, or until the driver stands up and offers them the seat.
//!    Nobody drives while it reads a request's body, which may take minutes of compressing.
//! 3. When a connection has been left alone for a quarter of a second, the keeper (one thread for the whole transport, made with its first
//!    connection) waits on its socket and does what comes up. It takes the seat only for the moment in which it polls h2, so nobody
//!    has to ask it to leave.
//!
//! No runtime is needed for that. h2 wants sockets in the terms of tokio's traits and wakers, nothing else: a socket here answers
//! "not now" and notes what h2 waits for, and the driver waits with `poll(2)` on that and on an alarm that wakers ring. A private
//! current-thread runtime was the plan. It hands its core from one `block_on` to the next in the same way, but it would need a thread for
//! each connection that nobody waits on, and there is no telling it when h2 has said all it has to say: h2 flushes after each
//! frame, and over TLS a frame of 16 KiB is one full record and one of nine bytes. Here frames are gathered and leave together, at 256 KiB
//! or when h2 is done. Uploads in 16 KiB frames take 0.2 to 0.3 CPU seconds a GB
//! plain and 0.4 to 0.6 over TLS in this way (`cargo bench --bench h2`). Before it was built, a program that drove h2 by `block_on` on the
//! calling thread had taken 0.69 and 1.00, one with a driver thread 0.79 plain.
//!
//! # What is seen
//! h2 doesn't tell the peer's SETTINGS, what is left of the connection's window, or what of a body is on the wire. A scanner under its
//! reader and writer finds the frames as they pass and reads that off: exactly, without holding anything back, and without a stream
//! being open. From it come [`PeerSettings`], the PING's round trip, the idle timeout of each exchange
//! (no frame of *its* stream moved), and whether the server can have seen a request at all.
//!
//! # One exchange
//! 1. Read the first piece of the body. Take a place on a connection that has one, or dial. As many requests share a connection as the
//!    server allows (SETTINGS_MAX_CONCURRENT_STREAMS); what is beyond goes over another connection, because waiting may last hours or,
//!    if the answer that blocks the way is held by the thread that asks, for ever.
//! 2. Open a stream; hand over pieces of [`Tuning::chunk`] bytes as window and [`Tuning::send_buffer`] allow. Before each, look for an
//!    answer. A final status of 300 or more ends the sending; 2xx does not. `content-length` is announced wherever the length is known.
//!    Into a small window frames, and records of TLS, end where the server will find half of it used: it gives back no more than it finds.
//! 3. The body of the answer is then read from the stream, which is reset if it is dropped before its end, or if the request was not
//!    sent to its end.
//!
//! A request that authenticates its connection (NTLM, Negotiate) gets one that no other request is ever on, and an answer that does ends
//! the taking of more. Most servers refuse such a request over HTTP/2, by HTTP_1_1_REQUIRED.
//!
//! # What is sent again
//! Once, on a new connection, if the body can be replayed and
//! - the server says that it did not process it: RST_STREAM with REFUSED_STREAM, or a GOAWAY below its stream (RFC 9113, section 8.7);
//! - none of it was handed to the network;
//! - a *reused* connection ended without a word about it, and it is safe (RFC 9110, section 9.2.2) or
//!   [`Repeatable`](rgit_transport::Repeatable).
//!
//! After ENHANCE_YOUR_CALM the connection takes no more requests, and the next one to that server is made only after
//! [`Tuning::calm`]. HTTP_1_1_REQUIRED, an ALPN that ends in HTTP/1.1, and `http://` without [`Tuning::prior_knowledge`] are
//! [`Error::Version`], for a transport that knows both to act on.

mod alarm;
mod answer;
mod driver;
mod exchange;
mod frames;
mod keeper;
mod link;
mod observed;
mod outgoing;
mod pool;
mod probe;
mod request;
mod socket;
mod tuning;

use std::{fmt, io, sync::Arc, task::Poll, time::Instant};

use h2::Reason;
use rgit_dial::{Alpn, Connection, Dialer, Origin, Scheme};
use rgit_transport::{Answer, Body, Error, Held, PeerSettings, Stage, Transport, authenticates_connection};

use answer::AnswerBody;
use driver::Leave;
use exchange::Failure;
use keeper::Keeper;
use link::{Link, Slot};
use outgoing::Outgoing;
use pool::Links;
pub use probe::Probe;
use request::Request;
pub use tuning::Tuning;

/// Connections on which a request is begun before it is given up: a connection may end between being chosen and being used.
const BEGINNINGS: u32 = 3;

/// The HTTP/2 transport. Share one: its connections are reused only within itself.
pub struct H2 {
    dialer: Arc<Dialer>,
    tuning: Arc<Tuning>,
    links: Arc<Links>,
    keeper: Arc<Keeper>,
    /// Who takes connections on which the server chose HTTP/1.1.
    heir: Option<Heir>,
}

/// Which connection a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Any that has a place.
    Any,
    /// One made for it.
    Fresh,
    /// One made for it, that no other request is ever on.
    Alone,
}

type Heir = Box<dyn Fn(Origin, Connection) + Send + Sync>;

impl H2 {
    /// A transport that connects by `dialer`. Connects to nothing yet.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn new(dialer: Arc<Dialer>, tuning: Tuning) -> io::Result<H2> {
        let tuning = Arc::new(tuning.checked());
        let links = Arc::new(Links::default());
        Ok(H2 {
            keeper: Keeper::new(&links, tuning.idle_age)?,
            dialer,
            tuning,
            links,
            heir: None,
        })
    }

    /// Give `heir` the connections on which the server chose HTTP/1.1: they are of no use here, but were made.
    pub fn leaving_http1_to(mut self, heir: impl Fn(Origin, Connection) + Send + Sync + 'static) -> H2 {
        self.heir = Some(Box::new(heir));
        self
    }

    /// What the server of `origin` allows on a connection that is open. `None` if none is.
    pub fn open(&self, origin: &Origin) -> Option<PeerSettings> {
        let links = self.links.of(origin);
        links
            .iter()
            .filter(|link| link.is_usable())
            .find_map(|link| link.observed.peer_settings())
    }

    /// The connections that are there, in use or idle.
    pub fn held(&self) -> Vec<Held> {
        self.keeper.kept().iter().filter_map(|link| link.held()).collect()
    }

    /// See that a connection to `origin` is open; `true` if one had to be made.
    ///
    /// # Errors
    /// As an exchange's that can't connect.
    pub fn warm(&self, origin: &Origin) -> Result<bool, Error> {
        self.place(origin, Wanted::Any).map(|(_, reused)| !reused)
    }

    /// A connection on which HTTP/2 can be spoken.
    fn dial(&self, origin: &Origin) -> Result<Connection, Error> {
        let refused = |wanted, reason: &str| Error::Version {
            origin: origin.to_string(),
            wanted,
            reason: reason.to_owned(),
            sent: 0,
            code: None,
        };
        if origin.scheme == Scheme::Http && !self.tuning.prior_knowledge {
            let reason = "without TLS, a server can't say whether it speaks HTTP/2";
            return Err(refused(http::Version::HTTP_11, reason));
        }
        let connection = self.connect(origin)?;
        match (connection.is_tls(), connection.alpn()) {
            (false, _) | (true, Some(b"h2")) => Ok(connection),
            (true, Some(_)) => {
                if let Some(heir) = &self.heir {
                    heir(origin.clone(), connection);
                }
                Err(refused(
                    http::Version::HTTP_11,
                    "offered HTTP/2 by ALPN, it chose HTTP/1.1",
                ))
            }
            (true, None) => Err(refused(
                http::Version::HTTP_11,
                "it does not take part in ALPN, so it can't be spoken to in HTTP/2",
            )),
        }
    }

    fn connect(&self, origin: &Origin) -> Result<Connection, Error> {
        // HTTP/1.1 is offered, too: a server that speaks nothing else then says so, instead of breaking off the handshake.
        self.dialer.dial(origin, Alpn::Http2OrHttp1).map_err(|err| {
            let stage = if err.is_tls() { Stage::Tls } else { Stage::Dial };
            Error::broken(stage, origin.to_string(), 0, err)
        })
    }

    /// Speak HTTP/2 on `connection`.
    fn speak(&self, connection: Connection, origin: &Origin) -> Result<Arc<Link>, Error> {
        Link::new(connection, origin.clone(), self.tuning.clone(), self.keeper.alarm())
            .map_err(|err| Error::broken(Stage::Dial, origin.to_string(), 0, err))
    }

    /// Let others use `link`, and look after it.
    fn offer(&self, link: Arc<Link>) {
        self.keeper.keep(&link);
        self.links.add(link);
    }

    /// A place on a connection to `origin`, and whether that served before.
    fn place(&self, origin: &Origin, wanted: Wanted) -> Result<(Slot, bool), Error> {
        let fresh = wanted != Wanted::Any;
        loop {
            if !fresh && let Some(place) = self.place_on_what_is_there(origin) {
                return Ok(place);
            }
            let Some(_dialing) = self.links.dialing(origin) else {
                continue;
            };
            // Whoever dialled before may be done only now.
            if !fresh && let Some(place) = self.links.of(origin).iter().find_map(Link::claim) {
                return Ok(place);
            }
            let pause = self.links.pause(origin);
            if !pause.is_zero() {
                // To stay away is the point; nothing could end it early. The right to dial is kept meanwhile, so that others who want
                // this server wait, too, instead of dialling each in turn. Sixteen times `Tuning::calm` at most.
                tracing::debug!(%origin, ?pause, "the server asked for calm");
                std::thread::sleep(pause);
            }
            let link = self.speak(self.dial(origin)?, origin)?;
            // Before anybody else can: it may carry no more than one.
            let place = link.claim();
            match wanted {
                // It ends with its answer.
                Wanted::Alone => self.keeper.keep(&link),
                _ => self.offer(link),
            }
            return place.ok_or_else(|| {
                let said = io::Error::new(io::ErrorKind::ConnectionAborted, "the connection can't be used");
                Error::broken(Stage::Dial, origin.to_string(), 0, said)
            });
        }
    }

    fn place_on_what_is_there(&self, origin: &Origin) -> Option<(Slot, bool)> {
        loop {
            let links = self.links.of(origin);
            Links::refresh(&links);
            if let Some(place) = links.iter().find_map(Link::claim) {
                return Some(place);
            }
            // One that is in use, and whose server has not said yet how many requests it takes: it says so within a round trip.
            let young = links
                .iter()
                .find(|link| link.is_usable() && !link.observed.allowed_streams().0)?;
            let deadline = Instant::now() + self.tuning.idle_timeout;
            young.wait_for(
                Leave::Listening,
                || deadline,
                |cx| match young.observed.settled(cx.waker()) || !young.is_usable() {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                },
            )?;
        }
    }

    /// Begin `request` on a connection.
    fn begin(&self, request: &Request, through: bool, mut fresh: bool) -> Result<(exchange::Begun, Slot, bool), Error> {
        let mut tries = 0;
        loop {
            let wanted = match fresh {
                _ if request.alone => Wanted::Alone,
                true => Wanted::Fresh,
                false => Wanted::Any,
            };
            let (slot, reused) = self.place(&request.origin, wanted)?;
            match exchange::begin(&slot.0, request, through) {
                Ok(begun) => return Ok((begun, slot, reused)),
                Err(source) => {
                    // Not even a stream was opened, and nothing of the body is lost.
                    slot.0.retire();
                    tries += 1;
                    if tries == BEGINNINGS {
                        return Err(Error::broken(Stage::Send, request.origin.to_string(), 0, source));
                    }
                    fresh = true;
                }
            }
        }
    }

    /// Whether what failed may be sent again, after what had to be learnt of the failure was learnt.
    fn may_be_resent(&self, failure: &Failure, link: &Link, request: &Request, reused: bool, begun: bool) -> bool {
        let Failure::Broken {
            code,
            unprocessed,
            silent,
            ..
        } = failure
        else {
            return false;
        };
        if *silent {
            link.retire();
        }
        if *code == Some(Reason::ENHANCE_YOUR_CALM) {
            link.retire();
            self.links.calm_down(&request.origin, self.tuning.calm);
            return *unprocessed || request.repeatable;
        }
        // Whatever else it may be, HTTP/2 it won't be.
        if *code == Some(Reason::HTTP_1_1_REQUIRED) {
            return false;
        }
        *unprocessed || *silent && reused && (request.repeatable || !begun)
    }
}

impl Transport for H2 {
    fn exchange(&self, request: http::Request<Body<'_>>) -> Result<http::Response<Answer>, Error> {
        let (parts, mut body) = request.into_parts();
        let request = Request::new(&parts, &body)?;
        let mut resent = 0;
        loop {
            let mut outgoing = Outgoing::new(&request, &mut body, self.tuning.chunk)?;
            // The first piece may be minutes of work. Meanwhile a connection chosen before would grow old in our hands.
            if !outgoing.is_through() && outgoing.piece.is_empty() {
                outgoing.fill().map_err(|source| Error::Body { sent: 0, source })?;
            }
            let (begun, slot, reused) = self.begin(&request, outgoing.is_through(), resent > 0)?;
            let link = slot.0.clone();
            if request.closes {
                link.retire();
            }
            link.count();
            link.measure();
            let (outcome, meter) = exchange::run(&link, begun, &mut outgoing, &request.cancel);
            drop(outgoing);
            let failure = match outcome {
                Ok(received) => {
                    self.links.went_well(&request.origin);
                    if authenticates_connection(received.response.headers()) {
                        link.retire();
                    }
                    let mut wire = link.wire(reused);
                    wire.sent = meter.sent();
                    wire.resent = resent;
                    wire.early = received.early;
                    wire.starved = received.starved;
                    let mut response = AnswerBody::answer(received, slot);
                    *response.version_mut() = http::Version::HTTP_2;
                    response.extensions_mut().insert(wire);
                    return Ok(response);
                }
                Err(failure) => failure,
            };
            drop(slot);
            let resend = self.may_be_resent(&failure, &link, &request, reused, meter.begun());
            if !resend || resent > 0 || !body.can_replay() {
                return Err(failure.into_error(&request.origin, meter.sent()));
            }
            tracing::debug!(origin = %request.origin, "the server has not processed the request; sending it again");
            resent += 1;
        }
    }
}

impl fmt::Debug for H2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("H2")
            .field("dialer", &self.dialer)
            .field("connections", &self.links)
            .finish_non_exhaustive()
    }
}
