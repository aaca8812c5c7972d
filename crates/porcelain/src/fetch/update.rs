//! Moving refs after a fetch: git's rules of what may replace what, its words in the reflog, and one ref's failure not being the
//! others'.

use bstr::{BStr, BString, ByteSlice};
use gix::{
    ObjectId,
    objs::Kind,
    refs::{
        FullName, Target,
        transaction::{PreviousValue, RefEdit},
    },
};

use super::{
    local::LocalRefs,
    outcome::{FetchedRef, Flag},
    wanted::{ForMerge, Wanted},
};
use crate::{Error, push::ancestry::Ancestry, push::commit};

/// Decide about each of `wanted` and move what may be moved, all in the order in which git tells of it. `action` begins the lines
/// in reflogs.
pub(super) fn update(
    repo: &gix::Repository,
    local: &mut LocalRefs,
    wanted: &[Wanted],
    action: &BStr,
    dry_run: bool,
) -> Result<Vec<FetchedRef>, Error> {
    let mut report = Vec::new();
    let mut edits: Vec<(usize, RefEdit)> = Vec::new();
    let ancestry = Ancestry::new(repo).map_err(|source| Error::git("reading the history", source))?;
    for entry in in_order(wanted) {
        let verdict = match &entry.local {
            None => Verdict::new(Flag::New, None),
            Some(name) => decide(repo, &ancestry, local, entry, name.as_bstr())?,
        };
        let mut line = FetchedRef {
            flag: verdict.flag,
            remote: entry.remote.clone(),
            local: entry.local.clone(),
            old: verdict.old,
            new: Some(entry.id),
            reason: verdict.reason.map(ToOwned::to_owned),
            failure: None,
            dangling: Vec::new(),
        };
        if let Some(name) = entry.local.as_ref().filter(|_| line.moves()) {
            let (name, _) = local.resolve(name.as_bstr());
            match local.in_the_way(name.as_bstr()) {
                Some(other) => {
                    line.failure = Some(format!(
                        "cannot lock ref '{name}': '{other}' exists; cannot create '{name}'"
                    ));
                }
                None => {
                    let previous = local.0.insert(name.clone(), Target::Object(entry.id));
                    edits.push((report.len(), edit(name, entry.id, previous, action, verdict.done)?));
                }
            }
        }
        report.push(line);
    }
    if dry_run || edits.is_empty() {
        return Ok(report);
    }
    if commit(repo, edits.iter().map(|(_, edit)| edit.clone())).is_err() {
        // One lock held by somebody else must not leave all behind.
        for (index, edit) in edits {
            if let Err(err) = commit(repo, [edit])
                && let Some(line) = report.get_mut(index)
            {
                let causes: Vec<String> = err.iter_errors().map(ToString::to_string).collect();
                line.failure = Some(causes.join(": "));
            }
        }
    }
    Ok(report)
}

/// Those for merge first, those that `FETCH_HEAD` doesn't have last.
pub(super) fn in_order(wanted: &[Wanted]) -> impl Iterator<Item = &Wanted> {
    [ForMerge::Yes, ForMerge::No, ForMerge::Absent]
        .into_iter()
        .flat_map(move |kind| wanted.iter().filter(move |entry| entry.for_merge == kind))
}

struct Verdict {
    flag: Flag,
    old: Option<ObjectId>,
    reason: Option<&'static str>,
    /// What the reflog says was done.
    done: &'static str,
}

impl Verdict {
    fn new(flag: Flag, old: Option<ObjectId>) -> Self {
        Verdict {
            flag,
            old,
            reason: None,
            done: "",
        }
    }
}

/// git's `update_local_ref`.
fn decide(
    repo: &gix::Repository,
    ancestry: &Ancestry<'_>,
    local: &LocalRefs,
    entry: &Wanted,
    name: &BStr,
) -> Result<Verdict, Error> {
    let (_, old) = local.resolve(name);
    let rejected = |reason| Verdict {
        reason: Some(reason),
        ..Verdict::new(Flag::Rejected, old)
    };
    let done = |flag, done| Verdict {
        done,
        ..Verdict::new(flag, old)
    };
    let Some(current) = old else {
        return Ok(new_ref(entry, None));
    };
    if current == entry.id {
        return Ok(Verdict::new(Flag::UpToDate, old));
    }
    if name.starts_with(b"refs/tags/") {
        return Ok(if entry.force {
            done(Flag::Tag, "updating tag")
        } else {
            rejected("would clobber existing tag")
        });
    }
    // Only commits have ancestors. Anything else is simply replaced.
    let (Some(before), Some(after)) = (peeled_commit(repo, current), peeled_commit(repo, entry.id)) else {
        return Ok(new_ref(entry, old));
    };
    let forward = ancestry
        .is_ancestor(before, after)
        .map_err(|source| Error::git("comparing histories", source))?;
    Ok(if forward {
        done(Flag::FastForward, "fast-forward")
    } else if entry.force {
        done(Flag::Forced, "forced-update")
    } else {
        rejected("non-fast-forward")
    })
}

fn new_ref(entry: &Wanted, old: Option<ObjectId>) -> Verdict {
    let done = match entry.remote.as_ref() {
        Some(name) if name.starts_with(b"refs/tags/") => "storing tag",
        Some(name) if name.starts_with(b"refs/heads/") => "storing head",
        _ => "storing ref",
    };
    Verdict {
        done,
        ..Verdict::new(Flag::New, old)
    }
}

/// The commit that `id` is, or leads to by way of tags.
pub(super) fn peeled_commit(repo: &gix::Repository, mut id: ObjectId) -> Option<ObjectId> {
    loop {
        // By the header, as a blob may be large.
        match repo.find_header(id).ok()?.kind() {
            Kind::Commit => return Some(id),
            Kind::Tag => {
                id = repo
                    .find_object(id)
                    .ok()?
                    .try_into_tag()
                    .ok()?
                    .target_id()
                    .ok()?
                    .detach()
            }
            Kind::Tree | Kind::Blob => return None,
        }
    }
}

fn edit(name: BString, new: ObjectId, previous: Option<Target>, action: &BStr, done: &str) -> Result<RefEdit, Error> {
    let full = FullName::try_from(name.clone())
        .map_err(|_| Error::git("moving a ref", format!("invalid ref name '{name}'")))?;
    let message = [action.as_bytes(), b": ", done.as_bytes()].concat();
    let expected = previous.map_or(PreviousValue::MustNotExist, PreviousValue::MustExistAndMatch);
    Ok(RefEdit::update(full, new, expected, message))
}
