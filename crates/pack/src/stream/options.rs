use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use prodash::progress::StepShared;

/// How a pack is made. The defaults suit a push over a network.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Threads that deflate (`pack.threads`); `None` or 0 takes one for each processor. Reading adds the caller's own.
    pub threads: Option<usize>,
    /// Deflate level (`pack.compression`, `core.compression`): -1 for zlib's default, which is 6, or 0 to 9.
    pub compression: i32,
    /// Use bases that are not in the pack, where enumeration saw them on the remote. The receiver must
    /// complete such a pack (`git index-pack --fix-thin`), as receive-pack does unless it advertises `no-thin`.
    pub thin: bool,
    /// Name bases by their distance in the pack (`ofs-delta`) instead of by id: smaller, and understood by every server since 2008.
    pub offset_deltas: bool,
    /// How many candidates a new object is compared with to find a base for a delta (`pack.window`); 0 searches none, and leaves
    /// the previous version of the same path.
    pub window: usize,
    /// The longest chain of deltas (`pack.depth`); 0 makes none.
    pub depth: usize,
    /// Which objects are compared with the candidates in the window.
    pub search: Search,
    /// Bytes of candidates that each thread may hold (`pack.windowMemory`); 0 for a share of [`memory`](Self::memory).
    pub window_memory: u64,
    /// Objects of that many bytes and more are never made deltas of (`core.bigFileThreshold`).
    pub big_file_threshold: u64,
    /// Bytes that may wait between workers and reader, and also the bytes of objects that workers hold in memory as a whole. A
    /// single object that is larger (a stored delta which can't be reused) is let through alone. Default 16 MiB.
    pub memory: usize,
}

/// Where deltas are looked for. Objects that are copied as stored deltas need none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Search {
    /// What has a previous version under the same path becomes a delta of that one, without a search. Only what is new goes through
    /// the window.
    #[default]
    NewPaths,
    /// Every tree and blob goes through the window, as git does it: a tenth smaller and some times slower.
    Everything,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threads: None,
            compression: -1,
            thin: false,
            offset_deltas: true,
            window: 10,
            depth: 50,
            search: Search::NewPaths,
            window_memory: 0,
            big_file_threshold: 512 * 1024 * 1024,
            memory: 16 * 1024 * 1024,
        }
    }
}

impl Options {
    /// Set [`threads`](Self::threads).
    pub fn threads(mut self, threads: Option<usize>) -> Self {
        self.threads = threads;
        self
    }

    /// Set [`compression`](Self::compression).
    pub fn compression(mut self, level: i32) -> Self {
        self.compression = level;
        self
    }

    /// Set [`thin`](Self::thin).
    pub fn thin(mut self, thin: bool) -> Self {
        self.thin = thin;
        self
    }

    /// Set [`offset_deltas`](Self::offset_deltas).
    pub fn offset_deltas(mut self, offset_deltas: bool) -> Self {
        self.offset_deltas = offset_deltas;
        self
    }

    /// Set [`window`](Self::window).
    pub fn window(mut self, candidates: usize) -> Self {
        self.window = candidates;
        self
    }

    /// Set [`depth`](Self::depth).
    pub fn depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        self
    }

    /// Set [`search`](Self::search).
    pub fn search(mut self, search: Search) -> Self {
        self.search = search;
        self
    }

    /// Set [`window_memory`](Self::window_memory), in bytes.
    pub fn window_memory(mut self, bytes: u64) -> Self {
        self.window_memory = bytes;
        self
    }

    /// Set [`big_file_threshold`](Self::big_file_threshold), in bytes.
    pub fn big_file_threshold(mut self, bytes: u64) -> Self {
        self.big_file_threshold = bytes;
        self
    }

    /// Chains along previous versions get what the window leaves.
    pub(crate) fn chain_depth(&self) -> usize {
        match self.search {
            Search::NewPaths => self.depth - self.window_depth(),
            Search::Everything => self.depth,
        }
    }

    /// How deep a chain may become by the search of the window.
    pub(crate) fn window_depth(&self) -> usize {
        match self.search {
            _ if self.window == 0 => 0,
            Search::NewPaths => self.depth / 16,
            Search::Everything => self.depth,
        }
    }

    /// Set [`memory`](Self::memory), in bytes.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }
}

