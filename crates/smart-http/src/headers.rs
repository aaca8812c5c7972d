//! The headers of a request: git's own set in git's order, then the user's extra ones.
//!
//! Extra headers are parsed once, so that a broken one fails before anything is sent, and are bound to one origin. They can't touch
//! what frames a message: that belongs to the transport.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::{Error, Options, Service, text::masked, url::Origin};

/// Framing and connection headers (RFC 9112, sections 6 and 9): a wrong one here smuggles requests.
const FRAMING: [&str; 8] = [
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
];

/// Headers whose meaning this room depends on: an extra header of that name is left out.
const OWN: [HeaderName; 3] = [
    header::CONTENT_TYPE,
    header::ACCEPT_ENCODING,
    HeaderName::from_static("git-protocol"),
];

/// The options that become headers, checked.
#[derive(Clone)]
pub(crate) struct Headers {
    agent: HeaderValue,
    accept_language: Option<HeaderValue>,
    extra: Vec<(HeaderName, Extra)>,
    /// Whom the extra headers are for.
    origin: Origin,
}

#[derive(Clone)]
enum Extra {
    Set(HeaderValue),
    Remove,
}

impl Headers {
    pub(crate) fn new(options: &Options, origin: Origin) -> Result<Headers, Error> {
        let agent = value("user-agent", &options.agent)?;
        if !options.agent.starts_with("git/") {
            return Err(Error::InvalidHeader {
                name: "user-agent".into(),
                reason: "it must begin with 'git/', by which servers know a client that speaks smart HTTP".into(),
            });
        }
        let accept_language = options
            .accept_language
            .as_deref()
            .map(|text| value("accept-language", text))
            .transpose()?;
        let lines = options.extra_headers.iter().filter(|line| !line.trim().is_empty());
        Ok(Headers {
            agent,
            accept_language,
            extra: lines
                .filter_map(|line| extra(line).transpose())
                .collect::<Result<_, _>>()?,
            origin,
        })
    }

    /// The headers of a discovery request (gitprotocol-http(5), "Smart Clients").
    pub(crate) fn discovery(&self, origin: &Origin, git_protocol: Option<&HeaderValue>) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(8 + self.extra.len());
        headers.insert(header::USER_AGENT, self.agent.clone());
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        // Nothing here decodes: a coded body would be refused, so none is asked for.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(language) = &self.accept_language {
            headers.insert(header::ACCEPT_LANGUAGE, language.clone());
        }
        headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
        self.finish(headers, origin, git_protocol)
    }

    /// The headers of a service request.
    pub(crate) fn post(&self, origin: &Origin, service: Service, git_protocol: Option<&HeaderValue>) -> HeaderMap {
        let (content_type, accept) = match service {
            Service::UploadPack => (
                "application/x-git-upload-pack-request",
                "application/x-git-upload-pack-result",
            ),
            Service::ReceivePack => (
                "application/x-git-receive-pack-request",
                "application/x-git-receive-pack-result",
            ),
        };
        let mut headers = HeaderMap::with_capacity(8 + self.extra.len());
        headers.insert(header::USER_AGENT, self.agent.clone());
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        if let Some(language) = &self.accept_language {
            headers.insert(header::ACCEPT_LANGUAGE, language.clone());
        }
        self.finish(headers, origin, git_protocol)
    }

    fn finish(&self, mut headers: HeaderMap, origin: &Origin, git_protocol: Option<&HeaderValue>) -> HeaderMap {
        if let Some(version) = git_protocol {
            headers.insert("git-protocol", version.clone());
        }
        if *origin == self.origin {
            // As curl has it: a configured header takes the place of the default one, then repeats add up.
            for (name, _) in &self.extra {
                headers.remove(name);
            }
            for (name, extra) in &self.extra {
                if let Extra::Set(value) = extra {
                    headers.append(name, value.clone());
                }
            }
        }
        headers
    }
}

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Headers")
            .field("agent", &self.agent)
            .field("extra", &self.extra.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// A `git-protocol` value such as `version=2` (gitprotocol-http(5)).
pub(crate) fn git_protocol(version: Option<&str>) -> Result<Option<HeaderValue>, Error> {
    version.map(|version| value("git-protocol", version)).transpose()
}

fn value(name: &str, text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| Error::InvalidHeader {
        name: name.to_owned(),
        reason: "its value holds a control character".into(),
    })
}

