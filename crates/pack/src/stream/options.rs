use std::sync::atomic::{AtomicU64, Ordering};

use prodash::progress::StepShared;

/// How a pack is made. The defaults suit a push over a network.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Threads that deflate (`pack.threads`); `None` or 0 takes one for each processor. Reading adds the caller's own.
    pub threads: Option<usize>,
    /// Deflate level (`pack.compression`, `core.compression`): -1 for zlib's default, which is 6, or 0 to 9.
    pub compression: i32,
    /// Reuse stored deltas whose base is not in the pack, where enumeration saw that base on the remote. The receiver must
    /// complete such a pack (`git index-pack --fix-thin`), as receive-pack does unless it advertises `no-thin`.
    pub thin: bool,
    /// Name bases by their distance in the pack (`ofs-delta`) instead of by id: smaller, and understood by every server since 2008.
    pub offset_deltas: bool,
    /// Bytes that may wait between workers and reader, and also the bytes of objects that workers hold in memory as a whole. A
    /// single object that is larger (a stored delta which can't be reused) is let through alone. Default 24 MiB.
    pub memory: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threads: None,
            compression: -1,
            thin: false,
            offset_deltas: true,
            memory: 24 * 1024 * 1024,
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
    /// Objects deflated anew.
    pub deflated: usize,
    /// Of those deflated so far, the ones found incompressible and stored.
    pub stored: u64,
    /// Bytes of content deflated so far.
    pub bytes_deflated: u64,
    /// Bytes copied from packs so far.
    pub bytes_copied: u64,
    /// Bytes read from the pack so far.
    pub bytes_out: u64,
}

/// The moving part of [`Statistics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) stored: AtomicU64,
    pub(crate) bytes_deflated: AtomicU64,
    pub(crate) bytes_copied: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, by: usize) {
        counter.fetch_add(by as u64, Ordering::Relaxed);
    }

    pub(crate) fn fill(&self, statistics: &mut Statistics) {
        statistics.stored = self.stored.load(Ordering::Relaxed);
        statistics.bytes_deflated = self.bytes_deflated.load(Ordering::Relaxed);
        statistics.bytes_copied = self.bytes_copied.load(Ordering::Relaxed);
        statistics.bytes_out = self.bytes_out.load(Ordering::Relaxed);
    }
}
