//! `cargo xtask test`: every check and test, one after another, as continuous integration runs them.
//!
//! Owns the list of steps and what must be installed for them. A failing step does not stop the others: one run tells all.

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::{cargo, tidy};

/// Flags of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run this step only (may be given several times).
    #[arg(long, value_name = "STEP", conflicts_with = "skip")]
    only: Vec<Step>,
    /// Leave this step out (may be given several times).
    #[arg(long, value_name = "STEP")]
    skip: Vec<Step>,
}

/// The steps, in the order of their running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Formatting.
    Fmt,
    /// Lints, on every target.
    Clippy,
    /// Documentation without warnings.
    Doc,
    /// House rules.
    Tidy,
    /// Advisories, licences, bans and sources by cargo-deny, where it is installed.
    Deny,
    /// Unit, integration and documentation tests.
    Test,
    /// Everything that is shipped, with graviola in place of ring.
    Graviola,
    /// The fuzz targets compile.
    Fuzz,
}

impl Step {
    fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// All or a part of it could not be done here, and why.
    Skipped(String),
    Failed,
}

impl From<bool> for Outcome {
    fn from(success: bool) -> Self {
        if success { Outcome::Passed } else { Outcome::Failed }
    }
}

/// Runs the selected steps; `false` when one failed.
///
/// # Errors
/// When something that a step needs is not installed, or cargo can't be started.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let steps = selected(arguments);
    check_prerequisites(&steps)?;
    let mut results = Vec::new();
    for step in steps {
        println!("\n=== {} ===", step.name());
        let begun = Instant::now();
        let outcome = match step {
            Step::Fmt => cargo_step(&["fmt", "--all", "--check"], &[])?,
            Step::Clippy => cargo_step(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?,
            Step::Doc => cargo_step(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])?,
            Step::Tidy => tidy::run(&tidy::Arguments::default())?.into(),
            Step::Deny => deny()?,
            // Documentation tests are the last part of this.
            Step::Test => cargo_step(&["test", "--workspace", "--no-fail-fast"], &[])?,
            Step::Graviola => graviola()?,
            Step::Fuzz => fuzz()?,
        };
        let took = begun.elapsed();
        println!(
            "--- {}: {} in {:.1} s",
            step.name(),
            describe(&outcome),
            took.as_secs_f64()
        );
        results.push((step, outcome, took));
    }
    print!("{}", summary(&results));
    Ok(results.iter().all(|(_, outcome, _)| *outcome != Outcome::Failed))
}

fn selected(arguments: &Arguments) -> Vec<Step> {
    Step::value_variants()
        .iter()
        .copied()
        .filter(|step| arguments.only.is_empty() || arguments.only.contains(step))
        .filter(|step| !arguments.skip.contains(step))
        .collect()
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Passed => "passed".to_owned(),
        Outcome::Skipped(why) => format!("skipped ({why})"),
        Outcome::Failed => "FAILED".to_owned(),
    }
}

fn summary(results: &[(Step, Outcome, Duration)]) -> String {
    let mut text = String::from("\n=== summary ===\n");
    for (step, outcome, took) in results {
        text += &format!(
            "{:<9}{:>8.1} s  {}\n",
            step.name(),
            took.as_secs_f64(),
            describe(outcome)
        );
    }
    let named = |chosen: fn(&Outcome) -> bool| -> Vec<String> {
        results
            .iter()
            .filter(|(_, outcome, _)| chosen(outcome))
            .map(|(step, ..)| step.name())
            .collect()
    };
    let failed = named(|outcome| *outcome == Outcome::Failed);
    let skipped = named(|outcome| matches!(outcome, Outcome::Skipped(_)));
    text += &match (failed.as_slice(), skipped.as_slice()) {
        ([], []) => "all steps passed\n".to_owned(),
        ([], names) => format!("no step failed; skipped: {}\n", names.join(", ")),
        (names, _) => {
            let again = names.join(" --only ");
            format!(
                "failed: {}; again with `cargo xtask test --only {again}`\n",
                names.join(", ")
            )
        }
    };
    text
}

