//! Passwords: from the URL, from git's credential helpers, on the discovery and on the POST; and never anywhere they don't belong.

use std::path::{Path, PathBuf};

use rgit_testkit::{
    history,
    reply::{Reply, When},
    server::Scope,
};

use crate::world::{Ran, World};

const PASSWORD: &str = "s3cret-Pa:ss";

fn guarded(scope: Scope) -> (World, PathBuf) {
    let world = World::with(|builder| builder.auth("jane", PASSWORD, scope));
    let work = world.path("work");
    history::small(&world.git, &work, 3);
    world.server.create("r.git", &[]);
    (world, work)
}

/// A helper that answers with `password` and logs what it was asked to do.
fn helper(world: &World, password: &str) -> PathBuf {
    let log = world.path("helper.log");
    let script = format!(
        "!f() {{ echo \"$1\" >> '{}'; cat > /dev/null; echo username=jane; echo password={password}; }}; f",
        log.display()
    );
    world.git.git(
        world.git.home(),
        ["config", "--global", "--replace-all", "credential.helper", &script],
    );
    log
}

fn logged(log: &Path) -> Vec<String> {
    std::fs::read_to_string(log)
        .unwrap_or_default()
        .lines()
        .map(ToOwned::to_owned)
        .collect()
}

#[track_caller]
fn no_secret(ran: &Ran) {
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains(PASSWORD) && !text.contains("s3cret"), "{text}");
    }
}

#[test]
fn a_helper_is_asked_once_and_told_that_it_worked() {
    for scope in [Scope::All, Scope::PushOnly] {
        let (world, work) = guarded(scope);
        let log = helper(&world, PASSWORD);
        let url = world.server.url("r.git");
        let ran = world.rgit(&work, ["push", &url, "main"]).exits(0);
        no_secret(&ran);
        assert_eq!(logged(&log), ["get", "store"], "{scope:?}");
        let statuses: Vec<_> = world
            .server
            .requests()
            .iter()
            .map(|request| (request.method.clone(), request.status))
            .collect();
        let expected = [("GET", Some(401)), ("GET", Some(200)), ("POST", Some(200))];
        assert_eq!(
            statuses,
            expected.map(|(method, status)| (method.to_owned(), status)),
            "{scope:?}"
        );
    }
}

#[test]
fn a_wrong_password_is_forgotten() {
    let (world, work) = guarded(Scope::All);
    let log = helper(&world, "wrong");
    let ran = world
        .rgit(&work, ["push", &world.server.url("r.git"), "main"])
        .exits(128);
    assert!(ran.stderr.contains("Authentication failed"), "{}", ran.stderr);
    assert_eq!(logged(&log), ["get", "erase"]);
    assert_eq!(world.git.refs(&world.server.root().join("r.git")), Vec::<String>::new());
}

#[test]
fn the_post_alone_wants_a_password_and_the_pack_is_sent_again() {
    let (world, work) = guarded(Scope::PostOnly);
    helper(&world, PASSWORD);
    let big = world.path("big");
    history::incompressible(&world.git, &big, 8, 1_000_000, 11);
    let url = world.server.url("r.git");
    world.rgit(&big, ["push", "-q", &url, "main"]).exits(0);
    world.git.fsck(&world.server.root().join("r.git"));
    let tip = world.git.text(&big, ["rev-parse", "main"]);
    assert_eq!(
        world
            .git
            .text(&world.server.root().join("r.git"), ["rev-parse", "main"]),
        tip
    );
    // Fetching too.
    world.rgit(&work, ["fetch", "-q", &url, "main:refs/heads/big"]).exits(0);
}

#[test]
fn user_and_password_from_the_url_are_used_and_never_shown() {
    let (world, work) = guarded(Scope::All);
    let plain = world.server.url("r.git");
    let url = plain.replacen("https://", "https://jane:s3cret-Pa%3Ass@", 1);
    let ran = world.rgit(&work, ["push", &url, "main"]).exits(0);
    no_secret(&ran);
    assert!(ran.stderr.contains(&format!("To {plain}")), "{}", ran.stderr);
    let ran = world
        .rgit(&work, ["fetch", "-v", &url, "main:refs/heads/copy"])
        .exits(0);
    no_secret(&ran);
    let ran = world
        .rgit(&work, ["push", &url.replace("s3cret", "wrong"), "main"])
        .exits(128);
    assert!(!ran.stderr.contains("wrong"), "{}", ran.stderr);
}

