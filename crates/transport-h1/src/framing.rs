//! How long an answer's body is (RFC 9112, section 6.3), and the decoder that follows from it.

use http::{HeaderMap, Method, StatusCode, header};

use crate::{
    chunked::{Chunked, Faulty},
    head::{Head, Malformed},
};

/// How the answer's body is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiving {
    Length(u64),
    Chunked,
    /// Until the server closes.
    ToEnd,
}

impl Receiving {
    pub(crate) fn of(head: &Head, method: &Method) -> Result<Receiving, Malformed> {
        if method == Method::HEAD
            || head.status.is_informational()
            || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&head.status)
        {
            return Ok(Receiving::Length(0));
        }
        match is_chunked(&head.headers)? {
            true => Ok(Receiving::Chunked),
            false => Ok(content_length(&head.headers)?.map_or(Receiving::ToEnd, Receiving::Length)),
        }
    }

    /// How the body of a request with these headers is framed; `None` where there is none. One with both framings is refused: it may be
    /// an attempt to smuggle another request in (RFC 9112, section 6.1).
    pub(crate) fn of_request(headers: &HeaderMap) -> Result<Option<Receiving>, Malformed> {
        match (is_chunked(headers)?, content_length(headers)?) {
            (true, None) => Ok(Some(Receiving::Chunked)),
            (true, Some(_)) => Err(Malformed::Coding),
            (false, length) => Ok(length.map(Receiving::Length)),
        }
    }
}

fn is_chunked(headers: &HeaderMap) -> Result<bool, Malformed> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(false),
        (Some(coding), None) if coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(true),
        _ => Err(Malformed::Coding),
    }
}

/// Several lengths, in one line or in many, must be the same (RFC 9110, section 8.6).
fn content_length(headers: &HeaderMap) -> Result<Option<u64>, Malformed> {
    let mut found = None;
    for value in headers.get_all(header::CONTENT_LENGTH) {
        for item in value.as_bytes().split(|&byte| byte == b',') {
            let text = std::str::from_utf8(item.trim_ascii()).map_err(|_| Malformed::Length)?;
            if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(Malformed::Length);
            }
            let length: u64 = text.parse().map_err(|_| Malformed::Length)?;
            if found.is_some_and(|earlier| earlier != length) {
                return Err(Malformed::Length);
            }
            found = Some(length);
        }
    }
    Ok(found)
}

/// Takes a body out of its framing.
#[derive(Debug)]
pub(crate) enum Decoder {
    Length(u64),
    Chunked(Chunked),
    ToEnd,
}

impl Decoder {
    pub(crate) fn new(framing: Receiving) -> Decoder {
        match framing {
            Receiving::Length(length) => Decoder::Length(length),
            Receiving::Chunked => Decoder::Chunked(Chunked::new()),
            Receiving::ToEnd => Decoder::ToEnd,
        }
    }

    /// Whether the body is complete. Never for one that ends with the connection.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Decoder::Length(left) => *left == 0,
            Decoder::Chunked(chunked) => chunked.is_over(),
            Decoder::ToEnd => false,
        }
    }

    /// What is left when all data of the body has come, but its last chunk hasn't; `None` elsewhere in a body. `input` was received and
    /// not decoded.
    pub(crate) fn rest(self, input: &[u8]) -> Option<Chunked> {
        match self {
            Decoder::Chunked(mut chunked) if !chunked.is_in_data() => {
                (chunked.follow(input) == Some(input.len())).then_some(chunked)
            }
            _ => None,
        }
    }

    /// The trailer's lines, where there was one.
    pub(crate) fn trailer(&self) -> &[u8] {
        match self {
            Decoder::Chunked(chunked) => chunked.trailer(),
            _ => &[],
        }
    }

    /// How many bytes from the connection are body data for certain, with no framing among them.
    pub(crate) fn plain(&self) -> u64 {
        match self {
            Decoder::Length(left) => *left,
            Decoder::Chunked(chunked) => chunked.left_of_chunk(),
            Decoder::ToEnd => u64::MAX,
        }
    }

    /// So many of the [`plain`](Self::plain) bytes were taken past this decoder.
    pub(crate) fn skip(&mut self, count: usize) {
        match self {
            Decoder::Length(left) => *left = left.saturating_sub(count as u64),
            Decoder::Chunked(chunked) => chunked.skip(count),
            Decoder::ToEnd => {}
        }
    }

    /// Move data from `input` to `output`: how many bytes of each were used. Framing is used up as far as it goes, even if `output` is
    /// full: so the end is noticed with the last byte of data where it is at hand.
    pub(crate) fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Result<(usize, usize), Faulty> {
        if let Decoder::Chunked(chunked) = self {
            return chunked.decode(input, output);
        }
        let count = input
            .len()
            .min(output.len())
            .min(usize::try_from(self.plain()).unwrap_or(usize::MAX));
        output[..count].copy_from_slice(&input[..count]);
        self.skip(count);
        Ok((count, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(method: Method, head: &str) -> Result<Receiving, Malformed> {
        let (_, head) = Head::parse(format!("{head}\r\n\r\n").as_bytes()).unwrap().unwrap();
        Receiving::of(&head, &method)
    }

    #[test]
    fn the_rules_in_their_order() {
        for (head, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5", Receiving::Length(5)),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5, 05\r\nContent-Length: 5",
                Receiving::Length(5),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: Chunked",
                Receiving::Chunked,
            ),
            ("HTTP/1.1 200 OK", Receiving::ToEnd),
            (
                "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked",
                Receiving::Length(0),
            ),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5", Receiving::Length(0)),
        ] {
            assert_eq!(framing(Method::GET, head).unwrap(), expected, "{head}");
        }
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5";
        assert_eq!(framing(Method::HEAD, head).unwrap(), Receiving::Length(0));
    }

    #[test]
    fn contradictions_are_malformed() {
        for lines in [
            "Content-Length: 5\r\nContent-Length: 6",
            "Content-Length: 5,",
            "Content-Length: -5",
            "Content-Length: 99999999999999999999",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        ] {
            let got = framing(Method::GET, &format!("HTTP/1.1 200 OK\r\n{lines}"));
            assert!(
                matches!(got, Err(Malformed::Length | Malformed::Coding)),
                "{lines}: {got:?}"
            );
        }
    }

    #[test]
    fn reuse_needs_agreement_and_unambiguous_framing() {
        for (head, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: foo, Close", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", true),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5",
                false,
            ),
            ("HTTP/1.1 200 OK", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: Keep-Alive", true),
            (
                "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: Keep-Alive",
                false,
            ),
        ] {
            let (_, parsed) = Head::parse(format!("{head}\r\n\r\n").as_bytes()).unwrap().unwrap();
            let framing = Receiving::of(&parsed, &Method::GET).unwrap();
            assert_eq!(parsed.keeps_alive(framing), expected, "{head}");
        }
    }
}
