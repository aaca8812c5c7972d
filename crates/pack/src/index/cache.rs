//! Objects that deltas to come may build on, up to so many bytes.

use std::{collections::VecDeque, sync::Arc};

use gix_object::Kind;
use hashbrown::HashMap;

pub(super) struct Cache {
    objects: HashMap<u32, Object>,
    /// In the order in which they lose their place.
    queue: VecDeque<u32>,
    bytes: usize,
    limit: usize,
}

struct Object {
    kind: Kind,
    data: Arc<Vec<u8>>,
    /// It served since it was last looked at: it gets another round.
    used: bool,
}

impl Cache {
    pub(super) fn new(limit: usize) -> Self {
        Cache {
            objects: HashMap::new(),
            queue: VecDeque::new(),
            bytes: 0,
            limit,
        }
    }

    pub(super) fn find(&mut self, entry: u32) -> Option<(Kind, Arc<Vec<u8>>)> {
        let object = self.objects.get_mut(&entry)?;
        object.used = true;
        Some((object.kind, Arc::clone(&object.data)))
    }

    pub(super) fn insert(&mut self, entry: u32, kind: Kind, data: Arc<Vec<u8>>) {
        // What is larger would push out too much.
        if data.len() > self.limit / 4 {
            return;
        }
        // What an empty object takes up, too.
        self.bytes += cost(&data);
        let object = Object {
            kind,
            data,
            used: false,
        };
        if let Some(before) = self.objects.insert(entry, object) {
            self.bytes -= cost(&before.data);
        } else {
            self.queue.push_back(entry);
        }
        while self.bytes > self.limit
            && let Some(oldest) = self.queue.pop_front()
        {
            match self.objects.get_mut(&oldest) {
                Some(object) if object.used => {
                    object.used = false;
                    self.queue.push_back(oldest);
                }
                _ => {
                    if let Some(object) = self.objects.remove(&oldest) {
                        self.bytes -= cost(&object.data);
                    }
                }
            }
        }
    }
}

fn cost(data: &Arc<Vec<u8>>) -> usize {
    data.capacity() + 128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_serves_stays_and_the_rest_is_bounded() {
        const LIMIT: usize = 16 << 20;
        let mut cache = Cache::new(LIMIT);
        let object = || Arc::new(vec![0; 1 << 20]);
        for entry in 0..100 {
            cache.insert(entry, Kind::Blob, object());
            assert!(cache.bytes <= LIMIT);
            assert!(cache.find(0).is_some(), "used all the time");
        }
        assert!(cache.find(1).is_none());
        assert!(cache.find(99).is_some());
        cache.insert(100, Kind::Blob, Arc::new(vec![0; LIMIT / 4 + 1]));
        assert!(cache.find(100).is_none());
    }
}
