//! Cloning over any transport: `git clone`.
//!
//! gix's own clone insists on connecting by one of its built-in HTTP clients, so the steps around the fetch are taken here: a place
//! for the repository (`place`), its object format (known from the discovery, before anything is created), the remote's
//! configuration, the first fetch straight into packed refs, `HEAD` (`head`) and the working tree (`checkout`). Whatever goes
//! wrong before the working tree's turn, the destination is left as it was found.

mod checkout;
mod head;
mod place;

use std::{io::Read, path::Path, sync::atomic::AtomicBool};

use bstr::{BStr, BString, ByteSlice};
use gix::{progress::NestedProgress, protocol::handshake::Ref, remote::fetch::Tags};

pub use place::directory_for;

use crate::{
    Error,
    bridge::{Bridge, Peer, RemoteMessages},
    fetch::{Depth, First, PackStatistics},
};

/// An advertisement longer than this is not read: 2^28 bytes hold some millions of refs.
const ADVERTISEMENT_LIMIT: u64 = 1 << 28;

/// How to clone. The default is `git clone` without options.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// No working tree; branches are stored as branches.
    pub bare: bool,
    /// As bare, and every ref is kept as it is there, now and by later fetches.
    pub mirror: bool,
    /// Don't write the working tree.
    pub no_checkout: bool,
    /// The branch or tag to check out instead of the remote's `HEAD`.
    pub branch: Option<BString>,
    /// The remote's name; without it `clone.defaultRemoteName`, else `origin`.
    pub origin: Option<BString>,
    /// How much history to take.
    pub depth: Depth,
    /// Only the branch that is checked out; `None` follows `depth`, as git does.
    pub single_branch: Option<bool>,
    /// No tags, now and by later fetches.
    pub no_tags: bool,
    /// `key=value` settings that hold for this process (`-c`).
    pub config: Vec<BString>,
    /// `protocol.version`: 2 unless configured otherwise.
    pub protocol: Option<u8>,
}

/// The result of [`clone`](clone()).
#[derive(Debug)]
#[non_exhaustive]
pub struct CloneOutcome {
    /// The new repository.
    pub repo: gix::Repository,
    /// What arrived; `None` when the remote is empty.
    pub pack: Option<PackStatistics>,
    /// Files that could not be written, with the reason. The rest of the tree is there.
    pub checkout_errors: Vec<(BString, String)>,
    /// Why the working tree could not be written at all. The repository is complete, as with git.
    pub checkout_failure: Option<Error>,
    /// The remote has commits, but its `HEAD` leads to none: nothing was checked out.
    pub headless: bool,
    /// Paths that fell onto one another on a file system that ignores case.
    pub collisions: Vec<BString>,
    /// The commit `HEAD` is detached at, when the chosen `branch` is a tag or the remote's `HEAD` is detached.
    pub detached: Option<gix::ObjectId>,
}

