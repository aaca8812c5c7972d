//! Fetching into a gix repository over any transport: `git fetch`.
//!
//! Negotiation and pack reception are gix's. This room decides what is asked for (configured or given refspecs, tags, depth), what
//! happens to refs beyond gix's own updates (tracking refs of given refspecs, pruning, `FETCH_HEAD`), and reports each ref as git
//! does. It never prints.

mod fetch_head;
mod outcome;
mod prune;
mod tracking;

use std::{num::NonZeroU32, sync::atomic::AtomicBool};

use bstr::{BStr, BString, ByteSlice};
use gix::{
    progress::NestedProgress,
    protocol::transport::Protocol,
    remote::fetch::{Shallow, Tags},
};
use rgit_smart_http::Session;

pub use outcome::{FetchOutcome, FetchedRef, Flag, PackStatistics};

use crate::{
    Error,
    bridge::{Bridge, RemoteMessages},
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
    /// Only say what would happen.
    pub dry_run: bool,
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

/// Fetch from `remote` over `session`, whose URL must be the remote's.
///
/// Refs are moved only after every object arrived and was indexed; an interrupted fetch leaves refs and objects as they were.
///
/// # Errors
/// When the remote can't be reached or refuses, when a named ref isn't there, or when objects or refs can't be written. A ref that
/// may not be moved is no error: it is reported as rejected in the outcome.
pub fn fetch<P>(
    remote: gix::Remote<'_>,
    session: Session,
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
    let configured = remote.refspecs(gix::remote::Direction::Fetch).to_vec();
    let (specs, given) = refspecs_to_use(&configured, options)?;
    let has_destination = specs.iter().any(|spec| spec.to_ref().destination().is_some());
    let tags = match options.tags {
        Some(tags) => tags,
        // git follows tags only when something is stored in a ref (git-fetch, "--no-tags").
        None if !has_destination => Tags::None,
        None => remote.fetch_tags(),
    };

    let url = BString::from(session.url());
    let mut fetching = remote.clone();
    fetching
        .replace_refspecs(
            specs
                .iter()
                .map(|spec| spec.to_ref().to_bstring())
                .collect::<Vec<_>>()
                .iter()
                .map(|spec| spec.as_bstr()),
            gix::remote::Direction::Fetch,
        )
        .map_err(|source| Error::git("reading the refspecs", source))?;
    let fetching = fetching.with_fetch_tags(tags);

    let mut bridge = Bridge::new(session).with_protocol(protocol(options.protocol));
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

    let prepared = fetching
        .to_connection_with_transport(bridge)
        .prepare_fetch(
            &mut progress,
            gix::remote::ref_map::Options {
                prefix_from_spec_as_filter_on_remote: can_filter(&specs),
                ..Default::default()
            },
        )
        .map_err(blame("listing the remote's refs"))?;
    if given {
        missing_sources(&specs, prepared.ref_map())?;
    }
    let hash = prepared.ref_map().object_hash;
    if hash != repo.object_hash() {
        return Err(Error::ObjectFormat {
            local: repo.object_hash(),
            remote: hash,
        });
    }

    let mut received = prepared
        .with_dry_run(options.dry_run)
        .with_shallow(options.depth.to_gix()?)
        .receive(progress, interrupt)
        .map_err(blame("receiving objects"))?;

    let mut outcome = FetchOutcome::from_received(
        url,
        repo,
        &mut received,
        fetching.refspecs(gix::remote::Direction::Fetch),
    );
    if given && !options.dry_run {
        tracking::update(repo, &configured, &received.ref_map, &mut outcome)?;
    }
    if options.prune {
        // git prunes with the refspecs given on the command line where there are any (git-fetch, "PRUNING").
        prune::prune(repo, &specs, &received.ref_map, options.dry_run, &mut outcome)?;
    }
    if !options.dry_run {
        fetch_head::write(repo, remote.name().is_some(), given, tags, &received.ref_map, &outcome)?;
        crate::received::settle(&mut received)?;
    }
    Ok(outcome)
}

/// Whether the server may leave out refs by the prefixes of these refspecs. gix asks by the prefixes of all refspecs together, so that
/// one without a prefix would get nothing as soon as another has one; and for `refs/*` it asks for refs that begin with a star.
pub(crate) fn can_filter(specs: &[gix::refspec::RefSpec]) -> bool {
    specs.iter().all(|spec| {
        let mut prefixes = Vec::new();
        let negative = matches!(
            spec.to_ref().instruction(),
            gix::refspec::Instruction::Fetch(gix::refspec::instruction::Fetch::Exclude { .. })
        );
        spec.to_ref().expand_prefixes(&mut prefixes);
        negative || !(prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.contains(&b'*')))
    })
}

