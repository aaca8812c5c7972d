use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
};

/// In a request's extensions: a way to end the exchange from another thread, because nobody waits for its answer any more.
///
/// It counts from when the request has a connection until its answer is over. The exchange, or reading its answer, then fails, and nothing
/// is sent again: an HTTP/1.1 connection is closed, an HTTP/2 stream reset. For others on the same connection nothing changes. One is
/// for one exchange.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_cancelled: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Cancel {
    /// One that was not used yet.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// End the exchange.
    pub fn cancel(&self) {
        let mut waker = self.0.waker.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.is_cancelled.store(true, Ordering::SeqCst);
        // Within the lock, so that who has called `unwatch` is not woken after it.
        if let Some(waker) = waker.take() {
            waker.wake();
        }
    }

    /// Whether it was ended.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::SeqCst)
    }

    /// For transports: whether it was ended; if not, `waker` is called when it is, in the place of one given before.
    pub fn watch(&self, waker: &Waker) -> bool {
        let mut kept = self.0.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_cancelled() && !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
        self.is_cancelled()
    }

    /// For transports: nobody is to be woken from now on.
    pub fn unwatch(&self) {
        self.0.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::atomic::AtomicU32, task::Wake};

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_last_to_watch_is_woken_once() {
        let counts = [(); 3].map(|()| Arc::new(Count::default()));
        let [first, last, late] = counts.clone().map(Waker::from);
        let cancel = Cancel::new();
        assert!(!cancel.watch(&first) && !cancel.clone().watch(&last));
        cancel.cancel();
        cancel.cancel();
        assert!(cancel.is_cancelled() && cancel.watch(&late));
        assert_eq!(counts.map(|count| count.0.load(Ordering::SeqCst)), [0, 1, 0]);
    }

    #[test]
    fn nobody_is_woken_who_looks_away() {
        let count = Arc::new(Count::default());
        let cancel = Cancel::new();
        cancel.watch(&count.clone().into());
        cancel.unwatch();
        cancel.cancel();
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
    }
}
