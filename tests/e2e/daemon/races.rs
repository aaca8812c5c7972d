//! Many at once, and a daemon that goes in the middle of something.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    time::Duration,
};

use rgit_testkit::{
    history,
    reply::{Gate, Reply, When},
    server::KeepAlive,
};

use super::{PATIENCE, Warm, eventually, is_running, kill};
use crate::world::ran;

#[test]
fn of_many_who_race_one_starts_the_daemon() {
    let warm = Warm::new();
    let url = warm.repository();
    let children: Vec<_> = (0..32)
        .map(|_| warm.begin(warm.world.directory.path(), &["-v", "ls-remote", &url]))
        .collect();
    let mut said = Vec::new();
    for child in children {
        let ran = ran(&child.wait_with_output().expect("it ends")).exits(0);
        assert!(!ran.stderr.contains("No daemon"), "{}", ran.stderr);
        said.push(ran.stdout);
    }
    assert!(
        said.iter()
            .all(|text| *text == said[0] && text.contains("refs/heads/main"))
    );
    let log = fs::read_to_string(warm.home().join("daemon.log")).expect("a log");
    assert_eq!(log.matches("serving").count(), 1, "{log}");
    assert!(warm.status()["requests"].as_u64() >= Some(32), "{}", warm.status());
}

#[test]
fn a_daemon_killed_in_the_middle_is_told_of_and_the_next_command_has_another() {
    let warm = Warm::new();
    let url = warm.repository();
    warm.list(&url).exits(0);
    let first = warm.pid().expect("it runs");
    let gate = Gate::new();
    warm.world
        .server
        .respond(When::post().once(), Reply::backend().stall_after(0, &gate));
    let child = warm.begin(warm.world.directory.path(), &["ls-remote", &url]);
    assert!(gate.wait_for(1, PATIENCE), "the server was asked");
    kill("-9", first);
    let ran = ran(&child.wait_with_output().expect("it ends")).exits(128);
    gate.open();
    assert!(
        ran.stderr.contains("daemon") && ran.stderr.contains("try again"),
        "{}",
        ran.stderr
    );
    assert!(warm.home().join("daemon.sock").exists(), "a stale socket");
    let next = warm.list(&url).exits(0);
    assert!(!next.stderr.contains("No daemon"), "{}", next.stderr);
    assert_ne!(warm.pid(), Some(first));
}

#[test]
fn a_push_under_way_is_finished_by_a_daemon_that_leaves() {
    let warm = Warm::new();
    let url = warm.repository();
    let source = warm.world.path("source");
    history::add_commit(&warm.world.git, &source, "one more");
    warm.list(&url).exits(0);
    let first = warm.pid().expect("it runs");
    let gate = Gate::new();
    warm.world
        .server
        .respond(When::post().once(), Reply::backend().gate(&gate));
    let child = warm.begin(&source, &["push", &url, "main"]);
    assert!(gate.wait_for(1, PATIENCE), "the server was asked");
    kill("-TERM", first);
    let socket = warm.home().join("daemon.sock");
    eventually("its socket goes", || !socket.exists());
    // Who comes now gets another, while the first one is still at work.
    warm.list(&url).exits(0);
    assert!(is_running(first));
    assert_ne!(warm.pid(), Some(first));
    gate.open();
    ran(&child.wait_with_output().expect("it ends")).exits(0);
    eventually("it goes", || !is_running(first));
    assert!(socket.exists(), "the other one's socket stays");
    warm.list(&url).exits(0);
}

#[test]
fn a_socket_that_was_deleted_costs_a_new_daemon() {
    let warm = Warm::new();
    let url = warm.repository();
    warm.list(&url).exits(0);
    let first = warm.pid().expect("it runs");
    fs::remove_file(warm.home().join("daemon.sock")).expect("it was there");
    let listed = warm.list(&url).exits(0);
    assert!(!listed.stderr.contains("No daemon"), "{}", listed.stderr);
    assert_ne!(warm.pid(), Some(first));
    // The first has no way to know; it is not to outlive its test.
    kill("-TERM", first);
    eventually("it goes", || !is_running(first));
    assert!(warm.home().join("daemon.sock").exists());
}

