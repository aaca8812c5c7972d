//! Small packs become loose objects, as with `git unpack-objects`: a repository that fetches often would soon hold more packs than are
//! good to look through.
//!
//! The pack stays in its place until all its objects are in theirs, so that nothing is lost whenever this ends.

use std::{
    fs::{self, File},
    sync::atomic::{AtomicBool, Ordering},
};

use gix::{objs::Write as _, odb::pack};
use rgit_pack::index::Indexed;

use super::receive;
use crate::{Error, config::Fsync};

/// Without `core.bigFileThreshold`.
const BIG: u64 = 512 << 20;

/// Write all objects of the pack that came. `false` if it is better left as it is.
///
/// Whether one is here already is not asked: the answer could come from the pack that is about to go.
pub(super) fn loosen(
    repo: &gix::Repository,
    indexed: &Indexed,
    sync: bool,
    interrupt: &AtomicBool,
) -> Result<bool, Error> {
    let failed = |source: gix::Error| Error::git("unpacking what was received", source);
    let bundle = pack::Bundle::at(&indexed.index, repo.object_hash()).map_err(failed)?;
    let big = repo
        .config_snapshot()
        .integer("core.bigFileThreshold")
        .and_then(|bytes| u64::try_from(bytes).ok())
        .unwrap_or(BIG);
    let mut inflate = Default::default();
    let mut fresh: Vec<_> = bundle.index.iter().collect();
    fresh.sort_by_key(|entry| entry.pack_offset);
    // Behind what came lie the bases of a thin pack, which are copies of what is here.
    fresh.truncate(indexed.received as usize);
    for entry in &fresh {
        let entry = bundle.pack.entry(entry.pack_offset).map_err(failed)?;
        // git streams these. Here an object is held as a whole.
        if entry.decompressed_size >= big {
            return Ok(false);
        }
    }
    let mut data = Vec::new();
    for found in &fresh {
        if interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let object = bundle
            .find(&found.oid, &mut data, &mut inflate, &mut pack::cache::Never)
            .map_err(failed)?
            .ok_or_else(|| Error::git("unpacking what was received", format!("object {} is gone", found.oid)))?;
        repo.objects.write_buf(object.0.kind, object.0.data).map_err(failed)?;
        if sync {
            let hex = found.oid.to_string();
            let (folder, name) = hex.split_at(2);
            let path = repo.objects.store_ref().path().join(folder).join(name);
            File::open(&path)
                .and_then(|file| file.sync_all())
                .map_err(|source| Error::Write { path, source })?;
        }
    }
    Ok(true)
}

/// What stays a pack after all must be on the disk.
pub(super) fn sync(indexed: &Indexed, fsync: Fsync) -> Result<(), Error> {
    for path in receive::files(indexed) {
        let wanted = if path == indexed.pack {
            fsync.pack
        } else {
            fsync.pack_metadata
        };
        if wanted && fs::exists(&path).unwrap_or(false) {
            File::open(&path)
                .and_then(|file| file.sync_all())
                .map_err(|source| Error::Write { path, source })?;
        }
    }
    Ok(())
}
