//! Repositories on this machine: `git upload-pack` is started in them and spoken to through pipes, as git does it.
//!
//! Whether the user may read there, and whether the repository's owner is trusted (`safe.directory`), is that process's to decide.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use bstr::{BStr, BString, ByteSlice};
use gix::protocol::transport::{
    Protocol,
    client::{self, git},
};

/// A repository by its path, or by a URL that begins with `file://`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    path: PathBuf,
    url: BString,
}

/// What git clears for a process that works in another repository (`git rev-parse --local-env-vars`).
const ENVIRONMENT: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

impl Local {
    /// What `url` names on this machine. `None` for another scheme, and for `host:path`, which is SSH's (git-clone, "GIT URLS").
    pub fn parse(url: &BStr) -> Option<Local> {
        let path = match url.find("://") {
            Some(4) if url.starts_with(b"file") => {
                // git: a host's name is no more than the beginning of a path.
                let rest = &url[7..];
                let path = decoded(rest);
                if path.first() == Some(&b'/') {
                    path
                } else {
                    [b"//", path.as_slice()].concat().into()
                }
            }
            Some(_) => return None,
            None => {
                let colon = url.find_byte(b':');
                let slash = url.find_byte(b'/');
                if colon.is_some_and(|colon| slash.is_none_or(|slash| colon < slash)) && !has_drive(url) {
                    return None;
                }
                url.to_owned()
            }
        };
        if path.is_empty() {
            return None;
        }
        Some(Local {
            path: gix::path::from_bstring(path).ok()?,
            url: url.to_owned(),
        })
    }

    /// As it was given.
    pub fn url(&self) -> &BStr {
        self.url.as_bstr()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn start(&self, version: Protocol) -> Result<Process, client::Error> {
        // What begins with a dash would be taken for an option.
        let path = if self.path.as_os_str().as_encoded_bytes().first() == Some(&b'-') {
            Path::new(".").join(&self.path)
        } else {
            self.path.clone()
        };
        let mut command = Command::new("git");
        command
            .arg("upload-pack")
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        for name in ENVIRONMENT {
            command.env_remove(name);
        }
        match super::Bridge::protocol_header(version) {
            Some(value) => command.env("GIT_PROTOCOL", value),
            None => command.env_remove("GIT_PROTOCOL"),
        };
        let failed = |source| client::Error::InvokeProgram {
            source,
            command: "git upload-pack".into(),
        };
        let mut child = command.spawn().map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        let connection = git::blocking_io::Connection::new(
            output,
            input,
            version,
            self.url.clone(),
            None::<(String, Option<u16>)>,
            git::ConnectMode::Process,
            false,
        );
        Ok(Process {
            connection: Some(connection),
            child,
        })
    }
}

/// A conversation by pipes.
pub(super) type Pipes = git::blocking_io::Connection<ChildStdout, ChildStdin>;

/// A running `git upload-pack`. It ends with this.
pub(super) struct Process {
    pub(super) connection: Option<Pipes>,
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let (_, mut input) = connection.into_inner();
            // A flush ends the conversation; without it a server of version 0 complains.
            let _ = input.write_all(b"0000");
        }
        // It may be in the middle of a pack that nobody wants any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has_drive(url: &BStr) -> bool {
    cfg!(windows) && url.len() > 1 && url[0].is_ascii_alphabetic() && url[1] == b':'
}

/// `%20` is a space.
fn decoded(text: &[u8]) -> BString {
    let mut out = BString::default();
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let value = digits
            .filter(|_| first == b'%')
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match value {
            Some(value) if value != 0 => {
                out.push(value);
                rest = &after[2..];
            }
            _ => {
                out.push(first);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_file_urls_are_local_and_nothing_else() {
        let path = |url: &str| Local::parse(url.into()).map(|local| local.path.to_str().unwrap().to_owned());
        assert_eq!(path("/a/b").as_deref(), Some("/a/b"));
        assert_eq!(path("../b").as_deref(), Some("../b"));
        assert_eq!(path("./a:b").as_deref(), Some("./a:b"));
        assert_eq!(path("file:///a%20b/%zz").as_deref(), Some("/a b/%zz"));
        assert_eq!(path("file://host/a").as_deref(), Some("//host/a"));
        for other in [
            "https://h/r",
            "ssh://h/r",
            "host:path",
            "user@host:path/x",
            "ext::x",
            "",
        ] {
            assert_eq!(path(other), None, "{other}");
        }
    }
}
