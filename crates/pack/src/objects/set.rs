use gix_hash::{ObjectId, oid};
use gix_object::Kind;
use hashbrown::{HashTable, hash_table};

use crate::Error;

/// The places of an id that is not to be sent: merely mentioned, or known to be on the remote.
const MENTIONED: u32 = u32::MAX;
const ON_REMOTE: u32 = u32::MAX - 1;
/// No previous version.
const NONE: u32 = u32::MAX;

/// Object ids are hashes already.
pub(crate) fn fast_hash(id: &oid) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&id.as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// What is to be sent, each object once, commits newest first, and what enumeration learned about it.
pub struct ObjectSet {
    hash: gix_hash::Kind,
    ids: Vec<ObjectId>,
    table: HashTable<u32>,
    /// By number of id: where in `entries` it is, or one of the constants above.
    places: Vec<u32>,
    entries: Vec<Record>,
    dropped: usize,
    preferred: Vec<Preferred>,
}

/// An object the remote has under a path that resembles one of a new object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Preferred {
    pub(crate) kind: Kind,
    pub(crate) name_hash: u32,
    pub(crate) id: ObjectId,
}

/// Kept small: there may be millions.
struct Record {
    id: u32,
    previous: u32,
    name_hash: u32,
    kind: Kind,
    delta_unset: bool,
    dropped: bool,
}

/// One object to send.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Entry<'a> {
    /// The object's name.
    pub id: &'a oid,
    /// Its type.
    pub kind: Kind,
    /// Git's `pack_name_hash` of the path it was found under; 0 for commits and tags.
    pub name_hash: u32,
    /// The attribute `delta` is unset for that path (gitattributes(5)): no delta is looked for, neither of it nor against it.
    pub delta_unset: bool,
}

/// An object that a delta may be made against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base<'a> {
    /// It is sent too, at this position in the set.
    Sent(usize),
    /// The remote has it.
    Remote(&'a oid),
}

impl ObjectSet {
    /// How many objects there are to send.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the remote has everything already.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The hash the ids are made with.
    pub fn hash(&self) -> gix_hash::Kind {
        self.hash
    }

    /// The object at `position`, which must be below [`len()`](Self::len()).
    pub fn entry(&self, position: usize) -> Entry<'_> {
        let record = &self.entries[position];
        Entry {
            id: &self.ids[record.id as usize],
            kind: record.kind,
            name_hash: record.name_hash,
            delta_unset: record.delta_unset,
        }
    }

    /// All objects, by position.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Entry<'_>> {
        (0..self.len()).map(|position| self.entry(position))
    }

    /// Where `id` is in the set.
    pub fn position(&self, id: &oid) -> Option<usize> {
        match self.place(id)? {
            MENTIONED | ON_REMOTE => None,
            place => Some(place as usize),
        }
    }

    /// Whether `id` was seen in a tree of a commit that the remote has. `false` means unknown.
    pub fn on_remote(&self, id: &oid) -> bool {
        self.place(id) == Some(ON_REMOTE)
    }

    /// The earlier version of the object at `position`: what its path held in the commit's first parent that had the path.
    pub fn previous(&self, position: usize) -> Option<Base<'_>> {
        let previous = self.entries[position].previous;
        if previous == NONE {
            return None;
        }
        match self.places[previous as usize] {
            MENTIONED => None,
            ON_REMOTE => Some(Base::Remote(&self.ids[previous as usize])),
            place => Some(Base::Sent(place as usize)),
        }
    }

    /// The ids known to be on the remote: previous versions of what is sent, mostly.
    pub(crate) fn remote_ids(&self) -> impl Iterator<Item = &oid> {
        let places = self.places.iter();
        self.ids
            .iter()
            .zip(places)
            .filter(|(_, place)| **place == ON_REMOTE)
            .map(|(id, _)| &**id)
    }

    fn place(&self, id: &oid) -> Option<u32> {
        let number = self
            .table
            .find(fast_hash(id), |&number| *self.ids[number as usize] == *id)?;
        Some(self.places[*number as usize])
    }
}

impl std::fmt::Debug for ObjectSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectSet")
            .field("hash", &self.hash)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Filling the set, for enumeration.
impl ObjectSet {
    pub(super) fn new(hash: gix_hash::Kind) -> Self {
        ObjectSet {
            hash,
            ids: Vec::new(),
            table: HashTable::new(),
            places: Vec::new(),
            entries: Vec::new(),
            dropped: 0,
            preferred: Vec::new(),
        }
    }

    /// Whether `id` needs no further look: it is in the set, or on the remote.
    pub(super) fn settled(&self, id: &oid) -> bool {
        self.place(id).is_some_and(|place| place != MENTIONED)
    }

    /// Add `id`, unless it is settled. Returns whether it was added.
    ///
    /// Of an object that occurs several times, the previous version is that of the last occurrence told, which is the oldest: what
    /// goes back and forth between two versions would otherwise have each as the other's previous one.
    pub(super) fn send(&mut self, id: &oid, kind: Kind, name_hash: u32, previous: Option<&oid>) -> Result<bool, Error> {
        let number = self.intern(id)?;
        let place = self.places[number as usize];
        if place == ON_REMOTE {
            return Ok(false);
        }
        let previous = previous.map_or(Ok(NONE), |previous| self.intern(previous))?;
        if place != MENTIONED {
            if previous != NONE && previous != number {
                self.entries[place as usize].previous = previous;
            }
            return Ok(false);
        }
        self.places[number as usize] = self.entries.len() as u32;
        self.entries.push(Record {
            id: number,
            previous,
            name_hash,
            kind,
            delta_unset: false,
            dropped: false,
        });
        Ok(true)
    }

