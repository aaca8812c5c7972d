//! The stream as it comes: what of it has been understood goes to the file and into the checksums.

use std::{
    fs::File,
    io::{ErrorKind, Read, Write},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use gix_hash::ObjectId;
use sirocco::inflate::{Decoder, Error as Inflate};

use super::{Error, checksum::Checksum, place::Writer};

/// Read at a time at most; a packet of side band 1 is half of that (gitprotocol-pack: 65520 bytes).
const BUFFER: usize = 128 * 1024;
/// Inflated at a time, where the result isn't kept.
const WINDOW: usize = 128 * 1024;

pub(super) struct Input<'a> {
    reader: &'a mut dyn Read,
    interrupt: &'a AtomicBool,
    buffer: Vec<u8>,
    /// What was understood but isn't in the file yet begins here,
    behind: usize,
    /// and what wasn't understood yet here.
    start: usize,
    end: usize,
    /// Where in the pack `start` is.
    offset: u64,
    crc: crc32fast::Hasher,
    checksum: Checksum,
    file: File,
    path: PathBuf,
    decoder: Box<Decoder>,
    window: Vec<u8>,
}

impl<'a> Input<'a> {
    pub(super) fn new(
        reader: &'a mut dyn Read,
        to: Writer,
        hash: gix_hash::Kind,
        interrupt: &'a AtomicBool,
    ) -> Input<'a> {
        Input {
            reader,
            interrupt,
            buffer: vec![0; BUFFER],
            behind: 0,
            start: 0,
            end: 0,
            offset: 0,
            crc: crc32fast::Hasher::new(),
            checksum: Checksum::new(hash),
            file: to.file,
            path: to.path,
            decoder: Box::new(Decoder::new(sirocco::Format::Zlib)),
            window: Vec::new(),
        }
    }

    /// How many bytes were understood.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// How many of these are in the file.
    pub(super) fn stored(&self) -> u64 {
        self.offset - (self.start - self.behind) as u64
    }

    /// Whether the next byte is here already.
    pub(super) fn is_ready(&self) -> bool {
        self.start < self.end
    }

    pub(super) fn begin_entry(&mut self) {
        self.crc = crc32fast::Hasher::new();
    }

    /// The checksum that the index lists of the bytes since [`begin_entry`](Self::begin_entry).
    pub(super) fn end_entry(&mut self) -> u32 {
        std::mem::take(&mut self.crc).finalize()
    }

    /// The next byte; `None` at the stream's end.
    pub(super) fn byte(&mut self) -> Result<Option<u8>, Error> {
        if !self.is_ready() && self.refill()? == 0 {
            return Ok(None);
        }
        let byte = self.buffer[self.start];
        self.understood(1);
        Ok(Some(byte))
    }

    /// What stands at the pack's end, and what should. Nothing may follow.
    pub(super) fn trailer(&mut self, hash: gix_hash::Kind) -> Result<Option<(ObjectId, ObjectId)>, Error> {
        self.store()?;
        let actual = self.checksum.clone().finish()?;
        let mut expected = ObjectId::null(hash);
        for byte in expected.as_mut_slice() {
            match self.byte()? {
                Some(next) => *byte = next,
                None => return Ok(None),
            }
        }
        if self.byte()?.is_some() {
            return Err(Error::Garbage);
        }
        self.store()?;
        Ok(Some((expected, actual)))
    }

    /// Inflate what comes next, which is `size` bytes when inflated; `entry` is where it belongs to.
    pub(super) fn inflate(&mut self, size: usize, entry: u64) -> Result<Vec<u8>, Error> {
        // The byte more tells when there is more. The memory is not touched before it is filled.
        let mut out = vec![0; size + 1];
        // What must hold the whole stream can be inflated in one go, which is faster; most entries are small.
        if self.end - self.start > bound(size) {
            match self
                .decoder
                .decompress(&self.buffer[self.start..self.end], &mut out, true)
            {
                Ok(progress) if progress.done => {
                    let (consumed, length) = (progress.consumed, progress.output.len());
                    self.understood(consumed);
                    return exactly(out, length, entry);
                }
                // A stream may be longer than it need be.
                Err(Inflate::Truncated) => self.decoder.reset(),
                Ok(_) | Err(Inflate::BufferFull) => return Err(Error::corrupt(entry, "it is larger than it says")),
                Err(err) => return Err(damaged(err, entry)),
            }
        }
        self.decoder.reset();
        let mut length = 0;
        loop {
            if !self.is_ready() && self.refill()? == 0 {
                return Err(Error::corrupt(entry, "it ends early"));
            }
            match self
                .decoder
                .decompress(&self.buffer[self.start..self.end], &mut out, false)
            {
                Ok(progress) => {
                    let (consumed, done) = (progress.consumed, progress.done);
                    length += progress.output.len();
                    self.understood(consumed);
                    if done {
                        return exactly(out, length, entry);
                    }
                    if length > size {
                        return Err(Error::corrupt(entry, "it is larger than it says"));
                    }
                }
                Err(Inflate::BufferFull) => return Err(Error::corrupt(entry, "it is larger than it says")),
                Err(err) => return Err(damaged(err, entry)),
            }
        }
    }

    /// As [`inflate`](Self::inflate), for what is too large to be held: `take` gets it in pieces.
    pub(super) fn inflate_to(&mut self, size: u64, entry: u64, mut take: impl FnMut(&[u8])) -> Result<(), Error> {
        self.window.resize(WINDOW, 0);
        self.decoder.reset();
        let mut length = 0u64;
        loop {
            if !self.is_ready() && self.refill()? == 0 {
                return Err(Error::corrupt(entry, "it ends early"));
            }
            let progress = self
                .decoder
                .decompress(&self.buffer[self.start..self.end], &mut self.window, false)
                .map_err(|err| damaged(err, entry))?;
            let (consumed, done, full) = (progress.consumed, progress.done, progress.full);
            length += progress.output.len() as u64;
            take(progress.output);
            self.understood(consumed);
            if length > size {
                return Err(Error::corrupt(entry, "it is larger than it says"));
            }
            if done {
                break;
            }
            if full {
                self.decoder.make_room(&mut self.window);
            }
        }
        if length != size {
            return Err(Error::corrupt(entry, "it is smaller than it says"));
        }
        Ok(())
    }

    fn understood(&mut self, count: usize) {
        self.crc.update(&self.buffer[self.start..self.start + count]);
        self.start += count;
        self.offset += count as u64;
    }

    /// What was understood goes to the file.
    fn store(&mut self) -> Result<(), Error> {
        let bytes = &self.buffer[self.behind..self.start];
        self.checksum.update(bytes);
        self.file.write_all(bytes).map_err(|source| Error::File {
            doing: "write the pack",
            path: self.path.clone(),
            source,
        })?;
        self.behind = self.start;
        Ok(())
    }

    /// Read more behind what isn't understood yet. Returns how many bytes, 0 at the stream's end.
    fn refill(&mut self) -> Result<usize, Error> {
        self.store()?;
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.behind = 0;
        self.start = 0;
        loop {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    return Ok(read);
                }
                Err(err) if err.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(Error::Read {
                        bytes: self.offset,
                        source,
                    });
                }
            }
        }
    }
}

/// No sensible deflater makes more of `size` bytes: stored blocks of 16 KiB, each with 5 bytes of its own.
fn bound(size: usize) -> usize {
    size + size / 1024 + 64
}

fn exactly(mut out: Vec<u8>, length: usize, entry: u64) -> Result<Vec<u8>, Error> {
    let size = out.len() - 1;
    match length.cmp(&size) {
        std::cmp::Ordering::Equal => {
            out.truncate(size);
            Ok(out)
        }
        std::cmp::Ordering::Less => Err(Error::corrupt(entry, "it is smaller than it says")),
        std::cmp::Ordering::Greater => Err(Error::corrupt(entry, "it is larger than it says")),
    }
}

pub(super) fn damaged(err: Inflate, entry: u64) -> Error {
    let what = match err {
        Inflate::ChecksumMismatch => "its checksum is wrong",
        Inflate::Truncated => "it ends early",
        _ => "it can't be inflated",
    };
    Error::corrupt(entry, what)
}
