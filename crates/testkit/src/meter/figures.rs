use std::process::Command;

use super::measure;

/// What several runs of one command cost.
#[derive(Debug, Default)]
pub struct Figures {
    wall: Vec<f64>,
    cpu: Vec<f64>,
    memory: Vec<f64>,
}

/// The middle one of each figure; not a number where none is known.
#[derive(Debug, Clone, Copy)]
pub struct Medians {
    /// From start to end, in seconds.
    pub wall: f64,
    /// In user mode and the kernel, in seconds.
    pub cpu: f64,
    /// The most anonymous memory at one time, in megabytes.
    pub memory: f64,
}

impl Figures {
    /// Run `command` once more.
    ///
    /// # Panics
    /// When it doesn't start, or fails.
    #[track_caller]
    pub fn add(&mut self, command: &mut Command) {
        let measured = measure(command).expect("start the command");
        assert!(
            measured.status.success(),
            "{}",
            String::from_utf8_lossy(&measured.stderr)
        );
        self.wall.push(measured.wall.as_secs_f64());
        self.cpu.extend(measured.cpu().map(|cpu| cpu.as_secs_f64()));
        self.memory
            .extend(measured.peak_anonymous.map(|peak| peak as f64 / 1e6));
    }

    /// The medians so far.
    pub fn medians(self) -> Medians {
        Medians {
            wall: median(self.wall),
            cpu: median(self.cpu),
            memory: median(self.memory),
        }
    }
}

/// The middle one of `values`; not a number where there are none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_one_counts() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert!(median(Vec::new()).is_nan());
    }
}
