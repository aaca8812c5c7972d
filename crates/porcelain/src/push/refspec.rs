//! Refspecs as text: their parts, their patterns, and how a short name stands for a full one (git-push(1), gitrevisions(7)).
//!
//! Owns the grammar. What a refspec means for a given pair of repositories is [`matching`](super::matching)'s work.

use bstr::{BStr, BString, ByteSlice};

/// For which direction a refspec is read: the two differ in what may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Push,
    Fetch,
}

/// One refspec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refspec {
    /// It began with `+`.
    pub(crate) force: bool,
    /// It began with `^`: what it names is left out.
    pub(crate) negative: bool,
    /// It is `:`, which stands for the branches that both sides have.
    pub(crate) matching: bool,
    /// Its sides hold a `*`.
    pub(crate) pattern: bool,
    /// Left of the colon, `@` read as `HEAD`. Empty for a deletion.
    pub(crate) src: BString,
    /// Right of the colon; `None` without a colon.
    pub(crate) dst: Option<BString>,
}

impl Refspec {
    /// `:`, or what git pushes when it is given nothing.
    pub(crate) fn matching_branches() -> Self {
        Refspec {
            force: false,
            negative: false,
            matching: true,
            pattern: false,
            src: BString::default(),
            dst: None,
        }
    }

    /// `src:dst` of names known to be good.
    pub(crate) fn explicit(src: impl Into<BString>, dst: impl Into<BString>) -> Self {
        Refspec {
            force: false,
            negative: false,
            matching: false,
            pattern: false,
            src: src.into(),
            dst: Some(dst.into()),
        }
    }

    /// `None` where git says `invalid refspec`.
    pub(crate) fn parse(text: &BStr, side: Side) -> Option<Self> {
        let (force, negative, body) = match text.first() {
            Some(b'+') => (true, false, text[1..].as_bstr()),
            Some(b'^') => (false, true, text[1..].as_bstr()),
            _ => (false, false, text),
        };
        if side == Side::Push && !negative && body == ":" {
            return Some(Refspec {
                force,
                ..Self::matching_branches()
            });
        }
        // The last colon splits, so that a source may be `:/message` or `<rev>:<path>`.
        let (src, dst) = match body.rfind_byte(b':') {
            Some(_) if negative => return None,
            Some(colon) => (body[..colon].as_bstr(), Some(body[colon + 1..].as_bstr())),
            None => (body, None),
        };
        let src_pattern = src.contains(&b'*');
        let pattern = match dst {
            Some(dst) if dst.contains(&b'*') != src_pattern => return None,
            None if src_pattern && !negative && side == Side::Fetch => return None,
            _ => src_pattern,
        };
        let src = if src == "@" { BStr::new("HEAD") } else { src };

        let is_name = |name: &BStr| is_ref_name(name, pattern);
        let valid = if negative {
            is_name(src)
        } else if side == Side::Fetch {
            (src.is_empty() || is_name(src)) && dst.is_none_or(|dst| dst.is_empty() || is_name(dst))
        } else {
            match dst {
                None => is_name(src),
                Some(dst) => is_name(dst) && (!pattern || is_name(src)),
            }
        };
        valid.then(|| Refspec {
            force,
            negative,
            matching: false,
            pattern,
            src: src.to_owned(),
            dst: dst.map(ToOwned::to_owned),
        })
    }

    /// The right side, or the left one where there is no other.
    pub(crate) fn dst_or_src(&self) -> &BStr {
        self.dst.as_ref().unwrap_or(&self.src).as_bstr()
    }

    /// Whether this is a negative refspec that leaves `name` out.
    pub(crate) fn excludes(&self, name: &BStr) -> bool {
        self.negative
            && if self.pattern {
                captured(self.src.as_bstr(), name).is_some()
            } else {
                self.src == name
            }
    }

    /// Whether it names one thing to push, by itself: neither pattern, nor `:`, nor `^`.
    pub(crate) fn is_explicit(&self) -> bool {
        !self.pattern && !self.matching && !self.negative
    }
}