#[test]
fn without_any_way_to_ask_the_error_says_so() {
    let (world, work) = guarded(Scope::All);
    let ran = world
        .rgit(&work, ["push", &world.server.url("r.git"), "main"])
        .exits(128);
    assert!(ran.stderr.contains("fatal: "), "{}", ran.stderr);
    assert_eq!(world.git.refs(&world.server.root().join("r.git")), Vec::<String>::new());
}

#[test]
fn a_redirect_to_another_host_gets_neither_password_nor_extra_header() {
    let (world, work) = guarded(Scope::All);
    let elsewhere = World::new();
    elsewhere.server.create("r.git", &[]);
    let both = world.path("both.pem");
    let mut cas = std::fs::read(&world.ca).unwrap();
    cas.extend(std::fs::read(&elsewhere.ca).unwrap());
    std::fs::write(&both, cas).unwrap();
    let target = format!("{}/info/refs?service=git-receive-pack", elsewhere.server.url("r.git"));
    world
        .server
        .respond(When::get().query("git-receive-pack"), Reply::redirect(302, &target));
    let url = world
        .server
        .url("r.git")
        .replacen("https://", "https://jane:s3cret-Pa%3Ass@", 1);
    let output = world
        .command(&work)
        .env("GIT_SSL_CAINFO", &both)
        .args(["-c", "http.extraHeader=X-Token: s3cret", "push", "-q", &url, "main"])
        .output()
        .unwrap();
    let ran = crate::world::ran(&output).exits(0);
    no_secret(&ran);
    assert_eq!(
        elsewhere
            .git
            .text(&elsewhere.server.root().join("r.git"), ["rev-parse", "main"]),
        world.git.text(&work, ["rev-parse", "main"])
    );
    assert!(
        world.server.requests()[0].header("x-token").is_some(),
        "the host it is configured for gets it"
    );
    for request in elsewhere.server.requests() {
        assert!(
            request.header("x-token").is_none() && request.header("authorization").is_none(),
            "{request:?}"
        );
    }
}

#[test]
fn configured_headers_go_along() {
    let world = World::new();
    let work = world.path("work");
    history::small(&world.git, &work, 1);
    world.server.create("r.git", &[]);
    let url = world.server.url("r.git");
    let arguments = [
        "-c",
        "http.extraHeader=X-One: 1",
        "-c",
        "http.extraHeader=X-Two: 2",
        "push",
        "-q",
        &url,
        "main",
    ];
    world.rgit(&work, arguments).exits(0);
    for request in world.server.requests() {
        assert_eq!(
            (request.header("x-one"), request.header("x-two")),
            (Some("1"), Some("2"))
        );
        assert!(
            request
                .header("user-agent")
                .is_some_and(|agent| agent.starts_with("git/"))
        );
    }
}

#[test]
fn a_password_in_the_url_is_not_written_into_reflogs() {
    let (world, work) = guarded(Scope::All);
    helper(&world, PASSWORD);
    world
        .rgit(&work, ["push", "-q", &world.server.url("r.git"), "main"])
        .exits(0);
    let url = world
        .server
        .url("r.git")
        .replace("https://", "https://jane:s3cret-Pa%3Ass@");
    world
        .rgit(world.directory.path(), ["clone", "-q", &url, "ours"])
        .exits(0);
    world
        .rgit(&world.path("ours"), ["fetch", "-q", &url, "main:refs/heads/copy"])
        .exits(0);
    let logs = world.path("ours/.git/logs");
    let found = std::process::Command::new("grep")
        .args(["-r", "s3cret"])
        .arg(&logs)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    let copy = std::fs::read_to_string(logs.join("refs/heads/copy")).unwrap();
    assert!(copy.contains("fetch -q https://127.0.0.1"), "{copy}");
}
