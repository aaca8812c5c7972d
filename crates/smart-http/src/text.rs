//! Text that a server wrote, made safe to show: decoded, bounded, control characters made visible.

use std::fmt::Write as _;

/// How much of a `text/plain` answer is kept for an error.
pub(crate) const MAX_REMOTE_TEXT: usize = 8 * 1024;

/// Make `bytes` from a remote safe for a terminal or a log.
///
/// Read as UTF-8, with U+FFFD for what isn't. Control characters become visible: `^[` for ESC and the other C0 controls likewise,
/// `^?` for DEL, `<U+009B>` for C1 controls and for the characters that reorder or break lines (U+2028, U+2029, bidi controls).
/// That includes newline and tab: split lines before, and keep tabs if you must.
pub fn mask_control(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{0}'..='\u{1f}' => {
                out.push('^');
                out.push(char::from(character as u8 ^ 0x40));
            }
            '\u{7f}' => out.push_str("^?"),
            '\u{80}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                // Writing to a String can't fail.
                let _ = write!(out, "<U+{:04X}>", u32::from(character));
            }
            other => out.push(other),
        }
    }
    out
}

/// Mask, and keep at most `limit` characters.
pub(crate) fn masked(bytes: &[u8], limit: usize) -> String {
    let shown = mask_control(bytes.get(..limit.saturating_mul(4)).unwrap_or(bytes));
    match shown.char_indices().nth(limit) {
        Some((end, _)) => format!("{}...", &shown[..end]),
        None => shown,
    }
}

/// A `content-type` value, as far as it matters here (RFC 9110, section 8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MediaType {
    /// `type/subtype`, lower case, without parameters.
    pub(crate) essence: String,
    charset: Option<String>,
}

impl MediaType {
    pub(crate) fn of(headers: &http::HeaderMap) -> Option<MediaType> {
        let value = headers.get(http::header::CONTENT_TYPE)?;
        let value = String::from_utf8_lossy(value.as_bytes());
        let mut parts = value.split(';');
        let essence = parts.next()?.trim().to_ascii_lowercase();
        let charset = parts
            .filter_map(|parameter| parameter.split_once('='))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))
            .map(|(_, value)| value.trim().trim_matches('"').to_ascii_lowercase());
        Some(MediaType { essence, charset })
    }

    /// The one type whose text is shown to people.
    pub(crate) fn is_plain_text(&self) -> bool {
        self.essence == "text/plain"
    }
}

/// The text of a `text/plain` answer: lines masked and joined by newlines. `None` for any other type (never HTML), or no text.
pub(crate) fn remote_text(media: Option<&MediaType>, body: &[u8]) -> Option<String> {
    let media = media.filter(|media| media.is_plain_text())?;
    let text = match media.charset.as_deref() {
        Some("iso-8859-1" | "iso8859-1" | "latin1" | "windows-1252") => body.iter().copied().map(char::from).collect(),
        Some("utf-16" | "utf16") => match body {
            [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
            [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
            // RFC 2781, section 4.3: without a mark it is big-endian.
            rest => utf16(rest, u16::from_be_bytes),
        },
        Some("utf-16le") => utf16(body, u16::from_le_bytes),
        Some("utf-16be") => utf16(body, u16::from_be_bytes),
        _ => String::from_utf8_lossy(body).into_owned(),
    };
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            line.trim_end()
                .split('\t')
                .map(|part| mask_control(part.as_bytes()))
                .collect::<Vec<_>>()
                .join("\t")
        })
        .collect();
    let shown = lines.join("\n");
    let shown = shown.trim_matches('\n');
    (!shown.is_empty()).then(|| shown.to_owned())
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes
        .chunks_exact(2)
        .filter_map(|pair| <[u8; 2]>::try_from(pair).ok().map(unit));
    char::decode_utf16(units)
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn media(value: &str) -> Option<MediaType> {
        let mut headers = http::HeaderMap::new();
        headers.insert("content-type", http::HeaderValue::from_str(value).unwrap());
        MediaType::of(&headers)
    }

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(mask_control(b"a\x1b[31mb\x07\x7f"), "a^[[31mb^G^?");
        assert_eq!(mask_control("\u{9b}31m \u{202e}x".as_bytes()), "<U+009B>31m <U+202E>x");
        assert_eq!(mask_control(b"\x9bx\n"), "\u{fffd}x^J");
        assert_eq!(mask_control("zażółć".as_bytes()), "zażółć");
    }

    #[test]
    fn only_plain_text_is_kept_and_it_is_decoded() {
        assert_eq!(remote_text(media("text/html").as_ref(), b"<b>no</b>"), None);
        assert_eq!(remote_text(None, b"no"), None);
        assert_eq!(remote_text(media("Text/Plain").as_ref(), b"\n\n"), None);
        assert_eq!(
            remote_text(
                media("TEXT/plain; charset=utf-8").as_ref(),
                "dé\x1b\r\nni\ted\n".as_bytes()
            )
            .as_deref(),
            Some("dé^[\nni\ted")
        );
        assert_eq!(
            remote_text(media("text/plain;charset=\"ISO-8859-1\"").as_ref(), b"d\xe9").as_deref(),
            Some("dé")
        );
        assert_eq!(
            remote_text(media("text/plain; charset=utf-16").as_ref(), b"\xff\xfed\0\xe9\0").as_deref(),
            Some("dé")
        );
        assert_eq!(
            remote_text(media("text/plain; charset=utf-16").as_ref(), b"\0d\0\xe9\0").as_deref(),
            Some("dé")
        );
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(masked("ééé".as_bytes(), 2), "éé...");
        assert_eq!(masked("éé".as_bytes(), 2), "éé");
    }

    proptest! {
        #[test]
        fn nothing_masked_holds_a_control(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(!mask_control(&bytes).chars().any(char::is_control));
            prop_assert!(masked(&bytes, 10).chars().count() <= 13);
        }
    }
}
