use std::sync::{Arc, atomic::AtomicBool};

use gix_hash::ObjectId;
use gix_object::Kind;
use gix_odb::Store;
use hashbrown::HashSet;
use prodash::progress::AtomicStep;

use super::{
    boundary, commits,
    read::{ObjectReader, USUAL_CACHE, tag_target},
    set::ObjectSet,
    trees::{Comparison, DeltaUnset},
};
use crate::{Error, error::check};

/// Longer chains of tags that point at tags are not followed on the remote's side.
const TAG_DEPTH: usize = 64;

#[derive(Default)]
struct Tips {
    commits: Vec<ObjectId>,
    trees: Vec<ObjectId>,
    blobs: Vec<ObjectId>,
    tags: Vec<ObjectId>,
}

impl ObjectSet {
    /// Everything reachable from `wanted` and not from `remote`.
    ///
    /// * `wanted`: what refs shall point at: commits, annotated tags (also of tags, trees, blobs), trees, blobs.
    /// * `remote`: what the remote's refs point at, and its `.have` lines. Those that are not here are ignored, so all may be passed.
    /// * `shallow`: the commits of a shallow clone whose parents are not here (the content of `$GIT_DIR/shallow`).
    /// * `counting`: goes up by one for each object found; `prodash::Count::counter()` has one.
    ///
    /// The result holds at most what git would send for the same tips. It is complete given that the remote has everything its
    /// tips reach, which is what git demands of a repository. An object that is needed but absent or unreadable here is an error
    /// that names it; blobs are looked up by [`PackSource::new`](crate::PackSource::new) only.
    pub fn find(
        odb: &gix_odb::Handle,
        wanted: &[ObjectId],
        remote: &[ObjectId],
        shallow: &[ObjectId],
        counting: &AtomicStep,
        interrupt: &AtomicBool,
    ) -> Result<ObjectSet, Error> {
        Self::find_with_attributes(odb, wanted, remote, shallow, counting, interrupt, None)
    }

    /// The same, asking `delta_unset` once for the path of each tree and blob whether the attribute `delta` is unset for it; see
    /// [`Entry::delta_unset`](crate::Entry::delta_unset). The path is relative to the root of the commit's tree; an object that is
    /// there under several paths is asked for with the first one met.
    pub fn find_with_attributes(
        odb: &gix_odb::Handle,
        wanted: &[ObjectId],
        remote: &[ObjectId],
        shallow: &[ObjectId],
        counting: &AtomicStep,
        interrupt: &AtomicBool,
        delta_unset: Option<&DeltaUnset<'_>>,
    ) -> Result<ObjectSet, Error> {
        let store = odb.store();
        let mut set = ObjectSet::new(store.object_hash());
        let remote_tips: HashSet<ObjectId> = remote.iter().copied().collect();
        if wanted.iter().all(|id| remote_tips.contains(id)) {
            return Ok(set);
        }
        let shallow: HashSet<ObjectId> = shallow.iter().copied().collect();
        // A commit-graph tells of parents that a shallow clone must not look at.
        let graph = if shallow.is_empty() { commit_graph(&store) } else { None };
        let mut reader = ObjectReader::new(&store, USUAL_CACHE);

        let mut hidden = Tips::default();
        for id in remote {
            check(interrupt)?;
            if graph.as_ref().is_some_and(|graph| graph.lookup(id).is_some()) {
                hidden.commits.push(*id);
            } else {
                peel_remote(&mut reader, *id, &mut hidden);
            }
        }
        for id in [&hidden.tags, &hidden.trees, &hidden.blobs].into_iter().flatten() {
            set.note_remote(id)?;
        }
        let mut tips = Tips::default();
        for id in wanted {
            check(interrupt)?;
            peel_wanted(&mut reader, &set, *id, &mut tips)?;
        }

        let mut ahead = None;
        let mut sources = commits::Sources {
            reader: &mut reader,
            graph: graph.as_ref(),
            shallow: &shallow,
            ahead: &mut ahead,
            store: &store,
            names: delta_unset.is_some(),
        };
        let commits = commits::walk(&mut sources, &tips.commits, &hidden.commits, interrupt)?;

        let mut comparison = Comparison::new(&mut reader, &mut set, counting, interrupt);
        comparison.delta_unset = delta_unset;
        comparison.ahead = ahead;
        for id in &tips.tags {
            comparison.send(id, Kind::Tag, 0, None)?;
        }
        let mut to_offer = commits.to_offer();
        for commit in commits.iter() {
            if let Some(ahead) = &mut comparison.ahead {
                ahead.fill(&mut to_offer);
                ahead.begin(commit.number);
            }
            comparison.send(commit.id, Kind::Commit, 0, None)?;
            comparison.add(commit.tree, commit.parent_trees())?;
        }
        comparison.ahead = None;
        for id in &tips.trees {
            comparison.add(id, hidden.trees.iter().map(|tree| (&**tree, true)))?;
        }
        for id in &tips.blobs {
            comparison.send(id, Kind::Blob, 0, None)?;
        }

        let mut roots: Vec<ObjectId> = commits
            .iter()
            .flat_map(|commit| commit.parent_trees())
            .filter(|(_, on_remote)| *on_remote)
            .map(|(tree, _)| tree.to_owned())
            .collect();
        roots.extend(commits.vain_trees(&tips.commits).map(ToOwned::to_owned));
        roots.extend(&hidden.trees);
        if !tips.trees.is_empty() || !tips.blobs.is_empty() {
            // No commit of ours leads to a boundary here, but the content may be a part of what the remote's tips hold.
            roots.extend(hidden.commits.iter().filter_map(|id| commit_tree(&mut reader, id)));
        }
        boundary::search(&mut reader, &mut set, roots, interrupt)?;
        let set = set.finish();
        tracing::debug!(
            objects = set.len(),
            wanted = wanted.len(),
            remote = remote.len(),
            "objects to send"
        );
        Ok(set)
    }
}

