//! A request's body, for a second attempt on another road.

use std::io::{self, Read};

use rgit_transport::Body;

/// What is kept of a body that comes only once: transports read a piece of it before they connect, which is when the need for
/// another road shows.
const KEPT: usize = 512 * 1024;

/// Keeps a body while transports that consume what they are given try to send it.
pub(crate) enum Attempts<'a> {
    /// It can be read as often as needed.
    Repeatable(Body<'a>),
    /// It can be read once; its beginning twice.
    Once { length: Option<u64>, reader: Rewind<'a> },
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(body: Body<'a>) -> Self {
        match body {
            Body::Stream { length, reader } => Attempts::Once {
                length,
                reader: Rewind {
                    reader,
                    kept: Vec::new(),
                    at: 0,
                    is_whole: true,
                },
            },
            body => Attempts::Repeatable(body),
        }
    }

    /// The body for the next attempt.
    pub(crate) fn body(&mut self) -> Body<'_> {
        match self {
            Attempts::Repeatable(body) => body.reborrow(),
            Attempts::Once { length, reader } => Body::stream(*length, reader),
        }
    }

    /// Go back to the body's beginning. `false` if that is gone.
    pub(crate) fn again(&mut self) -> bool {
        match self {
            Attempts::Repeatable(_) => true,
            Attempts::Once { reader, .. } => {
                reader.at = 0;
                reader.is_whole
            }
        }
    }
}

pub(crate) struct Rewind<'a> {
    reader: Box<dyn Read + Send + 'a>,
    kept: Vec<u8>,
    /// How much of what is kept was read in this attempt.
    at: usize,
    /// All that was read is kept.
    is_whole: bool,
}

impl Read for Rewind<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let again = &self.kept[self.at..];
        if !again.is_empty() {
            let length = again.len().min(buffer.len());
            buffer[..length].copy_from_slice(&again[..length]);
            self.at += length;
            return Ok(length);
        }
        let read = self.reader.read(buffer)?;
        if self.is_whole && self.kept.len() + read <= KEPT {
            self.kept.extend_from_slice(&buffer[..read]);
        } else if self.is_whole {
            self.is_whole = false;
            self.kept = Vec::new();
        }
        self.at = self.kept.len();
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_what_comes_once_comes_twice() {
        let data: Vec<u8> = (0..KEPT as u32 * 2).map(|n| n as u8).collect();
        let mut attempts = Attempts::new(Body::stream(None, &data[..]));
        for length in [1000, KEPT / 2, KEPT] {
            let Body::Stream { reader, .. } = attempts.body() else {
                panic!("a stream")
            };
            let mut got = Vec::new();
            reader.take(length as u64).read_to_end(&mut got).unwrap();
            assert!(got == data[..length]);
            assert!(attempts.again());
        }
        let Body::Stream { mut reader, .. } = attempts.body() else {
            panic!("a stream")
        };
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        drop(reader);
        assert!(got == data);
        assert!(!attempts.again(), "too much to keep");
        assert!(Attempts::new(Body::full("x")).again());
    }
}
