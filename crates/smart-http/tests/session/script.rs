//! A transport that expects requests in order and gives the answers written down for them.

use std::{
    collections::VecDeque,
    io::Read,
    sync::{Arc, Mutex},
};

use http::{HeaderMap, Request, Response};
use rgit_smart_http::{CredentialRequest, Credentials, CredentialsError, Identity, Options, Session};
use rgit_transport::{Answer, Body, Early, Error, Rememberable, Repeatable, Stage, Transport, Wire};

/// How much of a request's body the scripted server takes before it answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    All,
    Bytes(usize),
}

type NamedValue = (&'static str, String);

pub(crate) struct Step {
    expect: String,
    take: Take,
    stalls: bool,
    remembered: bool,
    /// `None` breaks the connection.
    answer: Option<(u16, Vec<NamedValue>, Vec<u8>)>,
}

/// What a request looked like.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) headers: HeaderMap,
    pub(crate) kind: &'static str,
    pub(crate) length: Option<u64>,
    pub(crate) body: Vec<u8>,
    pub(crate) repeatable: bool,
    pub(crate) rememberable: Option<Rememberable>,
    pub(crate) early: bool,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

#[derive(Default)]
pub(crate) struct Script {
    steps: Mutex<VecDeque<Step>>,
    seen: Mutex<Vec<Seen>>,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Script")
    }
}

/// `GET https://...` is answered by `status`, `name: value` headers and `body`.
pub(crate) fn step(expect: &str, status: u16, headers: &[(&'static str, &str)], body: impl AsRef<[u8]>) -> Step {
    Step {
        expect: expect.to_owned(),
        take: Take::All,
        stalls: false,
        remembered: false,
        answer: Some((
            status,
            headers
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned()))
                .collect(),
            body.as_ref().to_vec(),
        )),
    }
}

impl Step {
    pub(crate) fn taking(mut self, bytes: usize) -> Step {
        self.take = Take::Bytes(bytes);
        self
    }

    pub(crate) fn expecting(mut self, expect: &str) -> Step {
        self.expect = expect.to_owned();
        self
    }

    /// The answer came before the body was through, and its own body never ends: reading it would wait for ever.
    pub(crate) fn stalling(mut self) -> Step {
        self.stalls = true;
        self
    }

    /// The answer is given from memory.
    pub(crate) fn remembered(mut self) -> Step {
        self.remembered = true;
        self
    }

    pub(crate) fn broken(mut self) -> Step {
        self.answer = None;
        self
    }
}

impl Script {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Arc<Script> {
        Arc::new(Script {
            steps: Mutex::new(steps.into_iter().collect()),
            seen: Mutex::default(),
        })
    }

