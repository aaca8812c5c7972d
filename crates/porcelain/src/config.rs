//! What git's configuration says about HTTP for one URL: `http.*` and `http.<url>.*`, with the environment's overrides.
//!
//! Owns the reading and typing of these keys. It does not find configuration files (gix does), nor act on what it reads: the
//! caller hands [`HttpConfig::session_options`] to the session and `ssl_*` to the transport. The environment comes in as a
//! closure, so that nothing here depends on the process it runs in.

mod fsync;
mod protocol;
mod proxy;
mod url_match;

use std::{ffi::OsString, path::PathBuf};

use bstr::{BStr, BString, ByteSlice};
use gix::config::section::is_trusted;

use self::url_match::{NormalUrl, Rank};
pub use self::{fsync::Fsync, protocol::is_allowed, proxy::Proxy};

/// Git never makes its buffer smaller than one pkt-line can be (gitprotocol-common: 65520 bytes).
const SMALLEST_POST_BUFFER: u64 = 65520;

/// A value that git's configuration holds but that can't be what its key calls for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[error("bad value '{value}' for '{key}': expected {expected}")]
pub struct Error {
    /// The key as it stands in the configuration, the URL included.
    pub key: String,
    /// What it holds.
    pub value: BString,
    /// What it may hold.
    pub expected: &'static str,
}

/// Which redirects are followed: `http.followRedirects`.
pub use rgit_smart_http::FollowRedirects;

/// The HTTP settings that hold for one URL.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpConfig {
    /// `http.sslCAInfo` or `GIT_SSL_CAINFO`: certificates to trust instead of the system's.
    pub ssl_ca_info: Option<PathBuf>,
    /// `http.sslVerify`, and `false` when `GIT_SSL_NO_VERIFY` is set to anything.
    pub ssl_verify: bool,
    /// `http.extraHeader`, in order; an empty value discards those before it. May hold secrets.
    pub extra_headers: Vec<BString>,
    /// `http.postBuffer` in bytes: request bodies up to this size go out with a length, larger ones in chunks.
    pub post_buffer: u64,
    /// `http.followRedirects`.
    pub follow_redirects: FollowRedirects,
    /// `http.userAgent` or `GIT_HTTP_USER_AGENT`.
    pub user_agent: Option<String>,
}

impl std::fmt::Debug for HttpConfig {
    /// Headers are counted, not shown: they are a common place for tokens.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpConfig")
            .field("ssl_ca_info", &self.ssl_ca_info)
            .field("ssl_verify", &self.ssl_verify)
            .field("extra_headers", &self.extra_headers.len())
            .field("post_buffer", &self.post_buffer)
            .field("follow_redirects", &self.follow_redirects)
            .field("user_agent", &self.user_agent)
            .finish()
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        HttpConfig {
            ssl_ca_info: None,
            ssl_verify: true,
            extra_headers: Vec::new(),
            post_buffer: 1024 * 1024,
            follow_redirects: FollowRedirects::Initial,
            user_agent: None,
        }
    }
}

impl HttpConfig {
    /// Read what `config` says about `url`; `environment` looks up a variable of the process.
    ///
    /// Sections from files of other owners are passed over, as they could switch certificate checks off.
    ///
    /// # Errors
    /// When a key that applies holds a value of the wrong kind, which git refuses as well.
    pub fn read(
        config: &gix::config::File,
        url: &BStr,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<HttpConfig, Error> {
        let entries = Entries::new(config, url);
        let mut http = HttpConfig::default();
        let home = environment("HOME").map(PathBuf::from);
        if let Some(entry) = entries.last("sslCAInfo") {
            http.ssl_ca_info = Some(pathname(entry.text()?, home)).filter(|path| !path.as_os_str().is_empty());
        }
        if let Some(entry) = entries.last("sslVerify") {
            http.ssl_verify = entry.boolean("a boolean")?;
        }
        for entry in entries.all("extraHeader") {
            match entry.text()? {
                header if header.is_empty() => http.extra_headers.clear(),
                header => http.extra_headers.push(header.to_owned()),
            }
        }
        if let Some(entry) = entries.last("postBuffer") {
            let expected = "a number of bytes, with k, m or g behind it at will";
            let bytes: u64 = gix::config::Integer::from_bytes(entry.text()?).map_err(|_| entry.mismatch(expected))?;
            http.post_buffer = bytes.max(SMALLEST_POST_BUFFER);
        }
        if let Some(entry) = entries.last("followRedirects") {
            http.follow_redirects = match &entry.value {
                Some(value) if value == "initial" => FollowRedirects::Initial,
                _ if entry.boolean("'initial' or a boolean")? => FollowRedirects::Always,
                _ => FollowRedirects::Never,
            };
        }
        if let Some(entry) = entries.last("userAgent") {
            http.user_agent = Some(entry.text()?.to_str_lossy().into_owned());
        }

        if environment("GIT_SSL_NO_VERIFY").is_some() {
            http.ssl_verify = false;
        }
        if let Some(file) = environment("GIT_SSL_CAINFO").filter(|file| !file.is_empty()) {
            http.ssl_ca_info = Some(file.into());
        }
        if let Some(agent) = environment("GIT_HTTP_USER_AGENT") {
            http.user_agent = Some(agent.to_string_lossy().into_owned());
        }
        Ok(http)
    }

    /// The session's share of these settings, with `agent` as the user agent unless another is configured.
    pub fn session_options(&self, agent: &str) -> rgit_smart_http::Options {
        let mut options = rgit_smart_http::Options::default();
        options.agent = self.user_agent.clone().unwrap_or_else(|| agent.to_owned());
        options.extra_headers = self
            .extra_headers
            .iter()
            .map(|header| header.to_str_lossy().into_owned())
            .collect();
        options.post_buffer = self.post_buffer;
        options.follow_redirects = self.follow_redirects;
        options
    }
}

/// One `key = value` line that applies to the URL.
struct Entry {
    key: String,
    /// `None` for a key without `=`, which means true.
    value: Option<BString>,
}

impl Entry {
    fn mismatch(&self, expected: &'static str) -> Error {
        Error {
            key: self.key.clone(),
            value: self.value.clone().unwrap_or_default(),
            expected,
        }
    }

