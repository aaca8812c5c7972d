//! One group of cells: a warm-up, then runs in turn, A B A B, each checked before its time counts.

use std::{process::Command, thread, time::Duration};

use anyhow::{Context, bail};
use rgit_testkit::{
    certificate::Authority,
    meter::{self, Interrupt, Measured, Meter},
};

use super::{
    client::Programs,
    daemon::Homes,
    data::Data,
    far::Far,
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
    pub(super) homes: Homes,
    /// The server of another, where that is what is measured.
    pub(super) far: Option<Far>,
    /// Ends all of it.
    pub(super) interrupt: Interrupt,
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
        let outcome = if let Some(why) = self.programs.missing(client) {
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
            once: false,
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
            let measured = self.rounds(group, &mut cells, &venue, &mut tell, &mut keep);
            // Before the venue closes, whatever came of it: a daemon would try to keep its connections.
            let cooled = self.homes.cool_all();
            measured?;
            cooled?;
        }
        keep(&cells)
    }

    fn rounds(
        &self,
        group: &Group,
        cells: &mut [Cell],
        venue: &Venue,
        tell: &mut impl FnMut(&Cell, usize, Duration),
        keep: &mut impl FnMut(&[Cell]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for round in 0..=self.runs {
            for cell in cells
                .iter_mut()
                .filter(|cell| cell.outcome == Outcome::Measured && !cell.once)
            {
                let wall = self.once(group, cell, venue, round)?;
                tell(cell, round, wall);
            }
            keep(cells)?;
        }
        Ok(())
    }

    /// An error once the end was told.
    pub(super) fn go_on(&self) -> anyhow::Result<()> {
        if self.interrupt.is_told() {
            bail!("interrupted; what was measured stands in results.json, and --resume goes on from there");
        }
        Ok(())
    }

    /// One run, the warm-up when `round` is 0. Its wall time.
    fn once(&self, group: &Group, cell: &mut Cell, venue: &Venue, round: usize) -> anyhow::Result<Duration> {
        self.go_on()?;
        let client = cell.client;
        let job = match (venue.base(), &self.far) {
            (Some(base), _) => Job::prepare(&self.data, group.scenario, client, &base),
            (None, Some(far)) => Job::far(&self.data, group.scenario, client, far),
            (None, None) => bail!("{group} has no server"),
        };
        let job = match job {
            Ok(job) => job,
            Err(error) => {
                // What a signal has ended says nothing of the client.
                self.go_on()?;
                cell.outcome = Outcome::CannotDo(format!("{error:#}"));
                return Ok(Duration::ZERO);
            }
        };
        let is_cold = client == Client::PersistentCold;
        if is_cold {
            self.homes.cool(client)?;
        }
        let daemon = self.homes.daemon(client);
        let before = daemon.and_then(meter::spent);
        let commands = job.arguments.iter().map(|words| {
            let mut command = self.programs.command(self.homes.of(client), client, &job.directory);
            command.args(words);
            command
        });
        let mark = venue.mark();
        let meter = Meter::default().within(self.limit).until(&self.interrupt);
        let commands = commands.collect();
        let all = venue.inside(|| together(&meter, commands, daemon))??;
        let seen = venue.since(&mark);
        let daemons_cpu = self.daemons_cpu(client, before);
        if is_cold {
            // Nobody else's run is to be shared with it.
            self.homes.cool(client)?;
        }
        self.go_on()?;
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
        cell.once = round == 0 && wall > predict::SLOW;
        if round > 0 || cell.once {
            let clients: Option<Duration> = all.iter().map(Measured::cpu).sum();
            let client_cpu = clients.zip(daemons_cpu).map(|(clients, daemon)| clients + daemon);
            cell.runs.push(Run {
                wall_s: wall.as_secs_f64(),
                client_cpu_s: client_cpu.map(|cpu| cpu.as_secs_f64()),
                // A daemon is nobody's child here: what it spends isn't in this sum.
                server_cpu_s: seen
                    .cpu
                    .zip(clients)
                    .map(|(both, clients)| both.saturating_sub(clients).as_secs_f64()),
                peak_anonymous: all.iter().map(|one| one.peak_anonymous).sum(),
                up: seen.up,
                down: seen.down,
                wire: seen.wire,
                requests: seen.requests,
                connections: seen.connections,
                connections_used: seen.used,
                frames: seen.frames,
                load: machine::load(),
            });
        }
        Ok(wall)
    }

    /// What a client's daemon spent since `before`, or since it began where there was none: nothing where none is.
    fn daemons_cpu(&self, client: Client, before: Option<Duration>) -> Option<Duration> {
        if !client.has_daemon() {
            return Some(Duration::ZERO);
        }
        let after = meter::spent(self.homes.daemon(client)?)?;
        Some(after.saturating_sub(before.unwrap_or_default()))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(far) = &self.far {
            far.leave(&self.data);
        }
    }
}

/// Runs commands at once. The memory of `daemon` counts with the first's.
fn together(meter: &Meter, mut commands: Vec<Command>, daemon: Option<u32>) -> anyhow::Result<Vec<Measured>> {
    let first = &daemon.map_or_else(|| meter.clone(), |daemon| meter.clone().beside(daemon));
    if let [only] = &mut commands[..] {
        return Ok(vec![first.measure(only).context("start the client")?]);
    }
    thread::scope(|scope| {
        let running: Vec<_> = commands
            .iter_mut()
            .enumerate()
            .map(|(at, command)| scope.spawn(move || if at == 0 { first } else { meter }.measure(command)))
            .collect();
        running
            .into_iter()
            .map(|one| match one.join() {
                Ok(measured) => measured.context("start the client"),
                Err(_) => bail!("the thread of a client panicked"),
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
