//! What a window costs an upload.

use std::time::Duration;

use crate::{Amount, CostModel, Link, Road, Work};

/// The upload that is predicted, in bytes.
pub const UPLOAD: u64 = 100_000_000;

/// Round trips that are predicted for next to the one that was measured: in the country, across an ocean, around the world.
const ROUND_TRIPS: [Duration; 3] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// An upload of [`UPLOAD`] bytes at one round trip, on connections that are there, over a link that carries [`CostModel::rate`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Upload {
    /// For which round trip.
    pub round_trip: Duration,
    /// Whether that was measured, or is an example.
    pub is_measured: bool,
    /// What the window allows, in bytes a second: window ÷ round trip. `None` without HTTP/2.
    pub ceiling: Option<f64>,
    /// How long it takes over HTTP/1.1.
    pub http1: Duration,
    /// How long it takes over HTTP/2. `None` without HTTP/2.
    pub http2: Option<Duration>,
}

impl Upload {
    /// How many times as fast HTTP/1.1 is. `None` without HTTP/2.
    pub fn speedup(&self) -> Option<f64> {
        Some(self.http2?.as_secs_f64() / self.http1.as_secs_f64())
    }
}

/// Predictions for `measured` and for 20, 100 and 200 ms. `window` is [`Report::window`](super::Report::window).
pub fn uploads(model: &CostModel, window: Option<u64>, measured: Duration) -> Vec<Upload> {
    let work = Work {
        up: Amount::Bytes(UPLOAD),
        down: Amount::Bytes(4_000),
    };
    let round_trips = std::iter::once((measured, true)).chain(ROUND_TRIPS.map(|round_trip| (round_trip, false)));
    let upload = |(round_trip, is_measured)| {
        let link = Link { round_trip, rate: None };
        Upload {
            round_trip,
            is_measured,
            ceiling: window.map(|window| CostModel::ceiling(window, round_trip)),
            http1: model.time(&work, &link, &Road::http1(0)),
            http2: window.map(|window| model.time(&work, &link, &Road::http2(0, Some(window)))),
        }
    };
    round_trips.map(upload).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_and_gains() {
        let model = CostModel::default();
        // Window, round trip in ms, ceiling in bytes a second, and between which bounds the gain is.
        let cases: &[(u64, u64, f64, std::ops::Range<f64>)] = &[
            (65_535, 20, 3_276_750.0, 25.0..40.0),
            (65_535, 100, 655_350.0, 70.0..160.0),
            (65_535, 200, 327_675.0, 80.0..320.0),
            (1_000_000, 100, 1e7, 4.0..12.0),
            (16 << 20, 20, 838_860_800.0, 0.99..1.01),
            (16 << 20, 100, 167_772_160.0, 0.99..1.01),
        ];
        for (window, milliseconds, ceiling, gain) in cases {
            let rows = uploads(&model, Some(*window), Duration::from_millis(*milliseconds));
            assert_eq!(rows.len(), 4);
            let measured = rows[0];
            assert!(measured.is_measured && rows[1..].iter().all(|row| !row.is_measured));
            let off = measured.ceiling.unwrap() / ceiling;
            assert!((0.999..1.001).contains(&off), "{window} {milliseconds}: {measured:?}");
            let speedup = measured.speedup().unwrap();
            assert!(gain.contains(&speedup), "{window} {milliseconds}: {speedup}");
            let example = rows[1..].iter().find(|row| row.round_trip == measured.round_trip);
            assert_eq!(example.map(|row| row.http2), Some(measured.http2));
        }
    }

    #[test]
    fn without_http2_there_is_no_window() {
        for row in uploads(&CostModel::default(), None, Duration::from_millis(5)) {
            assert_eq!((row.ceiling, row.http2, row.speedup()), (None, None, None));
            assert!(row.http1 > Duration::ZERO);
        }
    }

    #[test]
    fn odd_numbers_do_no_harm() {
        for window in [0, 1, u64::MAX] {
            for round_trip in [Duration::from_micros(1), Duration::from_secs(86_400)] {
                for row in uploads(&CostModel::default(), Some(window), round_trip) {
                    assert!(row.speedup().unwrap().is_finite() && row.ceiling.unwrap().is_finite());
                }
            }
        }
    }
}
