//! One round trip less: what a server can do is asked once.

use rgit_testkit::reply::{Reply, When};

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
    for surprise in [
        Reply::text(404, "gone"),
        Reply::status(503),
        Reply::html(200, "<html>log in</html>"),
        Reply::hang_up(),
    ] {
        warm.list(&url).exits(0);
        warm.world.server.clear_log();
        warm.list(&url).exits(0);
        assert_eq!(seen(&warm, "GET"), 0, "it is remembered");
        // Two: a dying connection's request may be repeated.
        warm.world.server.respond(When::post().times(2), surprise);
        warm.list(&url).exits(128);
        warm.world.server.clear_rules();
        warm.list(&url).exits(0);
        assert_eq!(seen(&warm, "GET"), 1, "it was forgotten");
    }
}
