//! The refspecs of one fetch, what they ask the server to list, and what they ask for of what it lists.

use std::collections::HashMap;

use bstr::{BStr, BString, ByteSlice};
use gix::{ObjectId, protocol::handshake::Ref, protocol::ls_refs::RefPrefixes, remote::fetch::Tags};

use super::wanted::{ForMerge, Wanted};
use crate::{
    Error,
    push::refspec::{Refspec, Side, expansions, substitute},
};

/// The refspecs in use.
#[derive(Debug)]
pub(super) struct Specs {
    pub(super) list: Vec<Refspec>,
    /// The user gave them, or none are configured: what they name is for merge, and what they fetch moves tracking refs too.
    pub(super) given: bool,
}

impl Specs {
    /// `options` first, then what is configured, then `HEAD`.
    pub(super) fn choose(configured: &[BString], merges: &[BString], options: &super::Options) -> Result<Specs, Error> {
        let parsed = |spec: &BStr| parse(spec, options.force);
        if !options.refspecs.is_empty() {
            let mut list = Vec::new();
            let mut given = options.refspecs.iter();
            while let Some(spec) = given.next() {
                if spec != "tag" {
                    list.push(parsed(spec.as_bstr())?);
                    continue;
                }
                // `tag <name>` means refs/tags/<name>:refs/tags/<name> (git-fetch, "<refspec>").
                let name = given
                    .next()
                    .ok_or_else(|| Error::Usage("you need to specify a tag name".into()))?;
                list.push(parsed(
                    format!("refs/tags/{name}:refs/tags/{name}").as_bytes().as_bstr(),
                )?);
            }
            return Ok(Specs { list, given: true });
        }
        if configured.is_empty() && merges.is_empty() {
            return Ok(Specs {
                list: vec![parsed("HEAD".into())?],
                given: true,
            });
        }
        let list = configured
            .iter()
            .map(|spec| parsed(spec.as_bstr()))
            .collect::<Result<_, _>>()?;
        Ok(Specs { list, given: false })
    }

    /// Whether anything is stored in a ref: git follows tags only then (git-fetch, "--no-tags").
    pub(super) fn store(&self) -> bool {
        self.list.iter().any(|spec| destination(spec).is_some())
    }

    /// What the server may restrict its list to; `None` where it must list everything, and nothing in the list where it need not
    /// list anything.
    pub(super) fn prefixes(&self, merges: &[BString], tags: Tags) -> Option<Vec<BString>> {
        let mut prefixes: Vec<BString> = Vec::new();
        for spec in self.list.iter().filter(|spec| !spec.negative) {
            if spec.pattern {
                let star = spec.src.find_byte(b'*').unwrap_or(0);
                if star == 0 {
                    return None;
                }
                prefixes.push(spec.src[..star].into());
            } else if exact_id(spec).is_none() {
                prefixes.extend(expansions(source(spec)));
            }
        }
        prefixes.extend(merges.iter().flat_map(|merge| expansions(merge.as_bstr())));
        if tags != Tags::None {
            prefixes.push("refs/tags/".into());
        }
        Some(prefixes)
    }

    /// What these refspecs take of `refs`, in git's order.
    pub(super) fn select(&self, refs: &[Ref]) -> Result<Vec<Wanted>, Error> {
        let names: HashMap<&BStr, &Ref> = refs.iter().map(|listed| (listed.unpack().0, listed)).collect();
        let mut selected = Vec::new();
        for spec in self.list.iter().filter(|spec| !spec.negative) {
            let mut take = |name: Option<&BStr>, id: ObjectId, local: Option<BString>| {
                if name.is_some_and(|name| self.list.iter().any(|spec| spec.excludes(name))) {
                    return;
                }
                selected.push(Wanted {
                    remote: name.map(ToOwned::to_owned),
                    id,
                    local,
                    force: spec.force,
                    for_merge: if self.given { ForMerge::Yes } else { ForMerge::No },
                });
            };
            let target = destination(spec);
            if spec.pattern {
                for listed in refs {
                    let (name, Some(id), _) = listed.unpack() else { continue };
                    if let Some(local) = target.and_then(|to| substitute(spec.src.as_bstr(), name, to)) {
                        take(Some(name), id.to_owned(), Some(local));
                    }
                }
                continue;
            }
            let target = target.map(full_destination);
            if let Some(id) = exact_id(spec) {
                take(None, id, target);
                continue;
            }
            let (name, id) = find(&names, source(spec)).ok_or_else(|| Error::MissingRemoteRef {
                name: source(spec).to_owned(),
            })?;
            take(Some(name), id, target);
        }
        Ok(selected)
    }
}

