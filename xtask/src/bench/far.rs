//! A server that somebody else runs, named by a URL: what may be done to it, and how it is proved.
//!
//! Reading is of the repository at `--server`. Pushes go only where `--push-to` says, to one branch whose name begins with
//! `rgit-bench-`, which is deleted after each run and when the bench ends. Passwords come from where git's own do in a script:
//! the program in GIT_ASKPASS; a URL that carries one is refused.

use std::{
    cell::Cell,
    env,
    net::{TcpStream, ToSocketAddrs},
    path::{Path, PathBuf},
    process,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rgit_testkit::repository::{Git, ObjectFormat};

use super::{
    data::{Data, remove},
    job::{COPY, FSCK, all_listed, text},
    machine,
    matrix::{Client, Scenario},
    results::RealLink,
    statistics::Summary,
};

/// How long a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections whose times tell the round trip.
const PROBES: usize = 7;
/// What a client needs of the operator's environment to be let in.
const INHERITED: [&str; 2] = ["GIT_ASKPASS", "GIT_SSL_CAINFO"];

/// The server.
#[derive(Debug)]
pub(super) struct Far {
    url: String,
    push_to: Option<String>,
    /// The branch that pushes make.
    branch: String,
    /// Whether it may be there.
    pushed: Cell<bool>,
}

/// A run that is prepared.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) url: String,
    pub(super) directory: PathBuf,
    pub(super) refspec: String,
    pub(super) proof: Proof,
}

/// What must hold after a run.
#[derive(Debug)]
pub(super) enum Proof {
    /// This is what there is to list.
    Listed(String),
    /// The copy has these refs.
    Copied(PathBuf, String),
    /// The branch there is what `source` has here.
    Pushed {
        url: String,
        branch: String,
        source: PathBuf,
    },
}

/// The environment of clients of such a server: nothing but what lets them in. `authority` is a file of certificates to trust.
pub(super) fn environment(git: &Git, authority: Option<&Path>) -> Git {
    let mut git = git.clone();
    for name in INHERITED {
        if let Some(value) = env::var_os(name) {
            git = git.with(name, value);
        }
    }
    match authority {
        Some(file) => git.with("GIT_SSL_CAINFO", file),
        None => git,
    }
}

/// Whether a URL may be used. What is wrong is told without it: there may be a password in it.
///
/// # Errors
/// When it isn't HTTP, or has in it what must not be written down.
pub(super) fn admit(url: &str) -> Result<(), String> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let rest = rest.ok_or_else(|| "a server's URL begins with https:// or http://".to_owned())?;
    let host = rest.split('/').next().unwrap_or_default();
    if host.contains('@') {
        return Err(
            "a URL with a name or password in it would stand in the results: leave that out, and name a program in GIT_ASKPASS"
                .to_owned(),
        );
    }
    if host.is_empty() || rest.contains(['?', '#']) || rest.contains(char::is_whitespace) {
        return Err("a repository's URL has a host, and neither query nor fragment nor spaces".to_owned());
    }
    Ok(())
}

impl Far {
    pub(super) fn new(url: &str, push_to: Option<&str>) -> Far {
        Far {
            url: url.to_owned(),
            push_to: push_to.map(str::to_owned),
            // Two benches at once, on two machines even, must not meet.
            branch: format!("refs/heads/rgit-bench-{}-{}", machine::stamp(), process::id()),
            pushed: Cell::new(false),
        }
    }

    /// Makes everything as it must be before a run.
    ///
    /// # Errors
    /// When the server refuses, when the scenario isn't for a server of another, or when it would push without leave.
    pub(super) fn prepare(&self, data: &Data, scenario: Scenario) -> anyhow::Result<Prepared> {
        let copy = data.work.join(COPY);
        let (directory, refspec, proof) = match scenario {
            Scenario::LsRemote | Scenario::Concurrent8 => (
                data.work.clone(),
                String::new(),
                Proof::Listed(self.ask(data, &["ls-remote", &self.url])?),
            ),
            Scenario::CloneUrl => {
                remove(&copy)?;
                let refs = self.ask(data, &["ls-remote", "--refs", "--heads", "--tags", &self.url])?;
                (data.work.clone(), String::new(), Proof::Copied(copy, spaced(&refs)))
            }
            Scenario::FetchFew => {
                let (branch, tip) = self.behind(data, &copy)?;
                let expected = format!("{tip} {branch}");
                (
                    copy.clone(),
                    format!("{branch}:{branch}"),
                    Proof::Copied(copy, expected),
                )
            }
            Scenario::PushOne | Scenario::Push10Mb | Scenario::PushBulk => {
                let source = data.repository(match scenario {
                    Scenario::PushOne => "small",
                    Scenario::Push10Mb => "mid",
                    _ => "bulk",
                })?;
                let url = self.push_to.clone();
                let url = url.context("it pushes, and --push-to names no repository where that may be done")?;
                self.clear(data)?;
                self.pushed.set(true);
                if scenario == Scenario::PushOne {
                    let before = format!("main~1:{}", self.branch);
                    self.ask_in(&source, data, &["push", "-q", &url, &before])?;
                }
                let proof = Proof::Pushed {
                    url,
                    branch: self.branch.clone(),
                    source: source.clone(),
                };
                (source, format!("main:{}", self.branch), proof)
            }
            other => bail!("{other} is of data that only this bench's own servers have"),
        };
        let url = match &proof {
            Proof::Pushed { url, .. } => url.clone(),
            _ => self.url.clone(),
        };
        Ok(Prepared {
            url,
            directory,
            refspec,
            proof,
        })
    }