    fn text(&self) -> Result<&BStr, Error> {
        match &self.value {
            Some(value) => Ok(value.as_bstr()),
            None => Err(self.mismatch("a value behind '='")),
        }
    }

    fn boolean(&self, expected: &'static str) -> Result<bool, Error> {
        match &self.value {
            None => Ok(true),
            Some(value) => gix::config::Boolean::try_from(value.as_bstr())
                .map(bool::from)
                .map_err(|_| self.mismatch(expected)),
        }
    }
}

/// The `http` sections that fit the URL, in the order of the configuration.
struct Entries<'a> {
    sections: Vec<(Rank, gix::config::file::SectionRef<'a>)>,
}

impl<'a> Entries<'a> {
    fn new(config: &'a gix::config::File, url: &BStr) -> Self {
        let url = NormalUrl::parse(url);
        let sections = config
            .sections_by_name("http")
            .into_iter()
            .flatten()
            .filter(|section| is_trusted(section.meta()))
            .filter_map(|section| {
                let rank = match section.header().subsection_name() {
                    None => Rank::GENERIC,
                    Some(pattern) => url.as_ref()?.rank(&NormalUrl::parse(pattern)?)?,
                };
                Some((rank, section))
            })
            .collect();
        Entries { sections }
    }

    /// The values of `key`. A value less specific than one before it is passed over; git accumulates the others, so that a
    /// multi-valued key holds the generic ones too where these come first.
    fn all(&self, key: &str) -> Vec<Entry> {
        let mut best = Rank::GENERIC;
        let mut entries = Vec::new();
        for (rank, section) in &self.sections {
            if *rank < best || !section.contains_value_name(key) {
                continue;
            }
            best = *rank;
            let name = match section.header().subsection_name() {
                Some(pattern) => format!("http.{pattern}.{key}"),
                None => format!("http.{key}"),
            };
            entries.extend(section.values(key).into_iter().map(|value| Entry {
                key: name.clone(),
                value: Some(value),
            }));
            if section.value_implicit(key) == Some(None)
                && let Some(last) = entries.last_mut()
            {
                last.value = None;
            }
        }
        entries
    }

