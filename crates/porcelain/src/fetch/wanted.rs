//! One line of a fetch's plan: a ref of the remote, and where it goes. Also the tags that come along.

use std::collections::{BTreeMap, HashMap, HashSet};

use bstr::{BStr, BString, ByteSlice};
use gix::{ObjectId, protocol::handshake::Ref};

use super::specs::find;
use crate::{
    Error,
    push::refspec::{Refspec, substitute},
};

/// What a line of `FETCH_HEAD` says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForMerge {
    /// `git merge FETCH_HEAD` takes it.
    Yes,
    /// It is there for information.
    No,
    /// It isn't there.
    Absent,
}

/// A ref of the remote, or an object by its name, that is fetched.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Its full name there; `None` for an object.
    pub(super) remote: Option<BString>,
    /// What it points to.
    pub(super) id: ObjectId,
    /// The ref here that is to hold it.
    pub(super) local: Option<BString>,
    /// It may replace what isn't its ancestor.
    pub(super) force: bool,
    pub(super) for_merge: ForMerge,
}

/// Mark what `branch.<name>.merge` says as for merge, and fetch it even where no refspec does (git's `add_merge_config`).
pub(super) fn add_merges(wanted: &mut Vec<Wanted>, merges: &[BString], refs: &[Ref]) {
    let names: HashMap<&BStr, &Ref> = refs.iter().map(|listed| (listed.unpack().0, listed)).collect();
    for merge in merges {
        let Some((name, id)) = find(&names, merge.as_bstr()) else {
            continue;
        };
        match wanted
            .iter_mut()
            .find(|entry| entry.remote.as_ref().is_some_and(|remote| remote == name))
        {
            Some(entry) => entry.for_merge = ForMerge::Yes,
            None => wanted.push(Wanted {
                remote: Some(name.to_owned()),
                id,
                local: None,
                force: false,
                for_merge: ForMerge::Yes,
            }),
        }
    }
}

/// All tags (`--tags`).
pub(super) fn all_tags(refs: &[Ref], force: bool) -> impl Iterator<Item = Wanted> + '_ {
    refs.iter().filter_map(move |listed| {
        let (name, id, _) = listed.unpack();
        name.starts_with(b"refs/tags/")
            .then_some(())
            .and(id)
            .map(|id| tag(name, id.to_owned(), force))
    })
}

/// Tags that aren't here and whose object is, or is in `coming` (git's `find_non_local_tags`). `have` tells what is here.
pub(super) fn followed_tags(
    refs: &[Ref],
    existing: &BTreeMap<BString, gix::refs::Target>,
    coming: &HashSet<ObjectId>,
    have: impl Fn(&gix::oid) -> bool,
) -> Vec<Wanted> {
    let mut tags: Vec<Wanted> = refs
        .iter()
        .filter_map(|listed| {
            let (name, Some(id), peeled) = listed.unpack() else {
                return None;
            };
            let leads_here = |id: &gix::oid| coming.contains(id) || have(id);
            (name.starts_with(b"refs/tags/")
                && !existing.contains_key(name.as_bytes().as_bstr())
                && (peeled.is_some_and(leads_here) || leads_here(id)))
            .then(|| tag(name, id.to_owned(), false))
        })
        .collect();
    tags.sort_by(|a, b| a.remote.cmp(&b.remote));
    tags
}

/// Leave out `tags` that come anyway.
pub(super) fn drop_those_in(wanted: &[Wanted], tags: &mut Vec<Wanted>) {
    let there: HashSet<&Option<BString>> = wanted.iter().map(|entry| &entry.local).collect();
    tags.retain(|tag| !there.contains(&tag.local));
}

fn tag(name: &BStr, id: ObjectId, force: bool) -> Wanted {
    Wanted {
        remote: Some(name.to_owned()),
        id,
        local: Some(name.to_owned()),
        force,
        for_merge: ForMerge::No,
    }
}

/// Opportunistic updates: a ref fetched by a refspec given on the command line also moves its configured tracking ref
/// (git-fetch, "CONFIGURED REMOTE-TRACKING BRANCHES").
pub(super) fn tracking(explicit: &[Wanted], configured: &[Refspec]) -> Vec<Wanted> {
    let mut updates = Vec::new();
    for spec in configured.iter().filter(|spec| !spec.negative) {
        let Some(to) = spec.dst.as_ref().filter(|to| !to.is_empty()) else {
            continue;
        };
        for entry in explicit {
            let Some(name) = &entry.remote else { continue };
            let local = if spec.pattern {
                substitute(spec.src.as_bstr(), name.as_bstr(), to.as_bstr())
            } else {
                (spec.src == *name).then(|| to.clone())
            };
            let excluded = || configured.iter().any(|spec| spec.excludes(name.as_bstr()));
            if let Some(local) = local.filter(|_| !excluded()) {
                updates.push(Wanted {
                    local: Some(local),
                    force: spec.force,
                    for_merge: ForMerge::Absent,
                    ..entry.clone()
                });
            }
        }
    }
    updates
}

/// Each ref here once: what would be written twice from one ref is dropped, and from two is an error. Names that can't be refs here
/// are left out and returned.
pub(super) fn without_duplicates(wanted: &mut Vec<Wanted>) -> Result<Vec<BString>, Error> {
    let mut sources: HashMap<BString, Option<BString>> = HashMap::new();
    let mut funny = Vec::new();
    let mut conflict = None;
    wanted.retain(|entry| {
        let Some(local) = &entry.local else { return true };
        if !local.starts_with(b"refs/") || gix::validate::reference::name(local.as_bstr()).is_err() {
            funny.push(local.clone());
            return false;
        }
        match sources.get(local) {
            None => {
                sources.insert(local.clone(), entry.remote.clone());
                true
            }
            Some(remote) if *remote == entry.remote => false,
            Some(remote) => {
                let shown = |name: &Option<BString>| name.clone().unwrap_or_else(|| "an object".into());
                conflict = Some(format!(
                    "Cannot fetch both {} and {} to {local}",
                    shown(remote),
                    shown(&entry.remote)
                ));
                false
            }
        }
    });
    match conflict {
        Some(conflict) => Err(Error::Usage(conflict)),
        None => Ok(funny),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(remote: &str, local: &str) -> Wanted {
        Wanted {
            remote: Some(remote.into()),
            id: ObjectId::null(gix::hash::Kind::Sha1),
            local: Some(local.into()),
            force: false,
            for_merge: ForMerge::No,
        }
    }

    #[test]
    fn a_destination_has_one_source() {
        let mut twice = vec![entry("refs/heads/a", "refs/x"), entry("refs/heads/a", "refs/x")];
        assert!(without_duplicates(&mut twice).unwrap().is_empty());
        assert_eq!(twice.len(), 1);
        let mut conflict = vec![entry("refs/heads/a", "refs/x"), entry("refs/heads/b", "refs/x")];
        assert_eq!(
            without_duplicates(&mut conflict).unwrap_err().to_string(),
            "Cannot fetch both refs/heads/a and refs/heads/b to refs/x"
        );
    }

    #[test]
    fn names_that_lead_elsewhere_are_left_out() {
        let mut hostile = vec![
            entry("refs/heads/../../x", "refs/remotes/o/../../x"),
            entry("refs/heads/a", "HEAD"),
            entry("refs/heads/b", "refs/remotes/o/b"),
        ];
        assert_eq!(without_duplicates(&mut hostile).unwrap().len(), 2);
        assert_eq!(hostile.len(), 1);
    }
}
