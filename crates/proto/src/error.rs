//! Why a push can't be spoken, and how remote text is quoted in saying so.
//!
//! Owns the one error type of the crate and the masking of whatever the network sent. An error holds at most
//! [`Error::REMOTE_TEXT`] bytes of it, and never shows control characters when displayed.
use std::fmt;

use bstr::{BStr, BString, ByteSlice};
use gix_hash::Kind;

/// What was being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// The list of refs that opens a push.
    Advertisement,
    /// The multiplexed answer to the update request.
    Sideband,
    /// The per-ref results, in band 1 of the answer or alone.
    Report,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Advertisement => "ref advertisement",
            Part::Sideband => "answer to the push",
            Part::Report => "status report",
        })
    }
}

/// What was still to come when the bytes ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Missing {
    /// The end came before the first byte.
    Everything,
    /// The end came inside of a pkt-line's length.
    Header {
        /// How many of its four bytes were there.
        received: usize,
    },
    /// The end came inside of a pkt-line's body.
    Body {
        /// How many bytes of it were not there.
        expected: usize,
    },
    /// The end came between two pkt-lines, before the flush packet.
    Flush,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Everything => f.write_str("nothing was received"),
            Missing::Header { received } => write!(f, "{received} bytes of length header were received"),
            Missing::Body { expected } => write!(f, "{expected} bytes of body are still expected"),
            Missing::Flush => f.write_str("the flush packet at its end is missing"),
        }
    }
}

/// Why reading or writing failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Where a pkt-line had to begin there was something else, such as an HTML page.
    #[error(
        "the {part} isn't Git's protocol: a pkt-line was expected at byte {offset}, found \"{found}\"; \
         check that the URL names a Git repository"
    )]
    NotPktLine {
        /// What was being read.
        part: Part,
        /// Bytes understood before it.
        offset: u64,
        /// A masked excerpt of what is there.
        found: String,
    },
    /// The bytes ended too early.
    #[error(
        "the remote end hung up in the {part} after {received} bytes: {missing}; whether anything changed there is not known"
    )]
    Truncated {
        /// What was being read.
        part: Part,
        /// Bytes that were received.
        received: u64,
        /// What was still to come.
        missing: Missing,
    },
    /// The remote said that it can't go on: an `ERR` packet, or text in band 3.
    #[error("remote error: {}", excerpt_of(text, Error::REMOTE_TEXT))]
    Remote {
        /// Its words as they were sent, at most [`Error::REMOTE_TEXT`] bytes; not masked, so beware of showing them as they are.
        text: BString,
    },
    /// A well-formed pkt-line that has no place here.
    #[error("protocol error in the {part}: unexpected \"{found}\" before byte {offset}")]
    Unexpected {
        /// What was being read.
        part: Part,
        /// Bytes read, the offending packet included.
        offset: u64,
        /// A masked excerpt of it, or the name of a special packet.
        found: String,
    },
    /// More bytes than a server in good faith would send.
    #[error("the {part} is longer than {limit} bytes and was not read further")]
    TooLong {
        /// What was being read.
        part: Part,
        /// The limit that was set.
        limit: u64,
    },
    /// The advertisement is for another service than the one that was asked for.
    #[error("asked for {expected}, but the server announces \"{found}\"")]
    WrongService {
        /// The service that was asked for.
        expected: String,
        /// The masked banner.
        found: String,
    },
    /// The server speaks a version of the protocol in which there is no push.
    #[error(
        "the server answered in protocol \"{found}\"; pushing knows version 0 and 1 only, so don't ask for another"
    )]
    UnsupportedVersion {
        /// The masked version line.
        found: String,
    },
    /// The server's repository uses a hash that isn't known here.
    #[error("the remote repository's object format \"{found}\" is not known here; sha1 and sha256 are")]
    UnknownObjectFormat {
        /// The masked name of the format.
        found: String,
    },
    /// The advertised ids aren't of the announced object format.
    #[error(
        "the server announces object format {announced}, but sends an id of {length} hexadecimal digits: \"{found}\""
    )]
    IdLength {
        /// The format of the `object-format` capability, or SHA-1 without it.
        announced: Kind,
        /// The number of hexadecimal digits seen.
        length: usize,
        /// A masked excerpt of the line.
        found: String,
    },
    /// The two repositories use different object formats.
    #[error(
        "the receiving end does not support this repository's hash algorithm: it is {local} here and {remote} there; \
         push to a repository made with --object-format={local}"
    )]
    ObjectFormat {
        /// The format of the local repository.
        local: Kind,
        /// The masked formats that the server offers.
        remote: String,
    },
    /// Something was asked for that the server doesn't offer.
    #[error("the receiving end does not support {what}; push without it")]
    NotOffered {
        /// What was asked for, as git words it.
        what: &'static str,
    },
    /// The server doesn't offer `delete-refs`.
    #[error(
        "the receiving end does not support deleting refs, so \"{}\" can't be deleted; leave it out",
        excerpt(name)
    )]
    DeleteNotOffered {
        /// The ref that was to be deleted.
        name: BString,
    },
    /// A request without commands.
    #[error("there are no ref updates to ask for; don't send a request")]
    NoCommands,
    /// A ref name that a receiving end would refuse.
    #[error(
        "\"{}\" is no ref that can be pushed to: a full, well-formed name below refs/ is needed",
        excerpt(name)
    )]
    InvalidRefName {
        /// The name.
        name: BString,
    },
    /// An id that isn't of the negotiated object format.
    #[error("{id} is no {expected} id, but the object format agreed on with the receiving end is {expected}")]
    IdKind {
        /// The id.
        id: gix_hash::ObjectId,
        /// The format that was negotiated.
        expected: Kind,
    },
    /// A push option that can't be sent.
    #[error("push options can't hold newlines or NUL bytes: \"{}\"", excerpt(option))]
    InvalidPushOption {
        /// The option.
        option: BString,
    },
    /// A command or push option that doesn't fit into one pkt-line.
    #[error(
        "{length} bytes don't fit into a pkt-line of at most {} bytes: \"{found}\"",
        crate::MAX_DATA
    )]
    LineTooLong {
        /// Bytes that were to be sent.
        length: usize,
        /// How they begin, masked.
        found: String,
    },
    /// A sideband packet of a band that doesn't exist; often a server that answers without the sideband.
    #[error("protocol error in the answer to the push: bad band #{band} before byte {offset}, in \"{found}\"")]
    UnknownBand {
        /// The first byte of the packet.
        band: u8,
        /// Bytes read, the packet included.
        offset: u64,
        /// A masked excerpt of the packet.
        found: String,
    },
    /// A report that doesn't begin with an `unpack` line.
    #[error("unable to parse the remote unpack status: \"{found}\"; whether anything changed there is not known")]
    NoUnpackStatus {
        /// A masked excerpt of what is there instead, or the name of a special packet.
        found: String,
    },
}

