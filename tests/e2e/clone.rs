//! `rgit clone` makes what `git clone` makes.

use std::path::Path;

use rgit_testkit::history;

use crate::world::World;

/// A server with the repository of everything odd.
fn zoo() -> (World, String) {
    let world = World::new();
    let source = world.path("source");
    history::zoo(&world.git, &source);
    world.server.create("zoo.git", &[]);
    let url = world.server.url("zoo.git");
    world.git.git(&source, ["push", "-q", "--mirror", &url]);
    (world, url)
}

/// Clone by both with the same options; everything git can see must agree.
#[track_caller]
fn same(world: &World, options: &[&str], url: &str) {
    let arguments = |name: &'static str| {
        let mut all = vec!["clone", "-q"];
        all.extend(options);
        all.extend([url, name]);
        all
    };
    for name in ["ours", "theirs"] {
        let _ = std::fs::remove_dir_all(world.path(name));
    }
    let ours = world.rgit(world.directory.path(), arguments("ours"));
    let theirs = world.git(world.directory.path(), arguments("theirs"));
    assert_eq!(
        ours.code, theirs.code,
        "{options:?}\n{}\n---\n{}",
        ours.stderr, theirs.stderr
    );
    if theirs.code != Some(0) {
        assert!(!world.path("ours").exists(), "a failed clone leaves nothing");
        return;
    }
    let (ours, theirs) = (world.path("ours"), world.path("theirs"));
    world.git.fsck(&ours);
    assert_eq!(world.git.refs(&ours), world.git.refs(&theirs), "{options:?}");
    let look = |directory: &Path, arguments: &[&str]| {
        let output = world.git.command(directory).args(arguments).output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    for question in [
        ["symbolic-ref", "-q", "HEAD"].as_slice(),
        &["rev-parse", "HEAD"],
        &["symbolic-ref", "-q", "refs/remotes/origin/HEAD"],
        &["config", "--get-regexp", "^(remote|branch)\\."],
        &["rev-parse", "--is-shallow-repository"],
        &["rev-list", "--count", "--all"],
        &["ls-files", "-s"],
        &["status", "--porcelain"],
        &["reflog", "--format=%gs", "HEAD"],
    ] {
        let (mut left, mut right) = (look(&ours, question), look(&theirs, question));
        if question[0] == "config" {
            let sorted = |text: &str| {
                let mut lines: Vec<&str> = text.lines().collect();
                lines.sort_unstable();
                lines.join("\n")
            };
            left.1 = sorted(&left.1);
            right.1 = sorted(&right.1);
        }
        assert_eq!(left, right, "{options:?}: git {question:?}");
    }
}

#[test]
fn with_a_working_tree() {
    let (world, url) = zoo();
    same(&world, &[], &url);
    let link = std::fs::read_link(world.path("ours/link")).unwrap();
    assert_eq!(link, Path::new("readme"));
}

#[test]
fn bare_and_mirror() {
    let (world, url) = zoo();
    same(&world, &["--bare"], &url);
    same(&world, &["--mirror"], &url);
}

#[test]
fn a_branch_a_tag_one_branch_no_tags_another_name() {
    let (world, url) = zoo();
    same(&world, &["--branch", "left"], &url);
    same(&world, &["--branch", "of-commit"], &url);
    same(&world, &["--single-branch"], &url);
    same(&world, &["--single-branch", "--branch", "right"], &url);
    same(&world, &["--no-tags"], &url);
    same(&world, &["--origin", "upstream"], &url);
    same(&world, &["--no-checkout"], &url);
    same(&world, &["--branch", "nowhere"], &url);
}

#[test]
fn shallow() {
    let (world, url) = zoo();
    same(&world, &["--depth=1"], &url);
    same(&world, &["--depth=2", "--no-single-branch"], &url);
    same(&world, &["--depth=1", "--branch", "left"], &url);
    same(&world, &["--bare", "--depth=1"], &url);
}

#[test]
fn a_detached_head_there() {
    let (world, url) = zoo();
    let remote = world.server.root().join("zoo.git");
    world.git.git(&remote, ["update-ref", "--no-deref", "HEAD", "main~1"]);
    same(&world, &[], &url);
    same(&world, &["--bare"], &url);
}

#[test]
fn the_name_is_taken_from_the_url() {
    let (world, url) = zoo();
    world.rgit(world.directory.path(), ["clone", "-q", &url]).exits(0);
    assert!(world.path("zoo/.git").is_dir());
    world
        .rgit(world.directory.path(), ["clone", "-q", "--bare", &url])
        .exits(0);
    assert!(world.path("zoo.git/objects").is_dir());
    let ran = world.rgit(world.directory.path(), ["clone", &url]).exits(128);
    assert!(
        ran.stderr.contains("already exists and is not an empty directory"),
        "{}",
        ran.stderr
    );
    assert!(world.path("zoo/.git").is_dir(), "what was there stays");
}

#[test]
fn over_the_old_protocols() {
    let (world, url) = zoo();
    for version in ["0", "1", "2"] {
        let name = format!("v{version}");
        let setting = format!("protocol.version={version}");
        world
            .rgit(
                world.directory.path(),
                ["-c", &setting, "clone", "-q", "--mirror", &url, &name],
            )
            .exits(0);
        world
            .git
            .assert_same(&world.server.root().join("zoo.git"), &world.path(&name));
    }
}

#[cfg(unix)]
#[test]
fn packs_have_the_permissions_that_git_gives_them() {
    use std::os::unix::fs::PermissionsExt;
    let (world, url) = zoo();
    let modes = |name: &str| {
        let mut modes: Vec<(String, u32)> = std::fs::read_dir(world.path(name).join("objects/pack"))
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter_map(|entry| {
                let extension = entry.path().extension()?.to_string_lossy().into_owned();
                matches!(extension.as_str(), "pack" | "idx")
                    .then(|| (extension, entry.metadata().unwrap().permissions().mode() & 0o777))
            })
            .collect();
        modes.sort();
        modes
    };
    world
        .rgit(world.directory.path(), ["clone", "-q", "--bare", &url, "ours"])
        .exits(0);
    world
        .git
        .git(world.directory.path(), ["clone", "-q", "--bare", &url, "theirs"]);
    assert_eq!(modes("ours"), modes("theirs"));
    assert_eq!(modes("ours").len(), 2);
}
