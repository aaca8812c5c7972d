//! What was seen on the wire of one connection.
//!
//! h2 tells neither what the peer's SETTINGS are, nor how large the connection's window is, nor what of a body is on the wire. All of
//! it passes by in plain sight under h2's reader and writer, so it is read off there: exactly, and without a stream being open.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    task::Waker,
    time::{Duration, Instant},
};

use rgit_transport::PeerSettings;

use crate::frames::{self, Head, Seen};

/// Where RFC 9113, section 6.9.2 lets every window begin.
const FIRST_WINDOW: u32 = 65_535;
const FIRST_FRAME_SIZE: u32 = 16_384;
/// Half of the smallest window to whose halves frames are cut.
const SMALLEST_HALF: u64 = 2048;
/// Windows up to here are tight. Above, what a record takes past a half is little of it.
const TIGHT: i64 = 256 * 1024;

/// A parameter of SETTINGS (RFC 9113, section 6.5.2).
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;

pub(crate) struct Observed {
    begun: Instant,
    peer: Mutex<Peer>,
    meters: Mutex<HashMap<u32, Arc<Meter>>>,
    /// When anything was last heard, in nanoseconds since the beginning.
    heard: AtomicU64,
}

/// What the peer said of the connection.
#[derive(Debug)]
struct Peer {
    settled: bool,
    initial_window: u32,
    max_frame_size: u32,
    max_streams: Option<u32>,
    /// What of the connection's window is left, and the most that ever was.
    window: i64,
    largest_window: i64,
    goaway: Option<Goaway>,
    pinged: Option<Instant>,
    round_trip: Option<Duration>,
    waiting: Vec<Waker>,
}

/// A GOAWAY frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Goaway {
    /// The last stream that the peer may have begun to process.
    pub(crate) last_stream: u32,
    pub(crate) code: u32,
}

/// What moved on one stream.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// When a frame of it last moved, in nanoseconds since the connection's beginning.
    moved: AtomicU64,
    sent: AtomicU64,
    /// Bytes of its window that the peer gave back.
    released: AtomicU64,
    /// Whether its HEADERS began to go out, and whether its END_STREAM is out.
    begun: AtomicBool,
    finished: AtomicBool,
    /// HEADERS that came.
    heads: AtomicU32,
    /// Whether the answer's END_STREAM came.
    answered: AtomicBool,
    waiting: Mutex<Option<Waker>>,
}

impl Meter {
    /// Body bytes on the wire.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Whether anything of the request is on the wire.
    pub(crate) fn begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Whether all of the request is on the wire; if not, `waker` is called when it is.
    pub(crate) fn finished(&self, waker: &Waker) -> bool {
        if self.finished.load(Ordering::Acquire) {
            return true;
        }
        *lock(&self.waiting) = Some(waker.clone());
        self.finished.load(Ordering::Acquire)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Whether the answer came to its end.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }

    /// HEADERS frames that began to come, informational ones included.
    pub(crate) fn heads(&self) -> u32 {
        self.heads.load(Ordering::Acquire)
    }
}

impl Observed {
    pub(crate) fn new() -> Observed {
        Observed {
            begun: Instant::now(),
            peer: Mutex::new(Peer {
                settled: false,
                initial_window: FIRST_WINDOW,
                max_frame_size: FIRST_FRAME_SIZE,
                max_streams: None,
                window: FIRST_WINDOW.into(),
                largest_window: FIRST_WINDOW.into(),
                goaway: None,
                pinged: None,
                round_trip: None,
                waiting: Vec::new(),
            }),
            meters: Mutex::default(),
            heard: AtomicU64::new(0),
        }
    }

    /// Whether the peer's SETTINGS came; if not, `waker` is called when they do.
    pub(crate) fn settled(&self, waker: &Waker) -> bool {
        let mut peer = lock(&self.peer);
        if !peer.settled {
            peer.waiting.push(waker.clone());
        }
        peer.settled
    }

    /// Whether SETTINGS came and a PING was answered; if not, `waker` is called when either happens.
    pub(crate) fn measured(&self, waker: &Waker) -> bool {
        let mut peer = lock(&self.peer);
        let measured = peer.settled && peer.round_trip.is_some();
        if !measured {
            peer.waiting.push(waker.clone());
        }
        measured
    }

