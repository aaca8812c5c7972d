//! What is here before a fetch: refs with their values, and the branches that are checked out somewhere.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice};
use gix::{ObjectId, refs::Target};

use crate::Error;

/// All refs below `refs/`.
pub(super) struct LocalRefs(pub(super) BTreeMap<BString, Target>);

impl LocalRefs {
    pub(super) fn read(repo: &gix::Repository) -> Result<Self, Error> {
        let doing = "reading the refs";
        let platform = repo.references().map_err(|source| Error::git(doing, source))?;
        let mut refs = BTreeMap::new();
        for reference in platform.all().map_err(|source| Error::git(doing, source))? {
            let reference = reference.map_err(|source| Error::git(doing, source))?;
            refs.insert(reference.name().as_bstr().to_owned(), reference.target().into_owned());
        }
        Ok(LocalRefs(refs))
    }

    /// Where `name` leads by way of symbolic refs, and what is there.
    pub(super) fn resolve(&self, name: &BStr) -> (BString, Option<ObjectId>) {
        let mut name = name.to_owned();
        // As deep as git follows (`SYMREF_MAXDEPTH`).
        for _ in 0..5 {
            match self.0.get(&name) {
                None => break,
                Some(Target::Object(id)) => return (name, Some(*id)),
                Some(Target::Symbolic(next)) => name = next.as_bstr().to_owned(),
            }
        }
        (name, None)
    }

    /// All ids that refs hold.
    pub(super) fn ids(&self) -> Vec<ObjectId> {
        let mut ids: Vec<_> = self
            .0
            .values()
            .filter_map(|target| target.try_id().map(ToOwned::to_owned))
            .collect();
        ids.sort();
        ids.dedup();
        ids
    }

    /// The ref that keeps `name` from being made: one name can't be both a ref and the folder of others.
    pub(super) fn in_the_way(&self, name: &BStr) -> Option<BString> {
        let above = name
            .find_iter(b"/")
            .map(|slash| name[..slash].as_bstr())
            .find_map(|parent| self.0.get_key_value(parent).map(|(name, _)| name.clone()));
        above.or_else(|| {
            let folder = BString::from([name.as_bytes(), b"/"].concat());
            let (found, _) = self.0.range(folder.clone()..).next()?;
            found.starts_with(&folder).then(|| found.clone())
        })
    }
}

/// Branches that a working tree is on, or that a rebase or bisection there will come back to, with the working tree's path.
///
/// Moving such a ref would leave index and files behind, as if the user had undone what came (git's `branch_checked_out`).
pub(super) fn checked_out(repo: &gix::Repository) -> BTreeMap<BString, PathBuf> {
    let mut branches = BTreeMap::new();
    let Ok(worktrees) = repo.worktrees_including_main() else {
        return branches;
    };
    for worktree in worktrees.filter_map(Result::ok) {
        let Some(path) = worktree.workdir() else { continue };
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut add = |name: BString| {
            branches.entry(name).or_insert_with(|| path.clone());
        };
        if let Ok(Some(name)) = worktree.head_name() {
            add(name.as_bstr().to_owned());
        }
        let line = |file: &Path| {
            fs::read(worktree.git_dir().join(file))
                .ok()
                .map(|text| text.trim().to_owned())
        };
        for file in ["rebase-merge/head-name", "rebase-apply/head-name"] {
            if let Some(name) = line(Path::new(file)) {
                add(name.into());
            }
        }
        if let Some(name) = line(Path::new("BISECT_START")) {
            add([b"refs/heads/".as_slice(), &name].concat().into());
        }
    }
    branches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_ref_or_a_folder() {
        let id = Target::Object(ObjectId::null(gix::hash::Kind::Sha1));
        let refs = ["refs/r/a", "refs/r/b/c", "refs/r/b-d"].map(|name| (BString::from(name), id.clone()));
        let refs = LocalRefs(refs.into());
        let blocked = |name: &str| refs.in_the_way(name.into()).map(|name| name.to_string());
        assert_eq!(blocked("refs/r/a/x").as_deref(), Some("refs/r/a"));
        assert_eq!(blocked("refs/r/b").as_deref(), Some("refs/r/b/c"));
        assert_eq!(blocked("refs/r/b-"), None);
        assert_eq!(blocked("refs/r/c"), None);
    }
}
