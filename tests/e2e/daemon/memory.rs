//! One round trip less: what a server can do is asked once.

use std::fs;

use rgit_testkit::{
    history,
    reply::{Reply, When},
    repository::ObjectFormat,
};

use super::Warm;

/// How many requests of this method the server saw since the last call.
fn seen(warm: &Warm, method: &str) -> usize {
    warm.world
        .server
        .requests()
        .iter()
        .filter(|request| request.method == method)
        .count()
}

#[test]
fn a_warm_ls_remote_is_one_post() {
    let warm = Warm::new();
    let url = warm.repository();
    let first = warm.list(&url).exits(0).stdout;
    assert_eq!((seen(&warm, "GET"), seen(&warm, "POST")), (1, 1));
    for turn in 2..5 {
        assert_eq!(warm.list(&url).exits(0).stdout, first);
        assert_eq!((seen(&warm, "GET"), seen(&warm, "POST")), (1, turn));
    }
    assert_eq!(warm.world.server.connections().len(), 1);
    // Refs are never remembered.
    warm.rgit(
        &warm.world.path("source"),
        &["push", "-q", &url, "main:refs/heads/other"],
    )
    .exits(0);
    assert!(warm.list(&url).exits(0).stdout.contains("refs/heads/other"));
    // Nor what older versions answer, which is refs.
    let gets = seen(&warm, "GET");
    for _ in 0..2 {
        let old = ["-c", "protocol.version=0", "ls-remote", &url];
        warm.rgit(warm.world.directory.path(), &old).exits(0);
    }
    assert_eq!(seen(&warm, "GET"), gets + 2);
}

#[test]
fn whoever_says_something_else_is_asked_anew() {
    let warm = Warm::new();
    let url = warm.repository();
    warm.list(&url).exits(0);
    let directory = warm.world.directory.path().to_owned();
    for (header, gets) in [("X-A: 1", 2), ("X-A: 2", 3), ("X-A: 1", 3)] {
        let setting = format!("http.extraHeader={header}");
        warm.rgit(&directory, &["-c", &setting, "ls-remote", &url]).exits(0);
        assert_eq!(seen(&warm, "GET"), gets, "{header}");
    }
}

#[test]
fn a_surprise_makes_it_ask_again() {
    let warm = Warm::new();
    let url = warm.repository();
    // What says that the server offers something else makes the command itself ask again.
    for (surprise, gets) in [
        (Reply::text(404, "gone"), 1),
        (Reply::status(503), 0),
        (Reply::html(200, "<html>log in</html>"), 1),
        (Reply::hang_up(), 0),
    ] {
        warm.list(&url).exits(0);
        warm.world.server.clear_log();
        warm.list(&url).exits(0);
        assert_eq!(seen(&warm, "GET"), 0, "it is remembered");
        // Two: a dying connection's request may be repeated.
        warm.world.server.respond(When::post().times(2), surprise);
        warm.list(&url).exits(128);
        assert_eq!(seen(&warm, "GET"), gets);
        warm.world.server.clear_rules();
        warm.list(&url).exits(0);
        assert_eq!(seen(&warm, "GET"), gets + 1, "it was forgotten");
    }
}

/// What a server of protocol version 0 answers a discovery with.
fn old_advertisement(warm: &Warm) -> Reply {
    let repository = warm.world.server.root().join("r.git");
    let mut command = warm.world.git.program("git", &repository);
    let listed = command
        .args(["upload-pack", "--stateless-rpc", "--advertise-refs", "."])
        .env_remove("GIT_PROTOCOL")
        .output()
        .expect("git starts");
    let banner = b"001e# service=git-upload-pack\n0000".to_vec();
    Reply::status(200)
        .header("content-type", "application/x-git-upload-pack-advertisement")
        .body([banner, listed.stdout].concat())
}

#[test]
fn a_server_that_speaks_an_older_version_by_now_is_asked_again_by_the_same_command() {
    let result = |body: &'static str| {
        Reply::status(200)
            .header("content-type", "application/x-git-upload-pack-result")
            .body(body)
    };
    for refusal in [
        Reply::text(415, "what is that?"),
        Reply::text(400, "bad request"),
        Reply::html(200, "<html>?</html>"),
        // As git's own upload-pack does: it dies of what it doesn't know, before or after it said so.
        result(""),
        result("002bERR expected to get object ID, not that"),
    ] {
        let warm = Warm::new();
        let url = warm.repository();
        let expected = warm.list(&url).exits(0).stdout;
        warm.world.server.clear_log();
        warm.world.server.respond(When::get(), old_advertisement(&warm));
        warm.world.server.respond(When::post(), refusal);
        for turn in 1..3 {
            assert_eq!(warm.list(&url).exits(0).stdout, expected);
            assert_eq!((seen(&warm, "POST"), seen(&warm, "GET")), (1, turn));
        }
    }
}

#[test]
fn a_repository_made_anew_in_another_format_is_asked_again_by_the_same_command() {
    let warm = Warm::new();
    let url = warm.repository();
    let directory = warm.world.directory.path().to_owned();
    for arguments in [
        vec!["ls-remote", &url],
        vec!["clone", "-q", "--single-branch", &url, "there"],
    ] {
        for format in [ObjectFormat::Sha1, ObjectFormat::Sha256] {
            fs::remove_dir_all(warm.world.server.root().join("r.git")).expect("it goes");
            let remote = warm.world.server.create_as("r.git", format, &[]);
            let source = warm.world.path("anew");
            history::small_as(&warm.world.git, &source, format, 1);
            let remote = remote.to_str().expect("UTF-8");
            warm.world.git.git(&source, ["push", "-q", remote, "main"]);
            warm.rgit(&directory, &arguments).exits(0);
            fs::remove_dir_all(directory.join("there")).ok();
            fs::remove_dir_all(source).expect("it goes");
        }
    }
}
