//! Which ref a clone checks out, and the refs and configuration that say so.

use bstr::{BStr, BString, ByteSlice};
use gix::{
    ObjectId,
    protocol::handshake::Ref,
    refs::{
        FullName, Target as RefTarget,
        transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog},
    },
};

use crate::Error;

/// Where `HEAD` of a clone goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A branch with commits.
    Branch { name: BString, id: ObjectId },
    /// A branch that has no commit yet.
    Unborn { name: BString },
    /// `--branch` named a tag: detached at what it points to.
    Tag { name: BString, peeled: ObjectId },
    /// The remote's own `HEAD` is detached.
    Detached { id: ObjectId },
    /// The remote has no `HEAD`.
    Nothing,
}

impl Target {
    /// Whether there is anything to check out.
    pub(super) fn has_commit(&self) -> bool {
        !matches!(self, Target::Unborn { .. } | Target::Nothing)
    }
}

/// A listed ref's name, id, and peeled id.
fn parts(listed: &Ref) -> (&BStr, Option<ObjectId>) {
    let (name, id, peeled) = listed.unpack();
    (name, peeled.or(id).map(ToOwned::to_owned))
}

/// Choose by `--branch`, else by the remote's `HEAD`, guessing a branch where it is detached at one (as git's `guess_remote_head`).
pub(super) fn choose(
    repo: &gix::Repository,
    refs: &[Ref],
    branch: Option<&BString>,
    origin: &BStr,
) -> Result<Target, Error> {
    let find = |name: &str| refs.iter().map(parts).find(|(listed, _)| *listed == name);
    if let Some(branch) = branch {
        if let Some((name, Some(id))) = find(&format!("refs/heads/{branch}")) {
            return Ok(Target::Branch {
                name: name.to_owned(),
                id,
            });
        }
        if let Some((name, Some(peeled))) = find(&format!("refs/tags/{branch}")) {
            return Ok(Target::Tag {
                name: name.to_owned(),
                peeled,
            });
        }
        return Err(Error::MissingRemoteBranch {
            name: branch.clone(),
            origin: origin.to_owned(),
        });
    }
    let head = refs.iter().find(|listed| parts(listed).0 == "HEAD");
    Ok(match head {
        None => Target::Nothing,
        Some(Ref::Unborn { target, .. }) => Target::Unborn { name: target.clone() },
        Some(Ref::Symbolic { target, object, .. }) => Target::Branch {
            name: target.clone(),
            id: *object,
        },
        Some(listed) => {
            let Some(id) = parts(listed).1 else {
                return Ok(Target::Nothing);
            };
            let default = repo
                .config_snapshot()
                .string("init.defaultBranch")
                .unwrap_or_else(|| "master".into());
            let guess = [format!("refs/heads/{default}"), "refs/heads/master".to_owned()]
                .iter()
                .find_map(|name| find(name).filter(|(_, at)| *at == Some(id)))
                .or_else(|| {
                    refs.iter()
                        .map(parts)
                        .filter(|(name, at)| name.starts_with(b"refs/heads/") && *at == Some(id))
                        .min()
                });
            match guess {
                Some((name, _)) => Target::Branch {
                    name: name.to_owned(),
                    id,
                },
                None => Target::Detached { id },
            }
        }
    })
}

/// Point `HEAD` there, make the local branch and its tracking configuration. Returns the commit of a detached `HEAD`.
pub(super) fn set(
    repo: &gix::Repository,
    target: &Target,
    refs: &[Ref],
    origin: &BStr,
    reflog: &BStr,
) -> Result<Option<ObjectId>, Error> {
    let bare = repo.is_bare();
    let update = |name: &BStr, new: RefTarget| -> Result<RefEdit, Error> {
        Ok(RefEdit {
            change: Change::Update {
                log: LogChange {
                    mode: RefLog::AndReference,
                    force_create_reflog: false,
                    message: reflog.to_owned(),
                },
                expected: PreviousValue::Any,
                new,
            },
            name: full_name(name)?,
            deref: false,
        })
    };
    let mut edits = Vec::new();
    let mut detached = None;
    let mut through_head = None;
    match target {
        Target::Branch { name, id } => {
            if !bare {
                // Through HEAD, whose reflog is to begin here as well.
                through_head = Some(update("HEAD".into(), RefTarget::Object(*id))?.with_deref(true));
            }
            edits.push(update("HEAD".into(), RefTarget::Symbolic(full_name(name.as_bstr())?))?);
        }
        Target::Unborn { name } => {
            edits.push(update("HEAD".into(), RefTarget::Symbolic(full_name(name.as_bstr())?))?);
        }
        Target::Tag { peeled: id, .. } | Target::Detached { id } => {
            detached = Some(*id);
            edits.push(update("HEAD".into(), RefTarget::Object(*id))?);
        }
        Target::Nothing => {}
    }
    if !bare {
        // The remote's default branch, whatever was checked out here.
        if let Ok(Target::Branch { name, .. }) = choose(repo, refs, None, origin)
            && let Some(short) = name.strip_prefix(b"refs/heads/")
        {
            let tracking = format!("refs/remotes/{origin}/{}", short.as_bstr());
            if repo.try_find_reference(tracking.as_str()).ok().flatten().is_some() {
                let head = format!("refs/remotes/{origin}/HEAD");
                edits.push(update(
                    head.as_str().into(),
                    RefTarget::Symbolic(full_name(tracking.as_str().into())?),
                )?);
            }
        }
    }
    repo.edit_references(edits)
        .and_then(|_| repo.edit_references(through_head))
        .map_err(|source| Error::git("pointing HEAD at the cloned branch", source))?;
    if let (false, Target::Branch { name, .. } | Target::Unborn { name }) = (bare, target) {
        track(repo, name.as_bstr(), origin)?;
    }
    Ok(detached)
}

/// `[branch "<name>"]` with remote and merge, as git writes for the branch that is checked out.
fn track(repo: &gix::Repository, branch: &BStr, origin: &BStr) -> Result<(), Error> {
    let doing = "writing the new repository's configuration";
    let Some(short) = branch.strip_prefix(b"refs/heads/") else {
        return Ok(());
    };
    let path = repo.git_dir().join("config");
    let mut config = gix::config::File::from_path_no_includes(path.clone(), gix::config::Source::Local)
        .map_err(|source| Error::git(doing, source))?;
    let mut section = config
        .new_section("branch", short.as_bstr())
        .map_err(|source| Error::git(doing, source))?;
    section
        .push("remote", origin)
        .map_err(|source| Error::git(doing, source))?;
    section
        .push("merge", branch)
        .map_err(|source| Error::git(doing, source))?;
    std::fs::write(&path, config.to_bstring()).map_err(|source| Error::Write { path, source })
}

fn full_name(name: &BStr) -> Result<FullName, Error> {
    FullName::try_from(name)
        .map_err(|_| Error::git("reading the remote's refs", format!("'{name}' is not a valid ref name")))
}
