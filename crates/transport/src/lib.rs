//! The one trait every rgit transport implements, and the nouns it speaks of.
//!
//! A transport carries **one HTTP exchange**: a request in, an answer out. It knows methods, headers and bytes, and nothing of Git,
//! of credentials, redirects, cookies or content codings: those are the session's work (`rgit-smart-http`). What lies below
//! (sockets, TLS, HTTP/1.1 or HTTP/2 framing, a daemon) is each implementation's own.
//!
//! # What an implementation promises
//!
//! The conformance suite (`tests/conformance`) is mounted under every transport and checks these:
//!
//! 1. **Any HTTP status is an answer.** `Err` means that no answer arrived, and [`Error`] says at which [`Stage`] and how many body
//!    bytes had been sent.
//! 2. **An answer that refuses comes through at any body size.** A final status of 300 or more that arrives before the request body
//!    is finished is returned, and the rest of the body is not sent. A 2xx that arrives early is no refusal: `git receive-pack`
//!    reports progress while it still reads a pack, and to stop then would lose the push. Sending goes on, and the answer is
//!    returned once the body is through (or as soon as the peer will take no more of it).
//! 3. **Reading an [`Answer`] to its end frees the connection for reuse;** dropping it early closes or resets only that exchange.
//!    A connection that was authenticated ([`authenticates_connection`]) is not reused.
//! 4. **Only what the server provably did not process is sent again,** or what may be processed twice (safe methods, and what its
//!    sender calls [`Repeatable`]), and only when the [`Body`] can be replayed. Only what its sender calls [`Early`] goes out before a
//!    connection's handshake is through.
//! 5. **No redirects, cookies, credentials, decoding.** Headers go out as given; the transport adds only what frames the message
//!    (`host`, `content-length` or `transfer-encoding`).
//! 6. **How it travelled rides along** as [`Wire`] in the response's extensions.
//! 7. **Threads may share one transport.** Timeouts are idle timeouts: no byte moved for so long. None caps a whole transfer.
//! 8. **An exchange can be ended from outside** by its [`Cancel`].

mod answer;
mod authenticated;
mod body;
mod brief;
mod cancel;
mod early;
mod error;
mod held;
mod rememberable;
mod repeatable;
mod token;
mod wire;

pub use answer::Answer;
pub use authenticated::authenticates_connection;
pub use body::Body;
pub use brief::Brief;
pub use cancel::Cancel;
pub use early::Early;
pub use error::{Error, Stage};
pub use held::Held;
pub use rememberable::Rememberable;
pub use repeatable::Repeatable;
pub use token::has_token;
pub use wire::{EarlyData, PeerSettings, Wire};

/// Carries HTTP exchanges to whatever origin the request's absolute URI names. See the crate's front page for the promises.
pub trait Transport: std::fmt::Debug + Send + Sync {
    /// Send `request` and return the head of its answer, with the body to be read from the [`Answer`].
    ///
    /// The request's URI must be absolute (`http` or `https`). A `content-length` header given by the caller must agree with the
    /// body's known length; without one the body's own [`Body::length`] decides the framing.
    ///
    /// # Errors
    /// When no answer arrived; the error tells the stage. A status such as 404 is no error here.
    fn exchange(&self, request: http::Request<Body<'_>>) -> Result<http::Response<Answer>, Error>;
}

impl<T: Transport + ?Sized> Transport for std::sync::Arc<T> {
    fn exchange(&self, request: http::Request<Body<'_>>) -> Result<http::Response<Answer>, Error> {
        (**self).exchange(request)
    }
}
