//! How much memory a push and a clone of a large repository take: `cargo bench --bench memory`.
//!
//! A repository of incompressible blobs goes to a real `git http-backend` over TLS on loopback and back, by `rgit` and by
//! git, under the test kit's meter. What is printed is a report; no number here fails anything.
//!
//! `RGIT_BENCH_MB` sets the repository's size (300 without it). Started by anything but `cargo bench` it is a smoke run of
//! 8 MB: `cargo test --benches` must not take minutes.
#![allow(clippy::print_stdout, reason = "a bench reports to the person who started it")]

use std::{env, fs, path::Path, process::Command};

use rgit_testkit::{
    certificate::Authority,
    history,
    meter::{Measured, measure},
    repository::Git,
    server::GitServer,
};

const RGIT: &str = env!("CARGO_BIN_EXE_rgit");
/// Anonymous memory that a push or clone may take, whatever the repository's size.
const LIMIT: u64 = 100_000_000;
/// Bytes in each blob.
const BLOB: usize = 10_000_000;

/// One measured run.
struct Row {
    operation: &'static str,
    program: &'static str,
    measured: Measured,
}

fn main() {
    let size = megabytes(env::args().any(|argument| argument == "--bench"));
    let blob = BLOB.min(size * 1_000_000);
    let count = size * 1_000_000 / blob;
    println!(
        "making a repository of {count} incompressible blobs, {} MB in all",
        count * blob / 1_000_000
    );

    let files = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::new();
    let git = Git::new().with("GIT_SSL_CAINFO", authority.write_ca(files.path()));
    let server = GitServer::builder().tls(&authority).start().expect("a server");
    let source = files.path().join("source");
    history::incompressible(&git, &source, count, blob, 1);
    println!("moving it through {}", server.base_url());

    let mut rows = Vec::new();
    for (program, path, flags) in [("rgit", RGIT, &["--transport=h1"][..]), ("git", "git", &[])] {
        let name = format!("{program}.git");
        let served = server.create(&name, &[]);
        let url = server.url(&name);
        let mut push = git.program(path, &source);
        rows.push(run("push", program, push.args(flags).args(["push", &url, "main:main"])));
        git.assert_same(&source, &served);

        // With a checkout, as users do it.
        let copy = files.path().join("copy");
        let mut clone = git.program(path, files.path());
        rows.push(run(
            "clone",
            program,
            clone.args(flags).args(["clone", &url]).arg(&copy),
        ));
        check_clone(&git, &served, &copy);
        fs::remove_dir_all(&copy).expect("remove the clone");
        fs::remove_dir_all(&served).expect("remove the served repository");
    }
    report(&rows);
}

/// The repository's size; `whole` unless this is a smoke run.
fn megabytes(whole: bool) -> usize {
    let given = env::var("RGIT_BENCH_MB").ok();
    match given.map(|given| given.parse::<usize>()) {
        Some(Ok(size)) if size > 0 => size,
        Some(_) => panic!("RGIT_BENCH_MB is no number of megabytes"),
        None if whole => 300,
        None => 8,
    }
}

fn run(operation: &'static str, program: &'static str, command: &mut Command) -> Row {
    let measured = measure(command).unwrap_or_else(|error| panic!("start {program}: {error}"));
    assert!(
        measured.status.success(),
        "{program} {operation}: {}\n{}",
        measured.status,
        String::from_utf8_lossy(&measured.stderr)
    );
    Row {
        operation,
        program,
        measured,
    }
}

fn check_clone(git: &Git, served: &Path, copy: &Path) {
    git.fsck(copy);
    assert_eq!(
        git.text(copy, ["rev-parse", "HEAD"]),
        git.text(served, ["rev-parse", "main"])
    );
    assert_eq!(git.objects(copy), git.objects(served));
    assert_eq!(git.text(copy, ["status", "--porcelain"]), "");
}

fn report(rows: &[Row]) {
    println!(
        "\n{:<10}{:<9}{:>8}{:>8}{:>17}",
        "operation", "program", "wall s", "CPU s", "peak RssAnon MB"
    );
    for Row {
        operation,
        program,
        measured,
    } in rows
    {
        let cpu = measured
            .cpu()
            .map_or("?".to_owned(), |cpu| format!("{:.2}", cpu.as_secs_f64()));
        let peak = measured
            .peak_anonymous
            .map_or("?".to_owned(), |peak| format!("{:.1}", peak as f64 / 1e6));
        println!(
            "{operation:<10}{program:<9}{:>8.2}{cpu:>8}{peak:>17}",
            measured.wall.as_secs_f64()
        );
    }
    println!("(peak: all processes of the command together, looked at every 5 ms; the server is not among them)");
    let peaks: Vec<Option<u64>> = rows
        .iter()
        .filter(|row| row.program == "rgit")
        .map(|row| row.measured.peak_anonymous)
        .collect();
    let highest = peaks
        .iter()
        .copied()
        .collect::<Option<Vec<u64>>>()
        .and_then(|peaks| peaks.into_iter().max());
    match highest {
        Some(peak) if peak < LIMIT => {
            println!(
                "limit of {} MB for rgit: holds (highest {:.1} MB)",
                LIMIT / 1_000_000,
                peak as f64 / 1e6
            );
        }
        Some(peak) => println!(
            "limit of {} MB for rgit: EXCEEDED ({:.1} MB)",
            LIMIT / 1_000_000,
            peak as f64 / 1e6
        ),
        None => println!("limit of {} MB for rgit: not known here (no /proc)", LIMIT / 1_000_000),
    }
}
