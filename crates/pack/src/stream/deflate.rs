//! Deflating with states that are reset rather than made anew (a quarter less time for small objects), and not trying where it
//! would gain nothing (which takes zlib a second for 27 MB, and level 1 would even make it larger).

use flate2::{Compress, Compression, FlushCompress, Status};

use super::{
    plan::BaseOf,
    window::{Chunk, Delta, Stopped, Window},
};
use crate::Error;
use std::sync::atomic::AtomicBool;

/// What is handed over at a time. Below the size from which allocators map fresh pages for every allocation.
const CHUNK: usize = 64 * 1024;
const SAMPLE: usize = 8 * 1024;
/// Smaller objects are deflated without asking.
pub(crate) const PROBE_FROM: u64 = 64 * 1024;
/// Deflated bytes in a hundred from which an object counts as incompressible.
pub(crate) const INCOMPRESSIBLE: u64 = 97;

/// How much content is deflated at a time.
pub(crate) const PIECE: usize = 64 * 1024;

/// Where an object's bytes come from.
pub(crate) trait Content {
    /// The next [`PIECE`] bytes, or what is left, and whether that is the end.
    fn next(&mut self) -> Result<(&[u8], bool), Error>;
}

/// Of content that is at hand.
impl Content for &[u8] {
    fn next(&mut self) -> Result<(&[u8], bool), Error> {
        let (now, later) = self.split_at(self.len().min(PIECE));
        *self = later;
        Ok((now, later.is_empty()))
    }
}

/// Why an object was not finished.
pub(crate) enum Failure {
    Error(Error),
    /// Nobody waits for it any more.
    Stopped,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

impl From<Stopped> for Failure {
    fn from(_: Stopped) -> Self {
        Failure::Stopped
    }
}

/// Collects a batch's bytes into chunks.
pub(crate) struct Sink<'a> {
    window: &'a Window,
    interrupt: &'a AtomicBool,
    batch: usize,
    chunk: Chunk,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(window: &'a Window, batch: usize, interrupt: &'a AtomicBool) -> Self {
        let chunk = Chunk {
            bytes: Vec::with_capacity(CHUNK),
            ..Chunk::default()
        };
        Sink {
            window,
            interrupt,
            batch,
            chunk,
        }
    }

