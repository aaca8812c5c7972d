//! Ctrl-C and closed pipes: rgit ends as git does, and leaves nothing half done.

use std::{
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rgit_testkit::{
    history,
    reply::{Gate, Reply, When},
};

use crate::world::World;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server whose `method` answers for `path` stop in the middle, once `skip` have passed.
fn stalling(world: &World, when: When, bytes: u64) -> Gate {
    let gate = Gate::new();
    world.server.clear_rules();
    world.server.respond(when, Reply::backend().stall_after(bytes, &gate));
    gate
}

fn start(world: &World, directory: &Path, arguments: &[&str]) -> Child {
    world
        .command(directory)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("rgit starts")
}

/// Send `signal` once the server holds the answer back; the child must die of it, and say nothing.
#[track_caller]
fn stop(child: Child, gate: &Gate, signal: i32) {
    assert!(gate.wait_for(1, PATIENCE), "the server was asked");
    let sent = Command::new("kill")
        .args([format!("-{signal}"), child.id().to_string()])
        .status();
    assert!(sent.expect("kill starts").success());
    let output = child.wait_with_output().expect("the child ends");
    gate.open();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.signal(), Some(signal), "{said}");
    assert!(!said.contains("fatal"), "{said}");
}

fn world_with_history() -> (World, String) {
    let world = World::new();
    let source = world.path("source");
    history::small(&world.git, &source, 40);
    world.server.create("r.git", &[]);
    let url = world.server.url("r.git");
    world.git.git(&source, ["push", "-q", &url, "main"]);
    (world, url)
}

#[test]
fn a_clone_leaves_nothing() {
    let (world, url) = world_with_history();
    for signal in [2, 15, 1] {
        for there in [false, true] {
            let gate = stalling(&world, When::post().skip(1), 600);
            if there {
                std::fs::create_dir_all(world.path("ours")).unwrap();
            }
            stop(
                start(&world, world.directory.path(), &["clone", "-q", &url, "ours"]),
                &gate,
                signal,
            );
            if there {
                assert_eq!(std::fs::read_dir(world.path("ours")).unwrap().count(), 0);
                std::fs::remove_dir(world.path("ours")).unwrap();
            }
            assert!(!world.path("ours").exists());
        }
    }
}

#[test]
fn a_fetch_leaves_refs_and_packs_as_they_were() {
    let (world, url) = world_with_history();
    world.git.git(world.directory.path(), ["clone", "-q", &url, "ours"]);
    let ours = world.path("ours");
    let source = world.path("source");
    for n in 0..20 {
        history::add_commit(&world.git, &source, &format!("more {n}"));
    }
    world.git.git(&source, ["push", "-q", &url, "main"]);
    let before = world.git.refs(&ours);
    let files = || {
        let mut names: Vec<_> = std::fs::read_dir(ours.join(".git/objects/pack"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let packs = files();
    let gate = stalling(&world, When::post().skip(1), 600);
    stop(start(&world, &ours, &["fetch", "-q"]), &gate, 2);
    assert_eq!(before, world.git.refs(&ours));
    assert_eq!(packs, files());
    world.git.fsck(&ours);
    world.rgit(&ours, ["fetch", "-q"]).exits(0);
}

#[test]
fn a_push_leaves_both_sides_whole() {
    let (world, url) = world_with_history();
    let source = world.path("source");
    let remote = world.server.root().join("r.git");
    history::add_commit(&world.git, &source, "more");
    let gate = Gate::new();
    world.server.clear_rules();
    world.server.respond(When::post(), Reply::backend().gate(&gate));
    stop(start(&world, &source, &["push", "-q", &url, "main"]), &gate, 2);
    world.git.fsck(&source);
    world.git.fsck(&remote);
    world.server.clear_rules();
    world.rgit(&source, ["push", "-q", &url, "main"]).exits(0);
}

#[test]
fn a_reader_that_wants_no_more_is_no_error() {
    let (world, url) = world_with_history();
    for arguments in [
        ["ls-remote", &url].as_slice(),
        &["ls-remote", "--get-url", &url],
        &["completions", "bash"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = world
            .command(world.directory.path())
            .args(arguments)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .expect("rgit starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.signal(), said.as_str()), (Some(13), ""), "{arguments:?}");
    }
}

#[test]
fn a_closed_standard_error_does_not_stop_the_work() {
    let (world, url) = world_with_history();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = world
        .command(world.directory.path())
        .args(["clone", &url, "ours"])
        .stderr(writer)
        .status()
        .expect("rgit starts");
    assert_eq!(status.code(), Some(0));
    world.git.fsck(&world.path("ours"));
}
