//! `--set-upstream`: remember which remote branch a local branch goes with.

use bstr::{BStr, BString, ByteSlice};
use gix::config::section::is_trusted;

use super::{Error, RefResult, local::LocalRefs};
use crate::remote::Remote;

/// A branch and what it is set up to track.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upstream {
    /// The local branch's short name.
    pub branch: BString,
    /// `branch.<branch>.remote`: the remote's name, or its URL.
    pub remote: BString,
    /// `branch.<branch>.merge`: the remote branch's full name.
    pub merge: BString,
}

impl Upstream {
    /// The remote branch's short name.
    pub fn merge_short(&self) -> &BStr {
        self.merge.strip_prefix(b"refs/heads/").unwrap_or(&self.merge).as_bstr()
    }
}

/// The branches among `results` that the remote now has.
pub(super) fn find(local: &LocalRefs<'_>, remote: &Remote, results: &[RefResult]) -> Result<Vec<Upstream>, Error> {
    let mut upstreams = Vec::new();
    for result in results
        .iter()
        .filter(|result| result.is_done() && !result.is_deletion())
    {
        let Some(name) = &result.local else { continue };
        let resolved = local.resolve(name.as_bstr())?;
        let name = match &resolved {
            Some(resolved) if resolved.symbolic && resolved.name.starts_with(b"refs/heads/") => &resolved.name,
            _ => name,
        };
        if let Some(branch) = name.strip_prefix(b"refs/heads/")
            && result.remote.starts_with(b"refs/heads/")
        {
            upstreams.push(Upstream {
                branch: branch.into(),
                remote: remote.label().to_owned(),
                merge: result.remote.clone(),
            });
        }
    }
    Ok(upstreams)
}

/// Write `upstreams` to the repository's own configuration file, under its lock.
pub(super) fn record(repo: &gix::Repository, upstreams: &[Upstream]) -> Result<(), Error> {
    if upstreams.is_empty() {
        return Ok(());
    }
    let failed = || Error::repository("recording the upstream branch");
    let rebase = repo
        .config_snapshot()
        .plumbing()
        .string_filter("branch.autoSetupRebase", is_trusted)
        .is_some_and(|when| when == "always" || when == "remote");
    let mut file = repo
        .config_file_mut(repo.common_dir().join("config"))
        .map_err(failed())?;
    for upstream in upstreams {
        let branch = Some(upstream.branch.as_bstr());
        if let Ok(mut merges) = file.raw_values_mut_by("branch", branch, "merge") {
            merges.delete_all();
        }
        let mut set = |key: &str, value: &BStr| file.set_raw_value_by("branch", branch, key, value).map(drop);
        set("remote", upstream.remote.as_bstr()).map_err(failed())?;
        set("merge", upstream.merge.as_bstr()).map_err(failed())?;
        if rebase {
            set("rebase", "true".into()).map_err(failed())?;
        }
    }
    file.commit().map_err(failed())
}
