//! Getting the objects: negotiation by gix's parts, a pack into the object database, and the proof that nothing is missing.
//!
//! gix's own `receive()` moves refs in the same breath, before anybody could look at what came. Here refs are moved later, by
//! `update`, once `connected` found no holes. A pack that leaves some is taken away again, as gix takes any
//! object that exists as one that need not be fetched.

use std::{
    collections::HashSet,
    fs,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use gix::{
    ObjectId, error as gix_error,
    negotiate::{Graph, Negotiator},
    objs::Exists,
    progress::NestedProgress,
    protocol::{
        Handshake,
        fetch::{self, Arguments, Response, negotiate, refmap},
    },
    remote::fetch::{RefMap, Shallow, Tags},
};

use rgit_pack::index::{self, Indexed};

use super::{
    connected::{self, Gap},
    loosen,
};
use crate::{
    Error,
    bridge::{Bridge, Failure},
    config::Fsync,
    fetch::PackStatistics,
};

/// A repository that speaks to one remote.
pub(super) struct Receiver<'a> {
    pub(super) repo: &'a gix::Repository,
    pub(super) bridge: &'a mut Bridge,
    pub(super) failure: Failure,
    pub(super) handshake: Handshake,
    pub(super) shallow: Shallow,
    /// What refs here hold: complete, and nothing to ask for.
    pub(super) complete: Vec<ObjectId>,
    /// `.keep` files of what arrived. They guard it from `git gc` until refs lead to it.
    pub(super) kept: Kept,
    /// Packs with fewer objects become loose objects.
    pub(super) unpack_limit: u32,
}

/// Files to remove in the end.
#[derive(Default)]
pub(super) struct Kept(Vec<PathBuf>);

impl Drop for Kept {
    fn drop(&mut self) {
        for path in &self.0 {
            // What stays is a pack that `git gc` passes over: nothing is lost.
            let _ = fs::remove_file(path);
        }
    }
}

