//! Whose thread polls h2's connection, and how others wait meanwhile.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::Instant,
};

use bytes::Bytes;
use h2::{Ping, PingPong};
use rgit_dial::Interest;
use rustix::{event::PollFlags, fd::OwnedFd};

use crate::{
    alarm::Alarm,
    link::{Link, flags},
    observed::lock,
    socket::Socket,
};

/// Who drives.
pub(crate) struct Seat {
    /// Here while nobody does.
    pub(crate) core: Option<Box<Core>>,
    pub(crate) waiting: Vec<Arc<Sleeper>>,
    pub(crate) left: Instant,
    /// What the connection waits for, when nobody drives.
    pub(crate) interest: Interest,
}

/// What only the driver touches.
pub(crate) struct Core {
    connection: h2::client::Connection<Socket, Bytes>,
    ping: Option<PingPong>,
    pinging: bool,
    /// h2 has said its last word on this connection.
    pub(crate) over: bool,
}

/// A thread that waits for something on a connection.
pub(crate) struct Sleeper {
    thread: Thread,
    woken: AtomicBool,
    alarm: Arc<Alarm>,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        // It sleeps in either of two ways.
        self.alarm.ring();
        self.thread.unpark();
    }
}

/// What a driver leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Look once more whether the peer has something to say.
    Listening,
    /// Only send what h2 has to send: what is not read yet is read by the next call, if it wants more at all.
    Speaking,
}

impl Link {
    /// Do what h2 has to do, if nobody is at it: without waiting.
    pub(crate) fn tend(&self, leave: Leave) {
        if let Some(driver) = self.sit() {
            driver.leave(leave, true);
        }
    }

    /// Wait until `step` is ready, driving the connection meanwhile where nobody else does; `None` when the time that `deadline` tells
    /// passes before. `step` is called again whenever something may have changed.
    pub(crate) fn wait_for<T>(
        &self,
        leave: Leave,
        deadline: impl Fn() -> Instant,
        mut step: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        let sleeper = Arc::new(Sleeper {
            thread: std::thread::current(),
            woken: AtomicBool::new(false),
            alarm: self.alarm.clone(),
        });
        let waker = Waker::from(sleeper.clone());
        let cx = &mut Context::from_waker(&waker);
        let mut outcome = None;
        loop {
            if let Poll::Ready(done) = step(cx) {
                outcome = Some(done);
                break;
            }
            match self.sit_or_queue(&sleeper) {
                Some(mut driver) => {
                    let done = driver.drive(&sleeper, cx, &deadline, &mut step);
                    driver.leave(leave, done.is_some());
                    return done;
                }
                None => {
                    if !sleeper.woken.swap(false, Ordering::AcqRel) {
                        let left = deadline().saturating_duration_since(Instant::now());
                        if left.is_zero() {
                            break;
                        }
                        std::thread::park_timeout(left);
                    }
                }
            }
        }
        self.unqueue(&sleeper);
        // What the step did may want to be sent.
        if self.alarm.is_rung() || leave == Leave::Listening {
            self.tend(leave);
        }
        outcome
    }

    pub(crate) fn sit(&self) -> Option<Driver<'_>> {
        let core = lock(&self.seat).core.take()?;
        Some(Driver {
            link: self,
            core: Some(core),
            interest: Interest::READ,
        })
    }

    fn sit_or_queue(&self, sleeper: &Arc<Sleeper>) -> Option<Driver<'_>> {
        let mut seat = lock(&self.seat);
        let core = seat.core.take();
        let queued = seat.waiting.iter().position(|waiting| Arc::ptr_eq(waiting, sleeper));
        match (core, queued) {
            (Some(core), queued) => {
                if let Some(index) = queued {
                    seat.waiting.remove(index);
                }
                Some(Driver {
                    link: self,
                    core: Some(core),
                    interest: Interest::READ,
                })
            }
            (None, None) => {
                seat.waiting.push(sleeper.clone());
                None
            }
            (None, Some(_)) => None,
        }
    }

    /// Leave the queue. If the seat was offered meanwhile, the offer goes on to the next.
    fn unqueue(&self, sleeper: &Arc<Sleeper>) {
        let mut seat = lock(&self.seat);
        seat.waiting.retain(|waiting| !Arc::ptr_eq(waiting, sleeper));
        if seat.core.is_some() {
            seat.waiting.first().inspect(|next| next.wake_by_ref());
        }
    }
}

