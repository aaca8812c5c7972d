//! Which repository a name, a URL or nothing at all stands for, and what is configured for it.
//!
//! Owns the reading of `remote.*`, `branch.<name>.remote` and `pushRemote`, `remote.pushDefault` and `url.<base>.insteadOf`
//! (git-config(1)). URLs stay the bytes the user wrote: they are rewritten, never parsed or normalised here, as a server may tell
//! `%7E` from `~`. It knows nothing of connections.

use bstr::{BStr, BString, ByteSlice};
use gix::{config::section::is_trusted, remote::Direction};

use crate::push::refspec::{Refspec, Side};

/// Why no repository could be named.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing was given to push to, and nothing is configured.
    #[error(
        "No configured push destination.\nEither specify the URL from the command-line or configure a remote repository using\n\n    \
         git remote add <name> <url>\n\nand then push using the remote name\n\n    git push <name>\n"
    )]
    NoPushDestination,
    /// Nothing was given to fetch from, and nothing is configured.
    #[error(
        "No remote repository specified.  Please, specify either a URL or a\nremote name from which new revisions should be fetched."
    )]
    NoFetchSource,
    /// The given name is empty.
    #[error("bad repository '{0}'")]
    BadName(BString),
    /// A configured refspec that can't be one.
    #[error("invalid refspec '{0}'")]
    InvalidRefspec(BString),
    /// `HEAD` could not be read.
    #[error("could not tell the current branch")]
    Head(#[source] gix::Error),
}

/// A repository elsewhere: where it is and what the configuration says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    label: BString,
    configured: bool,
    fetch_urls: Vec<BString>,
    push_urls: Vec<BString>,
    fetch_specs: Vec<BString>,
    push_specs: Vec<BString>,
    mirror: bool,
    tracking: Vec<Refspec>,
}

impl Remote {
    /// The remote to push to: `name_or_url`, or what `branch.<current>.pushRemote`, `remote.pushDefault`,
    /// `branch.<current>.remote` name, or the only remote, or `origin`.
    pub fn for_push(repo: &gix::Repository, name_or_url: Option<&BStr>) -> Result<Remote, Error> {
        let branch = current_branch(repo).map_err(Error::Head)?;
        Self::resolve(
            repo.config_snapshot().plumbing(),
            branch.as_ref().map(|name| name.as_bstr()),
            name_or_url,
            Direction::Push,
        )
    }

    /// The remote to fetch from: `name_or_url`, or what `branch.<current>.remote` names, or the only remote, or `origin`.
    pub fn for_fetch(repo: &gix::Repository, name_or_url: Option<&BStr>) -> Result<Remote, Error> {
        let branch = current_branch(repo).map_err(Error::Head)?;
        Self::resolve(
            repo.config_snapshot().plumbing(),
            branch.as_ref().map(|name| name.as_bstr()),
            name_or_url,
            Direction::Fetch,
        )
    }

    /// As [`for_push`](Self::for_push) and [`for_fetch`](Self::for_fetch), from configuration alone: for use where there is no
    /// repository. `current_branch` is a short name.
    pub fn resolve(
        config: &gix::config::File,
        current_branch: Option<&BStr>,
        name_or_url: Option<&BStr>,
        direction: Direction,
    ) -> Result<Remote, Error> {
        let label = match name_or_url {
            Some(name) if name.is_empty() => return Err(Error::BadName(name.to_owned())),
            Some(name) => name.to_owned(),
            None => default_name(config, current_branch, direction),
        };
        let remote = Self::named(config, label)?;
        if name_or_url.is_none() && !remote.configured && !looks_like_url(remote.label.as_bstr()) {
            return Err(match direction {
                Direction::Push => Error::NoPushDestination,
                Direction::Fetch => Error::NoFetchSource,
            });
        }
        Ok(remote)
    }

    /// The remote called `label` in `config`, or the repository at the URL `label`.
    fn named(config: &gix::config::File, label: BString) -> Result<Remote, Error> {
        let strings = |key: &str| -> Vec<BString> {
            config
                .strings_filter_by("remote", Some(label.as_bstr()), key, is_trusted)
                .unwrap_or_default()
        };
        let urls = resettable(strings("url"));
        let push_urls = resettable(strings("pushurl"));
        let configured = !urls.is_empty() || !push_urls.is_empty();
        // A remote without a URL is a section that only tunes the repository its name is the path or URL of.
        let urls = if urls.is_empty() { vec![label.clone()] } else { urls };

        let rewrites = Rewrites::read(config, "insteadOf");
        let push_rewrites = Rewrites::read(config, "pushInsteadOf");
        let fetch_urls: Vec<_> = urls.iter().map(|url| rewrites.apply_or_keep(url)).collect();
        let push_urls = if push_urls.is_empty() {
            // As git does: once one URL has a push form, only those that have one are pushed to.
            let rewritten: Vec<_> = urls.iter().filter_map(|url| push_rewrites.apply(url)).collect();
            if rewritten.is_empty() {
                fetch_urls.clone()
            } else {
                rewritten
            }
        } else {
            push_urls.iter().map(|url| rewrites.apply_or_keep(url)).collect()
        };

        let fetch_specs = strings("fetch");
        let tracking = fetch_specs
            .iter()
            .map(|spec| Refspec::parse(spec.as_bstr(), Side::Fetch).ok_or_else(|| Error::InvalidRefspec(spec.clone())))
            .collect::<Result<_, _>>()?;
        let mirror = config
            .boolean_filter_by("remote", Some(label.as_bstr()), "mirror", is_trusted)
            .ok()
            .flatten()
            .unwrap_or(false);
        Ok(Remote {
            push_specs: strings("push"),
            label,
            configured,
            fetch_urls,
            push_urls,
            fetch_specs,
            mirror,
            tracking,
        })
    }

