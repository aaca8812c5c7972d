//! Clients as programs: how each is started, and whether it is there at all.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;
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
    /// Those that were named, or else are on PATH, beside this rgit.
    ///
    /// # Errors
    /// When what was named isn't there.
    pub(super) fn beside(rgit: PathBuf, gix: Option<&Path>, grit: Option<&Path>) -> anyhow::Result<Programs> {
        let find = |named: Option<&Path>, name: &str| match named {
            // Clients run in other folders.
            Some(path) => path
                .canonicalize()
                .map(Some)
                .with_context(|| format!("find {}, which --{name} names", path.display())),
            None => Ok(on_path(name)),
        };
        Ok(Programs {
            rgit,
            gix: find(gix, "gix")?,
            grit: find(grit, "grit")?,
        })
    }

    /// Why a client can't be measured at all, or nothing.
    pub(super) fn missing(&self, client: Client) -> Option<String> {
        match client {
            Client::Gix if self.gix.is_none() => Some("no gix on PATH, nor named by --gix".to_owned()),
            Client::Grit if self.grit.is_none() => Some("no grit on PATH, nor named by --grit".to_owned()),
            _ => None,
        }
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
        if let Some(upstream) = client.upstream() {
            command.args(["-c", &format!("rgit.persistent.upstream={upstream}")]);
        }
        // A collection of garbage in the background would be measured with the next run.
        if !matches!(client, Client::Gix | Client::Grit) {
            command.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
        }
        command
    }

    /// How each calls itself: rgit's, git's, and those of the others.
    pub(super) fn versions(&self, git: &Git) -> (String, String, Vec<String>) {
        // By its name: where a program lies on this machine means nothing elsewhere.
        let version = |name: &str, program: &Path| {
            let output = git.program(program, git.home()).arg("--version").output();
            output.map_or_else(
                |error| format!("{name}: {error}"),
                |output| {
                    let text = String::from_utf8_lossy(&output.stdout);
                    text.lines().next().unwrap_or_default().trim().to_owned()
                },
            )
        };
        let others = [("gix", &self.gix), ("grit", &self.grit)];
        let there = |(name, program): (&str, &Option<PathBuf>)| Some(version(name, program.as_deref()?));
        (
            version("rgit", &self.rgit),
            version("git", Path::new("git")),
            others.into_iter().filter_map(there).collect(),
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
        let programs = Programs {
            rgit: PathBuf::from("/nonexistent/rgit"),
            gix: None,
            grit: Some(PathBuf::from("git")),
        };
        let missing = programs.missing(Client::Gix).expect("no gix");
        assert!(missing.starts_with("no gix on PATH"), "{missing}");
        assert_eq!(programs.missing(Client::Grit), None);
        assert_eq!(programs.missing(Client::GitH2), None);
        assert!(on_path("git").is_some() && on_path("no-such-program-anywhere").is_none());
        let named = Path::new("/nonexistent/gix");
        let error = Programs::beside(PathBuf::from("rgit"), Some(named), None).expect_err("no such file");
        assert!(error.to_string().contains("--gix"), "{error}");
    }

    #[test]
    fn a_transport_is_asked_for_by_its_flag() {
        let git = Git::new();
        let programs = Programs::beside(PathBuf::from("/bin/rgit"), None, None).expect("programs");
        let shown = |client| format!("{:?}", programs.command(&git, client, git.home()));
        assert!(shown(Client::PersistentWarm).contains("\"--transport=persistent\""));
        assert!(shown(Client::PersistentH1).contains("\"rgit.persistent.upstream=h1\""));
        assert!(shown(Client::GitH2).contains("\"git\" \"-c\" \"http.version=HTTP/2\""));
    }
}
