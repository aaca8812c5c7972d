//! The index of a pack, and the one from positions to names (gitformat-pack(5), "pack-*.idx" version 2 and "pack-*.rev").

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use gix_hash::ObjectId;

use super::{Error, Sync, checksum::Checksum, entry::Entry, place::Temporary};

/// Write both into temporary files in `directory`.
pub(super) fn index(
    directory: &Path,
    entries: &[Entry],
    pack: &ObjectId,
    hash: gix_hash::Kind,
    sync: Sync,
) -> Result<[Temporary; 2], Error> {
    let mut by_name: Vec<u32> = (0..entries.len() as u32).collect();
    // Where an object came twice, in the order of the pack.
    by_name.sort_by(|a, b| entries[*a as usize].id.cmp(&entries[*b as usize].id));
    let forward = write(directory, "tmp_idx", hash, sync, |out| {
        names(out, entries, &by_name, pack)
    })?;
    // Entries are in the order of the pack, so this is the inverse.
    let mut positions = vec![0u32; by_name.len()];
    for (position, entry) in (0u32..).zip(by_name) {
        positions[entry as usize] = position;
    }
    let reverse = write(directory, "tmp_rev", hash, sync, |out| {
        out.write_all(b"RIDX")?;
        out.write_all(&1u32.to_be_bytes())?;
        let hash: u32 = match hash {
            gix_hash::Kind::Sha1 => 1,
            _ => 2,
        };
        out.write_all(&hash.to_be_bytes())?;
        for position in positions {
            out.write_all(&position.to_be_bytes())?;
        }
        out.write_all(pack.as_slice())
    })?;
    Ok([forward, reverse])
}

fn names(out: &mut dyn Write, entries: &[Entry], by_name: &[u32], pack: &ObjectId) -> io::Result<()> {
    let sorted = || by_name.iter().map(|entry| &entries[*entry as usize]);
    out.write_all(b"\xfftOc")?;
    out.write_all(&2u32.to_be_bytes())?;
    let mut fan = [0u32; 256];
    for entry in entries {
        fan[usize::from(entry.id.first_byte())] += 1;
    }
    let mut below = 0;
    for count in fan {
        below += count;
        out.write_all(&below.to_be_bytes())?;
    }
    for entry in sorted() {
        out.write_all(entry.id.as_slice())?;
    }
    for entry in sorted() {
        out.write_all(&entry.crc.to_be_bytes())?;
    }
    let mut far: Vec<u64> = Vec::new();
    for entry in sorted() {
        let offset = match u32::try_from(entry.offset) {
            Ok(offset) if offset < 1 << 31 => offset,
            _ => {
                far.push(entry.offset);
                1 << 31 | (far.len() - 1) as u32
            }
        };
        out.write_all(&offset.to_be_bytes())?;
    }
    for offset in far {
        out.write_all(&offset.to_be_bytes())?;
    }
    out.write_all(pack.as_slice())
}

/// A temporary file of what `content` writes, with the checksum over it.
fn write(
    directory: &Path,
    kind: &str,
    hash: gix_hash::Kind,
    sync: Sync,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<Temporary, Error> {
    let mut temporary = Temporary::new(directory, kind)?;
    let writer = temporary.writer()?;
    let path = writer.path;
    let failed = |source: io::Error| Error::File {
        doing: "write the index",
        path: path.clone(),
        source,
    };
    let mut out = BufWriter::with_capacity(
        64 * 1024,
        Summed {
            file: writer.file,
            checksum: Checksum::new(hash),
        },
    );
    content(&mut out).map_err(failed)?;
    let Summed { mut file, checksum } = out.into_inner().map_err(|err| failed(err.into_error()))?;
    file.write_all(checksum.finish()?.as_slice()).map_err(failed)?;
    if sync.metadata {
        temporary.sync()?;
    }
    Ok(temporary)
}

struct Summed {
    file: File,
    checksum: Checksum,
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.checksum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
