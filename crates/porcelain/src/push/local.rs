//! The refs of this repository as a push sees them: by full name, on demand, and all at once only where a pattern asks for that.

use std::cell::OnceCell;

use bstr::{BStr, BString, ByteSlice};
use gix::{ObjectId, refs::TargetRef};

use super::Error;

/// A ref and the object it leads to, tags unpeeled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LocalRef {
    pub(super) name: BString,
    pub(super) id: ObjectId,
}

/// Where a name leads, by way of symbolic refs.
pub(super) struct Resolved {
    pub(super) name: BString,
    pub(super) symbolic: bool,
    pub(super) id: ObjectId,
}

pub(super) struct LocalRefs<'repo> {
    pub(super) repo: &'repo gix::Repository,
    all: OnceCell<Vec<LocalRef>>,
}

impl<'repo> LocalRefs<'repo> {
    pub(super) fn new(repo: &'repo gix::Repository) -> Self {
        LocalRefs {
            repo,
            all: OnceCell::new(),
        }
    }

    /// The ref of exactly this full name below `refs/`, unless it leads nowhere.
    pub(super) fn find(&self, name: &BStr) -> Result<Option<LocalRef>, Error> {
        if !name.starts_with(b"refs/") {
            return Ok(None);
        }
        let found = self.resolve(name)?;
        Ok(found.map(|found| LocalRef {
            name: name.to_owned(),
            id: found.id,
        }))
    }

    /// Follow the ref `name` (`HEAD` and its like included) to the last ref of its chain. `None` where it does not exist, leads
    /// nowhere, or is no ref's name.
    pub(super) fn resolve(&self, name: &BStr) -> Result<Option<Resolved>, Error> {
        // Git gives up at this depth too: a longer chain is a loop.
        const LONGEST_CHAIN: usize = 5;
        let mut name = name.to_owned();
        for hops in 0..=LONGEST_CHAIN {
            let Ok(full) = gix::refs::FullName::try_from(name.clone()) else {
                return Ok(None);
            };
            let found = self
                .repo
                .try_find_reference(full.as_ref())
                .map_err(Error::repository("reading a ref"))?;
            let Some(found) = found.filter(|found| found.name().as_bstr() == name) else {
                return Ok(None);
            };
            match found.target() {
                TargetRef::Object(id) => {
                    return Ok(Some(Resolved {
                        name,
                        symbolic: hops > 0,
                        id: id.to_owned(),
                    }));
                }
                TargetRef::Symbolic(next) => name = next.as_bstr().to_owned(),
            }
        }
        Ok(None)
    }

    /// Every ref below `refs/` that leads to an object, sorted by name.
    pub(super) fn all(&self) -> Result<&[LocalRef], Error> {
        if let Some(all) = self.all.get() {
            return Ok(all);
        }
        let platform = self.repo.references().map_err(Error::repository("listing refs"))?;
        let mut refs = Vec::new();
        let mut symbolic = Vec::new();
        for found in platform.all().map_err(Error::repository("listing refs"))? {
            // A broken ref must not keep the others from being pushed.
            let Ok(found) = found else { continue };
            match found.target() {
                TargetRef::Object(id) => refs.push(LocalRef {
                    name: found.name().as_bstr().to_owned(),
                    id: id.to_owned(),
                }),
                TargetRef::Symbolic(_) => symbolic.push(found.name().as_bstr().to_owned()),
            }
        }
        for name in symbolic {
            refs.extend(self.find(name.as_bstr())?);
        }
        refs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(self.all.get_or_init(|| refs))
    }

    /// The commit that `id` is or, as a tag, leads to.
    pub(super) fn commit(&self, id: ObjectId) -> Result<Option<ObjectId>, Error> {
        let failed = || Error::repository("looking an object up");
        let mut id = id;
        loop {
            match self
                .repo
                .try_find_header(id)
                .map_err(failed())?
                .map(|header| header.kind())
            {
                Some(gix::objs::Kind::Commit) => return Ok(Some(id)),
                Some(gix::objs::Kind::Tag) => {
                    let tag = self.repo.find_tag(id).map_err(failed())?;
                    id = tag.target_id().map_err(failed())?.detach();
                }
                _ => return Ok(None),
            }
        }
    }

    /// What kind of object `id` is, or `None` where it isn't here.
    pub(super) fn kind(&self, id: ObjectId) -> Result<Option<gix::objs::Kind>, Error> {
        let header = self.repo.try_find_header(id);
        Ok(header
            .map_err(Error::repository("looking an object up"))?
            .map(|header| header.kind()))
    }
}