/// Counters to watch, named after git's stages; put in what `prodash::Count::counter()` returns. Counting is watched through the
/// argument of [`ObjectSet::find`](crate::ObjectSet::find).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stages {
    /// "Compressing objects": objects deflated so far, of [`Statistics::deflated`].
    pub compressing: StepShared,
    /// "Writing objects": objects read from the latest reader so far, of [`Statistics::objects`].
    pub writing: StepShared,
    /// Bytes read from the latest reader so far.
    pub bytes: StepShared,
}

impl Stages {
    /// Counters for the two stages and the bytes.
    pub fn new(compressing: StepShared, writing: StepShared, bytes: StepShared) -> Self {
        Stages {
            compressing,
            writing,
            bytes,
        }
    }
}

/// What a pack is made of, and how far the latest reader has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Objects in the pack.
    pub objects: usize,
    /// Of these, whole objects copied from a local pack as they lie.
    pub copied: usize,
    /// Deltas copied from a local pack as they lie.
    pub deltas: usize,
    /// Of the deltas, those whose base only the remote has.
    pub thin: usize,
    /// Objects to deflate anew, whole or as deltas.
    pub deflated: usize,
    /// Of those done so far, the ones copied from a local pack after all, because no delta made them shorter.
    pub kept: u64,
    /// Of those deflated so far, the ones made deltas.
    pub fresh_deltas: u64,
    /// Of these, those whose base only the remote has.
    pub fresh_thin: u64,
    /// How many deltas were tried for that so far.
    pub tries: u64,
    /// Time it took to plan the pack: to find objects and to arrange them.
    pub planning: Duration,
    /// Time from the start of the latest reader to the latest bytes it gave, whatever it waited for.
    pub writing: Duration,
    /// Time that all threads together have spent so far on reading objects,
    pub reading: Duration,
    /// on making deltas,
    pub searching: Duration,
    /// and on deflating.
    pub deflating: Duration,
    /// Of those deflated so far, the ones found incompressible and stored.
    pub stored: u64,
    /// Bytes of content of the objects deflated, or kept, so far.
    pub bytes_deflated: u64,
    /// Bytes copied from packs so far, deflated as they are there.
    pub bytes_copied: u64,
    /// Bytes read from the pack so far.
    pub bytes_out: u64,
}

/// The moving part of [`Statistics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) stored: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) fresh_deltas: AtomicU64,
    pub(crate) fresh_thin: AtomicU64,
    pub(crate) tries: AtomicU64,
    /// In nanoseconds.
    pub(crate) reading: AtomicU64,
    pub(crate) searching: AtomicU64,
    pub(crate) deflating: AtomicU64,
    pub(crate) writing: AtomicU64,
    pub(crate) bytes_deflated: AtomicU64,
    pub(crate) bytes_copied: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, by: usize) {
        counter.fetch_add(by as u64, Ordering::Relaxed);
    }

    pub(crate) fn spent(&self, counter: &AtomicU64, from: Instant, to: Instant) {
        let nanoseconds = to.saturating_duration_since(from).as_nanos();
        counter.fetch_add(u64::try_from(nanoseconds).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn wrote(&self, since: Instant) {
        let nanoseconds = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.writing.store(nanoseconds, Ordering::Relaxed);
    }

    pub(crate) fn fill(&self, statistics: &mut Statistics) {
        let time = |counter: &AtomicU64| Duration::from_nanos(counter.load(Ordering::Relaxed));
        statistics.stored = self.stored.load(Ordering::Relaxed);
        statistics.kept = self.kept.load(Ordering::Relaxed);
        statistics.fresh_deltas = self.fresh_deltas.load(Ordering::Relaxed);
        statistics.fresh_thin = self.fresh_thin.load(Ordering::Relaxed);
        statistics.tries = self.tries.load(Ordering::Relaxed);
        statistics.reading = time(&self.reading);
        statistics.searching = time(&self.searching);
        statistics.writing = time(&self.writing);
        statistics.deflating = time(&self.deflating);
        statistics.bytes_deflated = self.bytes_deflated.load(Ordering::Relaxed);
        statistics.bytes_copied = self.bytes_copied.load(Ordering::Relaxed);
        statistics.bytes_out = self.bytes_out.load(Ordering::Relaxed);
    }
}
