//! Answers that are given again without asking the server.
//!
//! Only where the client says that it may be ([`Rememberable`](rgit_transport::Rememberable)), the [`Judge`] says that the answer is of
//! the kind, and it came with status 200, without cookies and in at most 64 KiB. It is given to the same question only: same profile, same
//! URL, and the same headers to the last byte. Of the headers a keyed hash is kept, so that whoever knows no password gets no answer that
//! was made for one, and no password lies here.
//!
//! An entry lives for ten minutes, and goes with all others of its repository on any surprise: an answer under the repository's URL that
//! isn't a plain success, or none. A 401 to a request that named no user is none: it is how every request to such a server begins. They also
//! go when a client says that what it was given turned out wrong, which only who reads the answers can see.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Mutex,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, Uri, header};
use rgit_transport::{EarlyData, Wire};

use crate::{Profile, upstreams::lock};

/// Largest answer kept.
pub(crate) const LARGEST: u64 = 64 * 1024;
const AGE: Duration = Duration::from_secs(600);
/// Answers kept at a time.
const MOST: usize = 64;

/// Who knows what requests ask for.
#[derive(Debug, Clone, Copy)]
pub struct Judge {
    /// The URL of the repository that a request belongs to, if any.
    pub repository: fn(&Uri) -> Option<String>,
    /// Whether an answer with these headers and this body may be given again.
    pub is_lasting: fn(&HeaderMap, &[u8]) -> bool,
    /// Whether an answer with these headers is one that a Git server gives.
    pub is_expected: fn(&HeaderMap) -> bool,
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    profile: Profile,
    url: String,
    headers: [u64; 2],
}

/// An answer as it came.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) wire: Wire,
    repository: String,
    since: Instant,
}

#[derive(Debug)]
pub(crate) struct Memory {
    judge: Option<Judge>,
    keys: [RandomState; 2],
    kept: Mutex<HashMap<Key, Kept>>,
}

impl Memory {
    pub(crate) fn new(judge: Option<Judge>) -> Memory {
        Memory {
            judge,
            keys: [RandomState::new(), RandomState::new()],
            kept: Mutex::default(),
        }
    }

    /// The name of a question.
    pub(crate) fn key(&self, profile: &Profile, url: &Uri, headers: &HeaderMap) -> Key {
        let lines: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        Key {
            profile: profile.clone(),
            url: url.to_string(),
            headers: [0, 1].map(|at| self.keys[at].hash_one(&lines)),
        }
    }

    pub(crate) fn recall(&self, key: &Key) -> Option<Kept> {
        let mut kept = lock(&self.kept);
        kept.retain(|_, kept| kept.since.elapsed() < AGE);
        kept.get(key).cloned()
    }

    /// Keep an answer with this whole body, if it is of the kind.
    pub(crate) fn keep<T>(&self, key: Key, url: &Uri, response: &Response<T>, body: &[u8], wire: &Wire) {
        let Some(judge) = &self.judge else { return };
        let headers = response.headers();
        if response.status() != StatusCode::OK
            || headers.contains_key(header::SET_COOKIE)
            || body.len() as u64 > LARGEST
            || !(judge.is_lasting)(headers, body)
        {
            return;
        }
        let Some(repository) = (judge.repository)(url) else {
            return;
        };
        let mut all = lock(&self.kept);
        if all.len() < MOST {
            let mut wire = *wire;
            (wire.reused, wire.dial_time, wire.remembered) = (true, None, true);
            wire.early_data = EarlyData::Unused;
            all.insert(
                key,
                Kept {
                    headers: headers.clone(),
                    body: Bytes::copy_from_slice(body),
                    wire,
                    repository,
                    since: Instant::now(),
                },
            );
        }
    }

    /// Look at the outcome of a request to `url`, `None` where no answer came: is it what one would expect after what is remembered?
    pub(crate) fn look<T>(&self, url: &Uri, named_a_user: bool, outcome: Option<&Response<T>>) {
        let Some(judge) = &self.judge else { return };
        let is_expected = outcome.is_some_and(|response| match response.status() {
            StatusCode::OK => (judge.is_expected)(response.headers()),
            StatusCode::UNAUTHORIZED => !named_a_user,
            _ => false,
        });
        if !is_expected {
            self.forget(url);
        }
    }

