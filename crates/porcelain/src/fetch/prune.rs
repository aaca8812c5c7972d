//! Pruning: refs here that a refspec would store, and whose source the remote no longer has (git-fetch, "PRUNING").
//!
//! It comes before refs are moved: a ref that is gone may stand in the way of a new one below its name.

use std::collections::HashSet;

use bstr::{BStr, BString, ByteSlice};
use gix::{
    protocol::handshake::Ref,
    refs::{
        FullName, Target,
        transaction::{PreviousValue, RefEdit},
    },
};

use super::{
    local::LocalRefs,
    outcome::{FetchedRef, Flag},
};
use crate::{
    Error,
    push::{commit, refspec::Refspec, refspec::substitute},
};

/// Delete what is stale, and say so; with `dry_run`, say so only.
pub(super) fn prune(
    repo: &gix::Repository,
    local: &mut LocalRefs,
    specs: &[Refspec],
    refs: &[Ref],
    dry_run: bool,
) -> Result<Vec<FetchedRef>, Error> {
    let there: HashSet<&BStr> = refs.iter().map(|listed| listed.unpack().0).collect();
    let stale: Vec<(BString, gix::ObjectId)> = local
        .0
        .iter()
        .filter_map(|(name, target)| match target {
            // refs/remotes/<name>/HEAD is a symbolic ref of ours, not a copy of theirs.
            Target::Symbolic(_) => None,
            Target::Object(id) => is_stale(specs, &there, name.as_bstr()).then(|| (name.clone(), *id)),
        })
        .collect();
    let mut report = Vec::new();
    let mut edits = Vec::new();
    for (name, id) in stale {
        let full =
            FullName::try_from(name.clone()).map_err(|_| Error::git("pruning", format!("invalid ref name {name}")))?;
        edits.push(RefEdit::delete(
            full,
            PreviousValue::MustExistAndMatch(Target::Object(id)),
        ));
        let dangling = local
            .0
            .iter()
            .filter(|(_, target)| target.try_name().is_some_and(|to| to.as_bstr() == name))
            .map(|(name, _)| name.clone())
            .collect();
        local.0.remove(&name);
        report.push(FetchedRef {
            flag: Flag::Pruned,
            remote: None,
            local: Some(name),
            old: Some(id),
            new: None,
            reason: None,
            failure: None,
            dangling,
        });
    }
    if dry_run || edits.is_empty() || commit(repo, edits.clone()).is_ok() {
        return Ok(report);
    }
    for (edit, line) in edits.into_iter().zip(&mut report) {
        if let (Err(err), Some(name), Some(id)) = (commit(repo, [edit]), &line.local, line.old) {
            let causes: Vec<String> = err.iter_errors().map(ToString::to_string).collect();
            line.failure = Some(format!("could not delete {name}: {}", causes.join(": ")));
            local.0.insert(name.clone(), Target::Object(id));
        }
    }
    Ok(report)
}

/// git's `get_stale_heads_cb`: some refspec stores into `name`, and nothing that it could have come from is there. What a negative
/// refspec leaves out is left alone.
fn is_stale(specs: &[Refspec], there: &HashSet<&BStr>, name: &BStr) -> bool {
    let mut sources = specs.iter().filter(|spec| !spec.negative).filter_map(|spec| {
        let to = spec.dst.as_ref().filter(|to| !to.is_empty())?;
        if spec.pattern {
            substitute(to.as_bstr(), name, spec.src.as_bstr())
        } else {
            (to == name).then(|| spec.src.clone())
        }
    });
    let mut any = false;
    let none_left = sources.all(|source| {
        any = true;
        !there.contains(source.as_bstr()) && !specs.iter().any(|spec| spec.excludes(source.as_bstr()))
    });
    any && none_left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::refspec::Side;

    #[test]
    fn what_nothing_there_stands_behind_is_stale() {
        let specs: Vec<Refspec> = ["+refs/heads/*:refs/remotes/o/*", "^refs/heads/mine/*"]
            .iter()
            .map(|spec| Refspec::parse((*spec).into(), Side::Fetch).unwrap())
            .collect();
        let there: HashSet<&BStr> = [BStr::new("refs/heads/a")].into();
        let stale = |name: &str| is_stale(&specs, &there, name.into());
        assert!(stale("refs/remotes/o/b"));
        assert!(!stale("refs/remotes/o/a"));
        assert!(!stale("refs/remotes/other/b"), "no refspec stores there");
        assert!(!stale("refs/remotes/o/mine/x"), "left out by a negative refspec");
    }
}
