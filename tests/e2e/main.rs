//! The `rgit` binary against a real `git http-backend` over TLS. `git` is the referee: what arrived is compared with `git fsck
//! --strict`, refs, and `rev-list --objects --all`; what is printed is compared with what `git` prints in the same situation.

// A test that takes another way says so.
#![allow(clippy::print_stderr)]

mod arrival;
mod authentication;
mod clone;
#[cfg(unix)]
mod daemon;
mod delta_attribute;
mod fetch;
mod fetch_rules;
mod http2;
mod incomplete;
#[cfg(unix)]
mod interrupted;
mod local;
mod ls_remote;
mod probe;
mod push;
mod refusals;
mod round_trips;
mod settings;
mod wire;
mod world;
