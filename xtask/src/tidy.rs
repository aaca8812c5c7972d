//! `cargo xtask tidy`: the house rules, checked over `cargo metadata` and the sources.
//!
//! Owns the list of rules and how findings are shown. Each rule says what it holds; a finding says where it is broken,
//! what was found, and what to do. ARCHITECTURE.md has the reasons.

mod arrows;
mod metadata;
mod sources;
mod supply;
mod text;

use std::{fmt, process::Stdio};

use anyhow::{Context, bail};

use crate::cargo;
use metadata::Metadata;

/// Flags of `cargo xtask tidy`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Arguments {
    /// Show what each rule holds, also where nothing was found.
    #[arg(short, long)]
    verbose: bool,
}

/// One place where a rule does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    /// A crate, or a file and line.
    place: String,
    what: String,
    remedy: String,
    /// Told, but no violation.
    tolerated: bool,
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Finding {
            place: place.into(),
            what: what.into(),
            remedy: remedy.into(),
            tolerated: false,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.tolerated { "note" } else { "error" };
        write!(f, "  {kind}: {}: {}\n         {}", self.place, self.what, self.remedy)
    }
}

/// A rule's name, what it holds, and where it is broken.
#[derive(Debug)]
struct Verdict {
    rule: &'static str,
    holds: &'static str,
    findings: Vec<Finding>,
}

/// Runs all rules; `false` when one is broken.
///
/// # Errors
/// When cargo or the sources can't be read.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let root = cargo::workspace();
    let metadata = Metadata::load()?;
    let sources = sources::Sources::read(&root)?;
    let verdicts = [
        Verdict {
            rule: "arrows",
            holds: "a crate uses only the rooms below it",
            findings: arrows::between_rooms(&metadata),
        },
        Verdict {
            rule: "never",
            holds: "no room reaches, directly or through others, what it must not know",
            findings: arrows::never(&metadata),
        },
        Verdict {
            rule: "bans",
            holds: "no libgit2, curl or OpenSSL anywhere",
            findings: supply::bans(&metadata),
        },
        Verdict {
            rule: "licences",
            holds: "every dependency's licence is on the list, and it comes from crates.io",
            findings: supply::licences(&metadata),
        },
        Verdict {
            rule: "no-c",
            holds: "with the feature `graviola` nothing that is shipped needs a C compiler",
            findings: supply::c_compilers(&graviola_graph()?),
        },
        Verdict {
            rule: "sans-io",
            holds: "`proto` names no sockets, files, environment, threads or clock",
            findings: sources.sans_io(),
        },
        Verdict {
            rule: "silence",
            holds: "libraries do not print",
            findings: sources.silence(),
        },
        Verdict {
            rule: "choice",
            holds: "binaries name no concrete transport: `transport-auto` does",
            findings: sources.choice(&metadata),
        },
        Verdict {
            rule: "unfinished",
            holds: "no test is ignored, no code is left to do",
            findings: sources.unfinished(),
        },
        Verdict {
            rule: "size",
            holds: "files stay under 500 lines without their tests; 600 is the end",
            findings: sources.size(),
        },
        Verdict {
            rule: "front-pages",
            holds: "every crate root opens with module documentation",
            findings: sources.front_pages(&metadata),
        },
    ];

    let mut violations = 0;
    for Verdict { rule, holds, findings } in &verdicts {
        let broken = findings.iter().filter(|finding| !finding.tolerated).count();
        violations += broken;
        match broken {
            0 if arguments.verbose => println!("ok      {rule}: {holds}"),
            0 => println!("ok      {rule}"),
            n => println!("BROKEN  {rule}: {holds} ({n} found)"),
        }
        findings.iter().for_each(|finding| println!("{finding}"));
    }
    println!(
        "tidy: {} rules, {} files, {violations} violations",
        verdicts.len(),
        sources.count()
    );
    Ok(violations == 0)
}

/// Names of the crates that a build of the binaries with graviola in place of ring takes in, build scripts included.
///
/// Asked of `cargo tree` and not taken from the metadata, whose one resolution joins the features of all members, the
/// test kit's ring among them.
fn graviola_graph() -> anyhow::Result<Vec<String>> {
    let output = cargo::command()
        .args([
            "tree",
            "--package",
            "rgit-cli",
            "--edges",
            "normal,build",
            "--target",
            "all",
        ])
        .args([
            "--no-default-features",
            "--features",
            "graviola",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .stderr(Stdio::inherit())
        .output()
        .context("start cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree failed; does rgit-cli have the feature `graviola`?");
    }
    let text = String::from_utf8(output.stdout).context("cargo tree wrote no UTF-8")?;
    let mut names: Vec<String> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}
