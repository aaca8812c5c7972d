//! What the daemon sends requests by: one upstream for each profile, and which origins were used lately.

use std::{
    collections::HashMap,
    error::Error as StdError,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use http::Uri;
use rgit_transport::{Error, Held, Transport};
use serde_json::json;

use crate::{Profile, place::Stamp, profile::shown};

/// Profiles kept at a time. A user has a few; whoever makes more loses the one used longest ago.
const PROFILES: usize = 16;
/// Origins remembered for each.
const ORIGINS: usize = 32;
/// How often a connection is reopened for an origin that nobody uses meanwhile: a server that closes after a second has seen enough.
const REOPENINGS: u32 = 8;

type Tell = dyn Fn() -> Vec<Held> + Send + Sync;
type Warm = dyn Fn(&Uri) -> Result<bool, Error> + Send + Sync;

/// A transport, and what the daemon may ask of it besides.
pub struct Upstream {
    transport: Arc<dyn Transport>,
    warm: Option<Box<Warm>>,
    tell: Option<Box<Tell>>,
}

impl Upstream {
    /// One that only carries exchanges.
    pub fn new(transport: Arc<dyn Transport>) -> Upstream {
        Upstream {
            transport,
            warm: None,
            tell: None,
        }
    }

    /// `warm` sees that a connection to a URI's origin lies idle, after dropping those that the server closed, and tells whether one had
    /// to be made.
    pub fn warming(mut self, warm: impl Fn(&Uri) -> Result<bool, Error> + Send + Sync + 'static) -> Upstream {
        self.warm = Some(Box::new(warm));
        self
    }

    /// `tell` lists the connections that are held, for [`status`](crate::status).
    pub fn telling(mut self, tell: impl Fn() -> Vec<Held> + Send + Sync + 'static) -> Upstream {
        self.tell = Some(Box::new(tell));
        self
    }

    /// What carries exchanges.
    pub fn transport(&self) -> &dyn Transport {
        &*self.transport
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("transport", &self.transport)
            .field("warms", &self.warm.is_some())
            .field("tells", &self.tell.is_some())
            .finish()
    }
}

/// Makes the upstream for a profile. Nothing is to be connected to by that.
pub type Factory = dyn Fn(&Profile) -> Result<Upstream, Box<dyn StdError + Send + Sync>> + Send + Sync;

/// One profile's.
pub(crate) struct Entry {
    profile: Profile,
    /// The CA file as it was when the upstream was made, which reads it but once.
    authorities: Option<Stamp>,
    made: Instant,
    pub(crate) upstream: Upstream,
    origins: Mutex<HashMap<String, Origin>>,
}

/// What is known of an origin that was used.
#[derive(Debug)]
struct Origin {
    uri: Uri,
    used: Instant,
    underway: u32,
    requests: u64,
    reused: u64,
    /// Since it was used last.
    reopened: u32,
    looked: Instant,
}

/// All of them.
pub(crate) struct Upstreams {
    factory: Box<Factory>,
    /// The one used last stands last.
    entries: Mutex<Vec<Arc<Entry>>>,
}

impl Upstreams {
    pub(crate) fn new(factory: Box<Factory>) -> Upstreams {
        Upstreams {
            factory,
            entries: Mutex::default(),
        }
    }

    /// The upstream for `profile`: the one that is there, unless the file it trusts by is another now.
    pub(crate) fn of(&self, profile: &Profile) -> Result<Arc<Entry>, Box<dyn StdError + Send + Sync>> {
        let authorities = profile.ca_file.as_deref().and_then(Stamp::of);
        let mut entries = lock(&self.entries);
        let found = entries.iter().position(|entry| entry.profile == *profile);
        let known = found
            .map(|at| entries.remove(at))
            .filter(|entry| entry.authorities == authorities);
        let entry = match known {
            Some(entry) => entry,
            None => Arc::new(Entry {
                upstream: (self.factory)(profile)?,
                profile: profile.clone(),
                authorities,
                made: Instant::now(),
                origins: Mutex::default(),
            }),
        };
        if entries.len() >= PROFILES {
            // Those who use it hold it.
            entries.remove(0);
        }
        entries.push(entry.clone());
        Ok(entry)
    }

    fn all(&self) -> Vec<Arc<Entry>> {
        lock(&self.entries).clone()
    }

    /// Reopen what was closed for origins used within `recent`; whether there is any left to look at.
    pub(crate) fn reopen(&self, recent: Duration) -> bool {
        let mut any = false;
        for entry in self.all() {
            let Some(warm) = &entry.upstream.warm else { continue };
            for (name, uri) in entry.to_look_at(recent, &mut any) {
                // Outside the lock: it may take a round trip or thirty seconds.
                let outcome = warm(&uri);
                tracing::debug!(origin = %name, reopened = ?outcome, "looked after an idle connection");
                entry.looked_at(&name, !matches!(outcome, Ok(false)));
            }
        }
        any
    }

    /// For people and scripts.
    pub(crate) fn status(&self) -> serde_json::Value {
        let profiles = self.all();
        profiles.iter().map(|entry| entry.status()).collect()
    }
}

impl Entry {
    /// A request to `uri` begins.
    pub(crate) fn begin(&self, uri: &Uri) -> String {
        // What is no origin is refused by the upstream; until then it has none's name.
        let name = rgit_dial::Origin::try_from(uri).map_or_else(|_| String::new(), |origin| origin.to_string());
        let now = Instant::now();
        let mut origins = lock(&self.origins);
        if origins.len() >= ORIGINS && !origins.contains_key(&name) {
            let idle = origins.iter().filter(|(_, origin)| origin.underway == 0);
            let oldest = idle.min_by_key(|(_, origin)| origin.used).map(|(name, _)| name.clone());
            oldest.and_then(|name| origins.remove(&name));
        }
        let origin = origins.entry(name.clone()).or_insert_with(|| Origin {
            uri: uri.clone(),
            used: now,
            underway: 0,
            requests: 0,
            reused: 0,
            reopened: 0,
            looked: now,
        });
        origin.underway += 1;
        origin.requests += 1;
        origin.used = now;
        name
    }

    /// A request to the origin that [`begin`](Self::begin) named is over.
    pub(crate) fn end(&self, name: &str, reused: bool) {
        if let Some(origin) = lock(&self.origins).get_mut(name) {
            origin.underway = origin.underway.saturating_sub(1);
            origin.reused += u64::from(reused);
            origin.used = Instant::now();
            origin.reopened = 0;
        }
    }

    fn to_look_at(&self, recent: Duration, any: &mut bool) -> Vec<(String, Uri)> {
        let mut origins = lock(&self.origins);
        let mut due = Vec::new();
        for (name, origin) in &mut *origins {
            if origin.used.elapsed() >= recent || origin.reopened >= REOPENINGS {
                continue;
            }
            *any = true;
            // Each time twice as long: a server that closes early is not to be dialled for ever.
            let pause = Duration::from_secs(1) * 2u32.pow(origin.reopened);
            if origin.underway == 0 && (origin.reopened == 0 || origin.looked.elapsed() >= pause) {
                due.push((name.clone(), origin.uri.clone()));
            }
        }
        due
    }

    fn looked_at(&self, name: &str, reopened: bool) {
        if let Some(origin) = lock(&self.origins).get_mut(name)
            && reopened
        {
            origin.reopened += 1;
            origin.looked = Instant::now();
        }
    }

    fn status(&self) -> serde_json::Value {
        let origins = lock(&self.origins);
        let origins: serde_json::Value = origins
            .iter()
            .map(|(name, origin)| {
                json!({
                    "origin": name,
                    "requests": origin.requests,
                    "reused": origin.reused,
                    "underway": origin.underway,
                    "reopened": origin.reopened,
                    "idle_seconds": origin.used.elapsed().as_secs(),
                })
            })
            .collect();
        let mut held = self.upstream.tell.as_ref().map_or_else(Vec::new, |tell| tell());
        held.sort_by(|one, other| (&one.origin, other.age).cmp(&(&other.origin, one.age)));
        let connections: serde_json::Value = held.iter().map(connection).collect();
        json!({
            "upstream": self.profile.road.as_str(),
            "ca_file": self.profile.ca_file.as_ref().map(|path| shown(path.as_os_str())),
            "verify": !self.profile.insecure,
            "age_seconds": self.made.elapsed().as_secs(),
            "origins": origins,
            "connections": connections,
        })
    }
}

fn connection(held: &Held) -> serde_json::Value {
    json!({
        "origin": held.origin,
        "protocol": match held.protocol {
            http::Version::HTTP_2 => "HTTP/2",
            _ => "HTTP/1.1",
        },
        "age_seconds": held.age.as_secs(),
        "requests": held.requests,
        "underway": held.underway,
        "idle_seconds": held.idle.map(|idle| idle.as_secs()),
    })
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
