//! What is told while the bench runs: where it is, and about how long it will take.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use super::results::{Cell, Outcome};

/// What the guesses count for against what was seen: this part of the whole.
const TRUST: f64 = 0.1;

/// Runs done and to do, in guessed time.
#[derive(Debug)]
pub(super) struct Progress {
    begun: Instant,
    done: Duration,
    all: Duration,
    runs: usize,
    of: usize,
}

impl Progress {
    /// A bench of these runs, each with its guessed time.
    pub(super) fn new(guesses: impl IntoIterator<Item = Duration>) -> Progress {
        let (of, all) = guesses
            .into_iter()
            .fold((0, Duration::ZERO), |(count, sum), guess| (count + 1, sum + guess));
        Progress {
            begun: Instant::now(),
            done: Duration::ZERO,
            all,
            runs: 0,
            of,
        }
    }

    /// One run is over, or need not be made.
    pub(super) fn step(&mut self, guess: Duration) {
        self.runs += 1;
        self.done += guess;
    }

    /// About how long the rest takes: the guesses, corrected by how they fared so far.
    fn left(&self, elapsed: Duration) -> Duration {
        let rest = self.all.saturating_sub(self.done);
        // The first runs wait for repositories to be made, and say little of those to come: a tenth of the whole counts as done as
        // guessed.
        let trust = self.all.as_secs_f64() * TRUST;
        if trust == 0.0 {
            return rest;
        }
        rest.mul_f64((elapsed.as_secs_f64() + trust) / (self.done.as_secs_f64() + trust))
    }

    /// A line about the run that has just ended.
    pub(super) fn line(&self, cell: &Cell, round: usize, wall: Duration) -> String {
        let mut line = format!("[{:>4}/{}] {:<46}", self.runs, self.of, cell.name);
        let _ = match (&cell.outcome, round) {
            (Outcome::Measured, 0) => write!(line, " warm-up {:>8.3} s, checked", wall.as_secs_f64()),
            (Outcome::Measured, _) => write!(line, " run {round:<3} {:>8.3} s", wall.as_secs_f64()),
            (outcome, _) => write!(line, " {}", outcome.why().unwrap_or_default()),
        };
        let _ = write!(line, "   about {} left", span(self.left(self.begun.elapsed())));
        line
    }
}

/// A length of time as a person says it.
pub(super) fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds @ 100..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_corrected_by_what_went_before() {
        let second = Duration::from_secs(1);
        let mut progress = Progress::new([second; 10]);
        assert_eq!(progress.left(Duration::ZERO), 10 * second);
        progress.step(second);
        progress.step(second);
        // Two took six seconds, and one more is taken as guessed: seven for three.
        let left = progress.left(6 * second).as_secs_f64();
        assert!((left - 8.0 * 7.0 / 3.0).abs() < 1e-6, "{left}");
    }

    #[test]
    fn time_is_told_roughly() {
        assert_eq!(span(Duration::from_secs(42)), "42 s");
        assert_eq!(span(Duration::from_secs(601)), "11 min");
        assert_eq!(span(Duration::from_secs(9000)), "2.5 h");
    }
}
