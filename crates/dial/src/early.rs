//! TLS 1.3 early data (RFC 8446, section 2.3): what became of it, and whom not to send it to.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::Origin;

/// How long an origin gets no early data after a handshake with it failed. That may have been the server's doing, or something's on the
/// way that can't cope with early data, or just the network's.
const PAUSE: Duration = Duration::from_secs(600);

/// What became of the data that [`dial_early`](crate::Dialer::dial_early) was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Early {
    /// It was not sent.
    #[default]
    Unused,
    /// The peer took it. It is not to be sent again.
    Accepted,
    /// It was sent, and the peer passed over it unread.
    Rejected,
    /// The handshake that it went with failed, so that this connection was made without. The peer may have read it or not.
    Lost,
}

/// Origins with which a handshake failed.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<Origin, Instant>>);

impl Failures {
    pub(crate) fn add(&self, origin: &Origin) {
        let mut failures = self.lock();
        failures.retain(|_, since| since.elapsed() < PAUSE);
        failures.insert(origin.clone(), Instant::now());
    }

    pub(crate) fn has(&self, origin: &Origin) -> bool {
        self.lock().get(origin).is_some_and(|since| since.elapsed() < PAUSE)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Origin, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
