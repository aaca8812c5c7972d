//! The repository URL: parsed once, joined many times, never shown with its user or password.
//!
//! Path and query bytes stay as they were given (percent-encoding kept): a server may tell `%2F` from `/`. So nothing here
//! normalises; joining is concatenation, as in git. Only `http` and `https` are accepted.

use std::borrow::Cow;

use bstr::BString;
use percent_encoding::percent_decode_str;

use crate::{Error, Service, secret::Secret, text::masked};

/// Where bytes go: what credentials and extra headers are bound to (RFC 9110, section 4.3.1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) https: bool,
    /// Lower case; IPv6 in brackets.
    host: String,
    port: u16,
}

/// User and password that stood in the URL, percent-decoded.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) username: Secret,
    pub(crate) password: Option<Secret>,
}

/// One repository's base URL, without user, password and the one trailing slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepositoryUrl {
    pub(crate) origin: Origin,
    /// `scheme://host[:port]/path[?query]`.
    base: String,
    /// Where in `base` the authority ends.
    path_at: usize,
}

impl RepositoryUrl {
    /// Parse what a user or a configuration gave.
    pub(crate) fn parse(url: &str) -> Result<(RepositoryUrl, Option<Login>), Error> {
        let invalid = |reason: String| Error::InvalidUrl {
            url: redacted(url),
            reason,
        };
        match scheme(url) {
            Some(name) if is_http(name) => {}
            Some(name) => {
                return Err(Error::UnsupportedScheme {
                    scheme: masked(name.to_ascii_lowercase().as_bytes(), 32),
                    url: redacted(url),
                });
            }
            None if url.split_once(':').is_some_and(|(name, _)| is_http(name)) => {
                return Err(invalid("two slashes must follow its scheme".into()));
            }
            None => {
                let scheme = if looks_like_scp(url) { "ssh" } else { "file" };
                return Err(Error::UnsupportedScheme {
                    scheme: scheme.into(),
                    url: redacted(url),
                });
            }
        }
        let parts = Parts::split(url).map_err(invalid)?;
        if parts.rest.contains('#') {
            return Err(invalid(
                "a '#' starts a fragment, which is never sent to a server; write %23 if it belongs to the path".into(),
            ));
        }
        let login = parts.userinfo.map(login).transpose().map_err(invalid)?.flatten();
        let parsed = RepositoryUrl::from_parts(&parts, parts.rest.strip_suffix('/').unwrap_or(parts.rest));
        if let Err(err) = parsed.info_refs(Service::ReceivePack).parse::<http::Uri>() {
            return Err(invalid(format!(
                "{err}; spaces and other characters that URLs don't allow must be percent-encoded"
            )));
        }
        Ok((parsed, login))
    }

    /// The base that is left of `url` (absolute, as made by [`resolve`]) without `tail`; `None` when it doesn't end in it.
    pub(crate) fn strip(url: &str, tail: &str) -> Option<RepositoryUrl> {
        let base = url.strip_suffix(tail)?;
        let parts = Parts::split(base).ok()?;
        Some(RepositoryUrl::from_parts(&parts, parts.rest))
    }

    fn from_parts(parts: &Parts<'_>, path: &str) -> RepositoryUrl {
        let scheme = if parts.https { "https" } else { "http" };
        let mut base = format!("{scheme}://{}", parts.authority);
        let path_at = base.len();
        if path.starts_with('?') {
            base.push('/');
        }
        base.push_str(path);
        RepositoryUrl {
            origin: parts.origin(),
            base,
            path_at,
        }
    }

    /// The base, as it may be shown.
    pub(crate) fn as_str(&self) -> &str {
        &self.base
    }

    /// What follows the base in a discovery URL (gitprotocol-http(5), "Discovering References"). Where the base has a query
    /// already, the service joins it, exactly as git does.
    pub(crate) fn info_refs_tail(&self, service: Service) -> String {
        let join = if self.base.contains('?') { '&' } else { '?' };
        format!("/info/refs{join}service={service}")
    }

