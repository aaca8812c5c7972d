use std::time::Duration;

use crate::{Amount, CostModel, Link, Road, Work};

/// What the way to a daemon costs, and what it spares besides round trips.
///
/// Figures are of a 2-core machine, over TLS 1.3. A slower machine has all of them slower, which leaves the comparison as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Hop {
    /// For each exchange: 85 to 110 microseconds over HTTP/1.1, which is what `auto` begins with (`cargo bench --bench relay`, small).
    /// Over HTTP/2 it was up to 420.
    pub delay: Duration,
    /// Bytes a second that are carried to the daemon and passed on: 0.95 GB/s of an upload over HTTP/1.1 were measured (the same bench).
    pub rate: f64,
    /// What a new connection takes where packets take no time: the arithmetic of both ends, certificates included. Connecting and one GET
    /// took 1.2 ms, the GET by way of a warm connection 0.2: this is the lower half of the difference.
    pub handshake: Duration,
}

impl Default for Hop {
    fn default() -> Self {
        Hop {
            delay: Duration::from_micros(110),
            rate: 0.9e9,
            handshake: Duration::from_micros(500),
        }
    }
}

impl Hop {
    /// Bytes a second within one machine without the hop: an upload over HTTP/1.1 directly, in the same bench.
    pub const WITHIN_A_MACHINE: f64 = 1.2e9;
}

impl CostModel {
    /// Whether `work` takes less by way of a daemon with a warm connection than over a new one.
    ///
    /// Nearly always: riding spares two round trips and a handshake's work, and the hop is slower than the link only where
    /// that carries more than [`Hop::rate`], some 7 Gbit/s. There, a known large body costs more than was spared. What nobody knows
    /// is not held against riding: most packs are small.
    pub fn rides(&self, work: &Work, link: &Link, hop: &Hop) -> bool {
        let known = |amount| match amount {
            Amount::Bytes(bytes) => Amount::Bytes(bytes),
            Amount::Large => Amount::Bytes(0),
        };
        let work = Work {
            up: known(work.up),
            down: known(work.down),
        };
        let rate = link.rate.unwrap_or(self.rate);
        let way = |rate| Link {
            rate: Some(rate),
            ..*link
        };
        let riding = self.time(&work, &way(rate.min(hop.rate)), &Road::http1(0));
        let direct = self.time(&work, &way(rate), &Road::http1(Self::HANDSHAKES));
        riding.saturating_add(hop.delay) <= direct.saturating_add(hop.handshake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    #[test]
    fn the_hop_is_left_out_only_where_it_is_the_slowest_part_of_a_long_way() {
        let up = |bytes| Work {
            up: Amount::Bytes(bytes),
            down: Amount::Bytes(500),
        };
        let unknown = Work {
            up: Amount::Large,
            down: Amount::Large,
        };
        // Bits a second; none where that isn't known.
        let (here, lan, wan) = (Some(Hop::WITHIN_A_MACHINE * 8.0 / 1e9), Some(10.0), Some(1.0));
        for (name, work, microseconds, gigabits, expected) in [
            ("a small request on the machine itself", Work::SMALL, 0, here, true),
            ("git's largest known body, a MiB", up(1 << 20), 0, here, true),
            ("a pack that nobody knows", unknown, 0, here, true),
            ("10 MB on the machine itself", up(10 * MB), 0, here, false),
            ("a GB on the machine itself", up(1000 * MB), 0, here, false),
            ("a small request next door", Work::SMALL, 200, lan, true),
            ("a MB next door", up(MB), 200, lan, true),
            ("10 MB next door, faster than the hop", up(10 * MB), 200, lan, false),
            ("a GB next door, at 1 Gbit/s", up(1000 * MB), 200, wan, true),
            ("10 MB as far as 20 ms, at 10 Gbit/s", up(10 * MB), 20_000, lan, true),
            ("a GB as far as 20 ms, at 10 Gbit/s", up(1000 * MB), 20_000, lan, false),
            ("a GB as far as 100 ms", up(1000 * MB), 100_000, wan, true),
            ("a GB, who knows how far", up(1000 * MB), 50_000, None, true),
        ] {
            let link = Link {
                round_trip: Duration::from_micros(microseconds),
                rate: gigabits.map(|gigabits: f64| gigabits * 1e9 / 8.0),
            };
            let model = CostModel::default();
            assert_eq!(model.rides(&work, &link, &Hop::default()), expected, "{name}");
        }
    }

    #[test]
    fn up_to_a_gigabit_riding_is_never_worse() {
        let model = CostModel::default();
        for microseconds in [0, 10, 100, 1_000, 10_000, 100_000, 1_000_000] {
            for power in 0..40 {
                let work = Work {
                    up: Amount::Bytes(1 << power),
                    down: Amount::Bytes(1 << (39 - power)),
                };
                let link = Link {
                    round_trip: Duration::from_micros(microseconds),
                    rate: Some(125e6),
                };
                assert!(model.rides(&work, &link, &Hop::default()), "{work:?} {link:?}");
            }
        }
    }
}
