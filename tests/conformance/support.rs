//! Making transports, requests and answers.

use std::{
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use http::{Request, Response};
use rgit_testkit::scripted::{Server, Step};
use rgit_transport::{Answer, Body, Error, Stage, Transport, Wire};

/// What a test may want of a transport.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) ca_file: Option<PathBuf>,
}

impl Options {
    /// Give up after so many milliseconds of silence.
    pub(crate) fn idle(milliseconds: u64) -> Options {
        Options {
            idle_timeout: Some(Duration::from_millis(milliseconds)),
            ..Options::default()
        }
    }

    pub(crate) fn trusting(ca_file: PathBuf) -> Options {
        Options {
            ca_file: Some(ca_file),
            ..Options::default()
        }
    }
}

/// A transport under test.
pub(crate) type Mount = dyn Fn(Options) -> Arc<dyn Transport>;

/// HTTP/1.1.
pub(crate) fn h1(options: Options) -> Arc<dyn Transport> {
    let mut dial = rgit_dial::Settings::default();
    dial.ca_file = options.ca_file;
    let mut settings = rgit_transport_h1::Settings::default();
    // Long enough for a busy machine, short enough to end a test that hangs.
    settings.idle_timeout = options.idle_timeout.unwrap_or(Duration::from_secs(60));
    let dialer = rgit_dial::Dialer::new(dial).expect("a dialer");
    Arc::new(rgit_transport_h1::H1::new(Arc::new(dialer), settings))
}

/// The transport as tests want it.
pub(crate) fn plain(mount: &Mount) -> Arc<dyn Transport> {
    mount(Options::default())
}

pub(crate) fn get(url: &str) -> Request<Body<'static>> {
    Request::get(url).body(Body::Empty).expect("a request")
}

pub(crate) fn post<'b>(url: &str, body: Body<'b>) -> Request<Body<'b>> {
    Request::post(url).body(body).expect("a request")
}

/// So many bytes, each telling its place.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// So many bytes, made while they are read.
pub(crate) fn endless(length: u64) -> impl Read + Send {
    io::repeat(b'x').take(length)
}

/// An answer with a content-length.
pub(crate) fn answer(status: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub(crate) fn ok(body: impl AsRef<[u8]>) -> Vec<u8> {
    answer("200 OK", body)
}

/// Bytes as one chunk.
pub(crate) fn chunk(data: impl AsRef<[u8]>) -> Vec<u8> {
    let data = data.as_ref();
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// The head of a chunked answer.
pub(crate) const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
/// The end of one.
pub(crate) const LAST_CHUNK: &str = "0\r\n\r\n";

/// A server that answers every request with its target.
pub(crate) fn echo() -> Server {
    Server::start(|_| vec![echo_step()])
}

pub(crate) fn echo_step() -> Step {
    Step::serve(|request| ok(request.target()))
}

/// The rest of an answer.
pub(crate) fn read(response: Response<Answer>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    response.into_body().read_to_end(&mut body).map(|_| body)
}

/// Exchange `request` and read the whole answer, which must come.
pub(crate) fn text(transport: &dyn Transport, request: Request<Body<'_>>) -> String {
    let response = transport.exchange(request).expect("an answer");
    String::from_utf8(read(response).expect("a whole answer")).expect("text")
}

pub(crate) fn wire<T>(response: &Response<T>) -> Wire {
    *response
        .extensions()
        .get::<Wire>()
        .expect("every answer tells how it travelled")
}

/// The stage at which `result` failed, with an origin and a source in its error.
pub(crate) fn failed<T: std::fmt::Debug>(result: Result<T, Error>, server: &str) -> Stage {
    let err = result.expect_err("no answer is possible");
    let stage = err
        .stage()
        .unwrap_or_else(|| panic!("no failure of the network: {err:?}"));
    let origin = server.split('/').take(3).collect::<Vec<_>>().join("/");
    assert!(err.to_string().contains(&origin), "{err} names no {origin}");
    assert!(
        std::error::Error::source(&err).is_some(),
        "{err:?} says nothing of the cause"
    );
    stage
}
