//! Which commits are to be sent: those reachable from the wanted tips but not from the remote's.
//!
//! Both kinds of tips are walked together, newest first, each commit handing its colour to its parents, until only commits that
//! the remote has are left. Commit-graph generation numbers make that exact. Without them commit dates steer, and clocks may have
//! been wrong: so a commit that turns out to be on the remote passes that on to ancestors visited before, and the walk goes on a
//! little beyond the point where it seems done, as git's own does.

use std::{
    collections::BinaryHeap,
    sync::{Arc, atomic::AtomicBool},
};

use gix_hash::{ObjectId, oid};
use gix_object::Kind;
use gix_odb::Store;
use hashbrown::{HashMap, HashSet, HashTable, hash_table};

use super::{
    ahead::{Ahead, Job},
    read::{ObjectReader, header_id},
    set::fast_hash,
};
use crate::{Error, error::check};

/// How many of the remote's commits to look at after the last wanted one. Git takes 5; a commit costs 10 to 40 µs.
const SLOP: usize = 32;
/// From how many commits on threads pay.
const MANY: usize = 48;
/// The generation of commits that the commit-graph doesn't have: none of them is an ancestor of one it has.
const UNKNOWN_GENERATION: u32 = u32::MAX;

/// What is known of a commit: the remote has it; its parents were reached; it isn't here.
const HIDDEN: u8 = 1;
const VISITED: u8 = 2;
const MISSING: u8 = 4;
/// Other threads compare its tree.
const OFFERED: u8 = 8;

struct Node {
    id: ObjectId,
    tree: ObjectId,
    time: i64,
    generation: u32,
    first_parent: u32,
    parents: u32,
    flags: u8,
}

/// A commit to send.
pub(crate) struct Commit<'a> {
    pub(crate) number: u32,
    pub(crate) id: &'a oid,
    pub(crate) tree: &'a oid,
    parents: &'a [u32],
    nodes: &'a [Node],
}

impl<'a> Commit<'a> {
    /// The parents' trees, and whether the remote has them. Parents beyond a shallow boundary don't show.
    pub(crate) fn parent_trees(&self) -> impl Iterator<Item = (&'a oid, bool)> + use<'a> {
        let nodes = self.nodes;
        self.parents
            .iter()
            .map(move |&parent| &nodes[parent as usize])
            .filter(|node| node.flags & MISSING == 0)
            .map(|node| (&*node.tree, node.flags & HIDDEN != 0))
    }
}

/// The history that was walked.
pub(crate) struct Commits {
    nodes: Vec<Node>,
    table: HashTable<u32>,
    edges: Vec<u32>,
    wanted: Vec<u32>,
    /// Taken for wanted at first, but the remote has them.
    corrected: Vec<u32>,
}

impl Commits {
    /// The trees of commits that were asked for in vain: git, too, looks in them for what else the remote has.
    pub(crate) fn vain_trees<'a>(&'a self, tips: &'a [ObjectId]) -> impl Iterator<Item = &'a oid> {
        let number = |id: &ObjectId| self.table.find(fast_hash(id), |&at| self.nodes[at as usize].id == *id);
        tips.iter()
            .filter_map(number)
            .chain(&self.corrected)
            .map(|&number| &self.nodes[number as usize])
            .filter(|node| node.flags & HIDDEN != 0 && node.flags & MISSING == 0)
            .map(|node| &*node.tree)
    }

    /// The commits to send, newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Commit<'_>> {
        self.wanted.iter().map(|&number| {
            let node = &self.nodes[number as usize];
            Commit {
                number,
                id: &node.id,
                tree: &node.tree,
                parents: self.edges_of(number),
                nodes: &self.nodes,
            }
        })
    }

    /// Those of [`iter()`](Self::iter) that were not handed over while walking.
    pub(super) fn to_offer(&self) -> impl Iterator<Item = Job> {
        let is_left = |number: &u32| self.nodes[*number as usize].flags & OFFERED == 0;
        self.wanted
            .iter()
            .copied()
            .filter(is_left)
            .map(|number| self.job(number))
    }

    fn job(&self, number: u32) -> Job {
        let parents = self.edges_of(number).iter().map(|&parent| &self.nodes[parent as usize]);
        Job {
            number,
            root: self.nodes[number as usize].tree,
            olds: parents
                .filter(|node| node.flags & MISSING == 0)
                .map(|node| node.tree)
                .collect(),
        }
    }

    fn edges_of(&self, number: u32) -> &[u32] {
        let node = &self.nodes[number as usize];
        let first = node.first_parent as usize;
        &self.edges[first..first + node.parents as usize]
    }
}

/// What the walk reads from.
pub(crate) struct Sources<'a> {
    pub(crate) reader: &'a mut ObjectReader,
    pub(crate) graph: Option<&'a gix_commitgraph::Graph>,
    /// Commits whose parents are to be taken as absent, even if they happen to be here.
    pub(crate) shallow: &'a HashSet<ObjectId>,
    /// Threads that compare trees, once there are commits enough.
    pub(super) ahead: &'a mut Option<Ahead>,
    /// What they read from,
    pub(super) store: &'a Arc<Store>,
    /// and whether they are to keep names.
    pub(super) names: bool,
}

