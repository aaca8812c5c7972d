//! A connection on its way through exchanges, and what is remembered of it.

use std::{
    net::{Shutdown, TcpStream},
    ops::{Deref, DerefMut},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Wake, Waker},
    time::Instant,
};

use rgit_dial::{Connection, Origin};
use rgit_transport::{Cancel, Held};

/// A connection that has a record.
pub(crate) struct Pooled {
    connection: Connection,
    record: Arc<Record>,
    /// Of the exchange under way.
    cancel: Option<Cancel>,
}

/// What is to be told of a connection. It goes with it.
struct Record {
    origin: Origin,
    made: Instant,
    requests: AtomicU64,
    /// Since when, unless it is in use.
    idle: Mutex<Option<Instant>>,
}

/// Those of all connections that there are.
#[derive(Default)]
pub(crate) struct Records(Mutex<Vec<Weak<Record>>>);

impl Records {
    pub(crate) fn enter(&self, origin: &Origin, connection: Connection) -> Pooled {
        let record = Arc::new(Record {
            origin: origin.clone(),
            made: Instant::now(),
            requests: AtomicU64::new(0),
            idle: Mutex::new(None),
        });
        let mut all = lock(&self.0);
        all.retain(|record| record.strong_count() > 0);
        all.push(Arc::downgrade(&record));
        Pooled {
            connection,
            record,
            cancel: None,
        }
    }

    pub(crate) fn tell(&self) -> Vec<Held> {
        lock(&self.0)
            .iter()
            .filter_map(Weak::upgrade)
            .map(|record| record.tell())
            .collect()
    }
}

impl Record {
    fn tell(&self) -> Held {
        let idle = *lock(&self.idle);
        let mut held = Held::new(self.origin.to_string(), http::Version::HTTP_11);
        held.age = self.made.elapsed();
        held.requests = self.requests.load(Ordering::Relaxed);
        held.underway = usize::from(idle.is_none());
        held.idle = idle.map(|since| since.elapsed());
        held
    }
}

impl Pooled {
    /// An exchange begins, and can be ended by `cancel`.
    pub(crate) fn begins(&mut self, cancel: Option<&Cancel>) {
        self.record.requests.fetch_add(1, Ordering::Relaxed);
        *lock(&self.record.idle) = None;
        self.cancel = cancel.cloned();
        // Out of descriptors, it can only end by itself.
        if let (Some(cancel), Ok(descriptor)) = (cancel, self.connection.descriptor()) {
            let breaker = Waker::from(Arc::new(Breaker(descriptor.into())));
            if cancel.watch(&breaker) {
                breaker.wake();
            }
        }
    }

    /// It is over, and another may follow.
    pub(crate) fn rests(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel.unwatch();
        }
        *lock(&self.record.idle) = Some(Instant::now());
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        // It holds a descriptor of the socket, which is closed with the last one.
        if let Some(cancel) = self.cancel.take() {
            cancel.unwatch();
        }
    }
}

/// Ends a connection under whoever waits on it. The socket may be of any kind: shutdown(2) asks for no more.
struct Breaker(TcpStream);

impl Wake for Breaker {
    fn wake(self: Arc<Self>) {
        self.0.shutdown(Shutdown::Both).ok();
    }
}

impl Deref for Pooled {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
