//! A thread that deflates objects, a batch at a time.

use std::{
    sync::{Arc, atomic::Ordering},
    thread,
};

use gix_hash::oid;
use gix_object::{FindHeader, Kind};
use gix_odb::{Store, store};
use gix_pack::Find;
use prodash::progress::StepShared;

use super::{
    deflate::{Deflater, Failure, INCOMPRESSIBLE, PROBE_FROM, Sink, level},
    loose::Loose,
    options::Counters,
    plan::whole_header,
    source::Shared,
    window::Window,
};
use crate::{
    Error,
    objects::{DecodeCache, plain_handle},
};

/// Resolving many deltas of one family needs their common bases.
const DECODE_CACHE: usize = 8 * 1024 * 1024;
/// Larger objects are held in memory only by leave of the window.
const HELD_FROM: usize = 1024 * 1024;

pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) window: Arc<Window>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) compressing: StepShared,
}

/// Without it, a reader would wait forever for a thread that panicked.
struct Alarm(Arc<Window>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(Error::Thread {
                task: "deflates",
                source: std::io::Error::other("it panicked"),
            });
        }
    }
}

impl Worker {
    pub(crate) fn run(self) {
        let _alarm = Alarm(self.window.clone());
        let mut bench = match Bench::new(&self.shared) {
            Ok(bench) => bench,
            Err(error) => return self.window.fail(error),
        };
        while let Some(batch) = self.window.claim() {
            match self.batch(&mut bench, batch) {
                Ok(()) => {}
                Err(Failure::Stopped) => return,
                Err(Failure::Error(error)) => return self.window.fail(error),
            }
        }
    }

    fn batch(&self, bench: &mut Bench, batch: usize) -> Result<(), Failure> {
        let mut sink = Sink::new(&self.window, batch, &self.shared.interrupt);
        for &object in &self.shared.plan.batches[batch] {
            let entry = self.shared.set.entry(object as usize);
            let size = match self.loose(bench, entry.id, entry.kind, &mut sink)? {
                Some(size) => size,
                None => self.packed(bench, entry.id, entry.kind, batch, &mut sink)?,
            };
            sink.end_entry();
            Counters::add(&self.counters.bytes_deflated, size as usize);
            self.compressing.fetch_add(1, Ordering::Relaxed);
        }
        sink.finish()?;
        Ok(())
    }

    /// Stream a loose object through. `None` if there is none.
    fn loose(&self, bench: &mut Bench, id: &oid, kind: Kind, sink: &mut Sink<'_>) -> Result<Option<u64>, Failure> {
        let Some((path, length)) = self.shared.stores.loose(id) else {
            return Ok(None);
        };
        let Some((actual, size)) = bench.loose.open(id, &path)? else {
            return Ok(None);
        };
        same_kind(id, kind, actual)?;
        // Git deflated it once already, and that it gained nothing is seen from the file's length. Unless it was told not to.
        let store = size >= PROBE_FROM
            && length.saturating_mul(100) >= size.saturating_mul(INCOMPRESSIBLE)
            && bench.deflater.is_incompressible(bench.loose.beginning());
        self.header(bench, kind, size, sink)?;
        self.note_stored(store);
        bench.deflater.run(store, &mut bench.loose, sink).map(Some)
    }

    /// Resolve a packed object in memory.
    fn packed(
        &self,
        bench: &mut Bench,
        id: &oid,
        kind: Kind,
        batch: usize,
        sink: &mut Sink<'_>,
    ) -> Result<u64, Failure> {
        let unreadable = |error| Error::unreadable(id, error);
        let header = bench.handle.try_header(id).map_err(unreadable)?;
        if header.is_none() && id == id.kind().empty_tree() {
            // Known to every git without being stored.
            self.header(bench, Kind::Tree, 0, sink)?;
            return bench.deflater.run(false, &mut &[][..], sink);
        }
        let size = header.map_or(0, |header| usize::try_from(header.size).unwrap_or(usize::MAX));
        // The result and the base it is made from.
        let held = if size >= HELD_FROM { size.saturating_mul(2) } else { 0 };
        if held != 0 {
            self.window.hold(batch, held, &self.shared.interrupt)?;
        }
        let mut buffer = std::mem::take(&mut bench.buffer);
        let result = self.decoded(bench, id, kind, &mut buffer, sink);
        if held == 0 {
            bench.buffer = buffer;
        } else {
            drop(buffer);
            self.window.release(held);
        }
        result
    }

    fn decoded(
        &self,
        bench: &mut Bench,
        id: &oid,
        kind: Kind,
        buffer: &mut Vec<u8>,
        sink: &mut Sink<'_>,
    ) -> Result<u64, Failure> {
        let found = bench.handle.try_find_cached(id, buffer, &mut bench.decoded);
        let (data, _) = found
            .map_err(|error| Error::unreadable(id, error))?
            .ok_or(Error::Missing {
                id: id.to_owned(),
                role: "object",
            })?;
        same_kind(id, kind, data.kind)?;
        let mut content = data.data;
        let size = content.len() as u64;
        let store = size >= PROBE_FROM && bench.deflater.is_incompressible(content);
        self.header(bench, kind, size, sink)?;
        self.note_stored(store);
        bench.deflater.run(store, &mut content, sink)
    }

    fn header(&self, bench: &mut Bench, kind: Kind, size: u64, sink: &mut Sink<'_>) -> Result<(), Failure> {
        bench.header.clear();
        // Writing into a vector can't fail.
        let _ = whole_header(kind).write_to(size, &mut bench.header);
        sink.write(&bench.header)?;
        Ok(())
    }

    fn note_stored(&self, store: bool) {
        Counters::add(&self.counters.stored, usize::from(store));
    }
}

fn same_kind(id: &oid, expected: Kind, actual: Kind) -> Result<(), Error> {
    if expected == actual {
        return Ok(());
    }
    Err(Error::WrongKind {
        id: id.to_owned(),
        expected,
        actual,
    })
}

/// A worker's tools.
struct Bench {
    handle: store::Handle<Arc<Store>>,
    decoded: DecodeCache,
    loose: Loose,
    deflater: Deflater,
    buffer: Vec<u8>,
    header: Vec<u8>,
}

impl Bench {
    fn new(shared: &Shared) -> Result<Self, Error> {
        Ok(Bench {
            handle: plain_handle(&shared.store),
            decoded: DecodeCache::new(DECODE_CACHE),
            loose: Loose::new(shared.set.hash()),
            deflater: Deflater::new(level(shared.options.compression)?),
            buffer: Vec::new(),
            header: Vec::new(),
        })
    }
}
