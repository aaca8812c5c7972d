//! One client's connection, the one made to the server for it, and what is under way between them.
//!
//! Owns breaking them: with a reset, or in good order.

use std::{
    collections::VecDeque,
    io::{self, Write},
    net::{Shutdown, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::{Duration, Instant},
};

use super::link::{Break, Counters, Direction};
use crate::requests::lock;

/// Writes all of it, unless the connection is broken meanwhile.
pub(super) fn deliver(sink: &mut &TcpStream, mut part: &[u8], pair: &Pair) -> io::Result<()> {
    while !part.is_empty() {
        match sink.write(part) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => part = &part[written..],
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if pair.broken().is_none() => {}
                _ => return Err(error),
            },
        }
    }
    Ok(())
}

/// One client's connection and the one made to the server for it.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) client: TcpStream,
    pub(super) server: TcpStream,
    pub(super) carried: Arc<Counters>,
    pub(super) failed: Mutex<Option<Break>>,
    pub(super) up: Line,
    pub(super) down: Line,
    pub(super) running: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) queue: Mutex<Queue>,
    pub(super) changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) parts: VecDeque<(Instant, Vec<u8>)>,
    pub(super) bytes: usize,
}

impl Pair {
    /// Where bytes of this direction come from, and where they go.
    pub(super) fn ends(&self, direction: Direction) -> (&TcpStream, &TcpStream) {
        match direction {
            Direction::Up => (&self.client, &self.server),
            Direction::Down => (&self.server, &self.client),
        }
    }

    pub(super) fn line(&self, direction: Direction) -> &Line {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    pub(super) fn broken(&self) -> Option<Break> {
        *lock(&self.failed)
    }

    /// Breaks both connections and wakes all four threads, the last of which closes the sockets. A reset may follow an
    /// orderly end, not the other way round.
    pub(super) fn fail(&self, how: Break) {
        let mut failed = lock(&self.failed);
        if *failed == Some(Break::Reset) || *failed == Some(how) {
            return;
        }
        *failed = Some(how);
        drop(failed);
        for socket in [&self.client, &self.server] {
            if how == Break::Reset {
                // Closing with no time to linger sends RST. `shutdown` of the reading side sends nothing, it only wakes.
                let _ = rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO));
                let _ = socket.shutdown(Shutdown::Read);
            } else {
                let _ = socket.shutdown(Shutdown::Write);
            }
        }
        for line in [&self.up, &self.down] {
            // The lock makes sure that a thread which has just looked is waiting by now.
            drop(lock(&line.queue));
            line.changed.notify_all();
        }
    }
}

pub(super) fn wait<'a>(
    changed: &Condvar,
    queue: MutexGuard<'a, Queue>,
    left: Option<Duration>,
) -> MutexGuard<'a, Queue> {
    match left {
        Some(left) => {
            changed
                .wait_timeout(queue, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0
        }
        None => changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
    }
}
