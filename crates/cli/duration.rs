//! Durations in the configuration: a number with `s`, `m`, `h` or `d` behind it; seconds without.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bstr::ByteSlice;

/// Read `text`.
pub(crate) fn parse(text: &str) -> Result<Duration> {
    let text = text.trim();
    let (number, unit) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 60 * 60),
        Some((at, 'd')) => (&text[..at], 24 * 60 * 60),
        _ => (text, 1),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    // Ten thousand years fit into every clock's arithmetic.
    let seconds = seconds.filter(|seconds| *seconds < 1 << 38);
    seconds
        .map(Duration::from_secs)
        .with_context(|| format!("'{text}' is no duration: use a number with s, m, h or d behind it"))
}

/// The value of `key`, where there is one.
#[cfg(unix)]
pub(crate) fn configured(config: &gix::config::File, key: &str) -> Result<Option<Duration>> {
    let Some(value) = config.string(key) else {
        return Ok(None);
    };
    let duration = parse(&value.to_str_lossy());
    duration
        .map(Some)
        .with_context(|| format!("in the configuration key {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_seconds_to_days() {
        for (text, seconds) in [
            ("90", 90),
            ("0", 0),
            ("1s", 1),
            ("5m", 300),
            ("24h", 86_400),
            (" 2d ", 172_800),
        ] {
            assert_eq!(parse(text).unwrap(), Duration::from_secs(seconds), "{text}");
        }
        for text in ["", "h", "-1s", "1w", "1.5h", "99999999999999999999", "9999999999999d"] {
            assert!(parse(text).unwrap_err().to_string().contains("no duration"), "{text}");
        }
    }
}
