//! What a commit adds: its tree compared with its parents' trees, entering only what differs from all of them.
//!
//! An entry that some parent has under the same path is left out: that parent is either sent too, and then compared itself, or
//! it is on the remote together with everything in it. So a tree that was entered for one commit may lack what another commit,
//! an ancestor even, relies on it for (say a directory that a later commit reverted to): it has to be entered for each, against
//! what that commit's parents have. Only a tree entered against nothing is done with for good.

use std::{
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering},
};

use gix_hash::{ObjectId, oid};
use gix_object::{Kind, TreeRefIter, tree::EntryRef, tree::name_order};
use hashbrown::HashSet;
use prodash::progress::AtomicStep;

use super::{name_hash, read::ObjectReader, set::ObjectSet};
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
    entered: Entered,
}

/// Whether the attribute `delta` is unset for a path, which has slashes between its parts and none at its end.
pub type DeltaUnset<'a> = dyn Fn(&[u8]) -> bool + Sync + 'a;

/// Keeps trees that hold the same tree many times over, level by level, from being walked path by path.
#[derive(Default)]
struct Entered {
    /// Trees entered against nothing: all in them is in the set or on the remote.
    completely: HashSet<ObjectId>,
    /// Trees entered again, and against what.
    again: HashSet<(ObjectId, Vec<ObjectId>)>,
}

impl Entered {
    /// Whether to enter `tree`, which was `added` to the set just now or before.
    fn is_due(&mut self, tree: &oid, added: bool, olds: &[Old]) -> bool {
        if olds.is_empty() {
            return self.completely.insert(tree.to_owned());
        }
        added
            || !self.completely.contains(tree)
                && self
                    .again
                    .insert((tree.to_owned(), olds.iter().map(|old| old.tree).collect()))
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

    /// The same for an entry of a tree, for which attributes may hold.
    fn send_entry(
        &mut self,
        frame: &Frame,
        entry: &EntryRef<'_>,
        kind: Kind,
        path: u32,
        previous: Option<&oid>,
    ) -> Result<bool, Error> {
        let added = self.send(entry.oid, kind, path, previous)?;
        if added
            && let Some(delta_unset) = self.delta_unset
            && delta_unset(&[&frame.name[..], entry.filename].concat())
        {
            self.set.unset_delta();
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
        if self.set.on_remote(root) || !self.entered.is_due(root, added, &olds) {
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
        let hash = self.set.hash();
        let new = self.reader.tree(&frame.tree)?;
        // A parent's tree that isn't here (partial clone) hides nothing; if it is to be sent, that is noticed when its turn comes.
        let olds: Vec<(Rc<[u8]>, bool)> = frame
            .olds
            .iter()
            .filter_map(|old| Some((self.reader.tree_if_present(&old.tree)?, old.on_remote)))
            .collect();
        let mut cursors: Vec<Cursor<'_>> = olds
            .iter()
            .map(|(tree, on_remote)| Cursor::new(TreeRefIter::from_bytes(tree, hash), *on_remote))
            .collect();
        let mut befores: Vec<(&oid, bool)> = Vec::new();
        'entries: for entry in TreeRefIter::from_bytes(&new, hash) {
            let entry = entry.map_err(|_| Error::corrupt(&frame.tree, "its tree entries can't be parsed"))?;
            if entry.mode.is_commit() {
                // A submodule's commit lives in another repository.
                continue;
            }
            befores.clear();
            for cursor in &mut cursors {
                match cursor.seek(&entry) {
                    Some(old) if old.oid == entry.oid => continue 'entries,
                    Some(old) if old.mode.is_tree() == entry.mode.is_tree() => {
                        befores.push((old.oid, cursor.on_remote))
                    }
                    _ => {}
                }
            }
            for (old, on_remote) in &befores {
                if *on_remote {
                    self.set.note_remote(old)?;
                }
            }
            let path = name_hash::extend(frame.path, entry.filename);
            let previous = befores.first().map(|(old, _)| *old);
            if !entry.mode.is_tree() {
                self.send_entry(frame, &entry, Kind::Blob, path, previous)?;
                continue;
            }
            let added = self.send_entry(frame, &entry, Kind::Tree, path, previous)?;
            let olds: Vec<Old> = befores
                .iter()
                .map(|&(tree, on_remote)| Old {
                    tree: tree.to_owned(),
                    on_remote,
                })
                .collect();
            if !self.set.on_remote(entry.oid) && self.entered.is_due(entry.oid, added, &olds) {
                stack.push(Frame {
                    tree: entry.oid.to_owned(),
                    path: name_hash::extend(path, b"/"),
                    name: match self.delta_unset {
                        Some(_) => [&frame.name[..], entry.filename, b"/"].concat(),
                        None => Vec::new(),
                    },
                    olds,
                });
            }
        }
        Ok(())
    }
}

/// Walks a parent's tree in step with the new one. Where a tree is not in order (git would not make one), matches are missed and
/// more is sent, nothing less.
struct Cursor<'a> {
    entries: TreeRefIter<'a>,
    next: Option<EntryRef<'a>>,
    on_remote: bool,
}

impl<'a> Cursor<'a> {
    fn new(mut entries: TreeRefIter<'a>, on_remote: bool) -> Self {
        let next = entries.next().and_then(Result::ok);
        Cursor {
            entries,
            next,
            on_remote,
        }
    }

    /// The entry with the name of `wanted`, and like it a directory or not one.
    fn seek(&mut self, wanted: &EntryRef<'_>) -> Option<EntryRef<'a>> {
        loop {
            let entry = self.next?;
            let order = name_order(
                entry.filename,
                entry.mode.is_tree(),
                wanted.filename,
                wanted.mode.is_tree(),
            );
            match order {
                std::cmp::Ordering::Less => self.next = self.entries.next().and_then(Result::ok),
                std::cmp::Ordering::Equal if entry.mode.is_commit() => return None,
                std::cmp::Ordering::Equal => return Some(entry),
                std::cmp::Ordering::Greater => return None,
            }
        }
    }
}