/// The commit-graph next to the main object directory. A broken one is as good as none.
fn commit_graph(store: &Arc<Store>) -> Option<gix_commitgraph::Graph> {
    let info = store.path().join("info");
    if !info.join("commit-graph").is_file() && !info.join("commit-graphs").is_dir() {
        return None;
    }
    gix_commitgraph::Graph::from_info_dir(&info, store.object_hash())
        .inspect_err(|error| tracing::warn!(%error, "the commit-graph is not used"))
        .ok()
}

fn peel_remote(reader: &mut ObjectReader, mut id: ObjectId, tips: &mut Tips) {
    for _ in 0..TAG_DEPTH {
        match reader.kind_if_present(&id) {
            None => return,
            Some(Kind::Commit) => return tips.commits.push(id),
            Some(Kind::Tree) => return tips.trees.push(id),
            Some(Kind::Blob) => return tips.blobs.push(id),
            Some(Kind::Tag) => {
                tips.tags.push(id);
                let target = reader
                    .read_if_present(&id, Kind::Tag)
                    .and_then(|tag| tag_target(&id, tag).ok());
                match target {
                    Some(target) => id = target,
                    None => return,
                }
            }
        }
    }
}

fn peel_wanted(reader: &mut ObjectReader, set: &ObjectSet, mut id: ObjectId, tips: &mut Tips) -> Result<(), Error> {
    // Ids are hashes of content, so a chain can't come back to where it was.
    while !set.settled(&id) {
        match reader.kind(&id, "ref target")? {
            Kind::Commit => tips.commits.push(id),
            Kind::Tree => tips.trees.push(id),
            Kind::Blob => tips.blobs.push(id),
            Kind::Tag => {
                tips.tags.push(id);
                id = tag_target(&id, reader.read(&id, Kind::Tag, "tag")?)?;
                continue;
            }
        }
        break;
    }
    Ok(())
}

fn commit_tree(reader: &mut ObjectReader, id: &ObjectId) -> Option<ObjectId> {
    let data = reader.read_if_present(id, Kind::Commit)?;
    super::read::header_id(data, b"tree ").map(|(tree, _)| tree)
}
