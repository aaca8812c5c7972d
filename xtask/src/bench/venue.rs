//! Where one group of cells is measured: a server, the link before it, and what both know of a run.

use std::{collections::BTreeSet, net::Ipv4Addr, time::Duration};

use anyhow::Context;
use rgit_testkit::{
    certificate::Authority,
    meter,
    relay::Relay,
    server::{GitServer, Protocols},
};

use super::{
    data::Data,
    front::Front,
    link,
    matrix::{Group, Server},
    results::Frames,
    tun::{self, Tun},
};

/// How long a server's children may take to end after the client has its answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The testkit's threads that serve.
const THREADS: &str = "git-server";

/// A server and its link, running.
#[derive(Debug)]
pub(super) struct Venue {
    relay: Option<Relay>,
    front: Option<Front>,
    /// None where it is another's: nothing is known of what it sees and spends.
    server: Option<GitServer>,
    /// Behind them: what runs in its namespaces goes first.
    tun: Option<Tun>,
}

/// What was spent and moved when a run began.
#[derive(Debug)]
pub(super) struct Mark {
    spent: Option<Duration>,
    wire: Option<(u64, u64)>,
    frames: Option<Frames>,
}

/// What a run cost the server, and what it saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// With that of the clients, which are children of the same process.
    pub(super) cpu: Option<Duration>,
    pub(super) up: Option<u64>,
    pub(super) down: Option<u64>,
    pub(super) wire: Option<(u64, u64)>,
    pub(super) requests: Option<usize>,
    /// New ones.
    pub(super) connections: Option<usize>,
    /// Those that carried a request, new or not.
    pub(super) used: Option<usize>,
    pub(super) frames: Option<Frames>,
}

impl Venue {
    /// Starts what this group needs.
    ///
    /// # Errors
    /// When the server or the relay doesn't start.
    pub(super) fn open(group: &Group, data: &Data, authority: &Authority) -> anyhow::Result<Venue> {
        if matches!(group.server, Server::Url(_)) {
            return Ok(Venue {
                relay: None,
                front: None,
                server: None,
                tun: None,
            });
        }
        let tun = group.road.tun.then(|| Tun::start(group.road)).transpose()?;
        let place = tun.as_ref().map_or(Ipv4Addr::LOCALHOST, |_| tun::SERVER);
        let start = || serve(group, data, authority, place);
        let (server, front) = match &tun {
            Some(tun) => tun.on_server(start)??,
            None => start()?,
        };
        let address = front.as_ref().map_or(server.address(), Front::address);
        let relay = link::link(group.road)
            .map(|link| Relay::start(address, link))
            .transpose()
            .context("start the relay")?;
        Ok(Venue {
            relay,
            front,
            server: Some(server),
            tun,
        })
    }

    /// Does `work` where the clients are.
    ///
    /// # Errors
    /// When the place can't be entered.
    pub(super) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        match &self.tun {
            Some(tun) => tun.on_client(work),
            None => Ok(work()),
        }
    }

    /// The URL under which clients see the served folder; none where the server is another's.
    pub(super) fn base(&self) -> Option<String> {
        let server = self.server.as_ref()?;
        let address = self.front.as_ref().map_or(server.address(), Front::address);
        let address = self.relay.as_ref().map_or(address, Relay::address);
        Some(format!("https://{address}"))
    }

    /// Before a run.
    pub(super) fn mark(&self) -> Mark {
        if let Some(server) = &self.server {
            server.clear_log();
        }
        Mark {
            spent: spent(),
            wire: self.wire(),
            frames: self.frames(),
        }
    }

    /// After a run: waits for the server to be done with it first.
    pub(super) fn since(&self, mark: &Mark) -> Seen {
        let Some(server) = &self.server else {
            return Seen::default();
        };
        server.wait_for_children(PATIENCE);
        let requests = server.requests();
        // Behind a server in front, CPU and connections would be those of a part: nothing is better than that.
        let whole = self.front.is_none();
        let used: BTreeSet<u64> = requests.iter().map(|request| request.connection).collect();
        Seen {
            cpu: spent()
                .filter(|_| whole)
                .zip(mark.spent)
                .map(|(after, before)| after.saturating_sub(before)),
            up: Some(requests.iter().map(|request| request.request_bytes).sum()),
            down: Some(requests.iter().map(|request| request.response_bytes).sum()),
            wire: self
                .wire()
                .zip(mark.wire)
                .map(|(after, before)| (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1))),
            requests: Some(requests.len()),
            connections: whole.then(|| server.connections().len()),
            used: whole.then_some(used.len()),
            frames: self.frames().zip(mark.frames).map(|(after, before)| Frames {
                count: after.count - before.count,
                bytes: after.bytes - before.bytes,
            }),
        }
    }

    /// DATA frames so far.
    fn frames(&self) -> Option<Frames> {
        let server = self.server.as_ref().filter(|_| self.front.is_none())?;
        let (received, sent) = server.data_frames();
        Some(Frames {
            count: received.count + sent.count,
            bytes: received.bytes + sent.bytes,
        })
    }

    fn wire(&self) -> Option<(u64, u64)> {
        if let Some(tun) = &self.tun {
            return Some(tun.carried());
        }
        let carried = self.relay.as_ref()?.total();
        Some((carried.up, carried.down))
    }
}

/// The server of a group, and the one in front of it.
fn serve(
    group: &Group,
    data: &Data,
    authority: &Authority,
    place: Ipv4Addr,
) -> anyhow::Result<(GitServer, Option<Front>)> {
    let builder = GitServer::builder()
        .root(&data.served)
        .protocols(Protocols::Both)
        .listen(place);
    let builder = match &group.server {
        Server::Testkit(window) => builder
            .tls_config(authority.server_config(&["localhost", &place.to_string()], &[]))
            .window(window.bytes())
            .frame_size(window.frame()),
        _ => builder.hold_head(),
    };
    let server = builder.start().context("start the server")?;
    let front = match &group.server {
        Server::Named(name) => Some(Front::start(name, authority, server.address(), place)?),
        _ => None,
    };
    Ok((server, front))
}

/// CPU of the server's threads and of all children that have ended.
fn spent() -> Option<Duration> {
    Some(meter::threads(THREADS)? + meter::waited_children()?)
}
