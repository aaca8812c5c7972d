//! Whether those whose requests are under way are still there.
//!
//! A thread that waits for a server doesn't see its client go: it would hold a connection for as long as the server keeps silent, which may
//! be until the idle timeout. One thread looks after all of them. It looks every so often instead of waiting on their streams, because it
//! would have to be woken for each request to be told of its stream, and a request that is over within a moment needs nobody to look.

use std::{
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    time::Duration,
};

use rgit_transport::Cancel;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::upstreams::lock;

/// How often they are looked after, while there are any.
const ROUND: Duration = Duration::from_millis(500);

/// A client's stream, and what ends its request.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) stream: UnixStream,
    underway: Mutex<Option<Cancel>>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    all: Mutex<Vec<Weak<Caller>>>,
    rest: Mutex<Rest>,
    stirred: Condvar,
}

/// Why the watcher is to stir.
#[derive(Debug, Default)]
struct Rest {
    over: bool,
    begun: bool,
}

/// A request under way.
pub(crate) struct Underway<'c>(&'c Caller);

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        lock(&self.0.underway).take();
    }
}

impl Callers {
    /// Look after the requests that come on `stream`.
    pub(crate) fn enter(&self, stream: UnixStream) -> Arc<Caller> {
        let caller = Arc::new(Caller {
            stream,
            underway: Mutex::default(),
        });
        let mut all = lock(&self.all);
        all.retain(|caller| caller.strong_count() > 0);
        all.push(Arc::downgrade(&caller));
        caller
    }

    /// A request of `caller` begins, and is to be ended by `cancel` should its client go before it is over.
    pub(crate) fn begin<'c>(&self, caller: &'c Caller, cancel: Cancel) -> Underway<'c> {
        *lock(&caller.underway) = Some(cancel);
        if !std::mem::replace(&mut lock(&self.rest).begun, true) {
            self.stirred.notify_one();
        }
        Underway(caller)
    }

    /// Look after them until [`end`](Self::end).
    pub(crate) fn watch(&self) {
        loop {
            let any = self.look();
            let rest = lock(&self.rest);
            let waited = match any {
                true => self
                    .stirred
                    .wait_timeout_while(rest, ROUND, |rest| !rest.over)
                    .map(|waited| waited.0)
                    .map_err(|err| err.into_inner().0),
                false => self
                    .stirred
                    .wait_while(rest, |rest| !rest.over && !rest.begun)
                    .map_err(PoisonError::into_inner),
            };
            let mut rest = waited.unwrap_or_else(|rest| rest);
            if rest.over {
                return;
            }
            rest.begun = false;
        }
    }

    pub(crate) fn end(&self) {
        lock(&self.rest).over = true;
        self.stirred.notify_all();
    }

    /// End the requests of those who are gone; whether any is under way.
    fn look(&self) -> bool {
        let is_busy = |caller: &Arc<Caller>| lock(&caller.underway).is_some();
        let busy: Vec<_> = lock(&self.all)
            .iter()
            .filter_map(Weak::upgrade)
            .filter(is_busy)
            .collect();
        // No flags: that both sides are closed is told unasked. Who only ends what it sends may still want its answer.
        let mut fds: Vec<_> = busy
            .iter()
            .map(|caller| PollFd::from_borrowed_fd(caller.stream.as_fd(), PollFlags::empty()))
            .collect();
        if rustix::event::poll(&mut fds, Some(&Timespec::default())).is_err() {
            return true;
        }
        for (caller, fd) in busy.iter().zip(&fds) {
            if fd.revents().intersects(PollFlags::HUP | PollFlags::ERR)
                && let Some(cancel) = &*lock(&caller.underway)
                && !cancel.is_cancelled()
            {
                tracing::debug!("a client went away before its answer came");
                cancel.cancel();
            }
        }
        !busy.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_whose_client_is_gone_is_ended() {
        let callers = Callers::default();
        let pairs = [(); 4].map(|()| UnixStream::pair().unwrap());
        let cancels = [(); 4].map(|()| Cancel::new());
        let [there, gone, half, idle] = pairs;
        half.1.shutdown(std::net::Shutdown::Write).unwrap();
        drop((gone.1, idle.1));
        let entered = [there.0, gone.0, half.0, idle.0].map(|stream| callers.enter(stream));
        assert!(!callers.look(), "nothing is under way");
        let mut underway: Vec<_> = entered
            .iter()
            .zip(&cancels)
            .map(|(caller, cancel)| callers.begin(caller, cancel.clone()))
            .collect();
        underway.pop();
        assert!(callers.look());
        assert_eq!(
            cancels.each_ref().map(Cancel::is_cancelled),
            [false, true, false, false]
        );
    }
}
