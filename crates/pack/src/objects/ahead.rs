//! Threads that compare trees before their turn comes.
//!
//! Reading trees is most of what enumeration costs, and which commits will be compared is known early. What they find is a
//! memory, not a decision: enumeration asks for exactly the comparisons it would make itself, in its order, and makes those it
//! doesn't get. So its result never depends on timing, nor on what went wrong in here.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use gix_hash::{ObjectId, oid};
use gix_odb::Store;
use hashbrown::HashSet;

use super::{
    changes::{self, Changes, Compared},
    name_hash,
    read::{ObjectReader, SMALL_CACHE},
    trees::Entered,
};

/// Commits handed over at a time.
const BATCH: usize = 16;
/// Batches that may be compared or wait to be asked for: a few kilobytes each, unless trees are very wide.
const BATCHES: usize = 48;
/// What one batch may find, in bytes. The rest is left to be compared in its turn.
const MOST: usize = 128 * 1024;

/// A commit whose tree is to be compared.
pub(super) struct Job {
    /// What to call it.
    pub(super) number: u32,
    pub(super) root: ObjectId,
    /// Its parents' trees.
    pub(super) olds: Vec<ObjectId>,
}

/// A comparison that was made.
struct Finding {
    tree: ObjectId,
    olds: Vec<ObjectId>,
    changes: Changes,
}

/// By commit.
type Findings = Vec<(u32, VecDeque<Finding>)>;

struct Batch {
    jobs: Vec<Job>,
    found: Sender<Findings>,
}

pub(crate) struct Ahead {
    to: Option<Sender<Batch>>,
    /// Those asked for first in front.
    awaited: VecDeque<Receiver<Findings>>,
    next: Vec<Job>,
    findings: VecDeque<(u32, VecDeque<Finding>)>,
    current: VecDeque<Finding>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Ahead {
    /// `names`: whether file names will be asked for. `None` if there is but one processor, or no thread is to be had.
    pub(super) fn start(store: &Arc<Store>, names: bool) -> Option<Ahead> {
        let processors = thread::available_parallelism().map_or(1, |count| count.get());
        if processors == 1 {
            return None;
        }
        let (to, batches) = bounded::<Batch>(BATCHES);
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..processors.min(4))
            .filter_map(|number| {
                let (store, batches, stop) = (store.clone(), batches.clone(), stop.clone());
                let work = move || work(&store, names, &batches, &stop);
                thread::Builder::new().name(format!("trees-{number}")).spawn(work).ok()
            })
            .collect();
        Some(Ahead {
            to: Some(to),
            awaited: VecDeque::new(),
            next: Vec::new(),
            findings: VecDeque::new(),
            current: VecDeque::new(),
            stop,
            threads,
        })
    }

    /// Whether there is room for more jobs.
    pub(super) fn has_room(&self) -> bool {
        self.awaited.len() < BATCHES && !self.threads.is_empty()
    }

    /// Compare this commit some time. Commits will be [begun](Self::begin) in the order in which they are offered here.
    pub(super) fn offer(&mut self, job: Job) {
        self.next.push(job);
        if self.next.len() == BATCH {
            self.send();
        }
    }

    /// Offer as many as there is room for.
    pub(super) fn fill(&mut self, jobs: &mut impl Iterator<Item = Job>) {
        while self.has_room()
            && let Some(job) = jobs.next()
        {
            self.offer(job);
        }
    }

    fn send(&mut self) {
        let (found, awaited) = bounded(1);
        let jobs = std::mem::take(&mut self.next);
        let sent = self.to.as_ref().map(|to| to.try_send(Batch { jobs, found }));
        match sent {
            Some(Ok(())) => self.awaited.push_back(awaited),
            // Neither happens: there is room for as many as are awaited, and the threads live as long as this.
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => {}
        }
    }

    /// Comparisons for this commit will be asked for next. What was found for those offered before it is forgotten.
    pub(super) fn begin(&mut self, number: u32) {
        self.current.clear();
        if self.next.iter().any(|job| job.number == number) {
            self.send();
        }
        loop {
            if self.findings.is_empty() {
                match self.awaited.pop_front().map(|awaited| awaited.recv()) {
                    Some(Ok(findings)) => self.findings.extend(findings),
                    // A thread that panicked: what it had is compared in its turn.
                    Some(Err(_)) => continue,
                    None => return,
                }
            }
            while let Some((commit, current)) = self.findings.pop_front() {
                if commit == number {
                    self.current = current;
                    return;
                }
            }
        }
    }

    /// What comparing `tree` with `olds` finds, if that was done for the commit that was begun.
    pub(super) fn take<'o>(&mut self, tree: &oid, olds: impl Iterator<Item = &'o oid> + Clone) -> Option<Changes> {
        let is_it =
            |finding: &Finding| *finding.tree == *tree && olds.clone().eq(finding.olds.iter().map(|old| &**old));
        let at = self.current.iter().position(is_it)?;
        // Those before it are not asked for any more: the order is the same.
        self.current.drain(..at);
        self.current.pop_front().map(|finding| finding.changes)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.to = None;
        for thread in self.threads.drain(..) {
            // One that panicked did so without harm, see `begin()`.
            let _ = thread.join();
        }
    }
}

fn work(store: &Arc<Store>, names: bool, batches: &Receiver<Batch>, stop: &AtomicBool) {
    let mut reader = ObjectReader::new(store, SMALL_CACHE);
    for batch in batches {
        let mut search = Search {
            reader: &mut reader,
            names,
            seen: HashSet::new(),
            entered: Entered::default(),
            left: MOST,
            stop,
        };
        let findings = batch
            .jobs
            .into_iter()
            .map(|job| (job.number, search.commit(job.root, job.olds)));
        // Nobody waits for it where the walk ended early.
        let _ = batch.found.send(findings.collect());
    }
}

/// One batch's.
struct Search<'a> {
    reader: &'a mut ObjectReader,
    names: bool,
    /// Trees met. Enumeration knows of more, hence enters fewer; never others.
    seen: HashSet<ObjectId>,
    entered: Entered,
    left: usize,
    stop: &'a AtomicBool,
}

impl Search<'_> {
    /// As [`Comparison::add()`](super::trees::Comparison::add), the same trees in the same order.
    fn commit(&mut self, root: ObjectId, olds: Vec<ObjectId>) -> VecDeque<Finding> {
        let mut findings = VecDeque::new();
        let added = self.seen.insert(root);
        if olds.contains(&root) || !self.entered.is_due(&root, added, olds.iter().copied()) {
            return findings;
        }
        let mut stack = vec![(root, 0, olds)];
        while let Some((tree, path, olds)) = stack.pop() {
            if self.left == 0 || self.stop.load(Ordering::Relaxed) {
                break;
            }
            let compared = Compared {
                tree: &tree,
                path,
                names: self.names,
            };
            // Where it fails, it will fail in its turn, too, and be told.
            let Ok(changes) = changes::compare(self.reader, compared, olds.iter().map(|old| &**old)) else {
                break;
            };
            for (change, befores) in changes.iter().filter(|(change, _)| change.is_tree) {
                let added = self.seen.insert(change.id);
                let olds = befores.iter().map(|before| before.id);
                if self.entered.is_due(&change.id, added, olds.clone()) {
                    stack.push((change.id, name_hash::extend(change.path, b"/"), olds.collect()));
                }
            }
            self.left = self.left.saturating_sub(changes.bytes() + size_of::<Finding>());
            findings.push_back(Finding { tree, olds, changes });
        }
        findings
    }
}
