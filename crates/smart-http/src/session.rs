//! The session: one repository URL, one transport, and what was learned about them on the way.

use std::{io::Read, sync::Arc};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use rgit_transport::{Answer, Body, Brief, Early, Rememberable, Repeatable, Transport, Wire};

use crate::{
    Credentials, Error, Options, Service, Unauthenticated,
    authenticate::{Challenges, Keyring},
    headers::Headers,
    post::Source,
    redirect,
    text::{MAX_REMOTE_TEXT, MediaType, masked, remote_text},
    trace,
    url::{Origin, RepositoryUrl},
};

/// How many exchanges are remembered; a fetch needs a handful.
const MAX_EXCHANGES: usize = 256;

/// How much of a body that nobody wants is read, so that its connection can be used again.
const MAX_DRAIN: u64 = 64 * 1024;

/// One HTTP exchange that the session made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exchange {
    /// `GET` or `POST`.
    pub method: Method,
    /// What the server answered.
    pub status: StatusCode,
    /// How it travelled, if the transport told.
    pub wire: Option<Wire>,
}

/// A session with one repository URL.
pub struct Session {
    transport: Arc<dyn Transport>,
    pub(crate) options: Options,
    headers: Headers,
    keyring: Keyring,
    /// The URL as given, without user and password.
    given: RepositoryUrl,
    /// Where requests go: the URL as given, until a discovery is redirected.
    pub(crate) base: RepositoryUrl,
    exchanges: Vec<Exchange>,
    brief: bool,
    /// What the last discovery told was remembered, by a daemon that was told before.
    pub(crate) remembered: bool,
    /// The next one is to ask the server.
    pub(crate) doubting: bool,
}

/// One request, as the session thinks of it.
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) service: Service,
    /// What follows the base URL.
    pub(crate) tail: String,
    pub(crate) git_protocol: Option<HeaderValue>,
}

/// The answer that redirects and credentials led to; its status is a success.
pub(crate) struct Landing {
    pub(crate) response: Response<Answer>,
    /// What was asked in the end.
    pub(crate) url: String,
    /// For a discovery that was redirected: the base that it leads to.
    pub(crate) moved: Option<RepositoryUrl>,
}

impl Session {
    /// A session with the repository at `url` (`http` or `https`; user and password may stand in it, and are never shown).
    ///
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// When the URL is none, or names another of git's transports, or an option can't be put into a header.
    pub fn new(
        transport: Arc<dyn Transport>,
        url: &str,
        options: Options,
        credentials: Box<dyn Credentials>,
    ) -> Result<Session, Error> {
        let (base, login) = RepositoryUrl::parse(url)?;
        Ok(Session {
            transport,
            headers: Headers::new(&options, base.origin.clone())?,
            keyring: Keyring::new(credentials, login.map(|login| (base.origin.clone(), login))),
            options,
            given: base.clone(),
            base,
            exchanges: Vec::new(),
            brief: false,
            remembered: false,
            doubting: false,
        })
    }

    /// The URL the session was made for, without user, password and trailing slash.
    pub fn url(&self) -> &str {
        self.given.as_str()
    }

    /// The URL that requests go to: another one than [`Session::url`] after a redirect.
    pub fn base_url(&self) -> &str {
        self.base.as_str()
    }

    /// Say that nothing large is going to be sent by this session: its requests are [`Brief`].
    pub fn be_brief(&mut self) {
        self.brief = true;
    }

    /// The exchanges made, oldest first; the last 256 of them.
    pub fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// A command that followed a discovery failed as if it had not been what the server offers ([`Error::is_contradiction`]). Whether
    /// that may come of the discovery: what it told was remembered from another time. It is worth making anew then, and asks the
    /// server itself.
    pub fn doubt(&mut self) -> bool {
        self.doubting = std::mem::take(&mut self.remembered);
        self.doubting
    }

