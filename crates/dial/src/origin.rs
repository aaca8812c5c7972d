use std::{fmt, net::Ipv6Addr};

use crate::Error;

/// `http` or `https`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Plain TCP.
    Http,
    /// TLS over TCP.
    Https,
}

impl Scheme {
    /// The scheme as written in a URI.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port meant where a URI names none (RFC 9110, section 4.2).
    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whom to connect to: scheme, host and port (RFC 9110, section 4.3.1). Connections are shared within one origin only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Plain or TLS.
    pub scheme: Scheme,
    /// A name in lower case or an address; an IPv6 address without its brackets.
    pub host: String,
    /// The port, the scheme's default where the URI has none.
    pub port: u16,
}

impl Origin {
    /// The `host` header's value: the port is left out where it is the scheme's own (RFC 9110, section 7.2).
    pub fn host_header(&self) -> String {
        match self.port == self.scheme.default_port() {
            true => Bracketed(&self.host).to_string(),
            false => format!("{}:{}", Bracketed(&self.host), self.port),
        }
    }
}

impl TryFrom<&http::Uri> for Origin {
    type Error = Error;

    /// Takes what the URI names and drops its user and password.
    fn try_from(uri: &http::Uri) -> Result<Self, Error> {
        let refuse = |reason: &str| Error::Uri { reason: reason.into() };
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(other) => return Err(refuse(&format!("scheme {other:?} is neither http nor https"))),
            None => return Err(refuse("it is not absolute")),
        };
        let host = uri
            .host()
            .filter(|host| !host.is_empty())
            .ok_or_else(|| refuse("it names no host"))?;
        let host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) => match inner.parse::<Ipv6Addr>() {
                Ok(address) => address.to_string(),
                Err(_) => return Err(refuse("its host is no IPv6 address")),
            },
            None => host.to_ascii_lowercase(),
        };
        // `http` yields no port for one above 65535, too: that must not quietly become 443.
        let after_host = uri
            .authority()
            .map_or("", |authority| authority.as_str())
            .rsplit(']')
            .next()
            .unwrap_or("");
        let written = after_host
            .rsplit('@')
            .next()
            .and_then(|rest| rest.split_once(':'))
            .map_or("", |(_, port)| port);
        let port = match written {
            "" => scheme.default_port(),
            written => written
                .parse()
                .map_err(|_| refuse("its port is no number up to 65535"))?,
        };
        Ok(Origin { scheme, host, port })
    }
}

impl fmt::Display for Origin {
    /// `scheme://host:port`, the port always shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme, Bracketed(&self.host), self.port)
    }
}

struct Bracketed<'a>(&'a str);

impl fmt::Display for Bracketed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.contains(':') {
            true => write!(f, "[{}]", self.0),
            false => f.write_str(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(uri: &str) -> Result<Origin, Error> {
        Origin::try_from(&uri.parse::<http::Uri>().unwrap())
    }

    #[test]
    fn ports_hosts_and_brackets() {
        for (uri, shown, header) in [
            ("http://Example.com/x", "http://example.com:80", "example.com"),
            ("https://example.com", "https://example.com:443", "example.com"),
            (
                "https://example.com:8443/",
                "https://example.com:8443",
                "example.com:8443",
            ),
            ("http://example.com:443/", "http://example.com:443", "example.com:443"),
            ("http://[::1]:8080/", "http://[::1]:8080", "[::1]:8080"),
            ("http://[0:0::1]/", "http://[::1]:80", "[::1]"),
            ("https://127.0.0.1:443/", "https://127.0.0.1:443", "127.0.0.1"),
        ] {
            let origin = origin(uri).unwrap();
            assert_eq!(
                (origin.to_string(), origin.host_header()),
                (shown.into(), header.into()),
                "{uri}"
            );
        }
    }

    #[test]
    fn user_and_password_are_dropped() {
        let origin = origin("https://user:secret@example.com:99/x").unwrap();
        assert_eq!(origin.to_string(), "https://example.com:99");
        assert!(!format!("{origin:?}").contains("secret"));
    }

    #[test]
    fn what_cannot_be_dialled_is_refused() {
        for uri in [
            "/relative",
            "ftp://example.com/",
            "example.com:80",
            "http://example.com:99999/",
        ] {
            assert!(matches!(origin(uri), Err(Error::Uri { .. })), "{uri}");
        }
    }
}