/// Runs cargo with its output where ours goes.
fn cargo_step(arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Outcome> {
    println!("cargo {}", arguments.join(" "));
    let mut command = cargo::command();
    command.args(arguments).envs(environment.iter().copied());
    Ok(command.status().context("start cargo")?.success().into())
}

/// cargo-deny takes minutes to build, so nothing installs it on the way. Without it `tidy` still checks bans, licences and
/// sources; advisories need the RustSec database from the network besides.
fn deny() -> anyhow::Result<Outcome> {
    let installed = cargo::command()
        .args(["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("start cargo")?
        .success();
    if !installed {
        return Ok(Outcome::Skipped(
            "cargo-deny is not installed: no check for advisories; tidy has checked bans, licences and sources"
                .to_owned(),
        ));
    }
    let rest = cargo_step(&["deny", "check", "bans", "licenses", "sources"], &[])?;
    println!("cargo deny check advisories");
    let advisories = cargo::command()
        .args(["deny", "check", "advisories"])
        .output()
        .context("start cargo deny")?;
    let said = String::from_utf8_lossy(&advisories.stderr);
    print!("{}{said}", String::from_utf8_lossy(&advisories.stdout));
    if rest == Outcome::Passed && !advisories.status.success() && said.contains("failed to fetch advisory database") {
        return Ok(Outcome::Skipped(
            "advisories: their database is out of reach; the rest passed".to_owned(),
        ));
    }
    Ok((rest == Outcome::Passed && advisories.status.success()).into())
}

/// Everything but the test kit, whose server signs and serves by ring, and the tasks that use it. That ring is out of the
/// graph is `tidy`'s rule `no-c`.
fn graviola() -> anyhow::Result<Outcome> {
    let workspace = [
        "check",
        "--workspace",
        "--exclude",
        "rgit-testkit",
        "--exclude",
        "xtask",
    ];
    cargo_step(
        &[&workspace[..], &["--no-default-features", "--features", "graviola"]].concat(),
        &[],
    )
}

/// The manifests of fuzz crates, which stand outside the workspace.
fn fuzz_manifests(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut manifests = Vec::new();
    for entry in root.join("crates").read_dir().context("read crates/")? {
        let manifest = entry?.path().join("fuzz/Cargo.toml");
        if manifest.is_file() {
            manifests.push(manifest.display().to_string());
        }
    }
    manifests.sort_unstable();
    Ok(manifests)
}

fn fuzz() -> anyhow::Result<Outcome> {
    let manifests = fuzz_manifests(&cargo::workspace())?;
    if manifests.is_empty() {
        return Ok(Outcome::Skipped("there are no fuzz crates".to_owned()));
    }
    let mut passed = true;
    for manifest in manifests {
        passed &= cargo_step(&["check", "--manifest-path", &manifest], &[])? == Outcome::Passed;
    }
    Ok(passed.into())
}

/// Something a step needs, and the Debian package that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Missing {
    what: &'static str,
    package: &'static str,
}

/// Looks for what the steps need before any of them takes its time.
fn check_prerequisites(steps: &[Step]) -> anyhow::Result<()> {
    let mut missing = Vec::new();
    let compiles = [Step::Clippy, Step::Doc, Step::Test, Step::Fuzz]
        .iter()
        .any(|step| steps.contains(step));
    if compiles && !runs(&env::var("CC").unwrap_or_else(|_| "cc".to_owned())) {
        missing.push(Missing {
            what: "a C compiler (`cc`, for ring)",
            package: "gcc",
        });
    }
    if steps.contains(&Step::Fuzz)
        && !fuzz_manifests(&cargo::workspace())?.is_empty()
        && !runs(&env::var("CXX").unwrap_or_else(|_| "c++".to_owned()))
    {
        missing.push(Missing {
            what: "a C++ compiler (`c++`, for libFuzzer; or leave the step out: --skip fuzz)",
            package: "g++",
        });
    }
    if steps.contains(&Step::Test) {
        missing.extend(missing_git());
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!("{}", explain(&missing));
}

fn explain(missing: &[Missing]) -> String {
    let mut text = String::from("something needed is not installed:\n");
    for Missing { what, package } in missing {
        text += &format!("  - {what}: Debian package {package}\n");
    }
    let mut packages: Vec<&str> = missing.iter().map(|missing| missing.package).collect();
    packages.sort_unstable();
    packages.dedup();
    text + &format!("as root: apt-get install --yes {}", packages.join(" "))
}

fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Git and its http-backend, which is not on PATH but beside git's other programs.
fn missing_git() -> Option<Missing> {
    let ask = |argument: &str| {
        let output = Command::new("git").arg(argument).stderr(Stdio::null()).output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let (Some(version), Some(programs)) = (ask("--version"), ask("--exec-path")) else {
        return Some(Missing {
            what: "git, the referee of the tests",
            package: "git",
        });
    };
    if !Path::new(&programs).join("git-http-backend").is_file() {
        return Some(Missing {
            what: "git-http-backend, the server of the tests (in git's exec path)",
            package: "git",
        });
    }
    println!("{version}, with git-http-backend in {programs}");
    None
}

/// What `demo` needs.
///
/// # Errors
/// Without git or its http-backend.
pub(crate) fn check_git() -> anyhow::Result<()> {
    missing_git().map_or(Ok(()), |missing| bail!("{}", explain(&[missing])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_selected_in_their_own_order() {
        let all = selected(&Arguments {
            only: vec![],
            skip: vec![],
        });
        assert_eq!(all, Step::value_variants());
        assert_eq!(
            selected(&Arguments {
                only: vec![Step::Tidy, Step::Fmt],
                skip: vec![]
            }),
            [Step::Fmt, Step::Tidy]
        );
        let rest = selected(&Arguments {
            only: vec![],
            skip: vec![Step::Test],
        });
        assert!(!rest.contains(&Step::Test) && rest.len() == all.len() - 1);
    }

    #[test]
    fn the_summary_names_what_failed_and_how_to_run_it_again() {
        let second = Duration::from_secs(1);
        assert!(summary(&[(Step::Fmt, Outcome::Passed, second)]).ends_with("\nall steps passed\n"));
        let skipped = Outcome::Skipped("not here".to_owned());
        let text = summary(&[
            (Step::Fmt, Outcome::Passed, second),
            (Step::Deny, skipped.clone(), second),
        ]);
        assert!(
            text.contains("fmt ")
                && text.contains("skipped (not here)")
                && text.ends_with("no step failed; skipped: deny\n"),
            "{text}"
        );
        let text = summary(&[
            (Step::Fmt, Outcome::Failed, second),
            (Step::Deny, skipped, second),
            (Step::Doc, Outcome::Failed, second),
        ]);
        assert!(
            text.ends_with("failed: fmt, doc; again with `cargo xtask test --only fmt --only doc`\n"),
            "{text}"
        );
    }

    #[test]
    fn what_is_missing_is_named_with_its_package_once() {
        let missing = |what| Missing { what, package: "git" };
        let text = explain(&[missing("one"), missing("other")]);
        assert!(
            text.contains("- one: Debian package git\n") && text.contains("- other: "),
            "{text}"
        );
        assert!(text.ends_with("apt-get install --yes git"), "{text}");
        assert!(!runs("/nonexistent/compiler"));
    }

    #[test]
    fn fuzz_crates_are_found_by_their_manifests() {
        let house = tempfile::tempdir().expect("a temporary directory");
        for folder in ["crates/a/fuzz", "crates/b/src", "crates/c/fuzz"] {
            std::fs::create_dir_all(house.path().join(folder)).expect("make a folder");
        }
        std::fs::write(house.path().join("crates/c/fuzz/Cargo.toml"), "").expect("write a manifest");
        let found = fuzz_manifests(house.path()).expect("read the house");
        assert_eq!(
            found,
            [house.path().join("crates/c/fuzz/Cargo.toml").display().to_string()]
        );
    }
}
