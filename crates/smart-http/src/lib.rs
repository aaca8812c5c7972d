//! A session with one repository URL over smart HTTP: discovery, redirects, credentials, posts.
//!
//! This room turns "this repository, that service" into HTTP exchanges as gitprotocol-http(5) describes them, and hands back bodies
//! of which only the first bytes were looked at. It owns the URL (joining, re-rooting, never showing a password), the headers,
//! redirects, the 401 dialogue with git's credential helpers, and the choice between `content-length` and chunks.
//!
//! It refuses to know how bytes travel (any [`Transport`](rgit_transport::Transport) will do), what pkt-lines mean, where
//! configuration comes from, and how things are shown to people.
//!
//! Calls, in order: [`Session::new`], [`Session::discover`], then [`Session::post`] as often as the protocol needs.
//!
//! What a server wrote is hostile until proven otherwise: texts are bounded and pass [`mask_control`] before they appear in an
//! error, and passwords, tokens and extra headers go to the one origin they were meant for, never into an error, a `Debug` or a
//! trace.

mod authenticate;
mod credentials;
mod discovery;
mod error;
mod git_credentials;
mod headers;
mod lasting;
mod options;
mod post;
mod redirect;
mod secret;
mod session;
mod text;
mod trace;
mod url;

pub use credentials::{CredentialRequest, Credentials, CredentialsError, Identity, NoCredentials};
pub use discovery::Discovery;
pub use error::{Error, Unauthenticated};
pub use git_credentials::GitCredentials;
pub use lasting::{is_capability_advertisement, is_git_answer, repository_of};
pub use options::{FollowRedirects, Options, Service};
pub use post::Reply;
pub use session::{Exchange, Session};
pub use text::mask_control;
