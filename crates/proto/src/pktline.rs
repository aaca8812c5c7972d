//! pkt-lines, the framing under everything else (gitprotocol-common(5), "pkt-line Format").
//!
//! Owns cutting a stream of bytes into packets wherever the stream was split, and writing them. Knows nothing of what the
//! packets mean. `gix-packetline` decodes; what it lacks, and is here, is a memory between reads, and lenience to the empty
//! packet `0004`, which senders should not send, and readers must take.
use std::ops::ControlFlow;

use gix_packetline::{
    PacketLineRef,
    decode::{Stream, streaming},
};

use crate::{
    Error, Missing, Part,
    error::{EXCERPT, excerpt},
};

/// A packet: data without its length, or one of the special packets.
pub type Packet<'a> = PacketLineRef<'a>;

/// The longest pkt-line in bytes, its four bytes of length included.
pub const MAX_LINE: usize = 65520;
/// The most data that a pkt-line carries, in bytes.
pub const MAX_DATA: usize = MAX_LINE - HEADER;

const HEADER: usize = 4;

/// Takes packets and says whether to go on.
pub type PacketSink<'a> = dyn FnMut(Packet<'_>, u64) -> Result<ControlFlow<()>, Error> + 'a;

/// Cuts bytes, split anywhere, into packets.
#[derive(Debug, Clone)]
pub struct Splitter {
    part: Part,
    limit: u64,
    /// The beginning of a packet whose rest hasn't come yet. Never longer than one packet.
    held: Vec<u8>,
    /// How many bytes `held` lacks to be a header, or, with a header, a packet.
    lacking: usize,
    /// Bytes of all packets that were handed out.
    consumed: u64,
    /// `held` doesn't begin with a length: gather a little more of it to quote.
    spoiled: bool,
}

enum Step<'a> {
    Packet(Packet<'a>, usize),
    Lacking(usize),
    Spoiled,
}

impl Splitter {
    /// Split `part`, and read no more than `limit` bytes of it.
    pub fn new(part: Part, limit: u64) -> Self {
        Splitter {
            part,
            limit,
            held: Vec::new(),
            lacking: 0,
            consumed: 0,
            spoiled: false,
        }
    }

    /// Read no more than `limit` bytes.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// All bytes received so far, except those after a packet at which the sink stopped.
    pub fn received(&self) -> u64 {
        self.consumed + self.held.len() as u64
    }

    /// Hand each packet that `bytes` completes to `sink`, together with the number of bytes up to its end, until the sink
    /// breaks; the bytes after that are dropped.
    ///
    /// Data that isn't pkt-lines makes an error only when there are enough bytes to quote, or in [`finish`](Self::finish),
    /// so that the error is the same however the bytes were split.
    pub fn push(&mut self, mut bytes: &[u8], sink: &mut PacketSink<'_>) -> Result<(), Error> {
        while !bytes.is_empty() {
            if self.spoiled {
                let room = (EXCERPT + 1).saturating_sub(self.held.len());
                self.held.extend(bytes.iter().take(room));
                if self.held.len() > EXCERPT {
                    return Err(self.not_pkt_line());
                }
                break;
            }
            let held = !self.held.is_empty();
            if held {
                let (taken, rest) = bytes.split_at(self.lacking.min(bytes.len()));
                self.held.extend_from_slice(taken);
                bytes = rest;
                self.lacking -= taken.len();
                if self.lacking > 0 {
                    break;
                }
            }
            match step(if held { &self.held } else { bytes }) {
                Step::Packet(packet, length) => {
                    self.consumed += length as u64;
                    if self.consumed > self.limit {
                        return Err(Error::TooLong {
                            part: self.part,
                            limit: self.limit,
                        });
                    }
                    let flow = sink(packet, self.consumed)?;
                    if held {
                        self.held.clear();
                    } else {
                        bytes = bytes.get(length..).unwrap_or_default();
                    }
                    if flow.is_break() {
                        break;
                    }
                }
                Step::Lacking(lacking) => {
                    self.lacking = lacking;
                    if !held {
                        self.held.extend_from_slice(bytes);
                        break;
                    }
                }
                Step::Spoiled => self.spoiled = true,
            }
        }
        Ok(())
    }

    /// The bytes have ended: fail unless they did so between two packets.
    pub fn finish(&self) -> Result<(), Error> {
        if self.spoiled {
            return Err(self.not_pkt_line());
        }
        match self.held.len() {
            0 => Ok(()),
            received @ 1..HEADER => Err(self.truncated(Missing::Header { received })),
            _ => Err(self.truncated(Missing::Body { expected: self.lacking })),
        }
    }

    /// The bytes have ended, and `missing` was still to come.
    pub(crate) fn truncated(&self, missing: Missing) -> Error {
        Error::Truncated {
            part: self.part,
            received: self.received(),
            missing: if self.received() == 0 {
                Missing::Everything
            } else {
                missing
            },
        }
    }

