//! Real repositories there and back: pushed by rgit, cloned by rgit, compared by git.

use std::path::Path;

use rgit_testkit::{history, repository::ObjectFormat};

use crate::world::World;

/// Push everything in `source` to a new repository on the server, clone that as a mirror, and compare all three.
fn there_and_back(world: &World, source: &Path, format: ObjectFormat) {
    let remote = world.server.create_as("there.git", format, &[]);
    let url = world.server.url("there.git");
    world.rgit(source, ["push", "-q", "--mirror", &url]).exits(0);
    world.git.assert_same(source, &remote);

    let back = world.path("back.git");
    world
        .rgit(world.directory.path(), ["clone", "-q", "--mirror", &url, "back.git"])
        .exits(0);
    world.git.assert_same(&remote, &back);
}

#[test]
fn this_repository_itself() {
    let world = World::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = world.path("source");
    let has_history = world.git(here, ["-c", "safe.directory=*", "rev-parse", "HEAD"]).code == Some(0);
    if has_history {
        let arguments = ["-c", "safe.directory=*", "clone", "-q", "--no-local"];
        let arguments = arguments
            .into_iter()
            .map(Into::into)
            .chain([here.into(), source.clone().into_os_string()]);
        world
            .git(world.directory.path(), arguments.collect::<Vec<std::ffi::OsString>>())
            .exits(0);
        world.git.git(&source, ["remote", "remove", "origin"]);
    } else {
        // Built from a source archive there is no history, but there are files.
        eprintln!("no history here: the files are committed once and that is sent");
        world.git.init(&source, ObjectFormat::Sha1);
        for name in ["Cargo.toml", "crates", "tests", "xtask"] {
            let copied = std::process::Command::new("cp")
                .arg("-r")
                .arg(here.join(name))
                .arg(&source)
                .status();
            assert!(copied.expect("cp starts").success());
        }
        world.git.git(&source, ["add", "."]);
        world.git.git(&source, ["commit", "-q", "-m", "files"]);
    }
    there_and_back(&world, &source, ObjectFormat::Sha1);
}

#[test]
fn an_empty_repository_in_both_directions() {
    let world = World::new();
    world.server.create("empty.git", &[]);
    let url = world.server.url("empty.git");
    let cloned = world.rgit(world.directory.path(), ["clone", &url, "work"]).exits(0);
    assert!(
        cloned.stderr.contains("You appear to have cloned an empty repository"),
        "{}",
        cloned.stderr
    );
    let work = world.path("work");
    assert_eq!(
        world.git.text(&work, ["symbolic-ref", "HEAD"]),
        world
            .git
            .text(&world.server.root().join("empty.git"), ["symbolic-ref", "HEAD"])
    );

    // Nothing to push either, in git's words and with git's exit code.
    let branch = world.git.text(&work, ["symbolic-ref", "--short", "HEAD"]);
    let ours = world.rgit(&work, ["push", "origin", &branch]);
    let theirs = world.git(&work, ["push", "origin", &branch]);
    assert_eq!(ours.code, theirs.code, "{}", ours.stderr);
    assert!(ours.stderr.contains("does not match any"), "{}", ours.stderr);

    // And the first commit goes into it.
    world.git.git(&work, ["commit", "-q", "--allow-empty", "-m", "first"]);
    world.rgit(&work, ["push", "-q", "origin", &branch]).exits(0);
    let remote = world.server.root().join("empty.git");
    assert_eq!(
        world.git.text(&remote, ["rev-parse", &branch]),
        world.git.text(&work, ["rev-parse", "HEAD"])
    );
    world.git.fsck(&remote);
}

#[test]
fn ten_thousand_refs() {
    let world = World::new();
    let source = world.path("source");
    history::small(&world.git, &source, 5);
    history::many_refs(&world.git, &source, 10_000);
    there_and_back(&world, &source, ObjectFormat::Sha1);
}

#[test]
fn merges_tags_of_everything_symlinks_submodules_and_odd_names() {
    let world = World::new();
    let source = world.path("source");
    history::zoo(&world.git, &source);
    there_and_back(&world, &source, ObjectFormat::Sha1);
}

#[test]
fn the_same_with_sha256_names() {
    let world = World::new();
    let source = world.path("source");
    history::zoo_as(&world.git, &source, ObjectFormat::Sha256);
    there_and_back(&world, &source, ObjectFormat::Sha256);
}

#[test]
fn the_same_from_loose_objects() {
    let world = World::new();
    let source = world.path("source");
    history::zoo(&world.git, &source);
    let pack_directory = source.join(".git/objects/pack");
    let moved = world.path("packs");
    std::fs::rename(&pack_directory, &moved).unwrap();
    for entry in std::fs::read_dir(&moved).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "pack") {
            let pack = std::fs::read(&path).unwrap();
            world
                .git
                .input(&source, ["unpack-objects", "-q"], move |out| out.write_all(&pack));
        }
    }
    there_and_back(&world, &source, ObjectFormat::Sha1);
}

#[test]
fn three_hundred_megabytes_that_no_compression_makes_smaller() {
    let world = World::new();
    let source = world.path("source");
    history::incompressible(&world.git, &source, 60, 5_000_000, 7);
    there_and_back(&world, &source, ObjectFormat::Sha1);
}

#[test]
fn twenty_thousand_commits_of_real_text() {
    let world = World::new();
    let source = world.path("source");
    history::text_history(&world.git, &source, 20_000);
    let commits = world.git.text(&source, ["rev-list", "--count", "--all"]);
    assert!(commits.parse::<usize>().unwrap() >= 20_000, "{commits} commits");
    there_and_back(&world, &source, ObjectFormat::Sha1);
}
