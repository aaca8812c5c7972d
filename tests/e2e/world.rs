//! A server, a certificate authority, a place for repositories, and `rgit` run without anything of the user's.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use rgit_testkit::{
    certificate::Authority,
    repository::Git,
    server::{Builder, GitServer, Protocols},
};

/// One test's world. Everything in it ends with it.
pub(crate) struct World {
    pub(crate) server: GitServer,
    pub(crate) git: Git,
    pub(crate) ca: PathBuf,
    pub(crate) directory: tempfile::TempDir,
}

/// What a run of `rgit` came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// It must have exited with `code`.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "\n--- stdout\n{}\n--- stderr\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Standard error must contain `text`.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "no {text:?} in\n{}", self.stderr);
        self
    }
}

impl World {
    /// A TLS server that speaks HTTP/1.1 and HTTP/2.
    pub(crate) fn new() -> Self {
        Self::with(|builder| builder)
    }

    /// The same, further configured.
    pub(crate) fn with(configure: impl FnOnce(Builder) -> Builder) -> Self {
        let authority = Authority::new();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let ca = authority.write_ca(directory.path());
        let builder = GitServer::builder().tls(&authority).protocols(Protocols::Both);
        let server = configure(builder).start().expect("the server starts");
        let git = Git::new().with("GIT_SSL_CAINFO", &ca);
        World {
            server,
            git,
            ca,
            directory,
        }
    }

    /// A path in this world that doesn't exist yet.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `rgit`, in `directory`, with this world's home, certificate authority and identity.
    pub(crate) fn command(&self, directory: &Path) -> Command {
        let mut command = self.git.program(env!("CARGO_BIN_EXE_rgit"), directory);
        // Where a daemon would be: not the user's.
        command.env("XDG_RUNTIME_DIR", self.directory.path());
        command
    }

    /// Run `rgit --transport=h1` with these arguments.
    pub(crate) fn rgit<A: AsRef<std::ffi::OsStr>>(
        &self,
        directory: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Ran {
        let output = self
            .command(directory)
            .arg("--transport=h1")
            .args(arguments)
            .output()
            .expect("rgit starts");
        ran(&output)
    }

    /// Run `git` likewise, whatever it exits with.
    pub(crate) fn git<A: AsRef<std::ffi::OsStr>>(
        &self,
        directory: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Ran {
        ran(&self
            .git
            .command(directory)
            .args(arguments)
            .output()
            .expect("git starts"))
    }
}

pub(crate) fn ran(output: &Output) -> Ran {
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
