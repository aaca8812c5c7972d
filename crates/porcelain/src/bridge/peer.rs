//! Whom a fetch speaks to.

use bstr::BStr;
use rgit_smart_http::Session;

use super::Local;

/// Whom to speak to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Peer {
    /// A server of smart HTTP.
    Http(Box<Session>),
    /// A repository on this machine.
    Local(Local),
}

impl Peer {
    /// Its URL, without user and password.
    pub fn url(&self) -> &BStr {
        match self {
            Peer::Http(session) => session.url().into(),
            Peer::Local(local) => local.url(),
        }
    }
}

impl From<Session> for Peer {
    fn from(session: Session) -> Self {
        Peer::Http(Box::new(session))
    }
}

impl From<Local> for Peer {
    fn from(local: Local) -> Self {
        Peer::Local(local)
    }
}