impl Receiver<'_> {
    /// Get `wanted` and everything it leads to; `None` when all is here. `tags` asks for tags on the way.
    pub(super) fn receive<P>(
        &mut self,
        wanted: &[ObjectId],
        tags: Tags,
        progress: P,
        interrupt: &AtomicBool,
    ) -> Result<Option<PackStatistics>, Error>
    where
        P: NestedProgress,
        P::SubProgress: 'static,
    {
        let known = self.known(wanted, interrupt);
        if self.shallow == Shallow::NoChange && wanted.iter().all(|id| known.contains(id)) {
            return Ok(None);
        }
        let shallow_before = ShallowFile::read(self.repo)?;
        let fsync = Fsync::read(self.repo.config_snapshot().plumbing());
        let indexed = self.ask(wanted, &known, tags, fsync, progress, interrupt)?;
        if let Some(keep) = indexed.as_ref().and_then(|indexed| indexed.keep.as_ref()) {
            self.kept.0.push(keep.clone());
        }
        // A deeper history lies below what refs here hold, so these don't stand for it.
        let complete = if self.shallow == Shallow::NoChange {
            self.complete.as_slice()
        } else {
            &[]
        };
        if let Err(gap) = connected::check(self.repo, wanted, complete, interrupt) {
            shallow_before.restore();
            if let Some(indexed) = indexed {
                discard(&indexed);
            }
            return Err(incomplete(gap));
        }
        let Some(indexed) = indexed else { return Ok(None) };
        // A pack that was here before is somebody else's.
        if indexed.received < self.unpack_limit && indexed.keep.is_some() {
            let unpacked = loosen::loosen(self.repo, &indexed, fsync.loose_object, interrupt)?;
            if unpacked {
                discard(&indexed);
            } else {
                loosen::sync(&indexed, fsync)?;
            }
        }
        Ok(Some(PackStatistics::new(indexed.received + indexed.added)))
    }

    /// As [`receive`](Self::receive), into a repository that has nothing. What comes stays a pack.
    pub(super) fn receive_all<P>(
        &mut self,
        wanted: &[ObjectId],
        tags: Tags,
        progress: P,
        interrupt: &AtomicBool,
    ) -> Result<Option<PackStatistics>, Error>
    where
        P: NestedProgress,
        P::SubProgress: 'static,
    {
        let fsync = Fsync::read(self.repo.config_snapshot().plumbing());
        let Some(indexed) = self.ask(wanted, &HashSet::new(), tags, fsync, progress, interrupt)? else {
            return Ok(None);
        };
        self.kept.0.extend(indexed.keep.clone());
        connected::check_pack(self.repo, &indexed.index, wanted, interrupt).map_err(incomplete)?;
        Ok(Some(PackStatistics::new(indexed.received)))
    }

    /// The repository as it is now, without looks at what comes later.
    fn quiet(&self) -> gix::Repository {
        let mut repo = self.repo.clone();
        repo.objects.refresh_never();
        repo.objects.unset_object_cache();
        repo
    }

    /// Those of `wanted` that are here with all they lead to.
    fn known(&self, wanted: &[ObjectId], interrupt: &AtomicBool) -> HashSet<ObjectId> {
        let mut objects = self.repo.objects.clone();
        // Most are not here, and each would list the pack directory anew.
        objects.refresh_never();
        let mut known: HashSet<ObjectId> = wanted.iter().filter(|id| objects.exists(id)).copied().collect();
        let unproven: Vec<ObjectId> = known
            .iter()
            .filter(|id| self.complete.binary_search(id).is_err())
            .copied()
            .collect();
        if !unproven.is_empty() && connected::check(self.repo, &unproven, &self.complete, interrupt).is_err() {
            known.retain(|id| self.complete.binary_search(id).is_ok());
        }
        known
    }

    fn ask<P>(
        &mut self,
        wanted: &[ObjectId],
        known: &HashSet<ObjectId>,
        tags: Tags,
        fsync: Fsync,
        progress: P,
        interrupt: &AtomicBool,
    ) -> Result<Option<Indexed>, Error>
    where
        P: NestedProgress,
        P::SubProgress: 'static,
    {
        let repo = self.repo;
        let doing = "negotiating with the server";
        let failed = |source: gix::Error| Error::git(doing, source);
        let ref_map = RefMap {
            mappings: wanted
                .iter()
                .map(|id| refmap::Mapping {
                    remote: refmap::Source::ObjectId(*id),
                    local: None,
                    spec_index: refmap::SpecIndex::ExplicitInRemote(0),
                })
                .collect(),
            object_hash: repo.object_hash(),
            ..RefMap::default()
        };
        let quiet = self.quiet();
        let commit_graph = quiet.commit_graph_if_enabled().ok().flatten();
        let mut graph = quiet.revision_graph(commit_graph.as_ref());
        let mut negotiation = Negotiation {
            repo: &quiet,
            graph: &mut graph,
            negotiator: algorithm(repo)?.into_negotiator(),
            known: wanted.iter().map(|id| known.contains(id)).collect(),
            ref_map: &ref_map,
            shallow: &self.shallow,
        };
        let options = index::Options::new(repo.object_hash())
            .threads(threads(repo))
            // What is unpacked need not be on the disk before.
            .sync(index::Sync::new(fsync.pack, fsync.pack_metadata))
            .unsynced_below(self.unpack_limit);
        let can_include_tags = self.handshake.server_protocol_version == gix::protocol::transport::Protocol::V2
            || self.handshake.capabilities.contains("include-tag");
        let shallow_file = repo.shallow_file().map_err(failed)?;
        let mut indexed = None;
        let mut failed = None;
        let result = gix::protocol::fetch(
            &mut negotiation,
            |reader, progress, interrupt| {
                let result = index::index_pack(
                    reader,
                    &repo.objects.store_ref().path().join("pack"),
                    repo.objects.clone().into_inner(),
                    &options,
                    progress,
                    interrupt,
                );
                match result {
                    Ok(received) => {
                        indexed = received;
                        Ok(true)
                    }
                    Err(err) => {
                        let said = err.to_string();
                        failed = Some(err);
                        Err(gix_error::message!("{said}").into())
                    }
                }
            },
            progress,
            interrupt,
            fetch::Context {
                handshake: &mut self.handshake,
                transport: &mut *self.bridge,
                user_agent: crate::ls_remote::agent(),
                trace_packetlines: false,
            },
            fetch::Options {
                shallow_file,
                shallow: &self.shallow,
                tags: if can_include_tags { tags } else { Tags::None },
                reject_shallow_remote: false,
            },
        );
        match result {
            Ok(_) => {
                if let Some(indexed) = &indexed {
                    share(repo, indexed);
                }
                Ok(indexed)
            }
            Err(source) => {
                if let Some(indexed) = indexed {
                    discard(&indexed);
                }
                Err(match (self.failure.take(), failed) {
                    _ if interrupt.load(Ordering::Relaxed) => Error::Interrupted,
                    (Some(err), _) => Error::Session(err),
                    (None, Some(err)) => Error::git("receiving objects", err),
                    (None, None) => Error::git("receiving objects", source),
                })
            }
        }
    }
}

/// A server's failure, unless it was ours to look.
pub(super) fn incomplete(gap: Gap) -> Error {
    match gap {
        Gap::Missing(missing) => Error::Incomplete { missing },
        Gap::Unknown(rgit_pack::Error::Interrupted) => Error::Interrupted,
        Gap::Unknown(source) => Error::git("checking what was received", source),
    }
}

/// Let others read a new pack as far as they may read the repository's configuration: it was born as a temporary file that only its
/// owner can read. Packs are read-only, as git's.
fn share(repo: &gix::Repository, indexed: &Indexed) {
    #[cfg(unix)]
    if let Ok(ordinary) = fs::metadata(repo.common_dir().join("config")) {
        use std::os::unix::fs::PermissionsExt;
        let mode = ordinary.permissions().mode() & 0o444;
        for path in files(indexed) {
            // Where that can't be, the owner can still use it.
            let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode));
        }
    }
    #[cfg(not(unix))]
    let _ = (repo, indexed);
}

