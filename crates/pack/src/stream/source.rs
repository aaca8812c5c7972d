use std::{
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool, atomic::Ordering},
    thread,
    time::Instant,
};

use gix_odb::Store;

use super::{
    decisions::Decisions,
    deflate,
    options::{Counters, Options, Stages, Statistics},
    plan::{self, Plan},
    reader::PackReader,
    stores::Stores,
};
use crate::{Error, ObjectSet};

/// What readers and workers of one source have in common.
pub(crate) struct Shared {
    pub(crate) store: Arc<Store>,
    /// The packs as they were when the source was made: what is copied is copied from these.
    pub(crate) stores: Stores,
    pub(crate) decisions: Decisions,
    pub(crate) set: Arc<ObjectSet>,
    pub(crate) plan: Plan,
    pub(crate) options: Options,
    /// How many workers share the memory; what is compared with what depends on it, so it stays as it is.
    pub(crate) threads: usize,
    pub(crate) interrupt: Arc<AtomicBool>,
}

/// A pack that can be read, as often as needed: [`reader()`](Self::reader()).
///
/// It keeps the packs it copies from mapped, so a repack in the meantime does no harm.
pub struct PackSource {
    shared: Arc<Shared>,
    stages: Stages,
    latest: Mutex<Arc<Counters>>,
}

impl PackSource {
    /// Look up all `objects` in `odb` and decide how each travels. What can't be found is reported here, before any byte was made.
    ///
    /// Raising `interrupt` makes this, and readers, end with [`Error::Interrupted`].
    pub fn new(
        odb: gix_odb::Handle,
        objects: Arc<ObjectSet>,
        options: Options,
        interrupt: Arc<AtomicBool>,
    ) -> Result<PackSource, Error> {
        deflate::level(options.compression)?;
        let began = Instant::now();
        let store = odb.store();
        let stores = Stores::open(&store)?;
        let mut plan = plan::make(&store, &stores, &objects, &options, &interrupt)?;
        plan.statistics.planning = began.elapsed();
        tracing::debug!(statistics = ?plan.statistics, "pack planned");
        let threads = match options.threads {
            None | Some(0) => thread::available_parallelism().map_or(1, |threads| threads.get()),
            Some(threads) => threads,
        };
        Ok(PackSource {
            shared: Arc::new(Shared {
                store,
                stores,
                decisions: Decisions::default(),
                set: objects,
                plan,
                options,
                threads,
                interrupt,
            }),
            stages: Stages::default(),
            latest: Mutex::default(),
        })
    }

    /// Count progress in `stages`.
    pub fn watched(mut self, stages: Stages) -> Self {
        self.stages = stages;
        self
    }

    /// Start making the pack. Each reader yields the same bytes, also when a repack has moved objects in the meantime; where an
    /// object or a base that was used before has gone, reading fails instead.
    pub fn reader(&self) -> Result<PackReader, Error> {
        let counters = Arc::new(Counters::default());
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = counters.clone();
        for counter in [&self.stages.compressing, &self.stages.writing, &self.stages.bytes] {
            counter.store(0, Ordering::Relaxed);
        }
        PackReader::start(self.shared.clone(), counters, self.stages.clone())
    }

    /// What the pack is made of, and how far the latest reader has come.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.shared.plan.statistics;
        self.latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fill(&mut statistics);
        statistics
    }
}

impl std::fmt::Debug for PackSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackSource")
            .field("options", &self.shared.options)
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}
