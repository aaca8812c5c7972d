//! Whether one commit comes before another: what tells a fast-forward from a rewrite.
//!
//! Uses the commit-graph file where there is one, and stops as soon as the answer is known: a push must not walk the whole history
//! to learn that it adds one commit. Parents that aren't here (shallow repositories) end the walk.

use std::collections::{BinaryHeap, HashMap, HashSet};

use gix::{ObjectId, revwalk::Graph};

use super::Error;

/// Reachable from the descendant-to-be.
const NEW: u8 = 1;
/// Reachable from the ancestor-to-be.
const OLD: u8 = 2;
/// The commit waits in the queue.
const QUEUED: u8 = 4;

/// Walks commits of one repository.
pub(crate) struct Ancestry<'repo> {
    repo: &'repo gix::Repository,
    commit_graph: Option<gix::commitgraph::Graph>,
    shallow: HashSet<ObjectId>,
}

/// A commit to visit: the highest generation first, then the youngest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Visit {
    generation: u32,
    time: i64,
    id: ObjectId,
    parents: Vec<ObjectId>,
}

impl Visit {
    fn new(id: ObjectId, node: Node) -> Visit {
        Visit {
            generation: node.generation,
            time: node.time,
            id,
            parents: node.parents,
        }
    }
}

struct Node {
    generation: u32,
    time: i64,
    parents: Vec<ObjectId>,
}

impl<'repo> Ancestry<'repo> {
    pub(crate) fn new(repo: &'repo gix::Repository) -> Result<Self, Error> {
        let shallow = repo
            .shallow_commits()
            .map_err(Error::repository("reading the shallow boundary"))?;
        Ok(Ancestry {
            repo,
            // A commit-graph that can't be read only costs time.
            commit_graph: repo.commit_graph_if_enabled().ok().flatten(),
            shallow: shallow.iter().flat_map(|commits| commits.iter().copied()).collect(),
        })
    }

    /// Whether `new` is `old` or comes after it. Both must be commits.
    ///
    /// Both ends are walked by age. What is reachable from `old` can't lead down to `old`, so the walk is over as soon as
    /// everything that waits is reachable from `old`, or lies below it by generation.
    pub(crate) fn is_ancestor(&self, old: ObjectId, new: ObjectId) -> Result<bool, Error> {
        if old == new {
            return Ok(true);
        }
        let mut graph = self.graph();
        let Some(floor) = self.node(&mut graph, old)?.map(|node| node.generation) else {
            return Ok(false);
        };
        let mut paint: HashMap<ObjectId, u8> = HashMap::new();
        let mut queue = BinaryHeap::new();
        // How many commits in the queue are reachable from `new` alone.
        let mut undecided = 0usize;
        let mut pending = vec![(old, OLD), (new, NEW)];
        loop {
            for (id, color) in pending.drain(..) {
                let before = paint.get(&id).copied().unwrap_or(0);
                let after = before | color;
                if after == before {
                    continue;
                }
                if id == old && after & NEW != 0 {
                    return Ok(true);
                }
                if before & QUEUED != 0 {
                    undecided -= usize::from(before == NEW | QUEUED);
                    paint.insert(id, after);
                    continue;
                }
                let Some(node) = self.node(&mut graph, id)? else {
                    continue;
                };
                if after == NEW {
                    if node.generation < floor {
                        continue;
                    }
                    undecided += 1;
                }
                paint.insert(id, after | QUEUED);
                queue.push(Visit::new(id, node));
            }
            if undecided == 0 {
                return Ok(false);
            }
            let Some(visit) = queue.pop() else {
                return Ok(false);
            };
            let color = paint.get(&visit.id).copied().unwrap_or(0) & !QUEUED;
            paint.insert(visit.id, color);
            undecided -= usize::from(color == NEW);
            pending.extend(visit.parents.into_iter().map(|parent| (parent, color)));
        }
    }

    /// Those of `candidates` that `tips` lead to. All must be commits; unknown tips are passed over.
    pub(super) fn reachable(
        &self,
        tips: impl IntoIterator<Item = ObjectId>,
        candidates: &HashSet<ObjectId>,
    ) -> Result<HashSet<ObjectId>, Error> {
        let mut found = HashSet::new();
        let mut graph = self.graph();
        let mut floor = u32::MAX;
        for id in candidates {
            if let Some(node) = self.node(&mut graph, *id)? {
                floor = floor.min(node.generation);
            }
        }
        let mut seen = HashSet::new();
        let mut queue = BinaryHeap::new();
        let mut pending: Vec<_> = tips.into_iter().collect();
        while found.len() < candidates.len() {
            for id in pending.drain(..) {
                if !seen.insert(id) {
                    continue;
                }
                if let Some(node) = self.node(&mut graph, id)?.filter(|node| node.generation >= floor) {
                    if candidates.contains(&id) {
                        found.insert(id);
                    }
                    queue.push(Visit::new(id, node));
                }
            }
            match queue.pop() {
                Some(visit) => pending.extend(visit.parents),
                None => break,
            }
        }
        Ok(found)
    }

    fn graph(&self) -> Graph<'_, '_, ()> {
        self.repo.revision_graph(self.commit_graph.as_ref())
    }

    fn node(&self, graph: &mut Graph<'_, '_, ()>, id: ObjectId) -> Result<Option<Node>, Error> {
        let failed = || Error::repository("walking the history");
        let Some(commit) = graph.try_lookup(&id).map_err(failed())? else {
            return Ok(None);
        };
        let (generation, time) = commit.generation_and_timestamp().map_err(failed())?;
        let parents = if self.shallow.contains(&id) {
            Vec::new()
        } else {
            commit.iter_parents().collect::<Result<_, _>>().map_err(failed())?
        };
        Ok(Some(Node {
            // What the commit-graph doesn't know is younger than all it knows.
            generation: generation.unwrap_or(u32::MAX),
            time,
            parents,
        }))
    }
}
