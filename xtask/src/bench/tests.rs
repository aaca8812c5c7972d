//! Small benches from their flags to what they write. Nothing here looks at a time.

use std::os::unix::fs::PermissionsExt;

use clap::Parser;
use rgit_testkit::{
    history,
    server::{GitServer, Protocols},
};

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

/// Without signals: those of a test are the business of whoever runs it.
fn bench(words: &[&str]) -> anyhow::Result<bool> {
    let words = ["bench"].iter().chain(words);
    let line = Line::try_parse_from(words).expect("a command line");
    measure(&line.arguments.measure, |_| Ok(()))
}

/// A program in `folder` that runs this in a shell.
fn script(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    fs::write(&file, format!("#!/bin/sh\n{text}\n")).expect("a script");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a program");
    file.display().to_string()
}

fn read(folder: &Path) -> Results {
    Results::read(&folder.join("results.json")).expect("results")
}

fn outcome<'r>(results: &'r Results, name: &str) -> &'r Cell {
    let cell = results.cells.iter().find(|cell| cell.name == name);
    cell.unwrap_or_else(|| panic!("{name} is not in {:?}", results.cells))
}

/// Names of processes that run this program.
fn running(program: &Path) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    processes
        .map(|process| process.path())
        .filter(|process| fs::read_link(process.join("exe")).is_ok_and(|exe| exe == program))
        .collect()
}

#[test]
fn a_small_bench_from_its_flags_to_its_page() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let output = folder.path().display().to_string();
    let idler = script(folder.path(), "idler", "true");
    let mut words = vec![
        "--force", "--rgit", &idler, "--output", &output, "-n", "1", "--limit", "60",
    ];
    words.extend(["--transport", "git-h1,auto", "--scenario", "push-one", "--rtt", "5"]);
    assert!(!bench(&words).expect("a bench"), "the idler's cell passed");

    let results = read(folder.path());
    let [git, idle] = &results.cells[..] else {
        panic!("{results:?}")
    };
    assert_eq!((&git.outcome, git.runs.len()), (&Outcome::Measured, 1), "{git:?}");
    let seen = &git.runs[0];
    assert_eq!((seen.requests, seen.connections), (Some(2), Some(1)), "{seen:?}");
    assert_eq!(seen.connections_used, Some(1), "{seen:?}");
    assert_eq!(seen.frames.map(|frames| frames.count), Some(0), "{seen:?}");
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
    assert!(!bench(&words).expect("a bench"), "what failed has still failed");
    assert_eq!(read(folder.path()).cells[0].runs, git.runs);
}

#[test]
fn daemons_are_cold_or_warm_as_their_cells_say_and_gone_in_the_end() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let folder = folder.path().canonicalize().expect("its path");
    let output = folder.display().to_string();
    // A program of its own: its daemons can't be taken for another test's.
    let rgit = folder.join("rgit");
    fs::copy(demo::build_for_tests().expect("a build"), &rgit).expect("a copy");
    let mut words = vec![
        "--force",
        "--rgit",
        rgit.to_str().expect("a path"),
        "--output",
        &output,
        "-n",
        "1",
    ];
    words.extend([
        "--transport",
        "persistent-cold,persistent-warm,auto,persistent-h1,persistent-h2",
    ]);
    words.extend([
        "--scenario",
        "ls-remote,clone-4",
        "--rtt",
        "5",
        "--bulk-mb",
        "1",
        "--limit",
        "60",
    ]);
    let passed = bench(&words).expect("a bench");
    let results = read(&folder);
    assert!(passed, "{results:?}");
    let left = running(&rgit);
    assert!(left.is_empty(), "{left:?}");

    let seen = |name: &str| outcome(&results, name).runs[0].clone();
    let counts = |name: &str| {
        let run = seen(name);
        (run.requests, run.connections, run.connections_used)
    };
    let cold = counts("ls-remote/persistent/cold/5ms/64KiB");
    assert_eq!(cold, (Some(2), Some(1), Some(1)));
    let warm = counts("ls-remote/persistent/warm/5ms/64KiB");
    assert_eq!(warm, (Some(1), Some(0), Some(1)));
    // Had it met another client's daemon, its connection would be an old one.
    assert_eq!(counts("ls-remote/auto/cold/5ms/64KiB"), cold);

    let many = seen("clone-4/persistent-h1/warm/5ms/64KiB");
    assert!(many.connections_used > Some(1), "{many:?}");
    assert_eq!(many.frames.map(|frames| frames.count), Some(0), "{many:?}");
    let one = seen("clone-4/persistent-h2/warm/5ms/64KiB");
    assert_eq!((one.connections, one.connections_used), (Some(0), Some(1)), "{one:?}");
    assert!(one.frames.is_some_and(|frames| frames.bytes > 4_000_000), "{one:?}");
    assert!(one.client_cpu_s.is_some() && one.peak_anonymous.is_some(), "{one:?}");
}

