//! Which proxy git would use for a URL: `remote.<name>.proxy`, `http.proxy`, then the environment, less what `no_proxy` excepts.
//!
//! Owns the choice as git and libcurl make it. It connects to nothing.

use std::{ffi::OsString, net::IpAddr};

use bstr::{BStr, ByteSlice};
use gix::config::section::is_trusted;

use super::{Entries, Error};

/// A proxy, and where it was configured.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// The address as configured. May hold a password.
    pub address: String,
    /// The configuration key or the variable.
    pub source: String,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl Proxy {
    /// The proxy for `url` of the remote called `remote`, if git would use one.
    ///
    /// # Errors
    /// When a key holds no value.
    pub fn read(
        config: &gix::config::File,
        url: &BStr,
        remote: Option<&BStr>,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Proxy>, Error> {
        let text = url.to_str_lossy();
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(None);
        };
        let variable = |name: &str| {
            let address = environment(name)?.to_string_lossy().into_owned();
            Some(Proxy {
                address,
                source: name.to_owned(),
            })
        };
        let of_remote = remote.and_then(|name| {
            let address = config.string_filter_by("remote", Some(name), "proxy", is_trusted)?;
            Some(Proxy {
                address: address.to_string(),
                source: format!("remote.{name}.proxy"),
            })
        });
        let configured = match (of_remote, Entries::new(config, url).last("proxy")) {
            (Some(proxy), _) => Some(proxy),
            (None, None) => None,
            (None, Some(entry)) => Some(Proxy {
                address: entry.text()?.to_string(),
                source: entry.key.clone(),
            }),
        };
        // git's order (`get_curl_handle`); libcurl passes over HTTP_PROXY, which a CGI server sets from a header.
        let own: &[&str] = match scheme {
            "https" => &["https_proxy", "HTTPS_PROXY"],
            _ => &["http_proxy"],
        };
        let found = configured
            .or_else(|| {
                own.iter()
                    .chain(&["all_proxy", "ALL_PROXY"])
                    .find_map(|name| variable(name))
            })
            // An empty one switches proxies off.
            .filter(|proxy| !proxy.address.is_empty());
        let excepted = ["no_proxy", "NO_PROXY"].iter().find_map(|name| environment(name));
        let excepted = excepted
            .map(|hosts| hosts.to_string_lossy().into_owned())
            .unwrap_or_default();
        Ok(found.filter(|_| !is_excepted(host(rest), &excepted)))
    }
}

/// The host of what stands behind `://`, without user, port and brackets.
fn host(rest: &str) -> &str {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// libcurl's reading of `no_proxy` (CURLOPT_NOPROXY): names match themselves and what is below them, addresses themselves or a network.
fn is_excepted(host: &str, list: &str) -> bool {
    if list.trim() == "*" {
        return true;
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    list.split([',', ' ']).filter(|entry| !entry.is_empty()).any(|entry| {
        if let Some(address) = address {
            let entry = entry.trim_matches(['[', ']']);
            return match entry.split_once('/') {
                Some((network, bits)) => in_network(address, network, bits),
                None => entry.parse() == Ok(address),
            };
        }
        let entry = entry.strip_prefix('.').unwrap_or(entry);
        let entry = entry.strip_suffix('.').unwrap_or(entry).to_ascii_lowercase();
        host == entry || host.strip_suffix(&entry).is_some_and(|above| above.ends_with('.'))
    })
}

fn in_network(address: IpAddr, network: &str, bits: &str) -> bool {
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    let same =
        |one: u128, other: u128, width: u32| bits <= width && (bits == 0 || (one ^ other) >> (width - bits) == 0);
    match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => same(u32::from(one).into(), u32::from(other).into(), 32),
        (IpAddr::V6(one), IpAddr::V6(other)) => same(one.into(), other.into(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(config: &str, url: &str, remote: Option<&str>, environment: &[(&str, &str)]) -> Option<String> {
        let file = gix::config::File::try_from(config).unwrap();
        let environment = |name: &str| {
            let found = environment.iter().find(|(key, _)| *key == name)?;
            Some(OsString::from(found.1))
        };
        Proxy::read(&file, url.into(), remote.map(BStr::new), &environment)
            .unwrap()
            .map(|proxy| format!("{} {}", proxy.source, proxy.address))
    }

    #[test]
    fn git_looks_in_this_order() {
        let config = "[http]\n proxy = p:1\n[http \"https://in.example\"]\n proxy = \n[remote \"o\"]\n proxy = p:2\n";
        let variables = [("https_proxy", "e:1"), ("http_proxy", "e:2"), ("ALL_PROXY", "e:3")];
        let of = |url, remote| used(config, url, remote, &variables);
        assert_eq!(of("https://x/r", Some("o")).as_deref(), Some("remote.o.proxy p:2"));
        assert_eq!(of("https://x/r", None).as_deref(), Some("http.proxy p:1"));
        assert_eq!(of("https://in.example/r", None), None, "an empty one switches it off");
        let of = |url| used("", url, None, &variables);
        assert_eq!(of("https://x/r").as_deref(), Some("https_proxy e:1"));
        assert_eq!(of("http://x/r").as_deref(), Some("http_proxy e:2"));
        assert_eq!(
            used("", "http://x/r", None, &[("HTTP_PROXY", "e:2"), ("ALL_PROXY", "e:3")]).as_deref(),
            Some("ALL_PROXY e:3")
        );
        assert_eq!(used("", "https://x/r", None, &[]), None);
    }

    #[test]
    fn no_proxy_excepts() {
        for (host, list, excepted) in [
            ("a.example", "example", true),
            ("a.example", ".example,other", true),
            ("a.example", "b.example a.EXAMPLE.", true),
            ("badexample", "example", false),
            ("anything", "*", true),
            ("127.0.0.1", "localhost,127.0.0.1", true),
            ("127.0.0.1", "127.0.0.0/8", true),
            ("128.0.0.1", "127.0.0.0/8", false),
            ("10.0.0.1", "0.0.0.1", false),
            ("::1", "[::1]", true),
            ("::1", "::/127", true),
            ("x", "", false),
        ] {
            assert_eq!(is_excepted(host, list), excepted, "{host} {list}");
        }
        assert_eq!(host("me:p@w@h.example:8080/x"), "h.example");
        assert_eq!(host("[::1]:80/x"), "::1");
        let variables = [("https_proxy", "e:1"), ("no_proxy", "127.0.0.1")];
        assert_eq!(used("", "https://127.0.0.1:1/r", None, &variables), None);
        assert!(used("", "https://127.0.0.2:1/r", None, &variables).is_some());
    }
}