impl Error {
    /// The most of a remote's own text that an error keeps, in bytes.
    pub const REMOTE_TEXT: usize = 4096;

    /// An error in the remote's own words, of which no more than [`Error::REMOTE_TEXT`] bytes are kept.
    pub(crate) fn remote(text: &[u8]) -> Error {
        let text = text.get(..Error::REMOTE_TEXT).unwrap_or(text);
        Error::Remote { text: text.into() }
    }
}

/// The most of a foreign line that is quoted, in bytes.
pub(crate) const EXCERPT: usize = 96;

/// The beginning of `bytes`, fit to be shown.
pub(crate) fn excerpt(bytes: impl AsRef<[u8]>) -> String {
    excerpt_of(bytes, EXCERPT)
}

fn excerpt_of(bytes: impl AsRef<[u8]>, limit: usize) -> String {
    let bytes = bytes.as_ref();
    let shown: &BStr = bytes.get(..limit).unwrap_or(bytes).into();
    let mut text: String = shown.trim_ascii_end().as_bstr().chars().map(masked).collect();
    if bytes.len() > limit {
        text.push('…');
    }
    text
}

/// Control characters could drive a terminal, and those that turn the writing direction could make a line read as another.
fn masked(character: char) -> char {
    match character {
        '\t' | '\n' | '\r' => ' ',
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '?',
        control if control.is_control() => '?',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_bounded_and_masked() {
        assert_eq!(excerpt("<html>\r\n<b>\u{1b}[31mred\u{202e}"), "<html>  <b>?[31mred?");
        assert_eq!(excerpt(b"\xff\0plain\n"), "\u{fffd}?plain");
        let long = excerpt("x".repeat(200));
        assert_eq!(long.chars().count(), EXCERPT + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn remote_text_is_kept_raw_and_shown_masked() {
        let err = Error::remote(b"no \x1b[2Jaccess");
        assert_eq!(err.to_string(), "remote error: no ?[2Jaccess");
        assert!(matches!(err, Error::Remote { text } if text == "no \x1b[2Jaccess"));
        let Error::Remote { text } = Error::remote(&[b'x'; 70_000]) else {
            panic!("the constructor makes this variant")
        };
        assert_eq!(text.len(), Error::REMOTE_TEXT);
    }

    #[test]
    fn truncation_is_told_in_gits_words() {
        let err = Error::Truncated {
            part: Part::Report,
            received: 7,
            missing: Missing::Header { received: 3 },
        };
        assert!(
            err.to_string().contains("3 bytes of length header were received"),
            "{err}"
        );
        assert!(
            Missing::Body { expected: 9 }
                .to_string()
                .contains("9 bytes of body are still expected")
        );
    }
}
