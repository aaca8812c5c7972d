//! What an exchange will take on each road there is, as a pure function of what is known before it begins.

use std::time::Duration;

/// How much is to be moved one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Amount {
    /// So many bytes.
    Bytes(u64),
    /// Nobody knows yet, and it may be much: a pack that is still being made.
    Large,
}

/// One exchange: a request's body and its answer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// To the server.
    pub up: Amount,
    /// From it.
    pub down: Amount,
}

impl Work {
    /// A request without a body worth mention, and a short answer.
    pub const SMALL: Work = Work {
        up: Amount::Bytes(500),
        down: Amount::Bytes(4_000),
    };
}

/// The way packets take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// The smallest round trip seen.
    pub round_trip: Duration,
    /// Bytes a second it carries, if that was measured.
    pub rate: Option<f64>,
}

/// What is spoken on a road.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// HTTP/1.1: TCP alone limits what is on its way.
    Http1,
    /// HTTP/2: so does the server's receive window (RFC 9113, section 5.2).
    Http2,
}

/// A connection to the origin, there already or to be made.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Road {
    /// What is spoken on it.
    pub protocol: Protocol,
    /// Round trips before a request can leave: 0 on a connection that is there, 1 for TCP, 2 with TLS 1.3.
    pub handshakes: u32,
    /// How many exchanges will ride on it: they share the handshakes.
    pub sharers: u32,
    /// How many bytes of a request's body the server lets be on their way: the smaller one of the stream's and the connection's
    /// window. `None` for no limit, which HTTP/1.1 has none of.
    pub window: Option<u64>,
    /// Bytes a second that long uploads got on this road.
    pub measured_up: Option<f64>,
    /// Bytes a second that long downloads got on it.
    pub measured_down: Option<f64>,
}

impl Road {
    /// An HTTP/1.1 connection.
    pub fn http1(handshakes: u32) -> Self {
        Road {
            protocol: Protocol::Http1,
            handshakes,
            sharers: 1,
            window: None,
            measured_up: None,
            measured_down: None,
        }
    }

    /// An HTTP/2 connection to a server whose receive window is known, or not yet.
    pub fn http2(handshakes: u32, window: Option<u64>) -> Self {
        Road {
            protocol: Protocol::Http2,
            window: Some(window.unwrap_or(CostModel::UNSEEN_WINDOW)),
            ..Road::http1(handshakes)
        }
    }

    /// With so many exchanges at a time, of which HTTP/2 needs but one connection.
    pub fn shared_by(mut self, sharers: u32) -> Self {
        self.sharers = sharers;
        self
    }

    /// With what was measured on it, in bytes a second.
    pub fn measured(mut self, up: Option<f64>, down: Option<f64>) -> Self {
        (self.measured_up, self.measured_down) = (up, down);
        self
    }
}

/// Predicts and compares.
///
/// ```
/// use rgit_transport_auto::{Amount, CostModel, Link, Road, Work};
/// # use std::time::Duration;
/// let link = Link { round_trip: Duration::from_millis(100), rate: None };
/// let push = Work { up: Amount::Large, down: Amount::Bytes(1_000) };
/// // A warm connection with a window of 64 KiB against a new one over HTTP/1.1:
/// let roads = [Road::http2(0, Some(65_535)), Road::http1(2)];
/// assert_eq!(CostModel::default().choose(&push, &link, &roads), Some(1));
/// assert_eq!(CostModel::default().choose(&Work::SMALL, &link, &roads), Some(0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct CostModel {
    /// What to assume of a link that was not measured, in bytes a second. Assuming a fast one means to suspect a window of being in
    /// the way, which errs on the side of a connection more.
    pub rate: f64,
    /// What [`Amount::Large`] counts as, in bytes.
    pub large: u64,
    /// Bytes TCP sends before the first acknowledgement; each round trip doubles it (RFC 6928: ten segments).
    pub first_flight: u64,
}

impl Default for CostModel {
    fn default() -> Self {
        CostModel {
            rate: 125e6,
            large: 64 * 1024 * 1024,
            first_flight: 14_600,
        }
    }
}

