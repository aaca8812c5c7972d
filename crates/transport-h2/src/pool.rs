//! Connections by origin, and which of them takes the next request.
//!
//! One connection serves all requests to an origin, as many at a time as the server allows. What is beyond that goes over another
//! connection instead of waiting: whoever waits may wait for hours (for somebody else's clone), or for ever, when the answer that blocks
//! the way is held by the very thread that asks. Only what may come of a connection that is being made is waited for: its dial, and the
//! first SETTINGS that say how much it carries.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rgit_dial::Origin;

use crate::{
    driver::Leave,
    link::{Attendance, Link},
    observed::lock,
};

/// The longest pause after ENHANCE_YOUR_CALM, in terms of the first.
const MOST_CALM: u32 = 16;

#[derive(Default)]
pub(crate) struct Links {
    open: Mutex<HashMap<Origin, Vec<Arc<Link>>>>,
    dialing: Mutex<HashSet<Origin>>,
    dialed: Condvar,
    calm: Mutex<HashMap<Origin, Calm>>,
}

/// A server that wants to be left in peace.
#[derive(Debug, Clone, Copy)]
struct Calm {
    until: Instant,
    factor: u32,
}

/// The right to dial an origin. Others who want the same wait until it is dropped.
pub(crate) struct Dialing<'l> {
    links: &'l Links,
    origin: Origin,
}

impl Drop for Dialing<'_> {
    fn drop(&mut self) {
        lock(&self.links.dialing).remove(&self.origin);
        self.links.dialed.notify_all();
    }
}

impl Links {
    /// The connections to `origin` that can take on more for all that is known, those in use first.
    pub(crate) fn of(&self, origin: &Origin) -> Vec<Arc<Link>> {
        let (leaving, usable) = {
            let mut open = lock(&self.open);
            let Some(links) = open.get_mut(origin) else {
                return Vec::new();
            };
            let leaving: Vec<_> = links.extract_if(.., |link| !link.is_usable()).collect();
            (leaving, links.clone())
        };
        // Those in use live on in their answers.
        drop(leaving);
        usable
    }

    pub(crate) fn add(&self, link: Arc<Link>) {
        lock(&self.open).entry(link.origin.clone()).or_default().push(link);
    }

    /// Become the one who dials `origin`; `None` when somebody else did so meanwhile: there may be a connection now.
    pub(crate) fn dialing(&self, origin: &Origin) -> Option<Dialing<'_>> {
        let mut dialing = lock(&self.dialing);
        if dialing.insert(origin.clone()) {
            return Some(Dialing {
                links: self,
                origin: origin.clone(),
            });
        }
        while dialing.contains(origin) {
            dialing = self.dialed.wait(dialing).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// `origin` wants fewer requests. The first pause is `pause`.
    pub(crate) fn calm_down(&self, origin: &Origin, pause: Duration) {
        let mut calm = lock(&self.calm);
        let entry = calm.entry(origin.clone());
        let calm = entry
            .and_modify(|calm| calm.factor = (calm.factor * 2).min(MOST_CALM))
            .or_insert(Calm {
                until: Instant::now(),
                factor: 1,
            });
        calm.until = Instant::now() + pause * calm.factor;
    }

    /// An exchange with `origin` went well.
    pub(crate) fn went_well(&self, origin: &Origin) {
        let mut calm = lock(&self.calm);
        if calm.get(origin).is_some_and(|calm| calm.until <= Instant::now()) {
            calm.remove(origin);
        }
    }

    /// How long `origin` is to be left in peace.
    pub(crate) fn pause(&self, origin: &Origin) -> Duration {
        let calm = lock(&self.calm);
        calm.get(origin).map_or(Duration::ZERO, |calm| {
            calm.until.saturating_duration_since(Instant::now())
        })
    }

    /// Close connections that have been idle for `age`, or are idle for ever.
    pub(crate) fn drop_older_than(&self, age: Duration) {
        let is_old = |link: &Arc<Link>| {
            let unused = link.unused();
            matches!(link.attendance(), Attendance::Over)
                || unused.is_some_and(|unused| unused >= age || !link.is_usable())
        };
        let mut leaving = Vec::new();
        {
            let mut open = lock(&self.open);
            for links in open.values_mut() {
                leaving.extend(links.extract_if(.., |link| is_old(link)));
            }
            open.retain(|_, links| !links.is_empty());
        }
        for link in leaving {
            link.retire();
        }
    }

    /// Look at the sockets of idle connections: what the server closed is not to be used.
    pub(crate) fn refresh(links: &[Arc<Link>]) {
        for link in links.iter().filter(|link| link.active() == 0) {
            link.tend(Leave::Listening);
        }
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = lock(&self.open);
        f.debug_map()
            .entries(open.iter().map(|(origin, links)| (origin.to_string(), links.len())))
            .finish()
    }
}
