//! Clients that were let in: how many there are.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{daemon::Shared, upstreams::lock};

/// Those who are there.
#[derive(Debug)]
pub(crate) struct Clients {
    counted: Mutex<Counted>,
    changed: Condvar,
}

#[derive(Debug)]
struct Counted {
    count: usize,
    since: Instant,
}

impl Default for Clients {
    fn default() -> Self {
        Clients {
            counted: Mutex::new(Counted {
                count: 0,
                since: Instant::now(),
            }),
            changed: Condvar::new(),
        }
    }
}

impl Clients {
    /// How many there are, and how long ago the last one left.
    pub(crate) fn count(&self) -> (usize, Duration) {
        let counted = lock(&self.counted);
        (counted.count, counted.since.elapsed())
    }

    pub(crate) fn wait_until_gone(&self) {
        let mut counted = lock(&self.counted);
        while counted.count > 0 {
            counted = self.changed.wait(counted).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// One of those counted.
pub(crate) struct Client(pub(crate) Arc<Shared>);

impl Client {
    pub(crate) fn enter(shared: &Arc<Shared>) -> Client {
        lock(&shared.clients.counted).count += 1;
        Client(shared.clone())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let clients = &self.0.clients;
        let mut counted = lock(&clients.counted);
        counted.count -= 1;
        counted.since = Instant::now();
        drop(counted);
        clients.changed.notify_all();
        self.0.ring();
    }
}
