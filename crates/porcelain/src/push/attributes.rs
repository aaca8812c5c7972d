//! For which paths the attribute `delta` is unset (gitattributes(5)): their objects are neither made deltas nor used as bases.
//!
//! Attributes come from where git's `pack-objects` takes them: `.gitattributes` in the working tree, nested ones too, as they are now
//! and whatever commit is pushed; not from the index; from the tree that `attr.tree` names instead; and from `info/attributes` and
//! the user's and the system's files. Few repositories say anything about `delta`, so files are first looked at for the mere word;
//! rules are matched only where it occurs.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use bstr::{BStr, BString, ByteSlice};
use gix::{
    attrs::{StateRef, search::Outcome},
    worktree::{Stack, stack::state::attributes::Source},
};

use super::Error;

/// The attribute, which is also what files are looked at for: macros that unset it name it too.
const DELTA: &str = "delta";

pub(super) struct DeltaAttribute {
    /// Where directories may have rules of their own.
    worktree: Option<PathBuf>,
    /// There are rules, or macros, that may hold for any path.
    everywhere: bool,
    state: Mutex<State>,
}

struct State {
    stack: Stack,
    outcome: Outcome,
    objects: gix::OdbHandle,
    /// Directories by whether they, or those above them, have rules.
    directories: HashMap<BString, bool>,
}

impl DeltaAttribute {
    /// `None` if there are no rules for any path.
    pub(super) fn new(repo: &gix::Repository) -> Result<Option<Self>, Error> {
        let failed = || Error::repository("reading attributes");
        // A name of nothing counts as none.
        let tree = repo.config_snapshot().string("attr.tree");
        let tree = tree.and_then(|name| tree_of(&repo.rev_parse_single(name.as_bstr()).ok()?));
        let worktree = repo.workdir().filter(|_| tree.is_none() && !repo.is_bare());
        let files = repo.attribute_global_paths().map_err(failed())?.into_iter();
        let everywhere = tree.is_some()
            || files
                .chain([repo.common_dir().join("info").join("attributes")])
                .chain(worktree.map(|worktree| worktree.join(".gitattributes")))
                .any(|file| mentions(&file));
        if !everywhere && worktree.is_none() {
            return Ok(None);
        }
        let index = match tree {
            Some(id) => repo.index_from_tree(&id).map_err(failed())?.into(),
            None => gix::index::State::new(repo.object_hash()),
        };
        let source = match worktree {
            Some(_) => Source::WorktreeThenIdMapping,
            None => Source::IdMapping,
        };
        let stack = repo.attributes_only(&index, source).map_err(failed())?.detach();
        Ok(Some(DeltaAttribute {
            worktree: worktree.map(Path::to_owned),
            everywhere,
            state: Mutex::new(State {
                outcome: stack.selected_attribute_matches([DELTA]),
                stack,
                objects: repo.objects.clone(),
                directories: HashMap::new(),
            }),
        }))
    }

    /// Whether it is unset for `path`, which is relative to the root of the working tree. Where that can't be found out it is not.
    pub(super) fn is_unset(&self, path: &[u8]) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let directory = path.rfind_byte(b'/').map_or(&b""[..], |at| &path[..at]);
        if !self.everywhere && !state.has_rules(self.worktree.as_deref(), directory.as_bstr()) {
            return false;
        }
        let Ok(platform) = state.stack.at_entry(path.as_bstr(), None, &state.objects) else {
            return false;
        };
        state.outcome.reset();
        platform.matching_attributes(&mut state.outcome);
        let is_unset = |found: gix::attrs::search::Match<'_>| found.assignment.state == StateRef::Unset;
        state.outcome.iter_selected().any(is_unset)
    }
}

impl State {
    fn has_rules(&mut self, worktree: Option<&Path>, directory: &BStr) -> bool {
        if let Some(&known) = self.directories.get(directory) {
            return known;
        }
        let Some(worktree) = worktree else { return false };
        let mut has_rules = false;
        for end in directory.find_iter("/") {
            has_rules = self.directory_has_rules(worktree, directory[..end].as_bstr(), has_rules);
        }
        self.directory_has_rules(worktree, directory, has_rules)
    }

    fn directory_has_rules(&mut self, worktree: &Path, directory: &BStr, above: bool) -> bool {
        if let Some(&known) = self.directories.get(directory) {
            return known;
        }
        let has_rules = above
            || !directory.is_empty()
                && gix::path::from_bstr(directory)
                    .is_ok_and(|directory| mentions(&worktree.join(directory).join(".gitattributes")));
        self.directories.insert(directory.to_owned(), has_rules);
        has_rules
    }
}

fn tree_of(id: &gix::Id<'_>) -> Option<gix::ObjectId> {
    Some(id.object().ok()?.peel_to_tree().ok()?.id)
}

fn mentions(file: &Path) -> bool {
    std::fs::read(file).is_ok_and(|content| content.contains_str(DELTA))
}
