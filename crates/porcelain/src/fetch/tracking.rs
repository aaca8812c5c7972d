//! Opportunistic updates: a ref fetched by a refspec given on the command line also moves its configured tracking ref
//! (git-fetch, "CONFIGURED REMOTE-TRACKING BRANCHES").

use bstr::ByteSlice;
use gix::{
    refs::{
        Target,
        transaction::{PreviousValue, RefEdit},
    },
    remote::fetch::RefMap,
};

use super::outcome::{FetchOutcome, FetchedRef, Flag, current};
use crate::Error;

pub(super) fn update(
    repo: &gix::Repository,
    configured: &[gix::refspec::RefSpec],
    map: &RefMap,
    outcome: &mut FetchOutcome,
) -> Result<(), Error> {
    if configured.is_empty() {
        return Ok(());
    }
    let group = gix::refspec::MatchGroup::from_fetch_specs(configured.iter().map(gix::refspec::RefSpec::to_ref));
    let mut edits = Vec::new();
    let mut lines = Vec::new();
    for mapping in &map.mappings {
        // Tags that were merely followed have a refspec of gix's own.
        if mapping.spec_index.implicit_index().is_some() {
            continue;
        }
        let (Some(name), Some(id)) = (mapping.remote.as_name(), mapping.remote.as_id()) else {
            continue;
        };
        let item = gix::refspec::match_group::Item {
            full_ref_name: name,
            target: id,
            object: None,
        };
        for matched in group.clone().match_lhs(std::iter::once(item)).mappings {
            let Some(local) = matched.rhs.map(std::borrow::Cow::into_owned) else {
                continue;
            };
            if mapping.local.as_ref() == Some(&local) {
                continue;
            }
            let old = current(repo, local.as_bstr());
            let forced = configured
                .get(matched.spec_index)
                .is_some_and(|spec| spec.allow_non_fast_forward());
            let fast_forward = match old {
                Some(old) if old != id => Some(
                    repo.merge_base(old, id.to_owned())
                        .is_ok_and(|base| base.is_some_and(|base| base == old)),
                ),
                _ => None,
            };
            let (flag, reason) = match (old, fast_forward) {
                (Some(old), _) if old == id => (Flag::UpToDate, None),
                (None, _) => (Flag::New, None),
                (_, Some(true)) => (Flag::FastForward, None),
                _ if forced => (Flag::Forced, None),
                _ => (Flag::Rejected, Some("non-fast-forward".to_owned())),
            };
            if !matches!(flag, Flag::UpToDate | Flag::Rejected) {
                let what = match flag {
                    Flag::New => "fetch: storing head",
                    Flag::FastForward => "fetch: fast-forward",
                    _ => "fetch: forced-update",
                };
                edits.push(RefEdit::update(
                    gix::refs::FullName::try_from(local.clone())
                        .map_err(|_| Error::git("moving a tracking ref", format!("invalid ref name {local}")))?,
                    Target::Object(id.to_owned()),
                    old.map_or(PreviousValue::MustNotExist, |old| {
                        PreviousValue::MustExistAndMatch(Target::Object(old))
                    }),
                    what,
                ));
            }
            lines.push(FetchedRef {
                flag,
                remote: Some(name.to_owned()),
                local: Some(local),
                old,
                new: Some(id.to_owned()),
                reason,
            });
        }
    }
    if !edits.is_empty() {
        repo.edit_references(edits)
            .map_err(|source| Error::git("moving tracking refs", source))?;
    }
    outcome.refs.append(&mut lines);
    Ok(())
}