/// What `name`, standing on the left, becomes by the first of `specs` that matches it, and whether that one forces.
pub(crate) fn map(specs: &[Refspec], name: &BStr) -> Option<(BString, bool)> {
    if specs.iter().any(|spec| spec.excludes(name)) {
        return None;
    }
    specs.iter().filter(|spec| !spec.negative).find_map(|spec| {
        let dst = spec.dst.as_ref().filter(|dst| !dst.is_empty())?;
        let mapped = if spec.pattern {
            substitute(spec.src.as_bstr(), name, dst.as_bstr())?
        } else if spec.src == name {
            dst.clone()
        } else {
            return None;
        };
        Some((mapped, spec.force))
    })
}

/// What the `*` of `pattern` stands for in `name`.
fn captured<'a>(pattern: &BStr, name: &'a BStr) -> Option<&'a [u8]> {
    let star = pattern.find_byte(b'*')?;
    let (prefix, suffix) = (pattern.get(..star)?.as_bytes(), pattern.get(star + 1..)?.as_bytes());
    name.strip_prefix(prefix)?.strip_suffix(suffix)
}

/// `value` with its `*` replaced by what the one of `pattern` stands for in `name`.
pub(crate) fn substitute(pattern: &BStr, name: &BStr, value: &BStr) -> Option<BString> {
    let captured = captured(pattern, name)?;
    let star = value.find_byte(b'*')?;
    let mut result = BString::from(&value[..star]);
    result.extend_from_slice(captured);
    result.extend_from_slice(&value[star + 1..]);
    Some(result)
}

/// git-check-ref-format(1), one level allowed, and one `*` where `pattern`.
pub(crate) fn is_ref_name(name: &BStr, pattern: bool) -> bool {
    if !pattern {
        return gix::validate::reference::name_partial(name).is_ok();
    }
    let mut stars = name.iter().filter(|byte| **byte == b'*');
    match (stars.next(), stars.next()) {
        (Some(_), None) => gix::validate::reference::name_partial(name.replace("*", "x").as_bstr()).is_ok(),
        _ => false,
    }
}

/// The full names that `short` may stand for, in the order of gitrevisions(7).
pub(crate) fn expansions(short: &BStr) -> [BString; 6] {
    let expand = |prefix: &str, suffix: &str| {
        let mut name = BString::from(prefix);
        name.extend_from_slice(short);
        name.extend_from_slice(suffix.as_bytes());
        name
    };
    [
        expand("", ""),
        expand("refs/", ""),
        expand("refs/tags/", ""),
        expand("refs/heads/", ""),
        expand("refs/remotes/", ""),
        expand("refs/remotes/", "/HEAD"),
    ]
}

/// How many refs a short name could mean, and which one where it is one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<T> {
    Nothing,
    One(T),
    Several,
}

/// Look `short` up by all its [`expansions`]. A ref outside of branches and tags yields to one inside, unless it is spelled out
/// in full or from below `refs/`: else a push of `main` would be ambiguous between `heads/main` and `remotes/origin/main`.
pub(crate) fn find<T, E>(short: &BStr, mut lookup: impl FnMut(&BStr) -> Result<Option<T>, E>) -> Result<Found<T>, E> {
    let (mut strong, mut weak) = (Vec::new(), Vec::new());
    for name in expansions(short) {
        let Some(found) = lookup(name.as_bstr())? else {
            continue;
        };
        let spelled_out = name.len() == short.len() || name.len() == short.len() + "refs/".len();
        if spelled_out || name.starts_with(b"refs/heads/") || name.starts_with(b"refs/tags/") {
            strong.push(found);
        } else {
            weak.push(found);
        }
    }
    let mut found = if strong.is_empty() { weak } else { strong };
    Ok(match (found.pop(), found.is_empty()) {
        (None, _) => Found::Nothing,
        (Some(one), true) => Found::One(one),
        (Some(_), false) => Found::Several,
    })
}

