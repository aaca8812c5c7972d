//! Listing a remote's refs: `git ls-remote`. Needs no repository.

use bstr::{BStr, BString, ByteSlice};
use gix::{ObjectId, protocol::handshake::Ref, protocol::transport::Service};

use crate::{
    Error,
    bridge::{Bridge, Peer},
};

/// Which refs to list. The default is all of them.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// Only `refs/heads/` (`--branches`); together with `tags`, both.
    pub branches: bool,
    /// Only `refs/tags/` (`--tags`).
    pub tags: bool,
    /// Neither peeled tags nor pseudo-refs like `HEAD` (`--refs`).
    pub refs_only: bool,
    /// Glob patterns that match the end of a name at a slash, as git's do.
    pub patterns: Vec<BString>,
    /// `protocol.version`: 2 unless configured otherwise.
    pub protocol: Option<u8>,
}

/// One ref as the remote lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteRef {
    /// Full name, or `HEAD`; a peeled tag carries the suffix `^{}`.
    pub name: BString,
    /// The object.
    pub id: ObjectId,
    /// Where a symbolic ref points.
    pub symbolic: Option<BString>,
}

/// List the refs of the repository of `peer`, in the server's order (git's servers sort by name).
///
/// # Errors
/// When the server can't be reached, refuses, or answers with something that isn't a ref list.
pub fn ls_remote(peer: impl Into<Peer>, options: &Options) -> Result<Vec<RemoteRef>, Error> {
    let mut peer = peer.into();
    if let Peer::Http(session) = &mut peer {
        session.be_brief();
    }
    let mut bridge = Bridge::new(peer).with_protocol(crate::fetch::protocol(options.protocol));
    let failure = bridge.failure();
    let blame = |source: gix::Error| match failure.take() {
        Some(err) => Error::Session(err),
        None => Error::git("listing the remote's refs", source),
    };
    let refs = bridge.doubting(|bridge| {
        let handshake = gix::protocol::handshake(
            &mut *bridge,
            Service::UploadPack,
            // The session asks git's credential helpers itself; gix is never told that authentication is needed.
            |_| Ok(None),
            Vec::new(),
            &mut gix::progress::Discard,
        )
        .map_err(blame)?;
        match handshake.refs {
            Some(refs) => Ok(refs),
            None => {
                let prefixes = ref_prefixes(options);
                gix::protocol::LsRefsCommand::new(prefixes, &handshake.capabilities, agent())
                    .invoke_blocking(bridge, &mut gix::progress::Discard, false)
                    .map_err(blame)
            }
        }
    })?;
    Ok(refs
        .into_iter()
        .flat_map(entries)
        .filter(|entry| wanted(entry, options))
        .collect())
}

/// The `agent` capability that is sent along.
pub(crate) fn agent() -> (&'static str, Option<String>) {
    ("agent", Some(concat!("git/rgit-", env!("CARGO_PKG_VERSION")).into()))
}

/// The server filters by these (gitprotocol-v2, "ls-refs"); what it sends beyond them is filtered here.
fn ref_prefixes(options: &Options) -> Option<gix::protocol::ls_refs::RefPrefixes> {
    if !options.branches && !options.tags {
        return None;
    }
    let mut prefixes = gix::protocol::ls_refs::RefPrefixes::new();
    prefixes.extend(options.branches.then(|| "refs/heads/".into()));
    prefixes.extend(options.tags.then(|| "refs/tags/".into()));
    Some(prefixes)
}

/// One line, or two where a tag was peeled.
fn entries(listed: Ref) -> Vec<RemoteRef> {
    let (name, id, peeled, symbolic) = match listed {
        Ref::Direct { full_ref_name, object } => (full_ref_name, object, None, None),
        Ref::Peeled {
            full_ref_name,
            tag,
            object,
        } => (full_ref_name, tag, Some(object), None),
        Ref::Symbolic {
            full_ref_name,
            target,
            tag,
            object,
        } => (full_ref_name, tag.unwrap_or(object), tag.map(|_| object), Some(target)),
        Ref::Unborn { .. } => return Vec::new(),
    };
    let peeled = peeled.map(|id| RemoteRef {
        name: [name.as_slice(), b"^{}"].concat().into(),
        id,
        symbolic: None,
    });
    std::iter::once(RemoteRef { name, id, symbolic })
        .chain(peeled)
        .collect()
}

fn wanted(entry: &RemoteRef, options: &Options) -> bool {
    let name = entry.name.as_bstr();
    if options.refs_only && (!name.starts_with(b"refs/") || name.ends_with(b"^{}")) {
        return false;
    }
    if options.branches || options.tags {
        let branch = options.branches && name.starts_with(b"refs/heads/");
        let tag = options.tags && name.starts_with(b"refs/tags/");
        if !branch && !tag {
            return false;
        }
    }
    options.patterns.is_empty()
        || options
            .patterns
            .iter()
            .any(|pattern| tail_match(pattern.as_bstr(), name))
}

/// git puts `*/` before the pattern and a `/` before the name (builtin ls-remote's `tail_match`): a pattern matches whole path
/// components at the end.
fn tail_match(pattern: &BStr, name: &BStr) -> bool {
    let pattern = BString::from([b"*/", pattern.as_bytes()].concat());
    let name = BString::from([b"/", name.as_bytes()].concat());
    gix::glob::wildmatch(pattern.as_bstr(), name.as_bstr(), gix::glob::wildmatch::Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_components_at_the_end() {
        for (pattern, name, matches) in [
            ("main", "refs/heads/main", true),
            ("main", "refs/heads/not-main", false),
            ("heads/main", "refs/heads/main", true),
            ("refs/heads/*", "refs/heads/a/b", true),
            ("v1.*", "refs/tags/v1.2", true),
            ("HEAD", "HEAD", true),
            ("HEAD", "refs/remotes/origin/HEAD", true),
        ] {
            assert_eq!(tail_match(pattern.into(), name.into()), matches, "{pattern} {name}");
        }
    }

    #[test]
    fn refs_only_hides_pseudo_refs_and_peeled_tags() {
        let id = ObjectId::null(gix::hash::Kind::Sha1);
        let entry = |name: &str| RemoteRef {
            name: name.into(),
            id,
            symbolic: None,
        };
        let options = Options {
            refs_only: true,
            ..Options::default()
        };
        assert!(wanted(&entry("refs/tags/v1"), &options));
        assert!(!wanted(&entry("refs/tags/v1^{}"), &options));
        assert!(!wanted(&entry("HEAD"), &options));
        let heads = Options {
            branches: true,
            ..Options::default()
        };
        assert!(wanted(&entry("refs/heads/a"), &heads) && !wanted(&entry("refs/tags/a"), &heads));
    }
}
