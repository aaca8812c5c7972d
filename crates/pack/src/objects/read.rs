//! Reading objects for enumeration: strictly where an object is to be sent, leniently where it only tells what the remote has.

use std::{path::PathBuf, rc::Rc, sync::Arc};

use gix_hash::{ObjectId, oid};
use gix_object::{FindHeader, Kind};
use gix_odb::{Store, store};
use gix_pack::Find;

use super::cache::{DecodeCache, Generations};
use crate::{
    Error,
    stream::{Content, Pieces},
};

/// What a reader keeps in memory, in bytes: of trees, which are read twice in a row, as the new side of one commit and the old side
/// of its child, a third, and of what packed deltas are made against two thirds.
pub(super) const USUAL_CACHE: usize = 3 * 1024 * 1024;
/// The same where there are several readers.
pub(super) const SMALL_CACHE: usize = 1536 * 1024;
/// What a tree in the cache costs beyond its bytes.
const OVERHEAD: usize = 96;

pub(crate) struct ObjectReader {
    /// Looks again for new packs when an object seems missing: a repack may be running.
    strict: store::Handle<Arc<Store>>,
    /// Doesn't: most of a large remote's tips are absent here, and each would list the pack directory anew.
    lenient: store::Handle<Arc<Store>>,
    decoded: DecodeCache,
    trees: Generations<ObjectId, Rc<[u8]>>,
    buffer: Vec<u8>,
    loose: Loose,
    /// The last object was loose: probably the next is, too, and opening its file at once spares looking in the packs.
    last_was_loose: bool,
}

/// Reads loose objects without looking in the packs first.
struct Loose {
    pieces: Pieces,
    directories: Vec<PathBuf>,
    /// Of the last one.
    content: Vec<u8>,
}

impl Loose {
    /// Read `id`, if it lies loose. Where anything is wrong with it, gix finds the words.
    fn read(&mut self, id: &oid) -> Option<Kind> {
        let hex = id.to_hex().to_string();
        let (fan, rest) = hex.split_at(2);
        let (kind, size) = self.directories.iter().find_map(|directory| {
            let path = directory.join(fan).join(rest);
            self.pieces.open(id, &path).ok().flatten()
        })?;
        self.content.clear();
        self.content.try_reserve(usize::try_from(size).ok()?).ok()?;
        loop {
            let (piece, last) = self.pieces.next().ok()?;
            self.content.extend_from_slice(piece);
            if last {
                return Some(kind);
            }
        }
    }
}

/// A handle that sees objects as they are: `refs/replace` must not leak into a pack.
pub(crate) fn plain_handle(store: &Arc<Store>) -> store::Handle<Arc<Store>> {
    let mut handle = store.to_handle_arc();
    handle.ignore_replacements = true;
    handle
}

impl ObjectReader {
    pub(crate) fn new(store: &Arc<Store>, cache: usize) -> Self {
        let mut lenient = plain_handle(store);
        lenient.refresh_never();
        let alternates = store.alternate_db_paths().unwrap_or_default();
        ObjectReader {
            strict: plain_handle(store),
            lenient,
            decoded: DecodeCache::new(cache / 3 * 2),
            trees: Generations::new(cache / 3),
            buffer: Vec::new(),
            loose: Loose {
                pieces: Pieces::new(store.object_hash()),
                directories: std::iter::once(store.path().to_owned()).chain(alternates).collect(),
                content: Vec::new(),
            },
            last_was_loose: false,
        }
    }

    /// The type of an object the remote names, `None` if it isn't here or can't be read.
    pub(crate) fn kind_if_present(&self, id: &oid) -> Option<Kind> {
        self.lenient.try_header(id).ok().flatten().map(|header| header.kind)
    }

    /// The type of an object that is to be sent.
    pub(crate) fn kind(&self, id: &oid, role: &'static str) -> Result<Kind, Error> {
        match self.strict.try_header(id) {
            Ok(Some(header)) => Ok(header.kind),
            Ok(None) => Err(Error::Missing {
                id: id.to_owned(),
                role,
            }),
            Err(error) => Err(Error::unreadable(id, error)),
        }
    }

