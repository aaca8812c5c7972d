use std::{
    io::{self, Read},
    sync::{Arc, atomic::Ordering},
    thread::{self, JoinHandle},
    time::Instant,
};

use flate2::Crc;
use gix_pack::data;

use super::{
    options::{Counters, Stages},
    plan::{BaseOf, Source, pack_header, ref_delta},
    source::Shared,
    stores::Packed,
    trailer::Trailer,
    window::{Chunk, Taken, Window},
    worker::Worker,
};
use crate::{Error, error::check};

/// The bytes of a pack, in order: header, entries, checksum (gitformat-pack(5)).
///
/// Copied entries go from the mapped pack straight into the caller's buffer. After an error, no further read succeeds. Dropping the
/// reader stops its threads and waits for them.
pub struct PackReader {
    shared: Arc<Shared>,
    window: Arc<Window>,
    workers: Vec<JoinHandle<()>>,
    counters: Arc<Counters>,
    stages: Stages,
    trailer: Option<Trailer>,
    part: Part,
    /// Headers and the checksum: what is short.
    short: Vec<u8>,
    short_at: usize,
    copying: Option<Copying>,
    chunk: Chunk,
    chunk_at: usize,
    /// How many ends of `chunk` were passed.
    chunk_ends: usize,
    /// How many of its deltas began.
    chunk_deltas: usize,
    deflated: bool,
    /// Bytes of the pack so far.
    offset: u64,
    /// Where entries began, by position in the set; empty if nobody will ask.
    offsets: Vec<u64>,
    failed: bool,
    started: Instant,
}

#[derive(Clone, Copy)]
enum Part {
    Header,
    /// The next entry's number in sending order.
    Entry(usize),
    Checksum,
    End,
}

/// An entry on its way out of a mapped pack.
struct Copying {
    data: Arc<data::File>,
    at: u64,
    end: u64,
    object: u32,
    crc: Crc,
    expected: Option<u32>,
}

impl PackReader {
    pub(crate) fn start(shared: Arc<Shared>, counters: Arc<Counters>, stages: Stages) -> Result<Self, Error> {
        let batches = shared.plan.batches.len();
        let window = Arc::new(Window::new(batches, shared.options.memory));
        let offsets = if shared.plan.has_deltas {
            vec![0; shared.set.len()]
        } else {
            Vec::new()
        };
        let trailer = Trailer::new(shared.set.hash());
        // From here on, dropping it ends the threads that were started.
        let mut reader = PackReader {
            shared,
            window,
            workers: Vec::new(),
            counters,
            stages,
            trailer: Some(trailer),
            part: Part::Header,
            short: Vec::new(),
            short_at: 0,
            copying: None,
            chunk: Chunk::default(),
            chunk_at: 0,
            chunk_ends: 0,
            chunk_deltas: 0,
            deflated: false,
            offset: 0,
            offsets,
            failed: false,
            started: Instant::now(),
        };
        for number in 0..reader.shared.threads.min(batches) {
            let worker = Worker {
                shared: reader.shared.clone(),
                window: reader.window.clone(),
                counters: reader.counters.clone(),
                compressing: reader.stages.compressing.clone(),
            };
            let handle = thread::Builder::new()
                .name(format!("pack-{number}"))
                .spawn(move || worker.run())
                .map_err(|source| Error::Thread {
                    task: "deflates",
                    source,
                })?;
            reader.workers.push(handle);
        }
        Ok(reader)
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < buffer.len() {
            let room = &mut buffer[filled..];
            let copied = if self.short_at < self.short.len() {
                let copied = copy(&self.short[self.short_at..], room);
                self.short_at += copied;
                copied
            } else if self.copying.is_some() {
                self.copy_packed(room)?
            } else if self.deflated {
                match self.copy_deflated(room, filled == 0)? {
                    Some(copied) => copied,
                    None => break,
                }
            } else if !self.advance(filled == 0)? {
                break;
            } else {
                continue;
            };
            filled += copied;
            self.offset += copied as u64;
        }
        Ok(filled)
    }

    /// Prepare the next part. `false` if there is none, or if it can't be made before what was `filled` is hashed.
    fn advance(&mut self, all_hashed: bool) -> Result<bool, Error> {
        check(&self.shared.interrupt)?;
        match self.part {
            Part::Header => {
                let header = pack_header(self.shared.set.len() as u32);
                self.set_short(&header);
                self.part = Part::Entry(0);
            }
            Part::Entry(number) => match self.shared.plan.order.get(number) {
                Some(&object) => {
                    self.begin(object)?;
                    self.part = Part::Entry(number + 1);
                    self.stages.writing.fetch_add(1, Ordering::Relaxed);
                }
                None => self.part = Part::Checksum,
            },
            Part::Checksum if !all_hashed => return Ok(false),
            Part::Checksum => {
                if let Some(trailer) = self.trailer.take() {
                    let checksum = trailer.finish()?;
                    self.set_short(checksum.as_slice());
                }
                self.part = Part::End;
            }
            Part::End => return Ok(false),
        }
        Ok(true)
    }

    fn set_short(&mut self, bytes: &[u8]) {
        self.short.clear();
        self.short.extend_from_slice(bytes);
        self.short_at = 0;
    }

    fn begin(&mut self, object: u32) -> Result<(), Error> {
        if let Some(offset) = self.offsets.get_mut(object as usize) {
            *offset = self.offset;
        }
        match self.shared.plan.sources[object as usize] {
            Source::Deflate { .. } => self.deflated = true,
            Source::Copy { packed, end, base } => self.begin_copy(object, packed, end, base)?,
        }
        Ok(())
    }

