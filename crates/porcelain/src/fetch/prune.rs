//! Pruning: refs here that a refspec would store, and whose source the remote no longer has (git-fetch, "PRUNING").

use std::collections::HashSet;

use bstr::{BStr, BString, ByteSlice};
use gix::{
    refs::transaction::{Change, PreviousValue, RefEdit, RefLog},
    remote::fetch::RefMap,
};

use super::outcome::{FetchOutcome, FetchedRef, Flag};
use crate::Error;

pub(super) fn prune(
    repo: &gix::Repository,
    specs: &[gix::refspec::RefSpec],
    map: &RefMap,
    dry_run: bool,
    outcome: &mut FetchOutcome,
) -> Result<(), Error> {
    let kept: HashSet<&BStr> = map
        .mappings
        .iter()
        .filter_map(|mapping| mapping.local.as_ref().map(|n| n.as_bstr()))
        .collect();
    let mut gone = Vec::new();
    for destination in specs
        .iter()
        .filter_map(|spec| spec.to_ref().destination().map(ToOwned::to_owned))
    {
        let Some(star) = destination.find_byte(b'*') else {
            continue;
        };
        let (prefix, suffix) = (&destination[..star], &destination[star + 1..]);
        let all = repo.references().map_err(|source| Error::git("listing refs", source))?;
        let refs = all.all().map_err(|source| Error::git("listing refs", source))?;
        for reference in refs {
            let reference = reference.map_err(|source| Error::git("reading a ref", source))?;
            let name = reference.name().as_bstr();
            let matches =
                name.len() >= prefix.len() + suffix.len() && name.starts_with(prefix) && name.ends_with(suffix);
            // refs/remotes/<name>/HEAD is a symbolic ref of ours, not a copy of theirs.
            if matches && !kept.contains(name) && reference.try_id().is_some() {
                gone.push((BString::from(name), reference.try_id().map(gix::Id::detach)));
            }
        }
    }
    gone.sort();
    gone.dedup();
    if !dry_run && !gone.is_empty() {
        let edits = gone.iter().map(|(name, id)| {
            Ok(RefEdit {
                change: Change::Delete {
                    expected: id.map_or(PreviousValue::MustExist, |id| {
                        PreviousValue::MustExistAndMatch(gix::refs::Target::Object(id))
                    }),
                    log: RefLog::AndReference,
                },
                name: name
                    .as_bstr()
                    .try_into()
                    .map_err(|_| Error::git("pruning", format!("invalid ref name {name}")))?,
                deref: false,
            })
        });
        let edits = edits.collect::<Result<Vec<_>, Error>>()?;
        repo.edit_references(edits)
            .map_err(|source| Error::git("deleting pruned refs", source))?;
    }
    let pruned = gone.into_iter().map(|(name, old)| FetchedRef {
        flag: Flag::Pruned,
        remote: None,
        local: Some(name),
        old,
        new: None,
        reason: None,
    });
    outcome.refs.splice(0..0, pruned);
    Ok(())
}
