//! `GIT_CONFIG_PARAMETERS`: the `-c` settings of a `git` that runs rgit as an alias, a hook or a helper. gix doesn't read it.
//!
//! Each setting is quoted for a shell: `'key'='value'`, `'key'=` for one without a value, or, as older gits wrote, `'key=value'`.

use anyhow::{Result, bail};
use bstr::{BString, ByteSlice};

/// The settings as `key=value`, or `key` where there is no value.
pub(crate) fn read(text: &[u8]) -> Result<Vec<BString>> {
    let mut settings = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let Some((mut setting, after)) = quoted(rest) else {
            bail!("bogus format in GIT_CONFIG_PARAMETERS");
        };
        rest = after;
        if let Some(after) = rest.strip_prefix(b"=") {
            rest = after;
            if rest.first() == Some(&b'\'') {
                let Some((value, after)) = quoted(rest) else {
                    bail!("bogus format in GIT_CONFIG_PARAMETERS");
                };
                setting.push(b'=');
                setting.extend_from_slice(&value);
                rest = after;
            }
        }
        if rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
            bail!("bogus format in GIT_CONFIG_PARAMETERS");
        }
        settings.push(setting);
        rest = rest.trim_start();
    }
    Ok(settings)
}

/// A word in single quotes, in which `'\''` stands for a quote and `'\!'` for an exclamation mark; and what follows it.
fn quoted(text: &[u8]) -> Option<(BString, &[u8])> {
    let mut rest = text.strip_prefix(b"'")?;
    let mut word = BString::default();
    loop {
        let end = rest.find_byte(b'\'')?;
        word.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
        match rest {
            [b'\\', escaped @ (b'\'' | b'!'), b'\'', after @ ..] => {
                word.push(*escaped);
                rest = after;
            }
            _ => return Some((word, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_git_writes() {
        let read = |text: &str| {
            read(text.as_bytes()).map(|settings| settings.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(
            read("'a.b'='c d' 'e.f'= 'g.h=i' 'j.k'='it'\\''s'\\!''").unwrap(),
            ["a.b=c d", "e.f", "g.h=i", "j.k=it's!"]
        );
        assert!(read("").unwrap().is_empty());
        for bogus in ["a=b", "'a", "'a'='b", "'a'x", "'a'='b'x"] {
            assert!(read(bogus).is_err(), "{bogus}");
        }
    }
}
