//! What a link is like, and what is told about one: the plain data of a relay.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The least that moves at once: a segment's worth, however slow the link.
pub(super) const SEGMENT: usize = 1460;

/// What a link is like. The default is no delay, no limit to the rate, and a queue of 4 MiB.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Link {
    /// Time there and back, half of it each way.
    pub round_trip: Duration,
    /// Bytes a second, each way, over all connections together; `None` is as fast as the machine.
    pub rate: Option<u64>,
    /// Bytes under way or waiting, each way and connection. With less than `rate` times `round_trip` ÷ 2 the queue is
    /// what limits the speed.
    pub queue: usize,
}

impl Default for Link {
    fn default() -> Self {
        Link {
            round_trip: Duration::ZERO,
            rate: None,
            queue: 4 * 1024 * 1024,
        }
    }
}

impl Link {
    /// A link with this round trip and nothing else.
    pub fn round_trip(round_trip: Duration) -> Self {
        Link {
            round_trip,
            ..Link::default()
        }
    }

    /// The same link with this many bytes a second each way.
    pub fn rate(mut self, bytes: u64) -> Self {
        self.rate = Some(bytes.max(1));
        self
    }

    /// The same link with a queue of this many bytes.
    pub fn queue(mut self, bytes: usize) -> Self {
        self.queue = bytes.max(SEGMENT);
        self
    }
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// How a connection is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// Both sides get a reset; what they had not read yet may be lost to them.
    Reset,
    /// Both sides get an orderly end (FIN) after what was delivered; what they still send is discarded.
    Finish,
}

/// How many connections to break, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub(super) direction: Direction,
    pub(super) after: u64,
    pub(super) how: Break,
    /// `None` is every connection.
    pub(super) left: Option<u32>,
}

/// Bytes delivered, by direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Carried {
    /// From client to server.
    pub up: u64,
    /// From server to client.
    pub down: u64,
}

/// The counters of one connection.
#[derive(Debug, Default)]
pub(super) struct Counters {
    up: AtomicU64,
    down: AtomicU64,
}

impl Counters {
    pub(super) fn of(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    pub(super) fn carried(&self) -> Carried {
        Carried {
            up: self.up.load(Ordering::SeqCst),
            down: self.down.load(Ordering::SeqCst),
        }
    }
}
