//! Which object to make a new delta against which: the previous version of the same path, which enumeration found on its way. That
//! takes no search, and is nearly always the best base there is.

use std::sync::atomic::AtomicBool;

use gix_object::Kind;

use super::{
    options::{Options, Search},
    plan::{BaseOf, Plan, Presence, Source},
};
use crate::{Base, Error, ObjectSet, error::check};

/// Up to that many objects, a thin pack is made of fresh deltas rather than of stored ones: a third smaller, because git stores the
/// older version as a delta of the newer, which helps nobody who has the older. Deflating anew takes some 50 µs an object.
const FEW: usize = 20_000;

pub(super) struct Proposals {
    /// Whether they are to be preferred over what is stored.
    pub(super) preferred: bool,
}

/// Note a base for each tree and blob that has one, as if all were to be deflated. Bases may still form cycles.
pub(super) fn propose(
    set: &ObjectSet,
    options: &Options,
    presence: &Presence<'_>,
    plan: &mut Plan,
    interrupt: &AtomicBool,
) -> Result<Proposals, Error> {
    let mut preferred = false;
    if options.depth == 0 {
        return Ok(Proposals { preferred });
    }
    for (position, entry) in set.iter().enumerate() {
        check(interrupt)?;
        if !is_deltable(entry.kind) {
            continue;
        }
        let base = match set.previous(position) {
            Some(Base::Sent(base)) if options.search == Search::NewPaths && set.entry(base).kind == entry.kind => {
                BaseOf::Sent(base as u32)
            }
            Some(Base::Remote(id)) if options.thin => {
                preferred = set.len() <= FEW;
                if !presence.has(id) {
                    continue;
                }
                BaseOf::Remote(plan.remote_bases.number(id))
            }
            _ => continue,
        };
        plan.sources[position] = Source::Deflate { base };
    }
    Ok(Proposals { preferred })
}

/// Commits and tags have too little in common.
pub(super) fn is_deltable(kind: Kind) -> bool {
    matches!(kind, Kind::Tree | Kind::Blob)
}