/// A pack with its indices, the one first that makes the others visible.
pub(super) fn files(indexed: &Indexed) -> [PathBuf; 3] {
    [
        indexed.index.clone(),
        indexed.index.with_extension("rev"),
        indexed.pack.clone(),
    ]
}

/// Take a pack away again. One that was here before has no `.keep` file, and stays.
fn discard(indexed: &Indexed) {
    if let Some(keep) = &indexed.keep {
        for path in files(indexed).iter().chain([keep]) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The shallow boundary, to put it back.
struct ShallowFile {
    path: PathBuf,
    content: Option<Vec<u8>>,
}

impl ShallowFile {
    fn read(repo: &gix::Repository) -> Result<Self, Error> {
        let path = repo
            .shallow_file()
            .map_err(|source| Error::git("finding the shallow boundary", source))?;
        let content = fs::read(&path).ok();
        Ok(ShallowFile { path, content })
    }

    fn restore(self) {
        let _ = match self.content {
            Some(content) => fs::write(&self.path, content),
            None => fs::remove_file(&self.path),
        };
    }
}

/// `fetch.negotiationAlgorithm`.
fn algorithm(repo: &gix::Repository) -> Result<gix::remote::fetch::negotiate::Algorithm, Error> {
    use gix::remote::fetch::negotiate::Algorithm;
    let config = repo.config_snapshot();
    Ok(match config.string("fetch.negotiationAlgorithm") {
        None => Algorithm::Consecutive,
        Some(name) if name == "consecutive" || name == "default" => Algorithm::Consecutive,
        Some(name) if name == "skipping" => Algorithm::Skipping,
        Some(name) if name == "noop" => Algorithm::Noop,
        Some(name) => {
            return Err(Error::Usage(format!("unknown fetch negotiation algorithm '{name}'")));
        }
    })
}

/// `pack.threads`: as many as there are cores where it is 0 or not set.
fn threads(repo: &gix::Repository) -> Option<usize> {
    repo.config_snapshot()
        .integer("pack.threads")
        .and_then(|threads| usize::try_from(threads).ok())
        .filter(|threads| *threads > 0)
}

/// `fetch.unpackLimit`, else `transfer.unpackLimit`, else 100; 0 unpacks whatever comes (git-config(1); the last by git's conduct).
pub(super) fn unpack_limit(repo: &gix::Repository) -> u32 {
    let config = repo.config_snapshot();
    let limit = ["fetch.unpackLimit", "transfer.unpackLimit"]
        .iter()
        .find_map(|key| config.integer(*key).filter(|limit| *limit >= 0));
    match limit {
        None => 100,
        Some(0) => u32::MAX,
        Some(limit) => u32::try_from(limit).unwrap_or(u32::MAX),
    }
}

/// gix's negotiation over a list of ids.
struct Negotiation<'a, 'find, 'cache> {
    repo: &'a gix::Repository,
    graph: &'a mut Graph<'find, 'cache>,
    negotiator: Box<dyn Negotiator>,
    known: Vec<bool>,
    ref_map: &'a RefMap,
    shallow: &'a Shallow,
}

impl fetch::Negotiate for Negotiation<'_, '_, '_> {
    fn mark_complete_and_common_ref(&mut self) -> gix_error::Result<negotiate::Action> {
        let alternates = self.repo.objects.store_ref().alternate_db_paths()?;
        let action = negotiate::mark_complete_and_common_ref(
            &self.repo.objects,
            &self.repo.refs,
            // What the refs of alternates hold is here too.
            || {
                let repositories = alternates
                    .iter()
                    .filter_map(|objects| gix::open_opts(objects.parent()?, self.repo.open_options().clone()).ok());
                Ok(repositories.map(|repo| (repo.refs, repo.objects)))
            },
            &mut *self.negotiator,
            self.graph,
            self.ref_map,
            self.shallow,
            |_| false,
        )?;
        Ok(match action {
            negotiate::Action::NoChange => action,
            // Whether all is here was decided before: it exists, but there are holes.
            _ => negotiate::Action::MustNegotiate {
                remote_ref_target_known: self.known.clone(),
            },
        })
    }

    fn add_wants(&mut self, arguments: &mut Arguments, known: &[bool]) -> bool {
        negotiate::add_wants(&self.repo.objects, arguments, self.ref_map, known, self.shallow, |_| {
            false
        })
    }

    fn one_round(
        &mut self,
        state: &mut negotiate::one_round::State,
        arguments: &mut Arguments,
        previous: Option<&Response>,
    ) -> gix_error::Result<(negotiate::Round, bool)> {
        negotiate::one_round(&mut *self.negotiator, self.graph, state, arguments, previous)
    }
}
