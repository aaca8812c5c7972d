//! The window of candidates that a new object is compared with, after git's: the latest objects of a batch, which paths that end
//! alike follow each other in. What is chosen depends on a batch's objects only, so each reader chooses the same.

use std::{collections::VecDeque, rc::Rc};

use gix_object::Kind;

use super::plan::BaseOf;
use crate::delta::{DeltaIndex, Encoder};

/// Smaller objects gain nothing.
pub(super) const SMALLEST: usize = 50;
/// What it takes to name a base by id; git's figure, too.
const NAME: usize = 20;

struct Candidate {
    base: BaseOf,
    kind: Kind,
    content: Rc<Vec<u8>>,
    depth: usize,
    /// Made when first compared.
    index: Option<DeltaIndex>,
}

impl Candidate {
    fn bytes(&self) -> usize {
        self.content.len() + self.index.as_ref().map_or(0, DeltaIndex::bytes)
    }
}

pub(super) struct Candidates {
    latest: VecDeque<Candidate>,
    bytes: usize,
    /// Of candidates, and of their bytes.
    most: usize,
    most_bytes: usize,
    deepest: usize,
    best: Vec<u8>,
}

/// A delta that was found.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    pub(super) base: BaseOf,
    /// Deltas from there to a whole object, this one included.
    pub(super) depth: usize,
}

impl Candidates {
    pub(super) fn new(most: usize, most_bytes: usize, deepest: usize) -> Self {
        Candidates {
            latest: VecDeque::new(),
            bytes: 0,
            most,
            most_bytes,
            deepest,
            best: Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.latest.clear();
        self.bytes = 0;
    }

    /// An object of `size` bytes may be kept as a candidate.
    pub(super) fn takes(&self, size: u64) -> bool {
        self.most > 0 && size <= self.most_bytes as u64 / 2
    }

    pub(super) fn add(&mut self, base: BaseOf, kind: Kind, content: &Rc<Vec<u8>>, depth: usize) {
        if content.len() < SMALLEST || !self.takes(content.len() as u64) {
            return;
        }
        let content = content.clone();
        self.bytes += content.len();
        self.latest.push_front(Candidate {
            base,
            kind,
            content,
            depth,
            index: None,
        });
        while self.latest.len() > self.most || self.bytes > self.most_bytes {
            match self.latest.pop_back() {
                Some(oldest) => self.bytes -= oldest.bytes(),
                None => break,
            }
        }
    }

    /// The best delta for `target`, if any is shorter than half of it; `known` is one that was found already.
    /// Returns it with the number of tries.
    pub(super) fn search(
        &mut self,
        kind: Kind,
        target: &[u8],
        known: Option<(Choice, &[u8])>,
        encoder: &mut Encoder,
    ) -> (Option<(Choice, &[u8])>, usize) {
        let mut tries = 0;
        let mut choice = None;
        if let Some((found, delta)) = known {
            self.best.clear();
            self.best.extend_from_slice(delta);
            choice = Some(found);
        }
        if target.len() < SMALLEST {
            return (choice.map(|choice| (choice, &*self.best)), tries);
        }
        for candidate in &mut self.latest {
            if candidate.kind != kind || candidate.depth >= self.deepest {
                continue;
            }
            // Git's rules (`try_delta`): a delta on a deep base has to be the shorter for it; growth costs at least itself.
            let (most, depth) = match &choice {
                None => ((target.len() / 2).saturating_sub(NAME), 1),
                Some(choice) => (self.best.len(), choice.depth),
            };
            let limit = most * (self.deepest - candidate.depth) / (self.deepest + 1).saturating_sub(depth).max(1);
            let grown = target.len().saturating_sub(candidate.content.len());
            if limit == 0 || grown >= limit || target.len() < candidate.content.len() / 32 {
                continue;
            }
            let content = &candidate.content;
            let index = match &mut candidate.index {
                Some(index) => index,
                none => {
                    let mut index = DeltaIndex::default();
                    index.build(content, 0..content.len());
                    self.bytes += index.bytes();
                    none.insert(index)
                }
            };
            tries += 1;
            if let Some(delta) = encoder.encode_with(content, index, target, limit) {
                let depth = candidate.depth + 1;
                let base = candidate.base;
                // As long as the best so far, but closer to a whole object.
                let is_better = choice.is_none_or(|best| delta.len() < self.best.len() || depth < best.depth);
                if is_better {
                    self.best.clear();
                    self.best.extend_from_slice(delta);
                    choice = Some(Choice { base, depth });
                }
            }
        }
        (choice.map(|choice| (choice, &*self.best)), tries)
    }
}