    /// How many streams the peer allows at a time: one, as long as it has not said.
    pub(crate) fn allowed_streams(&self) -> (bool, usize) {
        let peer = lock(&self.peer);
        let allowed = match peer.settled {
            true => peer.max_streams.map_or(usize::MAX, |streams| streams as usize),
            false => 1,
        };
        (peer.settled, allowed)
    }

    /// `None` until the peer has said.
    pub(crate) fn peer_settings(&self) -> Option<PeerSettings> {
        let peer = lock(&self.peer);
        let window = u32::try_from(peer.largest_window).unwrap_or(u32::MAX);
        peer.settled.then(|| {
            PeerSettings::new(peer.initial_window, window, peer.max_frame_size).max_concurrent_streams(peer.max_streams)
        })
    }

    /// The smallest round trip of a PING.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        lock(&self.peer).round_trip
    }

    /// How long a PING that went out has been without an answer.
    pub(crate) fn unanswered(&self) -> Option<Duration> {
        lock(&self.peer).pinged.map(|pinged| pinged.elapsed())
    }

    /// How much the connection's window has left.
    pub(crate) fn connection_window_left(&self) -> i64 {
        lock(&self.peer).window
    }

    /// How much of the body that `meter` measures, of which `handed` bytes are under way, the next frame may hold.
    ///
    /// Servers give a window back when half of it is used up (nghttp2 and what stands on it, h2 and others), and look whether it is as
    /// records of TLS arrive. What goes past that point waits for the next half, and with the last one past it for another round trip:
    /// an upload that began with an odd piece would lose a third of its rate for ever. So frames end where the next halves will be full,
    /// counted from what was given back, and so do records while the window is [`tight`](Self::is_tight).
    pub(crate) fn until_update(&self, meter: &Meter, handed: u64) -> usize {
        let peer = lock(&self.peer);
        let (window, released) = match i64::from(peer.initial_window) <= peer.largest_window {
            true => (i64::from(peer.initial_window), meter.released.load(Ordering::Acquire)),
            false => (peer.largest_window, 0),
        };
        let half = match u64::try_from(window / 2) {
            Ok(half) if half >= SMALLEST_HALF => half,
            _ => return usize::MAX,
        };
        // More was given than was used: the window has grown.
        let Some(used) = handed.checked_sub(released) else {
            return usize::MAX;
        };
        usize::try_from(half - used % half).unwrap_or(usize::MAX)
    }

    /// Whether the windows are so small that it matters where a server gives them back.
    pub(crate) fn is_tight(&self) -> bool {
        let peer = lock(&self.peer);
        i64::from(peer.initial_window).min(peer.largest_window) <= TIGHT
    }

    pub(crate) fn goaway(&self) -> Option<Goaway> {
        lock(&self.peer).goaway
    }

    /// The meter of `stream`, whoever asks for it first: the writer may see its HEADERS before those who sent them come to ask.
    pub(crate) fn meter(&self, stream: u32) -> Arc<Meter> {
        lock(&self.meters).entry(stream).or_default().clone()
    }

    pub(crate) fn forget(&self, stream: u32) {
        lock(&self.meters).remove(&stream);
    }

    /// When something of `meter`'s stream last moved.
    pub(crate) fn moved(&self, meter: &Meter) -> Instant {
        self.begun + Duration::from_nanos(meter.moved.load(Ordering::Acquire))
    }

    /// How long the connection has been there.
    pub(crate) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// When anything last came from the peer.
    pub(crate) fn heard(&self) -> Instant {
        self.begun + Duration::from_nanos(self.heard.load(Ordering::Acquire))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn known(&self, stream: u32) -> Option<Arc<Meter>> {
        lock(&self.meters).get(&stream).cloned()
    }

    /// Something goes out.
    pub(crate) fn outgoing(&self, seen: Seen) {
        match seen {
            Seen::Begin(head) if head.kind == frames::HEADERS => {
                let meter = self.meter(head.stream);
                meter.begun.store(true, Ordering::Release);
                meter.moved.store(self.now(), Ordering::Release);
            }
            Seen::Payload(head, count) if head.kind == frames::DATA => {
                lock(&self.peer).window -= i64::try_from(count).unwrap_or(i64::MAX);
                if let Some(meter) = self.known(head.stream) {
                    // We never pad: the payload is the body.
                    meter.sent.fetch_add(count as u64, Ordering::AcqRel);
                    meter.moved.store(self.now(), Ordering::Release);
                }
            }
            Seen::End(head, _) => self.sent(head),
            _ => {}
        }
    }

    fn sent(&self, head: Head) {
        match head.kind {
            frames::DATA | frames::HEADERS if head.flags & frames::FIRST_FLAG != 0 => {
                if let Some(meter) = self.known(head.stream) {
                    meter.finished.store(true, Ordering::Release);
                    if let Some(waker) = lock(&meter.waiting).take() {
                        waker.wake();
                    }
                }
            }
            // Of a stream that was given up before it was opened: nobody will ask for it.
            frames::RST_STREAM => {
                let mut meters = lock(&self.meters);
                if meters
                    .get(&head.stream)
                    .is_some_and(|meter| Arc::strong_count(meter) == 1)
                {
                    meters.remove(&head.stream);
                }
            }
            frames::PING if head.flags & frames::FIRST_FLAG == 0 => lock(&self.peer).pinged = Some(Instant::now()),
            _ => {}
        }
    }

    /// Something came.
    pub(crate) fn incoming(&self, seen: Seen) {
        match seen {
            Seen::Begin(head) => {
                let now = self.now();
                self.heard.store(now, Ordering::Release);
                if head.stream == 0 {
                    return;
                }
                if let Some(meter) = self.known(head.stream) {
                    if head.kind == frames::HEADERS {
                        meter.heads.fetch_add(1, Ordering::AcqRel);
                    }
                    meter.moved.store(now, Ordering::Release);
                }
            }
            Seen::Payload(head, _) if matches!(head.kind, frames::DATA | frames::HEADERS | frames::CONTINUATION) => {
                let now = self.now();
                self.heard.store(now, Ordering::Release);
                if let Some(meter) = self.known(head.stream) {
                    meter.moved.store(now, Ordering::Release);
                }
            }
            Seen::Payload(..) => {}
            Seen::Setting(name, value) => {
                let mut peer = lock(&self.peer);
                match name {
                    MAX_CONCURRENT_STREAMS => peer.max_streams = Some(value),
                    INITIAL_WINDOW_SIZE => peer.initial_window = value,
                    MAX_FRAME_SIZE => peer.max_frame_size = value,
                    _ => {}
                }
            }
            Seen::End(head, payload) if head.stream != 0 => {
                if head.kind == frames::WINDOW_UPDATE
                    && let Some(meter) = self.known(head.stream)
                {
                    meter.released.fetch_add(increment(payload).into(), Ordering::AcqRel);
                }
                let ends = matches!(head.kind, frames::DATA | frames::HEADERS) && head.flags & frames::FIRST_FLAG != 0;
                if ends && let Some(meter) = self.known(head.stream) {
                    meter.answered.store(true, Ordering::Release);
                }
            }
            Seen::End(head, payload) => self.received(head, payload),
        }
    }

    fn received(&self, head: Head, payload: [u8; 8]) {
        let [a, b, c, d, e, f, g, h] = payload;
        let (first, second) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        let acknowledges = head.flags & frames::FIRST_FLAG != 0;
        let mut peer = lock(&self.peer);
        let news = match head.kind {
            frames::SETTINGS if !acknowledges => {
                peer.settled = true;
                true
            }
            frames::WINDOW_UPDATE if head.stream == 0 => {
                peer.window = peer.window.saturating_add(increment(payload).into());
                peer.largest_window = peer.largest_window.max(peer.window);
                false
            }
            frames::GOAWAY => {
                peer.goaway = Some(Goaway {
                    last_stream: first & 0x7fff_ffff,
                    code: second,
                });
                false
            }
            frames::PING if acknowledges => match peer.pinged.take() {
                Some(pinged) => {
                    let took = pinged.elapsed();
                    peer.round_trip = Some(peer.round_trip.map_or(took, |least| least.min(took)));
                    true
                }
                None => false,
            },
            _ => false,
        };
        if news {
            let waiting = std::mem::take(&mut peer.waiting);
            drop(peer);
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

/// Of a WINDOW_UPDATE, whose highest bit is reserved.
fn increment([a, b, c, d, ..]: [u8; 8]) -> u32 {
    u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
