//! `cargo xtask bench`: rgit against git and its peers, by scenario, link and server; each time with its proof.
//!
//! Owns the order of things: a machine that is idle, links that are what they say, one group of cells after the other with
//! its clients in turn, results written as they come, and the reports made of them. CONTRIBUTING.md tells how to read them.

mod arguments;
mod client;
mod compare;
mod data;
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
mod progress;
mod results;
mod roads;
mod statistics;
mod table;
mod venue;

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, bail};
use rgit_testkit::{certificate::Authority, repository::Git};

use crate::{cargo, demo, test};
pub(crate) use arguments::Arguments;
use arguments::{Measure, Verb};
use client::Programs;
use data::Data;
use matrix::{Client, Group};
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
        Some(Verb::Render { results: file }) => {
            let results = Results::read(file)?;
            publish(&results, file.parent().unwrap_or(Path::new(".")))?;
            Ok(true)
        }
        None => measure(&arguments.measure),
    }
}

fn measure(flags: &Measure) -> anyhow::Result<bool> {
    let groups = flags.axes().groups(&flags.filter);
    if groups.is_empty() {
        bail!("no cell has such a name: `cargo xtask bench --list` prints all of them");
    }
    if flags.list {
        for (group, clients) in &groups {
            clients.iter().for_each(|client| println!("{}", group.cell(*client)));
        }
        return Ok(true);
    }
    test::check_git()?;
    if let Some(why) = flags.server.iter().find_map(|name| front::missing(name)) {
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

    let files = tempfile::tempdir().context("make a temporary directory")?;
    let lab = lab(flags, rgit, files.path())?;
    let mut results = begin(flags, &lab, load);
    let file = folder.join("results.json");
    if flags.resume && file.exists() {
        take_over(&mut results, Results::read(&file)?)?;
    }
    let begun = Instant::now();
    measure_groups(flags, &lab, &groups, &mut results, &file)?;
    eprintln!("measured in {}", span(begun.elapsed()));
    publish(&results, &folder)?;
    Ok(!results
        .cells
        .iter()
        .any(|cell| matches!(cell.outcome, Outcome::Failed(_))))
}

/// Prints the results and writes what others may read of them.
fn publish(results: &Results, folder: &Path) -> anyhow::Result<()> {
    println!("{}", table::terminal(results));
    for (name, text) in [
        ("results.md", table::markdown(results)),
        ("index.html", page::page(results)),
    ] {
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    }
    eprintln!("results.json, results.md and index.html are in {}", folder.display());
    Ok(())
}

/// What was typed, without paths that mean something on this machine only.
fn command(words: impl IntoIterator<Item = String>) -> String {
    let mut words = words.into_iter();
    let mut command = "cargo xtask".to_owned();
    while let Some(word) = words.next() {
        let flag = word.split('=').next().unwrap_or_default();
        if ["--rgit", "--output"].contains(&flag) {
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
fn lab(flags: &Measure, rgit: PathBuf, files: &Path) -> anyhow::Result<Lab> {
    let authority = Authority::new();
    let git = Git::at(&files.join("home")).context("make a home")?;
    let git = git.with("GIT_SSL_CAINFO", authority.write_ca(files));
    let mut homes = Vec::new();
    for name in ["cold", "warm"] {
        // A daemon's socket lies here: nobody else may have a place in the folder.
        let place = files.join(name);
        fs::create_dir(&place).with_context(|| format!("make {}", place.display()))?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).context("close a folder to others")?;
        homes.push(git.with("XDG_RUNTIME_DIR", place));
    }
    let homes = homes.try_into().ok().context("two homes")?;
    Ok(Lab {
        data: Data::new(files, git, flags.bulk_mb)?,
        authority,
        programs: Programs::beside(rgit),
        homes,
        runs: flags.runs(),
        limit: flags.limit(),
        leave_out_slow: flags.leaves_out_slow(),
    })
}

/// Results without a cell.
fn begin(flags: &Measure, lab: &Lab, load: f64) -> Results {
    let (rgit, git, others) = lab.programs.versions(&lab.data.git);
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
        limits: Vec::new(),
        cells: Vec::new(),
    }
}

/// Keeps what an earlier bench has finished, when it was made the same way.
fn take_over(results: &mut Results, earlier: Results) -> anyhow::Result<()> {
    let way = |results: &Results| {
        let settings = &results.settings;
        let same = (settings.runs, settings.bulk_mb, settings.limit_s);
        (
            same,
            results.commit.clone(),
            results.host.clone(),
            results.versions.clone(),
        )
    };
    if way(results) != way(&earlier) {
        bail!(
            "the earlier results were made another way (runs, sizes, limit, commit, machine or versions differ): \
             measure again without --resume"
        );
    }
    // A group that is under way has lost its turns: its clients would not have run side by side.
    results.cells = earlier.cells;
    let whole = |cell: &Cell| cell.outcome != Outcome::Measured || cell.runs.len() >= results.settings.runs;
    let unfinished: Vec<Group> = results
        .cells
        .iter()
        .filter(|cell| !whole(cell))
        .map(|cell| cell.group.clone())
        .collect();
    results.cells.retain(|cell| !unfinished.contains(&cell.group));
    results.links = earlier.links;
    results.limits = earlier.limits;
    Ok(())
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
    let measured = |cell: &&Cell| cell.outcome == Outcome::Measured;
    let runs = |cell: &Cell| std::iter::repeat_n(guess(cell), lab.runs + 1);
    let mut progress = Progress::new(todo.iter().flat_map(|(_, cells)| cells).filter(measured).flat_map(runs));

    for (group, cells) in todo {
        if !results.links.iter().any(|link| link.road == group.road) {
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
        }
        limits::add(&mut results.limits, &lab.data, group.scenario, lab.runs)?;
        let before = results.cells.clone();
        lab.group(
            group,
            cells,
            |cell, round, wall| {
                progress.step(guess(cell));
                if cell.outcome != Outcome::Measured {
                    // It won't run again.
                    (round..lab.runs).for_each(|_| progress.step(guess(cell)));
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

#[cfg(test)]
mod tests {
    use super::{
        matrix::{Scenario, Window},
        results::made_up,
        *,
    };

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn bench(words: &[&str]) -> Arguments {
        let words = ["bench"].iter().chain(words);
        <Line as clap::Parser>::try_parse_from(words)
            .expect("a command line")
            .arguments
    }

    /// Nothing here looks at a time: that cells are measured, checked, written, taken up again and shown is all.
    #[test]
    fn a_small_bench_from_its_flags_to_its_page() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let output = folder.path().display().to_string();
        // It does nothing and says that all is well.
        let idler = client::on_path("true").expect("the program true").display().to_string();
        let mut words = vec![
            "--force", "--rgit", &idler, "--output", &output, "-n", "1", "--limit", "60",
        ];
        words.extend(["--transport", "git-h1,auto", "--scenario", "push-one", "--rtt", "5"]);
        assert!(!run(&bench(&words)).expect("a bench"), "the idler's cell passed");

        let file = folder.path().join("results.json");
        let results = Results::read(&file).expect("results");
        let [git, idle] = &results.cells[..] else {
            panic!("{results:?}")
        };
        assert_eq!((&git.outcome, git.runs.len()), (&Outcome::Measured, 1), "{git:?}");
        let seen = &git.runs[0];
        assert_eq!((seen.requests, seen.connections), (Some(2), Some(1)), "{seen:?}");
        assert!(
            seen.up > Some(0) && seen.down > Some(0) && seen.wire.is_some_and(|wire| wire.0 > 500),
            "{seen:?}"
        );
        assert!(
            idle.outcome.why().is_some_and(|why| why.contains("refs differ")),
            "{idle:?}"
        );
        assert_eq!(results.links.len(), 1);
        for (name, expected) in [
            ("index.html", "push-one/auto/cold/5ms/64KiB"),
            ("results.md", "push-one/git-h1"),
        ] {
            let text = fs::read_to_string(folder.path().join(name)).expect("a report");
            assert!(text.contains(expected), "{name}");
        }

        words.push("--resume");
        assert!(!run(&bench(&words)).expect("a bench"), "what failed has still failed");
        let again = Results::read(&file).expect("results");
        assert_eq!(again.cells[0].runs, git.runs);
    }

    #[test]
    fn a_command_is_recorded_without_paths() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
        assert_eq!(
            command(words("bench --rgit /a/rgit --full --output=/b -n 3")),
            "cargo xtask bench --full -n 3"
        );
    }

    #[test]
    fn what_is_finished_is_taken_over_and_a_broken_round_is_not() {
        let cell = |scenario, client, walls: &[f64]| made_up::cell(scenario, client, 0, Window::Small, walls);
        let earlier = made_up::results(vec![
            cell(Scenario::LsRemote, Client::H1, &[1.0, 1.0, 1.0]),
            cell(Scenario::PushOne, Client::GitH1, &[1.0, 1.0, 1.0]),
            cell(Scenario::PushOne, Client::H1, &[1.0, 1.0]),
        ]);
        let mut results = made_up::results(vec![]);
        take_over(&mut results, earlier.clone()).expect("the same settings");
        let names: Vec<&str> = results.cells.iter().map(|cell| &*cell.name).collect();
        assert_eq!(names, ["ls-remote/h1/cold/0ms/64KiB"]);

        results.settings.bulk_mb = 5;
        let error = take_over(&mut results, earlier).expect_err("another size").to_string();
        assert!(error.contains("without --resume"), "{error}");
    }
}
