//! The transport that chooses for each exchange.

use std::{
    collections::HashMap,
    fmt, io,
    io::Read,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use http::StatusCode;
use rgit_dial::{Dialer, Origin, Scheme};
use rgit_transport::{Answer, Body, Brief, Error, Held, PeerSettings, Repeatable, Transport, Wire};
use rgit_transport_h1::H1;
use rgit_transport_h2::{H2, Tuning};

use crate::{Amount, CostModel, Link, Protocol, Road, Work, attempts::Attempts};

/// Bodies and answers of at least so many bytes tell something about a road.
const TELLING: u64 = 1024 * 1024;
/// An upload that stood still for at least this part of its time was held back by the server's window.
const STARVED: f64 = 0.2;
/// What a first exchange is taken to need where no round trip was seen yet.
pub(crate) const UNSEEN_ROUND_TRIP: Duration = Duration::from_millis(50);
/// A request that asks for nothing large: an advertisement, a refusal.
const SMALL: u64 = 64 * 1024;

/// HTTP/1.1 or HTTP/2, whichever takes less by the [`CostModel`]. Share one: what it learns of an origin is for its own exchanges.
///
/// HTTP/1.1 is where it begins: the first exchange costs the same over either, and no window of the server's can hold an upload back.
/// HTTP/2 is taken where it is the only one to be had or HTTP/1.1 was refused by a status, where a connection of it is there and nothing
/// large is to be sent, where several small requests are under way at once, and where nothing large will follow ([`Brief`]).
pub struct Auto {
    h1: Arc<H1>,
    h2: OnceLock<Result<H2, io::Error>>,
    dialer: Arc<Dialer>,
    tuning: Tuning,
    model: CostModel,
    origins: Arc<Origins>,
}

/// What was learnt, by origin.
#[derive(Default)]
struct Origins(Mutex<HashMap<Origin, Known>>);

/// What is known of one origin.
#[derive(Debug, Clone, Default)]
struct Known {
    /// It speaks nothing else.
    only: Option<Protocol>,
    peer: Option<PeerSettings>,
    /// By connecting, and by PINGs over HTTP/2: a relay or a load balancer on the way answers the former.
    connecting: Option<Duration>,
    ping: Option<Duration>,
    /// Uploads over HTTP/2 that its window held back, in bytes a second.
    starved: Option<f64>,
    /// The best downloads, over HTTP/1.1 and HTTP/2, in bytes a second.
    down: [Option<f64>; 2],
    /// Exchanges under way with little to move.
    small: u32,
    /// Somebody is finding out whether it speaks HTTP/2.
    scouted: bool,
}

impl Origins {
    fn with<T>(&self, origin: &Origin, change: impl FnOnce(&mut Known) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(origin.clone()).or_default())
    }
}

impl Auto {
    /// A transport that connects by `dialer`. Connects to nothing yet.
    pub fn new(dialer: Arc<Dialer>, h1: rgit_transport_h1::Settings, h2: Tuning) -> Auto {
        Auto {
            h1: Arc::new(H1::new(dialer.clone(), h1)),
            h2: OnceLock::new(),
            dialer,
            tuning: h2,
            model: CostModel::default(),
            origins: Arc::default(),
        }
    }

    /// Made when first needed: most commands never do.
    fn h2(&self) -> Result<&H2, Error> {
        let made = self.h2.get_or_init(|| {
            let h1 = self.h1.clone();
            let h2 = H2::new(self.dialer.clone(), self.tuning.clone())?;
            Ok(h2.leaving_http1_to(move |origin, connection| h1.adopt(origin, connection)))
        });
        made.as_ref().map_err(|err| Error::Request {
            reason: format!("HTTP/2 can't be set up here: {err}"),
        })
    }

    /// See that a connection to `origin` lies idle, over HTTP/2 where one is open already or nothing else is spoken; `true` if one had to
    /// be made.
    ///
    /// # Errors
    /// As an exchange's that can't connect.
    pub fn warm(&self, origin: &Origin) -> Result<bool, Error> {
        let only = self.origins.with(origin, |known| known.only);
        let made = self.h2.get().and_then(|made| made.as_ref().ok());
        match made {
            Some(h2) if only == Some(Protocol::Http2) => h2.warm(origin),
            Some(h2) if h2.open(origin).is_some() => Ok(false),
            _ => self.h1.warm(origin),
        }
    }

    /// The connections that are there, of either protocol, in use or idle.
    pub fn held(&self) -> Vec<Held> {
        let h2 = self.h2.get().and_then(|made| made.as_ref().ok());
        let mut held = self.h1.held();
        held.extend(h2.map(H2::held).unwrap_or_default());
        held
    }