pub(crate) fn walk(
    sources: &mut Sources<'_>,
    wanted: &[ObjectId],
    hidden: &[ObjectId],
    interrupt: &AtomicBool,
) -> Result<Commits, Error> {
    let mut walk = Walk {
        commits: Commits {
            nodes: Vec::new(),
            table: HashTable::new(),
            edges: Vec::new(),
            wanted: Vec::new(),
            corrected: Vec::new(),
        },
        queue: BinaryHeap::new(),
        announced: HashMap::new(),
        pending: 0,
    };
    for id in hidden {
        walk.reach(sources, id, true)?;
    }
    for id in wanted {
        walk.reach(sources, id, false)?;
    }
    walk.run(sources, interrupt)?;
    let Walk { mut commits, .. } = walk;
    let nodes = &commits.nodes;
    let is_wanted = |number: &u32| nodes[*number as usize].flags & HIDDEN == 0;
    (commits.wanted, commits.corrected) = commits.wanted.into_iter().partition(is_wanted);
    for &number in &commits.wanted {
        if commits.nodes[number as usize].flags & MISSING != 0 {
            let id = commits.nodes[number as usize].id;
            return Err(Error::Missing { id, role: "commit" });
        }
    }
    Ok(commits)
}

struct Walk {
    commits: Commits,
    /// (generation, time, number)
    queue: BinaryHeap<(u32, i64, u32)>,
    /// The parents that commits in the queue name: each commit is read once.
    announced: HashMap<u32, Vec<ObjectId>>,
    /// How many in the queue are wanted and not known to be on the remote.
    pending: usize,
}

impl Walk {
    fn run(&mut self, sources: &mut Sources<'_>, interrupt: &AtomicBool) -> Result<(), Error> {
        let mut slop = SLOP;
        let mut oldest_wanted = i64::MAX;
        while let Some(&(generation, time, number)) = self.queue.peek() {
            if self.pending == 0 {
                if generation != UNKNOWN_GENERATION || slop == 0 {
                    break;
                }
                slop = if time >= oldest_wanted { SLOP } else { slop - 1 };
            } else {
                slop = SLOP;
            }
            check(interrupt)?;
            self.queue.pop();
            let node = &mut self.commits.nodes[number as usize];
            node.flags |= VISITED;
            let hidden = node.flags & HIDDEN != 0;
            if !hidden {
                self.pending -= 1;
                oldest_wanted = time;
                self.commits.wanted.push(number);
            }
            self.parents(sources, number, hidden)?;
            if !hidden {
                self.offer(sources);
            }
        }
        Ok(())
    }

    /// Have other threads compare trees while walking goes on. That some of these commits may turn out to be on the remote does no
    /// harm.
    fn offer(&mut self, sources: &mut Sources<'_>) {
        let wanted = self.commits.wanted.len();
        let first = match sources.ahead {
            Some(_) => wanted - 1,
            None if wanted == MANY => {
                *sources.ahead = Ahead::start(sources.store, sources.names);
                0
            }
            None => return,
        };
        let Some(ahead) = sources.ahead else { return };
        // The order is that of the walk: once one had to be left, so must those after it.
        let follows = first == 0 || self.commits.nodes[self.commits.wanted[first - 1] as usize].flags & OFFERED != 0;
        if !follows || !ahead.has_room() {
            return;
        }
        for at in first..wanted {
            let number = self.commits.wanted[at];
            ahead.offer(self.commits.job(number));
            self.commits.nodes[number as usize].flags |= OFFERED;
        }
    }

    /// Reach the parents of `number`.
    fn parents(&mut self, sources: &mut Sources<'_>, number: u32, hidden: bool) -> Result<(), Error> {
        let announced = self.announced.remove(&number);
        let node = &self.commits.nodes[number as usize];
        if node.flags & MISSING != 0 {
            return Ok(());
        }
        let id = node.id;
        let mut parents = Vec::new();
        if !sources.shallow.contains(&id) {
            match (announced, sources.graph) {
                (Some(announced), _) => parents = announced,
                (None, Some(graph)) => {
                    let commit = graph.commit_by_id(id);
                    for parent in commit.iter().flat_map(|commit| commit.iter_parents()) {
                        let parent = parent.map_err(|error| Error::unreadable(&id, error))?;
                        parents.push(graph.id_at(parent).to_owned());
                    }
                }
                (None, None) => {}
            }
        }
        let first = self.commits.edges.len();
        for parent in &parents {
            // The parent's own parents are appended when it is visited, so these stay together.
            let parent = self.reach(sources, parent, hidden)?;
            self.commits.edges.push(parent);
        }
        let node = &mut self.commits.nodes[number as usize];
        node.first_parent = u32::try_from(first).map_err(|_| Error::TooManyObjects { objects: first })?;
        node.parents = parents.len() as u32;
        Ok(())
    }

