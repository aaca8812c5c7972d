//! Where the blocks of a base are.

use std::ops::Range;

/// Bytes that are hashed and compared at a time. Matches of twice that length are found wherever they begin.
pub(crate) const BLOCK: usize = 16;
/// How many blocks with the same hash to look at. More only help in data that repeats itself, where any match is a good one.
pub(super) const CANDIDATES: usize = 24;
const NONE: u32 = u32::MAX;

/// The blocks of a base by hash: a head for each hash, and for each block the next with the same.
#[derive(Debug, Default)]
pub struct DeltaIndex {
    heads: Vec<u32>,
    nexts: Vec<u32>,
    shift: u32,
    /// Where in the base the first block is.
    start: usize,
}

impl DeltaIndex {
    /// Index the part of `base` that `range` names; buffers are used again.
    ///
    /// # Panics
    /// When `range` does not lie in `base`.
    pub fn build(&mut self, base: &[u8], range: Range<usize>) {
        let part = &base[range.start..range.end.min(range.start + NONE as usize)];
        let blocks = part.len() / BLOCK;
        self.start = range.start;
        let bits = (usize::BITS - blocks.leading_zeros()).clamp(4, 26);
        self.shift = 64 - bits;
        self.heads.clear();
        self.heads.resize(1 << bits, NONE);
        self.nexts.clear();
        self.nexts.resize(blocks, NONE);
        // From the last to the first, so that the first comes first in its list.
        let mut later: Option<&[u8]> = None;
        for (number, block) in part.chunks_exact(BLOCK).enumerate().rev() {
            let head = self.head(block);
            // Of equal blocks in a row the first leads to the longest match.
            let next = self.heads[head];
            self.nexts[number] = if later == Some(block) && next == number as u32 + 1 {
                self.nexts[number + 1]
            } else {
                next
            };
            self.heads[head] = number as u32;
            later = Some(block);
        }
    }

    /// What it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        (self.heads.capacity() + self.nexts.capacity()) * size_of::<u32>()
    }

    /// Offsets in the base of blocks that may equal `block`, which is [`BLOCK`] bytes long.
    pub(super) fn candidates(&self, block: &[u8]) -> impl Iterator<Item = usize> {
        let mut at = self.heads.get(self.head(block)).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let number = at as usize;
            at = *self.nexts.get(number)?;
            Some(self.start + number * BLOCK)
        })
        .take(CANDIDATES)
    }

    fn head(&self, block: &[u8]) -> usize {
        let (low, high) = (word(block), word(&block[8..]));
        let mixed = (low ^ high.rotate_left(31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ high).wrapping_mul(0xd6e8_feb8_6659_fd93) >> self.shift) as usize
    }
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

/// How many bytes `a` and `b` have in common at their beginning.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    let mut at = 0;
    for (left, right) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let differ = word(left) ^ word(right);
        if differ != 0 {
            return at + (differ.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + a[at..]
        .iter()
        .zip(&b[at..])
        .take_while(|(left, right)| left == right)
        .count()
}

/// And at their end.
pub(super) fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let length = a.len().min(b.len());
    let (a, b) = (&a[a.len() - length..], &b[b.len() - length..]);
    let mut common = 0;
    for (left, right) in a.rchunks_exact(8).zip(b.rchunks_exact(8)) {
        let differ = word(left) ^ word(right);
        if differ != 0 {
            return common + (differ.leading_zeros() / 8) as usize;
        }
        common += 8;
    }
    let rest = length - common;
    common
        + a[..rest]
            .iter()
            .rev()
            .zip(b[..rest].iter().rev())
            .take_while(|(left, right)| left == right)
            .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_and_suffix_are_exact_at_every_length() {
        for length in 0..40usize {
            for differing in 0..length {
                let a = vec![7u8; length];
                let mut b = a.clone();
                b[differing] ^= 0x10;
                assert_eq!(common_prefix(&a, &b), differing);
                assert_eq!(common_suffix(&a, &b), length - 1 - differing);
                let longer = [&[1, 2, 3][..], &b].concat();
                assert_eq!(common_suffix(&a, &longer), length - 1 - differing);
            }
            let a = vec![7u8; length];
            assert_eq!(common_prefix(&a, &[7; 64]), length);
            assert_eq!(common_suffix(&a, &[7; 64]), length);
        }
    }

    #[test]
    fn every_block_of_the_range_is_found() {
        let base: Vec<u8> = (0..4000u32)
            .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        let mut index = DeltaIndex::default();
        for range in [0..base.len(), 100..9_011, 0..0, 5..20] {
            index.build(&base, range.clone());
            let mut found = 0;
            for (number, block) in base[range.clone()].chunks_exact(BLOCK).enumerate() {
                let at = range.start + number * BLOCK;
                assert!(index.candidates(block).any(|candidate| candidate == at), "{at}");
                found += 1;
            }
            assert_eq!(found, range.len() / BLOCK);
        }
    }
}