    /// All requests, provided that every step was reached.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let left = self
            .steps
            .lock()
            .unwrap()
            .iter()
            .map(|step| step.expect.clone())
            .collect::<Vec<_>>();
        assert!(left.is_empty(), "never asked: {left:?}");
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

impl Transport for Script {
    fn exchange(&self, request: Request<Body<'_>>) -> Result<Response<Answer>, Error> {
        let (head, body) = request.into_parts();
        let asked = format!("{} {}", head.method, head.uri);
        let step = self.steps.lock().unwrap().pop_front();
        let step = step.unwrap_or_else(|| panic!("not in the script: {asked}"));
        assert_eq!(asked, step.expect);
        let (kind, length) = (
            match &body {
                Body::Empty => "empty",
                Body::Full(_) => "full",
                Body::Replay { .. } => "replay",
                Body::Stream { .. } => "stream",
                _ => "unknown",
            },
            body.length(),
        );
        let mut sent = Vec::new();
        let mut reader: Box<dyn Read + '_> = match body {
            Body::Full(bytes) => Box::new(std::io::Cursor::new(bytes)),
            Body::Replay { mut factory, .. } if step.take != Take::Bytes(0) => factory().unwrap(),
            Body::Stream { reader, .. } => reader,
            _ => Box::new(std::io::empty()),
        };
        match step.take {
            Take::All => reader.read_to_end(&mut sent).map(drop),
            Take::Bytes(0) => Ok(()),
            Take::Bytes(bytes) => {
                sent.resize(bytes, 0);
                reader.read_exact(&mut sent)
            }
        }
        .map_err(|source| Error::Body { sent: 0, source })?;
        let mut wire = Wire::new(http::Version::HTTP_11);
        wire.sent = sent.len() as u64;
        self.seen.lock().unwrap().push(Seen {
            headers: head.headers,
            kind,
            length,
            body: sent,
            repeatable: head.extensions.get::<Repeatable>().is_some(),
            rememberable: head.extensions.get::<Rememberable>().copied(),
            early: head.extensions.get::<Early>().is_some(),
        });
        let Some((status, headers, body)) = step.answer else {
            let source = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            return Err(Error::broken(Stage::Wait, "https://h:443", wire.sent, source));
        };
        let body = std::io::Cursor::new(body);
        let mut response = Response::new(match step.stalls {
            true => Answer::new(body.chain(Stalled)),
            false => Answer::new(body),
        });
        wire.remembered = step.remembered;
        wire.early = step.stalls && head.method == http::Method::POST;
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
        for (name, value) in headers {
            response.headers_mut().append(name, value.parse().unwrap());
        }
        response.extensions_mut().insert(wire);
        Ok(response)
    }
}

/// A server that neither goes on nor closes.
struct Stalled;

impl Read for Stalled {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        panic!("this would wait for as long as the server likes")
    }
}

/// Credentials from a list, and a diary of what was asked and told.
#[derive(Default)]
pub(crate) struct Book {
    pub(crate) answers: VecDeque<Identity>,
    pub(crate) asked: Vec<CredentialRequest>,
    pub(crate) approved: Vec<String>,
    pub(crate) rejected: Vec<String>,
}

#[derive(Clone, Default)]
pub(crate) struct Diary(pub(crate) Arc<Mutex<Book>>);

impl Diary {
    pub(crate) fn with(answers: impl IntoIterator<Item = (&'static str, &'static str)>) -> Diary {
        let diary = Diary::default();
        diary.0.lock().unwrap().answers = answers
            .into_iter()
            .map(|(user, password)| Identity::new(user, password))
            .collect();
        diary
    }
}

impl Credentials for Diary {
    fn fill(&mut self, request: &CredentialRequest) -> Result<Option<Identity>, CredentialsError> {
        let mut book = self.0.lock().unwrap();
        book.asked.push(request.clone());
        Ok(book.answers.pop_front())
    }

    fn approve(&mut self, request: &CredentialRequest, identity: &Identity) {
        let told = format!("{} {}:{}", request.host, identity.username(), identity.password());
        self.0.lock().unwrap().approved.push(told);
    }

    fn reject(&mut self, request: &CredentialRequest, identity: &Identity) {
        let told = format!("{} {}:{}", request.host, identity.username(), identity.password());
        self.0.lock().unwrap().rejected.push(told);
    }
}

pub(crate) fn session(script: &Arc<Script>, url: &str) -> Session {
    session_with(script, url, |_| {}, &Diary::default())
}

pub(crate) fn session_with(script: &Arc<Script>, url: &str, set: impl FnOnce(&mut Options), diary: &Diary) -> Session {
    let mut options = Options::default();
    set(&mut options);
    Session::new(script.clone(), url, options, Box::new(diary.clone())).unwrap()
}

pub(crate) const UPLOAD: &str = "application/x-git-upload-pack-advertisement";
pub(crate) const RECEIVE: &str = "application/x-git-receive-pack-advertisement";
pub(crate) const RECEIVED: &str = "application/x-git-receive-pack-result";
pub(crate) const BASIC: &str = "Basic realm=\"git\"";

pub(crate) fn text(mut reader: impl Read) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}
