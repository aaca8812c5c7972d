//! DATA frames of HTTP/2, counted as they pass by: RFC 9113, sections 3.4 and 4.1.
//!
//! Owns just enough of the framing to find where each frame begins. Nothing is kept but counts, and what isn't HTTP/2 is let by.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// What a client sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A frame's head: three bytes of length, one of type, one of flags, four of stream.
const HEAD: usize = 9;
/// The type of DATA.
const DATA: u8 = 0;

/// DATA frames of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Frames {
    /// How many, empty ones too.
    pub count: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
}

/// The sums of one direction of all connections.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Sum {
    pub(crate) fn frames(&self) -> Frames {
        Frames {
            count: self.count.load(Ordering::SeqCst),
            bytes: self.bytes.load(Ordering::SeqCst),
        }
    }
}

/// Both directions of all connections, as the server sees them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) received: Arc<Sum>,
    pub(crate) sent: Arc<Sum>,
}

/// One connection's both directions.
#[derive(Debug)]
pub(crate) struct Passing {
    /// `None` until the client's first bytes tell which protocol it speaks.
    http2: Option<bool>,
    preface: usize,
    received: Counter,
    sent: Counter,
}

impl Passing {
    /// A connection; `http2` where the protocol is known beforehand.
    pub(crate) fn new(tally: &Tally, http2: Option<bool>) -> Self {
        Passing {
            http2,
            preface: 0,
            received: Counter::new(tally.received.clone()),
            sent: Counter::new(tally.sent.clone()),
        }
    }

    pub(crate) fn received(&mut self, mut bytes: &[u8]) {
        if self.http2 == Some(false) {
            return;
        }
        let part = bytes.len().min(PREFACE.len() - self.preface);
        if bytes[..part] != PREFACE[self.preface..self.preface + part] {
            self.http2 = Some(false);
            return;
        }
        self.preface += part;
        bytes = &bytes[part..];
        if self.preface == PREFACE.len() {
            self.http2 = Some(true);
            self.received.pass(bytes);
        }
    }

    pub(crate) fn sent(&mut self, bytes: &[u8]) {
        if self.http2 == Some(true) {
            self.sent.pass(bytes);
        }
    }
}

/// One direction of one connection.
#[derive(Debug)]
struct Counter {
    head: [u8; HEAD],
    /// How much of the head is there.
    have: usize,
    /// What is to come of the payload.
    left: usize,
    sum: Arc<Sum>,
}

impl Counter {
    fn new(sum: Arc<Sum>) -> Self {
        Counter {
            head: [0; HEAD],
            have: 0,
            left: 0,
            sum,
        }
    }

    fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = bytes.len().min(self.left);
            self.left -= skipped;
            bytes = &bytes[skipped..];
            let part = bytes.len().min(HEAD - self.have);
            self.head[self.have..self.have + part].copy_from_slice(&bytes[..part]);
            self.have += part;
            bytes = &bytes[part..];
            if self.have == HEAD {
                self.have = 0;
                let [a, b, c, kind, ..] = self.head;
                let length = u32::from_be_bytes([0, a, b, c]);
                self.left = length as usize;
                if kind == DATA {
                    self.sum.count.fetch_add(1, Ordering::SeqCst);
                    self.sum.bytes.fetch_add(length.into(), Ordering::SeqCst);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A DATA frame of 300 bytes, a SETTINGS frame, an empty DATA frame.
    fn frames() -> Vec<u8> {
        let mut bytes = vec![0, 1, 44, 0, 0, 0, 0, 0, 1];
        bytes.extend([7; 300]);
        bytes.extend([0, 0, 6, 4, 0, 0, 0, 0, 0]);
        bytes.extend([0; 6]);
        bytes.extend([0, 0, 0, 0, 1, 0, 0, 0, 1]);
        bytes
    }

    #[test]
    fn frames_are_counted_wherever_bytes_are_cut() {
        let all = [PREFACE, &frames()].concat();
        for step in [1, 2, 7, 9, 100, 1000] {
            let tally = Tally::default();
            let mut passing = Passing::new(&tally, None);
            passing.sent(&frames());
            all.chunks(step).for_each(|part| passing.received(part));
            frames().chunks(step).for_each(|part| passing.sent(part));
            let expected = Frames { count: 2, bytes: 300 };
            assert_eq!(tally.received.frames(), expected, "{step}");
            assert_eq!(
                tally.sent.frames(),
                expected,
                "{step}: what went before the preface is of another protocol"
            );
        }
    }

    #[test]
    fn other_protocols_are_let_by() {
        let tally = Tally::default();
        for (http2, bytes) in [
            (None, &b"POST / HTTP/1.1\r\n\r\n"[..]),
            (Some(false), PREFACE),
            (None, b"PRI * nothing"),
        ] {
            let mut passing = Passing::new(&tally, http2);
            passing.received(bytes);
            passing.received(&frames());
            passing.sent(&frames());
        }
        assert_eq!(tally.received.frames(), Frames::default());
        assert_eq!(tally.sent.frames(), Frames::default());
    }
}
