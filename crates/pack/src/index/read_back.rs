//! Entries of the pack read back from its file.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use sirocco::inflate::{Decoder, Error as Inflate};

use super::{
    Error,
    entry::{Header, LONGEST_HEADER, header},
    input::damaged,
};

/// Read at a time.
const BUFFER: usize = 64 * 1024;

/// One thread's look at the pack.
pub(super) struct PackFile<'a> {
    file: File,
    path: &'a Path,
    hash: gix_hash::Kind,
    decoder: Box<Decoder>,
    buffer: Vec<u8>,
}

impl<'a> PackFile<'a> {
    pub(super) fn open(path: &'a Path, hash: gix_hash::Kind) -> Result<Self, Error> {
        Ok(PackFile {
            file: File::open(path).map_err(|source| Error::File {
                doing: "open it",
                path: path.to_owned(),
                source,
            })?,
            path,
            hash,
            decoder: Box::new(Decoder::new(sirocco::Format::Zlib)),
            buffer: Vec::new(),
        })
    }

    /// The header and the inflated bytes of the entry from `offset` to `end`; `None` where these are more than `limit`.
    pub(super) fn read(&mut self, offset: u64, end: u64, limit: u64) -> Result<Option<(Header, Vec<u8>)>, Error> {
        self.read_at(offset, (end - offset).min(BUFFER as u64) as usize)?;
        let mut bytes = self.buffer.iter();
        let mut length = 0;
        let (header, size) = header(
            self.hash,
            || {
                length += 1;
                bytes
                    .next()
                    .copied()
                    .ok_or_else(|| Error::corrupt(offset, "it ends early"))
            },
            |what| Error::corrupt(offset, what),
        )?;
        debug_assert!(length <= LONGEST_HEADER);
        if size > limit {
            return Ok(None);
        }
        // This many bytes were there when it came, so that it is no empty promise.
        let mut out = Vec::new();
        out.try_reserve_exact(size as usize + 1)
            .map_err(|_| Error::TooLarge { offset, bytes: size })?;
        out.resize(size as usize + 1, 0);
        self.decoder.reset();
        let mut at = offset + self.buffer.len() as u64;
        let mut start = length;
        let mut filled = 0;
        loop {
            let last = at == end;
            match self.decoder.decompress(&self.buffer[start..], &mut out, last) {
                Ok(progress) => {
                    filled += progress.output.len();
                    if progress.done {
                        break;
                    }
                }
                Err(Inflate::BufferFull) => return Err(Error::corrupt(offset, "it is larger than it says")),
                Err(err) => return Err(damaged(err, offset)),
            }
            if last || filled > size as usize {
                return Err(Error::corrupt(offset, "it is larger than it says"));
            }
            self.read_at(at, (end - at).min(BUFFER as u64) as usize)?;
            at += self.buffer.len() as u64;
            start = 0;
        }
        out.truncate(filled.min(size as usize));
        Ok(Some((header, out)))
    }

    fn read_at(&mut self, offset: u64, length: usize) -> Result<(), Error> {
        self.buffer.resize(length, 0);
        self.file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| self.file.read_exact(&mut self.buffer))
            .map_err(|source| Error::File {
                doing: "read back the pack",
                path: self.path.to_owned(),
                source,
            })
    }
}
