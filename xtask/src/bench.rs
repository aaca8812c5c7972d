//! `cargo xtask bench`: rgit against git and its peers, by scenario, link and server; each time with its proof.
//!
//! Owns the order of things: a machine that is idle, links that are what they say, one group of cells after the other with
//! its clients in turn, results written as they come, and the reports made of them. CONTRIBUTING.md tells how to read them.

mod arguments;
mod client;
mod compare;
mod daemon;
mod data;
mod far;
mod front;
mod job;
mod limits;
mod link;
mod losses;
mod machine;
mod matrix;
mod measure;
mod page;
mod predict;
mod preset;
mod progress;
mod readme;
mod results;
mod resume;
mod roads;
mod statistics;
mod table;
#[cfg_attr(not(target_os = "linux"), path = "bench/tun_elsewhere.rs")]
mod tun;
mod venue;

use std::{
    env, fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rgit_testkit::{certificate::Authority, meter::Interrupt, repository::Git};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{cargo, demo, test};
pub(crate) use arguments::Arguments;
use arguments::{Measure, Verb};
use client::Programs;
use daemon::Homes;
use data::Data;
use far::Far;
use matrix::{Client, Group, Server};
use measure::Lab;
use progress::{Progress, span};
use results::{Cell, Outcome, Results, SCHEMA, Settings, Versions};

/// Runs the bench; `false` when a client failed in a cell, or what it did did not stand up to its check.
///
/// # Errors
/// When it can't be set up: a busy machine, no git, no build, no port, a link that is not what it should be.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    match &arguments.verb {
        Some(Verb::Compare { before, after }) => {
            print!("{}", compare::compare(&Results::read(before)?, &Results::read(after)?));
            Ok(true)
        }
        Some(Verb::Render { results: file, readme }) => {
            let results = Results::read(file)?;
            publish(&results, file.parent().unwrap_or(Path::new(".")), *readme)?;
            Ok(true)
        }
        None if arguments.measure.list => list(&arguments.measure),
        None => measure(&arguments.measure, heed),
    }
}

fn list(flags: &Measure) -> anyhow::Result<bool> {
    flags.far().map_err(anyhow::Error::msg)?;
    for (group, clients) in flags.groups() {
        clients.iter().for_each(|client| println!("{}", group.cell(*client)));
    }
    let (runs, guess) = estimate(flags);
    eprintln!("{runs} runs, about {} without gix and grit", span(guess));
    Ok(true)
}

/// How many runs it will be, and about how long they take: of rgit and git.
fn estimate(flags: &Measure) -> (usize, Duration) {
    let bulk = u64::from(flags.bulk_mb) * 1_000_000;
    let (limit, mut sum) = (flags.limit(), (0, Duration::ZERO));
    for (group, clients) in flags.groups() {
        let payload = data::payload(group.scenario, bulk).unwrap_or(0);
        for client in clients.into_iter().filter(|client| !client.is_peer()) {
            if flags.leaves_out_slow() && predict::beyond(limit, client, &group, payload).is_some() {
                continue;
            }
            let guess = predict::guess(limit, client, &group, payload);
            let times = predict::times(flags.runs(), guess);
            sum = (sum.0 + times, sum.1 + guess * u32::try_from(times).unwrap_or(u32::MAX));
        }
    }
    sum
}

