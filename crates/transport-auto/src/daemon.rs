//! The daemon that keeps connections warm: what it sends requests by, and who rides it.
//!
//! `persistent` starts one where none answers. `auto` rides one that answers already and never starts any: a warm connection saves all
//! round trips of a handshake, and the hop to the daemon costs less than the shortest of them.

use std::{env, sync::Arc, time::Duration};

use http::Uri;
use rgit_dial::Origin;
use rgit_transport::{Error as Broken, Transport};
use rgit_transport_h1::{H1, PoolSettings};
pub use rgit_transport_persistent::{
    Daemon, Error, Factory, Handle, Judge, Left, Program, Settings, SocketPath, start, status, stop,
};
use rgit_transport_persistent::{Persistent, Profile, Road, Upstream};

use crate::{Choice, DaemonChoice, Name, choose};

/// How long the daemon keeps an idle connection of HTTP/1.1. Servers close theirs sooner, and that is noticed; the bound is for those
/// that never do.
const IDLE_AGE: Duration = Duration::from_secs(30 * 60);

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
    let persistent = Persistent::new(place, program, &profile, move || {
        choose(&direct).map_err(|err| Broken::Request {
            reason: err.to_string(),
        })
    })
    .early_data(daemon.early_data);
    Ok(Arc::new(match choice.notice.filter(|_| starts) {
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
pub fn factory() -> Box<Factory> {
    Box::new(|profile| Ok(upstream(profile)?))
}

fn upstream(profile: &Profile) -> Result<Upstream, crate::Error> {
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
    Ok(match profile.road {
        Road::Http1 => {
            let transport = Arc::new(H1::new(choice.dialer()?, h1));
            Upstream::new(transport.clone()).warming(move |uri| transport.warm(&origin(uri)?))
        }
        Road::Http2 => {
            let transport = Arc::new(choice.h2()?);
            Upstream::new(transport.clone()).warming(move |uri| transport.warm(&origin(uri)?))
        }
        _ => {
            let tuning = choice.h2.tuning(choice.idle_timeout);
            let transport = Arc::new(crate::Auto::new(choice.dialer()?, h1, tuning));
            Upstream::new(transport.clone()).warming(move |uri| transport.warm(&origin(uri)?))
        }
    })
}

fn origin(uri: &Uri) -> Result<Origin, Broken> {
    Origin::try_from(uri).map_err(|err| Broken::Request {
        reason: err.to_string(),
    })
}
