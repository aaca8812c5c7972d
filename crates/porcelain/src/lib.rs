//! Push, fetch, clone and ls-remote over gix repositories and any rgit transport.

pub mod config;
pub mod push;
pub mod remote;
