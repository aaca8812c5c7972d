//! What was remembered of a server may be wrong by now.

use std::{
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{Bridge, Carrier, lock};
use crate::Error;

impl Bridge {
    /// Come to know the remote's refs by `ask`, from the handshake on. Where it fails after a handshake that a daemon remembered, in a way
    /// that may come of the server having become another, once more, with the server's own words.
    pub(crate) fn doubting<T>(&mut self, mut ask: impl FnMut(&mut Bridge) -> Result<T, Error>) -> Result<T, Error> {
        match ask(self) {
            Err(err) if err.is_contradiction() && !self.broken.load(Ordering::SeqCst) && self.doubt() => ask(self),
            outcome => outcome,
        }
    }

    fn doubt(&mut self) -> bool {
        let Carrier::Http(session) = &self.carrier else {
            return false;
        };
        let doubts = lock(session).doubt();
        if doubts {
            // Of the conversation that failed nothing is to be read on.
            (self.lines, self.recording, self.prefetched) = (None, None, None);
        }
        doubts
    }
}

/// An answer that tells when it breaks off: then it says nothing of the server.
pub(super) struct Watched<R> {
    pub(super) reply: R,
    pub(super) broken: Arc<AtomicBool>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.reply.read(buf);
        if read.as_ref().is_err_and(|err| err.kind() != io::ErrorKind::Interrupted) {
            self.broken.store(true, Ordering::SeqCst);
        }
        read
    }
}

impl Error {
    fn is_contradiction(&self) -> bool {
        match self {
            Error::Session(err) => err.is_contradiction(),
            // What came can't be understood, is the server's own word for an error, or belongs to another kind of repository.
            Error::Git { .. } | Error::ObjectFormat { .. } => true,
            _ => false,
        }
    }
}
