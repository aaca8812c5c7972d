//! What the rooms below and gix report to: named counters that outlive the work, so that a stage of a millisecond is drawn too.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use gix::progress::{Count, Id, MessageLevel, NestedProgress, Progress, Step, StepShared, Unit};

/// All stages of one command, in the order in which they began.
#[derive(Default)]
pub(crate) struct Stages(Mutex<Vec<Arc<Counters>>>);

#[derive(Default)]
struct Counters {
    name: Mutex<String>,
    id: Id,
    step: StepShared,
    /// 0 while the total is not known.
    total: AtomicUsize,
    ended: AtomicBool,
}

/// A stage at one moment.
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) id: Id,
    pub(crate) step: usize,
    pub(crate) total: Option<usize>,
    pub(crate) ended: bool,
}

impl Stages {
    /// All stages as they stand.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let stages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stages
            .iter()
            .map(|stage| Seen {
                name: stage.name.lock().unwrap_or_else(PoisonError::into_inner).clone(),
                id: stage.id,
                step: stage.step.load(Ordering::Relaxed),
                total: Some(stage.total.load(Ordering::Relaxed)).filter(|total| *total > 0),
                ended: stage.ended.load(Ordering::Relaxed),
            })
            .collect()
    }
}

/// A handle on one stage; it ends when the handle goes.
pub(crate) struct Stage {
    stages: Arc<Stages>,
    counters: Arc<Counters>,
}

impl Stage {
    /// The root: never drawn itself.
    pub(crate) fn top(stages: Arc<Stages>) -> Self {
        Stage {
            stages,
            counters: Arc::default(),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.counters.ended.store(true, Ordering::Relaxed);
    }
}

impl Count for Stage {
    fn set(&self, step: Step) {
        self.counters.step.store(step, Ordering::Relaxed);
    }

    fn step(&self) -> Step {
        self.counters.step.load(Ordering::Relaxed)
    }

    fn inc_by(&self, step: Step) {
        self.counters.step.fetch_add(step, Ordering::Relaxed);
    }

    fn counter(&self) -> StepShared {
        Arc::clone(&self.counters.step)
    }
}

impl Progress for Stage {
    fn init(&mut self, max: Option<Step>, _unit: Option<Unit>) {
        self.counters.total.store(max.unwrap_or(0), Ordering::Relaxed);
    }

    fn set_max(&mut self, max: Option<Step>) -> Option<Step> {
        let before = self.counters.total.swap(max.unwrap_or(0), Ordering::Relaxed);
        Some(before).filter(|total| *total > 0)
    }

    fn max(&self) -> Option<Step> {
        Some(self.counters.total.load(Ordering::Relaxed)).filter(|total| *total > 0)
    }

    fn set_name(&mut self, name: String) {
        *self.counters.name.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    fn name(&self) -> Option<String> {
        Some(
            self.counters
                .name
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        )
    }

    fn id(&self) -> Id {
        self.counters.id
    }

    /// gix's remarks about its own speed: not what git's users expect to read.
    fn message(&self, _level: MessageLevel, _message: String) {}
}

impl NestedProgress for Stage {
    type SubProgress = Stage;

    fn add_child(&mut self, name: impl Into<String>) -> Stage {
        self.add_child_with_id(name, gix::progress::UNKNOWN)
    }

    fn add_child_with_id(&mut self, name: impl Into<String>, id: Id) -> Stage {
        let counters = Arc::new(Counters {
            name: Mutex::new(name.into()),
            id,
            ..Counters::default()
        });
        self.stages
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(&counters));
        Stage {
            stages: Arc::clone(&self.stages),
            counters,
        }
    }
}