    fn begin_copy(&mut self, object: u32, packed: Packed, end: u64, base: BaseOf) -> Result<(), Error> {
        let shared = self.shared.clone();
        let id = shared.set.entry(object as usize).id;
        let gone = || Error::corrupt(id, "its pack can't be read any more");
        let pack = shared.stores.packs.get(packed.pack as usize).ok_or_else(gone)?;
        let data = pack.data().ok_or_else(gone)?;
        let start = pack.index.pack_offset_at_index(packed.position);
        let entry = data.entry(start).map_err(|error| Error::unreadable(id, error))?;
        let header = self.delta_header(base).unwrap_or(entry.header);
        self.set_header(&header, entry.decompressed_size);
        let mut crc = Crc::new();
        crc.update(data.entry_slice(start..entry.data_offset).ok_or_else(gone)?);
        Counters::add(&self.counters.bytes_copied, (end - entry.data_offset) as usize);
        self.copying = Some(Copying {
            data: data.clone(),
            at: entry.data_offset,
            end,
            object,
            crc,
            expected: pack.index.crc32_at_index(packed.position),
        });
        Ok(())
    }

    /// The header of a delta that begins here.
    fn delta_header(&self, base: BaseOf) -> Option<data::entry::Header> {
        let shared = &self.shared;
        match base {
            BaseOf::Sent(base) if shared.options.offset_deltas => Some(data::entry::Header::OfsDelta {
                base_distance: self.offset - self.offsets[base as usize],
            }),
            BaseOf::Sent(base) => Some(ref_delta(shared.set.entry(base as usize).id)),
            BaseOf::Remote(base) => Some(ref_delta(&shared.plan.remote_bases.ids[base as usize])),
            BaseOf::Nothing => None,
        }
    }

    fn set_header(&mut self, header: &data::entry::Header, size: u64) {
        self.short.clear();
        self.short_at = 0;
        // Writing into a vector can't fail.
        let _ = header.write_to(size, &mut self.short);
    }

    fn copy_packed(&mut self, room: &mut [u8]) -> Result<usize, Error> {
        let Some(copying) = &mut self.copying else { return Ok(0) };
        let id = self.shared.set.entry(copying.object as usize).id;
        let rest = copying
            .data
            .entry_slice(copying.at..copying.end)
            .ok_or_else(|| Error::corrupt(id, "its pack ends before it"))?;
        let copied = copy(rest, room);
        copying.crc.update(&rest[..copied]);
        copying.at += copied as u64;
        if copying.at == copying.end {
            if copying.expected.is_some_and(|expected| expected != copying.crc.sum()) {
                return Err(Error::corrupt(
                    id,
                    "its packed bytes don't have the checksum in the pack index",
                ));
            }
            self.copying = None;
        }
        Ok(copied)
    }

    /// `None` if it would have to wait and should not.
    fn copy_deflated(&mut self, room: &mut [u8], wait: bool) -> Result<Option<usize>, Error> {
        loop {
            let end = self.chunk.ends.get(self.chunk_ends).copied();
            if end == Some(self.chunk_at) {
                self.chunk_ends += 1;
                self.deflated = false;
                return Ok(Some(0));
            }
            // Where one entry ends the next begins: this comes after that.
            if let Some(delta) = self.chunk.deltas.get(self.chunk_deltas).copied()
                && delta.at == self.chunk_at
            {
                self.chunk_deltas += 1;
                if let Some(header) = self.delta_header(delta.base) {
                    self.set_header(&header, delta.size);
                }
                return Ok(Some(0));
            }
            let rest = &self.chunk.bytes[self.chunk_at..end.unwrap_or(self.chunk.bytes.len())];
            if !rest.is_empty() {
                let copied = copy(rest, room);
                self.chunk_at += copied;
                return Ok(Some(copied));
            }
            match self.window.take(wait, &self.shared.interrupt)? {
                Taken::Chunk(chunk) => {
                    self.chunk = chunk;
                    self.chunk_at = 0;
                    self.chunk_ends = 0;
                    self.chunk_deltas = 0;
                }
                Taken::NotYet => return Ok(None),
                Taken::End => return Err(Error::Ended),
            }
        }
    }
}

fn copy(from: &[u8], to: &mut [u8]) -> usize {
    let length = from.len().min(to.len());
    to[..length].copy_from_slice(&from[..length]);
    length
}

impl Read for PackReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.failed {
            return Err(Error::Ended.into());
        }
        let result = self.fill(buffer).and_then(|filled| {
            if let Some(trailer) = &mut self.trailer {
                trailer.update(&buffer[..filled])?;
            }
            Ok(filled)
        });
        match result {
            Ok(filled) => {
                Counters::add(&self.counters.bytes_out, filled);
                self.counters.wrote(self.started);
                self.stages.bytes.fetch_add(filled, Ordering::Relaxed);
                Ok(filled)
            }
            Err(error) => {
                self.failed = true;
                self.window.stop();
                Err(error.into())
            }
        }
    }
}

impl Drop for PackReader {
    fn drop(&mut self) {
        self.window.stop();
        for worker in self.workers.drain(..) {
            // A panic was reported through the window.
            let _ = worker.join();
        }
    }
}

impl std::fmt::Debug for PackReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackReader")
            .field("offset", &self.offset)
            .field("workers", &self.workers.len())
            .finish_non_exhaustive()
    }
}
