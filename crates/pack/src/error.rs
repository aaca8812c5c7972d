use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use gix_hash::ObjectId;
use gix_object::Kind;

pub(crate) type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Why no pack could be made. Each names the object or file it is about, so that a user can act on it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An object that must be sent is not in the object database.
    #[error("{role} {id} must be sent but is missing from the object database; `git fsck` shows what else is")]
    Missing {
        /// The absent object.
        id: ObjectId,
        /// What the object was needed as.
        role: &'static str,
    },
    /// An object is there, but its stored form can't be read.
    #[error("object {id} can't be read from the object database; `git fsck` tells whether it is damaged")]
    Unreadable {
        /// The object asked for.
        id: ObjectId,
        /// What the object database said.
        #[source]
        source: Source,
    },
    /// An object was read, but its bytes are not what they claim to be.
    #[error("object {id} is damaged: {what}; restore it from another copy of the repository")]
    Corrupt {
        /// The damaged object.
        id: ObjectId,
        /// What is wrong with it.
        what: &'static str,
    },
    /// An object has another type than what refers to it says.
    #[error("object {id} is a {actual} where a {expected} is expected; the repository is damaged, see `git fsck`")]
    WrongKind {
        /// The object in question.
        id: ObjectId,
        /// The type its referrer gives it.
        expected: Kind,
        /// The type it was stored with.
        actual: Kind,
    },
    /// A directory or file of the object database can't be used.
    #[error("{}: the object database can't be read here", path.display())]
    Store {
        /// What was opened or listed.
        path: PathBuf,
        /// Why that failed.
        #[source]
        source: Source,
    },
    /// The pack format counts objects with 32 bits.
    #[error("{objects} objects are more than one pack can hold; push fewer refs at once")]
    TooManyObjects {
        /// How many were to be sent.
        objects: usize,
    },
    /// The deflate level asked for does not exist.
    #[error("compression level {level} is not in -1..=9; check pack.compression and core.compression")]
    Level {
        /// The rejected level.
        level: i32,
    },
    /// The trailer could not be computed: the hash detected a collision attack.
    #[error("the pack's trailing checksum can't be computed")]
    Trailer {
        /// What the hasher said.
        #[source]
        source: Source,
    },
    /// A thread of the pipeline could not be started, or died.
    #[error("a thread that {task} failed")]
    Thread {
        /// What the thread was for.
        task: &'static str,
        /// Why, where known.
        #[source]
        source: std::io::Error,
    },
    /// The caller's interrupt flag was raised.
    #[error("making the pack was interrupted")]
    Interrupted,
    /// A reader was read again after it had failed.
    #[error("the pack broke off with an earlier error; make a new reader to start over")]
    Ended,
}

impl Error {
    pub(crate) fn unreadable(id: &gix_hash::oid, source: impl Into<Source>) -> Error {
        Error::Unreadable {
            id: id.to_owned(),
            source: source.into(),
        }
    }

    pub(crate) fn corrupt(id: &gix_hash::oid, what: &'static str) -> Error {
        Error::Corrupt {
            id: id.to_owned(),
            what,
        }
    }
}

impl From<Error> for std::io::Error {
    /// Never of kind `Interrupted`: readers take that as a wish to be called again.
    fn from(error: Error) -> Self {
        std::io::Error::other(error)
    }
}

/// Every stage asks this between two objects.
pub(crate) fn check(interrupt: &AtomicBool) -> Result<(), Error> {
    if interrupt.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    Ok(())
}