    /// Send `ask` until a success comes: through redirects and one question for credentials per origin. Everything else is an error.
    pub(crate) fn ask(&mut self, ask: &Ask, source: &mut Source<'_>) -> Result<Landing, Error> {
        let is_discovery = ask.method == Method::GET;
        let mut url = format!("{}{}", self.base.as_str(), ask.tail);
        let mut origin = self.base.origin.clone();
        let mut hops = 0;
        // Ends: each turn uses up one of the hops, or gains an identity for an origin that then keeps being sent.
        loop {
            let authorization = self.keyring.authorization(&origin);
            let identified = authorization.is_some();
            let response = self.exchange(ask, source, &url, &origin, authorization)?;
            let status = response.status();
            if status.is_success() {
                if identified {
                    self.keyring.approve(&origin);
                }
                let moved = (is_discovery && hops > 0)
                    .then(|| self.rerooted(ask, &url))
                    .transpose()?;
                return Ok(Landing { response, url, moved });
            }
            if redirect::is_redirect(status, response.headers()) {
                let policy = self.options.follow_redirects;
                let target = redirect::next(policy, is_discovery, &url, &origin, response.headers(), hops)?;
                if !source.can_repeat() {
                    return Err(Error::Redirect {
                        from: url,
                        to: Some(masked(target.url.as_bytes(), 1000)),
                        reason: "the body was read once and can't be sent again to another place".into(),
                    });
                }
                drain(response);
                (url, origin) = (target.url, target.origin);
                hops += 1;
                continue;
            }
            if status != StatusCode::UNAUTHORIZED {
                return Err(refused(ask, url, response));
            }
            if identified {
                self.keyring.reject(&origin);
                drain(response);
                return Err(Error::Authentication {
                    url,
                    reason: Unauthenticated::Refused,
                });
            }
            let asking = match RepositoryUrl::strip(&url, &ask.tail) {
                Some(base) => base,
                // Before anyone is asked for a password: is this still the repository?
                None if is_discovery => self.rerooted(ask, &url)?,
                None => RepositoryUrl::parse(&url)?.0,
            };
            if !source.can_repeat() {
                return Err(Error::Authentication {
                    url,
                    reason: Unauthenticated::BodySpent,
                });
            }
            let challenges = Challenges::of(response.headers());
            drain(response);
            self.keyring.identify(&asking, &url, challenges)?;
        }
    }

    /// The base that a redirected discovery leads to: `url` without the tail that was asked for, as in git.
    fn rerooted(&self, ask: &Ask, url: &str) -> Result<RepositoryUrl, Error> {
        let tail = &ask.tail;
        RepositoryUrl::strip(url, tail).ok_or_else(|| Error::Redirect {
            from: format!("{}{tail}", self.base.as_str()),
            to: Some(masked(url.as_bytes(), 1000)),
            reason: format!(
                "unable to update url base from redirection: the new URL must end in '{tail}', or the requests that follow have no \
                 place to go; is this a login page, or a server that only redirects browsers?"
            ),
        })
    }

    fn exchange(
        &mut self,
        ask: &Ask,
        source: &mut Source<'_>,
        url: &str,
        origin: &Origin,
        authorization: Option<HeaderValue>,
    ) -> Result<Response<Answer>, Error> {
        let mut headers = match ask.method {
            Method::GET => self.headers.discovery(origin, ask.git_protocol.as_ref()),
            _ => self.headers.post(origin, ask.service, ask.git_protocol.as_ref()),
        };
        if let Some(value) = authorization {
            // In the place of a configured one, which was sent first and got the 401.
            headers.insert(header::AUTHORIZATION, value);
        }
        let body = source.attempt();
        trace::request(&ask.method, url, &headers, &body);
        let mut request = Request::new(body);
        *request.method_mut() = ask.method.clone();
        *request.uri_mut() = url.parse().map_err(|err: http::uri::InvalidUri| Error::InvalidUrl {
            url: url.to_owned(),
            reason: err.to_string(),
        })?;
        // A listing changes nothing, so that a replay of it gains nothing. But early data has no forward secrecy, and what lasts longer than
        // a connection (passwords, tokens, whatever the user configured) is worth more than the round trip that is spared.
        if ask.method == Method::GET && !headers.values().any(HeaderValue::is_sensitive) {
            request.extensions_mut().insert(Early);
        }
        *request.headers_mut() = headers;
        if self.brief {
            request.extensions_mut().insert(Brief);
        }
        if ask.service == Service::UploadPack {
            // It reads only. A push may not be repeated: its hooks would run twice, and its own success would refuse it.
            request.extensions_mut().insert(Repeatable);
            if ask.method == Method::GET
                && ask
                    .git_protocol
                    .as_ref()
                    .is_some_and(|protocol| protocol == "version=2")
            {
                // Where the server speaks that version, the answer names no refs.
                request.extensions_mut().insert(match self.doubting {
                    true => Rememberable::Anew,
                    false => Rememberable::Recall,
                });
            }
        }
        let response = self.transport.exchange(request)?;
        trace::answer(&response);
        if self.exchanges.len() == MAX_EXCHANGES {
            self.exchanges.remove(0);
        }
        self.exchanges.push(Exchange {
            method: ask.method.clone(),
            status: response.status(),
            wire: wire(&response),
        });
        Ok(response)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("url", &self.url())
            .field("base_url", &self.base_url())
            .field("transport", &self.transport)
            .field("keyring", &self.keyring)
            .finish_non_exhaustive()
    }
}

