//! Test support: a real git http-backend behind an HTTP/1.1 and HTTP/2 server, scripted servers, a delaying relay. Never shipped.
//!
//! | Room | What a test gets from it |
//! |---|---|
//! | [`server`] | [`GitServer`](server::GitServer): `git http-backend` over http and https, with authentication, windows, a request log |
//! | [`reply`] | answers that take the backend's place: refusals, redirects, cut bodies, gates |
//! | [`certificate`] | [`Authority`](certificate::Authority): a throw-away certificate authority |
//! | [`repository`] | [`Git`](repository::Git): the hermetic referee, and comparisons of two repositories |
//! | [`history`] | repositories to move: small, odd, long, wide, incompressible |
//! | [`scripted`] | servers whose connections follow a script of reads, writes and misdeeds |
//! | [`early`] | an HTTPS server that takes TLS 1.3 early data, and tells which requests came so |
//! | [`frames`] | HTTP/2 peers that send and receive frame by frame |
//! | [`bulk`] | an HTTP/2 server for benches: drops uploads, makes downloads |
//! | [`relay`] | [`Relay`](relay::Relay): a link with a round trip, a rate and faults |
//! | [`tally`] | [`Frames`](tally::Frames): how many DATA frames of HTTP/2 a server has seen, and how large they were |
//! | [`meter`] | wall time, CPU and anonymous memory of a child process |
//!
//! Everything listens on loopback at a port the system picks, keeps its files in its own temporary directory, reads no
//! configuration of the user or the machine, and ends with its owner: dropping a server kills and reaps its children.
//!
//! What only a test can call panics instead of returning an error when the machine can't do it (no `git`, no disk): a
//! test has nothing better to do. Starting a server or a relay returns an error, because benches and `xtask` do too.

mod backend;
mod body;
pub mod bulk;
pub mod certificate;
mod connection;
pub mod early;
pub mod frames;
pub mod history;
mod listener;
pub mod meter;
pub mod relay;
pub mod reply;
pub mod repository;
pub mod requests;
pub mod scripted;
pub mod server;
mod service;
pub mod tally;
