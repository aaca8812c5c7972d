//! A transport that hands each request to `git receive-pack` as a child, as an HTTP server would, and a place with repositories.

use std::{
    io::{Read, Write},
    path::PathBuf,
    process::{Command, Stdio},
    sync::Mutex,
};

use rgit_transport::{Answer, Body, Error, Transport};

/// Repositories under a home of their own: `w` with two commits, a tag `v1` and the remote `origin`; the bare `r.git` is empty.
pub(crate) struct Room {
    dir: tempfile::TempDir,
}

impl Room {
    pub(crate) fn new(object_format: &str) -> Room {
        let room = Room {
            dir: tempfile::tempdir().unwrap(),
        };
        room.sh(
            ".",
            &format!(
                "git init -q --bare -b main --object-format={object_format} r.git
                git init -q -b main --object-format={object_format} w; cd w
                git config user.name A; git config user.email a@b
                git remote add origin http://host/r.git
                echo one >file; git add file; git commit -qm one
                echo two >file; git commit -qam two; git tag -a v1 -m v1"
            ),
        );
        room
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn open(&self) -> gix::Repository {
        gix::open_opts(self.path("w"), gix::open::Options::isolated()).unwrap()
    }

    pub(crate) fn command(&self, program: &str, place: &str) -> Command {
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
            .env("LC_ALL", "C");
        for who in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{who}_NAME"), "A")
                .env(format!("GIT_{who}_EMAIL"), "a@b");
        }
        command
    }

    #[track_caller]
    pub(crate) fn sh(&self, place: &str, script: &str) -> String {
        let output = self.command("sh", place).args(["-ec", script]).output().unwrap();
        assert!(
            output.status.success(),
            "{script}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn refs(&self, place: &str) -> String {
        self.sh(place, "git for-each-ref --format='%(objectname) %(refname)'")
    }

    #[track_caller]
    pub(crate) fn fsck(&self, place: &str) {
        self.sh(
            place,
            "git fsck --strict --no-dangling --connectivity-only; git fsck --strict --no-dangling",
        );
    }

    pub(crate) fn hook(&self, git_dir: &str, name: &str, script: &str) {
        // A child writes it: a file that this process had open for writing might still be so in a child forked meanwhile, and
        // could not be run.
        let path = self.path(git_dir).join("hooks").join(name);
        let mut command = self.command("sh", ".");
        command.args([
            "-ec",
            "mkdir -p \"${1%/*}\"; printf '#!/bin/sh\\n%s\\n' \"$2\" >\"$1\"; chmod +x \"$1\"",
            "sh",
        ]);
        assert!(command.arg(path).arg(script).status().unwrap().success());
    }
}

/// Serves one repository of a [`Room`].
pub(crate) struct ReceivePack {
    home: PathBuf,
    repository: PathBuf,
    cut: Option<usize>,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    requests: Vec<String>,
    last_body: Vec<u8>,
    last_answer_length: usize,
}

impl std::fmt::Debug for ReceivePack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceivePack")
            .field("repository", &self.repository)
            .finish_non_exhaustive()
    }
}

impl ReceivePack {
    pub(crate) fn new(room: &Room, repository: &str) -> Self {
        ReceivePack {
            home: room.dir.path().to_owned(),
            repository: room.path(repository),
            cut: None,
            log: Mutex::default(),
        }
    }

    /// Answer posts with the first `bytes` of the answer only.
    pub(crate) fn cut_answer(mut self, bytes: usize) -> Self {
        self.cut = Some(bytes);
        self
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.log.lock().unwrap().requests.clone()
    }

    pub(crate) fn last_body(&self) -> Vec<u8> {
        self.log.lock().unwrap().last_body.clone()
    }

    pub(crate) fn last_answer_length(&self) -> usize {
        self.log.lock().unwrap().last_answer_length
    }

    fn run(&self, advertise: bool, input: &[u8]) -> Vec<u8> {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                command.env_remove(name);
            }
        }
        command
            .env("HOME", &self.home)
            .env("XDG_CONFIG_HOME", &self.home)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .args(["receive-pack", "--stateless-rpc"])
            .args(advertise.then_some("--advertise-refs"))
            .arg(&self.repository)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            // It may stop reading once it knows enough.
            scope.spawn(move || stdin.write_all(input).ok());
            child.wait_with_output().unwrap()
        });
        output.stdout
    }
}

impl Transport for ReceivePack {
    fn exchange(&self, request: http::Request<Body<'_>>) -> Result<http::Response<Answer>, Error> {
        let (head, body) = request.into_parts();
        let is_post = head.method == http::Method::POST;
        let name = head.uri.path().strip_prefix("/r.git/").unwrap().to_owned();
        let mut input = Vec::new();
        let failed = |source| Error::Body { sent: 0, source };
        match body {
            Body::Full(bytes) => input.extend_from_slice(&bytes),
            Body::Replay { mut factory, .. } => {
                let mut reader = factory().map_err(failed)?;
                reader.read_to_end(&mut input).map_err(failed)?;
            }
            Body::Stream { mut reader, .. } => {
                reader.read_to_end(&mut input).map_err(failed)?;
            }
            _ => {}
        }
        let mut answer = if is_post {
            self.run(false, &input)
        } else {
            assert_eq!(head.uri.query(), Some("service=git-receive-pack"));
            [b"001f# service=git-receive-pack\n0000".to_vec(), self.run(true, b"")].concat()
        };
        let mut log = self.log.lock().unwrap();
        log.requests.push(format!("{} {name}", head.method));
        if is_post {
            log.last_body = input;
            log.last_answer_length = answer.len();
            answer.truncate(self.cut.unwrap_or(usize::MAX));
        }
        let kind = if is_post { "result" } else { "advertisement" };
        let response =
            http::Response::builder().header("content-type", format!("application/x-git-receive-pack-{kind}"));
        Ok(response.body(Answer::new(std::io::Cursor::new(answer))).unwrap())
    }
}
