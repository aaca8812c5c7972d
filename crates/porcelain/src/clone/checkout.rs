//! The working tree of a fresh clone.

use std::sync::atomic::{AtomicBool, Ordering};

use bstr::BString;

use crate::Error;

type Failures = (Vec<(BString, String)>, Vec<BString>);

/// Write `HEAD`'s tree and the index. Returns what could not be written and what collided.
pub(super) fn main_worktree(repo: &gix::Repository, interrupt: &AtomicBool) -> Result<Failures, Error> {
    let doing = "checking out files";
    let Some(workdir) = repo.workdir() else {
        return Ok(Failures::default());
    };
    let tree = repo
        .head()
        .and_then(|mut head| head.peel_to_commit())
        .and_then(|commit| commit.tree_id())
        .map_err(|source| Error::git(doing, source))?;
    let mut index = repo
        .index_from_tree(&tree)
        .map_err(|source| Error::git(doing, source))?;
    let mut options = repo
        .checkout_options(gix::worktree::stack::state::attributes::Source::IdMapping)
        .map_err(|source| Error::git(doing, source))?;
    options.destination_is_initially_empty = true;
    options.keep_going = true;
    // git sets the bit whether or not it trusts it later (core.fileMode).
    options.fs.executable_bit = cfg!(unix);
    let objects = repo
        .objects
        .clone()
        .into_arc()
        .map_err(|source| Error::git(doing, source))?;
    let discard = gix::progress::Discard;
    let outcome = gix::worktree::state::checkout(&mut index, workdir, objects, &discard, &discard, interrupt, options)
        .map_err(|source| Error::git(doing, source))?;
    if interrupt.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    index
        .write(Default::default())
        .map_err(|source| Error::git("writing the index", source))?;
    let errors = outcome
        .errors
        .into_iter()
        .map(|failed| (failed.path, failed.error.to_string()))
        .collect();
    let collisions = outcome.collisions.into_iter().map(|collision| collision.path).collect();
    Ok((errors, collisions))
}
