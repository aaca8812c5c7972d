//! The first fetch of a clone: nothing is here, so that nothing is negotiated, all stays one pack, and all refs are new and packed.

use std::{
    collections::{BTreeMap, HashSet},
    sync::atomic::{AtomicBool, Ordering},
};

use bstr::{BString, ByteSlice};
use gix::{
    ObjectId,
    lock::acquire::Fail,
    objs::Exists,
    progress::NestedProgress,
    protocol::{Handshake, handshake::Ref},
    refs::{
        FullName, Target,
        file::transaction::PackedRefs,
        transaction::{PreviousValue, RefEdit},
    },
    remote::fetch::Tags,
};

use super::{Depth, PackStatistics, list, receive, specs::Specs, wanted, wanted::Wanted};
use crate::{Error, bridge::Bridge};

/// A remote that has told its refs.
pub(crate) struct First<'a> {
    repo: &'a gix::Repository,
    bridge: &'a mut Bridge,
    handshake: Handshake,
    specs: Specs,
    tags: Tags,
    /// What `HEAD` is there comes along, whether a ref here leads to it or not.
    with_head: bool,
    pub(crate) refs: Vec<Ref>,
}

impl<'a> First<'a> {
    /// Ask for the refs that `specs`, `tags` and `with_head` call for.
    pub(crate) fn list<P: NestedProgress>(
        repo: &'a gix::Repository,
        bridge: &'a mut Bridge,
        specs: &[BString],
        tags: Tags,
        with_head: bool,
        progress: &mut P,
    ) -> Result<Self, Error> {
        let specs = Specs::choose(specs, &[], &super::Options::default())?;
        let prefixes = specs.prefixes(&[], tags).map(|mut prefixes| {
            prefixes.push("HEAD".into());
            prefixes
        });
        let (handshake, refs) = list(repo, bridge, prefixes, progress)?;
        Ok(First {
            repo,
            bridge,
            handshake,
            specs,
            tags,
            with_head,
            refs,
        })
    }

    /// Get the objects, and write the refs once they are known to be all there.
    pub(crate) fn receive<P>(
        self,
        depth: &Depth,
        progress: P,
        interrupt: &AtomicBool,
    ) -> Result<Option<PackStatistics>, Error>
    where
        P: NestedProgress,
        P::SubProgress: 'static,
    {
        let mut wanted = self.specs.select(&self.refs)?;
        if self.tags == Tags::All {
            wanted.extend(wanted::all_tags(&self.refs, false));
        }
        // Names that no ref may have are left out, as git does.
        wanted::without_duplicates(&mut wanted)?;
        let mut ids: Vec<ObjectId> = wanted.iter().map(|entry| entry.id).collect();
        if self.with_head {
            let head = self.refs.iter().map(Ref::unpack).find(|(name, ..)| *name == "HEAD");
            ids.extend(head.and_then(|(_, id, _)| id.map(ToOwned::to_owned)));
        }
        ids.sort();
        ids.dedup();
        let failure = self.bridge.failure();
        let mut receiver = receive::Receiver {
            repo: self.repo,
            bridge: self.bridge,
            failure,
            handshake: self.handshake,
            shallow: depth.to_gix()?,
            complete: Vec::new(),
            kept: receive::Kept::default(),
            unpack_limit: 0,
        };
        let pack = receiver.receive_all(&ids, self.tags, progress, interrupt)?;
        if self.tags == Tags::Included {
            // Those whose objects the server sent along.
            let have = self.repo.objects.clone();
            let mut tags = wanted::followed_tags(&self.refs, &BTreeMap::new(), &HashSet::new(), |id| have.exists(id));
            tags.retain(|tag| have.exists(&tag.id));
            wanted::drop_those_in(&wanted, &mut tags);
            wanted.append(&mut tags);
        }
        if interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        write_packed(self.repo, &wanted)?;
        Ok(pack)
    }
}

/// Write all into `packed-refs`, without reflogs, as git's first refs come without.
fn write_packed(repo: &gix::Repository, wanted: &[Wanted]) -> Result<(), Error> {
    let doing = "writing the refs";
    let edits: Vec<RefEdit> = wanted
        .iter()
        .filter_map(|entry| Some((entry.local.as_ref()?, entry.id)))
        .map(|(name, id)| {
            let full = FullName::try_from(name.as_bstr())
                .map_err(|_| Error::git(doing, format!("invalid ref name '{name}'")))?;
            Ok(RefEdit::update(
                full,
                Target::Object(id),
                PreviousValue::MustNotExist,
                BString::default(),
            ))
        })
        .collect::<Result<_, Error>>()?;
    let failed = |source: gix::Error| Error::git(doing, source);
    let mut refs = repo.refs.clone();
    refs.write_reflog = gix::refs::store::WriteReflog::Disable;
    refs.transaction()
        .packed_refs(PackedRefs::DeletionsAndNonSymbolicUpdatesRemoveLooseSourceReference(
            Box::new(&repo.objects),
        ))
        .prepare(edits, Fail::Immediately, Fail::Immediately)
        .map_err(failed)?
        .commit(None)
        .map_err(failed)?;
    Ok(())
}
