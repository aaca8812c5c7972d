//! What workers have made and the reader has not taken yet: in order, and within a number of bytes.
//!
//! Batches are claimed in order and finished in any. A worker that is ahead waits when the window is full; the one at the head, whose
//! bytes the reader wants next, may always put in one more chunk when there is none, so that there is no deadlock.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use super::plan::BaseOf;
use crate::{Error, error::check};

/// How often waiting threads look at the interrupt flag.
const POLL: Duration = Duration::from_millis(50);

/// An entry that is a delta: only the reader knows how far away its base is, so it writes the header.
#[derive(Clone, Copy)]
pub(crate) struct Delta {
    /// Where in the chunk the entry begins.
    pub(crate) at: usize,
    /// Of the inflated delta.
    pub(crate) size: u64,
    pub(crate) base: BaseOf,
}

/// Entries, or a part of one.
#[derive(Default)]
pub(crate) struct Chunk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) deltas: Vec<Delta>,
    /// Where in `bytes` entries end.
    pub(crate) ends: Vec<usize>,
}

#[derive(Default)]
struct Queue {
    chunks: VecDeque<Chunk>,
    finished: bool,
}

#[derive(Default)]
struct State {
    /// The batch at the front of `queues`.
    head: usize,
    queues: VecDeque<Queue>,
    /// The next batch to claim.
    next: usize,
    /// Bytes in all chunks.
    waiting: usize,
    /// Bytes of whole objects in workers' hands.
    held: usize,
    stopped: bool,
    failure: Option<Error>,
}

pub(crate) struct Window {
    state: Mutex<State>,
    changed: Condvar,
    batches: usize,
    limit: usize,
}

/// What the reader gets.
pub(crate) enum Taken {
    Chunk(Chunk),
    NotYet,
    /// All batches were read.
    End,
}

/// Nobody wants more bytes, or there was a failure elsewhere.
pub(crate) struct Stopped;

