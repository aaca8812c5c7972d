//! Whether a received pack is whole by itself: everything that its commits, trees and tags name is in it.
//!
//! For a clone, where there is nothing else to lead to. A walk from the tips decodes the same deltas over and over; here each chain
//! is unrolled once, on all cores, and blobs are not touched. Objects that no tip leads to are looked at too, as `git index-pack
//! --check-self-contained-and-connected` does.

use std::{
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use gix_hash::{ObjectId, oid};
use gix_object::{Kind, TreeRefIter};
use gix_pack::{
    Bundle,
    cache::delta::{Tree, traverse},
    data::entry::Header,
};
use hashbrown::{HashMap, HashSet, HashTable};

use crate::{
    Error,
    error::Source,
    objects::{fast_hash, header_id},
};

/// Look up everything that the pack of the index at `index_path` refers to, and `tips`, in that pack.
///
/// Parents of the commits in `shallow` need not be there.
///
/// # Errors
/// [`Error::Missing`] with the first object that isn't there; others when the pack can't be read.
pub fn check_links(
    index_path: &Path,
    hash: gix_hash::Kind,
    tips: &[ObjectId],
    shallow: &[ObjectId],
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    let unreadable = |source: Source| Error::Store {
        path: index_path.to_owned(),
        source,
    };
    let bundle = Bundle::at(index_path, hash).map_err(|source| unreadable(source.into()))?;
    let names = Names::new(&bundle);
    if let Some(tip) = tips.iter().find(|tip| !names.contains(tip)) {
        return Err(Error::Missing {
            id: *tip,
            role: "ref target",
        });
    }
    let shallow: HashSet<ObjectId> = shallow.iter().copied().collect();
    let offsets = without_blobs(&bundle).map_err(unreadable)?;
    let tree = Tree::from_offsets_in_pack(
        bundle.pack.path(),
        offsets.into_iter(),
        &|(offset, _)| *offset,
        &|id| Ok(bundle.index.lookup(id).map(|at| bundle.index.pack_offset_at_index(at))),
        &mut prodash::progress::Discard,
        interrupt,
        hash,
    )
    .map_err(|source| unreadable(source.into()))?;
    let found: Mutex<Option<(ObjectId, &'static str)>> = Mutex::new(None);
    let outcome = tree.traverse(
        |range, pack: &gix_pack::data::File| pack.entry_slice(range),
        &bundle.pack,
        bundle.pack.pack_end() as u64,
        |(_, position), _, context| {
            let Some(kind) = context.entry.header.as_kind() else {
                return Ok(());
            };
            let own = bundle.index.oid_at_index(*position);
            if let Some(gap) = gap(&names, kind, context.decompressed, own, &shallow) {
                // One is enough; that the traversal runs on costs only those who got a bad pack.
                *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(gap);
            }
            Ok(())
        },
        traverse::Options {
            object_progress: Box::new(prodash::progress::Discard),
            size_progress: &mut prodash::progress::Discard,
            thread_limit: None,
            should_interrupt: interrupt,
            object_hash: hash,
            alloc_limit_bytes: None,
        },
    );
    match (found.into_inner().unwrap_or_else(PoisonError::into_inner), outcome) {
        (Some((id, role)), _) => Err(Error::Missing { id, role }),
        (None, Ok(_)) => Ok(()),
        (None, Err(_)) if interrupt.load(Ordering::Relaxed) => Err(Error::Interrupted),
        (None, Err(source)) => Err(unreadable(source.into())),
    }
}

/// The first thing that an object names and that isn't there.
fn gap(
    names: &Names<'_>,
    kind: Kind,
    data: &[u8],
    own: &oid,
    shallow: &HashSet<ObjectId>,
) -> Option<(ObjectId, &'static str)> {
    let absent = |id: &oid| !names.contains(id);
    match kind {
        Kind::Blob => None,
        Kind::Tag => {
            let (target, _) = header_id(data, b"object ")?;
            absent(&target).then_some((target, "tag's target"))
        }
        Kind::Commit => {
            let (tree, mut rest) = header_id(data, b"tree ")?;
            if absent(&tree) && !tree.is_empty_tree() {
                return Some((tree, "tree"));
            }
            while let Some((parent, after)) = header_id(rest, b"parent ") {
                if absent(&parent) && !shallow.contains(own) {
                    return Some((parent, "commit"));
                }
                rest = after;
            }
            None
        }
        Kind::Tree => TreeRefIter::from_bytes(data, own.kind())
            .filter_map(Result::ok)
            .find(|entry| !entry.mode.is_commit() && absent(entry.oid) && !entry.oid.is_empty_tree())
            .map(|entry| (entry.oid.to_owned(), if entry.mode.is_tree() { "tree" } else { "blob" })),
    }
}

/// The pack's names, hashed: each tree looks all its entries up.
struct Names<'a> {
    index: &'a gix_pack::index::File,
    table: HashTable<u32>,
}

impl<'a> Names<'a> {
    fn new(bundle: &'a Bundle) -> Self {
        let index = &bundle.index;
        let mut table = HashTable::with_capacity(index.num_objects() as usize);
        for position in 0..index.num_objects() {
            table.insert_unique(fast_hash(index.oid_at_index(position)), position, |&other| {
                fast_hash(index.oid_at_index(other))
            });
        }
        Names { index, table }
    }

    fn contains(&self, id: &oid) -> bool {
        self.table
            .find(fast_hash(id), |&position| self.index.oid_at_index(position) == id)
            .is_some()
    }
}

/// Offsets of all entries that are no blobs, ascending, with their position in the index. Deltas are of their base's kind.
fn without_blobs(bundle: &Bundle) -> Result<Vec<(u64, u32)>, Source> {
    let index = &bundle.index;
    let mut entries: Vec<(u64, u32)> = (0..index.num_objects())
        .map(|position| (index.pack_offset_at_index(position), position))
        .collect();
    entries.sort_unstable();
    // Whether an entry is a blob, as far as known; bases by name may come later than what is built on them.
    let mut blobs: HashMap<u64, bool> = HashMap::with_capacity(entries.len());
    let mut chain = Vec::new();
    for &(offset, _) in &entries {
        let mut at = offset;
        let blob = loop {
            if let Some(&known) = blobs.get(&at) {
                break known;
            }
            // A chain that comes back to itself ends here; unrolling it fails.
            if chain.len() > entries.len() {
                break false;
            }
            chain.push(at);
            let entry = bundle.pack.entry(at)?;
            let base = match entry.header {
                Header::Blob => break true,
                Header::Commit | Header::Tree | Header::Tag => break false,
                Header::OfsDelta { base_distance } => Header::verified_base_pack_offset(at, base_distance),
                Header::RefDelta { base_id } => index.lookup(base_id).map(|at| index.pack_offset_at_index(at)),
            };
            match base {
                Some(base) => at = base,
                None => break false,
            }
        };
        blobs.extend(chain.drain(..).map(|offset| (offset, blob)));
    }
    entries.retain(|(offset, _)| blobs.get(offset) == Some(&false));
    Ok(entries)
}
