//! What git says of the result: `git fsck --strict`, refs and objects compared. Nothing here believes a client's word.

use std::{ffi::OsStr, path::Path};

use rgit_testkit::repository::Git;

/// Whether the served repository holds the same refs and objects as the one they were pushed from.
pub(super) fn same(git: &Git, source: &Path, served: &Path) -> Result<(), String> {
    fsck(git, served)?;
    equal("refs", refs(git, source)?, refs(git, served)?)?;
    equal("objects", objects(git, source)?, objects(git, served)?)
}

/// Whether a listing is that of the served repository.
pub(super) fn listing(git: &Git, served: &Path, listed: &[u8]) -> Result<(), String> {
    // Of a path, so that no HTTP client has a part in it.
    let expected = text(git, served, ["ls-remote", "."])?;
    equal("listing", expected, String::from_utf8_lossy(listed).trim().to_owned())
}

/// Whether the remote-tracking ref has come to where the served branch is, with all its objects.
pub(super) fn fetched(git: &Git, served: &Path, copy: &Path) -> Result<(), String> {
    fsck(git, copy)?;
    let tracking = text(git, copy, ["rev-parse", "--verify", "refs/remotes/origin/main"])?;
    equal("origin/main", text(git, served, ["rev-parse", "main"])?, tracking)?;
    equal("objects", objects(git, served)?, objects(git, copy)?)
}

/// Whether a clone has the served refs and objects, and its files lie in the working tree.
pub(super) fn cloned(git: &Git, served: &Path, copy: &Path) -> Result<(), String> {
    fetched(git, served, copy)?;
    equal(
        "HEAD",
        text(git, served, ["rev-parse", "HEAD"])?,
        text(git, copy, ["rev-parse", "HEAD"])?,
    )?;
    equal(
        "tag v1",
        text(git, served, ["rev-parse", "v1"])?,
        text(git, copy, ["rev-parse", "v1"])?,
    )?;
    // An empty index and working tree would show as deletions here.
    equal("status", String::new(), text(git, copy, ["status", "--porcelain"])?)
}

fn fsck(git: &Git, repository: &Path) -> Result<(), String> {
    text(
        git,
        repository,
        ["fsck", "--full", "--strict", "--no-dangling", "--no-progress"],
    )
    .map(|_| ())
}

fn refs(git: &Git, repository: &Path) -> Result<String, String> {
    text(git, repository, ["for-each-ref", "--format=%(objectname) %(refname)"])
}

fn objects(git: &Git, repository: &Path) -> Result<String, String> {
    let objects = text(git, repository, ["rev-list", "--objects", "--no-object-names", "--all"])?;
    let mut objects: Vec<&str> = objects.lines().collect();
    objects.sort_unstable();
    Ok(objects.join("\n"))
}

/// Runs git without a panic where it fails: the demo tells its failures in its table.
fn text<A: AsRef<OsStr>>(
    git: &Git,
    repository: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> Result<String, String> {
    if !repository.is_dir() {
        return Err(format!("there is no {}", repository.display()));
    }
    let arguments: Vec<A> = arguments.into_iter().collect();
    let output = git.run(repository, &arguments);
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let command: Vec<_> = arguments
        .iter()
        .map(|argument| argument.as_ref().to_string_lossy())
        .collect();
    let said = [output.stdout, output.stderr].concat();
    Err(format!(
        "git {}: {}: {}",
        command.join(" "),
        output.status,
        String::from_utf8_lossy(&said).trim()
    ))
}

fn equal(what: &str, expected: String, found: String) -> Result<(), String> {
    if expected == found {
        return Ok(());
    }
    let only = |left: &str, right: &str| {
        let lines: Vec<&str> = left
            .lines()
            .filter(|line| !right.lines().any(|other| other == *line))
            .take(3)
            .collect();
        if lines.is_empty() {
            "nothing".to_owned()
        } else {
            lines.join(", ")
        }
    };
    Err(format!(
        "{what} differ: missing {}; unexpected {}",
        only(&expected, &found),
        only(&found, &expected)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rgit_testkit::{history, repository::ObjectFormat};

    #[test]
    fn a_missing_ref_a_stray_ref_and_a_damaged_object_are_found() {
        let git = Git::new();
        let (source, served) = (git.home().join("source"), git.home().join("served"));
        history::small(&git, &source, 3);
        git.init_bare(&served, ObjectFormat::Sha1);
        let why = same(&git, &source, &served).expect_err("nothing was pushed");
        assert!(
            why.starts_with("refs differ: missing ") && why.ends_with("unexpected nothing"),
            "{why}"
        );
        git.git(&source, ["push", "-q", "../served", "main"]);
        assert_eq!(same(&git, &source, &served), Ok(()));
        git.git(&served, ["update-ref", "refs/heads/stray", "main~1"]);
        let why = same(&git, &source, &served).expect_err("a stray ref");
        assert!(
            why.contains("missing nothing") && why.contains("refs/heads/stray"),
            "{why}"
        );
        git.git(&served, ["update-ref", "-d", "refs/heads/stray"]);
        let tree = git.text(&served, ["rev-parse", "main^{tree}"]);
        std::fs::remove_file(served.join("objects").join(&tree[..2]).join(&tree[2..])).expect("a loose tree");
        assert!(
            same(&git, &source, &served)
                .expect_err("a missing tree")
                .starts_with("git fsck")
        );
    }

    #[test]
    fn a_clone_without_its_files_is_found() {
        let git = Git::new();
        let source = git.home().join("source");
        history::small(&git, &source, 3);
        git.git(&source, ["tag", "v1"]);
        git.git(git.home(), ["clone", "-q", "--no-checkout", "source", "copy"]);
        let copy = git.home().join("copy");
        let why = cloned(&git, &source, &copy).expect_err("no checkout");
        assert!(why.starts_with("status differ"), "{why}");
        git.git(&copy, ["reset", "-q", "--hard"]);
        assert_eq!(cloned(&git, &source, &copy), Ok(()));
        assert!(cloned(&git, &source, &git.home().join("nowhere")).is_err());
    }
}
