//! The multiplexed answer (gitprotocol-pack(5), "Packfile Data"; `side-band-64k` in gitprotocol-capabilities(5)).
//!
//! Owns taking the bands apart. Knows nothing of what is in them, and masks nothing: whoever shows [`Band::Progress`] or
//! [`Band::Error`] must deal with control characters, and with lines that span packets.
use std::ops::ControlFlow;

use bstr::BString;

use crate::{Error, Missing, Packet, Part, Splitter, error::excerpt, pktline::describe};

/// The contents of one packet, at most [`crate::MAX_DATA`] − 1 bytes. Never empty, except for an error without words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Band<'a> {
    /// Band 1: the next bytes of the report.
    Data(&'a [u8]),
    /// Band 2: text for people, in lines that end in `\n` or `\r` anywhere.
    Progress(&'a [u8]),
    /// Band 3: why the remote gives up.
    Error(&'a [u8]),
}

/// Takes the bands; an error ends the reading.
pub type BandSink<'a> = dyn FnMut(Band<'_>) -> Result<(), Error> + 'a;

/// Takes an answer apart, from bytes split anywhere: [`push`](Self::push) all of them, then [`finish`](Self::finish).
///
/// Packets without data, by which a server keeps a connection alive, are not handed on.
#[derive(Debug, Clone)]
pub struct Sideband {
    splitter: Splitter,
    done: bool,
    /// The text of band 3, of which no more is kept than an error shows.
    failure: Option<BString>,
}

impl Default for Sideband {
    fn default() -> Self {
        Self::new()
    }
}

impl Sideband {
    /// At the beginning of the answer. There is no limit to its length, since nothing of it is kept.
    pub fn new() -> Self {
        Sideband {
            splitter: Splitter::new(Part::Sideband, u64::MAX),
            done: false,
            failure: None,
        }
    }

    /// Whether the closing flush was read. More bytes would be ignored.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Read the next `bytes`, handing each packet that they complete to `sink`. After an error the rest can't be read.
    pub fn push(&mut self, bytes: &[u8], sink: &mut BandSink<'_>) -> Result<(), Error> {
        if self.done {
            return Ok(());
        }
        let Sideband {
            splitter,
            done,
            failure,
        } = self;
        splitter.push(bytes, &mut |packet, offset| {
            let data = match packet {
                Packet::Data(data) => data,
                Packet::Flush => {
                    *done = true;
                    return Ok(ControlFlow::Break(()));
                }
                Packet::Delimiter | Packet::ResponseEnd => return Err(unexpected(packet, offset)),
            };
            match data {
                [1 | 2] => {}
                [1, data @ ..] => sink(Band::Data(data))?,
                [2, text @ ..] => sink(Band::Progress(text))?,
                [3, text @ ..] => {
                    let kept = failure.get_or_insert_default();
                    let room = Error::REMOTE_TEXT.saturating_sub(kept.len());
                    kept.extend(text.iter().take(room));
                    sink(Band::Error(text))?;
                }
                // A server that fails before it gets to multiplexing.
                [b'E', b'R', b'R', b' ', text @ ..] => return Err(Error::remote(text.trim_ascii_end())),
                [band, ..] => {
                    return Err(Error::UnknownBand {
                        band: *band,
                        offset,
                        found: excerpt(data),
                    });
                }
                [] => return Err(unexpected(packet, offset)),
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// There are no more bytes. Fails if they ended before the flush, and if there was anything in band 3: the remote gave up,
    /// so that a missing flush, or a missing report, is no news.
    pub fn finish(&self) -> Result<(), Error> {
        if let Some(text) = &self.failure {
            return Err(Error::remote(text.trim_ascii_end()));
        }
        if self.done {
            return Ok(());
        }
        self.splitter.finish()?;
        Err(self.splitter.truncated(Missing::Flush))
    }
}

fn unexpected(packet: Packet<'_>, offset: u64) -> Error {
    Error::Unexpected {
        part: Part::Sideband,
        offset,
        found: match packet {
            Packet::Data(_) => "packet without a band".into(),
            other => describe(other),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pktline::{MAX_DATA, encode_line};

    /// Everything that came out, in order, and how it ended.
    fn read(chunks: &[&[u8]]) -> (Vec<String>, Result<(), Error>) {
        let mut sideband = Sideband::new();
        let mut seen = Vec::new();
        for chunk in chunks {
            let pushed = sideband.push(chunk, &mut |band| {
                let (name, text) = match band {
                    Band::Data(text) => ("data", text),
                    Band::Progress(text) => ("progress", text),
                    Band::Error(text) => ("error", text),
                };
                seen.push(format!("{name} {}", String::from_utf8_lossy(text)));
                Ok(())
            });
            if let Err(err) = pushed {
                return (seen, Err(err));
            }
        }
        (seen, sideband.finish())
    }

    #[test]
    fn bands_without_keepalives_up_to_the_flush() {
        let bytes = b"0005\x010009\x02half0005\x010006\x01r0005\x020000after the flush";
        let whole = read(&[bytes]);
        assert_eq!(whole, (vec!["progress half".into(), "data r".into()], Ok(())));
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(&single), whole);
    }

    #[test]
    fn the_largest_packet_comes_in_one_piece() {
        let mut bytes = Vec::new();
        encode_line(&mut bytes, &[&[1], &[b'x'; MAX_DATA - 1]]).unwrap();
        bytes.extend_from_slice(b"0000");
        let chunks: Vec<&[u8]> = bytes.chunks(1500).collect();
        let (seen, end) = read(&chunks);
        assert_eq!(
            (seen.len(), seen[0].len(), end),
            (1, "data ".len() + MAX_DATA - 1, Ok(()))
        );
    }

    #[test]
    fn band_three_is_the_outcome_with_and_without_a_flush() {
        for tail in ["", "0000", "00"] {
            let bytes = format!("0008\x03no 000a\x03room\n{tail}");
            let (seen, end) = read(&[bytes.as_bytes()]);
            assert_eq!(seen, ["error no ", "error room\n"]);
            assert_eq!(end, Err(Error::remote(b"no room")));
        }
        assert_eq!(read(&[b"0005\x03"]), (vec!["error ".into()], Err(Error::remote(b""))));
        assert_eq!(read(&[b"000cERR no.\n"]).1, Err(Error::remote(b"no.")));
    }

    #[test]
    fn what_is_no_sideband() {
        let plain = read(&[b"000eunpack ok\n"]).1.unwrap_err();
        assert!(matches!(plain, Error::UnknownBand { band: b'u', .. }), "{plain}");
        assert!(plain.to_string().contains("unpack ok"), "{plain}");
        for packet in ["0004", "0001", "0002"] {
            let err = read(&[packet.as_bytes()]).1.unwrap_err();
            assert!(
                matches!(
                    err,
                    Error::Unexpected {
                        part: Part::Sideband,
                        ..
                    }
                ),
                "{err}"
            );
        }
        let html = read(&[b"<html>"]).1.unwrap_err();
        assert!(
            matches!(
                html,
                Error::NotPktLine {
                    part: Part::Sideband,
                    ..
                }
            ),
            "{html}"
        );
    }

    #[test]
    fn every_early_end_is_noticed() {
        let bytes = b"0009\x02text0006\x01r0000";
        for end in 0..bytes.len() {
            let err = read(&[&bytes[..end]]).1.unwrap_err();
            assert!(
                matches!(err, Error::Truncated { received, .. } if received == end as u64),
                "{err}"
            );
        }
        assert_eq!(read(&[bytes]).1, Ok(()));
    }

    #[test]
    fn the_sinks_refusal_ends_the_reading() {
        let mut calls = 0;
        let refused = Sideband::new().push(b"0006\x01a0006\x01b", &mut |_| {
            calls += 1;
            Err(Error::NoCommands)
        });
        assert_eq!((refused, calls), (Err(Error::NoCommands), 1));
    }
}
