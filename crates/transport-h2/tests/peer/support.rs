//! Making transports and requests.

use std::{
    io::{self, Read},
    sync::Arc,
    time::Duration,
};

use http::{Request, Response};
use rgit_dial::Dialer;
use rgit_transport::{Answer, Body, Error, Transport, Wire};
use rgit_transport_h2::{H2, Tuning};

/// Error codes (RFC 9113, section 7).
pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const INTERNAL_ERROR: u32 = 2;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;
pub(crate) const HTTP_1_1_REQUIRED: u32 = 13;

/// Long enough for a busy machine, short enough to end a test that hangs.
pub(crate) fn tuning() -> Tuning {
    Tuning::default()
        .prior_knowledge(true)
        .idle_timeout(Duration::from_secs(20))
}

pub(crate) fn with(tuning: Tuning) -> H2 {
    let dialer = Dialer::new(rgit_dial::Settings::default()).unwrap();
    H2::new(Arc::new(dialer), tuning).unwrap()
}

pub(crate) fn plain() -> H2 {
    with(tuning())
}

pub(crate) fn get(url: &str) -> Request<Body<'static>> {
    Request::get(url).body(Body::Empty).unwrap()
}

pub(crate) fn post<'b>(url: &str, body: Body<'b>) -> Request<Body<'b>> {
    Request::post(url).body(body).unwrap()
}

/// So many bytes, each telling its place.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// So many bytes, made while they are read.
pub(crate) fn endless(length: u64) -> impl Read + Send {
    io::repeat(b'x').take(length)
}

pub(crate) fn read(response: Response<Answer>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    response.into_body().read_to_end(&mut body).map(|_| body)
}

/// Exchange `request` and read the whole answer, which must come.
pub(crate) fn text(transport: &H2, request: Request<Body<'_>>) -> String {
    String::from_utf8(read(transport.exchange(request).unwrap()).unwrap()).unwrap()
}

pub(crate) fn wire<T>(response: &Response<T>) -> Wire {
    *response.extensions().get::<Wire>().unwrap()
}

/// The error with everything that it says.
pub(crate) fn said(err: &Error) -> String {
    let mut said = err.to_string();
    let mut source = std::error::Error::source(err);
    while let Some(err) = source {
        said.push_str(&format!(": {err}"));
        source = err.source();
    }
    said
}
