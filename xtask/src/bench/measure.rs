//! One group of cells: a warm-up, then runs in turn, A B A B, each checked before its time counts.

use std::{process::Command, thread, time::Duration};

use anyhow::Context;
use rgit_testkit::{
    certificate::Authority,
    meter::{self, Measured},
    repository::Git,
};

use super::{
    client::Programs,
    data::Data,
    job::Job,
    machine,
    matrix::{Client, Group},
    predict,
    results::{Cell, Outcome, Run},
    venue::Venue,
};

/// What every group of one bench is measured with.
#[derive(Debug)]
pub(super) struct Lab {
    pub(super) data: Data,
    pub(super) authority: Authority,
    pub(super) programs: Programs,
    /// Git's environment for a client: daemons that must not meet have places of their own.
    pub(super) homes: [Git; 2],
    pub(super) runs: usize,
    pub(super) limit: Duration,
    /// Leave out what a window makes slower than the limit.
    pub(super) leave_out_slow: bool,
}

impl Lab {
    /// A cell before anything has run.
    pub(super) fn cell(&self, group: &Group, client: Client) -> Cell {
        let payload = self.data.payload(group.scenario);
        let slow = || predict::beyond(self.limit, client, group, payload.unwrap_or(0));
        let outcome = if let Some(why) = self.programs.missing(&self.data.git, client) {
            Outcome::CannotDo(why)
        } else if let Some(why) = slow().filter(|_| self.leave_out_slow) {
            Outcome::LeftOut(why)
        } else {
            Outcome::Measured
        };
        Cell {
            name: group.cell(client),
            group: group.clone(),
            client,
            payload,
            outcome,
            runs: Vec::new(),
        }
    }

    /// Measures the cells of one group. After each round `keep` gets them, and after each run `tell` a word about it.
    ///
    /// # Errors
    /// When the server or its files can't be had. What a client does wrong stands in its cell.
    pub(super) fn group(
        &self,
        group: &Group,
        mut cells: Vec<Cell>,
        mut tell: impl FnMut(&Cell, usize, Duration),
        mut keep: impl FnMut(&[Cell]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if cells.iter().any(|cell| cell.outcome == Outcome::Measured) {
            let venue = Venue::open(group, &self.data, &self.authority)?;
            for round in 0..=self.runs {
                for cell in cells.iter_mut().filter(|cell| cell.outcome == Outcome::Measured) {
                    let wall = self.once(group, cell, &venue, round)?;
                    tell(cell, round, wall);
                }
                keep(&cells)?;
            }
            for client in [Client::PersistentCold, Client::PersistentWarm] {
                if cells.iter().any(|cell| cell.client == client) {
                    self.programs.cool(self.home(client));
                }
            }
        }
        keep(&cells)
    }

    fn home(&self, client: Client) -> &Git {
        &self.homes[usize::from(client == Client::PersistentWarm)]
    }

    /// One run, the warm-up when `round` is 0. Its wall time.
    fn once(&self, group: &Group, cell: &mut Cell, venue: &Venue, round: usize) -> anyhow::Result<Duration> {
        let (client, home) = (cell.client, self.home(cell.client));
        let job = match Job::prepare(&self.data, group.scenario, client, &venue.base()) {
            Ok(job) => job,
            Err(error) => {
                cell.outcome = Outcome::CannotDo(format!("{error:#}"));
                return Ok(Duration::ZERO);
            }
        };
        if client == Client::PersistentCold {
            self.programs.cool(home);
        }
        let command = || {
            let mut command = self.programs.command(home, client, &job.directory);
            command.args(&job.arguments);
            command
        };
        let mark = venue.mark();
        let all = together(job.copies, self.limit, command)?;
        let seen = venue.since(&mark);
        let wall = all.iter().map(|one| one.wall).max().unwrap_or_default();

        if all.iter().any(|one| one.timed_out) {
            cell.outcome = Outcome::Killed(format!("killed after {:.0} s", self.limit.as_secs_f64()));
            return Ok(wall);
        }
        if let Some(failed) = all.iter().find(|one| !one.status.success()) {
            cell.outcome = Outcome::Failed(last_words(failed));
            return Ok(wall);
        }
        let listings: Vec<Vec<u8>> = all.iter().map(|one| one.stdout.clone()).collect();
        if let Err(why) = job.check(&self.data, client, &listings, round == 0) {
            cell.outcome = Outcome::Failed(format!("the check found: {why}"));
            return Ok(wall);
        }
        if round > 0 {
            let client_cpu: Option<Duration> = all.iter().map(Measured::cpu).sum();
            cell.runs.push(Run {
                wall_s: wall.as_secs_f64(),
                client_cpu_s: client_cpu.map(|cpu| cpu.as_secs_f64()),
                server_cpu_s: seen
                    .cpu
                    .zip(client_cpu)
                    .map(|(both, client)| both.saturating_sub(client).as_secs_f64()),
                peak_anonymous: all.iter().map(|one| one.peak_anonymous).sum(),
                up: seen.up,
                down: seen.down,
                wire: seen.wire,
                requests: seen.requests,
                connections: seen.connections,
                load: machine::load(),
            });
        }
        Ok(wall)
    }
}

/// Runs a command so many times at once.
fn together(copies: usize, limit: Duration, command: impl Fn() -> Command) -> anyhow::Result<Vec<Measured>> {
    let mut commands: Vec<Command> = (0..copies).map(|_| command()).collect();
    if let [only] = &mut commands[..] {
        return Ok(vec![meter::measure_within(limit, only).context("start the client")?]);
    }
    thread::scope(|scope| {
        let running: Vec<_> = commands
            .iter_mut()
            .map(|command| scope.spawn(move || meter::measure_within(limit, command)))
            .collect();
        running
            .into_iter()
            .map(|one| match one.join() {
                Ok(measured) => measured.context("start the client"),
                Err(_) => anyhow::bail!("the thread of a client panicked"),
            })
            .collect()
    })
}

/// The end of what a client wrote to stderr, in one line.
fn last_words(failed: &Measured) -> String {
    let said = String::from_utf8_lossy(&failed.stderr);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(2)..].join("; ");
    let last: String = last.chars().take(300).collect();
    format!("{}: {last}", failed.status)
}
