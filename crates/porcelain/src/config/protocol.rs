//! Which URL schemes may be spoken at all: `protocol.allow`, `protocol.<name>.allow`, `GIT_ALLOW_PROTOCOL` (git-config(1)).

use std::ffi::OsString;

use bstr::{BStr, ByteSlice};
use gix::config::section::is_trusted;

use super::Error;

/// Whether the scheme of `url` is allowed, as git would decide of `http` and `https`, which are allowed unless something says otherwise.
///
/// # Errors
/// When a key holds a value that git doesn't know.
pub fn is_allowed(
    config: &gix::config::File,
    url: &BStr,
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<bool, Error> {
    let Some(scheme) = url.find("://").map(|end| url[..end].as_bstr()) else {
        return Ok(true);
    };
    if let Some(list) = environment("GIT_ALLOW_PROTOCOL") {
        return Ok(list.to_string_lossy().split(':').any(|allowed| scheme == allowed));
    }
    let own = config.string_filter_by("protocol", Some(scheme), "allow", is_trusted);
    let (key, value) = match own {
        Some(value) => (format!("protocol.{scheme}.allow"), value),
        None => match config.string_filter("protocol.allow", is_trusted) {
            Some(value) => ("protocol.allow".to_owned(), value),
            None => return Ok(true),
        },
    };
    if value.eq_ignore_ascii_case(b"always") {
        Ok(true)
    } else if value.eq_ignore_ascii_case(b"never") {
        Ok(false)
    } else if value.eq_ignore_ascii_case(b"user") {
        let from_user = environment("GIT_PROTOCOL_FROM_USER");
        Ok(from_user.is_none_or(|value| {
            gix::config::Boolean::try_from(gix::path::os_string_into_bstring(value).unwrap_or_default().as_bstr())
                .is_ok_and(bool::from)
        }))
    } else {
        Err(Error {
            key,
            value,
            expected: "'always', 'never' or 'user'",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_then_all_and_the_environment_before_both() {
        let allowed = |config: &str, environment: &[(&str, &str)]| {
            let file = gix::config::File::try_from(config).unwrap();
            let environment = |name: &str| {
                let found = environment.iter().find(|(key, _)| *key == name)?;
                Some(OsString::from(found.1))
            };
            is_allowed(&file, "https://h/r".into(), &environment)
        };
        assert!(allowed("", &[]).unwrap());
        let never = "[protocol]\n allow = never\n";
        assert!(!allowed(never, &[]).unwrap());
        assert!(allowed(&format!("{never}[protocol \"https\"]\n allow = always\n"), &[]).unwrap());
        assert!(!allowed("[protocol \"https\"]\n allow = Never\n", &[]).unwrap());
        assert!(allowed(never, &[("GIT_ALLOW_PROTOCOL", "file:https")]).unwrap());
        assert!(!allowed("", &[("GIT_ALLOW_PROTOCOL", "file:ssh")]).unwrap());
        let user = "[protocol]\n allow = user\n";
        assert!(allowed(user, &[]).unwrap());
        assert!(!allowed(user, &[("GIT_PROTOCOL_FROM_USER", "0")]).unwrap());
        assert!(allowed("[protocol]\n allow = maybe\n", &[]).is_err());
    }
}
