//! One tree compared with those its path held before: which entries none of them has.

use std::rc::Rc;

use gix_hash::{ObjectId, oid};
use gix_object::{TreeRefIter, tree::EntryRef, tree::name_order};

use super::{name_hash, read::ObjectReader};
use crate::Error;

/// An entry that no older tree has under this name.
pub(super) struct Change {
    pub(super) id: ObjectId,
    pub(super) is_tree: bool,
    /// The name hash of its path.
    pub(super) path: u32,
    first_before: u32,
    befores: u32,
    /// Where its file name begins, if names are kept.
    name: u32,
    name_length: u32,
}

/// What an older tree has under the name of a change.
pub(super) struct Before {
    pub(super) id: ObjectId,
    /// The number of that older tree.
    pub(super) old: u32,
}

/// All changes of one tree, in its order.
#[derive(Default)]
pub(super) struct Changes {
    entries: Vec<Change>,
    befores: Vec<Before>,
    names: Vec<u8>,
}

/// What is compared.
pub(super) struct Compared<'a> {
    pub(super) tree: &'a oid,
    /// The name hash of its path, with the slash that follows it.
    pub(super) path: u32,
    /// Whether file names are to be kept.
    pub(super) names: bool,
}

impl Changes {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Change, &[Before])> {
        self.entries.iter().map(|change| {
            let first = change.first_before as usize;
            (change, &self.befores[first..first + change.befores as usize])
        })
    }

    /// The file name of a change; empty if names aren't kept.
    pub(super) fn name(&self, change: &Change) -> &[u8] {
        let first = change.name as usize;
        &self.names[first..first + change.name_length as usize]
    }

    /// What they take in memory.
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Change>()
            + self.befores.capacity() * size_of::<Before>()
            + self.names.capacity()
    }
}

pub(super) fn compare<'o>(
    reader: &mut ObjectReader,
    compared: Compared<'_>,
    olds: impl Iterator<Item = &'o oid>,
) -> Result<Changes, Error> {
    let Compared { tree, path, names } = compared;
    let hash = tree.kind();
    let new = reader.tree(tree)?;
    // A parent's tree that isn't here (partial clone) hides nothing; if it is to be sent, that is noticed when its turn comes.
    let olds: Vec<(Rc<[u8]>, u32)> = olds
        .zip(0..)
        .filter_map(|(old, number)| Some((reader.tree_if_present(old)?, number)))
        .collect();
    let mut cursors: Vec<Cursor<'_>> = olds
        .iter()
        .map(|(tree, number)| Cursor::new(TreeRefIter::from_bytes(tree, hash), *number))
        .collect();
    let mut changes = Changes::default();
    'entries: for entry in TreeRefIter::from_bytes(&new, hash) {
        let entry = entry.map_err(|_| Error::corrupt(tree, "its tree entries can't be parsed"))?;
        if entry.mode.is_commit() {
            // A submodule's commit lives in another repository.
            continue;
        }
        let first_before = changes.befores.len();
        for cursor in &mut cursors {
            match cursor.seek(&entry) {
                Some(old) if old.oid == entry.oid => {
                    changes.befores.truncate(first_before);
                    continue 'entries;
                }
                Some(old) if old.mode.is_tree() == entry.mode.is_tree() => changes.befores.push(Before {
                    id: old.oid.to_owned(),
                    old: cursor.old,
                }),
                _ => {}
            }
        }
        let name = changes.names.len();
        if names {
            changes.names.extend_from_slice(entry.filename);
        }
        changes.entries.push(Change {
            id: entry.oid.to_owned(),
            is_tree: entry.mode.is_tree(),
            path: name_hash::extend(path, entry.filename),
            first_before: first_before as u32,
            befores: (changes.befores.len() - first_before) as u32,
            name: name as u32,
            name_length: (changes.names.len() - name) as u32,
        });
    }
    Ok(changes)
}

/// Walks a parent's tree in step with the new one. Where a tree is not in order (git would not make one), matches are missed and
/// more is sent, nothing less.
struct Cursor<'a> {
    entries: TreeRefIter<'a>,
    next: Option<EntryRef<'a>>,
    old: u32,
}

impl<'a> Cursor<'a> {
    fn new(mut entries: TreeRefIter<'a>, old: u32) -> Self {
        let next = entries.next().and_then(Result::ok);
        Cursor { entries, next, old }
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
