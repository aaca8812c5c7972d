//! Moving the remote-tracking refs of what the server accepted: the local memory of what is where.

use std::collections::BTreeMap;

use bstr::{BStr, BString, ByteSlice};
use gix::{
    ObjectId,
    error::ResultExt,
    refs::{
        FullName,
        transaction::{PreviousValue, RefEdit},
    },
};

use super::{RefResult, outcome::Tracked};
use crate::remote::Remote;

/// What was moved, and what could not be.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub(super) tracked: Vec<Tracked>,
    pub(super) failed: Vec<(BString, gix::Error)>,
}

/// Move the tracking refs of `results` in one transaction. Should that fail, each is tried by itself, so that one lock held by
/// somebody else doesn't leave all of them behind.
pub(super) fn update(repo: &gix::Repository, remote: &Remote, results: &[RefResult]) -> Moved {
    let mut moved = Moved::default();
    // A name once, or the transaction is refused; the last word counts.
    let mut wanted: BTreeMap<BString, ObjectId> = BTreeMap::new();
    for result in results.iter().filter(|result| result.is_done()) {
        let own = [(result.remote.as_bstr(), result.new)];
        let rewritten = result.rewrites.iter().map(|rewrite| {
            let name = rewrite
                .name
                .as_ref()
                .map_or(result.remote.as_bstr(), |name| name.as_bstr());
            (name, rewrite.new.unwrap_or(result.new))
        });
        let own = own.into_iter().filter(|_| result.rewrites.is_empty());
        for (name, new) in own.chain(rewritten) {
            if let Some(tracking) = remote.tracking_ref(name) {
                wanted.insert(tracking, new);
            }
        }
    }
    let mut edits = Vec::new();
    for (name, new) in wanted {
        match edit(repo, name.as_bstr(), new) {
            Ok(edit) => edits.extend(edit.map(|edit| (Tracked { name, new }, edit))),
            Err(err) => moved.failed.push((name, err)),
        }
    }
    if edits.is_empty() {
        return moved;
    }
    if commit(repo, edits.iter().map(|(_, edit)| edit.clone())).is_ok() {
        moved.tracked.extend(edits.into_iter().map(|(tracked, _)| tracked));
        return moved;
    }
    for (tracked, edit) in edits {
        match commit(repo, [edit]) {
            Ok(()) => moved.tracked.push(tracked),
            Err(err) => moved.failed.push((tracked.name, err)),
        }
    }
    moved
}

/// `None` where the ref already is as it should be.
fn edit(repo: &gix::Repository, name: &BStr, new: ObjectId) -> Result<Option<RefEdit>, gix::Error> {
    let full = FullName::try_from(name.to_owned()).or_error()?;
    let current = repo
        .try_find_reference(full.as_ref())?
        .filter(|found| found.name().as_bstr() == name);
    if new.is_null() {
        return Ok(current.map(|_| RefEdit::delete(full, PreviousValue::Any)));
    }
    if current.is_some_and(|found| found.try_id().is_some_and(|id| id == new)) {
        return Ok(None);
    }
    // A server that rewrites what was pushed may name objects that are only there.
    repo.find_header(new)?;
    Ok(Some(
        RefEdit::update(full, new, PreviousValue::Any, "update by push").with_deref(true),
    ))
}

/// Edit refs, all or none, under the configured name.
pub(crate) fn commit(repo: &gix::Repository, edits: impl IntoIterator<Item = RefEdit>) -> Result<(), gix::Error> {
    // Without a name configured a reflog still is worth having.
    let time = gix::date::Time::now_local_or_utc().to_string();
    let nobody = gix::actor::SignatureRef {
        name: "rgit".into(),
        email: "rgit@localhost".into(),
        time: &time,
    };
    let committer = repo.committer().and_then(Result::ok).unwrap_or(nobody);
    repo.edit_references_as(edits, Some(committer)).map(drop)
}
