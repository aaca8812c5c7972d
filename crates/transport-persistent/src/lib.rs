//! A daemon that keeps connections warm between invocations, and the transport that rides it.
#![cfg(unix)]

mod ask;
mod client;
mod control;
mod daemon;
mod error;
mod fields;
mod memory;
mod place;
mod profile;
mod serve;
mod start;
mod upstreams;

pub use ask::{start, status, stop};
pub use client::Persistent;
pub use daemon::{Daemon, Handle, Left, Settings};
pub use error::Error;
pub use memory::Judge;
pub use place::SocketPath;
pub use profile::{Profile, Road};
pub use start::Program;
pub use upstreams::{Factory, Upstream};
