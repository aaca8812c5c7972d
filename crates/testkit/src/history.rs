//! Repositories worth moving: small, odd, many refs, incompressible, and a long history of real text.
//!
//! Owns what they contain, all of it by `git fast-import`: tens of thousands of commits take seconds. The same call makes
//! the same objects each time (the long history: from the same sources).

use std::{
    env, fs, io,
    io::Write,
    path::{Path, PathBuf},
};

use crate::repository::{EPOCH, Git, ObjectFormat};

mod text;

use text::{Writer, read_texts};

/// A stream for `git fast-import`: see git-fast-import(1) for the grammar.
struct Stream<'a> {
    out: &'a mut dyn Write,
    /// The next mark: marks name objects for the rest of the stream.
    mark: u64,
    /// The next commit's time.
    time: u64,
}

impl Stream<'_> {
    fn line(&mut self, line: &str) -> io::Result<()> {
        self.out.write_all(line.as_bytes())?;
        self.out.write_all(b"\n")
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        writeln!(self.out, "data {}", bytes.len())?;
        self.out.write_all(bytes)?;
        self.out.write_all(b"\n")
    }

    fn marked(&mut self) -> io::Result<u64> {
        self.mark += 1;
        let mark = self.mark;
        writeln!(self.out, "mark :{mark}")?;
        Ok(mark)
    }

    fn blob(&mut self, bytes: &[u8]) -> io::Result<u64> {
        self.line("blob")?;
        let mark = self.marked()?;
        self.data(bytes)?;
        Ok(mark)
    }

    /// Begins a commit; file commands follow.
    fn commit(&mut self, branch: &str, message: &str, from: Option<u64>, merge: Option<u64>) -> io::Result<u64> {
        writeln!(self.out, "commit refs/heads/{branch}")?;
        let mark = self.marked()?;
        let time = self.time;
        self.time += 60;
        writeln!(self.out, "author A U Thor <author@example.com> {time} +0100")?;
        writeln!(self.out, "committer C O Mitter <committer@example.com> {time} +0000")?;
        self.data(message.as_bytes())?;
        if let Some(from) = from {
            writeln!(self.out, "from :{from}")?;
        }
        if let Some(merge) = merge {
            writeln!(self.out, "merge :{merge}")?;
        }
        Ok(mark)
    }

    fn file(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.entry("100644", "inline", path.as_bytes())?;
        self.data(bytes)
    }

    /// A file command; the path is quoted as C strings are, which any byte but NUL survives.
    fn entry(&mut self, mode: &str, object: &str, path: &[u8]) -> io::Result<()> {
        write!(self.out, "M {mode} {object} \"")?;
        for &byte in path {
            match byte {
                b'"' | b'\\' => write!(self.out, "\\{}", byte as char)?,
                b' '..=b'~' => self.out.write_all(&[byte])?,
                _ => write!(self.out, "\\{byte:03o}")?,
            }
        }
        self.line("\"")
    }

    fn tag(&mut self, name: &str, object: u64, message: &str) -> io::Result<()> {
        let time = self.time;
        write!(
            self.out,
            "tag {name}\nfrom :{object}\ntagger T A Gger <tagger@example.com> {time} +0000\n"
        )?;
        self.data(message.as_bytes())
    }

    fn reset(&mut self, name: &str, object: u64) -> io::Result<()> {
        write!(self.out, "reset {name}\nfrom :{object}\n\n")
    }
}

