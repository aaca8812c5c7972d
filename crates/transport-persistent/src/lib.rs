//! A daemon that keeps connections warm between invocations, and the transport that rides it.
//!
//! This room owns the hop between the two, who may take part in it, how a daemon comes and goes, and what it remembers. It refuses to
//! know what servers are spoken to by: the [`Daemon`] is handed its [`Upstream`]s, and HTTP/1.1 on the hop is `rgit-transport-h1`'s. It
//! cannot spell "ref" either: a [`Judge`] tells it which answers last. It is there on Unix only.
//!
//! # The hop
//! HTTP/1.1 over a Unix socket, a connection for each exchange under way.
//! 1. The daemon says `rgit-hop 1` and a line feed. A connection that ends without that leads to a daemon that is going: the client comes to
//!    another, starting it where it may, before it has touched its request's body.
//! 2. The client sends its request with the whole URI in the request line, its [`Profile`] in `rgit-hop-profile`, and in `rgit-hop-ask` what
//!    may be done with the request: process it twice, ask for its body once more, remember its answer.
//! 3. The daemon says 102 before it acts. So a hop that ends without a word has done nothing, and the request may be sent again by another.
//! 4. Bodies stream both ways, each piece as it comes. A refusal that comes early ends the client's upload as on any other way.
//! 5. A server's answer has `rgit-hop-wire`, which is how it travelled. Whatever its own framing was (`rgit-hop-framing` tells), on the hop
//!    it is chunked, and whole only when the trailer's `rgit-hop-end` says so: otherwise that says what broke it off.
//! 6. Where no answer came, `rgit-hop-error` says at which stage and after how many bytes, and the body has the causes, a line each. An
//!    attempt that needs the body once more is asked for in the same way: the daemon keeps no bodies.
//!
//! Headers that begin with `rgit-hop-` are taken out of what callers and servers send, so that neither can pretend.
//!
//! # Coming and going
//! Under a lock, who finds no daemon makes the socket and hands it to the daemon it starts; so of many who race one starts it, and nobody
//! waits by the clock. A daemon goes when it is told to, when nobody came for long, and when another program lies where it was started
//! from: it removes its socket, closes without a word on those who come meanwhile, and finishes what it had begun. What was begun for a
//! client that goes is ended within a second, even while the server is silent.
//!
//! # Whom it trusts
//! The socket's directory belongs to the user alone, or isn't used. On Linux both ends check that the other is of the same user. Requests
//! with their passwords pass through and are kept nowhere; of headers there is a keyed hash where an answer is remembered.
//! Connections are shared within one profile; the file of trusted authorities counts with its inode and time, not by its name alone.
#![cfg(unix)]

mod ask;
mod callers;
mod client;
mod clients;
mod control;
mod daemon;
mod error;
mod fields;
mod handover;
mod memory;
mod place;
mod profile;
mod serve;
mod settings;
mod start;
mod upstreams;

pub use ask::{start, status, stop};
pub use client::Persistent;
pub use daemon::{Daemon, Handle, Left};
pub use error::Error;
pub use memory::Judge;
pub use place::SocketPath;
pub use profile::{Profile, Road};
pub use settings::Settings;
pub use start::Program;
pub use upstreams::{Factory, Upstream};
