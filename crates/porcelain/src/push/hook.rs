//! The `pre-push` hook (githooks(5)): the last word before anything is sent.
//!
//! It is given the remote's name and URL as arguments, one line a ref on its standard input, and may refuse by its exit status.
//! Its output goes where the program's own goes.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bstr::{BStr, ByteVec};

use super::{Error, PlannedRef, PushPlan, Rejection, Verdict};
use crate::remote::Remote;

/// Run the hook, if there is one.
pub(super) fn run(repo: &gix::Repository, remote: &Remote, url: &str, plan: &PushPlan) -> Result<(), Error> {
    let Some(path) = find(repo)? else {
        return Ok(());
    };
    let failed = |source| Error::Hook {
        path: path.clone(),
        source,
    };
    let mut command = Command::new(&path);
    command
        .arg(
            gix::path::from_bstr(remote.label())
                .map_err(Error::repository("passing the remote's name to the hook"))?
                .as_ref(),
        )
        .arg(url)
        .stdin(Stdio::piped());
    place(&mut command, repo);
    let mut child = command.spawn().map_err(failed)?;
    let input = lines(plan);
    let written = match child.stdin.take() {
        // Closed at the end of this arm, which is what tells the hook that there are no more lines.
        Some(mut stdin) => stdin.write_all(&input),
        None => Ok(()),
    };
    let status = child.wait().map_err(failed)?;
    if !status.success() {
        return Err(Error::HookDeclined { path, status });
    }
    match written {
        // A hook need not read what it doesn't care for.
        Err(err) if err.kind() != io::ErrorKind::BrokenPipe => Err(failed(err)),
        _ => Ok(()),
    }
}

/// Hooks run at the top of the working tree, or in a bare repository's directory. Where git could not find the repository from
/// there by itself, the environment tells.
fn place(command: &mut Command, repo: &gix::Repository) {
    let absolute = |path: &Path| gix::path::realpath(path).unwrap_or_else(|_| path.to_owned());
    let git_dir = absolute(repo.git_dir());
    match repo.workdir().map(absolute) {
        Some(workdir) => {
            if !workdir.join(".git").exists() {
                command.env("GIT_DIR", &git_dir).env("GIT_WORK_TREE", &workdir);
            }
            command.current_dir(workdir);
        }
        None => {
            command.env("GIT_DIR", &git_dir).current_dir(git_dir);
        }
    }
}

/// `core.hooksPath` or `$GIT_COMMON_DIR/hooks`; a file that can't be executed is no hook.
fn find(repo: &gix::Repository) -> Result<Option<PathBuf>, Error> {
    let configured = repo
        .config_snapshot()
        .trusted_path("core.hooksPath")
        .map_err(Error::repository("reading core.hooksPath"))?;
    let directory = match configured {
        Some(path) if path.is_relative() => repo.workdir().unwrap_or(repo.git_dir()).join(path),
        Some(path) => path,
        None => repo.common_dir().join("hooks"),
    };
    let path = directory.join("pre-push");
    let path = std::path::absolute(&path).unwrap_or(path);
    Ok(is_executable(&path).then_some(path))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Elsewhere hooks are scripts that only Git's own shell could run.
#[cfg(not(unix))]
fn is_executable(_path: &Path) -> bool {
    false
}

fn lines(plan: &PushPlan) -> Vec<u8> {
    let mut input = Vec::new();
    for planned in plan.refs.iter().filter(|planned| is_shown(planned)) {
        let local = planned
            .local
            .as_ref()
            .map_or(BStr::new("(delete)"), |name| BStr::new(name));
        input.push_str(local);
        input.push_str(format!(" {} ", planned.new));
        input.push_str(&planned.remote);
        input.push_str(format!(" {}\n", planned.old));
    }
    input
}

fn is_shown(planned: &PlannedRef) -> bool {
    planned.local.is_some()
        && !matches!(
            planned.verdict,
            Verdict::UpToDate
                | Verdict::Rejected(Rejection::NonFastForward | Rejection::Stale | Rejection::RemoteUpdated)
        )
}
