//! One request's way: log, rules, authentication, backend.
//!
//! Owns the order of these and the answers made up on the spot (401, canned ones). Knows no sockets.

use std::{
    fmt, io,
    sync::{Arc, RwLock},
};

use base64::Engine;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use crate::{
    backend::Backend,
    body::{Answer, Source},
    connection::Activity,
    reply::{self, Reply, Rest, Rule},
    requests::{self, Entry, Log},
    server::{Auth, Scope, Settings},
};

/// What all connections of one server ask.
pub(crate) struct Service {
    pub(crate) settings: Settings,
    pub(crate) log: Arc<Log>,
    backend: Backend,
    rules: RwLock<Vec<Rule>>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Service {
    pub(crate) fn new(settings: Settings, backend: Backend, log: Arc<Log>) -> Self {
        Service {
            settings,
            log,
            backend,
            rules: RwLock::default(),
        }
    }

    pub(crate) fn add(&self, rule: Rule) {
        self.rules
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .push(rule);
    }

    pub(crate) fn clear(&self) {
        self.rules
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .clear();
    }

    /// Answers one request; an error closes the connection (HTTP/1.1) or resets the stream (HTTP/2).
    pub(crate) async fn call(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: u64,
        activity: Arc<Activity>,
    ) -> io::Result<Response<Answer>> {
        let exchange = activity.begin();
        let (parts, body) = request.into_parts();
        let seen = requests::Request::of(connection, &parts);
        let respond = {
            let rules = self.rules.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            rules.iter().find_map(|rule| rule.apply(&seen))
        };
        let reply = respond.map_or_else(Reply::backend, |respond| respond.reply(&seen));
        let entry = self.log.open(seen);
        if let Some(gate) = &reply.gate {
            gate.pass().await;
        }
        let rest = reply.rest.unwrap_or(self.settings.rest);
        let mut response = self.source(&parts, body, &reply, rest, &entry).await?;
        for (name, value) in self.settings.headers.iter().chain(&reply.headers) {
            response.headers_mut().insert(name, value.clone());
        }
        let sized = !reply.chunked;
        if !sized || reply.shape.end.is_some() {
            response.headers_mut().remove(header::CONTENT_LENGTH);
        }
        entry.answered(response.status().as_u16());
        Ok(response.map(|inner| Answer::new(inner, reply.shape, sized, entry, activity, exchange)))
    }

    async fn source(
        &self,
        parts: &Parts,
        body: Incoming,
        reply: &Reply,
        rest: Rest,
        entry: &Arc<Entry>,
    ) -> io::Result<Response<Source>> {
        let (status, content, challenge) = match &reply.source {
            reply::Source::HangUp => return Err(io::Error::other("the connection was dropped on purpose")),
            reply::Source::Canned(status, content) => (*status, content.clone(), None),
            reply::Source::Backend(status) => match self.admit(parts) {
                Ok(user) => {
                    let mut response = self.backend.answer(parts, body, user, rest, entry.clone()).await?;
                    if let Some(status) = status {
                        *response.status_mut() = status_code(*status)?;
                    }
                    return Ok(response);
                }
                Err(auth) => {
                    let challenge = HeaderValue::from_str(&format!("Basic realm=\"{}\"", auth.realm));
                    (401, Bytes::from_static(b"Authentication required.\n"), challenge.ok())
                }
            },
        };
        match rest {
            Rest::Close => drop(body),
            Rest::First => drain(body, entry.clone()).await,
            Rest::Drain => drop(tokio::spawn(drain(body, entry.clone()))),
        }
        let mut response = Response::new(Full::new(content).map_err(|never| match never {}).boxed_unsync());
        *response.status_mut() = status_code(status)?;
        if let Some(challenge) = challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        }
        Ok(response)
    }

    /// The user that may ask this; `Err` when a password is wanted and not given.
    fn admit(&self, parts: &Parts) -> Result<Option<&str>, &Auth> {
        let Some(auth) = &self.settings.auth else {
            return Ok(None);
        };
        let given = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{}:{}", auth.user, auth.password));
        if given.and_then(|given| given.strip_prefix("Basic ")) == Some(pair.as_str()) {
            return Ok(Some(&auth.user));
        }
        let asks_for_push = || {
            parts.uri.path().ends_with("/git-receive-pack")
                || parts
                    .uri
                    .query()
                    .is_some_and(|query| query.contains("service=git-receive-pack"))
        };
        let guarded = match auth.scope {
            Scope::All => true,
            Scope::PostOnly => parts.method == http::Method::POST,
            Scope::PushOnly => asks_for_push(),
        };
        // A wrong password is refused even where none is needed.
        if guarded || given.is_some() {
            Err(auth)
        } else {
            Ok(None)
        }
    }
}

fn status_code(status: u16) -> io::Result<StatusCode> {
    StatusCode::from_u16(status).map_err(io::Error::other)
}

/// Reads a body nobody wants, so that the connection can carry the next request.
async fn drain(mut body: Incoming, entry: Arc<Entry>) {
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(data) = frame.data_ref() {
            entry.received(data.len());
        }
    }
}
