//! One HTTP/2 connection: what is known of it, and who may begin an exchange on it. Driving it is [`crate::driver`]'s.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use h2::client::SendRequest;
use rgit_dial::{Connection, Interest, Origin};
use rgit_transport::{Held, Wire};
use rustix::{event::PollFlags, fd::OwnedFd};

use crate::{
    Tuning,
    alarm::Alarm,
    driver::{Core, Leave, Seat},
    observed::{Observed, lock},
    socket::{Plumbing, Socket},
};

/// How often the round trip is measured anew, at most.
const PING_EVERY: Duration = Duration::from_secs(10);

/// A connection.
pub(crate) struct Link {
    pub(crate) origin: Origin,
    pub(crate) observed: Arc<Observed>,
    /// Given up only when the connection is.
    sender: Mutex<Option<SendRequest<Bytes>>>,
    pub(crate) seat: Mutex<Seat>,
    /// Rung when h2 wants its connection polled.
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) descriptor: Arc<OwnedFd>,
    pub(crate) plumbing: Arc<Mutex<Plumbing>>,
    /// Exchanges under way.
    active: AtomicUsize,
    served: AtomicBool,
    requests: AtomicU64,
    retired: AtomicBool,
    pub(crate) wants_ping: AtomicBool,
    pinged: Mutex<Instant>,
    /// When the last exchange ended, or the connection came to be.
    unused_since: Mutex<Instant>,
    /// Whom to tell that the connection has ended.
    keeper: Arc<Alarm>,
    pub(crate) tuning: Arc<Tuning>,
    dial_time: Duration,
    round_trip: Duration,
}

