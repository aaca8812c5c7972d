//! Fetching into a gix repository over any transport: `git fetch`.
//!
//! Negotiation is gix's, pack indexing `rgit-pack`'s. This room decides what is asked for (`specs`, `wanted`), makes sure that what came is
//! whole (`receive`, `connected`), then prunes and moves refs by git's rules (`prune`, `update`), writes `FETCH_HEAD`, and
//! reports each ref as git does. It never prints.

mod connected;
mod fetch_head;
mod first;
mod local;
mod loosen;
mod outcome;
mod prune;
mod receive;
mod specs;
mod update;
mod wanted;

use std::{
    collections::HashSet,
    num::NonZeroU32,
    sync::atomic::{AtomicBool, Ordering},
};

use bstr::{BStr, BString, ByteSlice};
use gix::{
    ObjectId,
    objs::Exists,
    progress::NestedProgress,
    protocol::{handshake::Ref, transport::Protocol},
    remote::fetch::{Shallow, Tags},
};

pub(crate) use first::First;
use local::LocalRefs;
pub use outcome::{FetchOutcome, FetchedRef, Flag, PackStatistics};
use specs::Specs;

use crate::{
    Error,
    bridge::{Bridge, Peer, RemoteMessages},
    push::refspec::{Refspec, Side},
};

/// What to fetch, and how. The default is `git fetch` without options.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// Refspecs given by the user; without any, the remote's configured ones are used, or `HEAD` where there are none.
    pub refspecs: Vec<BString>,
    /// Which tags to take; `None` follows `remote.<name>.tagOpt` and else git's default of following what is fetched.
    pub tags: Option<Tags>,
    /// Delete tracking refs whose source is gone (`--prune`).
    pub prune: bool,
    /// Let every refspec replace what isn't an ancestor (`--force`).
    pub force: bool,
    /// Only say what would happen. Objects are fetched all the same, since only they tell.
    pub dry_run: bool,
    /// Keep what other fetches wrote into `FETCH_HEAD` (`--append`).
    pub append: bool,
    /// How the lines in reflogs begin; `fetch` where empty. git puts the command line here.
    pub action: BString,
    /// How to change the shallow boundary.
    pub depth: Depth,
    /// `protocol.version`: 2 unless configured otherwise.
    pub protocol: Option<u8>,
}

/// A change of the shallow boundary (`--depth`, `--deepen`, `--shallow-since`, `--shallow-exclude`, `--unshallow`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Depth {
    /// Leave it.
    #[default]
    Unchanged,
    /// So many commits from each tip.
    Commits(NonZeroU32),
    /// So many commits more than now.
    Deepen(u32),
    /// Nothing older than this time, in seconds since the epoch.
    Since(i64),
    /// Nothing reachable from these refs of the remote.
    Exclude(Vec<BString>),
    /// The whole history.
    Complete,
}

impl Depth {
    pub(crate) fn to_gix(&self) -> Result<Shallow, Error> {
        Ok(match self {
            Depth::Unchanged => Shallow::NoChange,
            Depth::Commits(count) => Shallow::DepthAtRemote(*count),
            Depth::Deepen(count) => Shallow::Deepen(*count),
            Depth::Since(seconds) => Shallow::Since {
                cutoff: gix::date::Time::new(*seconds, 0),
            },
            Depth::Exclude(names) => Shallow::Exclude {
                remote_refs: names
                    .iter()
                    .map(|name| {
                        gix::refs::PartialName::try_from(name.clone())
                            .map_err(|_| Error::Usage(format!("'{name}' is no name of a ref to exclude")))
                    })
                    .collect::<Result<_, _>>()?,
                since_cutoff: None,
            },
            Depth::Complete => Shallow::undo(),
        })
    }
}

/// The protocol to ask for, from the value of `protocol.version`.
pub(crate) fn protocol(version: Option<u8>) -> Protocol {
    match version {
        Some(0) => Protocol::V0,
        Some(1) => Protocol::V1,
        _ => Protocol::V2,
    }
}

