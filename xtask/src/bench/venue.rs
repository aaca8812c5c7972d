//! Where one group of cells is measured: a server, the link before it, and what both know of a run.

use std::time::Duration;

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
    server: GitServer,
}

/// What was spent and moved when a run began.
#[derive(Debug)]
pub(super) struct Mark {
    spent: Option<Duration>,
    wire: Option<(u64, u64)>,
}

/// What a run cost the server, and what it saw.
#[derive(Debug)]
pub(super) struct Seen {
    /// With that of the clients, which are children of the same process.
    pub(super) cpu: Option<Duration>,
    pub(super) up: Option<u64>,
    pub(super) down: Option<u64>,
    pub(super) wire: Option<(u64, u64)>,
    pub(super) requests: Option<usize>,
    pub(super) connections: Option<usize>,
}

impl Venue {
    /// Starts what this group needs.
    ///
    /// # Errors
    /// When the server or the relay doesn't start.
    pub(super) fn open(group: &Group, data: &Data, authority: &Authority) -> anyhow::Result<Venue> {
        let builder = GitServer::builder().root(&data.served).protocols(Protocols::Both);
        let builder = match &group.server {
            Server::Testkit(window) => builder.tls(authority).window(window.bytes()).frame_size(window.frame()),
            Server::Named(_) => builder.hold_head(),
        };
        let server = builder.start().context("start the server")?;
        let front = match &group.server {
            Server::Testkit(_) => None,
            Server::Named(name) => Some(Front::start(name, authority, server.address())?),
        };
        let address = front.as_ref().map_or(server.address(), Front::address);
        let relay = link::link(group.road)
            .map(|link| Relay::start(address, link))
            .transpose()
            .context("start the relay")?;
        Ok(Venue { relay, front, server })
    }

    /// The URL under which clients see the served folder.
    pub(super) fn base(&self) -> String {
        let address = self.front.as_ref().map_or(self.server.address(), Front::address);
        let address = self.relay.as_ref().map_or(address, Relay::address);
        format!("https://{address}")
    }

    /// Before a run.
    pub(super) fn mark(&self) -> Mark {
        self.server.clear_log();
        Mark {
            spent: spent(),
            wire: self.wire(),
        }
    }

    /// After a run: waits for the server to be done with it first.
    pub(super) fn since(&self, mark: &Mark) -> Seen {
        self.server.wait_for_children(PATIENCE);
        let requests = self.server.requests();
        Seen {
            // What a server in front spends isn't known: nothing is better than a part.
            cpu: spent()
                .filter(|_| self.front.is_none())
                .zip(mark.spent)
                .map(|(after, before)| after.saturating_sub(before)),
            up: Some(requests.iter().map(|request| request.request_bytes).sum()),
            down: Some(requests.iter().map(|request| request.response_bytes).sum()),
            wire: self
                .wire()
                .zip(mark.wire)
                .map(|(after, before)| (after.0 - before.0, after.1 - before.1)),
            requests: Some(requests.len()),
            // Behind a server in front these would be its own.
            connections: self.front.is_none().then(|| self.server.connections().len()),
        }
    }

    fn wire(&self) -> Option<(u64, u64)> {
        let carried = self.relay.as_ref()?.total();
        Some((carried.up, carried.down))
    }
}

/// CPU of the server's threads and of all children that have ended.
fn spent() -> Option<Duration> {
    Some(meter::threads(THREADS)? + meter::waited_children()?)
}
