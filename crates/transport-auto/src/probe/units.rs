//! Numbers with their units, for people. Bytes in memory are counted in powers of 1024 (windows), rates in powers of 1000 (links).

use std::time::Duration;

/// `1234567` as `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `65535` as `65,535 bytes (64 KiB)`.
pub fn bytes(bytes: u64) -> String {
    let exact = format!("{} bytes", count(bytes));
    match bytes {
        0..1024 => exact,
        _ => format!("{exact} ({})", about(bytes)),
    }
}

/// `65535` as `64 KiB`.
pub fn about(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        // What rounds to a thousand KiB and more reads better in MiB.
        1024..1_048_000 => format!("{} KiB", short(value / 1024.0)),
        1_048_000..1_073_000_000 => format!("{} MiB", short(value / 1_048_576.0)),
        _ => format!("{} GiB", short(value / 1_073_741_824.0)),
    }
}

/// Bytes a second as `3.2 MB/s`.
pub fn rate(bytes_a_second: f64) -> String {
    let (value, unit) = scaled(bytes_a_second);
    format!("{} {unit}B/s", short(value))
}

/// Bits a second as `100 Mbit/s`.
pub fn bits(bits_a_second: f64) -> String {
    let (value, unit) = scaled(bits_a_second);
    format!("{} {unit}bit/s", short(value))
}

/// `20.3 ms`, `1.1 s`, `6.4 min`.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..0.001 => format!("{} µs", short(seconds * 1e6)),
        ..1.0 => format!("{} ms", short(seconds * 1e3)),
        ..120.0 => format!("{} s", short(seconds)),
        ..7200.0 => format!("{} min", short(seconds / 60.0)),
        _ => format!("{} h", short(seconds / 3600.0)),
    }
}

fn scaled(value: f64) -> (f64, &'static str) {
    match value {
        ..1e3 => (value, ""),
        ..1e6 => (value / 1e3, "k"),
        ..1e9 => (value / 1e6, "M"),
        ..1e12 => (value / 1e9, "G"),
        _ => (value / 1e12, "T"),
    }
}

/// One decimal below 100, none above and where it is nought.
pub(super) fn short(value: f64) -> String {
    let text = match value {
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        let cases: &[(String, &str)] = &[
            (count(0), "0"),
            (count(999), "999"),
            (count(1_000), "1,000"),
            (count(2_147_483_647), "2,147,483,647"),
            (bytes(9), "9 bytes"),
            (bytes(65_535), "65,535 bytes (64 KiB)"),
            (bytes(1_250_000), "1,250,000 bytes (1.2 MiB)"),
            (about(16 * 1024 * 1024), "16 MiB"),
            (about(1_048_575), "1 MiB"),
            (about(2_147_483_647), "2 GiB"),
            (rate(655_350.0), "655 kB/s"),
            (rate(3_276_750.0), "3.3 MB/s"),
            (rate(9.0), "9 B/s"),
            (bits(100e6), "100 Mbit/s"),
            (bits(1e9), "1 Gbit/s"),
            (time(Duration::from_micros(85)), "85 µs"),
            (time(Duration::from_micros(20_312)), "20.3 ms"),
            (time(Duration::from_millis(100)), "100 ms"),
            (time(Duration::from_millis(1_100)), "1.1 s"),
            (time(Duration::from_secs(150)), "2.5 min"),
            (time(Duration::from_secs(7200)), "2 h"),
        ];
        for (text, expected) in cases {
            assert_eq!(text, expected);
        }
    }
}
