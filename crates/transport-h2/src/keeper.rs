//! Looks after connections that nobody drives.
//!
//! A program may compute for minutes between two calls. Meanwhile a server sends PINGs that want an answer, SETTINGS that want an
//! acknowledgement, and GOAWAYs that are better known before the next request. One thread for all connections of a transport waits on
//! those that have been left alone for a while; it never drives one that somebody else drives, so it costs a busy connection nothing but
//! a look at a mutex every [`GRACE`].
//!
//! Where [`Tuning::ping_interval`](crate::Tuning::ping_interval) says so, it also asks idle connections whether they are still there. What
//! stands on the way (NAT, a load balancer) may have forgotten them without a word to either end; a request sent then gets no answer
//! and no error.

use std::{
    io,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::{event::PollFlags, fd::OwnedFd};

use crate::{
    alarm::Alarm,
    driver::Leave,
    link::{Attendance, Link, Pulse, flags},
    observed::lock,
    pool::Links,
};

/// How long a connection is left alone before it is looked after. Calls that follow one another faster never meet the keeper.
const GRACE: Duration = Duration::from_millis(250);

pub(crate) struct Keeper {
    alarm: Arc<Alarm>,
    kept: Mutex<Vec<Weak<Link>>>,
    running: AtomicBool,
    links: Weak<Links>,
    idle_age: Duration,
}

impl Keeper {
    pub(crate) fn new(links: &Arc<Links>, idle_age: Duration) -> io::Result<Arc<Keeper>> {
        Ok(Arc::new(Keeper {
            alarm: Arc::new(Alarm::new()?),
            kept: Mutex::default(),
            running: AtomicBool::new(false),
            links: Arc::downgrade(links),
            idle_age,
        }))
    }

    pub(crate) fn alarm(&self) -> Arc<Alarm> {
        self.alarm.clone()
    }

    /// Look after `link` from now on.
    pub(crate) fn keep(self: &Arc<Self>, link: &Arc<Link>) {
        lock(&self.kept).push(Arc::downgrade(link));
        if self.running.swap(true, Ordering::AcqRel) {
            return self.alarm.ring();
        }
        let keeper = self.clone();
        let spawned = std::thread::Builder::new()
            .name("rgit-h2".to_owned())
            .spawn(move || keeper.run());
        if let Err(err) = spawned {
            // Calls drive their connections themselves; only between calls nobody answers.
            tracing::warn!(%err, "no thread to look after idle HTTP/2 connections");
        }
    }

    /// All connections that are there.
    pub(crate) fn kept(&self) -> Vec<Arc<Link>> {
        lock(&self.kept).iter().filter_map(Weak::upgrade).collect()
    }

    fn run(&self) {
        while self.round() {}
    }

    /// Wait once; whether there is anything left to look after.
    fn round(&self) -> bool {
        self.alarm.silence();
        let mut watched: Vec<(Arc<OwnedFd>, PollFlags, Weak<Link>)> = Vec::new();
        let mut doubted = Vec::new();
        let mut next: Option<Duration> = None;
        let mut sooner = |duration: Duration| next = Some(next.map_or(duration, |next| next.min(duration)));
        {
            let mut kept = lock(&self.kept);
            kept.retain(|link| link.strong_count() > 0);
            if kept.is_empty() && self.links.strong_count() == 0 {
                return false;
            }
            for weak in &*kept {
                let Some(link) = weak.upgrade() else { continue };
                match link.attendance() {
                    Attendance::Over => {}
                    Attendance::Driven => sooner(GRACE),
                    Attendance::Idle { since, interest } => {
                        let alone = since.elapsed();
                        if alone < GRACE {
                            sooner(GRACE - alone);
                        } else {
                            watched.push((link.descriptor(), flags(interest), weak.clone()));
                        }
                        let unused = link.unused().unwrap_or_default();
                        // What is older than that is dropped below.
                        if unused < self.idle_age {
                            sooner(self.idle_age - unused);
                        }
                        match link.pulse() {
                            Pulse::Unasked => {}
                            Pulse::In(left) => sooner(left),
                            Pulse::Due | Pulse::Gone => doubted.push(link.clone()),
                        }
                    }
                }
                // Should this have been the last handle, it is dropped under our lock: nothing there asks for it.
            }
        }
        for link in &doubted {
            take_pulse(link);
        }
        let asked = !doubted.is_empty();
        drop(doubted);
        self.drop_old();
        if asked {
            // What they say next has times of its own.
            return true;
        }
        let fds: Vec<_> = watched.iter().map(|(fd, flags, _)| (&**fd, *flags)).collect();
        match self.alarm.wait(&fds, next) {
            Ok(ready) => {
                for ((_, _, link), ready) in watched.iter().zip(ready) {
                    if !ready.is_empty()
                        && let Some(link) = link.upgrade()
                    {
                        link.tend(Leave::Listening);
                    }
                }
            }
            Err(err) => {
                tracing::warn!(%err, "can't look after idle HTTP/2 connections");
                return false;
            }
        }
        true
    }

    fn drop_old(&self) {
        if let Some(links) = self.links.upgrade() {
            links.drop_older_than(self.idle_age);
        }
    }
}

/// Ask whether `link` is still there, or give it up.
fn take_pulse(link: &Link) {
    // The answer may lie in the socket: nobody looked there since it was asked for.
    link.tend(Leave::Listening);
    match link.pulse() {
        Pulse::Due => link.ping(),
        Pulse::Gone => {
            tracing::debug!(origin = %link.origin, "an idle connection's PING was not answered; dropping it");
            link.retire();
        }
        Pulse::Unasked | Pulse::In(_) => {}
    }
}
