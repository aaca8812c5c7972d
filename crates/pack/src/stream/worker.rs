//! A thread that deflates objects, a batch at a time, and finds deltas for them.

use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Instant,
};

use gix_hash::oid;
use gix_object::Kind;
use prodash::progress::StepShared;

use super::{
    candidates::{Candidates, Choice, SMALLEST},
    contents::{Contents, Found, Leave},
    deflate::{Deflater, Failure, INCOMPRESSIBLE, PROBE_FROM, Sink, level},
    fresh::is_deltable,
    options::{Counters, Search},
    plan::{BaseOf, Item, Source, whole_header},
    source::Shared,
    window::Window,
};
use crate::{Error, delta::Encoder};

/// A delta that much shorter than its object is taken without deflating both to see which is shorter. Of a tree, ids don't
/// compress, so little can come of deflating it.
const CLEARLY: usize = 4;
const CLEARLY_FOR_TREES: usize = 2;
/// Beyond that size both are not deflated to compare them.
const COMPARED: usize = 1024 * 1024;
/// What a base's name takes in an entry's header, by id or by offset.
const NAMED: usize = 20;
const OFFSET: usize = 2;

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
        bench.candidates.clear();
        let items = &self.shared.plan.batches[batch];
        for (number, item) in items.iter().enumerate() {
            match *item {
                Item::Send(object) => {
                    let size = self.send(bench, object, batch, &mut sink)?;
                    sink.end_entry();
                    Counters::add(&self.counters.bytes_deflated, size as usize);
                    self.compressing.fetch_add(1, Ordering::Relaxed);
                }
                Item::Candidate(base) => {
                    // It has the kind of what it was put before.
                    let served = items[number..].iter().find_map(|item| match *item {
                        Item::Send(object) => Some(self.shared.set.entry(object as usize).kind),
                        Item::Candidate(_) => None,
                    });
                    if let Some(kind) = served {
                        let base = BaseOf::Remote(base);
                        let leave = &mut Leave::new(&self.window);
                        if let Some(content) = self.base(bench, base, kind, batch, leave)? {
                            bench.candidates.add(base, kind, &content, 0);
                        }
                    }
                }
            }
        }
        sink.finish()?;
        Ok(())
    }

    fn name(&self, base: BaseOf) -> &oid {
        match base {
            BaseOf::Sent(base) => self.shared.set.entry(base as usize).id,
            BaseOf::Remote(base) => &self.shared.plan.remote_bases.ids[base as usize],
            BaseOf::Nothing => self.shared.set.hash().null_ref(),
        }
    }

    /// Put one object into the sink.
    fn send(&self, bench: &mut Bench, object: u32, batch: usize, sink: &mut Sink<'_>) -> Result<u64, Failure> {
        let shared = &self.shared;
        let options = &shared.options;
        let entry = shared.set.entry(object as usize);
        let (id, kind) = (entry.id, entry.kind);
        let base = match shared.plan.sources[object as usize] {
            Source::Deflate { base } => base,
            Source::Copy { .. } => BaseOf::Nothing,
        };
        let began = Instant::now();
        let found = bench.contents.find(shared, id, kind)?.ok_or(Error::Missing {
            id: id.to_owned(),
            role: "object",
        })?;
        let size = found.size();
        let deltable = is_deltable(&entry) && options.depth > 0 && size < options.big_file_threshold;
        let is_piecewise = matches!(found, Found::Loose { .. } | Found::Whole { .. });
        let mut leave = Leave::new(&self.window);
        let mut content = None;
        if !is_piecewise {
            leave.ask(found, batch, shared)?;
            content = Some(bench.contents.read(found, id, kind)?);
        }
        // From here on nothing may depend on where the object was found.
        if base == BaseOf::Nothing || !deltable {
            let store = size >= PROBE_FROM
                && shared
                    .decisions
                    .stored(object, || self.probe(bench, size, content.as_ref()));
            if store || !deltable || !bench.candidates.takes(size) {
                let read = Instant::now();
                self.counters.spent(&self.counters.reading, began, read);
                self.header(bench, kind, size, sink)?;
                self.note_stored(store);
                let written = match &content {
                    Some(content) => bench.deflater.run(store, &mut content.as_slice(), sink),
                    None => bench.deflater.run(store, &mut bench.contents.pieces, sink),
                };
                self.counters.spent(&self.counters.deflating, read, Instant::now());
                return written;
            }
        }
        let content = match content {
            Some(content) => content,
            None => {
                leave.ask(found, batch, shared)?;
                bench.contents.read(found, id, kind)?
            }
        };
        let read = Instant::now();
        self.counters.spent(&self.counters.reading, began, read);

        let choice = self.choose(bench, kind, base, &content, batch, &mut leave)?;
        let chosen = Instant::now();
        self.counters.spent(&self.counters.searching, read, chosen);
        let depth = choice.map_or(0, |choice| choice.depth);
        match choice {
            Some(choice) if self.delta(bench, object, choice.base, &content, sink)? => {}
            _ => {
                if !self.copied(bench, object, size, usize::MAX, sink)? {
                    self.whole(bench, kind, &content, sink)?;
                }
            }
        }
        self.counters.spent(&self.counters.deflating, chosen, Instant::now());
        if !matches!(base, BaseOf::Sent(_)) {
            bench.candidates.add(BaseOf::Sent(object), kind, &content, depth);
        }
        bench.contents.keep(id, &content);
        Ok(size)
    }

    /// Whether deflating would gain nothing.
    fn probe(&self, bench: &mut Bench, size: u64, content: Option<&Rc<Vec<u8>>>) -> bool {
        if let Some(content) = content {
            return bench.deflater.is_incompressible(content);
        }
        // Git deflated a loose object once already, and that it gained nothing is seen from the file's length. Unless it was told
        // not to.
        let pieces = &bench.contents.pieces;
        let gained_nothing = |length: u64| length.saturating_mul(100) >= size.saturating_mul(INCOMPRESSIBLE);
        pieces.file_length().is_none_or(gained_nothing) && bench.deflater.is_incompressible(pieces.beginning())
    }

    /// Find a delta for `content`, and leave it in `bench.delta`.
    fn choose(
        &self,
        bench: &mut Bench,
        kind: Kind,
        base: BaseOf,
        content: &Rc<Vec<u8>>,
        batch: usize,
        leave: &mut Leave<'_>,
    ) -> Result<Option<Choice>, Failure> {
        bench.delta.clear();
        let mut choice = None;
        if base != BaseOf::Nothing
            && content.len() >= SMALLEST.min(32)
            && let Some(before) = self.base(bench, base, kind, batch, leave)?
        {
            Counters::add(&self.counters.tries, 1);
            if let Some(delta) = bench.encoder.encode(&before, content, content.len()) {
                bench.delta.extend_from_slice(delta);
                choice = Some(Choice { base, depth: 1 });
            }
        }
        let is_searched = base == BaseOf::Nothing || self.shared.options.search == Search::Everything;
        if is_searched && bench.candidates.takes(content.len() as u64) {
            let known = choice.map(|choice| (choice, &*bench.delta));
            let (best, tries) = bench.candidates.search(kind, content, known, &mut bench.encoder);
            Counters::add(&self.counters.tries, tries);
            if let Some((best, delta)) = best {
                bench.delta.clear();
                bench.delta.extend_from_slice(delta);
                choice = Some(best);
            }
        }
        Ok(choice)
    }

    /// An object to make deltas of. One of the remote's may have gone, unless an earlier reader made use of it.
    fn base(
        &self,
        bench: &mut Bench,
        base: BaseOf,
        kind: Kind,
        batch: usize,
        leave: &mut Leave<'_>,
    ) -> Result<Option<Rc<Vec<u8>>>, Failure> {
        let id = self.name(base);
        if let Some(kept) = bench.contents.kept(id) {
            return Ok(Some(kept));
        }
        let found = bench.contents.find(&self.shared, id, kind)?;
        if let BaseOf::Remote(number) = base
            && !self.shared.decisions.present(number, || found.is_some())
        {
            return Ok(None);
        }
        let found = found.ok_or(Error::Missing {
            id: id.to_owned(),
            role: "base",
        })?;
        if found.size() >= self.shared.options.big_file_threshold {
            return Ok(None);
        }
        leave.ask(found, batch, &self.shared)?;
        let content = bench.contents.read(found, id, kind)?;
        bench.contents.keep(id, &content);
        Ok(Some(content))
    }

    /// Send `bench.delta`, unless the object itself is shorter. `false` if that is clear without deflating both.
    fn delta(
        &self,
        bench: &mut Bench,
        object: u32,
        base: BaseOf,
        content: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<bool, Failure> {
        let kind = self.shared.set.entry(object as usize).kind;
        let by_id = matches!(base, BaseOf::Remote(_)) || !self.shared.options.offset_deltas;
        let named = if by_id { NAMED } else { OFFSET };
        let length = bench.delta.len() + named;
        let clearly = if kind == Kind::Tree { CLEARLY_FOR_TREES } else { CLEARLY };
        let is_clear = length * clearly <= content.len();
        let is_deflated = self.shared.plan.whole.contains_key(&object);
        if length >= content.len()
            || (!is_clear && !is_deflated && content.len() > COMPARED && length > content.len() / 2)
        {
            return Ok(false);
        }
        let packed = bench.deflater.pack(&bench.delta, &mut bench.packed)?.len();
        if !is_clear {
            let size = content.len() as u64;
            if self.copied(bench, object, size, packed + named, sink)? {
                return Ok(true);
            }
            if !is_deflated && content.len() <= COMPARED {
                let whole = bench.deflater.pack(content, &mut bench.whole)?;
                if packed + named >= whole.len() {
                    self.header(bench, kind, size, sink)?;
                    sink.write(&bench.whole)?;
                    return Ok(true);
                }
            }
        }
        sink.begin_delta(base, bench.delta.len() as u64);
        sink.write(&bench.packed)?;
        Counters::add(&self.counters.fresh_deltas, 1);
        Counters::add(
            &self.counters.fresh_thin,
            usize::from(matches!(base, BaseOf::Remote(_))),
        );
        Ok(true)
    }

    /// Copy the object from a pack where it lies whole, deflated to at most `longest` bytes, if there is such.
    fn copied(
        &self,
        bench: &mut Bench,
        object: u32,
        size: u64,
        longest: usize,
        sink: &mut Sink<'_>,
    ) -> Result<bool, Failure> {
        let shared = &self.shared;
        let Some(&(packed, end)) = shared.plan.whole.get(&object) else {
            return Ok(false);
        };
        let entry = shared.set.entry(object as usize);
        let damaged = || Error::corrupt(entry.id, "its packed bytes don't have the checksum in the pack index");
        let (pack, range) = shared.stores.checked_entry(packed, end).ok_or_else(damaged)?;
        let bytes = pack.entry_slice(range).ok_or_else(damaged)?;
        if bytes.len() > longest {
            return Ok(false);
        }
        self.header(bench, entry.kind, size, sink)?;
        sink.write(bytes)?;
        Counters::add(&self.counters.kept, 1);
        Counters::add(&self.counters.bytes_copied, bytes.len());
        Ok(true)
    }

    fn whole(&self, bench: &mut Bench, kind: Kind, mut content: &[u8], sink: &mut Sink<'_>) -> Result<u64, Failure> {
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

/// A worker's tools.
struct Bench {
    contents: Contents,
    candidates: Candidates,
    encoder: Encoder,
    deflater: Deflater,
    header: Vec<u8>,
    /// The delta chosen, deflated, and the object deflated.
    delta: Vec<u8>,
    packed: Vec<u8>,
    whole: Vec<u8>,
}

impl Bench {
    fn new(shared: &Shared) -> Result<Self, Error> {
        let options = &shared.options;
        let share = options.memory / (4 * shared.threads.max(1));
        let window_bytes = match options.window_memory {
            0 => share,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        Ok(Bench {
            contents: Contents::new(shared, share),
            candidates: Candidates::new(options.window, window_bytes, options.window_depth()),
            encoder: Encoder::default(),
            deflater: Deflater::new(level(options.compression)?),
            header: Vec::new(),
            delta: Vec::new(),
            packed: Vec::new(),
            whole: Vec::new(),
        })
    }
}
