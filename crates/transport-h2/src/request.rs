//! The request's head as it goes out (RFC 9113, section 8.3), and what of it decides framing and reuse.

use http::{HeaderMap, Method, Request as Message, Uri, Version, header, request::Parts};
use rgit_dial::Origin;
use rgit_transport::{Body, Cancel, Error, Repeatable, authenticates_connection, has_token};

/// Fields that belong to a connection of HTTP/1.1 (RFC 9113, section 8.2.2).
const OF_A_CONNECTION: [&str; 6] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "host",
];

/// A request, checked. Without `Debug`: it holds whatever credentials were given.
pub(crate) struct Request {
    pub(crate) origin: Origin,
    pub(crate) method: Method,
    uri: Uri,
    headers: HeaderMap,
    /// How long the body is, where that is announced.
    pub(crate) length: Option<u64>,
    /// Whether it may be processed twice.
    pub(crate) repeatable: bool,
    /// The caller asked for `connection: close`.
    pub(crate) closes: bool,
    /// The connection will be its user's: nobody else's requests may be on it.
    pub(crate) alone: bool,
    /// Who may end the exchange.
    pub(crate) cancel: Cancel,
}

impl Request {
    pub(crate) fn new(parts: &Parts, body: &Body<'_>) -> Result<Request, Error> {
        let origin = Origin::try_from(&parts.uri).map_err(|err| refuse(err.to_string()))?;
        if parts.method == Method::CONNECT {
            return Err(refuse("CONNECT makes a tunnel, not an exchange"));
        }
        let length = length(&parts.method, &parts.headers, body)?;
        let closes = has_token(&parts.headers, header::CONNECTION, "close");
        let mut headers = parts.headers.clone();
        for name in OF_A_CONNECTION {
            headers.remove(name);
        }
        // What `connection` names belongs to the connection, too.
        for value in parts.headers.get_all(header::CONNECTION) {
            for name in value.as_bytes().split(|&byte| byte == b',') {
                if let Ok(name) = header::HeaderName::from_bytes(name.trim_ascii()) {
                    headers.remove(name);
                }
            }
        }
        if headers.get(header::TE).is_some_and(|te| te != "trailers") {
            headers.remove(header::TE);
        }
        if let Some(length) = length {
            headers.insert(header::CONTENT_LENGTH, length.into());
        }
        Ok(Request {
            uri: uri(parts, &origin)?,
            origin,
            method: parts.method.clone(),
            headers,
            length,
            repeatable: parts.method.is_safe() || parts.extensions.get::<Repeatable>().is_some(),
            closes,
            alone: authenticates_connection(&parts.headers),
            cancel: parts.extensions.get().cloned().unwrap_or_default(),
        })
    }

    /// As h2 takes it.
    pub(crate) fn message(&self) -> Message<()> {
        let mut message = Message::new(());
        *message.method_mut() = self.method.clone();
        *message.uri_mut() = self.uri.clone();
        *message.version_mut() = Version::HTTP_2;
        *message.headers_mut() = self.headers.clone();
        message
    }
}