    /// The road for `work`.
    fn choose(&self, origin: &Origin, work: &Work, brief: bool) -> Protocol {
        let known = self.origins.with(origin, |known| known.clone());
        if let Some(only) = known.only {
            return only;
        }
        if origin.scheme == Scheme::Http {
            // Without TLS a server can't say that it speaks HTTP/2.
            return if self.tuning.prior_knowledge {
                Protocol::Http2
            } else {
                Protocol::Http1
            };
        }
        let new = CostModel::HANDSHAKES;
        let http1 = Road::http1(if self.h1.idle(origin) > 0 { 0 } else { new });
        let open = self
            .h2
            .get()
            .and_then(|made| made.as_ref().ok())
            .and_then(|h2| h2.open(origin));
        let peer = open.or(known.peer);
        let window = peer.map(|peer| u64::from(peer.upload_window()));
        // Those who are under way make room for themselves, too: they share the handshakes of a new connection.
        // But whether the server speaks HTTP/2 at all is for one of them to find out.
        // So does the exchange that follows a brief one: a server that runs a program for each (CGI) takes up the next of an HTTP/1.1
        // connection only when that of the last has ended, which over HTTP/2 nobody waits for.
        let sharers = match known.scouted {
            false if is_small(work) => known.small + 1 + u32::from(brief),
            _ => 1,
        };
        let handshakes = if open.is_some() { 0 } else { new };
        let http2 = Road::http2(handshakes, window).shared_by(sharers);
        let link = Link {
            round_trip: known.ping.or(known.connecting).unwrap_or(UNSEEN_ROUND_TRIP),
            rate: None,
        };
        let roads = [
            http1.measured(None, known.down[0]),
            http2.measured(known.starved, known.down[1]),
        ];
        let chosen = self.model.choose(work, &link, &roads).unwrap_or(0);
        tracing::debug!(%origin, ?work, ?link, ?roads, protocol = ?roads[chosen].protocol, "road chosen");
        roads[chosen].protocol
    }

    /// Whether a server that answered so over HTTP/1.1 may take the same request over HTTP/2 (RFC 9110, sections 15.5.22 and 15.6.6).
    /// Either status says that nothing was done.
    fn may_be_left_behind(&self, status: StatusCode, protocol: Protocol, origin: &Origin) -> bool {
        let refuses = [StatusCode::UPGRADE_REQUIRED, StatusCode::HTTP_VERSION_NOT_SUPPORTED].contains(&status);
        refuses
            && protocol == Protocol::Http1
            && origin.scheme == Scheme::Https
            && self.origins.with(origin, |known| known.only.is_none())
    }

    fn send(&self, protocol: Protocol, request: http::Request<Body<'_>>) -> Result<http::Response<Answer>, Error> {
        match protocol {
            Protocol::Http1 => self.h1.exchange(request),
            Protocol::Http2 => self.h2()?.exchange(request),
        }
    }
}

impl Transport for Auto {
    fn exchange(&self, request: http::Request<Body<'_>>) -> Result<http::Response<Answer>, Error> {
        let origin = Origin::try_from(request.uri()).map_err(|err| Error::Request {
            reason: err.to_string(),
        })?;
        let work = work(&request);
        let brief = request.extensions().get::<Brief>().is_some();
        let mut protocol = self.choose(&origin, &work, brief);
        let guard = Underway::begin(&self.origins, &origin, is_small(&work), &mut protocol);
        let (parts, body) = request.into_parts();
        let mut attempts = Attempts::new(body);
        let begun = Instant::now();
        let mut outcome = self.send(protocol, http::Request::from_parts(parts.clone(), attempts.body()));
        if let Err(error) = &outcome
            && let Some(other) = error
                .wanted_version()
                .and_then(protocol_of)
                .filter(|other| *other != protocol)
        {
            let reason = error.to_string();
            tracing::debug!(%origin, %reason, "another version of HTTP");
            // A reset of one exchange says nothing about the next; a handshake does.
            if error.code().is_none() {
                self.origins.with(&origin, |known| known.only = Some(other));
            }
            if attempts.again() {
                protocol = other;
                outcome = self.send(protocol, http::Request::from_parts(parts, attempts.body()));
            }
        } else if let Ok(refusal) = &outcome
            && self.may_be_left_behind(refusal.status(), protocol, &origin)
            && attempts.again()
        {
            let status = refusal.status();
            tracing::debug!(%origin, %status, "HTTP/1.1 was refused");
            let second = self.send(Protocol::Http2, http::Request::from_parts(parts, attempts.body()));
            let (only, refused) = match &second {
                Ok(_) => (Some(Protocol::Http2), false),
                Err(error) if error.wanted_version().is_some() => {
                    (error.code().is_none().then_some(Protocol::Http1), true)
                }
                Err(_) => (None, false),
            };
            self.origins.with(&origin, |known| known.only = only.or(known.only));
            // Where HTTP/2 isn't spoken either, the refusal is all there is to say.
            if !refused {
                protocol = Protocol::Http2;
                outcome = second;
            }
        }
        let response = outcome?;
        let took = begun.elapsed();
        let (head, answer) = response.into_parts();
        if let Some(wire) = head.extensions.get::<Wire>() {
            guard.learn(wire, took);
        }
        let answer = Answer::new(Counted {
            answer,
            bytes: 0,
            begun: Instant::now(),
            protocol,
            guard: Some(guard),
        });
        Ok(http::Response::from_parts(head, answer))
    }
}

