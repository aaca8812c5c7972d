//! What follows what. Commits come first, then tags, trees and blobs; copied entries newest first, then those to be deflated, each
//! path's versions together and oldest first, paths that end alike next to each other: that is where workers find bases at hand.
//! Above all, a base precedes what is made against it.
//!
//! The stored deltas of one pack can't form a cycle. Those of several packs can, A as a delta of B in one, B as a delta of A in the
//! other; so can stored deltas together with fresh ones, and fresh ones where a path went back and forth. So following bases
//! notices when it comes back to where it was, and sends that object whole.

use std::collections::VecDeque;

use gix_object::Kind;
use hashbrown::HashMap;

use super::{
    fresh::is_deltable,
    options::{Options, Search},
    plan::{BaseOf, Item, Plan, Presence, Source},
};
use crate::ObjectSet;

/// A worker takes objects of about this many stored bytes at a time: some ten milliseconds of work. Within a batch, objects are
/// candidates for each other.
const BATCH_BYTES: u64 = 192 * 1024;
/// Where everything is searched, more is gained by candidates than lost by workers that wait.
const SEARCHED_BATCH_BYTES: u64 = 1024 * 1024;
/// What to assume for a packed delta that has to be resolved.
const UNKNOWN_BYTES: u64 = 2 * 1024;

/// What following the bases finds out, by position in the set.
struct Chains {
    /// Deltas from here to a whole object.
    levels: Vec<u16>,
    /// Where the line of versions begins that this one belongs to, and how many come before it.
    families: Vec<(u32, u32)>,
}

