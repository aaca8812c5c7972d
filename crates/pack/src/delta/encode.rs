use super::index::{BLOCK, DeltaIndex, common_prefix, common_suffix};

/// The most one copy instruction takes: size bytes of all zeros mean this (gitformat-pack(5)). Three of them could tell of more,
/// but git itself never writes that, so readers may never have met it.
const LONGEST_COPY: usize = 0x1_0000;
/// The most one insert instruction carries.
const LONGEST_INSERT: usize = 0x7f;
/// Below that, what differs between the common beginning and end is inserted as it is.
const SEARCHED_FROM: usize = 2 * BLOCK;
/// What differs, if it is short, is looked for around where it was only.
const SHORT: usize = 256;
const AROUND: usize = 4096;
/// A match that long is taken without looking for a longer one.
const LONG_ENOUGH: usize = 4096;
/// Offsets have four bytes.
const LARGEST: usize = u32::MAX as usize;

/// Writes deltas; keeps its buffers.
#[derive(Default)]
pub struct Encoder {
    index: DeltaIndex,
    out: Vec<u8>,
}

impl std::fmt::Debug for Encoder {
    /// Never shows content.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder")
            .field("written", &self.out.len())
            .finish_non_exhaustive()
    }
}

impl Encoder {
    /// A delta that makes `target` out of `base`, of less than `limit` bytes. `None` where it would take more, and for an empty target or a
    /// base of 4 GiB, of which git makes none.
    pub fn encode(&mut self, base: &[u8], target: &[u8], limit: usize) -> Option<&[u8]> {
        self.run(base, None, target, limit)
    }

    /// The same with an index of the whole of `base`, which pays if there are several targets.
    ///
    /// # Panics
    /// When `index` is that of a longer base.
    pub fn encode_with(&mut self, base: &[u8], index: &DeltaIndex, target: &[u8], limit: usize) -> Option<&[u8]> {
        self.run(base, Some(index), target, limit)
    }

    fn run(&mut self, base: &[u8], index: Option<&DeltaIndex>, target: &[u8], limit: usize) -> Option<&[u8]> {
        if base.len() > LARGEST || target.is_empty() {
            return None;
        }
        self.out.clear();
        size(base.len(), &mut self.out);
        size(target.len(), &mut self.out);

        // A copy instruction takes up to 7 bytes: shorter common parts are left to the search.
        let worthwhile = |length: usize| if length < BLOCK { 0 } else { length };
        let prefix = worthwhile(common_prefix(base, target));
        let suffix = worthwhile(common_suffix(&base[prefix..], &target[prefix..]));
        let (from, to) = (prefix, target.len() - suffix);
        copy(0, prefix, &mut self.out);
        let differing = to - from;
        if differing < SEARCHED_FROM {
            insert(&target[from..to], &mut self.out);
        } else {
            let index = match index {
                Some(index) => index,
                None => {
                    let range = if differing <= SHORT {
                        from.saturating_sub(AROUND)..(base.len() - suffix).saturating_add(AROUND).min(base.len())
                    } else {
                        0..base.len()
                    };
                    self.index.build(base, range);
                    &self.index
                }
            };
            search(base, index, target, from..to, limit, &mut self.out)?;
        }
        copy(base.len() - suffix, suffix, &mut self.out);
        (self.out.len() < limit).then_some(&self.out)
    }
}

/// Instructions for `range` of the target. `None` if they get too long.
fn search(
    base: &[u8],
    index: &DeltaIndex,
    target: &[u8],
    range: std::ops::Range<usize>,
    limit: usize,
    out: &mut Vec<u8>,
) -> Option<()> {
    let end = range.end;
    // What comes before is told; from there to `at` waits to be inserted.
    let mut told = range.start;
    let mut at = range.start;
    while at + BLOCK <= end {
        let block = &target[at..at + BLOCK];
        let (mut offset, mut length) = (0, 0);
        for candidate in index.candidates(block) {
            let rest = &base[candidate..];
            if rest.len() > length && rest[..BLOCK] == *block {
                let common = common_prefix(rest, &target[at..end]);
                if common > length {
                    (offset, length) = (candidate, common);
                    if length >= LONG_ENOUGH {
                        break;
                    }
                }
            }
        }
        if length == 0 {
            at += 1;
            // The next match may reach back over some of what waits.
            if out.len() + (at - told) >= limit.saturating_add(BLOCK) {
                return None;
            }
            continue;
        }
        // Blocks are only known where one begins, so the match may have begun before.
        let earlier = common_suffix(&base[..offset], &target[told..at]);
        insert(&target[told..at - earlier], out);
        copy(offset - earlier, length + earlier, out);
        at += length;
        told = at;
        if out.len() >= limit {
            return None;
        }
    }
    insert(&target[told..end], out);
    Some(())
}