/// The first signal ends what is being measured, and with it the bench in good order: servers and daemons go, files are removed.
/// The second doesn't wait for that.
fn heed(interrupt: &Interrupt) -> anyhow::Result<()> {
    let interrupt = interrupt.clone();
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("listen for signals")?;
    thread::spawn(move || {
        for signal in signals.forever() {
            if interrupt.is_told() {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            interrupt.interrupt();
        }
    });
    Ok(())
}

/// Measures. `heed` is told what to interrupt, once there is something that a signal must not leave behind.
fn measure(flags: &Measure, heed: impl FnOnce(&Interrupt) -> anyhow::Result<()>) -> anyhow::Result<bool> {
    let groups = flags.groups();
    if groups.is_empty() {
        bail!("no cell has such a name: `cargo xtask bench --list` prints all of them");
    }
    let far = flags.far().map_err(anyhow::Error::msg)?;
    test::check_git()?;
    let missing = |server: &Server| match server {
        Server::Named(name) => front::missing(name),
        _ => None,
    };
    if let Some(why) = flags.server.iter().find_map(missing) {
        bail!("{why}");
    }
    if let Some(why) = tun::missing().filter(|_| flags.tun) {
        bail!("{why}");
    }
    // Before the build, which makes any machine busy.
    let load = machine::idle(flags.force)?;
    let rgit = match &flags.rgit {
        Some(file) => file
            .canonicalize()
            .with_context(|| format!("find {}", file.display()))?,
        None => demo::build()?,
    };
    let folder = flags
        .output
        .clone()
        .unwrap_or_else(|| cargo::workspace().join("target/bench"));
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;

    let interrupt = Interrupt::default();
    heed(&interrupt)?;
    let files = tempfile::tempdir().context("make a temporary directory")?;
    let lab = lab(flags, far, rgit, files.path(), interrupt)?;
    let mut results = begin(flags, &lab, load);
    let file = folder.join("results.json");
    if flags.resume && file.exists() {
        resume::take_over(&mut results, Results::read(&file)?)?;
    }
    let begun = Instant::now();
    measure_groups(flags, &lab, &groups, &mut results, &file)?;
    eprintln!("measured in {}", span(begun.elapsed()));
    publish(&results, &folder, flags.readme)?;
    // What a peer can't do is told, and no fault here.
    let failed = |cell: &Cell| matches!(cell.outcome, Outcome::Failed(_)) && !cell.client.is_peer();
    Ok(!results.cells.iter().any(failed))
}

/// Prints the results and writes what others may read of them.
fn publish(results: &Results, folder: &Path, readme: bool) -> anyhow::Result<()> {
    println!("{}", table::terminal(results));
    for (name, text) in [
        ("results.md", table::markdown(results)),
        ("index.html", page::page(results)),
    ] {
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    }
    eprintln!("results.json, results.md and index.html are in {}", folder.display());
    if readme {
        readme::write(results, &cargo::workspace().join("README.md"))?;
        eprintln!("README.md has the table");
    }
    Ok(())
}

/// What was typed, without paths that mean something on this machine only.
fn command(words: impl IntoIterator<Item = String>) -> String {
    let mut words = words.into_iter();
    let mut command = "cargo xtask".to_owned();
    while let Some(word) = words.next() {
        let flag = word.split('=').next().unwrap_or_default();
        if ["--rgit", "--output", "--gix", "--grit", "--ca"].contains(&flag) {
            if flag == word {
                words.next();
            }
            continue;
        }
        command += " ";
        command += &word;
    }
    command
}

/// What everything is measured with, in `files`.
fn lab(flags: &Measure, far: Option<&str>, rgit: PathBuf, files: &Path, interrupt: Interrupt) -> anyhow::Result<Lab> {
    let authority = Authority::new();
    let git = Git::at(&files.join("home")).context("make a home")?;
    let git = match far {
        Some(_) => {
            let trusted = flags
                .ca
                .as_ref()
                .map(|file| file.canonicalize().with_context(|| format!("find {}", file.display())));
            far::environment(&git, trusted.transpose()?.as_deref())
        }
        None => git.with("GIT_SSL_CAINFO", authority.write_ca(files)),
    };
    Ok(Lab {
        homes: Homes::new(&rgit, &git, files)?,
        far: far.map(|url| Far::new(url, flags.push_to.as_deref())),
        data: Data::new(files, git, flags.bulk_mb)?,
        authority,
        programs: Programs::beside(rgit, flags.gix.as_deref(), flags.grit.as_deref())?,
        interrupt,
        runs: flags.runs(),
        limit: flags.limit(),
        leave_out_slow: flags.leaves_out_slow(),
    })
}

/// Results without a cell.
fn begin(flags: &Measure, lab: &Lab, load: f64) -> Results {
    let (rgit, git, mut others) = lab.programs.versions(&lab.data.git);
    let mut servers: Vec<String> = Vec::new();
    for server in &flags.server {
        if let Server::Named(name) = server {
            servers.push(front::version(name));
        }
    }
    // nginx that buffers and nginx that doesn't are one program.
    servers.dedup();
    others.extend(servers);
    Results {
        schema: SCHEMA,
        command: command(env::args().skip(1)),
        date: machine::date(),
        commit: machine::commit(),
        host: machine::host(),
        versions: Versions { rgit, git, others },
        settings: Settings {
            runs: lab.runs,
            bulk_mb: flags.bulk_mb,
            limit_s: lab.limit.as_secs_f64(),
            load,
            forced: flags.force,
        },
        links: Vec::new(),
        real_links: Vec::new(),
        limits: Vec::new(),
        cells: Vec::new(),
    }
}

fn measure_groups(
    flags: &Measure,
    lab: &Lab,
    groups: &[(Group, Vec<Client>)],
    results: &mut Results,
    file: &Path,
) -> anyhow::Result<()> {
    let mut todo: Vec<(&Group, Vec<Cell>)> = Vec::new();
    for (group, clients) in groups {
        let is_there = |client: &Client| results.cell(group, *client).is_some();
        if clients.iter().all(is_there) {
            continue;
        }
        results.cells.retain(|cell| cell.group != *group);
        todo.push((group, clients.iter().map(|client| lab.cell(group, *client)).collect()));
    }
    let guess = |cell: &Cell| predict::guess(lab.limit, cell.client, &cell.group, cell.payload.unwrap_or(0));
    let times = |cell: &Cell| predict::times(lab.runs, guess(cell));
    let measured = |cell: &&Cell| cell.outcome == Outcome::Measured;
    let runs = |cell: &Cell| std::iter::repeat_n(guess(cell), times(cell));
    let all: Vec<Duration> = todo
        .iter()
        .flat_map(|(_, cells)| cells)
        .filter(measured)
        .flat_map(runs)
        .collect();
    eprintln!(
        "{} runs of {} cells, about {}",
        all.len(),
        todo.iter()
            .map(|(_, cells)| cells.iter().filter(measured).count())
            .sum::<usize>(),
        span(all.iter().sum())
    );
    let mut progress = Progress::new(all);

    for (group, cells) in todo {
        lab.go_on()?;
        check_link(flags, lab, group, results)?;
        limits::add(&mut results.limits, &lab.data, group.scenario, lab.runs)?;
        let before = results.cells.clone();
        lab.group(
            group,
            cells,
            |cell, round, wall| {
                progress.step(guess(cell));
                if cell.outcome != Outcome::Measured || cell.once {
                    // It won't run again.
                    (round + 1..times(cell)).for_each(|_| progress.step(guess(cell)));
                }
                eprintln!("{}", progress.line(cell, round, wall));
            },
            |cells| {
                results.cells = [before.as_slice(), cells].concat();
                results.write(file)
            },
        )?;
    }
    results.write(file)
}

/// Makes sure that the link of a group is what it says, unless that was done before.
fn check_link(flags: &Measure, lab: &Lab, group: &Group, results: &mut Results) -> anyhow::Result<()> {
    if let Some(far) = &lab.far {
        if results.real_links.is_empty() {
            results.real_links.push(far.link()?);
        }
        return Ok(());
    }
    if results.links.iter().any(|link| link.road == group.road) {
        return Ok(());
    }
    let link = link::check(group.road, flags.force)?;
    eprintln!(
        "link {}: round trip {:.2} ms, {:.0} MB/s up, {:.0} MB/s down ({})",
        group.road,
        link.round_trip_s * 1000.0,
        link.up_bytes_s / 1e6,
        link.down_bytes_s / 1e6,
        link.kind
    );
    results.links.push(link);
    Ok(())
}

#[cfg(test)]
mod tests;
