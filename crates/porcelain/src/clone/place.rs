//! Where a clone goes, and the promise to leave that place as it was found when the clone fails.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use bstr::{BStr, ByteSlice};

use crate::Error;

/// The directory that `git clone URL` would create: the last path component, without `.git`, with it when bare (git-clone,
/// "`<directory>`"). `None` when the URL holds no name.
pub fn directory_for(url: &BStr, bare: bool) -> Option<PathBuf> {
    let text = url.to_str().ok()?;
    // A path's query is no part of its name; a bare host (with its user and port) stands in where there is no path.
    let (host, path) = match text.split_once("://") {
        Some((_, rest)) => rest.split_once('/').unwrap_or((rest, "")),
        // Something that `url.<base>.insteadOf` makes a URL of.
        None => ("", text),
    };
    let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let path = path.strip_suffix("/.git").unwrap_or(path).trim_end_matches('/');
    // As git: `foo:bar.git` is called `bar`.
    let name = match path.rsplit(['/', ':']).next().unwrap_or_default() {
        "" => {
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            host.split(':').next().unwrap_or_default()
        }
        name => name,
    };
    let name: String = name
        .strip_suffix(".git")
        .unwrap_or(name)
        .chars()
        .map(|c| if c.is_control() || c.is_whitespace() { ' ' } else { c })
        .collect();
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    // Nothing a URL says may lead out of the current directory.
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\\']) {
        return None;
    }
    Some(PathBuf::from(if bare { format!("{name}.git") } else { name }))
}

/// A claimed destination. Dropped without [`keep`](Place::keep), everything that was put there is removed again.
pub(super) struct Place {
    directory: PathBuf,
    existed: bool,
    kept: bool,
}

impl Place {
    /// `directory` must not exist, or be empty.
    pub(super) fn claim(directory: &Path) -> Result<Place, Error> {
        let existed = match fs::read_dir(directory) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(Error::DestinationInUse {
                        path: directory.to_owned(),
                    });
                }
                true
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => false,
            Err(err) if err.kind() == io::ErrorKind::NotADirectory => {
                return Err(Error::DestinationInUse {
                    path: directory.to_owned(),
                });
            }
            Err(source) => {
                return Err(Error::Write {
                    path: directory.to_owned(),
                    source,
                });
            }
        };
        Ok(Place {
            directory: directory.to_owned(),
            existed,
            kept: false,
        })
    }

    /// The clone succeeded.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // Best effort: the error that led here is the one to report.
        if !self.existed {
            let _ = fs::remove_dir_all(&self.directory);
            return;
        }
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let _ = match entry.file_type() {
                Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
                _ => fs::remove_file(entry.path()),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_git() {
        let named = |url: &str, bare| directory_for(url.into(), bare).map(|path| path.to_str().unwrap().to_owned());
        assert_eq!(named("https://host/a/repo.git", false).as_deref(), Some("repo"));
        assert_eq!(named("https://host/a/repo.git/", true).as_deref(), Some("repo.git"));
        assert_eq!(named("https://host/a/repo/.git", false).as_deref(), Some("repo"));
        assert_eq!(named("https://user@host:8080/", false).as_deref(), Some("host"));
        assert_eq!(named("https://host/r?x=/etc", false).as_deref(), Some("r"));
        assert_eq!(named("short:r.git", false).as_deref(), Some("r"));
        assert_eq!(named("https://host/a/..", false), None);
        assert_eq!(named("https://host/a/...git", false).as_deref(), None);
        assert_eq!(named("https://host/a\u{1b}[31mb", false).as_deref(), Some("a [31mb"));
    }

    #[test]
    fn a_failed_clone_leaves_the_place_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("new");
        let place = Place::claim(&new).unwrap();
        fs::create_dir_all(new.join("x")).unwrap();
        drop(place);
        assert!(!new.exists());

        let empty = dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        let place = Place::claim(&empty).unwrap();
        fs::write(empty.join("f"), "x").unwrap();
        fs::create_dir(empty.join("d")).unwrap();
        drop(place);
        assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);

        fs::write(empty.join("mine"), "x").unwrap();
        assert!(matches!(Place::claim(&empty), Err(Error::DestinationInUse { .. })));
        assert!(empty.join("mine").exists());
    }
}
