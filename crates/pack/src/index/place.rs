//! Files in the object database: temporary ones under names that `git gc` knows and removes, and their final places.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use gix_hash::ObjectId;
use gix_tempfile::{AutoRemove, ContainingDirectory, Handle, handle::Writable};

use super::Error;

/// A file that goes when it is dropped, or when a signal ends the process.
pub(super) struct Temporary {
    handle: Handle<Writable>,
    path: PathBuf,
}

/// What writes a temporary file.
pub(super) struct Writer {
    pub(super) file: File,
    pub(super) path: PathBuf,
}

impl Temporary {
    pub(super) fn pack(directory: &Path) -> Result<Temporary, Error> {
        Self::new(directory, "tmp_pack")
    }

    pub(super) fn new(directory: &Path, kind: &str) -> Result<Temporary, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mut last = None;
        for _ in 0..100 {
            let nanos = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.subsec_nanos());
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = directory.join(format!("{kind}_{:x}_{number:x}_{nanos:x}", std::process::id()));
            match gix_tempfile::writable_at(&path, ContainingDirectory::Exists, AutoRemove::Tempfile) {
                Ok(handle) => return Ok(Temporary { handle, path }),
                Err(err) if err.kind() == io::ErrorKind::AlreadyExists => last = Some(err),
                Err(source) => {
                    return Err(Error::File {
                        doing: "create it",
                        path,
                        source,
                    });
                }
            }
        }
        Err(Error::File {
            doing: "create a temporary file",
            path: directory.to_owned(),
            source: last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn with<T>(&mut self, doing: &'static str, act: impl FnOnce(&File) -> io::Result<T>) -> Result<T, Error> {
        self.handle
            .with_mut(|file| act(file.as_file()))
            .and_then(|result| result)
            .map_err(|source| Error::File {
                doing,
                path: self.path.clone(),
                source,
            })
    }

    /// Another handle on the file.
    pub(super) fn writer(&mut self) -> Result<Writer, Error> {
        let file = self.with("open it", File::try_clone)?;
        Ok(Writer {
            file,
            path: self.path.clone(),
        })
    }

    /// Wait until the file is on the disk.
    pub(super) fn sync(&mut self) -> Result<(), Error> {
        self.with("flush it to the disk", File::sync_all)
    }

    fn publish(self, path: &Path) -> Result<(), Error> {
        self.handle.persist(path).map(|_| ()).map_err(|err| Error::File {
            doing: "give it its place",
            path: path.to_owned(),
            source: err.error,
        })
    }
}

/// Put the pack and its indices into their places, the index last, as that makes the pack visible.
pub(super) fn publish(
    directory: &Path,
    checksum: &ObjectId,
    pack: Temporary,
    [index, reverse]: [Temporary; 2],
) -> Result<(PathBuf, PathBuf, Option<PathBuf>), Error> {
    let place = |extension: &str| directory.join(format!("pack-{checksum}.{extension}"));
    let (pack_path, index_path) = (place("pack"), place("idx"));
    let mut keep = None;
    if !pack_path.is_file() {
        let path = place("keep");
        File::create(&path)
            .and_then(|mut file| file.write_all(b"fetch\n"))
            .map_err(|source| Error::File {
                doing: "create it",
                path: path.clone(),
                source,
            })?;
        let guard = keep.insert(path);
        if let Err(err) = pack.publish(&pack_path) {
            let _ = fs::remove_file(guard);
            return Err(err);
        }
    }
    if !index_path.is_file() {
        let placed = reverse.publish(&place("rev")).and_then(|()| index.publish(&index_path));
        if let Err(err) = placed {
            if let Some(keep) = &keep {
                for path in [&pack_path, &place("rev"), keep] {
                    let _ = fs::remove_file(path);
                }
            }
            return Err(err);
        }
    }
    Ok((pack_path, index_path, keep))
}