    /// The name it is configured under, or `None` for a bare URL.
    pub fn name(&self) -> Option<&BStr> {
        self.configured.then(|| self.label.as_bstr())
    }

    /// The name, or else the URL as given: what git's messages and hooks call the remote.
    pub fn label(&self) -> &BStr {
        self.label.as_bstr()
    }

    /// The URL to fetch from, rewritten by `url.<base>.insteadOf`.
    pub fn fetch_url(&self) -> &BStr {
        // `named` puts the label in where nothing is configured, so there always is one.
        self.fetch_urls
            .first()
            .map_or(self.label.as_bstr(), |url| url.as_bstr())
    }

    /// All URLs to push to, one after the other: `pushurl`, or `url`, rewritten.
    pub fn push_urls(&self) -> &[BString] {
        &self.push_urls
    }

    /// `remote.<name>.fetch`.
    pub fn fetch_specs(&self) -> &[BString] {
        &self.fetch_specs
    }

    /// `remote.<name>.push`.
    pub fn push_specs(&self) -> &[BString] {
        &self.push_specs
    }

    /// `remote.<name>.mirror`: pushes behave as under `--mirror`.
    pub fn mirror(&self) -> bool {
        self.mirror
    }

    /// The local ref that follows `remote_ref` by the configured fetch refspecs.
    pub fn tracking_ref(&self, remote_ref: &BStr) -> Option<BString> {
        crate::push::refspec::map(&self.tracking, remote_ref).map(|(name, _force)| name)
    }
}

/// The short name of the branch `HEAD` is on, born or not.
pub(crate) fn current_branch(repo: &gix::Repository) -> Result<Option<BString>, gix::Error> {
    Ok(repo
        .head_name()?
        .and_then(|name| name.as_bstr().strip_prefix(b"refs/heads/").map(BString::from)))
}

fn default_name(config: &gix::config::File, branch: Option<&BStr>, direction: Direction) -> BString {
    let of_branch = |key: &str| config.string_filter_by("branch", Some(branch?), key, is_trusted);
    let pushed = || match direction {
        Direction::Push => of_branch("pushRemote").or_else(|| config.string_filter("remote.pushDefault", is_trusted)),
        Direction::Fetch => None,
    };
    pushed()
        .or_else(|| of_branch("remote"))
        .unwrap_or_else(|| only_remote_or_origin(config))
}

/// What git falls back to for a branch without a remote.
pub(crate) fn only_remote_or_origin(config: &gix::config::File) -> BString {
    let mut names: Vec<BString> = config
        .sections_by_name("remote")
        .into_iter()
        .flatten()
        .filter(|section| is_trusted(section.meta()))
        .filter_map(|section| section.header().subsection_name().map(ToOwned::to_owned))
        .collect();
    names.sort();
    names.dedup();
    match (names.pop(), names.is_empty()) {
        (Some(only), true) => only,
        _ => "origin".into(),
    }
}

fn looks_like_url(label: &BStr) -> bool {
    label.contains_str("://") || label.contains(&b'/') || label == "."
}

/// An empty value discards those before it.
fn resettable(values: Vec<BString>) -> Vec<BString> {
    let mut kept = Vec::with_capacity(values.len());
    for value in values {
        if value.is_empty() {
            kept.clear();
        } else {
            kept.push(value);
        }
    }
    kept
}

/// `url.<base>.<key>`: what begins with the value begins with `<base>` instead; the longest value wins.
struct Rewrites(Vec<(BString, BString)>);

impl Rewrites {
    fn read(config: &gix::config::File, key: &str) -> Rewrites {
        let mut rules = Vec::new();
        for section in config.sections_by_name("url").into_iter().flatten() {
            if let Some(base) = section
                .header()
                .subsection_name()
                .filter(|_| is_trusted(section.meta()))
            {
                rules.extend(section.values(key).into_iter().map(|prefix| (prefix, base.to_owned())));
            }
        }
        Rewrites(rules)
    }

