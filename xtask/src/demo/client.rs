//! A program that does the demo's operations: git, or rgit by one of its transports.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use rgit_testkit::repository::Git;

/// How often a running client is looked at; also how exact its time is.
const TICK: Duration = Duration::from_millis(1);

/// Who does it.
#[derive(Debug)]
pub(super) struct Client {
    /// As the table shows it: `git`, or the transport.
    pub(super) name: String,
    program: PathBuf,
    flags: Vec<String>,
}

/// How a run went.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) wall: Duration,
    pub(super) stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// `None` when its time was up and it was ended.
    status: Option<ExitStatus>,
}

impl Client {
    /// The git on PATH.
    pub(super) fn git() -> Self {
        Client {
            name: "git".to_owned(),
            program: PathBuf::from("git"),
            flags: Vec::new(),
        }
    }

    /// rgit by this transport.
    pub(super) fn rgit(program: &Path, transport: &str) -> Self {
        Client {
            name: format!("rgit-{transport}"),
            program: program.to_owned(),
            flags: vec![format!("--transport={transport}")],
        }
    }

    /// The command as a user would type it, without the arguments of the operation.
    pub(super) fn shown(&self) -> String {
        let program = self.program.file_stem().unwrap_or_default().to_string_lossy();
        [&[program.into_owned()], self.flags.as_slice()].concat().join(" ")
    }

    /// Runs one operation to its end, or ends it after `patience`.
    ///
    /// `scratch` gets its output: files take any amount of it while nobody reads.
    ///
    /// # Errors
    /// When the program can't be started.
    pub(super) fn run(
        &self,
        git: &Git,
        scratch: &Path,
        directory: &Path,
        arguments: &[&str],
        patience: Duration,
    ) -> anyhow::Result<Run> {
        let (stdout, stderr) = (scratch.join("stdout"), scratch.join("stderr"));
        let create = |path: &Path| File::create(path).with_context(|| format!("write {}", path.display()));
        let mut command = git.program(&self.program, directory);
        command
            .args(&self.flags)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(create(&stdout)?)
            .stderr(create(&stderr)?);
        let begun = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        let status = loop {
            if let Some(status) = child.try_wait().context("wait for the client")? {
                break Some(status);
            }
            if begun.elapsed() > patience {
                child.kill().context("end the client")?;
                child.wait().context("wait for the client")?;
                break None;
            }
            thread::sleep(TICK);
        };
        let wall = begun.elapsed();
        Ok(Run {
            wall,
            stdout: fs::read(stdout).context("read what the client wrote")?,
            stderr: fs::read(stderr).context("read what the client wrote")?,
            status,
        })
    }
}

impl Run {
    /// Whether the client itself says that it did well.
    pub(super) fn verdict(&self) -> Result<(), String> {
        let end = match self.status {
            Some(status) if status.success() => return Ok(()),
            Some(status) => status.to_string(),
            None => format!("no end in {:.0} s", self.wall.as_secs_f64()),
        };
        let said = String::from_utf8_lossy(&self.stderr);
        match said.trim_end() {
            "" => Err(format!("{end}; it wrote nothing to stderr")),
            said => Err(format!("{end}; it wrote:\n{said}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> Run {
        let git = Git::new();
        let client = Client {
            name: "shell".to_owned(),
            program: PathBuf::from("sh"),
            flags: vec!["-c".to_owned()],
        };
        client
            .run(&git, git.home(), git.home(), &[script], patience)
            .expect("sh")
    }

    #[test]
    fn output_is_kept_and_failure_shows_what_was_said() {
        let run = shell("echo out; echo err >&2", Duration::from_secs(60));
        assert_eq!((run.verdict(), &*run.stdout), (Ok(()), &b"out\n"[..]));
        let why = shell("echo err >&2; exit 128", Duration::from_secs(60))
            .verdict()
            .expect_err("128");
        assert!(why.contains("128") && why.ends_with("err"), "{why}");
    }

    #[test]
    fn a_client_that_hangs_is_ended() {
        let why = shell("exec sleep 600", Duration::from_millis(300))
            .verdict()
            .expect_err("it hangs");
        assert!(why.starts_with("no end in "), "{why}");
    }

    #[test]
    fn commands_are_shown_as_typed() {
        assert_eq!(Client::git().shown(), "git");
        assert_eq!(
            Client::rgit(Path::new("/target/release/rgit"), "h1").shown(),
            "rgit --transport=h1"
        );
    }
}
