//! How what was fetched lies in the object database: loose or packed as git leaves it, and on the disk before a ref leads to it.

use std::{fs, path::Path, process::Command};

use rgit_testkit::history;

use crate::{
    fetch::Twins,
    world::{Ran, World, ran},
};

/// The lines of `git count-objects -v` that tell loose objects and packs.
fn counted(world: &World, repository: &Path) -> Vec<String> {
    let text = world.git.text(repository, ["count-objects", "-v"]);
    let lines = text.lines().map(ToOwned::to_owned);
    lines
        .filter(|line| {
            ["count:", "packs:", "garbage:"]
                .iter()
                .any(|start| line.starts_with(start))
        })
        .collect()
}

#[test]
fn few_objects_become_loose_and_many_stay_a_pack() {
    for settings in [
        [].as_slice(),
        &[("fetch.unpackLimit", "1")],
        &[("transfer.unpackLimit", "1")],
        &[("fetch.unpackLimit", "1000"), ("transfer.unpackLimit", "1")],
        &[("fetch.unpackLimit", "-1"), ("transfer.unpackLimit", "3")],
        &[("fetch.unpackLimit", "0")],
    ] {
        let twins = Twins::new();
        for (key, value) in settings {
            twins.both(&["config", key, value]);
        }
        twins.same(&[]).exits(0);
        let (ours, theirs) = (counted(&twins.world, &twins.ours), counted(&twins.world, &twins.theirs));
        assert_eq!(ours, theirs, "{settings:?}");
        twins.world.git.fsck(&twins.ours);
        for entry in fs::read_dir(twins.ours.join(".git/objects/pack")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(name.starts_with("pack-") && !name.ends_with(".keep"), "{name}");
        }
    }
}

#[test]
fn a_clone_stays_a_pack() {
    let twins = Twins::new();
    let url = twins.world.server.url("r.git");
    twins
        .world
        .rgit(twins.world.directory.path(), ["clone", "-q", &url, "third"])
        .exits(0);
    let lines = counted(&twins.world, &twins.world.path("third"));
    assert_eq!(lines, ["count: 0", "packs: 1", "garbage: 0"]);
}

#[test]
fn what_cannot_be_unpacked_is_not_lost() {
    let twins = Twins::new();
    let tip = twins.world.git.text(&twins.source, ["rev-parse", "main"]);
    let in_the_way = twins.ours.join(".git/objects").join(&tip[..2]);
    assert!(!in_the_way.exists(), "{tip} is the first of its kind");
    fs::write(&in_the_way, "").unwrap();
    let refs = twins.world.git.refs(&twins.ours);
    twins.world.rgit(&twins.ours, ["fetch", "-q"]).exits(128);
    assert_eq!(refs, twins.world.git.refs(&twins.ours));
    fs::remove_file(&in_the_way).unwrap();
    twins.world.git.fsck(&twins.ours);
    twins.same(&[]).exits(0);
    twins.world.git.fsck(&twins.ours);
}

/// Run `rgit` under strace. `None` where that can't be.
fn traced(world: &World, directory: &Path, arguments: &[&str]) -> Option<(Ran, Vec<String>)> {
    let works = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    if !works.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: strace can't be used here");
        return None;
    }
    let log = world.path("trace");
    let mut command = world.git.program("strace", directory);
    command.args(["-f", "-y", "-qq", "-e", "trace=fsync,fdatasync,/rename.*,/link.*", "-o"]);
    let output = command
        .arg(&log)
        .arg(env!("CARGO_BIN_EXE_rgit"))
        .args(["--transport=h1"])
        .args(arguments)
        .output()
        .expect("strace starts");
    let text = fs::read_to_string(&log).expect("strace's log");
    Some((ran(&output), text.lines().map(ToOwned::to_owned).collect()))
}

/// Which kinds of files were flushed before the first ref moved.
fn flushed(lines: &[String]) -> Vec<&'static str> {
    let moved = lines
        .iter()
        .position(|line| line.contains("rename") && (line.contains("/refs/") || line.contains("packed-refs")))
        .expect("a ref was moved");
    let kind = |line: &String| {
        let kinds = [
            ("tmp_pack", "pack"),
            ("tmp_idx", "idx"),
            ("tmp_rev", "rev"),
            ("/objects/", "loose"),
        ];
        let named = kinds.iter().find(|(part, _)| line.contains(part));
        named.map_or("other", |(_, kind)| kind)
    };
    let synced = |line: &&String| line.contains("fsync(") || line.contains("fdatasync(");
    let mut kinds: Vec<_> = lines[..moved].iter().filter(synced).map(kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[test]
fn on_the_disk_before_refs_lead_to_it() {
    let all = ["idx", "pack", "rev"];
    for (settings, expected) in [
        (["-c", "fetch.unpackLimit=1", "-c", "core.fsync="], all.as_slice()),
        (["-c", "fetch.unpackLimit=1", "-c", "core.fsync=none"], &[]),
        (
            ["-c", "fetch.unpackLimit=1", "-c", "core.fsync=-pack-metadata"],
            &["pack"],
        ),
        (["-c", "core.fsync=loose-object", "-c", "a.b=c"], &["loose"]),
        (["-c", "core.fsyncObjectFiles=true", "-c", "a.b=c"], &["loose"]),
        (["-c", "a.b=c", "-c", "a.b=c"], &[]),
    ] {
        let twins = Twins::new();
        let arguments: Vec<_> = settings.iter().copied().chain(["fetch", "-q"]).collect();
        let Some((ran, lines)) = traced(&twins.world, &twins.ours, &arguments) else {
            return;
        };
        ran.exits(0);
        assert_eq!(flushed(&lines), expected, "{settings:?}: {lines:#?}");
    }
    let world = World::new();
    let source = world.path("source");
    history::small(&world.git, &source, 3);
    world.server.create("r.git", &[]);
    let url = world.server.url("r.git");
    world.git.git(&source, ["push", "-q", &url, "main"]);
    for (setting, expected) in [("a.b=c", all.as_slice()), ("core.fsync=none", &[])] {
        let _ = fs::remove_dir_all(world.path("ours"));
        let arguments = ["-c", setting, "clone", "-q", &url, "ours"];
        let Some((ran, lines)) = traced(&world, world.directory.path(), &arguments) else {
            return;
        };
        ran.exits(0);
        assert_eq!(flushed(&lines), expected, "{setting}: {lines:#?}");
    }
}