    fn apply(&self, url: &BString) -> Option<BString> {
        let mut best: Option<&(BString, BString)> = None;
        for rule in self.0.iter().filter(|(prefix, _)| url.starts_with(prefix)) {
            if best.is_none_or(|best| rule.0.len() > best.0.len()) {
                best = Some(rule);
            }
        }
        let (prefix, base) = best?;
        let mut rewritten = base.clone();
        rewritten.extend_from_slice(&url[prefix.len()..]);
        Some(rewritten)
    }

    fn apply_or_keep(&self, url: &BString) -> BString {
        self.apply(url).unwrap_or_else(|| url.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(config: &str, branch: Option<&str>, name: Option<&str>, direction: Direction) -> Result<Remote, Error> {
        let file = gix::config::File::try_from(config).unwrap();
        Remote::resolve(&file, branch.map(BStr::new), name.map(BStr::new), direction)
    }

    #[test]
    fn the_push_remote_is_found_in_gits_order() {
        let mut config = String::from("[remote \"one\"]\n url = http://one\n[remote \"two\"]\n url = http://two\n");
        let label = |config: &str| {
            resolve(config, Some("main"), None, Direction::Push).map(|remote| remote.label().to_string())
        };
        assert!(
            matches!(label(&config), Err(Error::NoPushDestination)),
            "two remotes, none called origin"
        );
        config.push_str("[branch \"main\"]\n remote = one\n");
        assert_eq!(label(&config).unwrap(), "one");
        config.push_str("[remote]\n pushDefault = two\n");
        assert_eq!(label(&config).unwrap(), "two");
        config.push_str("[branch \"main\"]\n pushRemote = http://three/x\n");
        let remote = resolve(&config, Some("main"), None, Direction::Push).unwrap();
        assert_eq!((remote.label(), remote.name()), (BStr::new("http://three/x"), None));
        let fetch = resolve(&config, Some("main"), None, Direction::Fetch).unwrap();
        assert_eq!(fetch.label(), "one");
    }

    #[test]
    fn the_only_remote_stands_in_for_origin() {
        let config = "[remote \"solo\"]\n url = http://solo\n";
        assert_eq!(
            resolve(config, None, None, Direction::Fetch).unwrap().name().unwrap(),
            "solo"
        );
        assert!(matches!(
            resolve("", None, None, Direction::Fetch),
            Err(Error::NoFetchSource)
        ));
        assert!(matches!(
            resolve("", None, Some(""), Direction::Push),
            Err(Error::BadName(_))
        ));
    }

    #[test]
    fn urls_are_rewritten_by_the_longest_prefix_and_else_kept_byte_by_byte() {
        let config = "[remote \"origin\"]\n url = gh:a/%7Eb\n url = other:c\n\
                      [url \"https://h/\"]\n insteadOf = gh:\n\
                      [url \"https://long/\"]\n insteadOf = gh:a/\n\
                      [url \"https://push/\"]\n pushInsteadOf = gh:\n";
        let remote = resolve(config, None, Some("origin"), Direction::Push).unwrap();
        assert_eq!(remote.fetch_url(), "https://long/%7Eb");
        assert_eq!(remote.push_urls(), ["https://push/a/%7Eb"]);
        let url = resolve(config, None, Some("gh:x"), Direction::Push).unwrap();
        assert_eq!(
            (url.fetch_url(), url.push_urls()[0].as_bstr()),
            (BStr::new("https://h/x"), BStr::new("https://push/x"))
        );
    }

    #[test]
    fn several_push_urls_and_an_empty_one_that_discards() {
        let config = "[remote \"o\"]\n url = http://f\n pushurl = http://a\n pushurl =\n pushurl = http://b\n pushurl = http://c\n\
                      [url \"https://p/\"]\n pushInsteadOf = http://\n";
        let remote = resolve(config, None, Some("o"), Direction::Push).unwrap();
        assert_eq!(
            remote.push_urls(),
            ["http://b", "http://c"],
            "pushInsteadOf is not for explicit push URLs"
        );
    }

    #[test]
    fn tracking_refs_follow_the_fetch_refspecs() {
        let config = "[remote \"o\"]\n url = http://f\n fetch = +refs/heads/*:refs/remotes/o/*\n fetch = ^refs/heads/secret\n\
                      fetch = refs/tags/v1:refs/keep/v1\n";
        let remote = resolve(config, None, Some("o"), Direction::Push).unwrap();
        let tracking = |name: &str| remote.tracking_ref(name.into()).map(|name| name.to_string());
        assert_eq!(tracking("refs/heads/a/b").as_deref(), Some("refs/remotes/o/a/b"));
        assert_eq!(tracking("refs/tags/v1").as_deref(), Some("refs/keep/v1"));
        assert_eq!(tracking("refs/heads/secret"), None);
        assert_eq!(tracking("refs/notes/x"), None);
    }
}
