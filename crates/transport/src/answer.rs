use std::io::Read;

/// The body of an answer, read as it arrives.
///
/// Reading to the end (a read of zero bytes) hands the connection back for reuse. Dropping it early ends only this exchange: an
/// HTTP/1.1 connection is closed, unless nothing but the framing's end was left; an HTTP/2 stream is reset.
///
/// A read error of kind [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof) means that the peer stopped before the length it had
/// announced (or before the last chunk): what was read so far is not the whole answer.
pub struct Answer(Box<dyn Read + Send>);

impl Answer {
    /// Wrap a reader that yields the body, already freed from transfer framing.
    pub fn new(body: impl Read + Send + 'static) -> Self {
        Answer(Box::new(body))
    }

    /// A body of no bytes.
    pub fn empty() -> Self {
        Answer::new(std::io::empty())
    }
}

impl Read for Answer {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buf)
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answer { .. }")
    }
}
