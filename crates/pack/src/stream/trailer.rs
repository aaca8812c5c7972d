//! The checksum over the pack, at its end. For packs of any size it has a thread of its own, off the path between disk and network.

use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};
use gix_hash::{Hasher, ObjectId, hasher};
use sha1::Digest;

use crate::Error;

/// Handed to the thread at a time; a pack that fits is hashed without one.
const BUFFER: usize = 256 * 1024;
/// Buffers on their way.
const BUFFERS: usize = 3;

pub(crate) struct Trailer {
    hash: gix_hash::Kind,
    buffer: Vec<u8>,
    thread: Option<Thread>,
}

struct Thread {
    full: Sender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    handle: JoinHandle<Checksum>,
}

/// SHA-1 without the search for collision attacks: these bytes are our own, and whoever receives them looks anyway.
enum Checksum {
    Sha1(sha1::Sha1),
    Other(Hasher),
}

impl Checksum {
    fn new(hash: gix_hash::Kind) -> Self {
        match hash {
            gix_hash::Kind::Sha1 => Checksum::Sha1(sha1::Sha1::new()),
            other => Checksum::Other(hasher(other)),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Checksum::Sha1(sha1) => sha1.update(bytes),
            Checksum::Other(hasher) => hasher.update(bytes),
        }
    }

    fn finish(self) -> Result<ObjectId, Error> {
        match self {
            Checksum::Sha1(sha1) => Ok(ObjectId::Sha1(sha1.finalize().into())),
            Checksum::Other(hasher) => hasher
                .try_finalize()
                .map_err(|error| Error::Trailer { source: error.into() }),
        }
    }
}

impl Trailer {
    pub(crate) fn new(hash: gix_hash::Kind) -> Self {
        Trailer {
            hash,
            buffer: Vec::new(),
            thread: None,
        }
    }

    pub(crate) fn update(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            if self.buffer.len() == BUFFER {
                self.send()?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(BUFFER - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<ObjectId, Error> {
        let mut checksum = match self.thread.take() {
            None => Checksum::new(self.hash),
            Some(Thread { full, handle, .. }) => {
                drop(full);
                handle.join().map_err(|_| lost())?
            }
        };
        checksum.update(&self.buffer);
        checksum.finish()
    }

    fn send(&mut self) -> Result<(), Error> {
        let thread = match &mut self.thread {
            Some(thread) => thread,
            none => none.insert(start(self.hash)?),
        };
        let fresh = thread.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BUFFER));
        let full = std::mem::replace(&mut self.buffer, fresh);
        thread.full.send(full).map_err(|_| lost())
    }
}

impl Drop for Trailer {
    fn drop(&mut self) {
        if let Some(Thread { full, handle, .. }) = self.thread.take() {
            drop(full);
            // It only hashes what is left in the channel.
            let _ = handle.join();
        }
    }
}

fn start(hash: gix_hash::Kind) -> Result<Thread, Error> {
    let (full, incoming) = bounded::<Vec<u8>>(BUFFERS);
    let (used, empty) = bounded(BUFFERS + 2);
    let handle = thread::Builder::new()
        .name("pack-trailer".into())
        .spawn(move || {
            let mut checksum = Checksum::new(hash);
            for mut buffer in incoming {
                checksum.update(&buffer);
                buffer.clear();
                let _ = used.try_send(buffer);
            }
            checksum
        })
        .map_err(|source| Error::Thread {
            task: "hashes the pack",
            source,
        })?;
    Ok(Thread { full, empty, handle })
}

fn lost() -> Error {
    Error::Thread {
        task: "hashes the pack",
        source: std::io::Error::other("it panicked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_digest_with_and_without_a_thread() {
        for hash in [gix_hash::Kind::Sha1, gix_hash::Kind::Sha256] {
            for length in [0, 5, BUFFER, BUFFER + 1, 7 * BUFFER + 3] {
                let bytes: Vec<u8> = (0..length).map(|n| (n % 253) as u8).collect();
                let mut trailer = Trailer::new(hash);
                for part in bytes.chunks(100_000) {
                    trailer.update(part).unwrap();
                }
                assert_eq!(trailer.thread.is_some(), length > BUFFER);
                let mut expected = hasher(hash);
                expected.update(&bytes);
                assert_eq!(trailer.finish().unwrap(), expected.try_finalize().unwrap(), "{length}");
            }
        }
    }
}
