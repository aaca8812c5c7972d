//! An answer in the words of HTTP/1.1, as the parts that HTTP/2 sends.

use std::io;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode};

/// Fields that HTTP/2 has no place for.
const OF_A_CONNECTION: [&str; 3] = ["connection", "transfer-encoding", "keep-alive"];

/// What of an answer goes out next.
pub(super) enum Part {
    Informational(Response<()>),
    Head(Response<()>, bool),
    Data(Bytes, bool),
}

/// An answer in the words of HTTP/1.1.
pub(super) struct Answer {
    pub(super) pending: Vec<u8>,
    state: Body,
    to_head: bool,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    Awaited,
    Length(usize),
    Chunked,
    ToEnd,
    Over,
}

impl Answer {
    pub(super) fn new(to_head: bool) -> Answer {
        Answer {
            pending: Vec::new(),
            state: Body::Awaited,
            to_head,
            ended: false,
        }
    }

    /// Whether a head lies ready that asks for the connection's end.
    pub(super) fn closes(&self) -> bool {
        let head = self.pending.windows(4).position(|window| window == b"\r\n\r\n");
        head.is_some_and(|end| {
            let head = String::from_utf8_lossy(&self.pending[..end]).to_ascii_lowercase();
            self.state == Body::Awaited && head.contains("\r\nconnection: close")
        })
    }

    /// No more comes: that ends a body without a length.
    pub(super) fn over(&mut self) {
        self.ended = true;
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Part>> {
        match self.state {
            Body::Awaited => self.head(),
            Body::Length(left) => {
                let count = left.min(self.pending.len());
                if count == 0 {
                    return Ok(None);
                }
                let data: Bytes = self.pending.drain(..count).collect();
                self.state = if count == left {
                    Body::Over
                } else {
                    Body::Length(left - count)
                };
                Ok(Some(Part::Data(data, count == left)))
            }
            Body::Chunked => Ok(self.chunk()),
            Body::ToEnd => {
                let data: Bytes = self.pending.drain(..).collect();
                if data.is_empty() && !self.ended {
                    return Ok(None);
                }
                if self.ended {
                    self.state = Body::Over;
                }
                Ok(Some(Part::Data(data, self.ended)))
            }
            Body::Over => Ok(None),
        }
    }

    fn head(&mut self) -> io::Result<Option<Part>> {
        let Some(end) = self.pending.windows(4).position(|window| window == b"\r\n\r\n") else {
            return Ok(None);
        };
        let head: Vec<u8> = self.pending.drain(..end + 4).collect();
        let head = String::from_utf8_lossy(&head);
        let mut lines = head.trim_end().lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or("");
        let status: StatusCode = status.parse().map_err(io::Error::other)?;
        let mut response = Response::new(());
        *response.status_mut() = status;
        let (mut length, mut chunked) = (None, false);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let (name, value) = (name.to_ascii_lowercase(), value.trim());
            chunked |= name == "transfer-encoding";
            if name == "content-length" {
                length = value.parse().ok();
            }
            if !OF_A_CONNECTION.contains(&name.as_str()) {
                let name: HeaderName = name.parse().map_err(io::Error::other)?;
                response
                    .headers_mut()
                    .append(name, HeaderValue::from_str(value).map_err(io::Error::other)?);
            }
        }
        if status.is_informational() {
            return Ok(Some(Part::Informational(response)));
        }
        let bodiless = self.to_head || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
        self.state = match (bodiless, chunked, length) {
            (true, ..) | (false, false, Some(0)) => Body::Over,
            (false, true, _) => Body::Chunked,
            (false, false, Some(length)) => Body::Length(length),
            (false, false, None) => Body::ToEnd,
        };
        Ok(Some(Part::Head(response, self.state == Body::Over)))
    }

    /// A chunk as far as it has come; its size line, data and line end must be there.
    fn chunk(&mut self) -> Option<Part> {
        let line = self.pending.windows(2).position(|window| window == b"\r\n")?;
        let text = String::from_utf8_lossy(&self.pending[..line]).into_owned();
        let size = usize::from_str_radix(text.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            let trailer = self.pending[line..]
                .windows(4)
                .position(|window| window == b"\r\n\r\n")?;
            self.pending.drain(..line + trailer + 4);
            self.state = Body::Over;
            return Some(Part::Data(Bytes::new(), true));
        }
        let begin = line + 2;
        let there = self.pending.len().saturating_sub(begin).min(size);
        if there == 0 {
            return None;
        }
        let data = Bytes::copy_from_slice(&self.pending[begin..begin + there]);
        if there == size {
            // With its line end, as far as that is there.
            let end = (begin + size + 2).min(self.pending.len());
            self.pending.drain(..end);
        } else {
            let rest = format!("{:x}\r\n", size - there).into_bytes();
            self.pending.splice(..begin + there, rest);
        }
        Some(Part::Data(data, false))
    }
}