    /// The object that [`send()`](Self::send()) added last has a path whose `delta` attribute is unset.
    pub(super) fn unset_delta(&mut self) {
        if let Some(record) = self.entries.last_mut() {
            record.delta_unset = true;
        }
    }

    /// Note that the remote has `id`: it won't be sent, and may serve as a base.
    pub(super) fn note_remote(&mut self, id: &oid) -> Result<(), Error> {
        let number = self.intern(id)?;
        self.settle_remote(number);
        Ok(())
    }

    /// As [`note_remote()`](Self::note_remote()), but for ids that came up before only.
    pub(super) fn note_remote_if_mentioned(&mut self, id: &oid) {
        let number = self
            .table
            .find(fast_hash(id), |&number| *self.ids[number as usize] == *id);
        if let Some(&number) = number {
            self.settle_remote(number);
        }
    }

    /// How many objects are to be sent as far as known.
    pub(super) fn remaining(&self) -> usize {
        self.entries.len() - self.dropped
    }

    /// How many objects among those to be sent have no previous version: they may have been on the remote under another path.
    pub(super) fn new_paths(&self) -> usize {
        self.entries
            .iter()
            .filter(|record| record.previous == NONE && matches!(record.kind, Kind::Blob | Kind::Tree))
            .count()
    }

    /// Kind and name hash of these, sorted.
    pub(super) fn new_names(&self) -> Vec<(Kind, u32)> {
        let new = self.entries.iter().filter(|record| {
            record.previous == NONE && !record.dropped && matches!(record.kind, Kind::Blob | Kind::Tree)
        });
        let mut names: Vec<_> = new.map(|record| (record.kind, record.name_hash)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Keep bases for new objects.
    pub(super) fn prefer(&mut self, preferred: Vec<Preferred>) {
        self.preferred = preferred;
    }

    /// Objects of the remote's that objects without a previous version may resemble, by kind, name hash and id.
    pub(crate) fn preferred(&self) -> &[Preferred] {
        &self.preferred
    }

    /// Close the gaps that objects left which turned out to be on the remote.
    pub(super) fn finish(mut self) -> Self {
        if self.dropped != 0 {
            self.entries.retain(|record| !record.dropped);
            for (place, record) in self.entries.iter().enumerate() {
                self.places[record.id as usize] = place as u32;
            }
            self.dropped = 0;
        }
        self.entries.shrink_to_fit();
        self
    }

    fn settle_remote(&mut self, number: u32) {
        let place = std::mem::replace(&mut self.places[number as usize], ON_REMOTE);
        if place != MENTIONED && place != ON_REMOTE {
            self.entries[place as usize].dropped = true;
            self.dropped += 1;
        }
    }

    fn intern(&mut self, id: &oid) -> Result<u32, Error> {
        let ids = &self.ids;
        let entry = self.table.entry(
            fast_hash(id),
            |&number| *ids[number as usize] == *id,
            |&number| fast_hash(&ids[number as usize]),
        );
        match entry {
            hash_table::Entry::Occupied(entry) => Ok(*entry.get()),
            hash_table::Entry::Vacant(entry) => {
                let number = u32::try_from(ids.len()).ok().filter(|&number| number < ON_REMOTE);
                let number = number.ok_or(Error::TooManyObjects { objects: ids.len() })?;
                entry.insert(number);
                self.ids.push(id.to_owned());
                self.places.push(MENTIONED);
                Ok(number)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> ObjectId {
        ObjectId::Sha1([byte; 20])
    }

    #[test]
    fn an_object_found_on_the_remote_later_leaves_the_set() {
        let mut set = ObjectSet::new(gix_hash::Kind::Sha1);
        assert!(set.send(&id(1), Kind::Tree, 1, None).unwrap());
        assert!(set.send(&id(2), Kind::Blob, 2, Some(&id(9))).unwrap());
        assert!(set.send(&id(3), Kind::Blob, 3, Some(&id(2))).unwrap());
        assert!(!set.send(&id(3), Kind::Blob, 4, None).unwrap(), "each once");
        set.note_remote_if_mentioned(&id(1));
        set.note_remote_if_mentioned(&id(7));
        set.note_remote(&id(8)).unwrap();
        assert!(!set.send(&id(8), Kind::Blob, 0, None).unwrap(), "the remote has it");
        assert_eq!(set.remaining(), 2);
        let set = set.finish();
        let sent: Vec<_> = set.iter().map(|entry| entry.id.to_owned()).collect();
        assert_eq!(sent, [id(2), id(3)]);
        assert_eq!(set.position(&id(3)), Some(1));
        assert_eq!(set.previous(1), Some(Base::Sent(0)));
        assert_eq!(
            set.previous(0),
            None,
            "mentioned only: nobody knows whether the remote has it"
        );
        assert!(set.on_remote(&id(1)) && set.on_remote(&id(8)) && !set.on_remote(&id(9)) && !set.on_remote(&id(7)));
    }
}
