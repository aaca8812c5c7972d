//! Objects that look new because their path is, while the remote has them under another: renames, copies, moved directories.
//!
//! Git finds them by marking whole trees of the commits at the boundary, which costs by the tree. Here the same trees are walked,
//! breadth first, but only so far that the walk stays in proportion to the push; what it doesn't reach is sent once more than
//! needed. In repositories of ordinary size it reaches everything. What it comes by on the way with a similar path is kept as a
//! base for objects that stay new.

use std::{collections::VecDeque, sync::atomic::AtomicBool};

use gix_hash::{ObjectId, oid};
use gix_object::{Kind, TreeRefIter};
use hashbrown::HashSet;

use super::{
    name_hash,
    read::ObjectReader,
    set::{ObjectSet, Preferred},
};
use crate::{Error, error::check};

/// Trees to read at least: some 40 µs each where loose, a quarter of that where packed.
const FEWEST: usize = 64;
/// And for each path that was added, which is where renames and copies show; but not more than [`MOST_FOR_NEW_PATHS`].
const PER_NEW_PATH: usize = 16;
const MOST_FOR_NEW_PATHS: usize = 448;
/// Trees to read for each object that is to be sent (which costs more than reading a tree).
const PER_OBJECT: usize = 4;

/// How many of the remote's objects with lower and with higher name hashes a new object may be compared with.
const NEAREST: usize = 5;
/// Names to remember at most: 32 bytes each.
const MOST_NAMES: usize = 200_000;

pub(crate) fn search(
    reader: &mut ObjectReader,
    set: &mut ObjectSet,
    roots: impl IntoIterator<Item = ObjectId>,
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    let hash = set.hash();
    let for_new_paths = set.new_paths().saturating_mul(PER_NEW_PATH).min(MOST_FOR_NEW_PATHS);
    let mut left = FEWEST + for_new_paths + PER_OBJECT * set.remaining();
    let mut seen = HashSet::new();
    let mut queue: VecDeque<(ObjectId, u32)> = roots
        .into_iter()
        .filter(|root| seen.insert(*root))
        .map(|root| (root, 0))
        .collect();
    for (root, _) in &queue {
        set.note_remote_if_mentioned(root);
    }
    let mut names = Names::new(set);
    while let Some((tree, path)) = queue.pop_front() {
        check(interrupt)?;
        if left == 0 || set.remaining() == 0 {
            break;
        }
        left -= 1;
        let Some(tree) = reader.tree_if_present(&tree) else {
            continue;
        };
        for entry in TreeRefIter::from_bytes(&tree, hash).map_while(Result::ok) {
            if entry.mode.is_commit() {
                continue;
            }
            set.note_remote_if_mentioned(entry.oid);
            let name_hash = name_hash::extend(path, entry.filename);
            let kind = if entry.mode.is_tree() { Kind::Tree } else { Kind::Blob };
            names.add(kind, name_hash, entry.oid);
            if kind == Kind::Tree && seen.insert(entry.oid.to_owned()) {
                queue.push_back((entry.oid.to_owned(), name_hash::extend(name_hash, b"/")));
            }
        }
    }
    let preferred = names.nearest(set);
    set.prefer(preferred);
    Ok(())
}

/// What the boundary holds, to find bases for new objects among it: those whose paths end alike.
struct Names {
    /// Of new objects there are none.
    idle: bool,
    found: Vec<Preferred>,
}

impl Names {
    fn new(set: &ObjectSet) -> Self {
        Names {
            idle: set.new_paths() == 0,
            found: Vec::new(),
        }
    }

    fn add(&mut self, kind: Kind, name_hash: u32, id: &oid) {
        if !self.idle && self.found.len() < MOST_NAMES {
            let id = id.to_owned();
            self.found.push(Preferred { kind, name_hash, id });
        }
    }

    /// Of what was found, the nearest for each object that is still new.
    fn nearest(mut self, set: &ObjectSet) -> Vec<Preferred> {
        self.found.sort_unstable();
        self.found.dedup();
        let mut kept = Vec::new();
        let mut next = 0;
        for (kind, name_hash) in set.new_names() {
            let same = self
                .found
                .partition_point(|found| (found.kind, found.name_hash) < (kind, name_hash));
            for at in same.saturating_sub(NEAREST).max(next)..(same + NEAREST).min(self.found.len()) {
                if self.found[at].kind == kind {
                    kept.push(self.found[at]);
                }
                next = at + 1;
            }
        }
        kept
    }
}