#[test]
fn peers_are_named_by_flags_and_say_what_they_cannot_do() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let output = folder.path().display().to_string();
    // Does all that git does but push.
    let peer = script(
        folder.path(),
        "peer",
        "case \" $* \" in *' push '*) echo 'no push yet' >&2; exit 3;; esac\nexec git \"$@\"",
    );
    let idler = script(folder.path(), "idler", "true");
    let mut words = vec![
        "--force", "--rgit", &idler, "--grit", &peer, "--gix", &peer, "--output", &output,
    ];
    words.extend(["--transport", "grit,gix", "--scenario", "clone-small,push-one"]);
    words.extend(["--rtt", "5", "-n", "1", "--limit", "60"]);
    assert!(
        bench(&words).expect("a bench"),
        "what a peer can't do is no fault of ours"
    );
    let results = read(folder.path());
    for client in ["grit", "gix"] {
        let cloned = outcome(&results, &format!("clone-small/{client}/cold/5ms/64KiB"));
        assert_eq!(
            (&cloned.outcome, cloned.runs.len()),
            (&Outcome::Measured, 1),
            "{cloned:?}"
        );
    }
    let why = |name: &str| outcome(&results, name).outcome.why().unwrap_or_default().to_owned();
    let told = why("push-one/grit/cold/5ms/64KiB");
    assert!(told.contains("no push yet"), "{told}");
    assert_eq!(why("push-one/gix/cold/5ms/64KiB"), "gix has no push");
    assert_eq!(results.versions.others.len(), 2, "{:?}", results.versions);
}

#[test]
fn a_server_of_another_is_read_and_pushed_to_only_where_that_was_allowed() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let output = folder.path().display().to_string();
    let authority = Authority::new();
    let builder = GitServer::builder().tls(&authority).protocols(Protocols::Both);
    let server = builder.start().expect("a server");
    let (read_only, scratch) = (server.create("some.git", &[]), server.create("scratch.git", &[]));
    let source = folder.path().join("source");
    history::small(server.git(), &source, 10);
    let to = read_only.display().to_string();
    server.git().git(&source, ["push", "-q", &to, "main"]);
    let before = server.git().refs(&read_only);

    let idler = script(folder.path(), "idler", "true");
    let ca = authority.write_ca(folder.path()).display().to_string();
    let (url, to) = (server.url("some.git"), server.url("scratch.git"));
    let mut words = vec![
        "--force", "--rgit", &idler, "--output", &output, "-n", "1", "--limit", "60",
    ];
    words.extend(["--transport", "git-h1,git-h2", "--server", &url, "--ca", &ca]);
    assert!(bench(&words).expect("a bench"));
    let results = read(folder.path());
    let place = format!("cold/real/{}/some.git", server.address());
    let refused = outcome(&results, &format!("push-one/git-h1/{place}")).outcome.why();
    assert!(refused.is_some_and(|why| why.contains("--push-to")), "{refused:?}");
    let posts = server.requests();
    assert!(
        posts.iter().all(|request| !request.path.ends_with("git-receive-pack")),
        "{posts:?}"
    );

    words.extend(["--push-to", &to]);
    assert!(bench(&words).expect("a bench"));
    let results = read(folder.path());
    assert_eq!(results.cells.len(), 6 * 2);
    for cell in &results.cells {
        assert_eq!((&cell.outcome, cell.runs.len()), (&Outcome::Measured, 1), "{cell:?}");
        let run = &cell.runs[0];
        assert_eq!((run.requests, run.server_cpu_s, run.up), (None, None, None), "{run:?}");
    }
    assert_eq!(results.real_links.len(), 1);
    assert!(
        server
            .requests()
            .iter()
            .any(|request| request.path == "/scratch.git/git-receive-pack")
    );
    assert_eq!(server.git().refs(&scratch), [""; 0], "a branch was left behind");
    assert_eq!(server.git().refs(&read_only), before);
    let text = fs::read_to_string(folder.path().join("results.md")).expect("a report");
    assert!(text.contains("the real link to https://127.0.0.1"), "{text}");
}

#[test]
fn a_command_is_recorded_without_paths() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<String>>();
    assert_eq!(
        command(words("bench --rgit /a/rgit --full --output=/b --gix /c -n 3")),
        "cargo xtask bench --full -n 3"
    );
}

/// On two processors, without peers, which are an addition of whoever has them.
#[test]
fn presets_end_in_the_time_they_promise() {
    for (preset, most) in [(&[][..], 3 * 60), (&["--full"][..], 60 * 60)] {
        let line = Line::try_parse_from([&["bench"], preset].concat()).expect("a command line");
        let (_, guess) = estimate(&line.arguments.measure);
        assert!(guess < Duration::from_secs(most), "{preset:?} takes {}", span(guess));
    }
}
