//! Making transports, requests and answers.

use std::{
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use http::{Request, Response, Version};
use rgit_testkit::{
    certificate::ServerConfig,
    scripted::{Server, Step},
};
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

/// A transport under test, and the protocol of the servers it is tested against.
pub(crate) struct Mount {
    pub(crate) make: fn(Options) -> Arc<dyn Transport>,
    pub(crate) version: Version,
    /// How many TLS handshakes fail before the transport knows what the server speaks.
    pub(crate) refused: usize,
}

/// HTTP/1.1.
pub(crate) const H1: Mount = Mount {
    make: h1,
    version: Version::HTTP_11,
    refused: 0,
};

/// HTTP/2.
pub(crate) const H2: Mount = Mount {
    make: h2,
    version: Version::HTTP_2,
    refused: 0,
};

/// The one that chooses, with servers of HTTP/1.1.
pub(crate) const AUTO: Mount = Mount {
    make: auto,
    version: Version::HTTP_11,
    refused: 0,
};

/// The same, with servers that speak nothing but HTTP/2.
pub(crate) const AUTO_H2: Mount = Mount {
    make: auto_h2,
    version: Version::HTTP_2,
    refused: 1,
};

impl Mount {
    pub(crate) fn make(&self, options: Options) -> Arc<dyn Transport> {
        (self.make)(options)
    }

    /// Whether exchanges share a connection at the same time.
    pub(crate) fn multiplexes(&self) -> bool {
        self.version == Version::HTTP_2
    }

    /// What servers of this protocol take part in ALPN with.
    pub(crate) fn alpn(&self) -> &'static [&'static [u8]] {
        if self.multiplexes() { &[b"h2"] } else { &[b"http/1.1"] }
    }

    /// A server of this protocol.
    pub(crate) fn serve(&self, script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static) -> Server {
        match self.multiplexes() {
            true => Server::start_h2(script),
            false => Server::start(script),
        }
    }

    /// The same, over TLS. The script is asked for connections that pass the handshake, from 0.
    pub(crate) fn serve_tls(
        &self,
        config: Arc<ServerConfig>,
        script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static,
    ) -> Server {
        let refused = self.refused;
        let script = move |number: usize| script(number.saturating_sub(refused));
        match self.multiplexes() {
            true => Server::start_h2_tls(config, script),
            false => Server::start_tls(config, script),
        }
    }
}

/// Long enough for a busy machine, short enough to end a test that hangs.
const IDLE: Duration = Duration::from_secs(60);

fn dialer(options: &Options) -> Arc<rgit_dial::Dialer> {
    let mut dial = rgit_dial::Settings::default();
    dial.ca_file.clone_from(&options.ca_file);
    Arc::new(rgit_dial::Dialer::new(dial).expect("a dialer"))
}

pub(crate) fn h1(options: Options) -> Arc<dyn Transport> {
    let settings = rgit_transport_h1::Settings::default().idle_timeout(options.idle_timeout.unwrap_or(IDLE));
    Arc::new(rgit_transport_h1::H1::new(dialer(&options), settings))
}

pub(crate) fn h2(options: Options) -> Arc<dyn Transport> {
    let tuning = rgit_transport_h2::Tuning::default()
        .idle_timeout(options.idle_timeout.unwrap_or(IDLE))
        .prior_knowledge(true);
    Arc::new(rgit_transport_h2::H2::new(dialer(&options), tuning).expect("a transport"))
}

fn auto(options: Options) -> Arc<dyn Transport> {
    automatic(options, false)
}

fn auto_h2(options: Options) -> Arc<dyn Transport> {
    automatic(options, true)
}

fn automatic(options: Options, prior_knowledge: bool) -> Arc<dyn Transport> {
    let idle = options.idle_timeout.unwrap_or(IDLE);
    let h1 = rgit_transport_h1::Settings::default().idle_timeout(idle);
    let h2 = rgit_transport_h2::Tuning::default()
        .idle_timeout(idle)
        .prior_knowledge(prior_knowledge);
    Arc::new(rgit_transport_auto::Auto::new(dialer(&options), h1, h2))
}

/// The transport as tests want it.
pub(crate) fn plain(mount: &Mount) -> Arc<dyn Transport> {
    mount.make(Options::default())
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
pub(crate) fn echo(mount: &Mount) -> Server {
    mount.serve(|_| vec![echo_step()])
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
