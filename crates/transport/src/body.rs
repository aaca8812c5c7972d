use std::io::{self, Read};

type Factory<'a> = Box<dyn FnMut() -> io::Result<Box<dyn Read + Send + 'a>> + Send + 'a>;

/// A request body. Its kind tells whether it may be sent a second time.
#[non_exhaustive]
pub enum Body<'a> {
    /// No body at all: neither `content-length` nor chunks, except where the method calls for `content-length: 0`.
    Empty,
    /// All bytes at hand; can be sent again.
    Full(bytes::Bytes),
    /// Made anew for each attempt; every reader the factory returns must yield the same bytes.
    Replay {
        /// How many bytes each reader yields, where known. Known lengths go out as `content-length`, others chunked.
        length: Option<u64>,
        /// Called once for each attempt.
        factory: Factory<'a>,
    },
    /// Readable once. After its first byte was read it can't be sent again.
    Stream {
        /// How many bytes the reader yields, where known.
        length: Option<u64>,
        /// Where the bytes come from.
        reader: Box<dyn Read + Send + 'a>,
    },
}

impl<'a> Body<'a> {
    /// All bytes at hand; an empty buffer is still a body (`content-length: 0`).
    pub fn full(bytes: impl Into<bytes::Bytes>) -> Self {
        Body::Full(bytes.into())
    }

    /// A body that `factory` can produce as often as needed.
    pub fn replay<R: Read + Send + 'a>(
        length: Option<u64>,
        mut factory: impl FnMut() -> io::Result<R> + Send + 'a,
    ) -> Self {
        Body::Replay {
            length,
            factory: Box::new(move || Ok(Box::new(factory()?) as Box<dyn Read + Send + 'a>)),
        }
    }

    /// A body readable once.
    pub fn stream(length: Option<u64>, reader: impl Read + Send + 'a) -> Self {
        Body::Stream {
            length,
            reader: Box::new(reader),
        }
    }

    /// The number of bytes, where known: `Some(0)` for [`Body::Empty`].
    pub fn length(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Full(bytes) => Some(bytes.len() as u64),
            Body::Replay { length, .. } | Body::Stream { length, .. } => *length,
        }
    }

    /// This body for one attempt, while it stays here for another. A [`Body::Stream`] goes on where the last attempt left it, so
    /// attempt again only what [`can_replay()`](Self::can_replay).
    pub fn reborrow(&mut self) -> Body<'_> {
        match self {
            Body::Empty => Body::Empty,
            Body::Full(bytes) => Body::Full(bytes.clone()),
            Body::Replay { length, factory } => Body::Replay {
                length: *length,
                factory: Box::new(move || Ok(factory()? as Box<dyn Read + Send + '_>)),
            },
            Body::Stream { length, reader } => Body::Stream {
                length: *length,
                reader: Box::new(reader),
            },
        }
    }

    /// Whether the same bytes can be produced once more after they were read.
    pub fn can_replay(&self) -> bool {
        !matches!(self, Body::Stream { .. })
    }
}

impl std::fmt::Debug for Body<'_> {
    /// Never shows content: bodies carry packs, and may carry secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self {
            Body::Empty => "Empty",
            Body::Full(_) => "Full",
            Body::Replay { .. } => "Replay",
            Body::Stream { .. } => "Stream",
        };
        f.debug_struct(kind).field("length", &self.length()).finish()
    }
}

impl From<Vec<u8>> for Body<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Body::full(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replayed_body_yields_the_same_bytes_each_time() {
        let mut body = Body::replay(Some(3), || Ok(&b"abc"[..]));
        assert!(body.can_replay());
        assert_eq!(body.length(), Some(3));
        let Body::Replay { factory, .. } = &mut body else {
            panic!("made by replay")
        };
        for _ in 0..2 {
            let mut got = Vec::new();
            factory().unwrap().read_to_end(&mut got).unwrap();
            assert_eq!(got, b"abc");
        }
    }

    #[test]
    fn a_borrowed_body_is_the_same() {
        let read = |body: Body<'_>| {
            let mut got = Vec::new();
            match body {
                Body::Empty => {}
                Body::Full(bytes) => got.extend_from_slice(&bytes),
                Body::Replay { mut factory, .. } => _ = factory().unwrap().read_to_end(&mut got).unwrap(),
                Body::Stream { mut reader, .. } => _ = reader.read_to_end(&mut got).unwrap(),
            }
            got
        };
        let mut full = Body::full("abc");
        let mut replay = Body::replay(None, || Ok(&b"abc"[..]));
        for body in [&mut full, &mut replay] {
            for _ in 0..2 {
                let length = body.length();
                assert_eq!(body.reborrow().length(), length);
                assert_eq!(read(body.reborrow()), b"abc");
            }
        }
        let mut stream = Body::stream(Some(3), &b"abc"[..]);
        assert_eq!(
            (read(stream.reborrow()), read(stream.reborrow())),
            (b"abc".to_vec(), vec![])
        );
        assert_eq!(Body::Empty.reborrow().length(), Some(0));
    }

    #[test]
    fn debug_shows_no_content() {
        assert_eq!(format!("{:?}", Body::full("secret")), "Full { length: Some(6) }");
        assert_eq!(
            format!("{:?}", Body::stream(None, &b"secret"[..])),
            "Stream { length: None }"
        );
    }
}
