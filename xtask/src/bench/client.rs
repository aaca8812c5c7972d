//! Clients as programs: how each is started, and whether it is there at all.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use rgit_testkit::repository::Git;

use super::matrix::Client;

/// Where the programs are.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    pub(super) rgit: PathBuf,
    pub(super) gix: Option<PathBuf>,
    pub(super) grit: Option<PathBuf>,
}

impl Programs {
    /// Those on PATH beside this rgit.
    pub(super) fn beside(rgit: PathBuf) -> Programs {
        Programs {
            rgit,
            gix: on_path("gix"),
            grit: on_path("grit"),
        }
    }

    /// Why a client can't be measured at all, or nothing.
    pub(super) fn missing(&self, git: &Git, client: Client) -> Option<String> {
        match client {
            Client::Gix if self.gix.is_none() => Some("no gix on PATH".to_owned()),
            Client::Grit if self.grit.is_none() => Some("no grit on PATH".to_owned()),
            Client::PersistentCold | Client::PersistentWarm => self.lacks_persistent(git),
            _ => None,
        }
    }

    /// rgit says whether a transport is in its build before it connects anywhere: port 0 answers nobody.
    fn lacks_persistent(&self, git: &Git) -> Option<String> {
        let mut command = git.program(&self.rgit, git.home());
        command.args(["--transport=persistent", "ls-remote", "https://127.0.0.1:0/none.git"]);
        let said = match command.output() {
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => return Some(format!("rgit does not start: {error}")),
        };
        said.contains("part of this build")
            .then(|| "not in this build".to_owned())
    }

    /// A command of this client, hermetic, in `directory`, without the scenario's own arguments.
    pub(super) fn command(&self, git: &Git, client: Client, directory: &Path) -> Command {
        let program = match client {
            Client::GitH1 | Client::GitH2 => Path::new("git"),
            Client::Gix => self.gix.as_deref().unwrap_or(Path::new("gix")),
            Client::Grit => self.grit.as_deref().unwrap_or(Path::new("grit")),
            _ => &self.rgit,
        };
        let mut command = git.program(program, directory);
        match client {
            Client::GitH1 => command.args(["-c", "http.version=HTTP/1.1"]),
            Client::GitH2 => command.args(["-c", "http.version=HTTP/2"]),
            _ => &mut command,
        };
        if let Some(transport) = client.transport() {
            command.arg(format!("--transport={transport}"));
        }
        // A collection of garbage in the background would be measured with the next run.
        if !matches!(client, Client::Gix | Client::Grit) {
            command.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
        }
        command
    }

    /// Ends the daemon of the persistent transport, so that the next command begins without one.
    pub(super) fn cool(&self, git: &Git) {
        // None running is as good.
        let _ = git.program(&self.rgit, git.home()).args(["daemon", "stop"]).output();
    }

    /// How each calls itself: rgit's, git's, and those of the others.
    pub(super) fn versions(&self, git: &Git) -> (String, String, Vec<String>) {
        let version = |program: &Path| {
            let output = git.program(program, git.home()).arg("--version").output();
            output.map_or_else(
                |error| format!("{}: {error}", program.display()),
                |output| {
                    let text = String::from_utf8_lossy(&output.stdout);
                    text.lines().next().unwrap_or_default().trim().to_owned()
                },
            )
        };
        let others = [&self.gix, &self.grit];
        (
            version(&self.rgit),
            version(Path::new("git")),
            others.into_iter().flatten().map(|program| version(program)).collect(),
        )
    }
}

/// The program of this name on PATH.
pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_there_says_so() {
        let git = Git::new();
        let programs = Programs {
            rgit: PathBuf::from("/nonexistent/rgit"),
            gix: None,
            grit: Some(PathBuf::from("git")),
        };
        assert_eq!(programs.missing(&git, Client::Gix).as_deref(), Some("no gix on PATH"));
        assert_eq!(programs.missing(&git, Client::Grit), None);
        assert_eq!(programs.missing(&git, Client::GitH2), None);
        assert!(
            programs
                .missing(&git, Client::PersistentCold)
                .is_some_and(|why| why.contains("does not start"))
        );
        assert!(on_path("git").is_some() && on_path("no-such-program-anywhere").is_none());
    }

    #[test]
    fn a_transport_is_asked_for_by_its_flag() {
        let git = Git::new();
        let programs = Programs::beside(PathBuf::from("/bin/rgit"));
        let shown = |client| format!("{:?}", programs.command(&git, client, git.home()));
        assert!(shown(Client::PersistentWarm).contains("\"--transport=persistent\""));
        assert!(shown(Client::GitH2).contains("\"git\" \"-c\" \"http.version=HTTP/2\""));
    }
}
