//! Reading objects whole, as bases and targets of deltas, and keeping some of them at hand.

use std::{rc::Rc, sync::Arc};

use gix_hash::{ObjectId, oid};
use gix_object::{FindHeader, Kind};
use gix_odb::{Store, store};
use gix_pack::{Find, data};

use super::{
    deflate::{Content, Failure},
    pieces::Pieces,
    source::Shared,
    stores::Stores,
    window::Window,
};
use crate::{
    Error,
    objects::{DecodeCache, Generations, plain_handle},
};

/// Resolving many deltas of one family needs their common bases.
const DECODE_CACHE: usize = 4 * 1024 * 1024;
/// Larger objects are held in memory only by leave of the window.
const HELD_FROM: usize = 1024 * 1024;
/// What an object costs beyond its bytes.
const OVERHEAD: usize = 112;

/// How an object was found.
#[derive(Clone, Copy)]
pub(crate) enum Found {
    /// Loose; `pieces` is at its beginning.
    Loose {
        size: u64,
    },
    /// Large and whole in a pack; `pieces` is at its beginning.
    Whole {
        size: u64,
    },
    Packed {
        size: u64,
    },
    /// Known to every git without being stored.
    EmptyTree,
}

impl Found {
    pub(crate) fn size(self) -> u64 {
        match self {
            Found::Loose { size } | Found::Whole { size } | Found::Packed { size } => size,
            Found::EmptyTree => 0,
        }
    }
}

pub(crate) struct Contents {
    handle: store::Handle<Arc<Store>>,
    decoded: DecodeCache,
    pub(crate) pieces: Pieces,
    /// The packs as they were when a large object was in none of those known.
    later: Option<Stores>,
    kept: Generations<ObjectId, Rc<Vec<u8>>>,
    buffer: Vec<u8>,
}

impl Contents {
    /// `kept`: bytes of contents to keep.
    pub(crate) fn new(shared: &Shared, kept: usize) -> Self {
        Contents {
            handle: plain_handle(&shared.store),
            decoded: DecodeCache::new(DECODE_CACHE),
            pieces: Pieces::new(shared.set.hash()),
            later: None,
            kept: Generations::new(kept),
            buffer: Vec::new(),
        }
    }

    /// Look where an object is. A loose or large one is then open, until the next is.
    pub(crate) fn find(&mut self, shared: &Shared, id: &oid, kind: Kind) -> Result<Option<Found>, Error> {
        for path in shared.stores.loose_paths(id) {
            if let Some((actual, size)) = self.pieces.open(id, &path)? {
                same_kind(id, kind, actual)?;
                return Ok(Some(Found::Loose { size }));
            }
        }
        let header = self.handle.try_header(id);
        match header.map_err(|error| Error::unreadable(id, error))? {
            Some(header) => {
                same_kind(id, kind, header.kind)?;
                if header.size >= HELD_FROM as u64
                    && let Some((pack, offset)) = self.whole_entry(shared, id)
                {
                    self.pieces.open_packed(id, pack, offset, header.size)?;
                    return Ok(Some(Found::Whole { size: header.size }));
                }
                Ok(Some(Found::Packed { size: header.size }))
            }
            None => Ok((id == id.kind().empty_tree()).then_some(Found::EmptyTree)),
        }
    }

    /// In the packs that were there when the source was made, or in those that have come since.
    fn whole_entry(&mut self, shared: &Shared, id: &oid) -> Option<(Arc<data::File>, u64)> {
        let known = shared.stores.whole_entry(id);
        let later = || self.later.as_ref()?.whole_entry(id);
        known.or_else(later).or_else(|| {
            if shared.stores.locate(id, 0).is_some() {
                // A delta.
                return None;
            }
            self.later = Stores::open(&shared.store).ok();
            self.later.as_ref()?.whole_entry(id)
        })
    }

    /// The bytes of what was found just now.
    pub(crate) fn read(&mut self, found: Found, id: &oid, kind: Kind) -> Result<Rc<Vec<u8>>, Error> {
        let mut bytes = Vec::new();
        match found {
            Found::EmptyTree => {}
            Found::Loose { size } | Found::Whole { size } => {
                bytes.reserve_exact(usize::try_from(size).unwrap_or(usize::MAX).min(1 << 30));
                loop {
                    let (piece, last) = self.pieces.next()?;
                    bytes.extend_from_slice(piece);
                    if last {
                        break;
                    }
                }
            }
            Found::Packed { .. } => {
                let result = self.handle.try_find_cached(id, &mut self.buffer, &mut self.decoded);
                let (data, _) = result
                    .map_err(|error| Error::unreadable(id, error))?
                    .ok_or(Error::Missing {
                        id: id.to_owned(),
                        role: "object",
                    })?;
                same_kind(id, kind, data.kind)?;
                bytes = data.data.to_vec();
                if self.buffer.capacity() > HELD_FROM {
                    self.buffer = Vec::new();
                }
            }
        }
        Ok(Rc::new(bytes))
    }

    pub(crate) fn keep(&mut self, id: &oid, content: &Rc<Vec<u8>>) {
        let bytes = content.len() + OVERHEAD;
        self.kept.insert(id.to_owned(), content.clone(), bytes);
    }

    pub(crate) fn kept(&mut self, id: &oid) -> Option<Rc<Vec<u8>>> {
        self.kept.find(&id.to_owned()).cloned()
    }
}

pub(super) fn same_kind(id: &oid, expected: Kind, actual: Kind) -> Result<(), Error> {
    if expected == actual {
        return Ok(());
    }
    Err(Error::WrongKind {
        id: id.to_owned(),
        expected,
        actual,
    })
}

/// Leave to hold large objects, given back when dropped.
pub(super) struct Leave<'a> {
    window: &'a Window,
    bytes: usize,
}

impl<'a> Leave<'a> {
    pub(super) fn new(window: &'a Window) -> Self {
        Leave { window, bytes: 0 }
    }

    /// Wait until `found` may be held. Small objects always may.
    pub(super) fn ask(&mut self, found: Found, batch: usize, shared: &Shared) -> Result<(), Failure> {
        let size = usize::try_from(found.size()).unwrap_or(usize::MAX / 4);
        if size >= HELD_FROM {
            let bytes = match found {
                // The result and what it is made from.
                Found::Packed { .. } => size * 2,
                // And perhaps an index of it.
                _ => size + size / 2,
            };
            self.window.hold(batch, bytes, &shared.interrupt)?;
            self.bytes += bytes;
        }
        Ok(())
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if self.bytes != 0 {
            self.window.release(self.bytes);
        }
    }
}