/// Whoever drives. The seat is given back whatever happens.
pub(crate) struct Driver<'l> {
    link: &'l Link,
    core: Option<Box<Core>>,
    interest: Interest,
}

impl Driver<'_> {
    fn drive<T>(
        &mut self,
        sleeper: &Arc<Sleeper>,
        cx: &mut Context<'_>,
        deadline: &impl Fn() -> Instant,
        step: &mut impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        loop {
            self.link.alarm.silence();
            sleeper.woken.store(false, Ordering::Release);
            let wait = self.poll(self.link.tuning.read_budget);
            if let Poll::Ready(done) = step(cx) {
                return Some(done);
            }
            let Some(interest) = wait else { continue };
            if sleeper.woken.load(Ordering::Acquire) || self.link.alarm.is_rung() {
                continue;
            }
            let left = deadline().saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let flags = flags(interest);
            let waited = match self.is_over() {
                // Nothing comes from the network any more, but what has come may still be asked for.
                true => self.link.alarm.wait(&[] as &[(&OwnedFd, PollFlags)], Some(left)),
                false => self.link.alarm.wait(&[(&*self.link.descriptor, flags)], Some(left)),
            };
            if let Err(err) = waited {
                tracing::debug!(origin = %self.link.origin, %err, "can't wait for the connection");
                return None;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.core.as_ref().is_none_or(|core| core.over)
    }

    /// Let h2 do what it can do now, taking in up to `budget` bytes. `None` when it could go on at once, else what it waits for.
    pub(crate) fn poll(&mut self, budget: usize) -> Option<Interest> {
        let Some(core) = &mut self.core else {
            return Some(Interest::READ);
        };
        if core.over {
            return Some(self.interest);
        }
        let waker = Waker::from(self.link.alarm.clone());
        let cx = &mut Context::from_waker(&waker);
        lock(&self.link.plumbing).begin(budget);
        core.ping(&self.link.wants_ping, cx);
        if let Poll::Ready(outcome) = Pin::new(&mut core.connection).poll(cx) {
            if let Err(err) = outcome {
                tracing::debug!(origin = %self.link.origin, %err, "the connection has ended");
            }
            core.over = true;
            self.link.retire();
            lock(&self.link.plumbing).close();
            return Some(self.interest);
        }
        core.ping(&self.link.wants_ping, cx);
        let (interest, more) = lock(&self.link.plumbing).finish();
        self.interest = interest;
        (!more).then_some(interest)
    }

    /// Stand up, once what has to be sent is sent as far as possible. `at_once` leaves out what can't be of interest any more.
    fn leave(mut self, leave: Leave, send: bool) {
        if send {
            let mut listen = leave == Leave::Listening;
            // What h2 does may make it want to do more; a few rounds are enough for all that is sensible.
            for _ in 0..4 {
                if !self.link.alarm.silence() && !listen {
                    break;
                }
                self.poll(if listen { self.link.tuning.read_budget } else { 0 });
                listen = false;
            }
        }
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        let Some(core) = self.core.take() else { return };
        let mut seat = lock(&self.link.seat);
        seat.core = Some(core);
        seat.left = Instant::now();
        seat.interest = self.interest;
        seat.waiting.first().inspect(|next| next.wake_by_ref());
    }
}

impl Core {
    pub(crate) fn new(mut connection: h2::client::Connection<Socket, Bytes>) -> Core {
        Core {
            ping: connection.ping_pong(),
            connection,
            pinging: false,
            over: false,
        }
    }

    fn ping(&mut self, wanted: &AtomicBool, cx: &mut Context<'_>) {
        let Some(ping) = &mut self.ping else { return };
        if self.pinging && ping.poll_pong(cx).is_ready() {
            self.pinging = false;
        }
        if !self.pinging && wanted.swap(false, Ordering::AcqRel) {
            self.pinging = ping.send_ping(Ping::opaque()).is_ok();
        }
    }
}