/// One configured line; `None` when its name is one of [`OWN`].
fn extra(line: &str) -> Result<Option<(HeaderName, Extra)>, Error> {
    // A line without its colon may be all secret: nothing of it is shown.
    let (name, text) = match line.split_once(':') {
        Some((name, text)) => (name, text.trim()),
        None => match line.trim_end().strip_suffix(';') {
            Some(name) => (name, ""),
            None => {
                return Err(Error::InvalidHeader {
                    name: "http.extraHeader".into(),
                    reason: "one of its lines has no ':' between name and value".into(),
                });
            }
        },
    };
    let refuse = |reason: &str| Error::InvalidHeader {
        name: masked(name.as_bytes(), 64),
        reason: reason.to_owned(),
    };
    let parsed = HeaderName::from_bytes(name.trim().as_bytes())
        .map_err(|_| refuse("that is no header name (http.extraHeader)"))?;
    let remove = text.is_empty() && line.contains(':');
    if !remove && FRAMING.contains(&parsed.as_str()) {
        return Err(refuse(
            "message framing is the transport's own; remove it from http.extraHeader",
        ));
    }
    if OWN.contains(&parsed) {
        tracing::debug!(target: "rgit::http", name = parsed.as_str(), "extra header left out: the session's own counts");
        return Ok(None);
    }
    if remove {
        return Ok(Some((parsed, Extra::Remove)));
    }
    let mut value =
        HeaderValue::from_bytes(text.as_bytes()).map_err(|_| refuse("its value holds a control character"))?;
    // Usually a token: out of Debug, and out of HTTP/2's compression table (RFC 7541, section 7.1.3).
    value.set_sensitive(true);
    Ok(Some((parsed, Extra::Set(value))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::url::RepositoryUrl;

    fn origin(url: &str) -> Origin {
        RepositoryUrl::parse(url).unwrap().0.origin
    }

    fn headers(extra: &[&str]) -> Result<Headers, Error> {
        let options = Options {
            extra_headers: extra.iter().map(|line| (*line).to_owned()).collect(),
            ..Options::default()
        };
        Headers::new(&options, origin("https://h"))
    }

    #[test]
    fn extra_headers_replace_add_and_remove() {
        let made = headers(&[
            "X-A: 1",
            "x-a:2 ",
            "Accept: text/x",
            "Pragma:",
            "X-Empty;",
            "",
            "Git-Protocol: version=7",
        ])
        .unwrap();
        let version = HeaderValue::from_static("version=2");
        let got = made.discovery(&origin("https://H:443"), Some(&version));
        assert_eq!(got.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(got.get_all("accept").iter().collect::<Vec<_>>(), ["text/x"]);
        assert_eq!((got.get("pragma"), got["x-empty"].as_bytes()), (None, &b""[..]));
        assert_eq!(got.get_all("git-protocol").iter().collect::<Vec<_>>(), ["version=2"]);
        let elsewhere = made.discovery(&origin("https://other"), None);
        assert_eq!(
            (elsewhere.get("x-a"), &elsewhere["accept"]),
            (None, &HeaderValue::from_static("*/*"))
        );
    }

    #[test]
    fn bad_extra_headers_are_refused_without_their_values() {
        for bad in [
            "Authorization Bearer hunter2",
            "X A: hunter2",
            ": hunter2",
            "X: hunter2\r\nEvil: 1",
            "Content-Length: hunter2",
            "Transfer-Encoding: hunter2",
            "X: a\0hunter2",
        ] {
            let err = headers(&[bad]).unwrap_err();
            assert!(matches!(err, Error::InvalidHeader { .. }));
            assert!(!format!("{err} {err:?}").contains("hunter2"), "{err}");
        }
        assert!(headers(&["Transfer-Encoding:", "Expect:"]).is_ok());
    }

    #[test]
    fn an_agent_must_begin_like_gits() {
        let options = Options {
            agent: "curl/8".into(),
            ..Options::default()
        };
        assert!(
            Headers::new(&options, origin("https://h"))
                .unwrap_err()
                .to_string()
                .contains("git/")
        );
    }

    proptest! {
        #[test]
        fn hostile_lines_make_at_most_one_clean_header(line in "[ -~\\r\\n\\x00\\t\u{e9}]{0,40}") {
            if let Ok(made) = headers(&[&format!("{line}:hunter2")]) {
                let got = made.discovery(&origin("https://h"), None);
                for (name, value) in &got {
                    prop_assert!(!value.as_bytes().iter().any(|b| matches!(b, b'\r' | b'\n' | 0)));
                    prop_assert!(!FRAMING.contains(&name.as_str()));
                }
                prop_assert!(got.len() <= 5);
                let shown = format!("{made:?} {got:?}");
                prop_assert!(!shown.contains("hunter2"), "{}", shown);
            }
        }
    }
}
