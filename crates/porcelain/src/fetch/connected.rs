//! Whether everything is here that a ref would lead to: a ref must never be moved to history with holes.
//!
//! gix takes an object that exists as complete. It need not be: a server can leave objects out of a pack, and a broken transfer or
//! a repair may have left some without their history.

use std::{path::Path, sync::atomic::AtomicBool};

use gix::{ObjectId, objs::Exists, objs::Kind};
use rgit_pack::ObjectSet;

/// Why it isn't so.
#[derive(Debug)]
pub(super) enum Gap {
    /// This isn't here.
    Missing(String),
    /// The walk couldn't be made.
    Unknown(rgit_pack::Error),
}

/// Walk from `tips` down to what `complete` leads to, and look every object up on the way.
///
/// The walk stops at the shallow boundary, and what `complete` leads to is taken for granted, as git does.
pub(super) fn check(
    repo: &gix::Repository,
    tips: &[ObjectId],
    complete: &[ObjectId],
    interrupt: &AtomicBool,
) -> Result<(), Gap> {
    if is_partial(repo) {
        return Ok(());
    }
    let shallow = shallow(repo);
    let odb = repo.objects.clone().into_inner();
    let objects =
        ObjectSet::find(&odb, tips, complete, &shallow, &Default::default(), interrupt).map_err(|err| match err {
            rgit_pack::Error::Missing { id, role } => Gap::Missing(format!("{role} {id}")),
            other => Gap::Unknown(other),
        })?;
    // Commits, trees and tags were read; of blobs only the name is known so far.
    match objects
        .iter()
        .find(|entry| entry.kind == Kind::Blob && !odb.exists(entry.id))
    {
        None => Ok(()),
        Some(entry) => Err(Gap::Missing(format!("blob {}", entry.id))),
    }
}

/// As [`check`], where one pack holds all.
pub(super) fn check_pack(
    repo: &gix::Repository,
    index: &Path,
    tips: &[ObjectId],
    interrupt: &AtomicBool,
) -> Result<(), Gap> {
    let mut tips = tips.to_vec();
    tips.sort();
    tips.dedup();
    Ok(rgit_pack::check_links(
        index,
        repo.object_hash(),
        &tips,
        &shallow(repo),
        interrupt,
    )?)
}

impl From<rgit_pack::Error> for Gap {
    fn from(err: rgit_pack::Error) -> Self {
        match err {
            rgit_pack::Error::Missing { id, role } => Gap::Missing(format!("{role} {id}")),
            other => Gap::Unknown(other),
        }
    }
}

fn shallow(repo: &gix::Repository) -> Vec<ObjectId> {
    repo.shallow_commits()
        .ok()
        .flatten()
        .iter()
        .flat_map(|commits| commits.iter().copied())
        .collect()
}

/// A partial clone lacks objects by design: its remote has promised them (git-config, "extensions.partialClone").
fn is_partial(repo: &gix::Repository) -> bool {
    repo.config_snapshot().string("extensions.partialClone").is_some()
}
