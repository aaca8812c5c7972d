//! Which object to make a new delta against which: another version of the same path, which enumeration found on its way. That
//! takes no search, and is nearly always the best base there is.
//!
//! Where the remote has the first of a line of versions, each is made of the one before. Else the newest goes whole and each is
//! made of the one after, as git does it: files grow, and what is left out takes fewer bytes to tell than what is put in.

use std::sync::atomic::AtomicBool;

use gix_object::Kind;

use super::{
    options::{Options, Search},
    plan::{BaseOf, Plan, Presence, Source},
};
use crate::{Base, Entry, Error, ObjectSet, error::check};

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
    let mut before = vec![BaseOf::Nothing; set.len()];
    for (position, entry) in set.iter().enumerate() {
        check(interrupt)?;
        if !is_deltable(&entry) {
            continue;
        }
        let serves = |base: usize| set.entry(base).kind == entry.kind && is_deltable(&set.entry(base));
        before[position] = match set.previous(position) {
            Some(Base::Sent(base)) if options.search == Search::NewPaths && serves(base) => BaseOf::Sent(base as u32),
            Some(Base::Remote(id)) if options.thin => {
                preferred = set.len() <= FEW;
                if !presence.has(id) {
                    continue;
                }
                BaseOf::Remote(plan.remote_bases.number(id))
            }
            _ => BaseOf::Nothing,
        };
    }
    let bases = direct(&before);
    for (source, base) in plan.sources.iter_mut().zip(bases) {
        *source = Source::Deflate { base };
    }
    Ok(Proposals { preferred })
}

/// Bases from what comes before each: the other way around, unless it begins on the remote.
fn direct(before: &[BaseOf]) -> Vec<BaseOf> {
    const UNKNOWN: u8 = 0;
    const OPEN: u8 = 1;
    const FORWARD: u8 = 2;
    const BACKWARD: u8 = 3;
    let mut ways = vec![UNKNOWN; before.len()];
    let mut line = Vec::new();
    for start in 0..before.len() {
        let mut at = start;
        let way = loop {
            match ways[at] {
                UNKNOWN => {
                    ways[at] = OPEN;
                    line.push(at);
                }
                // A circle has no beginning.
                OPEN => break BACKWARD,
                known => break known,
            }
            match before[at] {
                BaseOf::Sent(earlier) => at = earlier as usize,
                BaseOf::Remote(_) => break FORWARD,
                BaseOf::Nothing => break BACKWARD,
            }
        };
        for at in line.drain(..) {
            ways[at] = way;
        }
    }
    let mut bases = vec![BaseOf::Nothing; before.len()];
    for (at, &base) in before.iter().enumerate() {
        match base {
            BaseOf::Sent(earlier) if ways[at] == BACKWARD => {
                // The first to claim it is the newest; others, on branches, stay what comes after it.
                let earlier = earlier as usize;
                if bases[earlier] == BaseOf::Nothing {
                    bases[earlier] = BaseOf::Sent(at as u32);
                } else if bases[at] == BaseOf::Nothing {
                    bases[at] = base;
                }
            }
            _ if bases[at] == BaseOf::Nothing => bases[at] = base,
            _ => {}
        }
    }
    bases
}

/// Whether to look for deltas of an object and against it. Commits and tags have too little in common.
pub(super) fn is_deltable(entry: &Entry<'_>) -> bool {
    matches!(entry.kind, Kind::Tree | Kind::Blob) && !entry.delta_unset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_run_from_the_remote_or_from_the_newest() {
        use BaseOf::{Nothing, Remote, Sent};
        // 0 is the newest of a line that begins at 2, 3 of one that begins on the remote.
        let before = [Sent(1), Sent(2), Nothing, Sent(4), Remote(0)];
        assert!(direct(&before) == [Nothing, Sent(0), Sent(1), Sent(4), Remote(0)]);
        // Two that came after the same.
        assert!(direct(&[Sent(2), Sent(2), Nothing]) == [Nothing, Sent(2), Sent(0)]);
        // A circle ends.
        let bases = direct(&[Sent(1), Sent(0)]);
        assert!(bases == [Sent(1), Sent(0)] || bases.contains(&Nothing));
    }
}