    fn last(&self, key: &str) -> Option<Entry> {
        self.all(key).pop()
    }
}

/// A `pathname` value: `~/` is the home directory (git-config(1)).
fn pathname(value: &BStr, home: Option<PathBuf>) -> PathBuf {
    match (value.strip_prefix(b"~/"), home) {
        (Some(rest), Some(home)) => home.join(gix::path::from_bstr(rest.as_bstr()).unwrap_or_default()),
        _ => gix::path::from_bstr(value).unwrap_or_default().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: &str, url: &str, environment: &[(&str, &str)]) -> Result<HttpConfig, Error> {
        let file = gix::config::File::try_from(config).unwrap();
        let environment = |name: &str| {
            let found = environment.iter().find(|(key, _)| *key == name)?;
            Some(OsString::from(found.1))
        };
        HttpConfig::read(&file, url.into(), &environment)
    }

    #[test]
    fn without_configuration_gits_defaults_hold() {
        let http = read("", "https://example.com/x", &[]).unwrap();
        assert_eq!(http, HttpConfig::default());
        assert!(http.ssl_verify);
        assert_eq!(http.post_buffer, 1 << 20);
    }

    #[test]
    fn the_most_specific_url_wins_and_of_equals_the_last() {
        let config = "[http \"https://example.com/a\"]\n postBuffer = 2m\n\
                      [http \"https://example.com\"]\n postBuffer = 3m\n sslVerify = false\n\
                      [http]\n postBuffer = 4m\n sslVerify\n\
                      [http \"https://EXAMPLE.com:443/a/\"]\n postBuffer = 5m\n";
        let mebi = 1 << 20;
        assert_eq!(
            read(config, "https://example.com/a/b", &[]).unwrap().post_buffer,
            5 * mebi
        );
        let shallow = read(config, "https://example.com/b", &[]).unwrap();
        assert_eq!((shallow.post_buffer, shallow.ssl_verify), (3 * mebi, false));
        let other = read(config, "https://example.org/a", &[]).unwrap();
        assert_eq!((other.post_buffer, other.ssl_verify), (4 * mebi, true));
    }

    #[test]
    fn headers_add_up_until_an_empty_one_or_a_more_specific_section() {
        let config = "[http]\n extraHeader = A: 1\n extraHeader =\n extraHeader = B: 2\n\
                      [http \"https://example.com\"]\n extraHeader = C: 3\n\
                      [http]\n extraHeader = D: 4\n";
        let header = |url| read(config, url, &[]).unwrap().extra_headers;
        assert_eq!(header("https://example.com/x"), ["B: 2", "C: 3"]);
        assert_eq!(header("https://example.org/x"), ["B: 2", "D: 4"]);
    }

    #[test]
    fn the_environment_overrides_and_its_presence_is_enough() {
        let config = "[http]\n sslVerify = true\n sslCAInfo = ~/ca.pem\n userAgent = mine\n followRedirects = true\n";
        let plain = read(config, "https://example.com", &[("HOME", "/home/x")]).unwrap();
        assert_eq!(plain.ssl_ca_info, Some("/home/x/ca.pem".into()));
        assert_eq!(plain.user_agent.as_deref(), Some("mine"));
        assert_eq!(plain.follow_redirects, FollowRedirects::Always);
        let environment = [
            ("GIT_SSL_NO_VERIFY", "0"),
            ("GIT_SSL_CAINFO", "/other.pem"),
            ("GIT_HTTP_USER_AGENT", "git/9"),
        ];
        let http = read(config, "https://example.com", &environment).unwrap();
        assert!(!http.ssl_verify);
        assert_eq!(http.ssl_ca_info, Some("/other.pem".into()));
        assert_eq!(http.session_options("git/1").agent, "git/9");
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_named_with_its_key() {
        let err = read("[http \"http://h\"]\n sslVerify = maybe\n", "http://h/x", &[]).unwrap_err();
        assert_eq!(
            err.to_string(),
            "bad value 'maybe' for 'http.http://h.sslVerify': expected a boolean"
        );
        assert!(read("[http]\n postBuffer = lots\n", "http://h/x", &[]).is_err());
        assert!(read("[http]\n extraHeader\n", "http://h/x", &[]).is_err());
    }

    #[test]
    fn debug_hides_headers() {
        let http = read("[http]\n extraHeader = Authorization: secret\n", "http://h/x", &[]).unwrap();
        assert!(!format!("{http:?}").contains("secret"));
    }

    #[test]
    fn git_agrees_on_which_section_applies() {
        let config = "[http]\n userAgent = generic\n\
                      [http \"https://*.example.com/a\"]\n userAgent = wild\n\
                      [http \"https://git.example.com\"]\n userAgent = host\n\
                      [http \"https://me@git.example.com\"]\n userAgent = user\n\
                      [http \"https://git.example.com/a/b\"]\n userAgent = path\n\
                      [http]\n userAgent = late\n";
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("config");
        std::fs::write(&file, config).unwrap();
        for url in [
            "https://git.example.com/",
            "https://me@git.example.com/",
            "https://git.example.com/a/b/c",
            "https://git.example.com/a/bc",
            "https://me@git.example.com/a/b",
            "https://www.example.com/a",
            "https://www.example.com/",
            "https://a.b.example.com/a",
            "http://git.example.com/a",
            "https://GIT.example.com:443/x/../a/%62",
        ] {
            let output = std::process::Command::new("git")
                .args(["config", "--file"])
                .arg(&file)
                .args(["--get-urlmatch", "http.userAgent", url])
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap())
                .env("HOME", home.path())
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .output()
                .unwrap();
            let theirs = String::from_utf8(output.stdout).unwrap();
            let ours = read(config, url, &[]).unwrap().user_agent.unwrap();
            assert_eq!(ours, theirs.trim_end(), "{url}");
        }
    }
}
