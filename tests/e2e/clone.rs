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
        &["reflog", "exists", "HEAD"],
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

/// The same with everything that rgit prints compared to the byte.
#[track_caller]
fn same_words(world: &World, options: &[&str], url: &str) {
    let words = |ran: crate::world::Ran| -> Vec<String> {
        ran.stderr
            .lines()
            .filter(|line| !line.starts_with("remote: "))
            .map(ToOwned::to_owned)
            .collect()
    };
    let arguments: Vec<&str> = ["clone"].iter().chain(options).copied().chain([url, "said"]).collect();
    let ours = world.rgit(world.directory.path(), &arguments);
    let _ = std::fs::remove_dir_all(world.path("said"));
    let theirs = world.git(world.directory.path(), &arguments);
    let _ = std::fs::remove_dir_all(world.path("said"));
    assert_eq!(words(ours), words(theirs), "{options:?}");
}

#[test]
fn a_head_there_that_leads_nowhere() {
    let (world, url) = zoo();
    let remote = world.server.root().join("zoo.git");
    world.git.git(&remote, ["symbolic-ref", "HEAD", "refs/heads/missing"]);
    same(&world, &[], &url);
    same_words(&world, &[], &url);
    same(&world, &["--bare"], &url);
    same(&world, &["--branch", "left"], &url);
    // Here git forgets which branch it was to follow; what is fetched and where HEAD goes is the same.
    same_words(&world, &["--depth=1"], &url);
}

#[test]
fn what_is_said_of_an_empty_repository_and_of_a_detached_head() {
    let (world, url) = zoo();
    world.server.create("empty.git", &[]);
    same_words(&world, &[], &world.server.url("empty.git"));
    same_words(&world, &["--branch", "of-commit"], &url);
    same_words(&world, &["--bare"], &url);
    same_words(&world, &["-q", "--mirror"], &url);
}

#[test]
fn a_working_tree_that_cannot_be_written_does_not_take_the_clone_with_it() {
    let world = World::new();
    let source = world.path("source");
    history::small(&world.git, &source, 2);
    std::fs::write(source.join(".gitattributes"), "broken.* filter=broken\n").unwrap();
    std::fs::write(source.join("broken.txt"), "text\n").unwrap();
    std::fs::write(source.join("zz"), "text\n").unwrap();
    world.git.git(&source, ["add", "."]);
    world.git.git(&source, ["commit", "-q", "-m", "filtered"]);
    world.server.create("r.git", &[]);
    let url = world.server.url("r.git");
    world.git.git(&source, ["push", "-q", &url, "main"]);
    let settings = ["-c", "filter.broken.smudge=false", "-c", "filter.broken.required=true"];
    let clone = |name: &'static str| settings.iter().copied().chain(["clone", "-q", &url, name]);
    let ran = world.rgit(world.directory.path(), clone("ours")).exits(128);
    world.git(world.directory.path(), clone("theirs")).exits(128);
    assert!(
        ran.stderr.contains("broken.txt") && ran.stderr.contains("Clone succeeded, but checkout failed."),
        "{}",
        ran.stderr
    );
    assert_eq!(
        world.git.refs(&world.path("ours")),
        world.git.refs(&world.path("theirs"))
    );
    assert!(world.path("ours/zz").exists(), "the rest is there");
}

#[test]
fn file_modes() {
    use std::os::unix::fs::PermissionsExt;
    let (world, url) = zoo();
    world
        .rgit(
            world.directory.path(),
            ["-c", "core.fileMode=false", "clone", "-q", &url, "ours"],
        )
        .exits(0);
    assert_eq!(world.git.text(&world.path("ours"), ["status", "--porcelain"]), "");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let readable = mode(&world.path("ours/.git/config")) & 0o444;
    let source = world.path("source");
    history::add_commit(&world.git, &source, "more");
    world.git.git(&source, ["push", "-q", &url, "HEAD:refs/heads/more"]);
    world
        .rgit(&world.path("ours"), ["-c", "fetch.unpackLimit=1", "fetch", "-q"])
        .exits(0);
    let mut packs = 0;
    for entry in std::fs::read_dir(world.path("ours/.git/objects/pack")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), readable, "{}", path.display());
        packs += 1;
    }
    assert_eq!(packs, 6, "two packs and their indices");
}
