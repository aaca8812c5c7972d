//! The head of an answer (RFC 9112, section 4), parsed from hostile bytes.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};
use rgit_transport::has_token;

use crate::framing::Receiving;

/// Longest head taken, all lines together.
pub(crate) const LIMIT: usize = 64 * 1024;
/// Most header lines taken.
pub(crate) const LINES: usize = 256;

/// Status line and headers of an answer.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
}

/// What is wrong with an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("the answer is not HTTP/1.x: {0}")]
    Syntax(httparse::Error),
    #[error("the answer's head is longer than {LIMIT} bytes")]
    TooLong,
    #[error("the answer has more than {LINES} header lines")]
    TooManyLines,
    #[error("the request has no method")]
    Method,
    #[error("the answer's status is no HTTP status")]
    Status,
    #[error("the answer has a header that is not allowed in HTTP")]
    Header,
    #[error("the answer's content-length is no number, or there are several that differ")]
    Length,
    #[error("the answer has a transfer coding other than chunked")]
    Coding,
    #[error("the server changed to another protocol, unasked")]
    Upgrade,
    #[error("the server sends informational answers without end")]
    Informational,
}

impl Head {
    /// Parse a head from the start of `bytes`: with its length, or `None` where it is not complete yet.
    ///
    /// Folded lines are joined with one space, and line feeds without carriage return accepted (RFC 9112, sections 5.2 and 2.2).
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(usize, Head)>, Malformed> {
        let window = &bytes[..bytes.len().min(LIMIT)];
        let mut lines = [httparse::EMPTY_HEADER; LINES];
        let mut parsed = httparse::Response::new(&mut lines);
        let mut config = httparse::ParserConfig::default();
        config.allow_obsolete_multiline_headers_in_responses(true);
        let Some(length) = length(config.parse_response(&mut parsed, window), window.len())? else {
            return Ok(None);
        };
        let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
        let headers = map(parsed.headers)?;
        let head = Head {
            status: status.ok_or(Malformed::Status)?,
            version: if parsed.version == Some(0) {
                Version::HTTP_10
            } else {
                Version::HTTP_11
            },
            headers,
        };
        Ok(Some((length, head)))
    }

    /// Whether the connection can serve another exchange after this answer (RFC 9112, section 9.3).
    pub(crate) fn keeps_alive(&self, framing: Receiving) -> bool {
        let agreed = match self.version {
            Version::HTTP_10 => has_token(&self.headers, header::CONNECTION, "keep-alive"),
            _ => true,
        };
        // Both framings at once, or chunks in HTTP/1.0, may be an attempt to smuggle an answer in (sections 6.1 and 6.3).
        let chunked = framing == Receiving::Chunked;
        let dubious =
            chunked && (self.version == Version::HTTP_10 || self.headers.contains_key(header::CONTENT_LENGTH));
        agreed && !dubious && framing != Receiving::ToEnd && !has_token(&self.headers, header::CONNECTION, "close")
    }
}

/// How long a head is that was parsed from `window` bytes; `None` where it is not complete yet.
pub(crate) fn length(parsed: httparse::Result<usize>, window: usize) -> Result<Option<usize>, Malformed> {
    match parsed {
        Ok(httparse::Status::Complete(length)) => Ok(Some(length)),
        Ok(httparse::Status::Partial) if window < LIMIT => Ok(None),
        Ok(httparse::Status::Partial) => Err(Malformed::TooLong),
        Err(httparse::Error::TooManyHeaders) => Err(Malformed::TooManyLines),
        Err(err) => Err(Malformed::Syntax(err)),
    }
}

/// Header lines as a map, in their order.
pub(crate) fn map(lines: &[httparse::Header<'_>]) -> Result<HeaderMap, Malformed> {
    let mut headers = HeaderMap::with_capacity(lines.len());
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| Malformed::Header)?;
        let value = HeaderValue::from_bytes(&unfold(line.value)).map_err(|_| Malformed::Header)?;
        headers.append(name, value);
    }
    Ok(headers)
}

/// Each line break with the white space around it becomes one space.
fn unfold(value: &[u8]) -> Vec<u8> {
    if !value.contains(&b'\n') {
        return value.to_vec();
    }
    let lines = value
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<(usize, Head)>, Malformed> {
        Head::parse(text.as_bytes())
    }

    #[test]
    fn every_prefix_is_incomplete_and_no_prefix_is_misread() {
        let text = "HTTP/1.1 200 OK\r\nA: b\r\nFolded: one\r\n  two\r\n\tthree\r\n\r\nbody";
        let end = text.len() - 4;
        for cut in 0..end {
            assert!(parse(&text[..cut]).unwrap().is_none(), "{cut}");
        }
        let (length, head) = parse(text).unwrap().unwrap();
        assert_eq!(
            (length, head.status.as_u16(), head.version),
            (end, 200, Version::HTTP_11)
        );
        assert_eq!(head.headers["a"], "b");
        assert_eq!(head.headers["folded"], "one two three");
    }

    #[test]
    fn bare_line_feeds_and_missing_reasons_are_taken() {
        let (length, head) = parse("HTTP/1.0 404\nA: b\nF: x\n y\n\n").unwrap().unwrap();
        assert_eq!(
            (length, head.status.as_u16(), head.version),
            (27, 404, Version::HTTP_10)
        );
        assert_eq!(head.headers["f"], "x y");
    }

    #[test]
    fn bounds_hold() {
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(LIMIT));
        assert!(matches!(parse(&long), Err(Malformed::TooLong)));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(LINES + 1));
        assert!(matches!(parse(&many), Err(Malformed::TooManyLines)));
        let most = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(LINES));
        assert_eq!(
            parse(&most).unwrap().unwrap().1.headers.get_all("a").iter().count(),
            LINES
        );
    }

    #[test]
    fn what_is_not_http_is_said_to_be_not_http() {
        for text in [
            "SSH-2.0-OpenSSH_9.6\r\n",
            "<html>\r\n",
            "HTTP/2 200\r\n",
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "\0\0\0",
        ] {
            assert!(matches!(parse(text), Err(Malformed::Syntax(_))), "{text}");
        }
        assert!(matches!(parse("HTTP/1.1 042 OK\r\n\r\n"), Err(Malformed::Status)));
        assert!(parse("HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = Head::parse(&bytes);
            let _ = Head::parse(&[b"HTTP/1.1 200 OK\r\n".as_slice(), &bytes].concat());
        }
    }
}