/// The ref that `short` stands for there: the first of its expansions that the server has.
pub(super) fn find<'a>(names: &HashMap<&'a BStr, &'a Ref>, short: &BStr) -> Option<(&'a BStr, ObjectId)> {
    expansions(short).iter().find_map(|name| {
        let (name, id, _) = names.get(name.as_bstr())?.unpack();
        Some((name, id?.to_owned()))
    })
}

/// As gix's `ls-refs` takes them.
pub(super) fn ref_prefixes(prefixes: Vec<BString>) -> RefPrefixes {
    let mut all = RefPrefixes::new();
    all.extend(prefixes);
    all
}

fn parse(spec: &BStr, force: bool) -> Result<Refspec, Error> {
    let mut parsed =
        Refspec::parse(spec, Side::Fetch).ok_or_else(|| Error::Usage(format!("invalid refspec '{spec}'")))?;
    parsed.force |= force && !parsed.negative;
    Ok(parsed)
}

/// Nothing to the left of a colon is `HEAD`.
fn source(spec: &Refspec) -> &BStr {
    if spec.src.is_empty() {
        BStr::new("HEAD")
    } else {
        spec.src.as_bstr()
    }
}

/// Nothing to the right of a colon is `FETCH_HEAD` alone.
fn destination(spec: &Refspec) -> Option<&BStr> {
    spec.dst
        .as_ref()
        .filter(|to| !to.is_empty() && !spec.negative)
        .map(|to| to.as_bstr())
}

fn exact_id(spec: &Refspec) -> Option<ObjectId> {
    ObjectId::from_hex(&spec.src).ok()
}

/// A short name to the right of the colon is a branch's (git's `get_local_ref`).
fn full_destination(name: &BStr) -> BString {
    let prefix = if name.starts_with(b"refs/") {
        ""
    } else if [b"heads/".as_slice(), b"tags/", b"remotes/"]
        .iter()
        .any(|kind| name.starts_with(kind))
    {
        "refs/"
    } else {
        "refs/heads/"
    };
    let mut full = BString::from(prefix);
    full.extend_from_slice(name);
    full
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(list: &[&str]) -> Specs {
        Specs {
            list: list.iter().map(|spec| parse((*spec).into(), false).unwrap()).collect(),
            given: true,
        }
    }

    fn refs(names: &[&str]) -> Vec<Ref> {
        names
            .iter()
            .map(|name| Ref::Direct {
                full_ref_name: (*name).into(),
                object: ObjectId::null(gix::hash::Kind::Sha1),
            })
            .collect()
    }

    fn selected(list: &[&str], names: &[&str]) -> Vec<String> {
        specs(list)
            .select(&refs(names))
            .unwrap()
            .into_iter()
            .map(|wanted| {
                let local = wanted.local.map_or_else(String::new, |local| format!(":{local}"));
                format!("{}{local}", wanted.remote.unwrap_or_default())
            })
            .collect()
    }

    #[test]
    fn a_short_name_stands_for_one_ref_the_tag_before_the_branch() {
        let names = ["HEAD", "refs/heads/x", "refs/tags/x"];
        assert_eq!(selected(&["x:y"], &names), ["refs/tags/x:refs/heads/y"]);
        assert_eq!(selected(&["heads/x:heads/y"], &names), ["refs/heads/x:refs/heads/y"]);
        assert_eq!(selected(&[":y", "x:"], &names), ["HEAD:refs/heads/y", "refs/tags/x"]);
        assert!(matches!(
            specs(&["z"]).select(&refs(&names)),
            Err(Error::MissingRemoteRef { .. })
        ));
    }

    #[test]
    fn a_negative_refspec_leaves_out() {
        let names = ["refs/heads/a", "refs/heads/b", "refs/heads/tmp/c"];
        assert_eq!(
            selected(
                &["+refs/heads/*:refs/remotes/o/*", "^refs/heads/b", "^refs/heads/tmp/*"],
                &names
            ),
            ["refs/heads/a:refs/remotes/o/a"]
        );
    }

    #[test]
    fn only_refspecs_with_a_prefix_let_the_server_filter() {
        let can = |list: &[&str]| specs(list).prefixes(&[], Tags::None).is_some();
        assert!(can(&[
            "+refs/heads/*:refs/remotes/o/*",
            "HEAD",
            "main",
            "^refs/heads/x"
        ]));
        assert!(!can(&["*:refs/all/*", "HEAD"]));
        let id = "1".repeat(40);
        assert_eq!(specs(&[&id]).prefixes(&[], Tags::None), Some(Vec::new()));
    }
}
