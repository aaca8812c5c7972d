//! The request's head as it goes out (RFC 9112, sections 3 and 6), and what of it decides framing and reuse.

use http::{HeaderMap, Method, header, request::Parts};
use rgit_dial::Origin;
use rgit_transport::{Body, Early, Error, Repeatable, authenticates_connection, has_token};

/// A request, checked and encoded. Without `Debug`: its head holds whatever credentials were given.
pub(crate) struct Request {
    pub(crate) origin: Origin,
    pub(crate) method: Method,
    /// Request line and headers, with the empty line.
    pub(crate) head: Vec<u8>,
    pub(crate) framing: Sending,
    /// Whether it may be processed twice.
    pub(crate) repeatable: bool,
    /// Whether it may go out before the handshake is through: then the head is all of it.
    pub(crate) early: bool,
    /// The caller asked for `connection: close`, or the connection will be its user's.
    pub(crate) closes: bool,
}

/// What stands in the request line (RFC 9112, section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Path and query, for the server itself.
    Origin,
    /// The whole URI, for somebody who passes the request on.
    Absolute,
}

/// How the request's body is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    Nothing,
    Length(u64),
    Chunked,
}

impl Request {
    pub(crate) fn new(parts: &Parts, body: &Body<'_>, target: Target) -> Result<Request, Error> {
        let origin = Origin::try_from(&parts.uri).map_err(|err| refuse(err.to_string()))?;
        if parts.method == Method::CONNECT {
            return Err(refuse("CONNECT makes a tunnel, not an exchange"));
        }
        let framing = framing(&parts.method, &parts.headers, body)?;
        let authenticates = authenticates_connection(&parts.headers);
        Ok(Request {
            head: encode(parts, &origin, framing, target),
            origin,
            method: parts.method.clone(),
            repeatable: parts.method.is_safe() || parts.extensions.get::<Repeatable>().is_some(),
            early: parts.extensions.get::<Early>().is_some()
                && [Method::GET, Method::HEAD].contains(&parts.method)
                && framing == Sending::Nothing
                && !authenticates,
            framing,
            closes: has_token(&parts.headers, header::CONNECTION, "close") || authenticates,
        })
    }
}

