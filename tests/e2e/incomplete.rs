//! A server that leaves objects out of a pack: no ref may lead to history with holes, now or by a later fetch.

use std::path::{Path, PathBuf};

use rgit_testkit::{
    history,
    reply::{Reply, When},
};

use crate::world::World;

/// A `packfile` section (gitprotocol-v2, "fetch") with a pack of `objects`, by names and as they are in `source`.
fn answer(world: &World, source: &Path, objects: &str) -> Vec<u8> {
    let pack = world
        .git
        .input(source, ["pack-objects", "-q", "--stdout"], |stdin| {
            stdin.write_all(objects.as_bytes())
        })
        .stdout;
    assert!(pack.len() < 60_000);
    let line = |data: &[u8]| [format!("{:04x}", data.len() + 4).as_bytes(), data].concat();
    [
        line(b"packfile\n"),
        line(&[b"\x01", pack.as_slice()].concat()),
        b"0000".to_vec(),
    ]
    .concat()
}

/// Names of all objects that `range` adds, but for those that `without` is in the name of.
fn objects(world: &World, source: &Path, range: &str, without: &str) -> String {
    world
        .git
        .text(source, ["rev-list", "--objects", range])
        .lines()
        .filter_map(|line| line.split(' ').next().filter(|id| *id != without))
        .flat_map(|id| [id, "\n"])
        .collect()
}

fn doctored(world: &World, body: Vec<u8>) {
    world.server.clear_rules();
    world.server.respond(
        // The first POST lists refs.
        When::post().skip(1),
        Reply::status(200)
            .header("content-type", "application/x-git-upload-pack-result")
            .body(body),
    );
}

/// A clone, `source`'s remote being three commits ahead of it: world, source, clone.
fn behind() -> (World, PathBuf, PathBuf) {
    let world = World::new();
    let source = world.path("source");
    history::small(&world.git, &source, 6);
    world.server.create("r.git", &[]);
    let url = world.server.url("r.git");
    world.git.git(&source, ["push", "-q", &url, "main~3:refs/heads/main"]);
    let ours = world.path("ours");
    world.git.git(world.directory.path(), ["clone", "-q", &url, "ours"]);
    world.git.git(&source, ["push", "-q", &url, "main"]);
    (world, source, ours)
}

#[test]
fn a_pack_without_a_blob_a_tree_or_a_commit() {
    let (world, source, ours) = behind();
    let file = world.git.text(&source, ["ls-tree", "--name-only", "main"]);
    let file = file.lines().next().expect("a file").to_owned();
    let changed = world.git.text(&source, ["diff", "--name-only", "main~1", "main~2"]);
    let changed = changed.lines().next().unwrap_or(&file).to_owned();
    let before = world.git.refs(&ours);
    let packs = |directory: &Path| std::fs::read_dir(directory.join(".git/objects/pack")).unwrap().count();
    let packs_before = packs(&ours);
    for what in [
        format!("main~1:{changed}"),
        "main~1^{tree}".to_owned(),
        "main~1".to_owned(),
    ] {
        let missing = world.git.text(&source, ["rev-parse", &what]);
        let missing = missing.trim();
        doctored(
            &world,
            answer(&world, &source, &objects(&world, &source, "main~3..main", missing)),
        );
        let ran = world
            .rgit(&ours, ["fetch"])
            .exits(128)
            .says("did not send all necessary objects");
        assert!(ran.stderr.contains(missing), "{what}: {}", ran.stderr);
        assert_eq!(before, world.git.refs(&ours), "{what}");
        assert_eq!(packs_before, packs(&ours), "{what}: the pack is gone again");
    }
    world.server.clear_rules();
    world.rgit(&ours, ["fetch", "-q"]).exits(0);
    world.git.fsck(&ours);
    assert_eq!(
        world.git.text(&ours, ["rev-parse", "origin/main"]),
        world.git.text(&source, ["rev-parse", "main"])
    );
}

#[test]
fn a_clone_of_a_pack_with_a_hole() {
    let world = World::new();
    let source = world.path("source");
    history::small(&world.git, &source, 3);
    world.server.create("r.git", &[]);
    let url = world.server.url("r.git");
    world.git.git(&source, ["push", "-q", &url, "main"]);
    let listed = world
        .git
        .text(&source, ["rev-list", "--objects", "--no-object-names", "main"]);
    let objects_there: Vec<&str> = listed.lines().collect();
    assert!(objects_there.len() >= 9, "commits, trees and blobs");
    for missing in &objects_there {
        doctored(
            &world,
            answer(&world, &source, &objects(&world, &source, "main", missing)),
        );
        let ran = world
            .rgit(world.directory.path(), ["clone", "-q", "--bare", &url, "cloned"])
            .exits(128)
            .says("did not send all necessary objects");
        assert!(ran.stderr.contains(missing), "{missing}: {}", ran.stderr);
        assert!(!world.path("cloned").exists());
    }
    let blob = objects_there.last().expect("a blob");
    let body = answer(&world, &source, &objects(&world, &source, "main", blob));
    for options in [[].as_slice(), &["--mirror"], &["--single-branch"]] {
        doctored(&world, body.clone());
        let mut arguments = vec!["clone", "-q"];
        arguments.extend(options);
        arguments.extend([url.as_str(), "cloned"]);
        world
            .rgit(world.directory.path(), arguments)
            .exits(128)
            .says("did not send all necessary objects");
        assert!(!world.path("cloned").exists());
    }
}

#[test]
fn an_object_that_is_here_without_its_history_is_fetched() {
    let (world, source, ours) = behind();
    // The tip alone, as a broken repair might have left it.
    let commit = world.git.git(&source, ["cat-file", "commit", "main"]).stdout;
    world
        .git
        .input(&ours, ["hash-object", "-t", "commit", "-w", "--stdin"], |stdin| {
            stdin.write_all(&commit)
        });
    world.rgit(&ours, ["fetch", "-q"]).exits(0);
    world.git.fsck(&ours);
    assert_eq!(
        world.git.text(&ours, ["rev-list", "--count", "origin/main"]),
        world.git.text(&source, ["rev-list", "--count", "main"])
    );
}
