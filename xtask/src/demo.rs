//! `cargo xtask demo`: rgit at work on this machine, and the proof that it did what it says.
//!
//! Owns the story: a real `git http-backend` behind TLS on loopback, a small generated repository, and the same five
//! operations by git and by every transport of rgit, each checked by git. It is a show, not a benchmark: every operation
//! runs once.

mod check;
mod client;
mod table;

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rgit_testkit::{
    certificate::Authority,
    history,
    repository::{Git, ObjectFormat},
    server::GitServer,
};
use serde::Deserialize;

use crate::{cargo, test};
use client::Client;
use table::{Row, print};

/// Transports of rgit, by the names that `--transport` takes. The one that starts a daemon is last, so that `auto` rides none.
#[cfg(unix)]
const TRANSPORTS: &[&str] = &["h1", "h2", "auto", "persistent"];
/// The same where there is no daemon.
#[cfg(not(unix))]
const TRANSPORTS: &[&str] = &["h1", "h2", "auto"];
/// Commits in the generated repository.
const COMMITS: usize = 500;
/// No operation of the demo takes this long on loopback; one that does hangs.
const PATIENCE: Duration = Duration::from_secs(60);

const INTRODUCTION: &str = "\
rgit moves Git repositories over HTTP(S). This demo serves a real `git http-backend` over TLS on this machine and lets git,
and rgit by each of its transports, do the same five things with a small generated repository: push it to an empty one, list
its refs, push one more commit, fetch that into an older copy, and clone it with its files. After each, git looks at the
result: `git fsck --strict`, the same refs, the same objects, and for the clone an unchanged working tree. Everything lies in
a temporary directory that goes when the demo ends.
";

/// Flags of `cargo xtask demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Use this rgit in place of building one.
    #[arg(long, value_name = "FILE")]
    rgit: Option<PathBuf>,
}

/// The daemon that `persistent` starts ends with the demo.
struct Daemon<'d>(&'d Git, &'d Path);

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        if cfg!(unix) {
            let mut command = self.0.program(self.1, self.0.home());
            command.args(["-q", "daemon", "stop"]).status().ok();
        }
    }
}

/// Runs the demo; `false` when a check failed.
///
/// # Errors
/// When it can't be set up: no git, no build, no port.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    println!("{INTRODUCTION}");
    test::check_git()?;
    let rgit = match &arguments.rgit {
        Some(file) => file
            .canonicalize()
            .with_context(|| format!("find {}", file.display()))?,
        None => build()?,
    };

    let begun = Instant::now();
    let stage = Stage::set()?;
    let mut clients = vec![Client::git()];
    clients.extend(TRANSPORTS.iter().map(|transport| Client::rgit(&rgit, transport)));
    let mut rows = Vec::new();
    let _daemon = Daemon(&stage.git, &rgit);
    for client in &clients {
        println!("\nA repository of {COMMITS} commits, by {}:", client.name);
        rows.extend(stage.play(client)?);
    }

    println!("\nOne run each, on loopback: a show, not a benchmark. Up and down are bytes of HTTP bodies.\n");
    print(&rows);
    let failed: Vec<&Row> = rows.iter().filter(|row| row.check.is_err()).collect();
    println!();
    for row in &failed {
        println!(
            "FAILED: {} by {}: {}",
            row.operation,
            row.client,
            row.check.as_ref().err().map_or("", |why| why)
        );
    }
    match failed.len() {
        0 => println!(
            "All {} operations did what git says they must, in {:.1} s.",
            rows.len(),
            begun.elapsed().as_secs_f64()
        ),
        n => println!("{n} of {} operations failed.", rows.len()),
    }
    Ok(failed.is_empty())
}

/// Builds rgit and asks cargo where it is: the target directory may be anywhere.
pub(crate) fn build() -> anyhow::Result<PathBuf> {
    println!("Building rgit (cargo build --release --bin rgit); the first time this takes a few minutes.");
    built(&["--release", "--package", "rgit-cli"])
}

/// The rgit that tests are built with.
#[cfg(test)]
pub(crate) fn build_for_tests() -> anyhow::Result<PathBuf> {
    // Of the whole workspace, as tests are: what is there already need not be built with other features.
    built(&["--workspace"])
}

