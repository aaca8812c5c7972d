//! Which ref names a push may speak of (git-check-ref-format(1)).
//!
//! Owns the check of names that come from the remote and of those sent to it. A name from the wire may end up as a path
//! below `.git/refs/remotes/`, so that `..` or control characters in it are an attack, not an oddity.

/// Whether `name` is well-formed and below `refs/`: the names that git's client takes from an advertisement when pushing,
/// and the only ones that receive-pack lets itself be asked to change.
pub fn is_pushable(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(b"refs/") else {
        return false;
    };
    rest != b"@"
        && !rest.ends_with(b".")
        && rest.split(|&byte| byte == b'/').all(|component| {
            !component.is_empty()
                && !component.starts_with(b".")
                && !component.ends_with(b".lock")
                && !component.iter().any(|&byte| is_forbidden(byte))
                && !component.windows(2).any(|pair| pair == b".." || pair == b"@{")
        })
}

fn is_forbidden(byte: u8) -> bool {
    byte.is_ascii_control() || matches!(byte, b' ' | b'~' | b'^' | b':' | b'?' | b'*' | b'[' | b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        for good in [
            "refs/heads/main",
            "refs/stash",
            "refs/heads/ä",
            "refs/for/main%topic=x",
            "refs/heads/@",
        ] {
            assert!(is_pushable(good.as_bytes()), "{good}");
        }
        assert!(is_pushable(b"refs/heads/\xff\xfe"), "names need not be UTF-8");
        for bad in [
            "",
            "refs/@",
            "HEAD",
            "refs",
            "refs/",
            ".have",
            "heads/main",
            "refs//main",
            "refs/heads/",
            "refs/heads/../../config",
            "refs/heads/.hidden",
            "refs/heads/a..b",
            "refs/heads/a.lock",
            "refs/a.lock/b",
            "refs/heads/a.",
            "refs/heads/a@{b",
            "refs/heads/a b",
            "refs/heads/a\tb",
            "refs/heads/a\nb",
            "refs/heads/a\x7f",
            "refs/tags/v1^{}",
            "refs/heads/a*",
            "refs/heads/a?",
            "refs/heads/a[",
            "refs/heads/a\\b",
            "refs/heads/a~1",
            "refs/heads/a:b",
            "refs/heads/a\0b",
        ] {
            assert!(!is_pushable(bad.as_bytes()), "{bad:?}");
        }
    }
}
