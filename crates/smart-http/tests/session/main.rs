//! The session's public face against a transport that follows a script.
#![allow(missing_docs)]

mod authentication;
mod discovery;
mod posts;
mod redirects;
mod script;