    /// The bytes of an object that is to be sent.
    pub(crate) fn read(&mut self, id: &oid, expected: Kind, role: &'static str) -> Result<&[u8], Error> {
        if self.last_was_loose {
            match self.loose.read(id) {
                Some(kind) if kind == expected => return Ok(&self.loose.content),
                _ => self.last_was_loose = false,
            }
        }
        match self.strict.try_find_cached(id, &mut self.buffer, &mut self.decoded) {
            Ok(Some((data, None))) if data.kind == expected => {
                // gix doesn't look at the checksum of a loose object's zlib stream.
                self.last_was_loose = true;
                match self.loose.read(id) {
                    Some(kind) if kind == expected => Ok(&self.loose.content),
                    _ => Err(Error::corrupt(id, "its loose file can't be inflated")),
                }
            }
            Ok(Some((data, Some(_)))) if data.kind == expected => {
                self.last_was_loose = false;
                Ok(data.data)
            }
            Ok(Some((data, _))) => Err(Error::WrongKind {
                id: id.to_owned(),
                expected,
                actual: data.kind,
            }),
            Ok(None) => Err(Error::Missing {
                id: id.to_owned(),
                role,
            }),
            Err(error) => Err(Error::unreadable(id, error)),
        }
    }

    /// The bytes of an object that only tells what the remote has: where it can't be read, more is sent than needed.
    pub(crate) fn read_if_present(&mut self, id: &oid, expected: Kind) -> Option<&[u8]> {
        if self.last_was_loose && self.loose.read(id) == Some(expected) {
            return Some(&self.loose.content);
        }
        let (data, location) = self
            .lenient
            .try_find_cached(id, &mut self.buffer, &mut self.decoded)
            .inspect_err(|error| tracing::debug!(%id, %error, "an object of the remote's can't be read here"))
            .ok()
            .flatten()?;
        self.last_was_loose = location.is_none();
        if self.last_was_loose {
            // As above. What is damaged tells nothing.
            return (self.loose.read(id)? == expected).then_some(&self.loose.content);
        }
        (data.kind == expected).then_some(data.data)
    }

    pub(crate) fn tree(&mut self, id: &oid) -> Result<Rc<[u8]>, Error> {
        if let Some(tree) = self.known_tree(id) {
            return Ok(tree);
        }
        let data: Rc<[u8]> = self.read(id, Kind::Tree, "tree")?.into();
        self.trees.insert(id.to_owned(), data.clone(), data.len() + OVERHEAD);
        Ok(data)
    }

    pub(crate) fn tree_if_present(&mut self, id: &oid) -> Option<Rc<[u8]>> {
        if let Some(tree) = self.known_tree(id) {
            return Some(tree);
        }
        let data: Rc<[u8]> = self.read_if_present(id, Kind::Tree)?.into();
        self.trees.insert(id.to_owned(), data.clone(), data.len() + OVERHEAD);
        Some(data)
    }

    fn known_tree(&mut self, id: &oid) -> Option<Rc<[u8]>> {
        if id == id.kind().empty_tree() {
            // Git takes the empty tree as existing everywhere, stored or not; as such it has no entries to look at.
            return Some(Rc::from(&[][..]));
        }
        self.trees.find(&id.to_owned()).cloned()
    }
}

/// The object an annotated tag points at, from its `object` line (git-mktag(1)).
pub(crate) fn tag_target(id: &oid, tag: &[u8]) -> Result<ObjectId, Error> {
    header_id(tag, b"object ")
        .filter(|(target, _)| target.kind() == id.kind())
        .map(|(target, _)| target)
        .ok_or_else(|| Error::corrupt(id, "it has no `object` line, which a tag begins with"))
}

/// The id on a header line that begins with `name`, and what follows that line.
pub(crate) fn header_id<'a>(data: &'a [u8], name: &[u8]) -> Option<(ObjectId, &'a [u8])> {
    let data = data.strip_prefix(name)?;
    let end = data.iter().position(|&byte| byte == b'\n')?;
    let id = ObjectId::from_hex(data.get(..end)?).ok()?;
    Some((id, data.get(end + 1..)?))
}
