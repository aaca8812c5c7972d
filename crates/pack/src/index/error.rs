use std::path::PathBuf;

use gix_hash::ObjectId;

/// Why a pack could not be indexed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stream failed.
    #[error("the pack could not be read beyond its first {bytes} bytes")]
    Read {
        /// How many bytes came before.
        bytes: u64,
        /// What its reader said.
        source: std::io::Error,
    },
    /// The stream ended.
    #[error("the pack ended early, after {bytes} bytes and {entries} of {announced} objects")]
    Ended {
        /// How many bytes came.
        bytes: u64,
        /// How many objects came.
        entries: u32,
        /// How many objects were announced.
        announced: u32,
    },
    /// Bytes follow the pack's checksum.
    #[error("the pack is followed by bytes that don't belong to it")]
    Garbage,
    /// It isn't what a pack may be.
    #[error("the pack is corrupt at byte {offset}: {what}")]
    Corrupt {
        /// Where the entry in question begins.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The checksum at its end is another.
    #[error("the pack was damaged on its way: its checksum is {actual} where {expected} is announced")]
    Checksum {
        /// What stands at its end.
        expected: ObjectId,
        /// What its bytes amount to.
        actual: ObjectId,
    },
    /// Deltas without bases.
    #[error("the pack has {deltas} deltas whose bases are neither in it nor here")]
    Unresolved {
        /// How many.
        deltas: usize,
    },
    /// An object can't be named.
    #[error("the object at byte {offset} of the pack can't be named")]
    Name {
        /// Where its entry begins.
        offset: u64,
        /// Why: it may be part of an attack on SHA-1.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A base that is here can't be read.
    #[error("object {id}, on which the pack builds, can't be read; `git fsck` tells whether it is damaged")]
    Base {
        /// Its name.
        id: ObjectId,
        /// What the object database said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An object is larger than there is memory for.
    #[error("the object at byte {offset} of the pack has {bytes} bytes, too many to hold in memory")]
    TooLarge {
        /// Where its entry begins.
        offset: u64,
        /// Its size.
        bytes: u64,
    },
    /// A file can't be used.
    #[error("{}: cannot {doing}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A thread can't be had.
    #[error("a thread that {task} could not be used")]
    Thread {
        /// What for.
        task: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(super) fn corrupt(offset: u64, what: &'static str) -> Self {
        Error::Corrupt { offset, what }
    }
}