    /// A child or tip has this commit: queue it if it is new, and note if the remote has it.
    fn reach(&mut self, sources: &mut Sources<'_>, id: &oid, hidden: bool) -> Result<u32, Error> {
        let nodes = &self.commits.nodes;
        let entry = self.commits.table.entry(
            fast_hash(id),
            |&number| *nodes[number as usize].id == *id,
            |&number| fast_hash(&nodes[number as usize].id),
        );
        match entry {
            hash_table::Entry::Occupied(entry) => {
                let number = *entry.get();
                if hidden {
                    self.hide(number);
                }
                Ok(number)
            }
            hash_table::Entry::Vacant(entry) => {
                let number = nodes.len() as u32;
                entry.insert(number);
                let (node, parents) = load(sources, id, hidden)?;
                self.announced.extend(parents.map(|parents| (number, parents)));
                self.queue.push((node.generation, node.time, number));
                self.pending += usize::from(!hidden);
                self.commits.nodes.push(node);
                Ok(number)
            }
        }
    }

    /// The remote has this commit, hence all its ancestors: correct those that were visited too early.
    fn hide(&mut self, number: u32) {
        let mut stack = vec![number];
        while let Some(number) = stack.pop() {
            let node = &mut self.commits.nodes[number as usize];
            if node.flags & HIDDEN != 0 {
                continue;
            }
            node.flags |= HIDDEN;
            if node.flags & VISITED != 0 {
                stack.extend_from_slice(self.commits.edges_of(number));
            } else {
                self.pending -= 1;
            }
        }
    }
}

/// What there is to know about a commit. Its parents are told if it had to be read; else the commit-graph has them.
fn load(sources: &mut Sources<'_>, id: &oid, hidden: bool) -> Result<(Node, Option<Vec<ObjectId>>), Error> {
    let mut node = Node {
        id: id.to_owned(),
        tree: id.kind().null(),
        time: i64::MIN,
        generation: UNKNOWN_GENERATION,
        first_parent: 0,
        parents: 0,
        flags: if hidden { HIDDEN } else { 0 },
    };
    if let Some(commit) = sources.graph.and_then(|graph| graph.commit_by_id(id)) {
        node.tree = commit.root_tree_id().to_owned();
        node.time = i64::try_from(commit.committer_timestamp()).unwrap_or(i64::MAX);
        node.generation = commit.generation();
        return Ok((node, None));
    }
    let data = if hidden {
        sources.reader.read_if_present(id, Kind::Commit)
    } else {
        match sources.reader.read(id, Kind::Commit, "commit") {
            Ok(data) => Some(data),
            // It may still turn out that the remote has what asked for it.
            Err(Error::Missing { .. }) => None,
            Err(error) => return Err(error),
        }
    };
    let parsed = data.map(|data| header_id(data, b"tree ").filter(|(tree, _)| tree.kind() == id.kind()));
    let mut parents = Vec::new();
    match parsed {
        Some(Some((tree, mut rest))) => {
            node.tree = tree;
            node.time = committer_time(rest);
            while let Some((parent, after)) = header_id(rest, b"parent ") {
                parents.push(parent);
                rest = after;
            }
        }
        Some(None) if !hidden => return Err(Error::corrupt(id, "it has no `tree` line, which a commit begins with")),
        _ => node.flags |= MISSING,
    }
    Ok((node, Some(parents)))
}

/// Seconds since the epoch from the `committer` line. As in git, a line that can't be parsed counts as the epoch itself.
fn committer_time(mut header: &[u8]) -> i64 {
    while let Some(end) = header.iter().position(|&byte| byte == b'\n') {
        let (line, rest) = header.split_at(end);
        if line.is_empty() {
            break;
        }
        if line.starts_with(b"committer ") {
            let date = line.iter().rposition(|&byte| byte == b'>').map(|at| &line[at + 1..]);
            return date
                .and_then(|date| std::str::from_utf8(date).ok())
                .and_then(|date| date.split_ascii_whitespace().next())
                .and_then(|seconds| seconds.parse().ok())
                .unwrap_or(0);
        }
        header = &rest[1..];
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_found_after_the_last_angle_bracket() {
        let header =
            b"parent 00\nauthor A <a@b> 5 +0000\ncommitter C > D <c@d> 1700000000 +0200\nencoding x\n\nhello\n";
        assert_eq!(committer_time(header), 1_700_000_000);
        assert_eq!(committer_time(b"committer C <c@d> -7 +0000\n\n"), -7);
        for odd in [
            &b"committer C\n"[..],
            b"committer C <c@d> x\n",
            b"committer <> 99999999999999999999 +0\n",
            b"\ncommitter C <> 7\n",
        ] {
            assert_eq!(committer_time(odd), 0, "{odd:?}");
        }
    }
}