/// Runs fast-import in a repository that exists. `configuration` in the form `key=value`.
#[track_caller]
fn import(
    git: &Git,
    directory: &Path,
    configuration: &[&str],
    write: impl FnOnce(&mut Stream<'_>) -> io::Result<()> + Send,
) {
    // Without the limit, small imports end up as loose objects; one pack is the same everywhere.
    let mut arguments = vec!["-c", "fastimport.unpackLimit=1"];
    for setting in configuration {
        arguments.extend(["-c", setting]);
    }
    arguments.extend(["fast-import", "--quiet", "--force", "--done"]);
    git.input(directory, arguments, |out| {
        let mut stream = Stream {
            out,
            mark: 0,
            time: EPOCH,
        };
        write(&mut stream)?;
        stream.line("done")
    });
}

/// A repository with a working tree and `commits` commits on `main`, each changing one of ten small files.
///
/// # Panics
/// When git fails.
#[track_caller]
pub fn small(git: &Git, directory: &Path, commits: usize) {
    small_as(git, directory, ObjectFormat::Sha1, commits);
}

/// As [`small`], in this object format.
///
/// # Panics
/// When git fails.
#[track_caller]
pub fn small_as(git: &Git, directory: &Path, format: ObjectFormat, commits: usize) {
    git.init(directory, format);
    if commits == 0 {
        return;
    }
    import(git, directory, &[], |stream| {
        for n in 0..commits {
            stream.commit("main", &format!("commit {n}\n"), None, None)?;
            let lines: String = (0..=n % 100)
                .map(|line| format!("line {line} of commit {n}\n"))
                .collect();
            stream.file(&format!("file-{}", n % 10), lines.as_bytes())?;
        }
        Ok(())
    });
    git.git(directory, ["reset", "-q", "--hard", "main"]);
}

/// One more commit on the checked-out branch, with one file changed: what a small push carries. Returns its id.
///
/// # Panics
/// When git fails.
#[track_caller]
pub fn add_commit(git: &Git, directory: &Path, message: &str) -> String {
    fs::write(directory.join("changed"), format!("{message}\n")).expect("write a file");
    git.git(directory, ["add", "changed"]);
    git.git(directory, ["commit", "-q", "-m", message]);
    git.text(directory, ["rev-parse", "HEAD"])
}

/// A repository of everything that is easily forgotten: merges (one of three parents), an orphan branch, annotated tags
/// (of a commit, a tree, a blob, another tag), light tags of a tree and a blob, a symlink, an executable, a submodule
/// entry, an empty file, file names that are not UTF-8, that need quoting, or 250 bytes long, a deep folder, and a commit
/// message in no known encoding. Nothing is checked out: not every file system could hold it.
///
/// # Panics
/// When git fails.
#[track_caller]
pub fn zoo(git: &Git, directory: &Path) {
    zoo_as(git, directory, ObjectFormat::Sha1);
}

/// As [`zoo`], in this object format.
///
/// # Panics
/// When git fails.
#[track_caller]
pub fn zoo_as(git: &Git, directory: &Path, format: ObjectFormat) {
    git.init(directory, format);
    let submodule = match format {
        ObjectFormat::Sha1 => "1234567890".repeat(4),
        ObjectFormat::Sha256 => "12345678".repeat(8),
    };
    import(git, directory, &[], |stream| {
        let blob = stream.blob(b"a blob of its own\n")?;
        let first = stream.commit("main", "first\n", None, None)?;
        stream.file("readme", b"one\n")?;
        stream.file("empty", b"")?;
        stream.entry("100755", "inline", b"run.sh")?;
        stream.data(b"#!/bin/sh\n")?;
        stream.entry("120000", "inline", b"link")?;
        stream.data(b"readme")?;
        stream.entry("160000", &submodule, b"module")?;
        stream.entry("100644", "inline", b"latin-\xe9\xff")?;
        stream.data(b"not UTF-8\n")?;
        stream.entry("100644", "inline", b"quote\" back\\slash tab\t line\n")?;
        stream.data(b"needs quoting\n")?;
        stream.file(&format!("long/{}", "n".repeat(250)), b"long name\n")?;
        stream.file(&format!("{}file", "deep/".repeat(60)), b"deep\n")?;
        stream.file("\u{fc}ml\u{e4}ut/\u{65e5}\u{672c}", b"UTF-8\n")?;

        let left = stream.commit("left", "left\n", Some(first), None)?;
        stream.file("left", b"left\n")?;
        let right = stream.commit("right", "right\n", Some(first), None)?;
        stream.file("right", b"right\n")?;
        let merge = stream.commit("main", "two parents\n", Some(left), Some(right))?;
        stream.file("right", b"right\n")?;
        let orphan = stream.commit("orphan", "no parent\n", None, None)?;
        stream.file("alone", b"alone\n")?;
        let three = stream.commit("main", "three parents\n", Some(merge), Some(orphan))?;
        stream.line(&format!("merge :{left}"))?;
        stream.file("alone", b"alone\n")?;
        stream.line("commit refs/heads/latin")?;
        stream.mark += 1;
        let mark = stream.mark;
        stream.line(&format!("mark :{mark}"))?;
        stream.line("committer C O Mitter <committer@example.com> 1704070000 -1130")?;
        stream.data(b"no known encoding: \xe9\xff\n")?;
        stream.line(&format!("from :{three}"))?;

        stream.tag("of-commit", three, "annotated\n")?;
        stream.tag("of-blob", blob, "of a blob\n")?;
        stream.reset("refs/tags/light-commit", first)?;
        stream.reset("refs/notes/like", orphan)
    });
    let tag = ["-c", "advice.nestedTag=false", "tag"];
    let more: [&[&str]; 4] = [
        &["-a", "-m", "of a tree", "of-tree", "main^{tree}"],
        &["-a", "-m", "of a tag", "of-tag", "of-commit"],
        &["light-tree", "main^{tree}"],
        &["light-blob", "main:readme"],
    ];
    for arguments in more {
        git.git(directory, tag.iter().chain(arguments));
    }
}

/// Adds `count` branches `refs/heads/many/NNNNNN`, all at HEAD, packed.
///
/// # Panics
/// When git fails.
#[track_caller]
pub fn many_refs(git: &Git, directory: &Path, count: usize) {
    let head = git.text(directory, ["rev-parse", "HEAD"]);
    git.input(directory, ["update-ref", "--stdin"], |out| {
        (0..count).try_for_each(|n| writeln!(out, "create refs/heads/many/{n:06} {head}"))
    });
    git.git(directory, ["pack-refs", "--all"]);
}

/// A repository with `count` files of `size` bytes that no compression makes smaller, one a commit on `main`. Not checked
/// out. Other `seed`s make other bytes.
///
/// From 34 files on, git on the other side keeps the pack as it comes (three objects a commit, `transfer.unpackLimit` is
/// 100). Fewer are stored as loose objects there, and each later clone spends seconds on looking for deltas in vain.
///
/// # Panics
/// When git fails.
#[track_caller]
pub fn incompressible(git: &Git, directory: &Path, count: usize, size: usize, seed: u64) {
    git.init(directory, ObjectFormat::Sha1);
    // Above bigFileThreshold a blob is streamed into the pack without a try at a delta, which would find none.
    let configuration = ["core.compression=0", "pack.compression=0", "core.bigFileThreshold=1k"];
    import(git, directory, &configuration, |stream| {
        let mut numbers = Numbers::new(seed);
        let mut block = vec![0; 64 * 1024];
        for n in 0..count {
            stream.commit("main", &format!("blob {n}\n"), None, None)?;
            stream.entry("100644", "inline", format!("blob-{n:04}").as_bytes())?;
            writeln!(stream.out, "data {size}")?;
            let mut left = size;
            while left > 0 {
                let part = left.min(block.len());
                block
                    .chunks_exact_mut(8)
                    .for_each(|eight| eight.copy_from_slice(&numbers.next().to_le_bytes()));
                stream.out.write_all(&block[..part])?;
                left -= part;
            }
            stream.line("")?;
        }
        Ok(())
    });
}

/// A bare-bones working repository with a long history of real text: `commits` commits on `main` (every fiftieth a merge
/// of a side branch, every thousandth tagged), taken from [`sources`]. Not checked out.
///
/// Files appear part by part and are edited in between, so that deltas, tree walks and packs look like those of a real
/// project. Returns the number of source bytes used.
///
/// # Panics
/// When git fails, or there are no sources.
#[track_caller]
pub fn text_history(git: &Git, directory: &Path, commits: usize) -> usize {
    text_history_from(git, directory, commits, &sources())
}

/// As [`text_history`], from the text files under these directories.
///
/// # Panics
/// When git fails, or there is no text.
#[track_caller]
pub fn text_history_from(git: &Git, directory: &Path, commits: usize, sources: &[PathBuf]) -> usize {
    let texts = read_texts(sources);
    assert!(!texts.is_empty(), "no text files under {sources:?}");
    git.init(directory, ObjectFormat::Sha1);
    import(
        git,
        directory,
        &["pack.compression=1", "core.compression=1"],
        |stream| {
            let mut writer = Writer::new(&texts);
            let mut head = None;
            for n in 1..=commits {
                if let (Some(tip), true) = (head, n % 50 == 0 && n + 1 < commits) {
                    let side = stream.commit("side", &format!("side work {n}\n"), Some(tip), None)?;
                    let change = writer.change();
                    stream.file(&change.0, &change.1)?;
                    head = Some(stream.commit("main", &format!("merge side work {n}\n"), Some(tip), Some(side))?);
                    stream.file(&change.0, &change.1)?;
                } else {
                    head = Some(stream.commit("main", &format!("change {n}\n\nBecause it was due.\n"), head, None)?);
                    let (path, content) = writer.change();
                    stream.file(&path, &content)?;
                }
                if let (Some(tip), 0) = (head, n % 1000) {
                    stream.tag(&format!("v{}", n / 1000), tip, "a release\n")?;
                }
            }
            Ok(())
        },
    );
    texts.iter().map(|text| text.content.len()).sum()
}

/// Directories of text at hand when the tests run: the sources that cargo has unpacked, else this workspace.
pub fn sources() -> Vec<PathBuf> {
    let cargo = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))
        .map(|cargo| cargo.join("registry/src"));
    match cargo {
        Some(cargo) if cargo.is_dir() => vec![cargo],
        _ => vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")],
    }
}

