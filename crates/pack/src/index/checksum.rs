//! The checksum over a pack or an index.

use gix_hash::{Hasher, ObjectId, hasher};
use sha1::Digest;

use super::Error;

/// SHA-1 without the search for collision attacks, which takes three times as long: this is no object's name. Two packs made to
/// have one checksum would share a file name, so that the second isn't stored; that its objects are missing is found out then.
#[derive(Clone)]
pub(super) enum Checksum {
    Sha1(sha1::Sha1),
    Other(Hasher),
}

impl Checksum {
    pub(super) fn new(hash: gix_hash::Kind) -> Self {
        match hash {
            gix_hash::Kind::Sha1 => Checksum::Sha1(sha1::Sha1::new()),
            other => Checksum::Other(hasher(other)),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Checksum::Sha1(sha1) => sha1.update(bytes),
            Checksum::Other(hasher) => hasher.update(bytes),
        }
    }

    pub(super) fn finish(self) -> Result<ObjectId, Error> {
        match self {
            Checksum::Sha1(sha1) => Ok(ObjectId::Sha1(sha1.finalize().into())),
            Checksum::Other(hasher) => hasher.try_finalize().map_err(|err| Error::Name {
                offset: 0,
                source: err.into(),
            }),
        }
    }
}
