//! What is measured when no flag says so: the presets, as parts of the matrix.
//!
//! Not all is crossed with all. A server's window holds uploads over HTTP/2 back and nothing else; what is known of it from bulk
//! and ten megabytes needs no second look from eight small commands.

use super::matrix::{Axes, Client, Scenario, Server, Window};

/// Clients that make one connection a command.
const DIRECT: [Client; 5] = [Client::GitH1, Client::GitH2, Client::H1, Client::H2, Client::Auto];

/// Small operations and ten megabytes over two links.
pub(super) fn quick() -> Axes {
    Axes {
        clients: [&DIRECT[..], &[Client::PersistentWarm]].concat(),
        scenarios: vec![
            Scenario::LsRemote,
            Scenario::CloneSmall,
            Scenario::FetchFew,
            Scenario::PushOne,
            Scenario::Push10Mb,
        ],
        round_trips_ms: vec![0, 100],
        rates_mb_s: vec![None],
        tun: false,
        losses_per_mille: vec![0],
        servers: vec![Server::Testkit(Window::Small)],
    }
}

/// Everything, with each axis where it makes a difference.
pub(super) fn full() -> Vec<Axes> {
    let apart = [Client::PersistentH1, Client::PersistentH2];
    let every = Axes {
        clients: Client::ALL
            .iter()
            .copied()
            .filter(|client| !apart.contains(client))
            .collect(),
        scenarios: Scenario::ALL
            .iter()
            .copied()
            .filter(|scenario| !matches!(scenario, Scenario::Clone4 | Scenario::CloneUrl))
            .collect(),
        round_trips_ms: vec![0, 20, 100, 200],
        rates_mb_s: vec![None],
        tun: false,
        losses_per_mille: vec![0],
        servers: vec![Server::Testkit(Window::Small)],
    };
    let windows = Axes {
        clients: DIRECT.to_vec(),
        scenarios: vec![Scenario::Push10Mb, Scenario::PushBulk],
        round_trips_ms: vec![20, 100],
        servers: vec![Server::Testkit(Window::Medium), Server::Testkit(Window::Large)],
        ..every.clone()
    };
    // Many connections against one, which only a daemon shares between commands.
    let connections = Axes {
        clients: [&DIRECT[..], &apart].concat(),
        scenarios: vec![Scenario::Clone4],
        round_trips_ms: vec![20, 100],
        ..every.clone()
    };
    vec![every, windows, connections]
}

/// What `auto` must hold.
pub(super) fn roads() -> Axes {
    Axes {
        clients: vec![Client::H1, Client::H2, Client::Auto],
        scenarios: vec![
            Scenario::LsRemote,
            Scenario::PushOne,
            Scenario::Push10Mb,
            Scenario::PushBulk,
            Scenario::CloneBulk,
        ],
        round_trips_ms: vec![0, 20, 100],
        rates_mb_s: vec![None],
        tun: false,
        losses_per_mille: vec![0],
        servers: Window::ALL.iter().copied().map(Server::Testkit).collect(),
    }
}

/// What can be asked of a server that somebody else runs; which one, the flag says.
pub(super) fn far() -> Axes {
    Axes {
        clients: Client::ALL.to_vec(),
        scenarios: vec![
            Scenario::LsRemote,
            Scenario::CloneUrl,
            Scenario::FetchFew,
            Scenario::PushOne,
            Scenario::Push10Mb,
            Scenario::Concurrent8,
        ],
        // The way there is as it is.
        round_trips_ms: vec![0],
        rates_mb_s: vec![None],
        tun: false,
        losses_per_mille: vec![0],
        servers: Vec::new(),
    }
}
