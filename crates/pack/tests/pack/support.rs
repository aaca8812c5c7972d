//! Repositories made by git in a temporary directory, and git as referee over the packs.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{Arc, atomic::AtomicBool},
};

use gix::ObjectId;
use rgit_pack::{Error, ObjectSet, Options, PackSource, Statistics};

/// A directory with repositories in it, out of reach of any configuration.
pub(crate) struct Lab {
    directory: tempfile::TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Lab {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn init(&self, name: &str, format: &str) -> Repo {
        let path = self.path(name);
        let repo = Repo {
            home: self.directory.path().to_owned(),
            path: path.clone(),
        };
        run(
            repo.command(self.directory.path())
                .args(["init", "-q", "-b", "main", "--object-format", format])
                .arg(&path),
            b"",
        );
        repo
    }

    /// A repository that `git clone` makes, with `arguments`.
    pub(crate) fn clone(&self, from: &Repo, name: &str, arguments: &[&str]) -> Repo {
        let path = self.path(name);
        // By its URL it is a remote, with which nothing can be shared.
        let place = from.path.display();
        let url = if arguments.contains(&"--shared") {
            place.to_string()
        } else {
            format!("file://{place}")
        };
        run(
            from.command(self.directory.path())
                .args(["clone", "-q"])
                .args(arguments)
                .arg(url)
                .arg(&path),
            b"",
        );
        Repo {
            home: self.directory.path().to_owned(),
            path,
        }
    }
}

pub(crate) struct Repo {
    home: PathBuf,
    pub(crate) path: PathBuf,
}

fn run(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let output = finish(command, input);
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

fn finish(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().unwrap()
    })
}

impl Repo {
    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new("git");
        command.current_dir(directory).env_clear();
        for name in ["PATH", "LD_LIBRARY_PATH", "SystemRoot"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("HOME", &self.home)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", self.home.join("gitconfig"))
            .envs([
                ("GIT_AUTHOR_NAME", "A"),
                ("GIT_AUTHOR_EMAIL", "a@example.com"),
                ("GIT_COMMITTER_NAME", "C"),
                ("GIT_COMMITTER_EMAIL", "c@example.com"),
                ("GIT_AUTHOR_DATE", "1700000000 +0000"),
                ("GIT_COMMITTER_DATE", "1700000000 +0000"),
            ]);
        command
    }

    /// A repository that sees the objects of `original`, and keeps its own in `directory`.
    pub(crate) fn copy(original: &Repo, directory: &Path) -> Repo {
        let repo = Repo {
            home: original.home.clone(),
            path: directory.to_owned(),
        };
        repo.git(&["init", "-q"]);
        let alternates = directory.join(".git/objects/info/alternates");
        std::fs::write(
            alternates,
            format!("{}\n", original.path.join(".git/objects").display()),
        )
        .unwrap();
        repo
    }

