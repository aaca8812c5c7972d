//! Two repositories, and what git and rgit say of a push between them.

use std::{path::PathBuf, process::Command};

use bstr::{BString, ByteSlice};
use gix::ObjectId;

use super::super::{
    Error, Lease, Options, PushOutcome, PushPlan, local::LocalRefs, matching, outcome, plan::Advertised,
    request::Request, summary,
};
use crate::remote::Remote;

/// A local repository `w` with remote `origin`, a bare `r.git` next to it, under a home of their own.
pub(super) struct Fixture {
    pub(super) dir: tempfile::TempDir,
}

impl Fixture {
    /// Branches and tags in every relation the rules know.
    pub(super) fn new() -> Fixture {
        let fixture = Fixture {
            dir: tempfile::tempdir().unwrap(),
        };
        fixture.sh(
            ".",
            r#"
            git init -q --bare -b main r.git
            git -C r.git config receive.denyCurrentBranch ignore
            git init -q -b main w
            git init -q -b main other
            cd w
            git remote add origin ../r.git
            git commit -q --allow-empty -m one
            git branch same && git branch tip && git branch new && git branch forked
            git tag -a moved -m moved && git tag light && git tag -a kept -m kept
            git update-ref refs/notes/n HEAD
            blob=$(echo one | git hash-object -w --stdin)
            git update-ref refs/data/blob $blob
            git push -q origin main same tip forked moved light kept refs/data/blob refs/notes/n main:gone main:dup main:refs/tags/dup \
                main:refs/remotes/weak main:refs/x/weak
            git commit -q --allow-empty -m two && git branch -f forked && git push -q origin forked main:behind
            git reset -q --hard HEAD~1 && git commit -q --allow-empty -m 'two again' && git branch -f forked && git branch behind HEAD~1
            git commit -q --allow-empty -m three
            git tag -f -a moved -m 'moved on' && git tag -a fresh -m fresh && git tag private && git tag -a side -m side
            git checkout -q --orphan island && git commit -q --allow-empty -m island && git tag -a far -m far && git checkout -q main
            git update-ref refs/data/blob $(echo two | git hash-object -w --stdin)
            git update-ref refs/data/tree 'HEAD^{tree}'
            git tag amb && git branch amb HEAD~1
            git symbolic-ref refs/heads/sym refs/heads/same
            git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main
            cd ../other
            git pull -q ../r.git tip && git commit -q --allow-empty -m theirs && git push -q ../r.git HEAD:refs/heads/tip
            "#,
        );
        fixture
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn command(&self, program: &str, place: &str) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                command.env_remove(name);
            }
        }
        command
            .current_dir(self.path(place))
            .env("HOME", self.dir.path())
            .env("XDG_CONFIG_HOME", self.dir.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C")
            .env("GIT_AUTHOR_DATE", "2020-01-01T00:00:00Z")
            .env("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z");
        for who in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{who}_NAME"), "A")
                .env(format!("GIT_{who}_EMAIL"), "a@b");
        }
        command
    }

    pub(super) fn sh(&self, place: &str, script: &str) -> String {
        let output = self.command("sh", place).args(["-ec", script]).output().unwrap();
        assert!(
            output.status.success(),
            "{script}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// What git says: the lines about refs, and its errors.
    pub(super) fn theirs(&self, arguments: &[&str], porcelain: bool) -> Said {
        let mut command = self.command("git", "w");
        command.args(["push", "--dry-run", "-v"]);
        if porcelain {
            command.arg("--porcelain");
        }
        let output = command.args(arguments).output().unwrap();
        let (out, err) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        let refs = if porcelain { &out } else { &err };
        let is_line = |line: &&str| match line.as_bytes() {
            [_, b'\t', ..] => porcelain,
            [b' ', flag, b' ', next, ..] => !porcelain && *next != b' ' && b" +-*=!".contains(flag),
            _ => false,
        };
        let lines: Vec<_> = refs.lines().filter(is_line).map(ToOwned::to_owned).collect();
        let mut complaints = String::new();
        let mut within = false;
        for line in err.lines() {
            let begins = line.starts_with("error: ") || line.starts_with("fatal: ");
            let chatter = [
                "error: failed to push some refs",
                "error: atomic push failed",
                "To ../",
                "hint: ",
            ];
            within = (begins || within) && !chatter.iter().any(|start| line.starts_with(start));
            if within && !line.starts_with("fatal: the remote end hung up") {
                complaints.push_str(line);
                complaints.push('\n');
            }
        }
        // What git advises about refused refs is worded for its own commands, and not compared.
        let hints = err
            .lines()
            .filter(|line| lines.is_empty() && line.starts_with("hint: "));
        Said {
            hints: hints.map(ToOwned::to_owned).collect(),
            lines,
            complaints,
        }
    }

    /// What we say to the same.
    pub(super) fn ours(&self, arguments: &[&str], porcelain: bool) -> Said {
        let repo = self.open();
        let abbreviation = summary::Abbreviation::new(&repo);
        match self.outcome(&repo, arguments) {
            Ok(outcome) => {
                let width = summary::width(&outcome, &abbreviation);
                let lines = outcome
                    .in_order(true)
                    .flat_map(|result| summary::lines(result, &abbreviation));
                let text = |line: summary::Line| if porcelain { line.porcelain() } else { line.human(width) };
                Said {
                    lines: lines.map(|line| text(line).to_string()).collect(),
                    complaints: String::new(),
                    hints: Vec::new(),
                }
            }
            Err(Error::Unmatched(complaints)) => Said {
                lines: Vec::new(),
                complaints: complaints
                    .iter()
                    .map(|complaint| format!("error: {}\n", complaint.text))
                    .collect(),
                hints: complaints
                    .iter()
                    .flat_map(|complaint| complaint.hint.iter().flat_map(|hint| hint.lines()))
                    .map(|line| format!("hint: {line}"))
                    .collect(),
            },
            Err(err) => Said {
                lines: Vec::new(),
                complaints: format!("fatal: {err}\n"),
                hints: Vec::new(),
            },
        }
    }

    pub(super) fn open(&self) -> gix::Repository {
        gix::open_opts(self.path("w"), gix::open::Options::isolated()).unwrap()
    }

    pub(super) fn advertised(&self) -> Vec<(BString, ObjectId)> {
        let refs = self.sh("r.git", "git for-each-ref --format='%(objectname) %(refname)'");
        let refs = refs.lines().map(|line| line.split_once(' ').unwrap());
        refs.map(|(id, name)| (name.into(), ObjectId::from_hex(id.as_bytes()).unwrap()))
            .collect()
    }

    pub(super) fn plan(&self, repo: &gix::Repository, arguments: &[&str]) -> Result<PushPlan, Error> {
        let (options, remote) = parse(repo, arguments);
        let local = LocalRefs::new(repo);
        let request = Request::new(&local, &remote, &options)?;
        matching::check_sources(&local, &request.specs)?;
        let refs = self.advertised();
        let advertised = Advertised {
            refs: refs.iter().map(|(name, id)| (name.as_bstr(), *id)),
            deletes: true,
        };
        PushPlan::new(&local, &remote, &request, &options, advertised)
    }

    pub(super) fn outcome(&self, repo: &gix::Repository, arguments: &[&str]) -> Result<PushOutcome, Error> {
        Ok(PushOutcome {
            refs: outcome::results(self.plan(repo, arguments)?, None),
            unpack: Ok(()),
            dry_run: true,
            posted: false,
            pack: None,
            counting: std::time::Duration::ZERO,
            tracked: Vec::new(),
            untracked: Vec::new(),
            upstreams: Vec::new(),
            unrecorded: None,
            head: None,
        })
    }

    /// Both come to the same, in both forms.
    #[track_caller]
    pub(super) fn agree(&self, arguments: &[&str]) -> Said {
        for porcelain in [false, true] {
            let (ours, theirs) = (self.ours(arguments, porcelain), self.theirs(arguments, porcelain));
            assert_eq!(ours, theirs, "git push {arguments:?}");
        }
        self.ours(arguments, true)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) lines: Vec<String>,
    pub(super) complaints: String,
    pub(super) hints: Vec<String>,
}

pub(super) fn parse(repo: &gix::Repository, arguments: &[&str]) -> (Options, Remote) {
    let mut options = Options::configured(repo.config_snapshot().plumbing());
    let mut positional = Vec::new();
    for argument in arguments {
        match *argument {
            "--force" => options.force = true,
            "--delete" => options.delete = true,
            "--tags" => options.tags = true,
            "--all" => options.all = true,
            "--mirror" => options.mirror = true,
            "--prune" => options.prune = true,
            "--atomic" => options.atomic = true,
            "--follow-tags" => options.follow_tags = true,
            "--force-with-lease" => options.lease_rest = true,
            "--force-if-includes" => options.force_if_includes = true,
            other => match other.strip_prefix("--force-with-lease=") {
                Some(lease) => options.leases.push(Lease::parse(lease.into())),
                None => positional.push(BString::from(other)),
            },
        }
    }
    let remote = positional.first().cloned();
    options.refspecs = positional.into_iter().skip(1).collect();
    let remote = Remote::for_push(repo, remote.as_ref().map(|name| name.as_bstr())).unwrap();
    (options, remote)
}
