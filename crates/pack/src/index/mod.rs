//! A pack that arrives: written to disk, checked, and indexed while it is still on its way.
//!
//! Owns the way from a stream of bytes to a `.pack`, `.idx` and `.rev` in an object database, as `git index-pack --stdin --fix-thin`
//! goes it. gix-pack has that too, in two passes: it looks for the ends of entries while bytes arrive, and inflates and names all
//! objects after the last. On a slow link that leaves the processor idle, and the user waiting at the end. Here entries are inflated once, as they
//! come; other threads name whole objects and apply deltas meanwhile, from a bounded cache of what came before (`resolve`). Writers
//! put a delta behind its base and near it, so little is left when the stream ends; what is left is read back and resolved in an
//! order that bounds what must be held (`remaining`).
//!
//! The stream is hostile: no size it claims is allocated before that many bytes came, deltas are checked before they are applied,
//! and nothing is visible in the object database before all of it is proven and, if [`Options::sync`] says so, on disk.
//!
//! Refuses: protocols, refs, configuration, and whether the pack has all that its objects refer to.

mod cache;
mod checksum;
mod complete;
mod delta;
mod entry;
mod error;
mod input;
mod place;
mod read_back;
mod receive;
mod remaining;
mod resolve;
#[cfg(test)]
mod tests;
mod write;

use std::{
    io::Read,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use gix_hash::ObjectId;
use gix_object::Find;
use prodash::DynNestedProgress;

pub use error::Error;

/// How to index. The default is what git does without configuration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The hash that names objects.
    pub hash: gix_hash::Kind,
    /// How many threads at most, the caller's included; `None` takes as many as there are processors.
    pub threads: Option<usize>,
    /// What is flushed to the disk before it becomes visible.
    pub sync: Sync,
    /// A pack with fewer objects is not flushed, as it won't stay.
    pub unsynced_below: u32,
}

/// What must be on the disk, not only in the system's cache, before the pack is visible (`core.fsync`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sync {
    /// The pack.
    pub pack: bool,
    /// Its indices.
    pub metadata: bool,
}

impl Sync {
    /// Flush the pack, its indices, both or nothing.
    pub fn new(pack: bool, metadata: bool) -> Self {
        Sync { pack, metadata }
    }
}

impl Options {
    /// As git without configuration, where objects are named by `hash`.
    pub fn new(hash: gix_hash::Kind) -> Self {
        Options {
            hash,
            threads: None,
            sync: Sync::new(true, true),
            unsynced_below: 0,
        }
    }

    /// Use so many threads at most; 0 and `None` are as many as there are processors.
    pub fn threads(mut self, threads: Option<usize>) -> Self {
        self.threads = threads.filter(|threads| *threads > 0);
        self
    }

    /// Flush so much to the disk before the pack is visible.
    pub fn sync(mut self, sync: Sync) -> Self {
        self.sync = sync;
        self
    }

    /// Don't flush packs with fewer objects than these: the caller unpacks them.
    pub fn unsynced_below(mut self, objects: u32) -> Self {
        self.unsynced_below = objects;
        self
    }
}

/// A pack in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Indexed {
    /// How many objects came.
    pub received: u32,
    /// How many bases of deltas were added from the object database, because the pack was thin.
    pub added: u32,
    /// The checksum at the pack's end, which also names it.
    pub checksum: ObjectId,
    /// The pack.
    pub pack: PathBuf,
    /// Its index.
    pub index: PathBuf,
    /// A `.keep` file that guards both from `git gc` until refs lead to what they hold, for the caller to remove. `None` where
    /// the same pack was here already.
    pub keep: Option<PathBuf>,
}

/// Read one pack from `pack` to its end, and put it with its indices into `directory`, the `pack` directory of an object database.
/// Deltas whose bases are not in the pack find them in `bases`. `None` is returned for a pack without objects: nothing is written.
///
/// # Errors
/// When the stream fails, ends early, goes on too long or is no pack; when a delta has no base; when a file can't be written; when
/// `interrupt` is set. Nothing is left in `directory` then.
pub fn index_pack<F>(
    pack: &mut dyn Read,
    directory: &Path,
    bases: F,
    options: &Options,
    progress: &mut dyn DynNestedProgress,
    interrupt: &AtomicBool,
) -> Result<Option<Indexed>, Error>
where
    F: Find + Clone + Send,
{
    index_within(LIMITS, pack, directory, bases, options, progress, interrupt)
}

/// What is held in memory at most.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// What is larger isn't held when it comes: whole objects are named in passing, deltas read back later.
    large: u64,
    /// Objects that deltas to come may build on. On a pack of 233,000 objects twice as much saves no processor time, as what is missing
    /// is read back.
    cache: usize,
    /// Deltas that wait for bases that are being worked on.
    waiting: usize,
}

const LIMITS: Limits = Limits {
    large: 4 << 20,
    cache: 8 << 20,
    waiting: 8 << 20,
};

fn index_within<F>(
    limits: Limits,
    pack: &mut dyn Read,
    directory: &Path,
    bases: F,
    options: &Options,
    progress: &mut dyn DynNestedProgress,
    interrupt: &AtomicBool,
) -> Result<Option<Indexed>, Error>
where
    F: Find + Clone + Send,
{
    let threads = options
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
        .clamp(1, 64);
    let mut placed = place::Temporary::pack(directory)?;
    let received = receive::receive(
        limits,
        pack,
        placed.writer()?,
        bases.clone(),
        options.hash,
        threads,
        progress,
        interrupt,
    )?;
    let Some(mut received) = received else { return Ok(None) };
    remaining::resolve(&mut received, placed.path(), &bases, threads, interrupt)?;
    let objects = received.entries.len() as u32;
    let checksum = complete::complete(&mut received, placed.writer()?, &bases)?;
    let sync = if objects < options.unsynced_below {
        Sync::new(false, false)
    } else {
        options.sync
    };
    if sync.pack {
        placed.sync()?;
    }
    let index = write::index(directory, &received.entries, &checksum, options.hash, sync)?;
    let (pack, index, keep) = place::publish(directory, &checksum, placed, index)?;
    Ok(Some(Indexed {
        received: objects,
        added: received.entries.len() as u32 - objects,
        checksum,
        pack,
        index,
        keep,
    }))
}