fn refused(ask: &Ask, url: String, response: Response<Answer>) -> Error {
    let code = response.status().as_u16();
    Error::Status {
        code,
        method: if ask.method == Method::GET { "GET" } else { "POST" },
        url,
        text: said(response),
    }
}

/// What a refusal says in plain text.
fn said(response: Response<Answer>) -> Option<String> {
    let media = MediaType::of(response.headers()).filter(MediaType::is_plain_text);
    if media.is_none() || is_coded(response.headers()).is_some() {
        drain(response);
        return None;
    }
    let mut text = Vec::new();
    // A text that breaks off is still the best there is.
    let mut body = response.into_body().take(MAX_REMOTE_TEXT as u64);
    body.read_to_end(&mut text).ok();
    remote_text(media.as_ref(), &text)
}

/// Check that an answer to `url` is what a smart server gives; gitprotocol-http(5) makes that the client's duty.
pub(crate) fn check_type(response: &Response<Answer>, url: &str, service: Service, kind: &str) -> Result<(), Error> {
    let media = MediaType::of(response.headers());
    let expected = format!("application/x-{service}-{kind}");
    let not_git = |reason: String| Error::NotGit {
        url: url.to_owned(),
        service,
        content_type: media.as_ref().map(|media| masked(media.essence.as_bytes(), 100)),
        reason,
    };
    if let Some(coding) = is_coded(response.headers()) {
        return Err(not_git(format!(
            "its body is coded as '{}', which was not asked for; is there a proxy that compresses?",
            masked(coding.as_bytes(), 32)
        )));
    }
    match media.as_ref().map(|media| media.essence.as_str()) {
        Some(essence) if essence == expected => Ok(()),
        Some("text/html") => Err(not_git(format!(
            "a web page came (text/html) where {expected} was expected; check that the URL is the repository's own (often it ends in \
             .git), and that no login page or proxy stands before it"
        ))),
        Some("text/plain") if kind == "advertisement" => Err(not_git(format!(
            "text/plain came where {expected} was expected: a plain file server speaks like that (git's 'dumb' HTTP protocol, not \
             carried here); check that the URL is right and that {service} is enabled on the server"
        ))),
        Some(other) => Err(not_git(format!(
            "'{}' came where {expected} was expected; check the URL, and that {service} is enabled on the server",
            masked(other.as_bytes(), 100)
        ))),
        None => Err(not_git(format!(
            "it gave no content type where {expected} was expected; check the URL"
        ))),
    }
}

pub(crate) fn is_coded(headers: &http::HeaderMap) -> Option<String> {
    let coding = headers.get(header::CONTENT_ENCODING)?;
    let coding = String::from_utf8_lossy(coding.as_bytes()).trim().to_ascii_lowercase();
    (!coding.is_empty() && coding != "identity").then_some(coding)
}

pub(crate) fn wire(response: &Response<Answer>) -> Option<Wire> {
    response.extensions().get::<Wire>().copied()
}

/// Read the rest of an unwanted body, if it is short: a connection reused is a round trip saved.
///
/// Not where no connection is saved, and the server could make us wait for an end that it sees no reason to come to: an answer that
/// came before the request's body was through, or one that only ends with its connection (RFC 9112, section 6.3).
fn drain(response: Response<Answer>) {
    let headers = response.headers();
    let framed = response.version() > http::Version::HTTP_11
        || headers.contains_key(header::CONTENT_LENGTH)
        || headers.contains_key(header::TRANSFER_ENCODING);
    let early = wire(&response).is_some_and(|wire| wire.early);
    if framed && !early {
        std::io::copy(&mut response.into_body().take(MAX_DRAIN), &mut std::io::sink()).ok();
    }
}

/// A body that needs none.
pub(crate) fn no_body<'a>() -> Source<'a> {
    Source::from(Body::Empty)
}
