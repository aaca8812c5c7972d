//! A thin pack made whole: what its deltas build on is added at its end, as `git index-pack --fix-thin` does.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
};

use flate2::{Compression, write::ZlibEncoder};
use gix_hash::ObjectId;
use gix_object::{Find, Kind};

use super::{Error, checksum::Checksum, entry::Entry, place::Writer, receive::Received, resolve::find};

/// Add what is missing. Returns the checksum at the pack's end.
pub(super) fn complete(received: &mut Received, writer: Writer, bases: &impl Find) -> Result<ObjectId, Error> {
    let state = &received.state;
    let in_pack = |id: &ObjectId| state.named.as_ref().is_some_and(|named| named.contains_key(id));
    let missing: Vec<ObjectId> = state
        .external
        .iter()
        .map(|external| external.id)
        .filter(|id| !in_pack(id))
        .collect();
    if missing.is_empty() {
        return Ok(received.checksum);
    }
    let Writer { mut file, path } = writer;
    let failed = |source: io::Error| Error::File {
        doing: "add to the pack",
        path: path.clone(),
        source,
    };
    let mut end = received.end;
    file.seek(SeekFrom::Start(end)).map_err(failed)?;
    for id in missing {
        let (kind, data) = find(bases, &id)?.ok_or_else(|| Error::Base {
            id,
            source: "it was here a moment ago".into(),
        })?;
        let bytes = deflated(kind, &data).map_err(failed)?;
        file.write_all(&bytes).map_err(failed)?;
        received.entries.push(Entry {
            offset: end,
            crc: crc32fast::hash(&bytes),
            id,
        });
        end += bytes.len() as u64;
    }
    received.end = end;
    finish(&mut file, received).map_err(failed)?
}

/// Write the new count and the checksum over all.
fn finish(file: &mut File, received: &Received) -> io::Result<Result<ObjectId, Error>> {
    file.seek(SeekFrom::Start(4))?;
    file.write_all(&received.version.to_be_bytes())?;
    file.write_all(&(received.entries.len() as u32).to_be_bytes())?;
    file.seek(SeekFrom::Start(0))?;
    let mut checksum = Checksum::new(received.hash);
    let mut buffer = vec![0; 128 * 1024];
    let mut left = received.end;
    while left > 0 {
        let length = left.min(buffer.len() as u64) as usize;
        file.read_exact(&mut buffer[..length])?;
        checksum.update(&buffer[..length]);
        left -= length as u64;
    }
    let checksum = match checksum.finish() {
        Ok(checksum) => checksum,
        Err(err) => return Ok(Err(err)),
    };
    file.write_all(checksum.as_slice())?;
    Ok(Ok(checksum))
}

/// A whole object as an entry.
fn deflated(kind: Kind, data: &[u8]) -> io::Result<Vec<u8>> {
    let kind = match kind {
        Kind::Commit => 1u8,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    };
    let mut size = data.len() as u64;
    let mut bytes = vec![kind << 4 | (size & 0xf) as u8];
    size >>= 4;
    while size > 0 {
        if let Some(last) = bytes.last_mut() {
            *last |= 0x80;
        }
        bytes.push((size & 0x7f) as u8);
        size >>= 7;
    }
    // They are here in another form anyway; git gives them the level of loose objects, which is this by default.
    let mut encoder = ZlibEncoder::new(bytes, Compression::fast());
    encoder.write_all(data)?;
    encoder.finish()
}
