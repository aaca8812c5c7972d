//! The daemon that keeps connections warm: what it sends requests by, and who rides it.
//!
//! `persistent` starts one where none answers. `auto` rides one that answers already and never starts any, for each exchange that takes
//! less in this way by the [`CostModel`](crate::CostModel): all but large bodies of known length to this machine itself.

use std::{env, sync::Arc, time::Duration};

use http::Uri;
use rgit_dial::Origin;
use rgit_transport::{Error as Broken, Transport};
use rgit_transport_h1::{H1, PoolSettings};
use rgit_transport_h2::{H2, Tuning};
pub use rgit_transport_persistent::{
    Daemon, Error, Factory, Handle, Judge, Left, Program, Settings, SocketPath, start, status, stop,
};
use rgit_transport_persistent::{Persistent, Profile, Road, Upstream};

use crate::{
    Choice, DaemonChoice, Name, choose,
    rider::{Direct, Rider},
};

/// How long the daemon keeps an idle connection of HTTP/1.1. Servers close theirs sooner, and that is noticed; the bound is for those
/// that never do.
const IDLE_AGE: Duration = Duration::from_secs(30 * 60);

/// How much longer than connections are reopened one of HTTP/2 is kept: its last exchange ends a moment before its origin's use does.
const MARGIN: Duration = Duration::from_secs(1);

/// How idle connections are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upkeep {
    /// As [`Settings::reopen`]. What is asked by PING is kept as long, and no longer: nobody would ask it any more.
    pub reopen: Duration,
    /// How often an idle connection of HTTP/2 is asked whether it is still there (`rgit.persistent.pingInterval`); zero for never.
    /// Default: 30 seconds, twice within the shortest time after which something on the way usually forgets a connection that is idle:
    /// AWS's application load balancer and many an HAProxy after 60 seconds, nginx after 75, Azure's gateways after 4 minutes, Amazon's
    /// after 350 seconds.
    pub ping_interval: Duration,
}

impl Default for Upkeep {
    fn default() -> Self {
        Upkeep {
            reopen: Settings::default().reopen,
            ping_interval: Duration::from_secs(30),
        }
    }
}

impl Upkeep {
    fn tuning(self, tuning: Tuning) -> Tuning {
        if self.reopen.is_zero() || self.ping_interval.is_zero() {
            return tuning;
        }
        tuning
            .ping_interval(self.ping_interval)
            .idle_age(self.reopen.saturating_add(MARGIN))
    }
}

/// The directory that holds the user's daemon's socket.
pub fn place() -> SocketPath {
    SocketPath::of_user(|name| env::var_os(name))
}

/// A transport by way of the daemon, or directly where there is none.
pub(crate) fn ride(choice: &Choice, daemon: &DaemonChoice) -> Result<Arc<dyn Transport>, crate::Error> {
    let (road, starts) = match choice.name {
        Name::Persistent => (road(daemon.upstream), true),
        _ => (Road::Auto, false),
    };
    let mut direct = choice.clone();
    direct.daemon = None;
    direct.name = match road {
        Road::Http1 => Name::H1,
        Road::Http2 => Name::H2,
        _ => Name::Auto,
    };
    let profile = match profile(choice, road).environment(|name| env::var_os(name)) {
        Ok(profile) => profile,
        Err(reason) => {
            if let (true, Some(notice)) = (starts, choice.notice) {
                notice(reason);
            }
            return choose(&direct);
        }
    };
    let program = daemon
        .program
        .as_ref()
        .filter(|_| starts)
        .map(|(path, arguments)| Program {
            path: path.clone(),
            arguments: arguments.clone(),
        });
    let place = SocketPath::within(&daemon.directory);
    let direct = Direct::new(direct);
    let fallback = direct.clone();
    let persistent =
        Persistent::new(place, program, &profile, move || fallback.transport()).early_data(daemon.early_data);
    if !starts {
        return Ok(Arc::new(Rider {
            daemon: persistent,
            direct,
        }));
    }
    Ok(Arc::new(match choice.notice {
        Some(notice) => persistent.on_fallback(notice),
        None => persistent,
    }))
}

fn road(name: Name) -> Road {
    match name {
        Name::H1 => Road::Http1,
        Name::H2 => Road::Http2,
        _ => Road::Auto,
    }
}

fn profile(choice: &Choice, road: Road) -> Profile {
    let mut profile = Profile::default();
    profile.road = road;
    profile.ca_file.clone_from(&choice.ca_file);
    profile.insecure = choice.insecure;
    profile.idle_timeout = choice.idle_timeout;
    profile.stream_window = choice.h2.stream_window;
    profile.connection_window = choice.h2.connection_window;
    profile.max_frame_size = choice.h2.max_frame_size;
    profile
}

/// Makes the daemon's upstreams.
pub fn factory(upkeep: Upkeep) -> Box<Factory> {
    Box::new(move |profile| Ok(upstream(profile, upkeep)?))
}

fn upstream(profile: &Profile, upkeep: Upkeep) -> Result<Upstream, crate::Error> {
    let mut choice = Choice {
        ca_file: profile.ca_file.clone(),
        insecure: profile.insecure,
        idle_timeout: profile.idle_timeout,
        // Which requests go so is for the client to say.
        early_data: true,
        ..Choice::default()
    };
    choice.h2.stream_window = profile.stream_window;
    choice.h2.connection_window = profile.connection_window;
    choice.h2.max_frame_size = profile.max_frame_size;
    let h1 = choice.h1().pool(PoolSettings::default().idle_age(IDLE_AGE));
    let h2 = upkeep.tuning(choice.h2.tuning(choice.idle_timeout));
    Ok(match profile.road {
        Road::Http1 => {
            let transport = Arc::new(H1::new(choice.dialer()?, h1));
            let held = transport.clone();
            Upstream::new(transport.clone())
                .warming(move |uri| transport.warm(&origin(uri)?))
                .telling(move || held.held())
        }
        Road::Http2 => {
            let transport = H2::new(choice.dialer()?, h2).map_err(crate::Error::Descriptors)?;
            let transport = Arc::new(transport);
            let held = transport.clone();
            Upstream::new(transport.clone())
                .warming(move |uri| transport.warm(&origin(uri)?))
                .telling(move || held.held())
        }
        _ => {
            let transport = Arc::new(crate::Auto::new(choice.dialer()?, h1, h2));
            let held = transport.clone();
            Upstream::new(transport.clone())
                .warming(move |uri| transport.warm(&origin(uri)?))
                .telling(move || held.held())
        }
    })
}

fn origin(uri: &Uri) -> Result<Origin, Broken> {
    Origin::try_from(uri).map_err(|err| Broken::Request {
        reason: err.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_for_long_is_asked_whether_it_is_still_there() {
        let plain = Tuning::default();
        let usual = Upkeep::default().tuning(plain.clone());
        assert_eq!(usual.ping_interval, Duration::from_secs(30));
        assert!(usual.idle_age > Settings::default().reopen);
        for switch in [
            |upkeep: &mut Upkeep| upkeep.reopen = Duration::ZERO,
            |upkeep: &mut Upkeep| upkeep.ping_interval = Duration::ZERO,
        ] {
            let mut upkeep = Upkeep::default();
            switch(&mut upkeep);
            assert_eq!(upkeep.tuning(plain.clone()), plain);
        }
    }
}
