//! What can be known before a run: the ceiling of a window, and about how long a cell takes.

use std::time::Duration;

use super::matrix::{Client, Group, Scenario};

/// Bytes a second that anything here moves at, at a guess: for estimates of time only, never in a report.
const GUESSED_SPEED: f64 = 40e6;
/// How much longer than its window's floor an upload takes: credit comes back in pieces, and later than it could.
const LATE: f64 = 1.2;
/// From this on, a warm-up is the one run that counts: what a first run has to warm up is nothing beside it.
pub(super) const SLOW: Duration = Duration::from_secs(20);

/// The least time an upload of `bytes` takes when no more than `window` of them may be under way: window ÷ round trip is
/// all that an HTTP/2 stream can carry in a second, whatever the link is able to. `None` without a delay.
pub(super) fn window_floor(bytes: u64, window: u32, round_trip_ms: u32) -> Option<Duration> {
    let round_trips = bytes.saturating_sub(window.into()) as f64 / f64::from(window);
    (round_trip_ms > 0).then(|| Duration::from_secs_f64(round_trips * f64::from(round_trip_ms) / 1000.0))
}

/// Why a cell can't end within `limit`, when its window says so.
pub(super) fn beyond(limit: Duration, client: Client, group: &Group, payload: u64) -> Option<String> {
    let window = group.server.window().filter(|_| client.uploads_through_a_window())?;
    let round_trip_ms = group.road.round_trip_ms;
    let floor = window_floor(payload, window, round_trip_ms).filter(|_| group.scenario.is_push())?;
    (floor > limit).then(|| {
        format!(
            "left out: at least {:.0} s (a window of {window} bytes each {round_trip_ms} ms is {:.2} MB/s; the limit is {:.0} s)",
            floor.as_secs_f64(),
            f64::from(window) / f64::from(round_trip_ms) / 1000.0,
            limit.as_secs_f64(),
        )
    })
}

/// How often a cell is run, the warm-up included.
pub(super) fn times(runs: usize, guess: Duration) -> usize {
    if guess > SLOW { 1 } else { runs + 1 }
}

/// About how long one run takes, with all that goes before and after it.
pub(super) fn guess(limit: Duration, client: Client, group: &Group, payload: u64) -> Duration {
    // Connection, TLS, discovery, and what the scenario asks.
    let exchanges = match group.scenario {
        Scenario::LsRemote | Scenario::LsRemote20000 | Scenario::Concurrent8 => 1.0,
        _ => 2.0,
    };
    let handshakes = match client {
        Client::PersistentWarm | Client::PersistentH1 | Client::PersistentH2 => 0.0,
        _ => 3.0,
    };
    let round_trips = (exchanges + handshakes) * f64::from(group.road.round_trip_ms) / 1000.0;
    let rate = group
        .road
        .rate_mb_s
        .map_or(GUESSED_SPEED, |rate| GUESSED_SPEED.min(f64::from(rate) * 1e6));
    // Making repositories and checking them; a daemon is asked, started and stopped too.
    let around = if client.has_daemon() { 0.4 } else { 0.3 };
    let plain = Duration::from_secs_f64(around + round_trips + payload as f64 / rate);
    let floor = group
        .server
        .window()
        .filter(|_| client.uploads_through_a_window() && group.scenario.is_push())
        .and_then(|window| window_floor(payload, window, group.road.round_trip_ms));
    floor.map_or(plain, |floor| floor.mul_f64(LATE).max(plain)).min(limit)
}

#[cfg(test)]
mod tests {
    use super::{
        super::matrix::{Road, Server, Window},
        *,
    };

    fn group(scenario: Scenario, round_trip_ms: u32, window: Window) -> Group {
        Group {
            scenario,
            road: Road {
                round_trip_ms,
                ..Road::default()
            },
            server: Server::Testkit(window),
        }
    }

    #[test]
    fn a_window_and_a_round_trip_are_a_ceiling() {
        // 200 MB through 65,535 bytes each 100 ms: 3051 round trips after the first window.
        let floor = window_floor(200_000_000, 65_535, 100).expect("a floor");
        assert!((floor.as_secs_f64() - 305.1).abs() < 0.1, "{floor:?}");
        assert_eq!(window_floor(200_000_000, 65_535, 0), None);
        assert_eq!(window_floor(1000, 65_535, 100), Some(Duration::ZERO));
    }

    #[test]
    fn only_uploads_through_a_window_are_left_out() {
        let limit = Duration::from_secs(60);
        let small = group(Scenario::PushBulk, 100, Window::Small);
        let why = beyond(limit, Client::GitH2, &small, 200_000_000).expect("305 s");
        assert!(
            why.starts_with("left out: at least 305 s (") && why.contains("0.66 MB/s; the limit is 60 s"),
            "{why}"
        );
        assert!(beyond(limit, Client::H2, &small, 200_000_000).is_some());
        assert!(beyond(limit, Client::Auto, &small, 200_000_000).is_none());
        assert!(beyond(limit, Client::H2, &small, 10_000_000).is_none());
        let clone = group(Scenario::CloneBulk, 100, Window::Small);
        assert!(beyond(limit, Client::H2, &clone, 200_000_000).is_none());
        let large = group(Scenario::PushBulk, 100, Window::Large);
        assert!(beyond(limit, Client::H2, &large, 200_000_000).is_none());
    }

    #[test]
    fn a_guess_knows_the_window_and_the_limit() {
        let limit = Duration::from_secs(100);
        let small = group(Scenario::Push10Mb, 100, Window::Small);
        assert!(guess(limit, Client::H2, &small, 10_000_000) > Duration::from_secs(15));
        assert!(guess(limit, Client::H1, &small, 10_000_000) < Duration::from_secs(2));
        assert_eq!(
            guess(
                limit,
                Client::H2,
                &group(Scenario::PushBulk, 100, Window::Small),
                200_000_000
            ),
            limit
        );
    }
}
