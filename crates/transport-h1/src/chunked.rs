//! The chunked transfer coding, decoded (RFC 9112, section 7.1). Extensions are dropped, trailers kept for who asks.

/// Longest chunk-size line, extensions included.
const LINE_LIMIT: usize = 4 * 1024;
/// Longest trailer.
const TRAILER_LIMIT: usize = 64 * 1024;

/// Why chunk framing could not be followed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the answer's chunk framing is broken: {0}")]
pub(crate) struct Faulty(&'static str);

/// The state between two bytes.
#[derive(Debug)]
pub(crate) struct Chunked {
    place: Place,
    /// Bytes of the current line or trailer, for the limits.
    line: usize,
    trailer: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the digits of a size; `digits` is whether there was one.
    Size {
        value: u64,
        digits: bool,
    },
    /// Behind the digits, up to the line feed.
    Extension {
        value: u64,
    },
    Data {
        left: u64,
    },
    /// Between data and the next size: a line break.
    DataEnd,
    /// At the start of a trailer line.
    TrailerStart,
    /// Within a trailer line.
    Trailer,
    Over,
}

const START: Place = Place::Size {
    value: 0,
    digits: false,
};

impl Chunked {
    pub(crate) fn new() -> Chunked {
        Chunked {
            place: START,
            line: 0,
            trailer: Vec::new(),
        }
    }

    /// The trailer's lines as they came, with the empty line behind them; whole once the body [is over](Self::is_over).
    pub(crate) fn trailer(&self) -> &[u8] {
        &self.trailer
    }

    pub(crate) fn is_over(&self) -> bool {
        self.place == Place::Over
    }

    /// Follow `input`, which is to hold no more data, only the body's end: how many bytes of it belong to that; `None` if data follows
    /// or the framing is broken.
    pub(crate) fn follow(&mut self, input: &[u8]) -> Option<usize> {
        let (used, _) = self.decode(input, &mut []).ok()?;
        (!self.is_in_data()).then_some(used)
    }

    /// Whether data of a chunk comes next.
    pub(crate) fn is_in_data(&self) -> bool {
        matches!(self.place, Place::Data { .. })
    }

    pub(crate) fn left_of_chunk(&self) -> u64 {
        match self.place {
            Place::Data { left } => left,
            _ => 0,
        }
    }

    /// `count` bytes of the current chunk were taken elsewhere.
    pub(crate) fn skip(&mut self, count: usize) {
        if let Place::Data { left } = self.place {
            self.place = match left.saturating_sub(count as u64) {
                0 => Place::DataEnd,
                left => Place::Data { left },
            };
        }
    }

    /// See [`Decoder::decode`](crate::framing::Decoder::decode).
    pub(crate) fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Result<(usize, usize), Faulty> {
        let (mut used, mut written) = (0, 0);
        while used < input.len() && !self.is_over() {
            if let Place::Data { left } = self.place {
                let most = usize::try_from(left).unwrap_or(usize::MAX);
                let count = most.min(input.len() - used).min(output.len() - written);
                if count == 0 {
                    break;
                }
                output[written..written + count].copy_from_slice(&input[used..used + count]);
                used += count;
                written += count;
                self.skip(count);
            } else {
                if let Place::TrailerStart | Place::Trailer = self.place {
                    self.trailer.push(input[used]);
                }
                self.place = self.step(input[used])?;
                used += 1;
            }
        }
        Ok((used, written))
    }

    /// One byte of framing.
    fn step(&mut self, byte: u8) -> Result<Place, Faulty> {
        self.line += 1;
        Ok(match (self.place, byte) {
            (Place::Size { value, .. }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                let value = value.checked_mul(16).ok_or(Faulty("a chunk's size is too large"))? + u64::from(digit);
                self.limit(LINE_LIMIT)?;
                Place::Size { value, digits: true }
            }
            (Place::Size { digits: false, .. }, _) => return Err(Faulty("a chunk's size is no number")),
            (Place::Size { value, .. } | Place::Extension { value }, b'\n') => {
                self.line = 0;
                match value {
                    0 => Place::TrailerStart,
                    left => Place::Data { left },
                }
            }
            (Place::Size { value, .. }, b';' | b' ' | b'\t' | b'\r') => Place::Extension { value },
            (Place::Size { .. }, _) => return Err(Faulty("a chunk's size is no number")),
            (Place::Extension { value }, _) => {
                self.limit(LINE_LIMIT)?;
                Place::Extension { value }
            }
            (Place::DataEnd, b'\r') if self.line == 1 => Place::DataEnd,
            (Place::DataEnd, b'\n') => {
                self.line = 0;
                START
            }
            (Place::DataEnd, _) => return Err(Faulty("a chunk does not end where its size says")),
            (Place::TrailerStart, b'\n') => Place::Over,
            (Place::TrailerStart, b'\r') => {
                self.limit(TRAILER_LIMIT)?;
                Place::TrailerStart
            }
            (Place::Trailer, b'\n') => Place::TrailerStart,
            (Place::TrailerStart | Place::Trailer, _) => {
                self.limit(TRAILER_LIMIT)?;
                Place::Trailer
            }
            // `decode` handles these before.
            (place @ (Place::Data { .. } | Place::Over), _) => place,
        })
    }

    fn limit(&self, most: usize) -> Result<(), Faulty> {
        match self.line > most {
            true => Err(Faulty("a line of it is too long")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes input that arrives in pieces of `piece` bytes, into room for `room`: the data, and what was left over behind the end.
    fn decode(wire: &[u8], piece: usize, room: usize) -> Result<(Vec<u8>, bool), Faulty> {
        let mut chunked = Chunked::new();
        let (mut data, mut output) = (Vec::new(), vec![0; room]);
        for mut input in wire.chunks(piece) {
            while !input.is_empty() {
                let (used, written) = chunked.decode(input, &mut output)?;
                data.extend_from_slice(&output[..written]);
                if chunked.is_over() {
                    return Ok((data, true));
                }
                assert!(used > 0 || written > 0, "no way on");
                input = &input[used..];
            }
        }
        Ok((data, false))
    }

    #[test]
    fn any_split_yields_the_same() {
        let wire = b"5;name=\"value\"\r\nhello\r\n001 \r\n,\r\nA\n0123456789\n0\r\nTrailer: x\r\nOther: y\r\n\r\n";
        for piece in 1..=wire.len() {
            for room in [1, 2, 5, 100] {
                let got = decode(wire, piece, room).unwrap();
                assert_eq!(got, (b"hello,0123456789".to_vec(), true), "{piece} {room}");
            }
        }
        for cut in 0..wire.len() {
            assert!(!decode(&wire[..cut], 7, 100).unwrap().1, "{cut}");
        }
    }

    #[test]
    fn the_end_is_noticed_even_if_no_room_is_left() {
        let mut chunked = Chunked::new();
        let mut output = [0; 3];
        assert_eq!(chunked.decode(b"3\r\nabc\r\n0\r\n\r\nNEXT", &mut output), Ok((13, 3)));
        assert!(chunked.is_over());
    }

    #[test]
    fn broken_framing_is_an_error() {
        for wire in [
            "\r\n".to_owned(),
            "x\r\n".into(),
            "-1\r\n".into(),
            "5x\r\n".into(),
            "3\r\nabcd\r\n".into(),
            "3\r\nabc0\r\n".into(),
            "10000000000000000\r\n".into(),
            format!("{}\r\n", "0".repeat(LINE_LIMIT + 1)),
            format!("1;{}\r\n", "x".repeat(LINE_LIMIT)),
            format!("0\r\n{}", "a: b\r\n".repeat(TRAILER_LIMIT / 6 + 1)),
        ] {
            assert!(decode(wire.as_bytes(), 1000, 1000).is_err(), "{wire:.40}");
        }
    }

    #[test]
    fn only_the_last_chunk_can_be_followed() {
        let at_rest = || {
            let mut chunked = Chunked::new();
            let mut output = [0; 3];
            assert_eq!(chunked.decode(b"3\r\nabc", &mut output), Ok((6, 3)));
            chunked
        };
        let mut chunked = at_rest();
        assert_eq!(chunked.follow(b"\r\n0\r"), Some(4));
        assert!(!chunked.is_over());
        assert_eq!(chunked.follow(b"\n\r\nHTTP/1.1"), Some(3));
        assert!(chunked.is_over());
        for more in ["\r\n1\r\nd", "\r\n1\r\n", "\r\nx", "d"] {
            assert_eq!(at_rest().follow(more.as_bytes()), None, "{more:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(wire: Vec<u8>, room in 1usize..50) {
            let _ = decode(&wire, 7, room);
        }

        #[test]
        fn what_is_chunked_comes_out_again(pieces: Vec<Vec<u8>>, piece in 1usize..40, room in 1usize..40) {
            let mut wire = Vec::new();
            for data in pieces.iter().filter(|data| !data.is_empty()) {
                wire.extend_from_slice(format!("{:X}\r\n", data.len()).as_bytes());
                wire.extend_from_slice(data);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\n\r\n");
            proptest::prop_assert_eq!(decode(&wire, piece, room).unwrap(), (pieces.concat(), true));
        }
    }
}