/// The length to announce: always where it is known, and zero for a method that calls for it (RFC 9110, section 8.6).
fn length(method: &Method, headers: &HeaderMap, body: &Body<'_>) -> Result<Option<u64>, Error> {
    let mut values = headers.get_all(header::CONTENT_LENGTH).iter();
    let given = match (values.next(), values.next()) {
        (None, _) => None,
        (Some(value), None) => {
            let text = value.to_str().unwrap_or("");
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let length = text.parse::<u64>().ok().filter(|_| digits);
            Some(length.ok_or_else(|| refuse("its content-length is no number"))?)
        }
        (Some(_), Some(_)) => return Err(refuse("it has more than one content-length")),
    };
    let codings: Vec<_> = headers.get_all(header::TRANSFER_ENCODING).iter().collect();
    match (codings.as_slice(), given) {
        ([], _) => {}
        // HTTP/2 frames every body; asking for chunks is asking not to announce the length.
        ([coding], None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => return Ok(None),
        (_, Some(_)) => return Err(refuse("it has both content-length and transfer-encoding")),
        _ => return Err(refuse("its transfer-encoding is not just \"chunked\"")),
    }
    if let (Some(given), Some(real)) = (given, body.length())
        && given != real
    {
        return Err(refuse(format!(
            "its content-length is {given}, its body's length {real}"
        )));
    }
    Ok(given.or(match body {
        Body::Empty => [Method::POST, Method::PUT, Method::PATCH].contains(method).then_some(0),
        body => body.length(),
    }))
}

/// Scheme, authority and path; the user and the password stay here.
fn uri(parts: &Parts, origin: &Origin) -> Result<Uri, Error> {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    // `http://host?query`: the path of an http URI is never empty on the wire (RFC 9113, section 8.3.1).
    let slash = if target.starts_with('/') { "" } else { "/" };
    let authority = match parts.headers.get(header::HOST) {
        Some(given) => given.to_str().map_err(|_| refuse("its host is no text"))?.to_owned(),
        None => origin.host_header(),
    };
    Uri::builder()
        .scheme(origin.scheme.as_str())
        .authority(authority)
        .path_and_query(format!("{slash}{target}"))
        .build()
        .map_err(|err| refuse(format!("its host or path can't be sent ({err})")))
}

fn refuse(reason: impl Into<String>) -> Error {
    Error::Request { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(build: http::request::Builder, body: Body<'_>) -> Result<Request, Error> {
        let (parts, body) = build.body(body).unwrap().into_parts();
        Request::new(&parts, &body)
    }

    #[test]
    fn the_user_stays_here_and_the_path_is_never_empty() {
        for (uri, expected) in [
            (
                "http://user:secret@Example.com:8080/a%2Fb//c?q=1&r",
                "http://example.com:8080/a%2Fb//c?q=1&r",
            ),
            ("https://[::1]?q", "https://[::1]/?q"),
            ("https://example.com:443", "https://example.com/"),
        ] {
            let message = request(Message::get(uri), Body::Empty).unwrap().message();
            assert_eq!(message.uri().to_string(), expected);
        }
    }

    #[test]
    fn what_belongs_to_a_connection_is_not_sent() {
        let get = Message::get("http://h/")
            .header("connection", "close, x-hop")
            .header("x-hop", "1")
            .header("keep-alive", "5")
            .header("te", "gzip")
            .header("git-protocol", "version=2");
        let request = request(get, Body::Empty).unwrap();
        assert!(request.closes);
        let message = request.message();
        let names: Vec<_> = message.headers().keys().map(|name| name.as_str()).collect();
        assert_eq!(names, ["git-protocol"]);
    }

    #[test]
    fn the_length_is_announced_where_it_is_known() {
        let post = || Message::post("http://h/");
        for (body, length) in [
            (Body::Empty, Some(0)),
            (Body::full(""), Some(0)),
            (Body::full("abc"), Some(3)),
            (Body::stream(None, &b"abc"[..]), None),
            (Body::stream(Some(3), &b"abc"[..]), Some(3)),
        ] {
            let shown = format!("{body:?}");
            let request = request(post(), body).unwrap();
            assert_eq!(request.length, length, "{shown}");
            let announced = request.message().headers().get("content-length").cloned();
            assert_eq!(announced, length.map(Into::into), "{shown}");
        }
        assert_eq!(request(Message::get("http://h/"), Body::Empty).unwrap().length, None);
        let chunked = post().header("transfer-encoding", "chunked");
        assert_eq!(request(chunked, Body::full("abc")).unwrap().length, None);
        let known = post().header("content-length", "3");
        assert_eq!(request(known, Body::stream(None, &b"abc"[..])).unwrap().length, Some(3));
    }

    #[test]
    fn contradictions_are_refused() {
        for (name, value) in [
            ("content-length", "4"),
            ("content-length", "+3"),
            ("content-length", ""),
            ("transfer-encoding", "gzip"),
            ("transfer-encoding", "gzip, chunked"),
            ("host", "a b"),
        ] {
            let got = request(Message::post("http://h/").header(name, value), Body::full("abc"));
            assert!(matches!(got, Err(Error::Request { .. })), "{name}: {value}");
        }
    }
}
