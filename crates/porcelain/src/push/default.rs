//! What to push when nothing says so: `push.default` (git-config(1)).

use bstr::{BStr, BString, ByteSlice};
use gix::config::section::is_trusted;

use super::{Error, refspec::Refspec};
use crate::remote::{Remote, current_branch, only_remote_or_origin};

/// The values of `push.default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PushDefault {
    Unset,
    Nothing,
    Current,
    Upstream,
    Simple,
    Matching,
}

impl PushDefault {
    pub(super) fn read(config: &gix::config::File) -> Result<PushDefault, Error> {
        let Some(value) = config.string_filter("push.default", is_trusted) else {
            return Ok(PushDefault::Unset);
        };
        Ok(match value.as_slice() {
            b"nothing" => PushDefault::Nothing,
            b"current" => PushDefault::Current,
            b"upstream" | b"tracking" => PushDefault::Upstream,
            b"simple" => PushDefault::Simple,
            b"matching" => PushDefault::Matching,
            _ => {
                return Err(Error::NoDefault(format!(
                    "malformed value for push.default: {value}\n\
                     must be one of nothing, matching, simple, upstream or current"
                )));
            }
        })
    }
}

/// The refspec to push, and whether to record it as the branch's upstream.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) spec: Refspec,
    pub(super) set_upstream: bool,
}

/// `branch.<branch>.merge`, as full names.
pub(super) fn merges(config: &gix::config::File, branch: &BStr) -> Vec<BString> {
    config
        .strings_filter_by("branch", Some(branch), "merge", is_trusted)
        .unwrap_or_default()
}

pub(super) fn refspec(repo: &gix::Repository, remote: &Remote, auto_upstream: bool) -> Result<Chosen, Error> {
    let snapshot = repo.config_snapshot();
    let config = snapshot.plumbing();
    let default = PushDefault::read(config)?;
    match default {
        PushDefault::Matching => {
            return Ok(Chosen {
                spec: Refspec::matching_branches(),
                set_upstream: false,
            });
        }
        PushDefault::Nothing => {
            return Err(Error::NoDefault(
                "You didn't specify any refspecs to push, and push.default is \"nothing\".".into(),
            ));
        }
        _ => {}
    }
    let label = remote.label();
    let Some(branch) = current_branch(repo).map_err(Error::repository("reading HEAD"))? else {
        return Err(Error::NoDefault(format!(
            "You are not currently on a branch.\nTo push the history leading to the current (detached HEAD)\nstate now, use\n\n    \
             git push {label} HEAD:<name-of-remote-branch>\n"
        )));
    };
    let configured = config.string_filter_by("branch", Some(branch.as_bstr()), "remote", is_trusted);
    let has_remote = configured.is_some();
    let same_remote = configured.unwrap_or_else(|| only_remote_or_origin(config)) == label;
    let upstream = Upstream {
        merges: merges(config, branch.as_bstr()),
        has_remote,
        auto: auto_upstream,
        branch: &branch,
        label,
    };
    let full = BString::from([b"refs/heads/", branch.as_slice()].concat());
    let dst = match default {
        PushDefault::Upstream if !same_remote => {
            return Err(Error::NoDefault(format!(
                "You are pushing to remote '{label}', which is not the upstream of\nyour current branch '{branch}', \
                 without telling me what to push\nto update which remote branch."
            )));
        }
        PushDefault::Upstream => upstream.name(&full)?,
        PushDefault::Simple | PushDefault::Unset if same_remote => {
            let name = upstream.name(&full)?;
            if name != full {
                return Err(different_upstream(config, default, label, name.as_bstr()));
            }
            name
        }
        _ => full.clone(),
    };
    Ok(Chosen {
        set_upstream: auto_upstream && upstream.merges.is_empty(),
        spec: Refspec::explicit(full, dst),
    })
}

struct Upstream<'a> {
    merges: Vec<BString>,
    has_remote: bool,
    auto: bool,
    branch: &'a BString,
    label: &'a BStr,
}

impl Upstream<'_> {
    fn name(&self, full: &BString) -> Result<BString, Error> {
        let (branch, label) = (self.branch, self.label);
        match self.merges.as_slice() {
            [] if self.auto => Ok(full.clone()),
            [one] if self.has_remote => Ok(one.clone()),
            [_, _, ..] if self.has_remote => Err(Error::NoDefault(format!(
                "The current branch {branch} has multiple upstream branches, refusing to push."
            ))),
            _ => {
                let advice = if self.auto {
                    ""
                } else {
                    "\nTo have this happen automatically for branches without a tracking\n\
                     upstream, see 'push.autoSetupRemote' in 'git help config'.\n"
                };
                Err(Error::NoDefault(format!(
                    "The current branch {branch} has no upstream branch.\nTo push the current branch and set the remote as \
                     upstream, use\n\n    git push --set-upstream {label} {branch}\n{advice}"
                )))
            }
        }
    }
}

fn different_upstream(config: &gix::config::File, default: PushDefault, label: &BStr, upstream: &BStr) -> Error {
    let short = upstream.strip_prefix(b"refs/heads/").unwrap_or(upstream).as_bstr();
    let permanently = if default == PushDefault::Unset {
        "\nTo choose either option permanently, see push.default in 'git help config'.\n"
    } else {
        ""
    };
    let simple = config.string_filter("branch.autoSetupMerge", is_trusted);
    let automatically = if simple.is_some_and(|value| value == "simple") {
        ""
    } else {
        "\nTo avoid automatically configuring an upstream branch when its name\n\
         won't match the local branch, see option 'simple' of branch.autoSetupMerge\nin 'git help config'.\n"
    };
    Error::NoDefault(format!(
        "The upstream branch of your current branch does not match\nthe name of your current branch.  To push to the upstream \
         branch\non the remote, use\n\n    git push {label} HEAD:{short}\n\nTo push to the branch of the same name on the remote, \
         use\n\n    git push {label} HEAD\n{permanently}{automatically}"
    ))
}
