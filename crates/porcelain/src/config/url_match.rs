//! Which `http.<url>.*` section applies to a URL: git's own rules (git-config(1), `http.<url>.*`).
//!
//! Both sides are normalised first: scheme and host in lower case, default ports left out, `.` and `..` resolved, needless
//! percent-escapes undone. Then scheme, port and host must agree (a `*` label in the pattern stands for exactly one label), the
//! pattern's path must be a prefix that ends at a `/`, and a user named by the pattern must be the URL's. Among matching patterns
//! the longer host wins, then the longer path, then the one that names a user; of equals, the later.

/// How well a pattern fits. Greater is more specific; [`Rank::GENERIC`] is that of plain `http.*` keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    host: usize,
    path: usize,
    user: bool,
}

impl Rank {
    pub(super) const GENERIC: Rank = Rank {
        host: 0,
        path: 0,
        user: false,
    };
}

/// A URL in the form in which patterns are compared with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NormalUrl {
    scheme: Vec<u8>,
    user: Option<Vec<u8>>,
    host: Vec<u8>,
    port: Vec<u8>,
    path: Vec<u8>,
}

impl NormalUrl {
    /// `None` when `url` has no scheme, holds an invalid escape, or climbs above its root with `..`.
    pub(super) fn parse(url: &[u8]) -> Option<NormalUrl> {
        let scheme_end = url.windows(3).position(|window| window == b"://")?;
        let (scheme, rest) = (&url[..scheme_end], &url[scheme_end + 3..]);
        if !scheme.first()?.is_ascii_alphabetic()
            || !scheme
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'-'))
        {
            return None;
        }
        let scheme = scheme.to_ascii_lowercase();
        let authority_end = rest
            .iter()
            .position(|b| matches!(b, b'/' | b'?' | b'#'))
            .unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(authority_end);
        let (user, host_port) = match authority.iter().rposition(|b| *b == b'@') {
            Some(at) => {
                let user = authority[..at].split(|b| *b == b':').next().unwrap_or_default();
                (Some(normal_escapes(user)?), &authority[at + 1..])
            }
            None => (None, authority),
        };
        let (host, port) = split_port(host_port)?;
        if host.is_empty() {
            return None;
        }
        let path_end = tail.iter().position(|b| matches!(b, b'?' | b'#')).unwrap_or(tail.len());
        Some(NormalUrl {
            port: normal_port(&scheme, port)?,
            scheme,
            user,
            host: host.to_ascii_lowercase(),
            path: normal_path(&tail[..path_end])?,
        })
    }

    /// How well `pattern` fits this URL, or `None` when it doesn't.
    pub(super) fn rank(&self, pattern: &NormalUrl) -> Option<Rank> {
        if self.scheme != pattern.scheme || self.port != pattern.port {
            return None;
        }
        if pattern.user.is_some() && pattern.user != self.user {
            return None;
        }
        let mut ours = self.host.split(|b| *b == b'.');
        let mut theirs = pattern.host.split(|b| *b == b'.');
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => break,
                (Some(_), Some(b"*")) => {}
                (Some(a), Some(b)) if a == b => {}
                _ => return None,
            }
        }
        Some(Rank {
            host: pattern.host.len(),
            path: prefix_length(&self.path, &pattern.path)?,
            user: pattern.user.is_some(),
        })
    }
}

/// The length of the match including the slash that ends it, real or implied.
fn prefix_length(path: &[u8], prefix: &[u8]) -> Option<usize> {
    let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
    match path.strip_prefix(prefix)?.first() {
        None | Some(b'/') => Some(prefix.len() + 1),
        Some(_) => None,
    }
}

fn split_port(host_port: &[u8]) -> Option<(&[u8], &[u8])> {
    // An IPv6 literal is full of colons; only one behind its bracket starts a port (RFC 3986, section 3.2.2).
    let literal_end = host_port.iter().rposition(|b| *b == b']').unwrap_or(0);
    match host_port[literal_end..].iter().position(|b| *b == b':') {
        Some(colon) => {
            let colon = literal_end + colon;
            let port = &host_port[colon + 1..];
            (port.len() <= 5 && port.iter().all(u8::is_ascii_digit)).then_some((&host_port[..colon], port))
        }
        None => Some((host_port, b"")),
    }
}

