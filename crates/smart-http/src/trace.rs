//! What `GIT_TRACE_CURL` will be made from: one `tracing` event a head line, under the target `rgit::http`, secrets redacted.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use rgit_transport::{Answer, Body, EarlyData, Wire};

use crate::{text::mask_control, url::redacted};

const TARGET: &str = "rgit::http";

/// The head of a request that is about to be sent.
pub(crate) fn request(method: &Method, url: &str, headers: &HeaderMap, body: &Body<'_>) {
    if !tracing::enabled!(target: TARGET, tracing::Level::DEBUG) {
        return;
    }
    tracing::debug!(target: TARGET, kind = "request", %method, url, length = ?body.length());
    for (name, value) in headers {
        tracing::debug!(target: TARGET, kind = "request-header", name = name.as_str(), value = shown(name, value));
    }
}

/// The head of an answer.
pub(crate) fn answer(response: &Response<Answer>) {
    if !tracing::enabled!(target: TARGET, tracing::Level::DEBUG) {
        return;
    }
    tracing::debug!(target: TARGET, kind = "answer", version = ?response.version(), status = response.status().as_u16());
    if let Some(wire) = response.extensions().get::<Wire>()
        && wire.early_data != EarlyData::Unused
    {
        tracing::debug!(target: TARGET, kind = "early-data", outcome = ?wire.early_data, resent = wire.resent);
    }
    for (name, value) in response.headers() {
        tracing::debug!(target: TARGET, kind = "answer-header", name = name.as_str(), value = shown(name, value));
    }
}

/// A header's value without what must not be seen. The scheme of an authorization stays, and the names of cookies: git shows them.
fn shown(name: &HeaderName, value: &HeaderValue) -> String {
    let text = mask_control(value.as_bytes());
    if *name == header::AUTHORIZATION || *name == header::PROXY_AUTHORIZATION {
        return match text.split_once(' ') {
            Some((scheme, _)) => format!("{scheme} <redacted>"),
            None => "<redacted>".into(),
        };
    }
    if *name == header::COOKIE {
        let cookies = text.split(';').map(|cookie| cookie_name(cookie.trim()));
        return cookies.collect::<Vec<_>>().join("; ");
    }
    if *name == header::SET_COOKIE {
        return cookie_name(&text);
    }
    if *name == header::LOCATION {
        return redacted(&text);
    }
    // Marked by whoever knew: extra headers are.
    if value.is_sensitive() {
        "<redacted>".into()
    } else {
        text
    }
}

fn cookie_name(cookie: &str) -> String {
    match cookie.split_once('=') {
        Some((name, _)) => format!("{name}=<redacted>"),
        None => "<redacted>".into(),
    }
}