impl CostModel {
    /// The window of a server whose SETTINGS were not seen: the protocol's default, which Apache and others leave as it is.
    pub const UNSEEN_WINDOW: u64 = 65_535;
    /// Round trips that a new connection takes: TCP's, and TLS 1.3's.
    pub const HANDSHAKES: u32 = 2;

    /// How long `work` takes on `road`, from the wish to send it to the last byte of the answer; the server's own time left out.
    pub fn time(&self, work: &Work, link: &Link, road: &Road) -> Duration {
        let round_trip = link.round_trip.as_secs_f64();
        let up = self.bytes(work.up);
        let up_rate = road.measured_up.or(link.rate).unwrap_or(self.rate).max(1.0);
        let down_rate = road.measured_down.or(link.rate).unwrap_or(self.rate).max(1.0);
        // A window that was in the way when the rate was measured is not to be counted twice.
        let window = road.window.filter(|_| road.measured_up.is_none());
        let stalls = window.map_or(0, |window| up.saturating_sub(1) / window.max(1)) as f64;
        let waits = stalls.max(self.flights(up, up_rate, round_trip)) * round_trip;
        let down = self.bytes(work.down);
        let back = self.flights(down, down_rate, round_trip) * round_trip;
        let handshakes = f64::from(road.handshakes) / f64::from(road.sharers.max(1));
        let seconds =
            (handshakes + 1.0) * round_trip + waits.max(up as f64 / up_rate) + back.max(down as f64 / down_rate);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// The number of the road that takes least; of equals a connection that is there, then HTTP/1.1. `None` if there is no road.
    pub fn choose(&self, work: &Work, link: &Link, roads: &[Road]) -> Option<usize> {
        let costs = roads
            .iter()
            .map(|road| (self.time(work, link, road), road.handshakes, road.protocol));
        costs
            .enumerate()
            .min_by_key(|(_, cost)| *cost)
            .map(|(number, _)| number)
    }

    /// The upload rate that `window` allows at this round trip, in bytes a second.
    pub fn ceiling(window: u64, round_trip: Duration) -> f64 {
        window as f64 / round_trip.as_secs_f64()
    }

    fn bytes(&self, amount: Amount) -> u64 {
        match amount {
            Amount::Bytes(bytes) => bytes,
            Amount::Large => self.large,
        }
    }

    /// Round trips spent on slow start: until all is sent, or as much is on its way as the link holds.
    fn flights(&self, bytes: u64, rate: f64, round_trip: f64) -> f64 {
        let needed = (bytes as f64).min(rate * round_trip);
        (needed / self.first_flight.max(1) as f64).max(1.0).log2().floor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;
    const MIB: u64 = 1024 * KIB;

    fn link(milliseconds: u64) -> Link {
        Link {
            round_trip: Duration::from_millis(milliseconds),
            rate: None,
        }
    }

    fn up(bytes: u64) -> Work {
        Work {
            up: Amount::Bytes(bytes),
            down: Amount::Bytes(500),
        }
    }

    fn down(bytes: u64) -> Work {
        Work {
            up: Amount::Bytes(500),
            down: Amount::Bytes(bytes),
        }
    }

    fn push() -> Work {
        Work {
            up: Amount::Large,
            down: Amount::Bytes(500),
        }
    }

    #[test]
    fn the_road_is_the_one_that_takes_least() {
        use Protocol::{Http1, Http2};
        let warm2 = |window| Road::http2(0, Some(window));
        let cold1 = Road::http1(2);
        let warm1 = Road::http1(0);
        let cases: &[(&str, Work, u64, Vec<Road>, Protocol)] = &[
            (
                "a small request rides what is there",
                Work::SMALL,
                100,
                vec![warm2(64 * KIB), cold1],
                Http2,
            ),
            ("on the spot, too", Work::SMALL, 0, vec![warm2(64 * KIB), cold1], Http2),
            (
                "both there: HTTP/1.1",
                Work::SMALL,
                100,
                vec![warm2(64 * KIB), warm1],
                Http1,
            ),
            (
                "neither there: HTTP/1.1",
                Work::SMALL,
                100,
                vec![Road::http2(2, None), cold1],
                Http1,
            ),
            (
                "a pack of unknown size leaves a small window",
                push(),
                100,
                vec![warm2(64 * KIB), cold1],
                Http1,
            ),
            (
                "a window of 1 MiB is small at 100 ms",
                push(),
                100,
                vec![warm2(MIB), cold1],
                Http1,
            ),
            ("16 MiB are not", push(), 100, vec![warm2(16 * MIB), cold1], Http2),
            (
                "10 MB at 20 ms leave 64 KiB",
                up(10_000_000),
                20,
                vec![warm2(64 * KIB), cold1],
                Http1,
            ),
            (
                "100 KB are through before a connection is",
                up(100_000),
                100,
                vec![warm2(64 * KIB), cold1],
                Http2,
            ),
            (
                "where nothing is to wait for, no window is small",
                push(),
                0,
                vec![warm2(64 * KIB), cold1],
                Http2,
            ),
            (
                "a window doesn't slow a download",
                down(200_000_000),
                100,
                vec![warm2(64 * KIB), cold1],
                Http2,
            ),
            (
                "only HTTP/2 is to be had",
                push(),
                100,
                vec![Road::http2(2, None)],
                Http2,
            ),
            (
                "several small ones at once share a new connection",
                Work::SMALL,
                100,
                vec![Road::http2(2, None).shared_by(3), cold1],
                Http2,
            ),
            (
                "but not if there are connections already",
                Work::SMALL,
                100,
                vec![Road::http2(2, None).shared_by(3), warm1],
                Http1,
            ),
            (
                "what was measured counts more than what was announced",
                push(),
                100,
                vec![
                    warm2(16 * MIB).measured(Some(600e3), None),
                    cold1.measured(Some(8e6), None),
                ],
                Http1,
            ),
            (
                "slow downloads are avoided, too",
                down(200_000_000),
                100,
                vec![
                    warm2(16 * MIB).measured(None, Some(2e6)),
                    cold1.measured(None, Some(8e6)),
                ],
                Http1,
            ),
        ];
        for (name, work, milliseconds, roads, expected) in cases {
            let model = CostModel::default();
            let chosen = model
                .choose(work, &link(*milliseconds), roads)
                .map(|number| roads[number].protocol);
            let times: Vec<_> = roads
                .iter()
                .map(|road| model.time(work, &link(*milliseconds), road))
                .collect();
            assert_eq!(chosen, Some(*expected), "{name}: {times:?}");
        }
        assert_eq!(CostModel::default().choose(&push(), &link(1), &[]), None);
    }

    #[test]
    fn a_link_that_is_slow_itself_makes_windows_matter_less() {
        let slow = Link {
            rate: Some(500e3),
            ..link(100)
        };
        let roads = [Road::http2(0, Some(64 * KIB)), Road::http1(2)];
        let model = CostModel::default();
        let (narrow, free) = (
            model.time(&push(), &slow, &roads[0]),
            model.time(&push(), &slow, &roads[1]),
        );
        assert!(
            narrow < free,
            "640 KB/s is more than the link carries: {narrow:?} {free:?}"
        );
    }

    #[test]
    fn predictions_are_what_was_measured_within_a_third() {
        // Apache's default window, git and libcurl: 2.6, 0.52 and 0.26 MB/s at 20, 100 and 200 ms.
        for (milliseconds, measured) in [(20, 2.6e6), (100, 0.52e6), (200, 0.26e6)] {
            let time = CostModel::default().time(&up(20_000_000), &link(milliseconds), &Road::http2(0, Some(65_535)));
            let rate = 20_000_000.0 / time.as_secs_f64();
            assert!((0.66..1.34).contains(&(rate / measured)), "{milliseconds} ms: {rate}");
        }
    }

    #[test]
    fn odd_numbers_do_no_harm() {
        let model = CostModel::default();
        let odd = Road::http2(u32::MAX, Some(0)).measured(Some(0.0), Some(f64::NAN));
        let far = Link {
            round_trip: Duration::MAX,
            rate: Some(0.0),
        };
        for work in [push(), up(u64::MAX), down(0)] {
            let _ = model.time(&work, &far, &odd);
            let _ = model.time(&work, &link(0), &Road::http2(0, Some(0)));
        }
    }
}
