//! Finds the frames in a stream of bytes (RFC 9113, section 4.1) without holding any back.

/// Octets of a frame's head.
const HEAD: usize = 9;
/// Payload kept of the frames whose content matters here: SETTINGS a parameter at a time, the rest as a whole.
const KEPT: usize = 8;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// END_STREAM on DATA and HEADERS, ACK on SETTINGS and PING.
pub(crate) const FIRST_FLAG: u8 = 1;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

/// What is seen on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A frame begins.
    Begin(Head),
    /// So many octets of its payload.
    Payload(Head, usize),
    /// One parameter of a SETTINGS frame.
    Setting(u16, u32),
    /// A frame is over; the first octets of its payload, except for SETTINGS.
    End(Head, [u8; KEPT]),
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Scanner {
    /// Octets to pass over: the connection preface.
    skip: usize,
    head: [u8; HEAD],
    have: usize,
    frame: Option<Head>,
    left: usize,
    kept: [u8; KEPT],
    keeping: usize,
}

impl Scanner {
    pub(crate) fn new(skip: usize) -> Scanner {
        Scanner {
            skip,
            head: [0; HEAD],
            have: 0,
            frame: None,
            left: 0,
            kept: [0; KEPT],
            keeping: 0,
        }
    }

    /// The frame in whose middle the bytes ended.
    pub(crate) fn open_frame(&self) -> Option<Head> {
        self.frame
    }

    pub(crate) fn advance(&mut self, mut bytes: &[u8], mut report: impl FnMut(Seen)) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        bytes = &bytes[skipped..];
        while !bytes.is_empty() {
            let frame = match self.frame {
                Some(frame) => frame,
                None => {
                    let taken = (HEAD - self.have).min(bytes.len());
                    self.head[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
                    self.have += taken;
                    bytes = &bytes[taken..];
                    if self.have < HEAD {
                        return;
                    }
                    self.begin(&mut report)
                }
            };
            let taken = self.left.min(bytes.len());
            if taken > 0 {
                self.keep(frame, &bytes[..taken], &mut report);
                report(Seen::Payload(frame, taken));
                self.left -= taken;
                bytes = &bytes[taken..];
            }
            if self.left == 0 {
                self.frame = None;
                report(Seen::End(frame, self.kept));
            }
        }
    }

    fn begin(&mut self, report: &mut impl FnMut(Seen)) -> Head {
        let [a, b, c, kind, flags, stream @ ..] = self.head;
        let head = Head {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        };
        self.have = 0;
        self.left = head.length;
        self.kept = [0; KEPT];
        self.keeping = 0;
        self.frame = Some(head);
        report(Seen::Begin(head));
        head
    }

    fn keep(&mut self, frame: Head, payload: &[u8], report: &mut impl FnMut(Seen)) {
        match frame.kind {
            SETTINGS => {
                for byte in payload {
                    self.kept[self.keeping] = *byte;
                    self.keeping += 1;
                    if self.keeping == 6 {
                        let [a, b, value @ .., _, _] = self.kept;
                        report(Seen::Setting(u16::from_be_bytes([a, b]), u32::from_be_bytes(value)));
                        self.keeping = 0;
                    }
                }
            }
            _ => {
                let taken = (KEPT - self.keeping).min(payload.len());
                self.kept[self.keeping..self.keeping + taken].copy_from_slice(&payload[..taken]);
                self.keeping += taken;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    fn scan<'b>(skip: usize, pieces: impl IntoIterator<Item = &'b [u8]>) -> Vec<Seen> {
        let (mut scanner, mut seen) = (Scanner::new(skip), Vec::new());
        for piece in pieces {
            scanner.advance(piece, |what| {
                // Pieces of a payload depend on how it came.
                match (seen.last_mut(), what) {
                    (_, Seen::Payload(head, _)) if head.kind == SETTINGS => {}
                    (Some(Seen::Payload(_, sum)), Seen::Payload(_, more)) => *sum += more,
                    (_, what) => seen.push(what),
                }
            });
        }
        assert_eq!(scanner.open_frame(), None);
        seen
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let bytes = [
            b"preface".to_vec(),
            frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]),
            frame(WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0]),
            frame(HEADERS, FIRST_FLAG, 1, b"hpack"),
            frame(DATA, 0, 0x8000_0001, &[7; 300]),
            frame(DATA, FIRST_FLAG, 1, &[]),
        ]
        .concat();
        let whole = scan(7, [bytes.as_slice()]);
        assert_eq!(whole[1], Seen::Setting(4, 65_536));
        assert!(whole.contains(&Seen::End(
            Head {
                length: 4,
                kind: WINDOW_UPDATE,
                flags: 0,
                stream: 0
            },
            [0, 0, 1, 0, 0, 0, 0, 0]
        )));
        let data = Head {
            length: 300,
            kind: DATA,
            flags: 0,
            stream: 1,
        };
        assert!(whole.contains(&Seen::Payload(data, 300)));
        for size in 1..40 {
            assert_eq!(scan(7, bytes.chunks(size)).len(), whole.len(), "{size}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(pieces: Vec<Vec<u8>>) {
            let mut scanner = Scanner::new(0);
            for piece in pieces {
                scanner.advance(&piece, |_| {});
            }
        }
    }
}
