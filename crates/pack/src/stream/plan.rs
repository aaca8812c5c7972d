//! How each object travels, and in which order.
//!
//! A packed entry is copied as it lies if it is a whole object, or a delta whose base goes into the same pack or is known to be on
//! the remote. Everything else is inflated, where necessary resolved, and deflated anew. Commits come first, then tags, trees and
//! blobs, each newest first; only that a base always precedes the deltas made against it.
//!
//! The stored deltas of one pack can't form a cycle, those of several packs can: A as a delta of B in one, B as a delta of A in the
//! other. So following bases notices when it comes back to where it was, and sends that object whole.

use std::sync::{Arc, atomic::AtomicBool};

use gix_hash::{ObjectId, oid};
use gix_object::Kind;
use gix_odb::Store;
use gix_pack::data::entry::Header;
use hashbrown::HashMap;

use super::{
    options::{Options, Statistics},
    stores::{Packed, Stores, measure},
};
use crate::{Error, ObjectSet, error::check, objects::plain_handle};

/// What a copied entry is made against.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BaseOf {
    /// Nothing: a whole object.
    Nothing,
    /// The object at this position of the set.
    Sent(u32),
    /// This number in [`Plan::remote_bases`].
    Remote(u32),
}

#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// Copy the entry, which ends at this offset of its pack.
    Copy { packed: Packed, end: u64, base: BaseOf },
    /// Read and deflate.
    Deflate,
}

pub(crate) struct Plan {
    /// Positions in the set in the order in which they are sent.
    pub(crate) order: Vec<u32>,
    /// By position in the set.
    pub(crate) sources: Vec<Source>,
    pub(crate) remote_bases: Vec<ObjectId>,
    /// Runs of positions in the set, all to be deflated, that a worker takes at a time.
    pub(crate) batches: Vec<Vec<u32>>,
    /// Whether offsets of entries must be remembered.
    pub(crate) has_deltas: bool,
    pub(crate) statistics: Statistics,
}

/// A worker takes objects of about this many stored bytes at a time, which is a few milliseconds of deflating.
const BATCH_BYTES: u64 = 96 * 1024;
/// What to assume for a packed delta that has to be resolved.
const UNKNOWN_BYTES: u64 = 6 * 1024;

pub(crate) fn make(
    store: &Arc<Store>,
    stores: &Stores,
    set: &ObjectSet,
    options: &Options,
    interrupt: &AtomicBool,
) -> Result<Plan, Error> {
    let objects = set.len();
    u32::try_from(objects).map_err(|_| Error::TooManyObjects { objects })?;

    let mut by_pack: Vec<Vec<(u32, u32)>> = vec![Vec::new(); stores.packs.len()];
    let mut weights: HashMap<u32, u64> = HashMap::new();
    let mut hint = 0;
    let handle = plain_handle(store);
    for (position, entry) in set.iter().enumerate() {
        check(interrupt)?;
        if let Some(packed) = stores.locate(entry.id, hint) {
            hint = packed.pack;
            by_pack[packed.pack as usize].push((position as u32, packed.position));
        } else if let Some((_, length)) = stores.loose(entry.id) {
            weights.insert(position as u32, length);
        } else if *entry.id != *entry.id.kind().empty_tree() && !gix_pack::Find::contains(&handle, entry.id) {
            return Err(Error::Missing {
                id: entry.id.to_owned(),
                role: role(entry.kind),
            });
        }
    }

    let mut plan = Plan {
        order: Vec::with_capacity(objects),
        sources: vec![Source::Deflate; objects],
        remote_bases: Vec::new(),
        batches: Vec::new(),
        has_deltas: false,
        statistics: Statistics {
            objects,
            ..Statistics::default()
        },
    };
    for (number, members) in by_pack.into_iter().enumerate() {
        if !members.is_empty() {
            let pack = PackMembers {
                stores,
                set,
                number: number as u32,
                thin: options.thin,
            };
            pack.choose(&members, &mut plan, interrupt)?;
        }
    }
    arrange(set, &mut plan);
    batch(&weights, &mut plan);
    Ok(plan)
}

/// The objects that one pack provides.
struct PackMembers<'a> {
    stores: &'a Stores,
    set: &'a ObjectSet,
    number: u32,
    thin: bool,
}

/// A pack's entries by offset, or as much of it as is needed.
enum Offsets {
    /// Of all entries, sorted, with their position in the index.
    All(Vec<(u64, u32)>),
    /// Of the objects that may be bases.
    Some(HashMap<u64, ObjectId>),
}