fn built(how: &[&str]) -> anyhow::Result<PathBuf> {
    let output = cargo::command()
        .arg("build")
        .args(how)
        .args(["--bin", "rgit", "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("start cargo build")?;
    if !output.status.success() {
        bail!("rgit does not build ({})", output.status);
    }
    executable(&output.stdout).context("cargo built rgit but named no executable")
}

/// One line of `--message-format json`; other reasons have other fields.
#[derive(Debug, Deserialize)]
struct Message {
    #[serde(default)]
    executable: Option<PathBuf>,
}

fn executable(messages: &[u8]) -> Option<PathBuf> {
    let lines = messages.split(|&byte| byte == b'\n');
    lines
        .filter_map(|line| serde_json::from_slice::<Message>(line).ok())
        .filter_map(|message| message.executable)
        .next_back()
}

/// The server and the repository that everything is done with.
#[derive(Debug)]
struct Stage {
    server: GitServer,
    /// Git as a client: a home of its own that trusts the throw-away CA.
    git: Git,
    files: tempfile::TempDir,
}

impl Stage {
    fn set() -> anyhow::Result<Self> {
        let files = tempfile::tempdir().context("make a temporary directory")?;
        println!("\nMaking a throw-away certificate authority; clients are told of it by GIT_SSL_CAINFO.");
        let authority = Authority::new();
        let git = Git::at(&files.path().join("home")).context("make a home")?;
        let git = git
            .with("GIT_SSL_CAINFO", authority.write_ca(files.path()))
            // Where the daemon's socket goes: the user's own daemon has no part in this.
            .with("XDG_RUNTIME_DIR", files.path());
        let server = GitServer::builder()
            .tls(&authority)
            .start()
            .context("start the server")?;
        println!("Serving git http-backend at {}.", server.base_url());
        Ok(Stage { server, git, files })
    }

    /// The five operations by one client. What an operation needs of those before it is made up by git where they failed.
    fn play(&self, client: &Client) -> anyhow::Result<Vec<Row>> {
        let git = &self.git;
        let folder = self.files.path().join(&client.name);
        let source = folder.join("source");
        history::small(git, &source, COMMITS);
        git.git(&source, ["tag", "-a", "-m", "the first release", "v1"]);
        let name = format!("{}.git", client.name);
        let served = self.server.create(&name, &[]);
        let url = self.server.url(&name);
        let mut rows = Vec::new();

        rows.push(
            self.operation(client, "push, all", &source, &["push", &url, "main:main", "v1"], |_| {
                check::same(git, &source, &served)
            })?,
        );
        self.make_up(&source, &served);

        rows.push(
            self.operation(client, "ls-remote", &source, &["ls-remote", &url], |listed| {
                check::listing(git, &served, listed)
            })?,
        );

        // Made before the next commit, so that there is something to fetch.
        let behind = folder.join("behind");
        git.init(&behind, ObjectFormat::Sha1);
        git.git(&behind, ["remote", "add", "origin", &url]);
        let path = served.display().to_string();
        let refs = ["main:refs/remotes/origin/main", "v1:refs/tags/v1"];
        git.git(&behind, ["fetch", "-q", &path, refs[0], refs[1]]);

        history::add_commit(git, &source, "One more.");
        rows.push(self.operation(
            client,
            "push, one commit",
            &source,
            &["push", &url, "main:main"],
            |_| check::same(git, &source, &served),
        )?);
        self.make_up(&source, &served);

        rows.push(self.operation(client, "fetch", &behind, &["fetch", "origin"], |_| {
            check::fetched(git, &served, &behind)
        })?);

        let copy = folder.join("copy");
        let target = copy.display().to_string();
        rows.push(
            self.operation(client, "clone", &folder, &["clone", &url, &target], |_| {
                check::cloned(git, &served, &copy)
            })?,
        );
        Ok(rows)
    }

    /// Brings the served repository to where a push should have brought it.
    fn make_up(&self, source: &Path, served: &Path) {
        let served = served.display().to_string();
        self.git
            .git(source, ["push", "-q", "--force", &served, "main:main", "v1"]);
    }

    /// Runs one operation. Its check sees what it wrote to stdout, once it has said itself that it did well.
    fn operation(
        &self,
        client: &Client,
        operation: &'static str,
        directory: &Path,
        arguments: &[&str],
        check: impl FnOnce(&[u8]) -> Result<(), String>,
    ) -> anyhow::Result<Row> {
        println!("  $ {} {}", client.shown(), arguments.join(" "));
        self.server.clear_log();
        let run = client.run(&self.git, self.files.path(), directory, arguments, PATIENCE)?;
        // The checks read files, not URLs, but the log is taken before them anyway.
        let requests = self.server.requests();
        let connections = self.server.connections().len();
        let check = run.verdict().and_then(|()| check(&run.stdout));
        println!("    {}", if check.is_ok() { "done, and checked" } else { "FAILED" });
        Ok(Row {
            client: client.name.clone(),
            operation,
            wall: run.wall,
            requests: requests.len(),
            connections,
            up: requests.iter().map(|request| request.request_bytes).sum(),
            down: requests.iter().map(|request| request.response_bytes).sum(),
            check,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_among_cargos_messages() {
        let messages = br#"{"reason":"compiler-artifact","executable":null}
not json
{"reason":"compiler-artifact","executable":"/target/release/rgit"}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(executable(messages), Some(PathBuf::from("/target/release/rgit")));
        assert_eq!(executable(b"{\"reason\":\"build-finished\"}\n"), None);
    }

    /// The whole story, told with git alone: the checks hold where the referee itself is at work.
    #[test]
    fn git_passes_its_own_demo() {
        let stage = Stage::set().expect("a server");
        let rows = stage.play(&Client::git()).expect("five operations");
        let operations: Vec<&str> = rows.iter().map(|row| row.operation).collect();
        assert_eq!(
            operations,
            ["push, all", "ls-remote", "push, one commit", "fetch", "clone"]
        );
        for row in &rows {
            assert_eq!(row.check, Ok(()), "{}", row.operation);
            assert!(row.requests >= 2 && row.connections >= 1 && row.down > 0, "{row:?}");
        }
    }

    /// A client that does nothing and says that all is well.
    #[test]
    fn a_client_that_only_claims_success_is_found_out() {
        let stage = Stage::set().expect("a server");
        let rows = stage
            .play(&Client::rgit(Path::new("true"), "none"))
            .expect("five operations");
        assert_eq!(rows.len(), 5);
        for row in &rows {
            assert!(row.check.is_err(), "{row:?}");
            assert_eq!(row.requests, 0);
        }
    }
}