    /// The discovery URL.
    pub(crate) fn info_refs(&self, service: Service) -> String {
        format!("{}{}", self.base, self.info_refs_tail(service))
    }

    /// `http` or `https`.
    pub(crate) fn protocol(&self) -> &'static str {
        if self.origin.https { "https" } else { "http" }
    }

    /// Host and port as written: what git's credential protocol calls `host`.
    pub(crate) fn host(&self) -> &str {
        let authority = self.base.get(..self.path_at).unwrap_or_default();
        authority.split_once("://").map_or("", |(_, host)| host)
    }

    /// What git's credential protocol calls `path`: decoded, without slashes at its ends. Whether it counts is decided by
    /// `credential.useHttpPath`, in git.
    pub(crate) fn credential_path(&self) -> Option<BString> {
        let rest = self.base.get(self.path_at..).unwrap_or_default();
        let path = rest.trim_matches('/');
        (!path.is_empty()).then(|| Cow::from(percent_decode_str(path)).into_owned().into())
    }
}

/// An absolute http(s) URL taken apart, nothing decoded.
struct Parts<'a> {
    https: bool,
    userinfo: Option<&'a str>,
    /// `host[:port]`, as written, but never with an empty port.
    authority: &'a str,
    host: &'a str,
    port: Option<u16>,
    /// Path, query, fragment.
    rest: &'a str,
}

impl<'a> Parts<'a> {
    fn split(url: &'a str) -> Result<Parts<'a>, String> {
        let (scheme, after) = url.split_once("://").ok_or("it has no '://'")?;
        let https = scheme.eq_ignore_ascii_case("https");
        if !https && !scheme.eq_ignore_ascii_case("http") {
            return Err("only http and https are carried".into());
        }
        let end = after.find(['/', '?', '#']).unwrap_or(after.len());
        let (authority, rest) = after.split_at(end);
        let (userinfo, authority) = match authority.split_once('@') {
            // Git would split at the first '@', curl at the last: whoever wins, someone reads another host than was meant.
            Some((_, host)) if host.contains('@') => {
                return Err(
                    "more than one '@' before the host; write %40 for one that belongs to the user or password".into(),
                );
            }
            Some((userinfo, host)) => (Some(userinfo), host),
            None => (None, authority),
        };
        let (host, port) = split_port(authority)?;
        check_host(host)?;
        let (authority, port) = match port {
            None => (authority, None),
            Some("") => (host, None),
            Some(digits) => {
                let port = digits
                    .bytes()
                    .all(|b| b.is_ascii_digit())
                    .then(|| digits.parse::<u16>().ok());
                let port = port.flatten().filter(|port| *port != 0);
                (authority, Some(port.ok_or("its port is no number from 1 to 65535")?))
            }
        };
        Ok(Parts {
            https,
            userinfo,
            authority,
            host,
            port,
            rest,
        })
    }

    fn origin(&self) -> Origin {
        Origin {
            https: self.https,
            host: self.host.to_ascii_lowercase(),
            port: self.port.unwrap_or(if self.https { 443 } else { 80 }),
        }
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<&str>), String> {
    if authority.starts_with('[') {
        let end = authority.find(']').ok_or("its IPv6 address has no closing ']'")?;
        let (host, after) = authority.split_at(end + 1);
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err("something other than a port follows its IPv6 address".into()),
        };
    }
    match authority.split_once(':') {
        Some((_, port)) if port.contains(':') => Err("an IPv6 address must stand in brackets, as in [::1]".into()),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((authority, None)),
    }
}

fn check_host(host: &str) -> Result<(), String> {
    if host.is_empty() {
        return Err("it has no host".into());
    }
    if let Some(inside) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match inside.parse::<std::net::Ipv6Addr>() {
            Ok(_) => Ok(()),
            Err(_) => Err("what stands in brackets is no IPv6 address (zone identifiers are not carried)".into()),
        };
    }
    if !host.is_ascii() {
        return Err("its host is not ASCII; write the name in its punycode form (xn--...)".into());
    }
    match host
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~'))
    {
        true => Ok(()),
        false => Err("its host holds a character that no host name has".into()),
    }
}