impl PackMembers<'_> {
    fn choose(&self, members: &[(u32, u32)], plan: &mut Plan, interrupt: &AtomicBool) -> Result<(), Error> {
        let pack = &self.stores.packs[self.number as usize];
        let Some(data) = pack.data() else {
            return Ok(());
        };
        let offsets = self.offsets(members);
        for &(object, position) in members {
            check(interrupt)?;
            let id = self.set.entry(object as usize).id;
            let start = pack.index.pack_offset_at_index(position);
            let entry = data.entry(start).map_err(|error| Error::unreadable(id, error))?;
            let base = match entry.header {
                Header::OfsDelta { base_distance } => entry
                    .checked_base_pack_offset(base_distance)
                    .and_then(|offset| self.id_at(&offsets, offset))
                    .and_then(|base| self.usable(base, plan)),
                Header::RefDelta { base_id } => self.usable(base_id, plan),
                _ => Some(BaseOf::Nothing),
            };
            let Some(base) = base else { continue };
            let end = match &offsets {
                Offsets::All(all) => {
                    let next = all.partition_point(|(offset, _)| *offset <= start);
                    Some(all.get(next).map_or(data.pack_end() as u64, |(offset, _)| *offset))
                }
                Offsets::Some(_) => data
                    .entry_slice(entry.data_offset..data.pack_end() as u64)
                    .and_then(|rest| measure(rest, entry.decompressed_size))
                    .map(|length| entry.data_offset + length as u64),
            };
            let end = end
                .filter(|&end| end > entry.data_offset && end <= data.pack_end() as u64)
                .ok_or_else(|| Error::corrupt(id, "its packed bytes can't be inflated"))?;
            let packed = Packed {
                pack: self.number,
                position,
            };
            plan.sources[object as usize] = Source::Copy { packed, end, base };
        }
        Ok(())
    }

    /// Sorting all offsets of a pack costs some 60 ns an object of it, too much for a few objects out of a large pack.
    fn offsets(&self, members: &[(u32, u32)]) -> Offsets {
        let index = &self.stores.packs[self.number as usize].index;
        let total = index.num_objects();
        if total > 4_000 && members.len() < total as usize / 1024 {
            let sent = members
                .iter()
                .map(|&(object, position)| (position, self.set.entry(object as usize).id));
            let remote = self
                .set
                .remote_ids()
                .filter(|_| self.thin)
                .filter_map(|id| Some((index.lookup(id)?, id)));
            return Offsets::Some(
                sent.chain(remote)
                    .map(|(position, id)| (index.pack_offset_at_index(position), id.to_owned()))
                    .collect(),
            );
        }
        let mut all: Vec<_> = (0..total)
            .map(|position| (index.pack_offset_at_index(position), position))
            .collect();
        all.sort_unstable();
        Offsets::All(all)
    }

    fn id_at(&self, offsets: &Offsets, offset: u64) -> Option<ObjectId> {
        match offsets {
            Offsets::All(all) => {
                let at = all.binary_search_by_key(&offset, |(offset, _)| *offset).ok()?;
                let index = &self.stores.packs[self.number as usize].index;
                Some(index.oid_at_index(all.get(at)?.1).to_owned())
            }
            Offsets::Some(some) => some.get(&offset).copied(),
        }
    }

    fn usable(&self, base: ObjectId, plan: &mut Plan) -> Option<BaseOf> {
        if let Some(position) = self.set.position(&base) {
            return Some(BaseOf::Sent(position as u32));
        }
        (self.thin && self.set.on_remote(&base)).then(|| {
            plan.remote_bases.push(base);
            BaseOf::Remote(plan.remote_bases.len() as u32 - 1)
        })
    }
}

/// Bases before deltas; and no cycles.
fn arrange(set: &ObjectSet, plan: &mut Plan) {
    const UNSEEN: u8 = 0;
    const OPEN: u8 = 1;
    const PLACED: u8 = 2;
    let mut states = vec![UNSEEN; set.len()];
    let mut chain = Vec::new();
    for kind in [Kind::Commit, Kind::Tag, Kind::Tree, Kind::Blob] {
        for (position, _) in set.iter().enumerate().filter(|(_, entry)| entry.kind == kind) {
            let mut next = Some(position as u32);
            while let Some(object) = next.take() {
                match states[object as usize] {
                    UNSEEN => {
                        states[object as usize] = OPEN;
                        chain.push(object);
                        if let Source::Copy {
                            base: BaseOf::Sent(base),
                            ..
                        } = plan.sources[object as usize]
                        {
                            next = Some(base);
                        }
                    }
                    OPEN => {
                        // Came back to an object whose base is being placed: cut where the circle was closed.
                        if let Some(last) = chain.last() {
                            plan.sources[*last as usize] = Source::Deflate;
                        }
                    }
                    _ => {}
                }
            }
            while let Some(object) = chain.pop() {
                states[object as usize] = PLACED;
                plan.order.push(object);
            }
        }
    }
    for source in &plan.sources {
        let statistics = &mut plan.statistics;
        match source {
            Source::Deflate => statistics.deflated += 1,
            Source::Copy {
                base: BaseOf::Nothing, ..
            } => statistics.copied += 1,
            Source::Copy { base, .. } => {
                statistics.deltas += 1;
                statistics.thin += usize::from(matches!(base, BaseOf::Remote(_)));
                plan.has_deltas |= matches!(base, BaseOf::Sent(_));
            }
        }
    }
}

fn batch(weights: &HashMap<u32, u64>, plan: &mut Plan) {
    let mut batch = Vec::new();
    let mut bytes = 0;
    for &object in &plan.order {
        if let Source::Deflate = plan.sources[object as usize] {
            batch.push(object);
            bytes += weights.get(&object).copied().unwrap_or(UNKNOWN_BYTES);
            if bytes >= BATCH_BYTES {
                plan.batches.push(std::mem::take(&mut batch));
                bytes = 0;
            }
        }
    }
    if !batch.is_empty() {
        plan.batches.push(batch);
    }
}

fn role(kind: Kind) -> &'static str {
    match kind {
        Kind::Commit => "commit",
        Kind::Tag => "tag",
        Kind::Tree => "tree",
        Kind::Blob => "blob",
    }
}

/// The pack header: signature, version 2, number of objects (gitformat-pack(5)).
pub(crate) fn pack_header(objects: u32) -> [u8; 12] {
    let [a, b, c, d] = objects.to_be_bytes();
    [b'P', b'A', b'C', b'K', 0, 0, 0, 2, a, b, c, d]
}

pub(crate) fn whole_header(kind: Kind) -> Header {
    match kind {
        Kind::Commit => Header::Commit,
        Kind::Tag => Header::Tag,
        Kind::Tree => Header::Tree,
        Kind::Blob => Header::Blob,
    }
}

pub(crate) fn ref_delta(base: &oid) -> Header {
    Header::RefDelta {
        base_id: base.to_owned(),
    }
}