/// Fetch from `remote`, whose URL must be that of `peer`.
///
/// Refs are moved only after every object arrived, was indexed, and was found to lead to nothing that isn't here; an interrupted fetch
/// leaves refs as they were.
///
/// # Errors
/// When the remote can't be reached or refuses, when a named ref isn't there, when a branch that is checked out would move, or when
/// objects can't be written. A ref that may not or can't be moved is no error: the outcome tells of it.
pub fn fetch<P>(
    remote: gix::Remote<'_>,
    peer: impl Into<Peer>,
    options: &Options,
    mut progress: P,
    remote_messages: Option<RemoteMessages>,
    interrupt: &AtomicBool,
) -> Result<FetchOutcome, Error>
where
    P: NestedProgress,
    P::SubProgress: 'static,
{
    let repo = remote.repo();
    let configured: Vec<BString> = remote
        .refspecs(gix::remote::Direction::Fetch)
        .iter()
        .map(|spec| spec.to_ref().to_bstring())
        .collect();
    can_check_objects(&repo.config_snapshot())?;
    if !options.append && !options.dry_run {
        // What an earlier fetch brought must not be merged in place of what this one fails to bring.
        fetch_head::write(repo, false, &[], b"")?;
    }
    let merge = Merge::of_head(repo, &remote);
    let specs = Specs::choose(&configured, &merge.names, options)?;
    let tags = match options.tags.unwrap_or_else(|| remote.fetch_tags()) {
        Tags::Included if !specs.store() => Tags::None,
        tags => tags,
    };

    let peer = peer.into();
    let url = peer.url().to_owned();
    let mut bridge = Bridge::new(peer).with_protocol(protocol(options.protocol));
    if let Some(messages) = remote_messages {
        bridge = bridge.with_remote_messages(messages);
    }
    let (handshake, refs) = list(repo, &mut bridge, specs.prefixes(&merge.names, tags), &mut progress)?;

    let mut local = LocalRefs::read(repo)?;
    let (mut wanted, ignored) = plan(&specs, &configured, &merge, tags, &refs, options)?;
    let have = repo.objects.clone();
    let ids = |wanted: &[wanted::Wanted]| -> Vec<ObjectId> { wanted.iter().map(|entry| entry.id).collect() };
    if tags == Tags::Included {
        let coming: HashSet<ObjectId> = wanted.iter().map(|entry| entry.id).collect();
        let mut tags = wanted::followed_tags(&refs, &local.0, &coming, |id| have.exists(id));
        wanted::drop_those_in(&wanted, &mut tags);
        wanted.append(&mut tags);
    }
    refuse_checked_out(repo, &wanted)?;

    let failure = bridge.failure();
    let mut receiver = receive::Receiver {
        repo,
        bridge: &mut bridge,
        failure,
        handshake,
        shallow: options.depth.to_gix()?,
        complete: local.ids(),
        kept: receive::Kept::default(),
        unpack_limit: receive::unpack_limit(repo),
    };
    let mut pack = receiver.receive(&ids(&wanted), tags, &mut progress, interrupt)?;
    let mut more = Vec::new();
    if tags == Tags::Included {
        // Tags into what has just come; the server sends most of them along by itself.
        more = wanted::followed_tags(&refs, &local.0, &HashSet::new(), |id| have.exists(id));
        wanted::drop_those_in(&wanted, &mut more);
        if !more.is_empty() && pack.is_some() {
            let spoken = receiver.handshake.server_protocol_version;
            receiver
                .bridge
                .again(spoken)
                .map_err(|source| Error::git("asking for tags", source))?;
        }
        receiver.shallow = Shallow::NoChange;
        receiver.complete.extend(ids(&wanted));
        receiver.complete.sort();
        pack = receiver.receive(&ids(&more), Tags::None, progress, interrupt)?.or(pack);
    }
    if interrupt.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }

    let mut report = Vec::new();
    if options.prune {
        // git prunes with the refspecs given on the command line where there are any (git-fetch, "PRUNING").
        report = prune::prune(repo, &mut local, &specs.list, &refs, options.dry_run)?;
    }
    let action = if options.action.is_empty() {
        BStr::new("fetch")
    } else {
        options.action.as_bstr()
    };
    for wanted in [&wanted, &more] {
        report.extend(update::update(repo, &mut local, wanted, action, options.dry_run)?);
    }
    let outcome = FetchOutcome {
        url,
        refs: report,
        pack,
        ignored,
    };
    if !options.dry_run {
        wanted.append(&mut more);
        fetch_head::write(repo, options.append, &wanted, outcome.shown_url())?;
    }
    Ok(outcome)
}

/// Ask for the refs that begin with `prefixes`.
fn list<P: NestedProgress>(
    repo: &gix::Repository,
    bridge: &mut Bridge,
    prefixes: Option<Vec<BString>>,
    progress: &mut P,
) -> Result<(gix::protocol::Handshake, Vec<Ref>), Error> {
    bridge.doubting(|bridge| list_once(repo, bridge, prefixes.clone(), progress))
}

