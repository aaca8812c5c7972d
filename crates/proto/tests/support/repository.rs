//! Real repositories, and the real git at the other end.
use std::{
    ffi::OsStr,
    fs,
    io::{Seek, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use gix_hash::ObjectId;

/// A directory of repositories that goes with the test; nothing outside of it is read or written.
pub(crate) struct Lab {
    root: tempfile::TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        // No maintenance in the background that could outlive the test.
        let config = "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[receive]\n\tautogc = false\n";
        fs::write(root.path().join("gitconfig"), config).unwrap();
        Lab { root }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// `git <args>` in the directory `name`, with nothing of the machine's configuration.
    pub(crate) fn command(&self, name: &str, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.current_dir(self.path(name)).args(args).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for (key, value) in [
            ("HOME", self.root.path().as_os_str()),
            ("GIT_CONFIG_GLOBAL", self.path("gitconfig").as_os_str()),
            ("GIT_CONFIG_NOSYSTEM", OsStr::new("1")),
            ("LC_ALL", OsStr::new("C")),
        ] {
            command.env(key, value);
        }
        for who in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{who}_NAME"), "A U Thor")
                .env(format!("GIT_{who}_EMAIL"), "author@example.com");
            command.env(format!("GIT_{who}_DATE"), "1700000000 +0000");
        }
        command
    }

    /// The command's output, given `input`. Panics unless it succeeds.
    pub(crate) fn pipe(&self, name: &str, args: &[&str], input: &[u8]) -> Vec<u8> {
        run(&mut self.command(name, args), input)
    }

    pub(crate) fn git(&self, name: &str, args: &[&str]) -> String {
        String::from_utf8(self.pipe(name, args, b""))
            .unwrap()
            .trim_end()
            .to_owned()
    }

    pub(crate) fn id(&self, name: &str, revision: &str) -> ObjectId {
        ObjectId::from_hex(self.git(name, &["rev-parse", "--verify", revision]).as_bytes()).unwrap()
    }

    pub(crate) fn bare(&self, name: &str, format: &str) {
        self.git(
            "",
            &[
                "init",
                "--quiet",
                "--bare",
                "-b",
                "main",
                "--object-format",
                format,
                name,
            ],
        );
    }

    /// A repository with the branches `main`, of two commits, and `side`, of one more, and an annotated tag.
    pub(crate) fn with_history(&self, name: &str, format: &str) {
        self.git("", &["init", "--quiet", "-b", "main", "--object-format", format, name]);
        for (number, branch) in ["main", "main", "side"].into_iter().enumerate() {
            fs::write(self.path(name).join("file"), format!("{number}\n")).unwrap();
            if branch != "main" {
                self.git(name, &["checkout", "--quiet", "-b", branch]);
            }
            self.git(name, &["add", "file"]);
            self.git(name, &["commit", "--quiet", "-m", branch]);
        }
        self.git(name, &["tag", "-a", "-m", "annotated", "v1", "main"]);
    }

    pub(crate) fn hook(&self, name: &str, hook: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let hooks = self.path(name).join("hooks");
        fs::create_dir_all(&hooks).unwrap();
        let path = hooks.join(hook);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What `git receive-pack` says to open a push.
    pub(crate) fn advertise(&self, name: &str) -> Vec<u8> {
        self.pipe(name, &["receive-pack", "--http-backend-info-refs", "."], b"")
    }

    /// The same through `git http-backend`, that is with the banner.
    pub(crate) fn advertise_by_http(&self, name: &str, protocol: &str) -> Vec<u8> {
        let mut command = self.command("", &["http-backend"]);
        command
            .env("GIT_PROJECT_ROOT", self.root.path())
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("REMOTE_USER", "me");
        command
            .env("REQUEST_METHOD", "GET")
            .env("PATH_INFO", format!("/{name}/info/refs"));
        command
            .env("QUERY_STRING", "service=git-receive-pack")
            .env("GIT_PROTOCOL", protocol);
        let answer = run(&mut command, b"");
        let head = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        answer[head + 4..].to_vec()
    }

    /// A pack of all that `revisions` (git-rev-list(1), one a line) reach.
    pub(crate) fn pack(&self, name: &str, revisions: &str) -> Vec<u8> {
        self.pipe(
            name,
            &["pack-objects", "--revs", "--stdout", "--quiet"],
            revisions.as_bytes(),
        )
    }

    /// What `git receive-pack` answers to the body of a POST.
    pub(crate) fn receive(&self, name: &str, body: &[u8]) -> Vec<u8> {
        self.pipe(name, &["receive-pack", "--stateless-rpc", "."], body)
    }

    pub(crate) fn refs(&self, name: &str) -> String {
        self.git(name, &["for-each-ref", "--format=%(objectname) %(refname)"])
    }

    pub(crate) fn fsck(&self, name: &str) {
        self.git(name, &["fsck", "--strict"]);
    }
}

/// Input goes by a file, so that neither side can block on the other.
fn run(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(input).unwrap();
    file.rewind().unwrap();
    let output = command
        .stdin(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    output.stdout
}

/// A path as text, for configuration and arguments.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