impl Window {
    pub(crate) fn new(batches: usize, limit: usize) -> Self {
        Window {
            state: Mutex::default(),
            changed: Condvar::new(),
            batches,
            limit,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let result = self.changed.wait_timeout(state, POLL);
        result.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The next batch to work on.
    pub(crate) fn claim(&self) -> Option<usize> {
        let mut state = self.lock();
        if state.stopped || state.next == self.batches {
            return None;
        }
        state.next += 1;
        state.queues.push_back(Queue::default());
        Some(state.next - 1)
    }

    /// Hand over a chunk of `batch`, waiting for room.
    pub(crate) fn put(&self, batch: usize, chunk: Chunk, interrupt: &AtomicBool) -> Result<(), Stopped> {
        let bytes = chunk.bytes.capacity();
        let mut state = self.lock();
        loop {
            if state.stopped || check(interrupt).is_err() {
                return Err(Stopped);
            }
            let at = batch - state.head;
            let limit = self.limit;
            let is_full = state.waiting + bytes > limit;
            if !is_full || (at == 0 && state.queues[0].chunks.is_empty()) {
                state.waiting += bytes;
                state.queues[at].chunks.push_back(chunk);
                if at == 0 {
                    self.changed.notify_all();
                }
                return Ok(());
            }
            state = self.wait(state);
        }
    }

    pub(crate) fn finish(&self, batch: usize) {
        let mut state = self.lock();
        let at = batch - state.head;
        state.queues[at].finished = true;
        self.changed.notify_all();
    }

    /// Wait until `bytes` more may be held in memory for `batch`.
    pub(crate) fn hold(&self, batch: usize, bytes: usize, interrupt: &AtomicBool) -> Result<(), Stopped> {
        let mut state = self.lock();
        loop {
            if state.stopped || check(interrupt).is_err() {
                return Err(Stopped);
            }
            if state.held == 0 || state.held + bytes <= self.limit || batch == state.head {
                state.held += bytes;
                return Ok(());
            }
            state = self.wait(state);
        }
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.lock().held -= bytes;
        self.changed.notify_all();
    }

    /// The first failure counts; it stops everyone.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.lock();
        state.failure.get_or_insert(error);
        state.stopped = true;
        self.changed.notify_all();
    }

    /// No more bytes are wanted.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// The next chunk in order, waiting for it if `wait` is set.
    pub(crate) fn take(&self, wait: bool, interrupt: &AtomicBool) -> Result<Taken, Error> {
        let mut state = self.lock();
        loop {
            if let Some(error) = state.failure.take() {
                return Err(error);
            }
            check(interrupt)?;
            if state.head == self.batches {
                return Ok(Taken::End);
            }
            while let Some(queue) = state.queues.front_mut() {
                if let Some(chunk) = queue.chunks.pop_front() {
                    state.waiting -= chunk.bytes.capacity();
                    self.changed.notify_all();
                    return Ok(Taken::Chunk(chunk));
                }
                if !queue.finished {
                    break;
                }
                state.queues.pop_front();
                state.head += 1;
                self.changed.notify_all();
            }
            if state.head == self.batches {
                return Ok(Taken::End);
            }
            if !wait {
                return Ok(Taken::NotYet);
            }
            if state.stopped {
                return Err(Error::Ended);
            }
            state = self.wait(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(byte: u8) -> Chunk {
        Chunk {
            bytes: vec![byte; 10],
            deltas: Vec::new(),
            ends: vec![10],
        }
    }

    fn taken(window: &Window) -> Option<u8> {
        match window.take(false, &AtomicBool::new(false)) {
            Ok(Taken::Chunk(chunk)) => Some(chunk.bytes[0]),
            _ => None,
        }
    }

    #[test]
    fn batches_come_out_in_order_and_only_the_head_may_overfill() {
        let window = Window::new(2, 15);
        let go = AtomicBool::new(false);
        assert_eq!(
            (window.claim(), window.claim(), window.claim()),
            (Some(0), Some(1), None)
        );
        assert!(window.put(1, chunk(1), &go).is_ok());
        window.finish(1);
        assert_eq!(taken(&window), None, "the first batch has nothing yet");
        assert!(window.put(0, chunk(0), &go).is_ok(), "over the limit, but wanted next");
        let interrupted = AtomicBool::new(true);
        assert!(window.put(0, chunk(0), &interrupted).is_err());
        assert_eq!(taken(&window), Some(0));
        window.finish(0);
        assert_eq!(taken(&window), Some(1));
        assert!(matches!(window.take(true, &go), Ok(Taken::End)));
    }

    #[test]
    fn a_full_window_holds_workers_back_until_the_reader_takes() {
        let window = Window::new(2, 15);
        let go = AtomicBool::new(false);
        window.claim();
        window.claim();
        std::thread::scope(|scope| {
            let ahead = scope.spawn(|| {
                for byte in [10, 11, 12] {
                    window.put(1, chunk(byte), &go).map_err(|_| "stopped")?;
                }
                window.finish(1);
                Ok::<_, &str>(())
            });
            assert!(window.put(0, chunk(0), &go).is_ok());
            window.finish(0);
            let mut seen = Vec::new();
            while let Ok(Taken::Chunk(chunk)) = window.take(true, &go) {
                seen.push(chunk.bytes[0]);
            }
            assert_eq!(seen, [0, 10, 11, 12]);
            assert_eq!(ahead.join().unwrap(), Ok(()));
        });
    }

    #[test]
    fn large_objects_are_held_one_at_a_time_except_at_the_head() {
        let window = Window::new(3, 100);
        let go = AtomicBool::new(false);
        window.claim();
        window.claim();
        assert!(window.hold(1, 500, &go).is_ok(), "nothing else is held");
        assert!(window.hold(0, 500, &go).is_ok(), "the reader waits for it");
        assert!(window.hold(1, 1, &AtomicBool::new(true)).is_err());
        window.release(500);
        window.release(500);
        window.fail(Error::Interrupted);
        assert!(window.hold(1, 1, &go).is_err());
        assert!(matches!(window.take(true, &go), Err(Error::Interrupted)));
        assert!(matches!(window.take(true, &go), Err(Error::Ended)));
        assert_eq!(window.claim(), None);
    }
}