    /// Deletes the branch that pushes make, where it is there.
    ///
    /// # Errors
    /// When the server refuses.
    pub(super) fn clear(&self, data: &Data) -> anyhow::Result<()> {
        let Some(url) = self.push_to.as_deref().filter(|_| self.pushed.get()) else {
            return Ok(());
        };
        if !self.ask(data, &["ls-remote", url, &self.branch])?.is_empty() {
            let nothing = format!(":{}", self.branch);
            let repository = data.repository("small")?;
            self.ask_in(&repository, data, &["push", "-q", url, &nothing])?;
        }
        self.pushed.set(false);
        Ok(())
    }

    /// A copy, five commits behind on its one branch: the branch, and where it is on the server.
    fn behind(&self, data: &Data, copy: &Path) -> anyhow::Result<(String, String)> {
        let (whole, behind) = (data.work.join("far.git"), data.work.join("far-5.git"));
        if !behind.exists() {
            remove(&whole)?;
            let words = [
                "clone",
                "-q",
                "--bare",
                "--single-branch",
                "--no-tags",
                &self.url,
                "far.git",
            ];
            self.ask(data, &words)?;
            text(data, &whole, &["update-ref", "HEAD", "HEAD~5"])
                .map_err(|_| anyhow::anyhow!("its branch has fewer than six commits"))?;
            // Packed anew: what is behind must not have what is to come.
            let words = ["clone", "-q", "--bare", "--no-local", "far.git", "far-5.git"];
            self.ask(data, &words)?;
            for (key, value) in [("gc.auto", "0"), ("maintenance.auto", "false")] {
                self.ask_in(&behind, data, &["config", key, value])?;
            }
        }
        data.copy_from(&behind, copy)?;
        let branch = self.ask_in(copy, data, &["symbolic-ref", "HEAD"])?;
        let listed = self.ask(data, &["ls-remote", &self.url, &branch])?;
        let tip = listed.split('\t').next().unwrap_or_default().to_owned();
        Ok((branch, tip))
    }

    fn ask(&self, data: &Data, arguments: &[&str]) -> anyhow::Result<String> {
        self.ask_in(&data.work, data, arguments)
    }

    fn ask_in(&self, directory: &Path, data: &Data, arguments: &[&str]) -> anyhow::Result<String> {
        text(data, directory, arguments).map_err(anyhow::Error::msg)
    }

    /// Measures the way to the server by how long TCP's handshake takes.
    ///
    /// # Errors
    /// When it can't be reached.
    pub(super) fn link(&self) -> anyhow::Result<RealLink> {
        let rest = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        let authority = rest.split('/').next().unwrap_or_default();
        let default = if self.url.starts_with("https") { 443 } else { 80 };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().context("a port is a number")?),
            _ => (authority, default),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let mut addresses = (host, port)
            .to_socket_addrs()
            .with_context(|| format!("look up {host}"))?;
        let address = addresses.next().with_context(|| format!("{host} has no address"))?;
        let connect = |_| {
            let begun = Instant::now();
            TcpStream::connect_timeout(&address, PATIENCE).with_context(|| format!("connect to {authority}"))?;
            Ok(begun.elapsed().as_secs_f64())
        };
        let times = (0..PROBES).map(connect).collect::<anyhow::Result<Vec<f64>>>()?;
        Ok(RealLink {
            server: self.url.clone(),
            round_trip_s: Summary::of(times).map_or(f64::MAX, |summary| summary.median),
        })
    }
}

impl Far {
    /// As [`Far::clear`], for the end, when nobody is left to hear of an error.
    pub(super) fn leave(&self, data: &Data) {
        if let Err(error) = self.clear(data) {
            eprintln!(
                "{} may still be there and is to be deleted by hand: {error:#}",
                self.branch
            );
        }
    }
}

/// A listing in the words of `for-each-ref`.
fn spaced(listing: &str) -> String {
    let mut lines: Vec<String> = listing.lines().map(|line| line.replacen('\t', " ", 1)).collect();
    lines.sort_by(|one, other| one.split(' ').nth(1).cmp(&other.split(' ').nth(1)));
    lines.join("\n")
}

impl Proof {
    /// Whether it holds: see [`super::job::Job::check`].
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn check(
        &self,
        data: &Data,
        client: Client,
        listings: &[Vec<u8>],
        thorough: bool,
    ) -> Result<(), String> {
        match self {
            Proof::Listed(expected) => all_listed(client, expected, listings),
            Proof::Copied(copy, expected) => {
                let found = text(
                    data,
                    copy,
                    &[
                        "for-each-ref",
                        "--format=%(objectname) %(refname)",
                        "refs/heads",
                        "refs/tags",
                    ],
                )?;
                if found.is_empty() || found != *expected {
                    return Err("refs differ between client and server".to_owned());
                }
                if thorough {
                    text(data, copy, &FSCK)?;
                }
                Ok(())
            }
            Proof::Pushed { url, branch, source } => {
                let tip = text(data, source, &["rev-parse", "main"])?;
                if text(data, source, &["ls-remote", url, branch])? != format!("{tip}\t{branch}") {
                    return Err("the pushed branch is not on the server as it is here".to_owned());
                }
                if thorough {
                    // The server can't be looked into: what it has is fetched back.
                    let back = data.work.join("back.git");
                    remove(&back).map_err(|error| format!("{error:#}"))?;
                    data.git.init_bare(&back, ObjectFormat::Sha1);
                    text(
                        data,
                        &back,
                        &["fetch", "-q", "--no-tags", url, &format!("{branch}:{branch}")],
                    )?;
                    text(data, &back, &FSCK)?;
                }
                Ok(())
            }
        }
    }
}
