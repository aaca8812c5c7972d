//! What depends on how an object was found, and must come out the same when the pack is made again.
//!
//! A concurrent repack moves objects between two readers of a source: what was loose then is packed now, and what was there as a
//! base may have been pruned. Every other choice rests on content and plan alone. These few are written down by whoever comes to
//! them first, so that a replay yields the same bytes, or fails where it can't.

use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;

#[derive(Default)]
pub(crate) struct Decisions {
    /// By position in the set: whether an object is stored rather than deflated.
    stored: Mutex<HashMap<u32, bool>>,
    /// By number of the remote base: whether it was there to make deltas of.
    present: Mutex<HashMap<u32, bool>>,
}

impl Decisions {
    /// Whether the object at this position is stored, by `find` unless that was decided before.
    pub(crate) fn stored(&self, object: u32, find: impl FnOnce() -> bool) -> bool {
        decide(&self.stored, object, find)
    }

    /// Whether this remote base is made use of.
    pub(crate) fn present(&self, base: u32, find: impl FnOnce() -> bool) -> bool {
        decide(&self.present, base, find)
    }
}

fn decide(decided: &Mutex<HashMap<u32, bool>>, number: u32, find: impl FnOnce() -> bool) -> bool {
    let lock = || decided.lock().unwrap_or_else(PoisonError::into_inner);
    let before = lock().get(&number).copied();
    // Finding out takes time; where two readers do so at once, the first to be done counts.
    before.unwrap_or_else(|| {
        let found = find();
        *lock().entry(number).or_insert(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_stays() {
        let decisions = Decisions::default();
        assert!(decisions.stored(7, || true));
        assert!(decisions.stored(7, || false));
        assert!(!decisions.present(7, || false));
        assert!(!decisions.present(7, || true));
        assert!(decisions.present(8, || true));
    }
}
