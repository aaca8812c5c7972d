//! Test support: a real git http-backend behind an HTTP/1.1 and HTTP/2 server, scripted servers, a delaying relay. Never shipped.

pub mod certificate;
pub mod history;
pub mod meter;
pub mod repository;
