//! Repositories on this machine, by path and by `file://`: what git makes of them.

use std::path::Path;

use rgit_testkit::history;

use crate::world::World;

/// A repository of everything odd, in a directory with a space in its name.
fn zoo() -> World {
    let world = World::new();
    history::zoo(&world.git, &world.path("the source"));
    world
}

fn file_url(world: &World, name: &str) -> String {
    format!("file://{}", world.path(name).display()).replace(' ', "%20")
}

#[track_caller]
fn same(world: &World, ours: &Path, theirs: &Path) {
    world.git.fsck(ours);
    assert_eq!(world.git.refs(ours), world.git.refs(theirs));
    for question in [
        ["config", "remote.origin.url"].as_slice(),
        &["rev-parse", "HEAD"],
        &["status", "--porcelain"],
        &["rev-list", "--count", "--all"],
        &["reflog", "--format=%gs", "HEAD"],
    ] {
        assert_eq!(
            world.git.text(ours, question),
            world.git.text(theirs, question),
            "{question:?}"
        );
    }
}

#[test]
fn clones() {
    let world = zoo();
    let here = world.directory.path();
    let (path, url) = (
        world.path("the source").display().to_string(),
        file_url(&world, "the source"),
    );
    for from in [path.as_str(), "the source", "./the source/.git", &url] {
        for (version, options) in [
            ("2", [].as_slice()),
            ("0", &[]),
            ("2", &["--branch", "left", "--single-branch"]),
        ] {
            let version = format!("protocol.version={version}");
            let begin = ["-c", &version, "clone", "-q"];
            let ran = world.rgit(here, [&begin, options, &[from, "ours"]].concat()).exits(0);
            assert_eq!(ran.stderr, "");
            // git links what lies here unless told not to, objects that nothing asked for included.
            let plain = ["--no-local"].as_slice();
            world
                .git(here, [&begin, plain, options, &[from, "theirs"]].concat())
                .exits(0);
            same(&world, &world.path("ours"), &world.path("theirs"));
            for name in ["ours", "theirs"] {
                std::fs::remove_dir_all(world.path(name)).unwrap();
            }
        }
    }
    let arguments = |to| ["clone", "-q", "--depth=1", &url, to].map(ToOwned::to_owned);
    world.rgit(here, arguments("ours")).exits(0);
    world.git(here, arguments("theirs")).exits(0);
    same(&world, &world.path("ours"), &world.path("theirs"));
    world.rgit(here, ["clone", "-q", "the source"]).exits(128);
}

#[test]
fn fetches_and_lists() {
    for version in ["protocol.version=2", "protocol.version=0"] {
        let world = zoo();
        let (here, source) = (world.directory.path(), world.path("the source"));
        for name in ["ours", "theirs"] {
            world.git.git(here, ["clone", "-q", "the source", name]);
        }
        history::add_commit(&world.git, &source, "more");
        world.git.git(&source, ["tag", "-a", "-m", "new", "new"]);
        world.git.git(&source, ["tag", "-a", "-m", "old", "late", "HEAD~1"]);
        let (ours, theirs) = (world.path("ours"), world.path("theirs"));
        for arguments in [["-c", version, "fetch"].as_slice(), &["-c", version, "ls-remote"]] {
            let (left, right) = (
                world.rgit(&ours, arguments).exits(0),
                world.git(&theirs, arguments).exits(0),
            );
            assert_eq!(
                (left.stdout, left.stderr),
                (right.stdout, right.stderr),
                "{arguments:?}"
            );
        }
        same(&world, &ours, &theirs);
        let listed = |ran: crate::world::Ran| ran.exits(0).stdout;
        let url = file_url(&world, "the source");
        assert_eq!(
            listed(world.rgit(here, ["ls-remote", &url])),
            listed(world.git(here, ["ls-remote", &url]))
        );
    }
}

#[test]
fn what_is_refused() {
    let world = zoo();
    let here = world.directory.path();
    let url = file_url(&world, "the source");
    for from in ["the source", &url] {
        world
            .rgit(here, ["-c", "protocol.file.allow=never", "clone", from, "ours"])
            .exits(128)
            .says("transport 'file' not allowed");
        assert!(!world.path("ours").exists());
    }
    std::fs::create_dir(world.path("empty")).unwrap();
    world
        .rgit(here, ["clone", "empty", "ours"])
        .exits(128)
        .says("does not appear to be a git repository");
    assert!(!world.path("ours").exists());
}
