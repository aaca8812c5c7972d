//! Two-generation caches: whatever was used since the younger generation began survives, the rest goes in one stroke.
//! No list to maintain per hit, and memory stays within the limit.

use std::hash::Hash;

use gix_object::Kind;
use hashbrown::HashMap;

pub(crate) struct Generations<K, V> {
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
    young_bytes: usize,
    /// For both generations together.
    limit: usize,
}

impl<K: Hash + Eq, V> Generations<K, V> {
    pub(crate) fn new(limit: usize) -> Self {
        Generations {
            young: HashMap::new(),
            old: HashMap::new(),
            young_bytes: 0,
            limit,
        }
    }

    pub(crate) fn find(&mut self, key: &K) -> Option<&V> {
        if let Some((key, (value, bytes))) = self.old.remove_entry(key) {
            self.insert(key, value, bytes);
        }
        self.young.get(key).map(|(value, _)| value)
    }

    /// `bytes` is what keeping `value` costs. A value above a quarter of the limit is not worth what it would push out.
    pub(crate) fn insert(&mut self, key: K, value: V, bytes: usize) {
        if bytes > self.limit / 4 {
            return;
        }
        if self.young_bytes + bytes > self.limit / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if let Some((_, replaced)) = self.young.insert(key, (value, bytes)) {
            self.young_bytes -= replaced;
        }
        self.young_bytes += bytes;
    }
}

/// What an entry costs beyond its data.
const OVERHEAD: usize = 96;

/// Kind, size in the pack, content.
type Decoded = (Kind, usize, Box<[u8]>);

/// Remembers decoded pack entries, so that walking along a delta chain doesn't resolve it from its root each time.
pub(crate) struct DecodeCache(Generations<(u32, u64), Decoded>);

impl DecodeCache {
    pub(crate) fn new(limit: usize) -> Self {
        DecodeCache(Generations::new(limit))
    }
}

impl gix_pack::cache::DecodeEntry for DecodeCache {
    fn put(&mut self, pack_id: u32, offset: u64, data: &[u8], kind: Kind, compressed_size: usize) {
        if data.len() <= self.0.limit / 4 {
            let value = (kind, compressed_size, data.into());
            self.0.insert((pack_id, offset), value, data.len() + OVERHEAD);
        }
    }

    fn get(&mut self, pack_id: u32, offset: u64, out: &mut Vec<u8>) -> Option<(Kind, usize)> {
        let (kind, compressed_size, data) = self.0.find(&(pack_id, offset))?;
        out.clear();
        out.extend_from_slice(data);
        Some((*kind, *compressed_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_survives_what_is_not() {
        let mut cache = Generations::new(160);
        cache.insert(0, "kept", 10);
        for key in 1..40 {
            cache.insert(key, "filler", 10);
            assert_eq!(cache.find(&0), Some(&"kept"), "after {key}");
        }
        assert_eq!(cache.find(&1), None);
        assert!(cache.young.len() + cache.old.len() <= 16);
        cache.insert(100, "too large", 41);
        assert_eq!(cache.find(&100), None);
    }
}