fn framing(method: &Method, headers: &HeaderMap, body: &Body<'_>) -> Result<Sending, Error> {
    let codings: Vec<_> = headers.get_all(header::TRANSFER_ENCODING).iter().collect();
    let given = match headers.get(header::CONTENT_LENGTH) {
        None => None,
        Some(value) => {
            let text = value.to_str().unwrap_or("");
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let length = text.parse::<u64>().ok().filter(|_| digits);
            Some(length.ok_or_else(|| refuse("its content-length is no number"))?)
        }
    };
    if headers.get_all(header::CONTENT_LENGTH).iter().count() > 1 {
        return Err(refuse("it has more than one content-length"));
    }
    match (codings.as_slice(), given) {
        ([], None) => {}
        ([], Some(given)) => match body.length() {
            Some(real) if real != given => {
                return Err(refuse(format!(
                    "its content-length is {given}, its body's length {real}"
                )));
            }
            _ => return Ok(Sending::Length(given)),
        },
        ([coding], None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => return Ok(Sending::Chunked),
        ([_, ..], Some(_)) => return Err(refuse("it has both content-length and transfer-encoding")),
        _ => return Err(refuse("its transfer-encoding is not just \"chunked\"")),
    }
    Ok(match body {
        // A POST without any framing would be read by some servers as one whose length is missing (RFC 9110, section 8.6).
        Body::Empty if [Method::POST, Method::PUT, Method::PATCH].contains(method) => Sending::Length(0),
        Body::Empty => Sending::Nothing,
        body => body.length().map_or(Sending::Chunked, Sending::Length),
    })
}

fn encode(parts: &Parts, origin: &Origin, framing: Sending, form: Target) -> Vec<u8> {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut head = Vec::with_capacity(512);
    head.extend_from_slice(parts.method.as_str().as_bytes());
    head.push(b' ');
    if form == Target::Absolute {
        head.extend_from_slice(origin.to_string().as_bytes());
    }
    if !target.starts_with('/') {
        // `http://host?query`: the path of an http URI is never empty on the wire (RFC 9112, section 3.2.1).
        head.push(b'/');
    }
    head.extend_from_slice(target.as_bytes());
    head.extend_from_slice(b" HTTP/1.1\r\n");
    // `host` first, as RFC 9110, section 7.2 asks.
    match parts.headers.get(header::HOST) {
        Some(given) => line(&mut head, "host", given.as_bytes()),
        None => line(&mut head, "host", origin.host_header().as_bytes()),
    }
    for (name, value) in &parts.headers {
        if name != header::HOST && name != header::CONTENT_LENGTH && name != header::TRANSFER_ENCODING {
            line(&mut head, name.as_str(), value.as_bytes());
        }
    }
    match framing {
        Sending::Nothing => {}
        Sending::Length(length) => line(&mut head, "content-length", length.to_string().as_bytes()),
        Sending::Chunked => line(&mut head, "transfer-encoding", b"chunked"),
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Names and values come from `http`'s types, which hold no line breaks.
pub(crate) fn line(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

fn refuse(reason: impl Into<String>) -> Error {
    Error::Request { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(build: http::request::Builder, body: Body<'_>) -> Result<Request, Error> {
        let (parts, body) = build.body(body).unwrap().into_parts();
        Request::new(&parts, &body, Target::Origin)
    }

    fn head(build: http::request::Builder, body: Body<'_>) -> String {
        String::from_utf8(request(build, body).unwrap().head).unwrap()
    }

    #[test]
    fn only_framing_is_added_and_the_user_is_not_sent() {
        let get = http::Request::get("http://user:secret@Example.com:8080/a%2Fb//c?q=1&r")
            .header("git-protocol", "version=2");
        assert_eq!(
            head(get, Body::Empty),
            "GET /a%2Fb//c?q=1&r HTTP/1.1\r\nhost: example.com:8080\r\ngit-protocol: version=2\r\n\r\n"
        );
        assert_eq!(
            head(http::Request::get("https://[::1]?q"), Body::Empty),
            "GET /?q HTTP/1.1\r\nhost: [::1]\r\n\r\n"
        );
    }

    #[test]
    fn whoever_passes_it_on_gets_the_whole_uri_without_the_user() {
        for (uri, line) in [
            ("http://user:secret@h/a?b", "GET http://h:80/a?b HTTP/1.1"),
            ("https://[::1]:8443?q", "GET https://[::1]:8443/?q HTTP/1.1"),
        ] {
            let (parts, body) = http::Request::get(uri).body(Body::Empty).unwrap().into_parts();
            let request = Request::new(&parts, &body, Target::Absolute).unwrap();
            let head = String::from_utf8(request.head).unwrap();
            assert_eq!(head.lines().next(), Some(line));
        }
    }

    #[test]
    fn the_body_decides_the_framing() {
        let post = || http::Request::post("http://h/");
        for (body, framing) in [
            (Body::Empty, Sending::Length(0)),
            (Body::full(""), Sending::Length(0)),
            (Body::full("abc"), Sending::Length(3)),
            (Body::stream(None, &b"abc"[..]), Sending::Chunked),
            (Body::stream(Some(3), &b"abc"[..]), Sending::Length(3)),
            (Body::replay(None, || Ok(&b"abc"[..])), Sending::Chunked),
        ] {
            let shown = format!("{body:?}");
            assert_eq!(request(post(), body).unwrap().framing, framing, "{shown}");
        }
        let chunked = post().header("transfer-encoding", "chunked");
        assert!(head(chunked, Body::full("abc")).ends_with("\r\ntransfer-encoding: chunked\r\n\r\n"));
        let known = post().header("content-length", "3");
        assert_eq!(
            request(known, Body::stream(None, &b"abc"[..])).unwrap().framing,
            Sending::Length(3)
        );
        let nothing = request(http::Request::get("http://h/"), Body::Empty).unwrap();
        assert_eq!(nothing.framing, Sending::Nothing);
    }

    #[test]
    fn only_a_bare_get_goes_early_and_only_if_it_may() {
        let early = |build: http::request::Builder, body: Body<'_>| request(build, body).unwrap().early;
        let get = || http::Request::get("https://h/").extension(Early);
        assert!(early(get(), Body::Empty));
        assert!(early(http::Request::head("https://h/").extension(Early), Body::Empty));
        assert!(!early(
            http::Request::get("https://h/").extension(Repeatable),
            Body::Empty
        ));
        assert!(!early(http::Request::post("https://h/").extension(Early), Body::Empty));
        assert!(!early(
            http::Request::delete("https://h/").extension(Early),
            Body::Empty
        ));
        assert!(!early(get(), Body::full("")));
        assert!(!early(get(), Body::full("x")));
        assert!(!early(get().header("transfer-encoding", "chunked"), Body::Empty));
        assert!(!early(get().header("authorization", "Negotiate YII="), Body::Empty));
    }

    #[test]
    fn contradictions_are_refused() {
        for (name, value) in [
            ("content-length", "4"),
            ("content-length", "+3"),
            ("content-length", ""),
            ("transfer-encoding", "gzip"),
            ("transfer-encoding", "gzip, chunked"),
        ] {
            let got = request(http::Request::post("http://h/").header(name, value), Body::full("abc"));
            assert!(matches!(got, Err(Error::Request { .. })), "{name}: {value}");
        }
        for uri in ["/relative", "ftp://h/"] {
            assert!(
                matches!(
                    request(http::Request::get(uri), Body::Empty),
                    Err(Error::Request { .. })
                ),
                "{uri}"
            );
        }
    }
}
