//! What a commit adds: its tree compared with its parents' trees, entering only what differs from all of them.
//!
//! An entry that some parent has under the same path is left out: that parent is either sent too, and then compared itself, or
//! it is on the remote together with everything in it. So a tree that was entered for one commit may lack what another commit,
//! an ancestor even, relies on it for (say a directory that a later commit reverted to): it has to be entered for each, against
//! what that commit's parents have. Only a tree entered against nothing is done with for good.

use std::sync::atomic::{AtomicBool, Ordering};

use gix_hash::{ObjectId, oid};
use gix_object::Kind;
use hashbrown::HashSet;
use prodash::progress::AtomicStep;

use super::{
    ahead::Ahead,
    changes::{self, Before, Compared},
    name_hash,
    read::ObjectReader,
    set::ObjectSet,
};
use crate::{Error, error::check};

/// A tree that is new, and what its path held in the parents.
struct Frame {
    tree: ObjectId,
    /// The name hash of the tree's path with the slash that follows it.
    path: u32,
    /// The path itself with that slash, if attributes are asked for.
    name: Vec<u8>,
    olds: Vec<Old>,
}

#[derive(Clone, Copy)]
struct Old {
    tree: ObjectId,
    on_remote: bool,
}

pub(crate) struct Comparison<'a> {
    pub(crate) reader: &'a mut ObjectReader,
    pub(crate) set: &'a mut ObjectSet,
    pub(crate) counting: &'a AtomicStep,
    pub(crate) interrupt: &'a AtomicBool,
    pub(crate) delta_unset: Option<&'a DeltaUnset<'a>>,
    pub(crate) ahead: Option<Ahead>,
    entered: Entered,
}

/// Whether the attribute `delta` is unset for a path, which has slashes between its parts and none at its end.
pub type DeltaUnset<'a> = dyn Fn(&[u8]) -> bool + Sync + 'a;

/// Keeps trees that hold the same tree many times over, level by level, from being walked path by path.
#[derive(Default)]
pub(super) struct Entered {
    /// Trees entered against nothing: all in them is in the set or on the remote.
    completely: HashSet<ObjectId>,
    /// Trees entered again, and against what.
    again: HashSet<(ObjectId, Vec<ObjectId>)>,
}

impl Entered {
    /// Whether to enter `tree`, compared with `olds`, which was `added` to the set just now or before.
    pub(super) fn is_due(&mut self, tree: &oid, added: bool, olds: impl ExactSizeIterator<Item = ObjectId>) -> bool {
        if olds.len() == 0 {
            return self.completely.insert(tree.to_owned());
        }
        added || !self.completely.contains(tree) && self.again.insert((tree.to_owned(), olds.collect()))
    }
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(
        reader: &'a mut ObjectReader,
        set: &'a mut ObjectSet,
        counting: &'a AtomicStep,
        interrupt: &'a AtomicBool,
    ) -> Self {
        Comparison {
            reader,
            set,
            counting,
            interrupt,
            delta_unset: None,
            ahead: None,
            entered: Entered::default(),
        }
    }

    /// Add an object to the set, unless it is settled already.
    pub(crate) fn send(&mut self, id: &oid, kind: Kind, path: u32, previous: Option<&oid>) -> Result<bool, Error> {
        let added = self.set.send(id, kind, path, previous)?;
        if added {
            self.counting.fetch_add(1, Ordering::Relaxed);
        }
        Ok(added)
    }

    /// Add `root` and all in it that none of `parents` has; of these, those on the remote are marked.
    pub(crate) fn add<'p>(&mut self, root: &oid, parents: impl Iterator<Item = (&'p oid, bool)>) -> Result<(), Error> {
        let mut olds = Vec::new();
        for (tree, on_remote) in parents {
            if on_remote {
                self.set.note_remote(tree)?;
            }
            if tree == root {
                return Ok(());
            }
            let tree = tree.to_owned();
            olds.push(Old { tree, on_remote });
        }
        let previous = olds.first().map(|old| old.tree);
        let added = self.send(root, Kind::Tree, 0, previous.as_deref())?;
        if self.set.on_remote(root) || !self.entered.is_due(root, added, olds.iter().map(|old| old.tree)) {
            return Ok(());
        }
        // A stack of our own: trees may be nested deeper than a thread's stack reaches.
        let mut stack = vec![Frame {
            tree: root.to_owned(),
            path: 0,
            name: Vec::new(),
            olds,
        }];
        while let Some(frame) = stack.pop() {
            check(self.interrupt)?;
            self.compare(&frame, &mut stack)?;
        }
        Ok(())
    }

    fn compare(&mut self, frame: &Frame, stack: &mut Vec<Frame>) -> Result<(), Error> {
        let ahead = self.ahead.as_mut();
        let changes = match ahead.and_then(|ahead| ahead.take(&frame.tree, frame.olds.iter().map(|old| &*old.tree))) {
            Some(changes) => changes,
            None => {
                let compared = Compared {
                    tree: &frame.tree,
                    path: frame.path,
                    names: self.delta_unset.is_some(),
                };
                changes::compare(self.reader, compared, frame.olds.iter().map(|old| &*old.tree))?
            }
        };
        for (change, befores) in changes.iter() {
            let on_remote = |before: &Before| frame.olds[before.old as usize].on_remote;
            for before in befores.iter().filter(|before| on_remote(before)) {
                self.set.note_remote(&before.id)?;
            }
            let previous = befores.first().map(|before| &*before.id);
            let kind = if change.is_tree { Kind::Tree } else { Kind::Blob };
            let added = self.send(&change.id, kind, change.path, previous)?;
            if added
                && let Some(delta_unset) = self.delta_unset
                && delta_unset(&[&frame.name[..], changes.name(change)].concat())
            {
                self.set.unset_delta();
            }
            if !change.is_tree {
                continue;
            }
            let olds: Vec<Old> = befores
                .iter()
                .map(|before| Old {
                    tree: before.id,
                    on_remote: on_remote(before),
                })
                .collect();
            if !self.set.on_remote(&change.id)
                && self.entered.is_due(&change.id, added, olds.iter().map(|old| old.tree))
            {
                stack.push(Frame {
                    tree: change.id,
                    path: name_hash::extend(change.path, b"/"),
                    name: match self.delta_unset {
                        Some(_) => [&frame.name[..], changes.name(change), b"/"].concat(),
                        None => Vec::new(),
                    },
                    olds,
                });
            }
        }
        Ok(())
    }
}