    /// Forget all of the repository that `url` belongs to.
    pub(crate) fn forget(&self, url: &Uri) {
        let repository = self.judge.as_ref().and_then(|judge| (judge.repository)(url));
        if let Some(repository) = repository {
            lock(&self.kept).retain(|_, kept| kept.repository != repository);
        }
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.kept).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUDGE: Judge = Judge {
        repository: |uri| Some(uri.path().split('/').nth(1)?.to_owned()),
        is_lasting: |_, body| body.starts_with(b"lasting"),
        is_expected: |headers| !headers.contains_key("x-odd"),
    };

    fn response(status: u16, name: Option<&'static str>) -> Response<()> {
        let mut builder = Response::builder().status(status);
        if let Some(name) = name {
            builder = builder.header(name, "x");
        }
        builder.body(()).unwrap()
    }

    fn memory_with_answer(url: &Uri) -> Memory {
        let memory = Memory::new(Some(JUDGE));
        keep(&memory, url, &response(200, None), b"lasting");
        assert_eq!(memory.len(), 1);
        memory
    }

    fn keep(memory: &Memory, url: &Uri, response: &Response<()>, body: &[u8]) {
        let key = memory.key(&Profile::default(), url, &HeaderMap::new());
        let wire = Wire::new(http::Version::HTTP_11);
        memory.keep(key, url, response, body, &wire);
    }

    #[test]
    fn only_the_same_question_gets_the_answer() {
        let url = Uri::from_static("http://h/r/refs");
        let memory = memory_with_answer(&url);
        let recall = |profile: &Profile, url: &Uri, headers: &HeaderMap| {
            memory.recall(&memory.key(profile, url, headers)).is_some()
        };
        let (profile, none) = (Profile::default(), HeaderMap::new());
        assert!(recall(&profile, &url, &none));
        let kept = memory.recall(&memory.key(&profile, &url, &none));
        assert!(kept.is_some_and(|kept| kept.wire.remembered));
        let other = Profile {
            insecure: true,
            ..Profile::default()
        };
        assert!(!recall(&other, &url, &none));
        assert!(!recall(&profile, &Uri::from_static("http://h/r/refs?x"), &none));
        let named = HeaderMap::from_iter([(header::AUTHORIZATION, "Basic x".parse().unwrap())]);
        assert!(!recall(&profile, &url, &named));
        assert!(!format!("{memory:?}").contains("Basic"));
    }

    #[test]
    fn only_lasting_answers_are_kept() {
        let url = Uri::from_static("http://h/r/refs");
        let memory = Memory::new(Some(JUDGE));
        keep(&memory, &url, &response(200, None), b"refs");
        keep(&memory, &url, &response(404, None), b"lasting");
        keep(&memory, &url, &response(200, Some("set-cookie")), b"lasting");
        keep(&memory, &url, &response(200, None), &b"lasting".repeat(10_000));
        keep(&Memory::new(None), &url, &response(200, None), b"lasting");
        assert_eq!(memory.len(), 0);
    }

    #[test]
    fn a_surprise_takes_all_of_a_repository_away() {
        let url = Uri::from_static("http://h/r/refs");
        let post = Uri::from_static("http://h/r/post");
        for (outcome, named_a_user, left) in [
            (Some(response(200, None)), false, 1),
            (Some(response(401, None)), false, 1),
            (Some(response(401, None)), true, 0),
            (Some(response(404, None)), false, 0),
            (Some(response(200, Some("x-odd"))), false, 0),
            (None, false, 0),
        ] {
            let memory = memory_with_answer(&url);
            memory.look(&post, named_a_user, outcome.as_ref());
            assert_eq!(memory.len(), left, "{outcome:?}");
        }
        let memory = memory_with_answer(&url);
        memory.look::<()>(&Uri::from_static("http://h/other/post"), false, None);
        assert_eq!(memory.len(), 1);
    }
}