#[test]
fn a_stale_socket_is_cleared_away() {
    let warm = Warm::new();
    let url = warm.repository();
    fs::create_dir(warm.home()).expect("a directory");
    fs::set_permissions(warm.home(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("its mode");
    drop(UnixListener::bind(warm.home().join("daemon.sock")).expect("a socket"));
    let listed = warm.list(&url).exits(0);
    assert!(
        !listed.stderr.contains("No daemon") && warm.pid().is_some(),
        "{}",
        listed.stderr
    );
}

#[test]
fn a_daemon_makes_way_for_another_program() {
    let mut warm = Warm::new();
    let copy = warm.world.path("rgit-copy");
    fs::copy(&warm.program, &copy).expect("a copy");
    warm.program = copy.clone();
    let url = warm.repository();
    warm.list(&url).exits(0);
    let first = warm.pid().expect("it runs");
    warm.list(&url).exits(0);
    assert_eq!(warm.pid(), Some(first), "the same program has the same daemon");
    let newer = warm.world.path("rgit-newer");
    fs::copy(&copy, &newer).expect("a copy");
    fs::rename(&newer, &copy).expect("in its place");
    let listed = warm.list(&url).exits(0);
    assert!(!listed.stderr.contains("No daemon"), "{}", listed.stderr);
    assert_ne!(warm.pid(), Some(first));
    eventually("it goes", || !is_running(first));
}

#[test]
fn a_server_that_closes_each_connection_is_no_trouble() {
    // One that says so, and one that doesn't. A push that dies of the latter is its sender's to repeat, as everywhere.
    for (keep_alive, pushes) in [(KeepAlive::Off, true), (KeepAlive::Idle(Duration::ZERO), false)] {
        let warm = Warm::with(|builder| builder.keep_alive(keep_alive));
        let url = warm.repository();
        let source = warm.world.path("source");
        for turn in 0..5 {
            if pushes {
                history::add_commit(&warm.world.git, &source, &format!("turn {turn}"));
                warm.rgit(&source, &["push", "-q", &url, "main"]).exits(0);
            }
            let head = warm.world.git(&source, ["rev-parse", "main"]).stdout;
            assert!(warm.list(&url).exits(0).stdout.contains(head.trim()));
        }
    }
}

#[test]
fn descriptors_do_not_add_up() {
    let warm = Warm::new();
    let url = warm.repository();
    let open = || {
        let pid = warm.pid().expect("it runs");
        fs::read_dir(format!("/proc/{pid}/fd"))
            .expect("its descriptors")
            .count()
    };
    warm.list(&url).exits(0);
    let few = open();
    for _ in 0..30 {
        warm.list(&url).exits(0);
    }
    eventually("clients leave nothing behind", || open() <= few + 1);
}

/// What is run inside a container from outside has a session whose leader it can't name.
#[test]
fn a_session_of_another_namespace_is_left_like_any_other() {
    let namespace = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    let warm = Warm::new();
    let inside = |script: &str| {
        let mut command = warm.world.git.program("unshare", warm.world.directory.path());
        command.env("XDG_RUNTIME_DIR", warm.world.directory.path());
        command
            .args(namespace)
            .args(["sh", "-c", script, "sh"])
            .arg(&warm.program);
        command.output()
    };
    match inside("true") {
        Ok(output) if output.status.success() => {}
        other => {
            eprintln!("skipped: no namespace can be made here: {other:?}");
            return;
        }
    }
    let script = r#""$1" daemon start && "$1" daemon status && "$1" daemon stop"#;
    let ran = ran(&inside(script).expect("it runs")).exits(0);
    assert!(ran.stdout.contains("The daemon runs as process"), "{}", ran.stdout);
}

#[test]
fn the_last_words_of_a_daemon_that_cannot_serve_are_passed_on() {
    let warm = Warm::new();
    fs::create_dir(warm.home()).expect("a directory");
    fs::set_permissions(warm.home(), fs::Permissions::from_mode(0o700)).expect("its mode");
    fs::create_dir(warm.home().join("daemon.log")).expect("what can't be written to");
    ran(&warm.daemon(&["start"]))
        .exits(128)
        .says("could not start the daemon")
        .says("daemon.log");
    assert!(!warm.home().join("daemon.sock").exists());
}
