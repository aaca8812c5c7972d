//! Chooses a transport: the one room that names them all.
//!
//! Binaries call [`choose`] with what flags and configuration said and get one [`Transport`](rgit_transport::Transport); they never
//! name h1, h2 or persistent themselves. The choosing is done once a process, so that everything in it shares connections and TLS
//! sessions.
//!
//! [`Auto`] chooses for each exchange, by a [`CostModel`] that is a pure function of what is known before it begins. A single command
//! rides HTTP/1.1: its first request costs the same over either protocol, and HTTP/1.1 can't be held back by a server's HTTP/2 window.
//!
//! The daemon's room is handed its upstreams from here (`daemon`, on Unix).
//!
//! [`probe()`] looks at a server without asking it for anything, and tells what the [`CostModel`] makes of it.

#[cfg(not(any(feature = "ring", feature = "graviola")))]
compile_error!("choose a crypto provider for TLS: feature `ring` or `graviola`");

mod attempts;
mod auto;
mod choose;
mod cost;
#[cfg(unix)]
pub mod daemon;
mod hop;
pub mod probe;
#[cfg(unix)]
mod rider;

pub use auto::Auto;
pub use choose::{Choice, DaemonChoice, Error, H2Choice, Name, choose};
pub use cost::{Amount, CostModel, Link, Protocol, Road, Work};
pub use hop::Hop;
pub use probe::probe;
