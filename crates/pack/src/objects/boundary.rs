//! Objects that look new because their path is, while the remote has them under another: renames, copies, moved directories.
//!
//! Git finds them by marking whole trees of the commits at the boundary, which costs by the tree. Here the same trees are walked,
//! breadth first, but only so far that the walk stays in proportion to the push; what it doesn't reach is sent once more than
//! needed. In repositories of ordinary size it reaches everything.

use std::{collections::VecDeque, sync::atomic::AtomicBool};

use gix_hash::ObjectId;
use gix_object::TreeRefIter;
use hashbrown::HashSet;

use super::{read::ObjectReader, set::ObjectSet};
use crate::{Error, error::check};

/// Trees to read at least: some 40 µs each where loose, a quarter of that where packed.
const FEWEST: usize = 64;
/// And for each path that was added, which is where renames and copies show; but not more than [`MOST_FOR_NEW_PATHS`].
const PER_NEW_PATH: usize = 16;
const MOST_FOR_NEW_PATHS: usize = 448;
/// Trees to read for each object that is to be sent (which costs more than reading a tree).
const PER_OBJECT: usize = 4;

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
    let mut queue: VecDeque<ObjectId> = roots.into_iter().filter(|root| seen.insert(*root)).collect();
    for root in &queue {
        set.note_remote_if_mentioned(root);
    }
    while let Some(tree) = queue.pop_front() {
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
            if entry.mode.is_tree() && seen.insert(entry.oid.to_owned()) {
                queue.push_back(entry.oid.to_owned());
            }
        }
    }
    Ok(())
}