    pub(crate) fn git_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.path);
        command.args(arguments);
        command
    }

    pub(crate) fn git_with(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        run(self.command(&self.path).args(arguments), input)
    }

    /// What git prints, without the last newline.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = String::from_utf8(self.git_with(arguments, b"")).unwrap();
        output.trim_end_matches('\n').to_owned()
    }

    pub(crate) fn id(&self, revision: &str) -> ObjectId {
        self.git(&["rev-parse", "--verify", revision]).parse().unwrap()
    }

    pub(crate) fn ids(&self, revisions: &[&str]) -> Vec<ObjectId> {
        revisions.iter().map(|revision| self.id(revision)).collect()
    }

    pub(crate) fn hash_object(&self, kind: &str, content: &[u8]) -> ObjectId {
        let output = self.git_with(&["hash-object", "-w", "-t", kind, "--stdin"], content);
        String::from_utf8(output).unwrap().trim().parse().unwrap()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn commit(&self, message: &str) -> ObjectId {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.id("HEAD")
    }

    /// The file of a loose object.
    pub(crate) fn loose(&self, id: &ObjectId) -> PathBuf {
        let hex = id.to_hex().to_string();
        self.path.join(".git/objects").join(&hex[..2]).join(&hex[2..])
    }

    pub(crate) fn packs(&self) -> Vec<PathBuf> {
        let directory = self.path.join(".git/objects/pack");
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        entries
            .filter(|path| path.extension().is_some_and(|extension| extension == "pack"))
            .collect()
    }

    /// The ids git would send, by `rev-list --objects`.
    pub(crate) fn referee(&self, wanted: &[ObjectId], remote: &[ObjectId]) -> BTreeSet<String> {
        let mut input = String::new();
        for id in wanted {
            input += &format!("{id}\n");
        }
        for id in remote {
            input += &format!("^{id}\n");
        }
        let listed = self.git_with(
            &[
                "rev-list",
                "--objects",
                "--no-object-names",
                "--ignore-missing",
                "--stdin",
            ],
            input.as_bytes(),
        );
        String::from_utf8(listed).unwrap().lines().map(str::to_owned).collect()
    }

    pub(crate) fn open(&self) -> gix::Repository {
        gix::open_opts(&self.path, gix::open::Options::isolated()).unwrap()
    }

    pub(crate) fn find(&self, wanted: &[ObjectId], remote: &[ObjectId]) -> Result<ObjectSet, Error> {
        let repo = self.open();
        let shallow: Vec<_> = match repo.shallow_commits().unwrap() {
            Some(commits) => commits.iter().copied().collect(),
            None => Vec::new(),
        };
        let counted = Default::default();
        let odb = repo.objects.clone().into_inner();
        let set = ObjectSet::find(&odb, wanted, remote, &shallow, &counted, &AtomicBool::new(false))?;
        assert!(counted.load(std::sync::atomic::Ordering::Relaxed) >= set.len());
        Ok(set)
    }

    /// The set for `wanted`, with the attribute `delta` unset for the paths that `delta_unset` says so of.
    pub(crate) fn find_with_attributes(
        &self,
        wanted: &[ObjectId],
        remote: &[ObjectId],
        delta_unset: &rgit_pack::DeltaUnset<'_>,
    ) -> ObjectSet {
        let (odb, counted) = (self.open().objects.clone().into_inner(), Default::default());
        let go = AtomicBool::new(false);
        ObjectSet::find_with_attributes(&odb, wanted, remote, &[], &counted, &go, Some(delta_unset)).unwrap()
    }

    pub(crate) fn source(&self, set: ObjectSet, options: Options) -> Result<PackSource, Error> {
        let odb = self.open().objects.clone().into_inner();
        PackSource::new(odb, Arc::new(set), options, Arc::default())
    }

    /// The pack for `wanted`, read twice.
    pub(crate) fn pack(&self, wanted: &[ObjectId], remote: &[ObjectId], options: Options) -> (Vec<u8>, Statistics) {
        let set = self.find(wanted, remote).unwrap();
        let objects = set.len();
        let source = self.source(set, options).unwrap();
        let pack = read(&source);
        let statistics = source.statistics();
        assert_eq!(statistics.objects, objects);
        assert_eq!(statistics.copied + statistics.deltas + statistics.deflated, objects);
        assert_eq!(statistics.bytes_out, pack.len() as u64);
        assert!(pack == read(&source), "a second reader yields the same bytes");
        (pack, statistics)
    }

    /// Take a pack as receive-pack does, and check that all of `tips` is here afterwards.
    pub(crate) fn receive(&self, pack: &[u8], tips: &[ObjectId]) {
        self.git_with(&["index-pack", "--strict", "--fix-thin", "--stdin"], pack);
        for (number, tip) in tips.iter().enumerate() {
            self.git(&[
                "update-ref",
                &format!("refs/received/{number}"),
                &tip.to_hex().to_string(),
            ]);
        }
        self.git(&["fsck", "--strict", "--connectivity-only"]);
        self.git(&["rev-list", "--objects", "--all"]);
    }

    /// Have git refuse a pack as receive-pack takes it; its words.
    #[track_caller]
    pub(crate) fn refuses(&self, pack: &[u8]) -> String {
        let arguments = ["index-pack", "--strict", "--fix-thin", "--stdin"];
        let output = finish(self.command(&self.path).args(arguments), pack);
        assert!(!output.status.success(), "git takes it");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// The ids of the objects in a pack that needs nothing else.
    pub(crate) fn contents(&self, pack: &[u8]) -> BTreeSet<String> {
        let file = self.path.join("checked.pack");
        std::fs::write(&file, pack).unwrap();
        self.git(&["index-pack", "--strict", "checked.pack"]);
        let index = std::fs::read(file.with_extension("idx")).unwrap();
        let format = format!("--object-format={}", self.git(&["rev-parse", "--show-object-format"]));
        let listed = String::from_utf8(self.git_with(&["show-index", &format], &index)).unwrap();
        let ids = listed.lines().filter_map(|line| line.split(' ').nth(1));
        ids.map(str::to_owned).collect()
    }
}

pub(crate) fn read(source: &PackSource) -> Vec<u8> {
    let mut pack = Vec::new();
    source.reader().unwrap().read_to_end(&mut pack).unwrap();
    pack
}

pub(crate) fn names(set: &ObjectSet) -> BTreeSet<String> {
    set.iter().map(|entry| entry.id.to_string()).collect()
}

/// Bytes that don't compress.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let words = std::iter::repeat_with(next);
    words.flatten().take(length).collect()
}

/// Lines of text, different for each seed but with much in common.
pub(crate) fn text(seed: u64, lines: usize) -> String {
    (0..lines as u64)
        .map(|line| {
            let word = if line % 17 == seed % 17 { seed } else { line * line };
            format!("line {line} of a file says {word}\n")
        })
        .collect()
}