/// Whether `short` may stand for the full name `name`.
pub(crate) fn stands_for(short: &BStr, name: &BStr) -> bool {
    expansions(short).iter().any(|candidate| candidate == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(text: &str) -> Option<Refspec> {
        Refspec::parse(text.into(), Side::Push)
    }

    #[test]
    fn every_form_of_a_push_refspec() {
        let spec = push("+main:refs/heads/x").unwrap();
        assert_eq!(
            (spec.force, &spec.src[..], spec.dst.unwrap()),
            (true, &b"main"[..], "refs/heads/x".into())
        );
        assert_eq!(push("@").unwrap().src, "HEAD");
        assert_eq!(push("@:x").unwrap().src, "HEAD");
        assert!(push(":gone").unwrap().src.is_empty());
        assert!(push(":").unwrap().matching);
        let forced = push("+:").unwrap();
        assert!(forced.matching && forced.force);
        assert!(push("refs/heads/*:refs/heads/x/*").unwrap().pattern);
        assert!(
            push("refs/tags/*").unwrap().pattern,
            "git pushes these to the same names"
        );
        assert!(push("^refs/heads/x*").unwrap().negative);
        assert_eq!(push("HEAD~1:x").unwrap().src, "HEAD~1");
        assert_eq!(push(":/fix: it:x").unwrap().src, ":/fix: it", "the last colon splits");
    }

    #[test]
    fn what_git_calls_invalid() {
        for text in [
            "",
            "a:",
            "HEAD~1",
            "a*:b",
            "a:b*",
            "a*b*:c*d*",
            "^a:b",
            "^",
            "a:b..c",
            "a:b c",
            "x.lock",
            "+",
        ] {
            assert_eq!(push(text), None, "{text}");
        }
    }

    #[test]
    fn git_agrees_on_validity() {
        let dir = tempfile::tempdir().unwrap();
        let run = |args: &[&str]| {
            std::process::Command::new("git")
                .args(args)
                .current_dir(dir.path())
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap())
                .env("HOME", dir.path())
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .output()
                .unwrap()
        };
        assert!(run(&["init", "-q"]).status.success());
        for text in [
            "main",
            "a:",
            "HEAD~1",
            "HEAD~1:x",
            "a*:b",
            "refs/heads/*",
            "^x",
            "^x:y",
            "+:",
            "@",
            "x.lock",
            ":a b",
            ":@",
        ] {
            let output = run(&["push", "./nowhere", text]);
            let refused = String::from_utf8_lossy(&output.stderr).contains("invalid refspec");
            assert_eq!(push(text).is_none(), refused, "{text}");
        }
    }

    #[test]
    fn patterns_carry_what_the_star_stands_for() {
        let substitute = |pattern: &str, name: &str, value: &str| substitute(pattern.into(), name.into(), value.into());
        assert_eq!(
            substitute("refs/heads/*", "refs/heads/a/b", "refs/x/*/y").unwrap(),
            "refs/x/a/b/y"
        );
        assert_eq!(substitute("refs/*/x", "refs/heads/x", "*").unwrap(), "heads");
        assert_eq!(
            substitute("ab*ba", "aba", "*"),
            None,
            "prefix and suffix may not overlap"
        );
    }

    #[test]
    fn short_names_prefer_branches_and_tags() {
        let lookup = |refs: &'static [&str], short: &str| {
            find::<_, ()>(short.into(), |name| {
                Ok(refs.iter().find(|known| *name == ***known).copied())
            })
            .unwrap()
        };
        let refs = &[
            "refs/heads/main",
            "refs/remotes/main",
            "refs/notes/n",
            "refs/tags/v",
            "refs/heads/v",
        ];
        assert_eq!(lookup(refs, "main"), Found::One("refs/heads/main"));
        assert_eq!(lookup(refs, "remotes/main"), Found::One("refs/remotes/main"));
        assert_eq!(lookup(refs, "notes/n"), Found::One("refs/notes/n"));
        assert_eq!(lookup(refs, "v"), Found::Several);
        assert_eq!(lookup(refs, "n"), Found::Nothing);
        assert_eq!(lookup(&["refs/remotes/o/HEAD"], "o"), Found::One("refs/remotes/o/HEAD"));
        assert!(stands_for("main".into(), "refs/heads/main".into()));
        assert!(!stands_for("main".into(), "refs/notes/main".into()));
    }
}