    fn not_pkt_line(&self) -> Error {
        Error::NotPktLine {
            part: self.part,
            offset: self.consumed,
            found: excerpt(&self.held),
        }
    }
}

fn step(bytes: &[u8]) -> Step<'_> {
    if bytes.starts_with(b"0004") {
        return Step::Packet(Packet::Data(&[]), HEADER);
    }
    match streaming(bytes) {
        Ok(Stream::Complete { line, bytes_consumed }) => Step::Packet(line, bytes_consumed),
        Ok(Stream::Incomplete { bytes_needed }) => Step::Lacking(bytes_needed),
        Err(_) => Step::Spoiled,
    }
}

/// What to call a packet in an error.
pub(crate) fn describe(packet: Packet<'_>) -> String {
    match packet {
        Packet::Data(data) => excerpt(data),
        Packet::Flush => "flush packet".into(),
        Packet::Delimiter => "delimiter packet".into(),
        Packet::ResponseEnd => "response-end packet".into(),
    }
}

/// A line's text: one newline at its end isn't part of it.
pub(crate) fn chomp(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Append one pkt-line of the concatenated `parts`, exactly as they are, to `out`.
pub fn encode_line(out: &mut Vec<u8>, parts: &[&[u8]]) -> Result<(), Error> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    if length > MAX_DATA {
        return Err(Error::LineTooLong {
            length,
            found: excerpt(parts.concat()),
        });
    }
    out.extend_from_slice(format!("{:04x}", length + HEADER).as_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
    Ok(())
}

/// Append a flush packet to `out`.
pub fn encode_flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]]) -> (Vec<String>, Result<(), Error>) {
        let mut splitter = Splitter::new(Part::Report, 1 << 20);
        let mut seen = Vec::new();
        for chunk in chunks {
            let pushed = splitter.push(chunk, &mut |packet, _| {
                seen.push(describe(packet));
                Ok(ControlFlow::Continue(()))
            });
            if let Err(err) = pushed {
                return (seen, Err(err));
            }
        }
        (seen, splitter.finish())
    }

    #[test]
    fn packets_come_whole_whatever_the_split() {
        let bytes = b"0006a\n00040000000100020005b";
        let whole = split(&[bytes]);
        assert_eq!(
            whole.0,
            ["a", "", "flush packet", "delimiter packet", "response-end packet", "b"]
        );
        assert_eq!(whole.1, Ok(()));
        for at in 0..bytes.len() {
            let (left, right) = bytes.split_at(at);
            assert_eq!(split(&[left, right]), whole, "split at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(split(&single), whole);
    }

    #[test]
    fn the_longest_packet_passes_and_a_longer_one_does_not() {
        let mut line = Vec::new();
        encode_line(&mut line, &[&[b'x'; MAX_DATA]]).unwrap();
        assert_eq!(&line[..4], b"fff0");
        let (seen, end) = split(&[&line[..10], &line[10..]]);
        assert_eq!((seen.len(), end), (1, Ok(())));
        assert!(matches!(
            encode_line(&mut line, &[&[b'x'; MAX_DATA], b"y"]),
            Err(Error::LineTooLong { length: 65517, .. })
        ));
        for header in ["fff1", "ffff", "0003"] {
            assert!(
                matches!(split(&[header.as_bytes()]).1, Err(Error::NotPktLine { offset: 0, .. })),
                "{header}"
            );
        }
    }

    #[test]
    fn garbage_is_quoted_the_same_for_any_split() {
        let mut page = b"0005a<!DOCTYPE html>\n<html>".to_vec();
        for length in [page.len(), 300] {
            page.resize(length, b'.');
            let whole = split(&[&page]);
            let Err(Error::NotPktLine { offset: 5, found, .. }) = &whole.1 else {
                panic!("{whole:?}")
            };
            assert!(found.starts_with("<!DOCTYPE html> <html>"), "{found}");
            let single: Vec<&[u8]> = page.chunks(1).collect();
            assert_eq!(split(&single), whole);
        }
    }

    #[test]
    fn an_end_inside_of_a_packet_says_what_is_missing() {
        let missing = |bytes: &[u8]| match split(&[bytes]).1 {
            Err(Error::Truncated { missing, received, .. }) => (received, missing),
            other => panic!("{other:?}"),
        };
        assert_eq!(missing(b"0005a00"), (7, Missing::Header { received: 2 }));
        assert_eq!(missing(b"0005a0009abc"), (12, Missing::Body { expected: 2 }));
        assert_eq!(missing(b"0009"), (4, Missing::Body { expected: 5 }));
    }

    #[test]
    fn the_limit_counts_whole_packets() {
        let mut splitter = Splitter::new(Part::Report, 10);
        let mut sink = |_: Packet<'_>, _| Ok(ControlFlow::Continue(()));
        assert!(splitter.push(b"0005a0005b", &mut sink).is_ok());
        assert_eq!(
            splitter.push(b"0000", &mut sink),
            Err(Error::TooLong {
                part: Part::Report,
                limit: 10
            })
        );
    }
}