/// Clone the repository of `peer` into `directory`. `url` is what is remembered as the remote's URL.
///
/// # Errors
/// When the destination is in use, when the remote can't be reached or refuses, when the asked branch isn't there, or when something
/// can't be written. What was created is removed again. A working tree that can't be written is told in the outcome.
pub fn clone<P>(
    url: &BStr,
    directory: &Path,
    peer: impl Into<Peer>,
    options: &Options,
    mut progress: P,
    remote_messages: Option<RemoteMessages>,
    interrupt: &AtomicBool,
) -> Result<CloneOutcome, Error>
where
    P: NestedProgress,
    P::SubProgress: 'static,
{
    let bare = options.bare || options.mirror;
    let place = place::Place::claim(directory)?;

    let version = crate::fetch::protocol(options.protocol);
    let mut peer = peer.into();
    let advertisement = match &mut peer {
        Peer::Http(session) => {
            let discovery = session.discover(rgit_smart_http::Service::UploadPack, Bridge::protocol_header(version))?;
            let mut advertisement = Vec::new();
            discovery
                .take(ADVERTISEMENT_LIMIT)
                .read_to_end(&mut advertisement)
                .map_err(|source| Error::git("reading the server's advertisement", source))?;
            Some(advertisement)
        }
        Peer::Local(_) => None,
    };
    let shown = peer.url().to_owned();
    let mut bridge = Bridge::new(peer).with_protocol(version);
    if let Some(messages) = remote_messages {
        bridge = bridge.with_remote_messages(messages);
    }
    let failure = bridge.failure();
    let blame = |doing: &'static str| {
        let failure = failure.clone();
        move |source: gix::Error| match failure.take() {
            Some(err) => Error::Session(err),
            None => Error::git(doing, source),
        }
    };

    let single = !options.mirror && options.single_branch.unwrap_or(options.depth != Depth::Unchanged);
    let mut advertisement = advertisement;
    let listing = bridge.doubting(|bridge| {
        bridge
            .listing(advertisement.take(), single)
            .map_err(blame("listing the remote's refs"))
    })?;

    let opening = gix::open::Options::default().cli_overrides(options.config.iter().cloned());
    let repo: gix::Repository = gix::ThreadSafeRepository::init_opts(
        directory,
        if bare {
            gix::create::Kind::Bare
        } else {
            gix::create::Kind::WithWorktree
        },
        gix::create::Options {
            object_hash: Some(listing.object_hash),
            ..Default::default()
        },
        opening.clone(),
    )
    .map_err(|source| Error::git("creating the repository", source))?
    .into();

    crate::fetch::can_check_objects(&repo.config_snapshot())?;
    let origin = match &options.origin {
        Some(name) => name.clone(),
        None => repo
            .config_snapshot()
            .string("clone.defaultRemoteName")
            .unwrap_or_else(|| "origin".into()),
    };
    let specs = if single {
        let target = head::choose(&repo, &listing.refs, options.branch.as_ref(), origin.as_bstr())?;
        single_refspec(&target, bare, origin.as_bstr())
    } else {
        all_refspec(options, origin.as_bstr())
    };
    save_remote(&repo, url, origin.as_bstr(), options, &specs)?;
    let mut repo =
        gix::open_opts(repo.git_dir(), opening).map_err(|source| Error::git("opening the new repository", source))?;
    repo.committer_or_set_generic_fallback()
        .map_err(|source| Error::git("reading who commits", source))?;

    // The session's URL is without the password that the given one may hold.
    let reflog = BString::from(format!("clone: from {shown}"));
    let tags = match (options.no_tags || options.mirror, single) {
        (true, _) => Tags::None,
        (false, true) => Tags::Included,
        (false, false) => Tags::All,
    };
    // HEAD is asked for so that a detached one comes along; its ref is written by `head`.
    let first = First::list(&repo, &mut bridge, &specs, tags, !single, &mut progress)?;
    let refs = first.refs.clone();
    let target = head::choose(&repo, &refs, options.branch.as_ref(), origin.as_bstr())?;

    let mut pack = None;
    // Of a branch that isn't there yet there is nothing to fetch.
    let nothing = single && matches!(target, head::Target::Unborn { .. } | head::Target::Nothing);
    if !nothing && refs.iter().any(|listed| !matches!(listed, Ref::Unborn { .. })) {
        pack = first.receive(&options.depth, progress, interrupt)?;
    }
    // The handle that received knows the new pack; this one learns of it by itself on the first miss.
    let detached = head::set(&repo, &target, &refs, origin.as_bstr(), reflog.as_bstr())?;
    // From here on all is there that was to be fetched: a working tree that can't be written is no reason to take it away.
    place.keep();
    let mut outcome = CloneOutcome {
        repo,
        headless: pack.is_some() && !target.has_commit(),
        pack,
        checkout_errors: Vec::new(),
        checkout_failure: None,
        collisions: Vec::new(),
        detached,
    };
    if !bare && !options.no_checkout && outcome.pack.is_some() && !outcome.headless {
        match checkout::main_worktree(&outcome.repo, interrupt) {
            Ok((errors, collisions)) => {
                outcome.checkout_errors = errors;
                outcome.collisions = collisions;
            }
            Err(err) => outcome.checkout_failure = Some(err),
        }
    }
    Ok(outcome)
}

/// What a clone of every branch fetches.
fn all_refspec(options: &Options, origin: &BStr) -> Vec<BString> {
    vec![if options.mirror {
        "+refs/*:refs/*".into()
    } else if options.bare {
        "+refs/heads/*:refs/heads/*".into()
    } else {
        BString::from(format!("+refs/heads/*:refs/remotes/{origin}/*"))
    }]
}

/// What a clone of one branch or tag fetches. An unborn branch is fetched once it is there.
fn single_refspec(target: &head::Target, bare: bool, origin: &BStr) -> Vec<BString> {
    vec![match target {
        head::Target::Branch { name, .. } | head::Target::Unborn { name } => {
            let short = name.strip_prefix(b"refs/heads/").unwrap_or(name).as_bstr();
            if bare {
                BString::from(format!("+{name}:{name}"))
            } else {
                BString::from(format!("+{name}:refs/remotes/{origin}/{short}"))
            }
        }
        head::Target::Tag { name, .. } => BString::from(format!("+{name}:{name}")),
        head::Target::Detached { .. } | head::Target::Nothing => "+HEAD".into(),
    }]
}

/// Write `[remote "<origin>"]` into the new repository's configuration, as git would.
fn save_remote(
    repo: &gix::Repository,
    url: &BStr,
    origin: &BStr,
    options: &Options,
    specs: &[BString],
) -> Result<(), Error> {
    let path = repo.git_dir().join("config");
    let doing = "writing the new repository's configuration";
    let mut config = gix::config::File::from_path_no_includes(path.clone(), gix::config::Source::Local)
        .map_err(|source| Error::git(doing, source))?;
    let name = gix::remote::name::validated(origin)
        .map_err(|_| Error::Usage(format!("'{origin}' is not a valid remote name")))?;
    let mut section = config
        .new_section("remote", name.as_bstr())
        .map_err(|source| Error::git(doing, source))?;
    let mut push = |key: &str, value: &BStr| {
        section
            .push(key, value)
            .map(|_| ())
            .map_err(|source| Error::git(doing, source))
    };
    push("url", url)?;
    // A bare clone that is no mirror remembers no refspec: later fetches take HEAD (git-clone, "--bare").
    if !options.bare || options.mirror {
        // Nor does one of a detached HEAD alone: there is no branch to follow.
        for spec in specs.iter().filter(|spec| *spec != "+HEAD") {
            push("fetch", spec.as_bstr())?;
        }
    }
    if options.mirror {
        push("mirror", "true".into())?;
    }
    if options.no_tags {
        push("tagOpt", "--no-tags".into())?;
    }
    std::fs::write(&path, config.to_bstring()).map_err(|source| Error::Write { path, source })
}
