//! Idle connections, by origin, and what is to be told of all.

use std::{
    collections::HashMap,
    fmt,
    io::Read,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rgit_dial::{Connection, Interest, Origin};
use rgit_transport::Held;

use crate::{
    PoolSettings,
    chunked::Chunked,
    exchange::is_retry,
    pooled::{Pooled, Records},
};

/// How long to wait for the last chunk of an answer whose content has come. It is on its way, or never will be.
const LAST_CHUNK: Duration = Duration::from_secs(1);

/// Idle connections only: one in use belongs to its exchange, and then to its answer, which brings it back.
///
/// Last in, first out: what served last is the least likely to have been closed by the server, and the rest can grow old. There is no
/// thread that clears up; the old are dropped whenever the pool is used.
pub(crate) struct Pool {
    settings: PoolSettings,
    idle: Mutex<HashMap<Origin, Vec<Idle>>>,
    /// Of connections in use, too.
    records: Records,
}

struct Idle {
    connection: Pooled,
    since: Instant,
    /// What is left of the answer before: nothing, or the last chunk.
    rest: Option<Chunked>,
}

impl Idle {
    /// Take what has come of the answer before, after waiting for it until `patience` is over. Whether the connection can still be used.
    fn settle(&mut self, patience: Duration) -> bool {
        let begun = Instant::now();
        while let Some(rest) = &mut self.rest {
            let mut buffer = [0; 512];
            match self.connection.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) if rest.follow(&buffer[..count]) != Some(count) => return false,
                Ok(_) if rest.is_over() => self.rest = None,
                Ok(_) => {}
                Err(err) if is_retry(&err) => {
                    let left = patience.saturating_sub(begun.elapsed());
                    if left.is_zero() {
                        return true;
                    }
                    if self.connection.wait(Interest::READ, left).is_err() {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
        !self.connection.is_stale()
    }
}

impl Pool {
    pub(crate) fn new(settings: PoolSettings) -> Pool {
        Pool {
            settings,
            idle: Mutex::default(),
            records: Records::default(),
        }
    }

    /// Take up a new connection to `origin`, which is in use.
    pub(crate) fn enter(&self, origin: &Origin, connection: Connection) -> Pooled {
        self.records.enter(origin, connection)
    }

    /// All connections, in use or idle.
    pub(crate) fn held(&self) -> Vec<Held> {
        self.records.tell()
    }

    /// The youngest connection to `origin` that can still be used, and what is left of the answer before: nothing, unless the request
    /// `may_precede` that, being one that can be sent again (RFC 9112, section 9.3.2).
    pub(crate) fn take(&self, origin: &Origin, may_precede: bool) -> Option<(Pooled, Option<Chunked>)> {
        let patience = if may_precede { Duration::ZERO } else { LAST_CHUNK };
        loop {
            // One at a time: looking at the socket happens outside the lock.
            let mut idle = {
                let mut all = self.lock();
                let connections = all.get_mut(origin)?;
                let idle = connections.pop();
                if connections.is_empty() {
                    all.remove(origin);
                }
                idle?
            };
            let is_young = idle.since.elapsed() < self.settings.idle_age;
            if is_young && idle.settle(patience) && (may_precede || idle.rest.is_none()) {
                return Some((idle.connection, idle.rest));
            }
            idle.connection.shutdown();
        }
    }

    /// How many to `origin` can still be used; the others are dropped.
    pub(crate) fn refresh(&self, origin: &Origin) -> usize {
        let age = self.settings.idle_age;
        let mut all = self.lock();
        let Some(connections) = all.get_mut(origin) else {
            return 0;
        };
        let is_old = |idle: &mut Idle| idle.since.elapsed() >= age || !idle.settle(Duration::ZERO);
        let leaving: Vec<_> = connections.extract_if(.., is_old).collect();
        let left = connections.len();
        if left == 0 {
            all.remove(origin);
        }
        drop(all);
        for mut idle in leaving {
            idle.connection.shutdown();
        }
        left
    }

    /// How many to `origin` are young enough.
    pub(crate) fn idle(&self, origin: &Origin) -> usize {
        let all = self.lock();
        let is_young = |idle: &&Idle| idle.since.elapsed() < self.settings.idle_age;
        all.get(origin)
            .map_or(0, |connections| connections.iter().filter(is_young).count())
    }

    /// Keep `connection` for later. It has no exchange under way, but the `rest` of an answer may still come.
    pub(crate) fn put(&self, origin: Origin, mut connection: Pooled, rest: Option<Chunked>) {
        connection.rests();
        let age = self.settings.idle_age;
        let mut leaving = Vec::new();
        {
            let mut all = self.lock();
            for connections in all.values_mut() {
                leaving.extend(connections.extract_if(.., |idle| idle.since.elapsed() >= age));
            }
            all.retain(|_, connections| !connections.is_empty());
            let connections = all.entry(origin).or_default();
            connections.push(Idle {
                connection,
                since: Instant::now(),
                rest,
            });
            let excess = connections.len().saturating_sub(self.settings.idle_per_origin);
            leaving.extend(connections.drain(..excess));
        }
        for mut idle in leaving {
            idle.connection.shutdown();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Origin, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for mut idle in self.lock().drain().flat_map(|(_, connections)| connections) {
            idle.connection.shutdown();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(
                self.lock()
                    .iter()
                    .map(|(origin, idle)| (origin.to_string(), idle.len())),
            )
            .finish()
    }
}