/// The refspecs of this fetch, and whether the user gave them.
fn refspecs_to_use(
    configured: &[gix::refspec::RefSpec],
    options: &Options,
) -> Result<(Vec<gix::refspec::RefSpec>, bool), Error> {
    let parse = |spec: &BStr| {
        let mut spec = spec.to_owned();
        if options.force && !spec.starts_with(b"+") && !spec.starts_with(b"^") {
            spec.insert(0, b'+');
        }
        gix::refspec::parse(spec.as_bstr(), gix::refspec::parse::Operation::Fetch)
            .map(|spec| spec.to_owned())
            .map_err(|_| Error::Usage(format!("invalid refspec '{spec}'")))
    };
    if !options.refspecs.is_empty() {
        let mut specs = Vec::new();
        let mut given = options.refspecs.iter().peekable();
        while let Some(spec) = given.next() {
            // `tag <name>` means refs/tags/<name>:refs/tags/<name> (git-fetch, "<refspec>").
            if spec == "tag"
                && let Some(name) = given.next()
            {
                specs.push(parse(
                    BString::from(format!("refs/tags/{name}:refs/tags/{name}")).as_bstr(),
                )?);
            } else {
                specs.push(parse(spec.as_bstr())?);
            }
        }
        return Ok((specs, true));
    }
    if configured.is_empty() {
        return Ok((vec![parse("HEAD".into())?], true));
    }
    let specs = configured
        .iter()
        .map(|spec| parse(spec.to_ref().to_bstring().as_bstr()))
        .collect::<Result<_, _>>()?;
    Ok((specs, false))
}

/// A ref named outright must be there: git fails before it asks for a pack.
fn missing_sources(specs: &[gix::refspec::RefSpec], map: &gix::remote::fetch::RefMap) -> Result<(), Error> {
    for (index, spec) in specs.iter().enumerate() {
        let spec = spec.to_ref();
        let Some(source) = spec.source() else { continue };
        let negative = matches!(
            spec.instruction(),
            gix::refspec::Instruction::Fetch(gix::refspec::instruction::Fetch::Exclude { .. })
        );
        if negative || source.contains(&b'*') {
            continue;
        }
        let found = map
            .mappings
            .iter()
            .any(|mapping| mapping.spec_index == gix::remote::fetch::refmap::SpecIndex::ExplicitInRemote(index));
        if !found {
            return Err(Error::MissingRemoteRef {
                name: source.to_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refspecs_with_a_prefix_let_the_server_filter() {
        let parse = |spec: &str| {
            gix::refspec::parse(spec.into(), gix::refspec::parse::Operation::Fetch)
                .unwrap()
                .to_owned()
        };
        let can = |specs: &[&str]| can_filter(&specs.iter().map(|spec| parse(spec)).collect::<Vec<_>>());
        assert!(can(&[
            "+refs/heads/*:refs/remotes/o/*",
            "HEAD",
            "main",
            "^refs/heads/x"
        ]));
        assert!(!can(&["+refs/*:refs/*", "HEAD"]));
        assert!(!can(&["refs/*/x:refs/*/x"]));
    }
}
