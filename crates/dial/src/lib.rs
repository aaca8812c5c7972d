//! How a connection to an origin comes to be: its name, TCP, TLS.
//!
//! This room owns sockets, trust and TLS configuration, for HTTP/1.1 and HTTP/2 alike. It knows nothing of HTTP messages: it hands out
//! a [`Connection`], a non-blocking stream of plaintext bytes with a [`wait`](Connection::wait) of its own, and refuses to retry,
//! pool or multiplex: those are the transports' work.
//!
//! # A dial, straight through
//! 1. [`Origin`] is taken from an absolute `http` or `https` URI; user and password in it are dropped here and go nowhere.
//! 2. The name is resolved by the system's resolver, on the calling thread, within the resolver's own time limits.
//! 3. TCP: addresses of both families take turns and race, each with a head start of 250 ms (RFC 8305, sections 4 and 5), in one
//!    `poll` loop without threads. The first to connect wins; [`Settings::connect_timeout`] covers this and the next step together.
//! 4. TLS, for `https`: rustls, with the protocols the caller offers by [`Alpn`]. By [`Dialer::dial_early`], what is to be said first can
//!    go along (RFC 8446, section 2.3), if the peer gave a ticket for that to this same [`Dialer`].
//!
//! # Trust
//! Root certificates are read at the first TLS handshake and never for `http`. Where the system keeps its roots as one PEM bundle
//! (nearly every Unix), only that file is read: Debian's 144 roots take 0.7 ms, against 3 ms for the directory of one file and two
//! links for each certificate. `SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured. macOS and Windows have no such
//! file, so `rustls-native-certs` asks their stores. A platform verifier was not chosen: it would verify differently on each system
//! and could not be told to trust *only* [`Settings::ca_file`], which replaces the system's roots as git's `http.sslCAInfo` does.
//!
//! # Cryptography
//! Cargo feature `ring` (default) or `graviola`; with both, `ring` is used. The provider is passed explicitly, so that a program's
//! process-wide rustls default neither matters nor changes.

#[cfg(not(any(feature = "ring", feature = "graviola")))]
compile_error!("rgit-dial needs a cryptography provider: enable the cargo feature `ring` or `graviola`");

mod connection;
mod dialer;
mod early;
mod error;
mod origin;
mod race;
mod roots;
mod settings;
mod tls;
mod trust;

pub use connection::{Connection, Interest, Ready};
pub use dialer::{Alpn, Dialer};
pub use early::Early;
pub use error::Error;
pub use origin::{Origin, Scheme};
pub use settings::{Settings, Verify};