fn list_once<P: NestedProgress>(
    repo: &gix::Repository,
    bridge: &mut Bridge,
    prefixes: Option<Vec<BString>>,
    progress: &mut P,
) -> Result<(gix::protocol::Handshake, Vec<Ref>), Error> {
    use gix::protocol::{LsRefsCommand, handshake, transport::Service};
    let failure = bridge.failure();
    let blame = |source: gix::Error| match failure.take() {
        Some(err) => Error::Session(err),
        None => Error::git("listing the remote's refs", source),
    };
    // The session asks git's credential helpers itself; gix is never told that authentication is needed.
    let mut shaken = handshake(&mut *bridge, Service::UploadPack, |_| Ok(None), Vec::new(), progress).map_err(blame)?;
    let remote = crate::bridge::object_format(&shaken.capabilities).map_err(blame)?;
    if remote != repo.object_hash() {
        return Err(Error::ObjectFormat {
            local: repo.object_hash(),
            remote,
        });
    }
    let refs = match (shaken.refs.take(), prefixes) {
        (Some(refs), _) => refs,
        // Objects alone are wanted.
        (None, Some(prefixes)) if prefixes.is_empty() => Vec::new(),
        (None, prefixes) => LsRefsCommand::new(
            prefixes.map(specs::ref_prefixes),
            &shaken.capabilities,
            crate::ls_remote::agent(),
        )
        .invoke_blocking(bridge, progress, false)
        .map_err(blame)?,
    };
    Ok((shaken, refs))
}

/// All that is fetched but for tags that are followed, and the names that can't be.
fn plan(
    specs: &Specs,
    configured: &[BString],
    merge: &Merge,
    tags: Tags,
    refs: &[Ref],
    options: &Options,
) -> Result<(Vec<wanted::Wanted>, Vec<BString>), Error> {
    let mut wanted = specs.select(refs)?;
    let mut opportune = Vec::new();
    if specs.given {
        let configured: Vec<Refspec> = configured
            .iter()
            .filter_map(|spec| Refspec::parse(spec.as_bstr(), Side::Fetch))
            .collect();
        opportune = wanted::tracking(&wanted, &configured);
    } else {
        if !merge.configured
            && specs.list.first().is_some_and(|spec| !spec.pattern)
            && let Some(first) = wanted.first_mut()
        {
            first.for_merge = wanted::ForMerge::Yes;
        }
        wanted::add_merges(&mut wanted, &merge.names, refs);
    }
    if tags == Tags::All {
        wanted.extend(wanted::all_tags(refs, options.force));
    }
    wanted.append(&mut opportune);
    let ignored = wanted::without_duplicates(&mut wanted)?;
    Ok((wanted, ignored))
}

/// What `branch.<name>.merge` says of the branch that `HEAD` is on.
struct Merge {
    /// It says something, of whichever remote.
    configured: bool,
    /// What it says, if it is of this remote.
    names: Vec<BString>,
}

impl Merge {
    fn of_head(repo: &gix::Repository, remote: &gix::Remote<'_>) -> Merge {
        let branch = crate::remote::current_branch(repo).ok().flatten();
        let config = repo.config_snapshot();
        let names = branch
            .as_ref()
            .and_then(|branch| config.plumbing().strings_by("branch", Some(branch.as_bstr()), "merge"))
            .unwrap_or_default();
        let its_remote =
            branch.and_then(|branch| config.plumbing().string_by("branch", Some(branch.as_bstr()), "remote"));
        let configured = !names.is_empty();
        let ours = remote.name().map(|name| name.as_bstr());
        Merge {
            configured,
            names: if ours.is_some() && its_remote.as_ref().map(|name| name.as_bstr()) == ours {
                names
            } else {
                Vec::new()
            },
        }
    }
}

/// git refuses the whole fetch, before it asks for a pack.
fn refuse_checked_out(repo: &gix::Repository, wanted: &[wanted::Wanted]) -> Result<(), Error> {
    let branches = local::checked_out(repo);
    for name in wanted.iter().filter_map(|entry| entry.local.as_ref()) {
        if let Some(path) = branches.get(name) {
            return Err(Error::CheckedOut {
                name: name.clone(),
                path: path.clone(),
            });
        }
    }
    Ok(())
}

/// Who asks for the checks of `git fsck` on what comes in must not get it without.
pub(crate) fn can_check_objects(config: &gix::config::Snapshot<'_>) -> Result<(), Error> {
    for key in ["fetch.fsckObjects", "transfer.fsckObjects"] {
        match config.boolean(key) {
            None => continue,
            Some(false) => return Ok(()),
            Some(true) => {
                return Err(Error::Usage(format!(
                    "{key} is set, and rgit can't check objects as git fsck does yet: fetch with git, or without these checks by \
                     -c fetch.fsckObjects=false"
                )));
            }
        }
    }
    Ok(())
}
