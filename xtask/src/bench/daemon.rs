//! Homes of clients, and the daemons that live in them: none is found by a client it isn't meant for, none outlives the bench.
//!
//! A daemon is the child of nobody: it has left the session of the command that started it. So it is asked to go, looked
//! after until it is gone, and killed if it doesn't go.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rgit_testkit::{
    meter::{self, Meter},
    repository::Git,
};
use rustix::process::{Pid, Signal, kill_process};

use super::matrix::Client;

/// How long a daemon may take to go.
const PATIENCE: Duration = Duration::from_secs(10);

/// Git's environment for each client. Dropped, it leaves no daemon behind.
#[derive(Debug)]
pub(super) struct Homes {
    rgit: PathBuf,
    /// That of all clients without a daemon: `auto` must find none to ride.
    direct: Git,
    persistent: Vec<(Client, Git)>,
}

impl Homes {
    /// Homes in `files`, with the rest of their environment as in `git`.
    ///
    /// # Errors
    /// When folders can't be made.
    pub(super) fn new(rgit: &Path, git: &Git, files: &Path) -> anyhow::Result<Homes> {
        let home = |name: &str| {
            // A daemon's socket lies here: nobody else may have a place in the folder.
            let place = files.join(name);
            fs::create_dir(&place).with_context(|| format!("make {}", place.display()))?;
            fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).context("close a folder to others")?;
            anyhow::Ok(git.with("XDG_RUNTIME_DIR", place))
        };
        let persistent = Client::ALL.iter().filter(|client| client.has_daemon());
        Ok(Homes {
            rgit: rgit.to_owned(),
            direct: home("direct")?,
            persistent: persistent
                .map(|client| Ok((*client, home(client.name())?)))
                .collect::<anyhow::Result<_>>()?,
        })
    }

    /// The home of a client.
    pub(super) fn of(&self, client: Client) -> &Git {
        let own = self.persistent.iter().find(|(owner, _)| *owner == client);
        own.map_or(&self.direct, |(_, home)| home)
    }

    /// The process that is this client's daemon, where one answers.
    pub(super) fn daemon(&self, client: Client) -> Option<u32> {
        if !client.has_daemon() {
            return None;
        }
        let home = self.of(client);
        let mut command = home.program(&self.rgit, home.home());
        let asked = Meter::default()
            .within(PATIENCE)
            .measure(command.args(["daemon", "status", "--json"]))
            .ok()?;
        let status: serde_json::Value = serde_json::from_slice(&asked.stdout).ok()?;
        status.get("pid")?.as_u64()?.try_into().ok()
    }

    /// Ends this client's daemon, so that its next command begins without one. None running is as good.
    ///
    /// # Errors
    /// When it is still there afterwards.
    pub(super) fn cool(&self, client: Client) -> anyhow::Result<()> {
        let Some(daemon) = self.daemon(client) else {
            return Ok(());
        };
        let home = self.of(client);
        let mut command = home.program(&self.rgit, home.home());
        // What it has to say is seen by whether the daemon is gone.
        let _ = Meter::default()
            .within(PATIENCE)
            .measure(command.args(["daemon", "stop"]));
        if ends(daemon) {
            return Ok(());
        }
        let id = i32::try_from(daemon).ok().and_then(Pid::from_raw);
        let id = id.with_context(|| format!("{daemon} is no process"))?;
        // Gone in between is as good.
        let _ = kill_process(id, Signal::KILL);
        if !ends(daemon) {
            bail!("the daemon of {client}, process {daemon}, does not end");
        }
        eprintln!("the daemon of {client} did not go when it was told to, and was killed");
        Ok(())
    }

    /// Ends all daemons.
    ///
    /// # Errors
    /// When one is still there afterwards; the others are gone all the same.
    pub(super) fn cool_all(&self) -> anyhow::Result<()> {
        let ended: Vec<_> = self.persistent.iter().map(|(client, _)| self.cool(*client)).collect();
        ended.into_iter().collect()
    }
}

impl Drop for Homes {
    fn drop(&mut self) {
        if let Err(error) = self.cool_all() {
            eprintln!("{error:#}");
        }
    }
}

/// Whether a process is gone before patience is.
fn ends(id: u32) -> bool {
    let begun = Instant::now();
    while meter::is_running(id) {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        // Only a parent can wait for a process, and this one has none here; a pidfd could be waited for, on Linux alone.
        thread::sleep(Duration::from_millis(2));
    }
    true
}