impl Link {
    /// HTTP/2 on `connection`. Sends nothing that waits for an answer.
    pub(crate) fn new(
        connection: Connection,
        origin: Origin,
        tuning: Arc<Tuning>,
        keeper: Arc<Alarm>,
    ) -> Result<Arc<Link>, Box<dyn std::error::Error + Send + Sync>> {
        let alarm = Arc::new(Alarm::new()?);
        let descriptor = Arc::new(connection.descriptor()?);
        let (dial_time, round_trip) = (connection.dial_time(), connection.round_trip());
        let observed = Arc::new(Observed::new());
        let plumbing = Arc::new(Mutex::new(Plumbing::new(connection, observed.clone())));
        let mut builder = h2::client::Builder::new();
        builder
            .initial_window_size(tuning.stream_window)
            .initial_connection_window_size(tuning.connection_window)
            .max_frame_size(tuning.max_frame_size)
            .max_header_list_size(tuning.max_header_list)
            .max_send_buffer_size(tuning.send_buffer)
            // The second request waits until the server has said how many it takes.
            .initial_max_send_streams(1)
            .enable_push(false);
        let mut handshake = std::pin::pin!(builder.handshake::<_, Bytes>(Socket(plumbing.clone())));
        // Only writes the preface, which the stage takes in whole.
        let (sender, connection) = match handshake.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done?,
            Poll::Pending => return Err("the connection took no preface".into()),
        };
        Ok(Arc::new(Link {
            origin,
            observed,
            sender: Mutex::new(Some(sender)),
            seat: Mutex::new(Seat {
                core: Some(Box::new(Core::new(connection))),
                waiting: Vec::new(),
                left: Instant::now(),
                interest: Interest::READ,
            }),
            alarm,
            descriptor,
            plumbing,
            active: AtomicUsize::new(0),
            served: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            wants_ping: AtomicBool::new(true),
            pinged: Mutex::new(Instant::now()),
            unused_since: Mutex::new(Instant::now()),
            keeper,
            tuning,
            dial_time,
            round_trip,
        }))
    }

    /// Each with a request of its own in the queue of those that the peer does not allow yet.
    pub(crate) fn sender(&self) -> Option<SendRequest<Bytes>> {
        lock(&self.sender).clone()
    }

    /// The smallest round trip of a PING, which the server itself answers; before one came back that of the TCP handshake, which
    /// something on the way may have answered.
    pub(crate) fn round_trip(&self) -> Duration {
        self.observed.round_trip().unwrap_or(self.round_trip)
    }

    /// How an exchange on this connection travels, as far as the connection knows.
    pub(crate) fn wire(&self, reused: bool) -> Wire {
        let mut wire = Wire::new(http::Version::HTTP_2);
        wire.reused = reused;
        wire.dial_time = (!reused).then_some(self.dial_time);
        wire.round_trip = Some(self.round_trip());
        wire.peer = self.observed.peer_settings();
        wire
    }

    /// Measure the round trip with the next bytes that go out, unless that was done a moment ago.
    pub(crate) fn measure(&self) {
        let mut pinged = lock(&self.pinged);
        if pinged.elapsed() >= PING_EVERY {
            *pinged = Instant::now();
            self.wants_ping.store(true, Ordering::Release);
        }
    }

    /// What is to be done to know that an idle connection is still there.
    pub(crate) fn pulse(&self) -> Pulse {
        let (interval, patience) = (self.tuning.ping_interval, self.tuning.ping_patience);
        // While something else is under way, its own timeout counts: a PING's answer may stand behind megabytes.
        let Some(unused) = self.unused().filter(|_| !interval.is_zero() && self.is_usable()) else {
            return Pulse::Unasked;
        };
        let asked = lock(&self.pinged).elapsed();
        let waited = match self.wants_ping.load(Ordering::Acquire) {
            // One that can't even go out has no better prospects.
            true => Some(asked),
            false => self.observed.unanswered(),
        };
        if let Some(waited) = waited {
            let left = patience.saturating_sub(waited.min(unused));
            return if left.is_zero() { Pulse::Gone } else { Pulse::In(left) };
        }
        let left = interval.saturating_sub(self.observed.heard().elapsed().min(asked));
        if left.is_zero() { Pulse::Due } else { Pulse::In(left) }
    }

    /// Send a PING.
    pub(crate) fn ping(&self) {
        *lock(&self.pinged) = Instant::now();
        self.wants_ping.store(true, Ordering::Release);
        self.tend(Leave::Listening);
    }

    /// Begin no more exchanges here.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// Whether a new exchange can begin here, for all that is known.
    pub(crate) fn is_usable(&self) -> bool {
        !self.retired.load(Ordering::Acquire) && self.observed.goaway().is_none() && !lock(&self.plumbing).ended()
    }

    /// Whether the peer closed its side or broke the connection.
    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.plumbing).ended()
    }

    /// In the middle of which stream's frame the peer's bytes ended, if they did.
    pub(crate) fn cut_in(&self) -> Option<u32> {
        lock(&self.plumbing).open_frame().map(|frame| frame.stream)
    }

    /// Take a place for an exchange, if there is one: whether the connection served before.
    pub(crate) fn claim(self: &Arc<Self>) -> Option<(Slot, bool)> {
        let (_, allowed) = self.observed.allowed_streams();
        // A server that allows none may change its mind: one request waits for that, the others go elsewhere.
        let allowed = allowed.max(1);
        if !self.is_usable() {
            return None;
        }
        self.active
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |active| {
                (active < allowed).then_some(active + 1)
            })
            .ok()?;
        let reused = self.served.swap(true, Ordering::AcqRel);
        Some((Slot(self.clone()), reused))
    }

    /// Exchanges under way.
    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Acquire)
    }

    /// How long no exchange has been under way; `None` while one is.
    pub(crate) fn unused(&self) -> Option<Duration> {
        (self.active() == 0).then(|| lock(&self.unused_since).elapsed())
    }

    /// A request was begun here.
    pub(crate) fn count(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// What is to be told of it; nothing, where it neither serves nor will.
    pub(crate) fn held(&self) -> Option<Held> {
        let idle = self.unused();
        if idle.is_some() && !self.is_usable() {
            return None;
        }
        let mut held = Held::new(self.origin.to_string(), http::Version::HTTP_2);
        held.age = self.observed.age();
        held.requests = self.requests.load(Ordering::Relaxed);
        held.underway = self.active();
        held.idle = idle;
        Some(held)
    }

    /// Who looks after the connection.
    pub(crate) fn attendance(&self) -> Attendance {
        let seat = lock(&self.seat);
        match &seat.core {
            None => Attendance::Driven,
            Some(core) if core.over => Attendance::Over,
            Some(_) => Attendance::Idle {
                since: seat.left,
                interest: seat.interest,
            },
        }
    }

    pub(crate) fn descriptor(&self) -> Arc<OwnedFd> {
        self.descriptor.clone()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // With the last handle gone, h2 says GOAWAY and ends its connection.
        *lock(&self.sender) = None;
        if let Some(mut driver) = self.sit() {
            driver.poll(0);
        }
        lock(&self.plumbing).close();
        self.keeper.ring();
    }
}

/// Who looks after a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Attendance {
    /// Somebody drives it.
    Driven,
    /// Nobody does, and this is what it waits for.
    Idle { since: Instant, interest: Interest },
    /// There is nothing to look after any more.
    Over,
}

/// What is known of an idle connection by PINGs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pulse {
    /// Nobody wants to know.
    Unasked,
    /// Nothing is to be done before so long.
    In(Duration),
    /// It is time to ask.
    Due,
    /// It was asked, and there was no answer.
    Gone,
}

/// A place for one exchange.
pub(crate) struct Slot(pub(crate) Arc<Link>);

impl Drop for Slot {
    fn drop(&mut self) {
        *lock(&self.0.unused_since) = Instant::now();
        self.0.active.fetch_sub(1, Ordering::AcqRel);
    }
}

pub(crate) fn flags(interest: Interest) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, interest.read);
    flags.set(PollFlags::OUT, interest.write);
    flags
}

/// The error of an idle timeout.
pub(crate) fn idle_for(idle: Duration) -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!("no byte of the exchange moved for {idle:?}"),
    )
}