    /// A buffer with room in it.
    pub(crate) fn room(&mut self) -> Result<&mut Vec<u8>, Stopped> {
        if self.chunk.bytes.len() == self.chunk.bytes.capacity() {
            self.flush(CHUNK)?;
        }
        Ok(&mut self.chunk.bytes)
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> Result<(), Stopped> {
        while !bytes.is_empty() {
            let room = self.room()?;
            let (now, later) = bytes.split_at(bytes.len().min(room.capacity() - room.len()));
            room.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Begin an entry whose header the reader writes.
    pub(crate) fn begin_delta(&mut self, base: BaseOf, size: u64) {
        let at = self.chunk.bytes.len();
        self.chunk.deltas.push(Delta { at, size, base });
    }

    pub(crate) fn end_entry(&mut self) {
        self.chunk.ends.push(self.chunk.bytes.len());
    }

    pub(crate) fn finish(mut self) -> Result<(), Stopped> {
        self.flush(0)?;
        self.window.finish(self.batch);
        Ok(())
    }

    fn flush(&mut self, next: usize) -> Result<(), Stopped> {
        let fresh = Chunk {
            bytes: Vec::with_capacity(next),
            ..Chunk::default()
        };
        let full = std::mem::replace(&mut self.chunk, fresh);
        self.window.put(self.batch, full, self.interrupt)
    }
}

pub(crate) struct Deflater {
    usual: Compress,
    /// Level 0 and level 1, made when first needed.
    stored: Option<Compress>,
    probe: Option<Compress>,
    scratch: Vec<u8>,
}

/// The level's flate2 form; -1 is zlib's own default.
pub(crate) fn level(level: i32) -> Result<Compression, Error> {
    match level {
        -1 => Ok(Compression::new(6)),
        0..=9 => Ok(Compression::new(level.unsigned_abs())),
        _ => Err(Error::Level { level }),
    }
}

impl Deflater {
    pub(crate) fn new(level: Compression) -> Self {
        Deflater {
            usual: Compress::new(level, true),
            stored: None,
            probe: None,
            scratch: Vec::new(),
        }
    }

    /// Whether deflating samples from the beginning, the middle and the end of `bytes` gains less than 3 in a hundred.
    pub(crate) fn is_incompressible(&mut self, bytes: &[u8]) -> bool {
        let probe = self
            .probe
            .get_or_insert_with(|| Compress::new(Compression::fast(), true));
        let last = bytes.len().saturating_sub(SAMPLE);
        let (mut before, mut after) = (0, 0);
        for start in [0, last / 2, last] {
            let sample = &bytes[start..(start + SAMPLE).min(bytes.len())];
            probe.reset();
            self.scratch.clear();
            self.scratch.reserve(SAMPLE + 1024);
            let result = probe.compress_vec(sample, &mut self.scratch, FlushCompress::Finish);
            before += sample.len() as u64;
            after += match result {
                Ok(Status::StreamEnd) => self.scratch.len(),
                _ => sample.len(),
            } as u64;
        }
        after * 100 >= before * INCOMPRESSIBLE
    }

    /// Deflate `bytes` as a whole.
    pub(crate) fn pack<'o>(&mut self, bytes: &[u8], out: &'o mut Vec<u8>) -> Result<&'o [u8], Error> {
        self.usual.reset();
        out.clear();
        loop {
            out.reserve(bytes.len() / 2 + 64);
            let taken = self.usual.total_in() as usize;
            match self.usual.compress_vec(&bytes[taken..], out, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => return Ok(out),
                Ok(_) => {}
                Err(error) => return Err(broken(error)),
            }
        }
    }

    /// Deflate `content` into `sink`, or only wrap it if `store` is set. Returns its length.
    pub(crate) fn run(&mut self, store: bool, content: &mut impl Content, sink: &mut Sink<'_>) -> Result<u64, Failure> {
        let deflate = if store {
            self.stored
                .get_or_insert_with(|| Compress::new(Compression::none(), true))
        } else {
            &mut self.usual
        };
        deflate.reset();
        loop {
            let (mut input, last) = content.next()?;
            let flush = if last {
                FlushCompress::Finish
            } else {
                FlushCompress::None
            };
            loop {
                let room = sink.room()?;
                let before = deflate.total_in();
                let status = deflate.compress_vec(input, room, flush).map_err(broken)?;
                input = &input[(deflate.total_in() - before) as usize..];
                if status == Status::StreamEnd {
                    return Ok(deflate.total_in());
                }
                // With room left, zlib has taken all it was given.
                if !last && input.is_empty() && room.len() < room.capacity() {
                    break;
                }
            }
        }
    }
}

fn broken(error: flate2::CompressError) -> Error {
    Error::Thread {
        task: "deflates",
        source: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_are_told_from_text() {
        let mut deflater = Deflater::new(level(-1).unwrap());
        let mut state = 1u64;
        let noise: Vec<u8> = (0..100_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        assert!(deflater.is_incompressible(&noise));
        let text = "it was the best of times, it was the worst of times\n".repeat(2000);
        assert!(!deflater.is_incompressible(text.as_bytes()));
        let mixed = [&noise[..50_000], text.as_bytes()].concat();
        assert!(!deflater.is_incompressible(&mixed));
        assert!(level(10).is_err() && level(-2).is_err() && level(0).is_ok());
    }

    #[test]
    fn chunks_together_hold_what_was_put_in() {
        let window = Window::new(1, usize::MAX);
        let go = AtomicBool::new(false);
        window.claim();
        let mut sink = Sink::new(&window, 0, &go);
        let mut deflater = Deflater::new(level(6).unwrap());
        let text: Vec<u8> = (0..300_000u32).flat_map(|n| n.to_le_bytes()).collect();
        for store in [false, true] {
            let length = deflater.run(store, &mut &text[..], &mut sink);
            assert!(matches!(length, Ok(length) if length == text.len() as u64));
            sink.end_entry();
        }
        assert!(sink.finish().is_ok());
        let (mut all, mut ends) = (Vec::new(), Vec::new());
        while let Ok(super::super::window::Taken::Chunk(chunk)) = window.take(true, &go) {
            ends.extend(chunk.ends.iter().map(|end| all.len() + end));
            all.extend(chunk.bytes);
        }
        assert_eq!(ends.len(), 2);
        assert_eq!(ends[1], all.len());
        for part in [&all[..ends[0]], &all[ends[0]..]] {
            let mut back = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(part), &mut back).unwrap();
            assert!(back == text);
        }
    }
}
