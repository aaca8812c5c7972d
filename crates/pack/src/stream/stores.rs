//! Where objects lie on disk: the packs and the loose object directories of a repository and its alternates.
//!
//! gix-odb finds and decodes objects, but can say how long a packed entry is only by inflating it, and hands entries out as copies.
//! A push copies most of its bytes from packs. So the pack files are mapped here once more (the pages are shared), and a file that
//! a concurrent repack deletes stays readable as long as it is mapped.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use flate2::{Crc, Decompress, FlushDecompress, Status};
use gix_hash::oid;
use gix_odb::Store;
use gix_pack::{data, index};

use crate::Error;

pub(crate) struct Pack {
    pub(crate) index: index::File,
    path: PathBuf,
    hash: gix_hash::Kind,
    data: OnceLock<Option<Arc<data::File>>>,
}

impl Pack {
    /// The pack's data, mapped when first asked for; `None` if it is gone or unusable.
    pub(crate) fn data(&self) -> Option<&Arc<data::File>> {
        self.data
            .get_or_init(|| {
                data::File::at(self.path.with_extension("pack"), self.hash)
                    .inspect_err(|error| tracing::warn!(%error, path = %self.path.display(), "pack is not used"))
                    .ok()
                    .map(Arc::new)
            })
            .as_ref()
    }
}

/// An object in a pack.
#[derive(Clone, Copy)]
pub(crate) struct Packed {
    /// Number of the pack.
    pub(crate) pack: u32,
    /// Position in the pack's index.
    pub(crate) position: u32,
}

pub(crate) struct Stores {
    pub(crate) packs: Vec<Pack>,
    directories: Vec<PathBuf>,
}

impl Stores {
    pub(crate) fn open(store: &Store) -> Result<Self, Error> {
        let alternates = store.alternate_db_paths().map_err(|error| Error::Store {
            path: store.path().to_owned(),
            source: error.into(),
        })?;
        let directories: Vec<PathBuf> = std::iter::once(store.path().to_owned()).chain(alternates).collect();
        let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
        for directory in &directories {
            list_indices(&directory.join("pack"), &mut found)?;
        }
        // As git does: recently made packs first, they hold what is asked for most; the path makes the order total.
        found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let hash = store.object_hash();
        let packs = found
            .into_iter()
            .filter_map(|(_, path)| {
                let index = index::File::at(&path, hash)
                    .inspect_err(|error| tracing::warn!(%error, "pack index is not used"))
                    .ok()?;
                Some(Pack {
                    index,
                    path,
                    hash,
                    data: OnceLock::new(),
                })
            })
            .collect();
        Ok(Stores { packs, directories })
    }

    /// Find `id` in a pack that can be read, asking pack number `hint` first.
    pub(crate) fn locate(&self, id: &oid, hint: u32) -> Option<Packed> {
        let others = (0..self.packs.len() as u32).filter(|&pack| pack != hint);
        std::iter::once(hint).chain(others).find_map(|pack| {
            let candidate = self.packs.get(pack as usize)?;
            let position = candidate.index.lookup(id)?;
            candidate.data()?;
            Some(Packed { pack, position })
        })
    }

    /// The stored bytes of `packed`, an entry that ends at `end` or, if that is 0, where inflating it ends. `None` if they can't be
    /// read or don't have the checksum in the pack's index.
    pub(crate) fn checked_entry(&self, packed: Packed, end: u64) -> Option<(Arc<data::File>, Range<u64>)> {
        let pack = self.packs.get(packed.pack as usize)?;
        let data = pack.data()?;
        let start = pack.index.pack_offset_at_index(packed.position);
        let entry = data.entry(start).ok()?;
        let end = match end {
            0 => entry_end(data, &entry)?,
            end => end,
        };
        let mut crc = Crc::new();
        crc.update(data.entry_slice(start..end)?);
        let expected = pack.index.crc32_at_index(packed.position);
        let is_intact = expected.is_none_or(|expected| expected == crc.sum());
        is_intact.then(|| (data.clone(), entry.data_offset..end))
    }

    /// The pack and the offset of the zlib stream of `id`, if it lies in a pack as a whole object.
    pub(crate) fn whole_entry(&self, id: &oid) -> Option<(Arc<data::File>, u64)> {
        let packed = self.locate(id, 0)?;
        let pack = self.packs.get(packed.pack as usize)?;
        let data = pack.data()?;
        let entry = data.entry(pack.index.pack_offset_at_index(packed.position)).ok()?;
        entry.header.as_kind().map(|_| (data.clone(), entry.data_offset))
    }

    /// The file of a loose object and its length.
    pub(crate) fn loose(&self, id: &oid) -> Option<(PathBuf, u64)> {
        self.loose_paths(id).find_map(|path| {
            let length = fs::metadata(&path).ok()?.len();
            Some((path, length))
        })
    }

    /// Where a loose object may be.
    pub(crate) fn loose_paths(&self, id: &oid) -> impl Iterator<Item = PathBuf> {
        let hex = id.to_hex().to_string();
        self.directories.iter().map(move |directory| {
            let (fan, rest) = hex.split_at(2);
            directory.join(fan).join(rest)
        })
    }
}

fn list_indices(directory: &Path, found: &mut Vec<(SystemTime, PathBuf)>) -> Result<(), Error> {
    let error = |source: std::io::Error| Error::Store {
        path: directory.to_owned(),
        source: source.into(),
    };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(other) => return Err(error(other)),
    };
    for entry in entries {
        let entry = entry.map_err(error)?;
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "idx") {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            found.push((modified.unwrap_or(SystemTime::UNIX_EPOCH), path));
        }
    }
    Ok(())
}

/// Where an entry ends, by inflating it.
pub(crate) fn entry_end(pack: &data::File, entry: &data::Entry) -> Option<u64> {
    let rest = pack.entry_slice(entry.data_offset..pack.pack_end() as u64)?;
    let length = measure(rest, entry.decompressed_size)?;
    Some(entry.data_offset + length as u64)
}

/// How many bytes of `data` the zlib stream at its start takes, given that it inflates to `size` bytes.
fn measure(data: &[u8], size: u64) -> Option<usize> {
    let mut inflate = Decompress::new(true);
    let mut scratch = vec![0; 32 * 1024];
    loop {
        let at = usize::try_from(inflate.total_in()).ok()?;
        let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
        let status = inflate
            .decompress(data.get(at..)?, &mut scratch, FlushDecompress::None)
            .ok()?;
        if status == Status::StreamEnd {
            return (inflate.total_out() == size).then(|| usize::try_from(inflate.total_in()).ok())?;
        }
        if (before_in, before_out) == (inflate.total_in(), inflate.total_out()) || inflate.total_out() > size {
            return None;
        }
    }
}
