//! `--follow-tags`: annotated tags that the remote lacks and whose commits it will have.

use std::collections::{HashMap, HashSet};

use bstr::{BString, ByteSlice};
use gix::{ObjectId, objs::Kind};

use super::{
    Error,
    ancestry::Ancestry,
    local::LocalRefs,
    matching::{Peer, Slots},
};

/// Add the tags to `slots`.
pub(super) fn follow(slots: &mut Slots, local: &LocalRefs<'_>, ancestry: &Ancestry<'_>) -> Result<(), Error> {
    let mut by_commit: HashMap<ObjectId, Vec<(BString, ObjectId)>> = HashMap::new();
    for found in local.all()? {
        let missing = found.name.starts_with(b"refs/tags/") && !slots.contains(found.name.as_bstr());
        // A lightweight tag is private until someone says otherwise.
        if missing
            && local.kind(found.id)? == Some(Kind::Tag)
            && let Some(commit) = local.commit(found.id)?
        {
            by_commit
                .entry(commit)
                .or_default()
                .push((found.name.clone(), found.id));
        }
    }
    if by_commit.is_empty() {
        return Ok(());
    }
    let mut tips = Vec::new();
    for slot in &slots.list {
        // What is deleted still tells what they have.
        let tip = match &slot.peer {
            Some(peer) if !peer.id.is_null() => peer.id,
            _ => slot.old,
        };
        tips.extend(local.commit(tip)?);
    }
    let commits: HashSet<ObjectId> = by_commit.keys().copied().collect();
    let reached = ancestry.reachable(tips, &commits)?;
    let mut followed: Vec<_> = by_commit
        .into_iter()
        .filter(|(commit, _)| reached.contains(commit))
        .flat_map(|(_, tags)| tags)
        .collect();
    followed.sort();
    for (name, id) in followed {
        slots.link_new(name.clone(), Peer { name, id });
    }
    Ok(())
}