/// Seven bits at a time, the least first.
fn size(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn insert(mut bytes: &[u8], out: &mut Vec<u8>) {
    while !bytes.is_empty() {
        let (now, later) = bytes.split_at(bytes.len().min(LONGEST_INSERT));
        out.push(now.len() as u8);
        out.extend_from_slice(now);
        bytes = later;
    }
}

fn copy(mut offset: usize, mut length: usize, out: &mut Vec<u8>) {
    while length > 0 {
        let now = length.min(LONGEST_COPY);
        let command = out.len();
        out.push(0x80);
        let size = if now == LONGEST_COPY { 0 } else { now };
        for (bit, byte) in (offset as u32)
            .to_le_bytes()
            .into_iter()
            .chain((size as u16).to_le_bytes())
            .enumerate()
        {
            if byte != 0 {
                out[command] |= 1 << bit;
                out.push(byte);
            }
        }
        offset += now;
        length -= now;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::apply::apply, *};

    /// Both ways of encoding, each applied again.
    fn round_trip(base: &[u8], target: &[u8]) -> Option<usize> {
        let mut encoder = Encoder::default();
        let mut index = DeltaIndex::default();
        index.build(base, 0..base.len());
        let alone = encoder.encode(base, target, usize::MAX).map(<[u8]>::to_vec);
        let indexed = encoder
            .encode_with(base, &index, target, usize::MAX)
            .map(<[u8]>::to_vec);
        assert_eq!(alone.is_some(), !target.is_empty());
        for delta in [&alone, &indexed].into_iter().flatten() {
            assert!(apply(base, delta).as_deref() == Some(target));
        }
        if let Some(delta) = &alone {
            assert!(
                encoder.encode(base, target, delta.len()).is_none(),
                "the limit is exclusive"
            );
            assert!(
                encoder
                    .encode(base, target, delta.len() + target.len() + BLOCK)
                    .is_some()
            );
        }
        alone.map(|delta| delta.len())
    }

    fn lines(count: usize) -> Vec<u8> {
        (0..count)
            .flat_map(|n| format!("line {n} says {}\n", n * n).into_bytes())
            .collect()
    }

    #[test]
    fn a_changed_line_costs_little_however_long_the_rest() {
        let base = lines(50_000);
        let mut target = base.clone();
        let middle = target.len() / 2;
        target.splice(middle..middle + 10, *b"something else altogether");
        let length = round_trip(&base, &target).unwrap();
        assert!(length < 250, "{length}");
        assert!(round_trip(&base, &base).unwrap() < 200);
    }

    #[test]
    fn moved_parts_are_found() {
        let base = lines(400);
        let (front, back) = base.split_at(base.len() / 3);
        let length = round_trip(&base, &[back, b"between", front].concat()).unwrap();
        assert!(length < 40, "{length}");
        let doubled = [&base[..], &base[..]].concat();
        assert!(round_trip(&base, &doubled).unwrap() < 40);
    }

    #[test]
    fn repetition_and_copies_around_the_longest_work() {
        for length in [1, 127, 128, 0xffff, 0x1_0000, 0x1_0001, 0x2_0000, 200_000] {
            let zeros = vec![0; length];
            assert!(round_trip(&zeros, &zeros).is_some());
            round_trip(&[&b"x"[..], &zeros].concat(), &zeros);
            round_trip(&zeros, &[&zeros[..], b"x", &zeros].concat());
            round_trip(b"", &zeros);
        }
        assert_eq!(round_trip(b"base", b""), None);
    }

    /// Pieces of a base, some of them altered, with other bytes between.
    fn related() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let alphabet = prop_oneof![Just(2u8), Just(255u8)];
        let base = alphabet.prop_flat_map(|top| proptest::collection::vec(0..=top, 0..3000));
        let piece = (any::<u16>(), 0..600usize, proptest::collection::vec(any::<u8>(), 0..40));
        (base, proptest::collection::vec(piece, 0..12)).prop_map(|(base, pieces)| {
            let mut target = Vec::new();
            for (start, length, fresh) in pieces {
                let start = usize::from(start) % (base.len() + 1);
                target.extend_from_slice(&base[start..(start + length).min(base.len())]);
                target.extend_from_slice(&fresh);
            }
            (base, target)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        #[test]
        fn what_was_encoded_comes_back((base, target) in related()) {
            round_trip(&base, &target);
        }
    }
}