/// Marsaglia's xorshift64*: the same numbers on every machine, fast, and nothing zlib can shorten.
struct Numbers(u64);

impl Numbers {
    fn new(seed: u64) -> Self {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn small_repositories_have_what_was_asked() {
        let git = Git::new();
        for (commits, format) in [
            (0, ObjectFormat::Sha1),
            (1, ObjectFormat::Sha1),
            (25, ObjectFormat::Sha256),
        ] {
            let directory = git.home().join(format!("r{commits}"));
            small_as(&git, &directory, format, commits);
            git.fsck(&directory);
            let count = if commits == 0 {
                "0".to_owned()
            } else {
                git.text(&directory, ["rev-list", "--count", "main"])
            };
            assert_eq!(count, commits.to_string());
            assert_eq!(
                git.text(&directory, ["rev-parse", "--show-object-format"]),
                format.as_str()
            );
            assert!(git.text(&directory, ["status", "--porcelain"]).is_empty());
        }
    }

    #[test]
    fn the_zoo_has_every_animal_in_both_formats() {
        for format in [ObjectFormat::Sha1, ObjectFormat::Sha256] {
            let git = Git::new();
            let zoo = git.home().join("zoo");
            zoo_as(&git, &zoo, format);
            git.fsck(&zoo);
            let tree = git.git(&zoo, ["ls-tree", "-r", "-z", "main"]).stdout;
            let has = |part: &[u8]| tree.windows(part.len()).any(|at| at == part);
            assert!(has(b"100755 blob") && has(b"120000 blob") && has(b"160000 commit"));
            assert!(has(b"\tlatin-\xe9\xff\0") && has(b"\tquote\" back\\slash tab\t line\n\0"));
            assert!(has(&[&b"\tlong/"[..], &[b'n'; 250], b"\0"].concat()));
            assert_eq!(git.text(&zoo, ["rev-list", "--count", "--min-parents=2", "main"]), "2");
            assert_eq!(git.text(&zoo, ["rev-list", "--count", "--min-parents=3", "main"]), "1");
            for (tag, kinds) in [
                ("of-commit", "tag commit"),
                ("of-tree", "tag tree"),
                ("of-blob", "tag blob"),
                ("of-tag", "tag tag"),
                ("light-tree", "tree"),
                ("light-blob", "blob"),
            ] {
                let name = format!("refs/tags/{tag}");
                let kinds_found = git.text(&zoo, ["for-each-ref", "--format=%(objecttype) %(*objecttype)", &name]);
                assert!(
                    kinds_found.starts_with(kinds) || kinds == "tag tag",
                    "{tag}: {kinds_found}"
                );
            }
            assert!(git.text(&zoo, ["cat-file", "-p", "of-tag"]).contains("type tag"));
        }
    }

    #[test]
    fn many_refs_are_many() {
        let git = Git::new();
        let directory = git.home().join("refs");
        small(&git, &directory, 1);
        many_refs(&git, &directory, 10_000);
        assert_eq!(git.refs(&directory).len(), 10_001);
    }

    #[test]
    fn incompressible_means_that_the_pack_is_as_large_as_the_files() {
        let git = Git::new();
        let directory = git.home().join("blobs");
        incompressible(&git, &directory, 3, 2_000_001, 7);
        git.fsck(&directory);
        let pack: u64 = fs::read_dir(directory.join(".git/objects/pack"))
            .expect("packs")
            .map(|entry| entry.and_then(|entry| entry.metadata()).expect("a pack").len())
            .sum();
        assert!(pack > 6_000_000, "{pack}");
        git.git(&directory, ["repack", "-q", "-adF"]);
        let packed = git.text(&directory, ["count-objects", "-v"]);
        let size = packed
            .lines()
            .find_map(|line| line.strip_prefix("size-pack: "))
            .expect("a size");
        assert!(
            size.parse::<u64>().expect("KiB") > 5_800,
            "zlib found something to compress: {packed}"
        );
        let again = git.home().join("again");
        incompressible(&git, &again, 3, 2_000_001, 7);
        assert_eq!(git.refs(&directory), git.refs(&again));
    }

    #[test]
    fn a_long_history_is_long_and_the_same_each_time() {
        let git = Git::new();
        let sources = [Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        let (one, other) = (git.home().join("one"), git.home().join("other"));
        text_history_from(&git, &one, 2_000, &sources);
        text_history_from(&git, &other, 2_000, &sources);
        git.assert_same(&one, &other);
        let count: usize = git
            .text(&one, ["rev-list", "--count", "main"])
            .parse()
            .expect("a number");
        assert!(count >= 2_000, "{count}");
        assert!(git.objects(&one).len() > 6_000);
        assert_eq!(git.text(&one, ["tag"]), "v1\nv2");
        assert_eq!(git.text(&one, ["rev-list", "--count", "--merges", "main"]), "39");
    }

    #[test]
    fn twenty_thousand_commits_of_the_text_at_hand() {
        let git = Git::new();
        let directory = git.home().join("long");
        assert!(text_history(&git, &directory, 20_000) > 100_000);
        let count: usize = git
            .text(&directory, ["rev-list", "--count", "main"])
            .parse()
            .expect("a number");
        assert!(count >= 20_000, "{count}");
        git.git(&directory, ["cat-file", "-e", "main^{tree}"]);
    }
}
