//! The repositories that are moved: made once a bench, the same each time.
//!
//! | name | what |
//! |---|---|
//! | small | a bare repository of 2,000 commits of text, packed; `small-1` and `small-5` are one and five commits behind |
//! | refs | the same with 20,000 more branches |
//! | mid | 10 MB that nothing compresses, in 40 files |
//! | bulk | the same with as many megabytes as the bench was told |

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context;
use rgit_testkit::{
    history,
    repository::{Git, ObjectFormat},
};

use super::matrix::Scenario;

const COMMITS: usize = 2_000;
const REFS: usize = 20_000;
/// Files in the incompressible repositories: enough that git keeps the pack as it comes.
const FILES: usize = 40;
const MID: usize = 10_000_000;

/// The repositories of one bench. Servers serve their folder; what a push makes goes there too.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) git: Git,
    /// The folder that servers serve.
    pub(super) served: PathBuf,
    /// Where clients work.
    pub(super) work: PathBuf,
    bulk: usize,
}

impl Data {
    /// Makes folders; repositories come when they are first asked for.
    ///
    /// # Errors
    /// When the folders can't be made.
    pub(super) fn new(files: &Path, git: Git, bulk_mb: u32) -> anyhow::Result<Data> {
        let (served, work) = (files.join("served"), files.join("work"));
        for folder in [&served, &work] {
            fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        }
        Ok(Data {
            git,
            served,
            work,
            bulk: bulk_mb as usize * 1_000_000,
        })
    }

    /// See [`payload`].
    pub(super) fn payload(&self, scenario: Scenario) -> Option<u64> {
        payload(scenario, self.bulk as u64)
    }

    /// A bare repository `NAME.git` among the served, made when it isn't there.
    pub(super) fn repository(&self, name: &str) -> anyhow::Result<PathBuf> {
        let bare = self.served.join(format!("{name}.git"));
        if bare.exists() {
            return Ok(bare);
        }
        let source = self.work.join(format!("{name}-source"));
        match name {
            "mid" => history::incompressible(&self.git, &source, FILES, MID / FILES, 10),
            "bulk" => history::incompressible(&self.git, &source, FILES, self.bulk / FILES, 20),
            _ => history::small(&self.git, &source, COMMITS),
        }
        match name {
            "refs" => history::many_refs(&self.git, &source, REFS),
            // What a pushed commit changes must come last: it is cut off again.
            "small-1" | "small-5" => {
                let back = format!("main~{}", &name["small-".len()..]);
                self.git.git(&source, ["reset", "-q", "--hard", &back]);
            }
            _ => {}
        }
        // Under another name until it is complete.
        let part = self.work.join(format!("{name}-part.git"));
        let (from, to) = (source.display().to_string(), part.display().to_string());
        // A path with --no-local is packed anew: what is behind must not have what is to come.
        let mut arguments = vec!["clone", "-q", "--mirror"];
        arguments.push(if name.starts_with("small") {
            "--no-local"
        } else {
            "--local"
        });
        self.git.git(&self.work, arguments.into_iter().chain([&*from, &*to]));
        self.accept_pushes(&part);
        fs::rename(&part, &bare).with_context(|| format!("make {}", bare.display()))?;
        fs::remove_dir_all(&source).with_context(|| format!("remove {}", source.display()))?;
        Ok(bare)
    }

    /// An empty bare repository in place of `path`.
    pub(super) fn empty(&self, path: &Path) -> anyhow::Result<()> {
        remove(path)?;
        self.git.init_bare(path, ObjectFormat::Sha1);
        self.accept_pushes(path);
        Ok(())
    }

    /// A copy of a served repository in place of `path`.
    pub(super) fn copy(&self, name: &str, path: &Path) -> anyhow::Result<()> {
        self.copy_from(&self.repository(name)?, path)
    }

    /// A copy of another bare repository in place of `path`.
    pub(super) fn copy_from(&self, from: &Path, path: &Path) -> anyhow::Result<()> {
        remove(path)?;
        copy_folder(from, path).with_context(|| format!("copy {} to {}", from.display(), path.display()))
    }

    fn accept_pushes(&self, path: &Path) {
        // A collection of garbage in the background would be measured with the next run.
        for (key, value) in [
            ("http.receivepack", "true"),
            ("receive.autogc", "false"),
            ("gc.auto", "0"),
            ("maintenance.auto", "false"),
            ("receive.unpackLimit", "100"),
        ] {
            self.git.git(path, ["config", key, value]);
        }
    }
}

/// Bytes that a scenario moves, where those are what takes its time, with `bulk` of them in the bulk repository.
pub(super) fn payload(scenario: Scenario, bulk: u64) -> Option<u64> {
    match scenario {
        Scenario::Push10Mb => Some(MID as u64),
        Scenario::PushBulk | Scenario::CloneBulk => Some(bulk),
        Scenario::Clone4 => Some(4 * bulk),
        _ => None,
    }
}

/// Removes a folder that need not be there.
pub(super) fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_what_their_names_say() {
        let files = tempfile::tempdir().expect("a temporary directory");
        let data = Data::new(files.path(), Git::new(), 1).expect("folders");
        let count = |path: &Path, of: &str| data.git.text(path, ["rev-list", "--count", of]);
        let behind = data.repository("small-5").expect("a repository");
        assert_eq!(count(&behind, "main"), (COMMITS - 5).to_string());
        let small = data.repository("small").expect("a repository");
        let tip = data.git.text(&small, ["rev-parse", "main"]);
        assert!(!data.git.run(&behind, ["cat-file", "-e", &tip]).status.success());
        assert_eq!(
            data.git.text(&small, ["rev-parse", "main~5"]),
            data.git.text(&behind, ["rev-parse", "main"])
        );

        let bulk = data.repository("bulk").expect("a repository");
        let objects = data.git.text(&bulk, ["count-objects", "-v"]);
        let kib = |name: &str| -> u64 {
            let line = objects
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .expect("a line");
            line.trim().parse().expect("a number")
        };
        assert!((970..1100).contains(&kib("size-pack:")), "{objects}");

        let target = files.path().join("target.git");
        data.copy("small-5", &target).expect("a copy");
        data.git.fsck(&target);
        data.empty(&target).expect("an empty one");
        assert_eq!(data.git.refs(&target), [""; 0]);
    }
}