fn is_small(work: &Work) -> bool {
    let small = |amount| matches!(amount, Amount::Bytes(bytes) if bytes <= SMALL);
    small(work.up) && small(work.down)
}

fn protocol_of(version: http::Version) -> Option<Protocol> {
    match version {
        http::Version::HTTP_2 => Some(Protocol::Http2),
        http::Version::HTTP_11 | http::Version::HTTP_10 => Some(Protocol::Http1),
        _ => None,
    }
}

/// What is to be moved, as far as can be told from the request.
pub(crate) fn work(request: &http::Request<Body<'_>>) -> Work {
    let up = request.body().length().map_or(Amount::Large, Amount::Bytes);
    let fetches = request.extensions().get::<Repeatable>().is_some() && request.method() == http::Method::POST;
    Work {
        up,
        // An answer to a small POST that changes nothing on the server may be a pack.
        down: if fetches { Amount::Large } else { Amount::Bytes(4_000) },
    }
}

/// An exchange under way.
struct Underway {
    origins: Arc<Origins>,
    origin: Origin,
    small: bool,
    scouts: bool,
}

impl Underway {
    /// One exchange at a time scouts; others that chose the same road in that moment take the other.
    fn begin(origins: &Arc<Origins>, origin: &Origin, small: bool, protocol: &mut Protocol) -> Underway {
        let scouts = origins.with(origin, |known| {
            known.small += u32::from(small);
            // It may have become known since.
            *protocol = known.only.unwrap_or(*protocol);
            let unknown = known.only.is_none() && known.peer.is_none() && origin.scheme == Scheme::Https;
            if *protocol == Protocol::Http1 || !unknown {
                return false;
            }
            if known.scouted {
                *protocol = Protocol::Http1;
            }
            !std::mem::replace(&mut known.scouted, true)
        });
        Underway {
            origins: origins.clone(),
            origin: origin.clone(),
            small,
            scouts,
        }
    }

    /// Note what an exchange of that duration showed.
    fn learn(&self, wire: &Wire, took: Duration) {
        self.origins.with(&self.origin, |known| {
            known.peer = wire.peer.or(known.peer);
            let seen = match wire.protocol {
                http::Version::HTTP_2 => &mut known.ping,
                _ => &mut known.connecting,
            };
            *seen = match (*seen, wire.round_trip) {
                (Some(before), Some(now)) => Some(before.min(now)),
                (before, now) => before.or(now),
            };
            let took = took.saturating_sub(wire.dial_time.unwrap_or_default()).as_secs_f64();
            if wire.sent >= TELLING && wire.starved.as_secs_f64() > took * STARVED {
                known.starved = Some(wire.sent as f64 / took);
            }
        });
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let small = u32::from(self.small);
        self.origins.with(&self.origin, |known| {
            known.small = known.small.saturating_sub(small);
            known.scouted &= !self.scouts;
        });
    }
}

/// Measures how fast an answer comes.
struct Counted {
    answer: Answer,
    bytes: u64,
    begun: Instant,
    protocol: Protocol,
    guard: Option<Underway>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.answer.read(buffer)?;
        self.bytes += read as u64;
        if read == 0
            && !buffer.is_empty()
            && let Some(guard) = self.guard.take()
            && self.bytes >= TELLING
        {
            let rate = self.bytes as f64 / self.begun.elapsed().as_secs_f64().max(1e-6);
            guard.origins.with(&guard.origin, |known| {
                let best = &mut known.down[usize::from(self.protocol == Protocol::Http2)];
                *best = Some(best.map_or(rate, |best| best.max(rate)));
            });
        }
        Ok(read)
    }
}

impl fmt::Debug for Auto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auto")
            .field("h1", &self.h1)
            .field("h2", &self.h2.get())
            .finish_non_exhaustive()
    }
}
