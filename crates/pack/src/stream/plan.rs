//! How each object travels, and in which order.
//!
//! A packed entry is copied as it lies if it is a whole object, or a delta whose base goes into the same pack or is known to be on
//! the remote. Everything else is inflated, where necessary resolved, and deflated anew, as a delta if `fresh` knows a base.
//! `order` puts bases before deltas.

use std::sync::{Arc, atomic::AtomicBool};

use gix_hash::{ObjectId, oid};
use gix_object::Kind;
use gix_odb::Store;
use gix_pack::data::entry::Header;
use hashbrown::HashMap;

use super::{
    fresh,
    options::{Options, Statistics},
    order,
    stores::{Packed, Stores, entry_end},
};
use crate::{Error, ObjectSet, error::check, objects::plain_handle};

/// What an entry is made against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Read and deflate, as a delta of `base` if that is shorter.
    Deflate { base: BaseOf },
}

impl Source {
    pub(crate) const WHOLE: Source = Source::Deflate { base: BaseOf::Nothing };

    pub(crate) fn base(self) -> BaseOf {
        match self {
            Source::Copy { base, .. } | Source::Deflate { base } => base,
        }
    }
}

/// What a worker does next.
#[derive(Clone, Copy)]
pub(crate) enum Item {
    /// Deflate the object at this position of the set.
    Send(u32),
    /// Take the remote base of this number as a candidate for what follows.
    Candidate(u32),
}

pub(crate) struct Plan {
    /// Positions in the set in the order in which they are sent.
    pub(crate) order: Vec<u32>,
    /// By position in the set.
    pub(crate) sources: Vec<Source>,
    /// Where whole objects lie for which fresh deltas are tried, by position in the set; and where they end, 0 if that isn't known.
    pub(crate) whole: HashMap<u32, (Packed, u64)>,
    pub(crate) remote_bases: RemoteBases,
    /// What a worker takes at a time, in the order of `order`.
    pub(crate) batches: Vec<Vec<Item>>,
    /// Whether offsets of entries must be remembered.
    pub(crate) has_deltas: bool,
    pub(crate) statistics: Statistics,
}

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
        sources: vec![Source::WHOLE; objects],
        whole: HashMap::new(),
        remote_bases: RemoteBases::default(),
        batches: Vec::new(),
        has_deltas: false,
        statistics: Statistics {
            objects,
            ..Statistics::default()
        },
    };
    let presence = Presence { stores };
    let fresh = fresh::propose(set, options, &presence, &mut plan, interrupt)?;
    for (number, members) in by_pack.into_iter().enumerate() {
        if !members.is_empty() {
            let pack = PackMembers {
                stores,
                set,
                number: number as u32,
                thin: options.thin,
                big: options.big_file_threshold,
                fresh: fresh.preferred,
            };
            pack.choose(&members, &mut plan, interrupt)?;
        }
    }
    order::arrange(set, options, &mut plan);
    order::batch(set, options, &weights, &presence, &mut plan);
    Ok(plan)
}

/// Objects that only the remote has, each once.
#[derive(Default)]
pub(crate) struct RemoteBases {
    pub(crate) ids: Vec<ObjectId>,
    numbers: HashMap<ObjectId, u32>,
}

impl RemoteBases {
    pub(super) fn number(&mut self, id: &oid) -> u32 {
        *self.numbers.entry(id.to_owned()).or_insert_with(|| {
            self.ids.push(id.to_owned());
            self.ids.len() as u32 - 1
        })
    }
}

/// The objects that one pack provides.
struct PackMembers<'a> {
    stores: &'a Stores,
    set: &'a ObjectSet,
    number: u32,
    thin: bool,
    /// Entries of that size are copied if they are whole.
    big: u64,
    /// Whether deltas that were proposed are better than what lies here.
    fresh: bool,
}

/// Whether an object is here: a base that is not can't be used, be it on the remote or not.
pub(super) struct Presence<'a> {
    stores: &'a Stores,
}

impl Presence<'_> {
    pub(super) fn has(&self, id: &oid) -> bool {
        self.stores.locate(id, 0).is_some() || self.stores.loose(id).is_some()
    }
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
            let packed = Packed {
                pack: self.number,
                position,
            };
            let sorted = match &offsets {
                Offsets::All(all) => {
                    let next = all.partition_point(|(offset, _)| *offset <= start);
                    Some(all.get(next).map_or(data.pack_end() as u64, |(offset, _)| *offset))
                }
                Offsets::Some(_) => None,
            };
            if self.fresh && plan.sources[object as usize].base() != BaseOf::Nothing {
                let is_big = entry.decompressed_size >= self.big;
                if !(base == BaseOf::Nothing && is_big) {
                    if base == BaseOf::Nothing {
                        plan.whole.insert(object, (packed, sorted.unwrap_or(0)));
                    }
                    continue;
                }
            }
            let end = sorted.or_else(|| entry_end(data, &entry));
            let end = end
                .filter(|&end| end > entry.data_offset && end <= data.pack_end() as u64)
                .ok_or_else(|| Error::corrupt(id, "its packed bytes can't be inflated"))?;
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
            let number = plan.remote_bases.number(&base);
            BaseOf::Remote(number)
        })
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