fn normal_port(scheme: &[u8], port: &[u8]) -> Option<Vec<u8>> {
    if port.is_empty() {
        return Some(Vec::new());
    }
    let number: u16 = std::str::from_utf8(port).ok()?.parse().ok()?;
    let default = match scheme {
        b"http" => 80,
        b"https" => 443,
        _ => 0,
    };
    Some(match number {
        0 => return None,
        number if number == default => Vec::new(),
        number => number.to_string().into_bytes(),
    })
}

fn normal_path(path: &[u8]) -> Option<Vec<u8>> {
    let mut normal = vec![b'/'];
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let mut segments = path.split(|b| *b == b'/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        let segment = normal_escapes(segment)?;
        match segment.as_slice() {
            b"." => {}
            b".." => {
                normal.pop()?;
                let parent = normal.iter().rposition(|b| *b == b'/')?;
                normal.truncate(parent + 1);
            }
            _ => {
                normal.extend_from_slice(&segment);
                if !last {
                    normal.push(b'/');
                }
            }
        }
    }
    Some(normal)
}

/// Decode escapes of unreserved characters, escape what a URL may not hold, and spell the remaining escapes in upper case.
fn normal_escapes(text: &[u8]) -> Option<Vec<u8>> {
    const UNSAFE: &[u8] = b" <>\"%{}|\\^`";
    const RESERVED: &[u8] = b":/?#[]@!$&'()*+,;=";
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        let (byte, escaped) = if byte == b'%' {
            let high = (bytes.next()? as char).to_digit(16)?;
            let low = (bytes.next()? as char).to_digit(16)?;
            ((high * 16 + low) as u8, true)
        } else {
            (byte, false)
        };
        if byte <= 0x1f || byte >= 0x7f || UNSAFE.contains(&byte) || (escaped && RESERVED.contains(&byte)) {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(url: &str, pattern: &str) -> Option<Rank> {
        NormalUrl::parse(url.as_bytes())
            .unwrap()
            .rank(&NormalUrl::parse(pattern.as_bytes())?)
    }

    #[test]
    fn patterns_match_as_git_config_documents() {
        let url = "https://user@Git.Example.com:443/a/b%7Ec/d.git";
        for (pattern, fits) in [
            ("https://git.example.com", true),
            ("https://git.example.com/", true),
            ("HTTPS://GIT.example.com:443/a", true),
            ("https://git.example.com/a/b~c", true),
            ("https://git.example.com/x/../a/./b~c/", true),
            ("https://*.example.com/a", true),
            ("https://user@git.example.com", true),
            ("https://user:secret@git.example.com", true),
            ("https://other@git.example.com", false),
            ("http://git.example.com", false),
            ("https://git.example.com:8443", false),
            ("https://example.com", false),
            ("https://*.com", false),
            ("https://git.example.com/a/b", false),
            ("https://git.example.com/a/b%zz", false),
            ("git.example.com", false),
        ] {
            assert_eq!(rank(url, pattern).is_some(), fits, "{pattern}");
        }
    }

    #[test]
    fn longer_hosts_then_longer_paths_then_users_win() {
        let url = "https://user@git.example.com/a/b";
        let order = [
            "https://*.example.com/a/b",
            "https://git.example.com",
            "https://user@git.example.com",
            "https://git.example.com/a",
            "https://user@git.example.com/a",
        ];
        for pair in order.windows(2) {
            assert!(rank(url, pair[0]) < rank(url, pair[1]), "{pair:?}");
        }
        assert!(Some(Rank::GENERIC) < rank(url, order[0]));
    }

    #[test]
    fn ports_belong_behind_the_bracket_of_an_ipv6_literal() {
        assert!(rank("http://[::1]:8080/x", "http://[::1]:8080").is_some());
        assert!(rank("http://[::1]:8080/x", "http://[::1]").is_none());
        assert!(rank("http://[::1]/x", "http://[::1]:80").is_some());
    }
}
