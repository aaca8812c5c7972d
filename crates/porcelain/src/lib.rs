//! Push, fetch, clone and ls-remote over gix repositories and any rgit transport.
//!
//! This is the room where Git's behaviour is decided: what is sent, what is asked for, which refs move. It knows no concrete
//! transport and prints nothing: callers hand in a [`Session`](rgit_smart_http::Session), progress goes to any
//! [`NestedProgress`](gix::NestedProgress), and results come back as data.
//!
//! [`bridge`] puts any transport under plain gix.

pub mod bridge;
pub mod clone;
pub mod config;
mod error;
pub mod fetch;
pub mod ls_remote;
pub mod push;
pub mod remote;

pub use error::Error;
pub use rgit_pack::Options as PackOptions;