pub(super) fn arrange(set: &ObjectSet, options: &Options, plan: &mut Plan) {
    let chains = follow(plan, options.chain_depth());
    sort(set, &chains, plan);
    for source in &plan.sources {
        let statistics = &mut plan.statistics;
        match source {
            Source::Deflate { .. } => {
                statistics.deflated += 1;
                plan.has_deltas |= options.depth > 0;
            }
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

/// Cut cycles, and fresh deltas where chains get longer than `limit`.
fn follow(plan: &mut Plan, limit: usize) -> Chains {
    const UNSEEN: u8 = 0;
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let objects = plan.sources.len();
    let limit = u16::try_from(limit).unwrap_or(u16::MAX - 1);
    let mut states = vec![UNSEEN; objects];
    let mut chains = Chains {
        levels: vec![0; objects],
        families: vec![(0, 0); objects],
    };
    let mut chain = Vec::new();
    for start in 0..objects as u32 {
        let mut next = Some(start);
        while let Some(object) = next.take() {
            match states[object as usize] {
                UNSEEN => {
                    states[object as usize] = OPEN;
                    chain.push(object);
                    if let BaseOf::Sent(base) = plan.sources[object as usize].base() {
                        next = Some(base);
                    }
                }
                OPEN => {
                    // Came back to an object whose base is being placed: cut where the circle was closed.
                    if let Some(last) = chain.last() {
                        plan.sources[*last as usize] = Source::WHOLE;
                    }
                }
                _ => {}
            }
        }
        // The last one's base is done, or there is none.
        while let Some(object) = chain.pop() {
            states[object as usize] = DONE;
            chains.settle(object, limit, &mut plan.sources);
        }
    }
    chains
}

impl Chains {
    fn settle(&mut self, object: u32, limit: u16, sources: &mut [Source]) {
        let at = object as usize;
        self.families[at] = (object, 0);
        let source = sources[at];
        let base = match source.base() {
            BaseOf::Nothing => return,
            BaseOf::Remote(_) => {
                self.levels[at] = 1;
                return;
            }
            BaseOf::Sent(base) => base,
        };
        let level = self.levels[base as usize];
        if let Source::Copy { .. } = source {
            self.levels[at] = level.saturating_add(1);
            return;
        }
        if let Source::Deflate { .. } = sources[base as usize] {
            let (first, before) = self.families[base as usize];
            self.families[at] = (first, before + 1);
        }
        if level < limit {
            self.levels[at] = level + 1;
            return;
        }
        // Not all the way back to a whole object: half of the chain serves once more.
        let mut earlier = base;
        for _ in 0..limit / 2 {
            if let BaseOf::Sent(before) = sources[earlier as usize].base() {
                earlier = before;
            }
        }
        let level = self.levels[earlier as usize];
        let base = if level < limit {
            self.levels[at] = level + 1;
            BaseOf::Sent(earlier)
        } else {
            BaseOf::Nothing
        };
        sources[at] = Source::Deflate { base };
    }
}

fn sort(set: &ObjectSet, chains: &Chains, plan: &mut Plan) {
    let mut placed = vec![false; set.len()];
    let mut chain = Vec::new();
    let mut versions = Vec::new();
    for kind in [Kind::Commit, Kind::Tag, Kind::Tree, Kind::Blob] {
        versions.clear();
        let mut place = |object: u32, plan: &mut Plan| {
            let mut next = Some(object);
            while let Some(object) = next.take().filter(|&object| !placed[object as usize]) {
                placed[object as usize] = true;
                chain.push(object);
                if let BaseOf::Sent(base) = plan.sources[object as usize].base() {
                    next = Some(base);
                }
            }
            plan.order.extend(chain.drain(..).rev());
        };
        for (position, entry) in set.iter().enumerate().filter(|(_, entry)| entry.kind == kind) {
            match plan.sources[position] {
                Source::Deflate { .. } if is_deltable(&entry) => {
                    let (first, before) = chains.families[position];
                    let name_hash = match before {
                        0 => entry.name_hash,
                        _ => set.entry(first as usize).name_hash,
                    };
                    versions.push((name_hash, first, before, position as u32));
                }
                _ => place(position as u32, plan),
            }
        }
        versions.sort_unstable();
        for &(.., object) in &versions {
            place(object, plan);
        }
    }
}

/// Divide what is to be deflated among workers, with candidates from the remote before what they may serve.
pub(super) fn batch(
    set: &ObjectSet,
    options: &Options,
    weights: &HashMap<u32, u64>,
    presence: &Presence<'_>,
    plan: &mut Plan,
) {
    let limit = match options.search {
        Search::NewPaths => BATCH_BYTES,
        Search::Everything => SEARCHED_BATCH_BYTES,
    };
    let mut batch = Vec::new();
    let mut bytes = 0;
    let mut recent = VecDeque::new();
    for &object in &plan.order {
        let Source::Deflate { base } = plan.sources[object as usize] else {
            continue;
        };
        let entry = set.entry(object as usize);
        if base == BaseOf::Nothing && is_deltable(&entry) && options.thin && options.window_depth() > 0 {
            for id in near(set, entry.kind, entry.name_hash, options.window) {
                let number = plan.remote_bases.number(id);
                if !recent.contains(&number) && presence.has(id) {
                    batch.push(Item::Candidate(number));
                    recent.push_back(number);
                    if recent.len() > options.window / 2 {
                        recent.pop_front();
                    }
                }
            }
        }
        batch.push(Item::Send(object));
        bytes += weights.get(&object).copied().unwrap_or(UNKNOWN_BYTES);
        if bytes >= limit {
            plan.batches.push(std::mem::take(&mut batch));
            bytes = 0;
            recent.clear();
        }
    }
    if !batch.is_empty() {
        plan.batches.push(batch);
    }
}

/// Objects of the remote's under paths that end like that of `name_hash`; those most alike last.
fn near(set: &ObjectSet, kind: Kind, name_hash: u32, window: usize) -> impl Iterator<Item = &gix_hash::oid> {
    let preferred = set.preferred();
    let from = preferred.partition_point(|found| (found.kind, found.name_hash) < (kind, name_hash));
    let half = (window / 2).max(1);
    let first = from.saturating_sub(half);
    let last = (from + half).min(preferred.len());
    preferred[first..last]
        .iter()
        .filter(move |found| found.kind == kind)
        .map(|found| &*found.id)
}