fn login(userinfo: &str) -> Result<Option<Login>, String> {
    let (username, password) = match userinfo.split_once(':') {
        Some((username, password)) => (username, Some(password)),
        None => (userinfo, None),
    };
    let decode = |text: &str| Secret::new(Cow::from(percent_decode_str(text)).into_owned());
    let login = Login {
        username: decode(username),
        password: password.map(decode),
    };
    let mut values = std::iter::once(&login.username).chain(&login.password);
    if values.any(|value| value.expose().iter().any(|b| matches!(b, b'\n' | b'\r' | 0))) {
        return Err("its user or password holds a line break or NUL, which no credential may".into());
    }
    Ok((!userinfo.is_empty()).then_some(login))
}

fn is_http(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

fn is_scheme(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

fn scheme(url: &str) -> Option<&str> {
    url.split_once("://")
        .map(|(name, _)| name)
        .filter(|name| is_scheme(name))
}

/// `[user@]host:path`, unless a slash comes before the colon (git's own rule for telling it from a path).
fn looks_like_scp(url: &str) -> bool {
    url.find(':').is_some_and(|colon| !url[..colon].contains('/'))
}

/// `url` fit to be shown: whatever could be user or password is gone. Errs on the side of hiding, since an invalid URL may have
/// its password anywhere before the last '@'.
pub(crate) fn redacted(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
        _ => (None, url),
    };
    let rest = rest.rsplit_once('@').map_or(rest, |(_, after)| after);
    let shown = match scheme {
        Some(scheme) => format!("{scheme}://{rest}"),
        None => rest.to_owned(),
    };
    masked(shown.as_bytes(), 1000)
}

/// The absolute URL that a `location` value names (RFC 3986, section 5.2), seen from `from`; fragment and user info left out. The
/// error says what is wrong with it.
pub(crate) fn resolve(from: &str, location: &[u8]) -> Result<(String, Origin), String> {
    let location = encode_location(location.trim_ascii())?;
    let location = location.split('#').next().unwrap_or_default();
    if location.is_empty() {
        return Err("it names no target".into());
    }
    let base = Parts::split(from)?;
    let scheme = if base.https { "https" } else { "http" };
    let path = base.rest.split('?').next().unwrap_or_default();
    let absolute = if let Some((name, _)) = location.split_once(':').filter(|(name, _)| is_scheme(name)) {
        if !is_http(name) || !location[name.len()..].starts_with("://") {
            return Err(format!(
                "it leads to '{}', which is not carried",
                masked(name.as_bytes(), 32)
            ));
        }
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{}{location}", base.authority)
    } else if location.starts_with('?') {
        format!("{scheme}://{}{path}{location}", base.authority)
    } else {
        let (relative, query) = match location.split_once('?') {
            Some((relative, query)) => (relative, Some(query)),
            None => (location, None),
        };
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let merged = without_dots(&format!("{folder}/{relative}"));
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{scheme}://{}{merged}{query}", base.authority)
    };
    let parts = Parts::split(&absolute)?;
    let scheme = if parts.https { "https" } else { "http" };
    let slash = if parts.rest.starts_with('/') { "" } else { "/" };
    let target = format!("{scheme}://{}{slash}{}", parts.authority, parts.rest);
    target.parse::<http::Uri>().map_err(|err| err.to_string())?;
    Ok((target, parts.origin()))
}

/// Servers put raw UTF-8 and spaces into `location`; what a request line can't hold is percent-encoded, as browsers and curl do.
fn encode_location(location: &[u8]) -> Result<String, String> {
    let mut out = String::with_capacity(location.len());
    for &byte in location {
        match byte {
            0..=0x1f | 0x7f => return Err("it holds a control character".into()),
            b' ' | b'<' | b'>' | b'`' | 0x80.. => out.push_str(percent_encoding::percent_encode_byte(byte)),
            _ => out.push(char::from(byte)),
        }
    }
    Ok(out)
}

/// RFC 3986, section 5.2.4, for a path that begins with a slash.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
