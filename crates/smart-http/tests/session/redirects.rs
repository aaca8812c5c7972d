//! Redirects: what is followed, what moves the base, and what does not come along.

use rgit_smart_http::{Error, FollowRedirects, Options, Service};
use rgit_transport::Body;

use crate::script::*;

const TAIL: &str = "/info/refs?service=git-receive-pack";

fn ask(base: &str) -> String {
    format!("GET {base}{TAIL}")
}

fn moved(base: &str, status: u16, location: &str) -> Step {
    step(&ask(base), status, &[("location", location)], "<a>moved</a>")
}

fn advertised(base: &str) -> Step {
    step(&ask(base), 200, &[("content-type", RECEIVE)], "0000")
}

fn refusal(
    url: &str,
    steps: impl IntoIterator<Item = Step>,
    set: impl FnOnce(&mut Options),
) -> (Option<String>, String) {
    let script = Script::new(steps);
    let mut session = session_with(&script, url, set, &Diary::with([("me", "hunter2")]));
    let error = session.discover(Service::ReceivePack, None).unwrap_err();
    script.seen();
    assert_eq!(session.base_url(), session.url(), "a refused redirect moves nothing");
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    match error {
        Error::Redirect { to, reason, .. } => (to, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_redirect_of_a_discovery_moves_the_base() {
    for status in [301, 302, 303, 307, 308] {
        let script = Script::new([
            moved("http://h/r", status, &format!("/s{TAIL}")),
            moved("http://h/s", status, &format!("https://o:8443/t{TAIL}")),
            advertised("https://o:8443/t"),
            step(
                "POST https://o:8443/t/git-receive-pack",
                200,
                &[("content-type", RECEIVED)],
                "0000",
            ),
            advertised("https://o:8443/t"),
        ]);
        let mut session = session(&script, "http://h/r");
        assert!(session.discover(Service::ReceivePack, None).unwrap().redirected);
        assert_eq!((session.url(), session.base_url()), ("http://h/r", "https://o:8443/t"));
        session.post(Service::ReceivePack, None, Body::full("x")).unwrap();
        assert!(!session.discover(Service::ReceivePack, None).unwrap().redirected);
        script.seen();
    }
}

#[test]
fn a_base_with_a_query_is_rerooted_by_its_own_tail() {
    let script = Script::new([
        step(
            "GET http://h/cgi?r=a/info/refs&service=git-receive-pack",
            302,
            &[("location", "cgi2?r=b/info/refs&service=git-receive-pack")],
            "",
        ),
        step(
            "GET http://h/cgi2?r=b/info/refs&service=git-receive-pack",
            200,
            &[("content-type", RECEIVE)],
            "0000",
        ),
    ]);
    let mut session = session(&script, "http://h/cgi?r=a");
    session.discover(Service::ReceivePack, None).unwrap();
    assert_eq!(session.base_url(), "http://h/cgi2?r=b");
    script.seen();
}

#[test]
fn a_redirects_base_keeps_its_bytes() {
    let script = Script::new([
        moved("http://h/r", 302, &format!("/a//%2f/{TAIL}")),
        advertised("http://h/a//%2f/"),
        step(
            "POST http://h/a//%2f//git-receive-pack",
            200,
            &[("content-type", RECEIVED)],
            "0000",
        ),
    ]);
    let mut session = session(&script, "http://h/r");
    session.discover(Service::ReceivePack, None).unwrap();
    session.post(Service::ReceivePack, None, Body::full("x")).unwrap();
    script.seen();
}

#[test]
fn another_tail_is_fatal_as_in_git_and_nobody_is_asked() {
    for last in [
        step("GET https://h/login", 200, &[("content-type", "text/html")], "<html>"),
        step("GET https://h/login", 401, &[("www-authenticate", BASIC)], ""),
    ] {
        let (to, reason) = refusal("https://h/r", [moved("https://h/r", 302, "/login"), last], |_| {});
        assert_eq!(to.as_deref(), Some("https://h/login"));
        assert!(
            reason.starts_with("unable to update url base from redirection"),
            "{reason}"
        );
    }
}

#[test]
fn what_redirects_to_no_git_server_moves_nothing() {
    let script = Script::new([
        moved("https://h/r", 302, &format!("https://o/r{TAIL}")),
        step(&ask("https://o/r"), 200, &[("content-type", "text/html")], "<html>"),
    ]);
    let mut session = session(&script, "https://h/r");
    let error = session.discover(Service::ReceivePack, None).unwrap_err();
    assert!(
        matches!(&error, Error::NotGit { url, .. } if url.starts_with("https://o/r")),
        "{error:?}"
    );
    assert_eq!(session.base_url(), "https://h/r");
}

#[test]
fn circles_end_after_twenty_hops() {
    let (_, reason) = refusal(
        "https://h/r",
        (0..21).map(|_| moved("https://h/r", 302, &format!("/r{TAIL}"))),
        |_| {},
    );
    assert!(reason.contains("20"), "{reason}");
    let mut steps: Vec<Step> = (0..20)
        .map(|_| moved("https://h/r", 302, &format!("/r{TAIL}")))
        .collect();
    steps.push(advertised("https://h/r"));
    let script = Script::new(steps);
    session(&script, "https://h/r")
        .discover(Service::ReceivePack, None)
        .unwrap();
    script.seen();
}

#[test]
fn never_means_never_and_https_stays_https() {
    let never = |options: &mut Options| options.follow_redirects = FollowRedirects::Never;
    let (to, reason) = refusal("https://h/r", [moved("https://h/r", 301, &format!("/s{TAIL}"))], never);
    assert_eq!(to, Some(format!("https://h/s{TAIL}")));
    assert!(reason.contains("http.followRedirects=false"), "{reason}");

    let always = |options: &mut Options| options.follow_redirects = FollowRedirects::Always;
    let (_, reason) = refusal(
        "https://h/r",
        [moved("https://h/r", 301, &format!("http://h/r{TAIL}"))],
        always,
    );
    assert!(reason.contains("from https to http"), "{reason}");

    let (to, _) = refusal(
        "https://h/r",
        [moved("https://h/r", 301, "ssh://me:hunter2@h/r")],
        |_| {},
    );
    assert_eq!(to.as_deref(), Some("ssh://h/r"));
}

#[test]
fn credentials_and_extra_headers_stay_with_their_origin() {
    let asks = |base: &str| step(&ask(base), 401, &[("www-authenticate", BASIC)], "");
    let diary = Diary::with([("other", "pw")]);
    let script = Script::new([
        asks("https://h/r"),
        moved("https://h/r", 302, &format!("https://evil:pw@h:8443/r{TAIL}")),
        asks("https://h:8443/r"),
        advertised("https://h:8443/r"),
        step(
            "POST https://h:8443/r/git-receive-pack",
            200,
            &[("content-type", RECEIVED)],
            "0000",
        ),
    ]);
    let mut session = session_with(
        &script,
        "https://me:hunter2@h/r",
        |options| options.extra_headers = vec!["X-Token: hunter3".into(), "Cookie: a=hunter3".into()],
        &diary,
    );
    session.discover(Service::ReceivePack, None).unwrap();
    session.post(Service::ReceivePack, None, Body::full("x")).unwrap();
    let seen = script.seen();
    for (at, seen) in seen.iter().enumerate() {
        let first_origin = at < 2;
        assert_eq!(
            seen.header("x-token"),
            first_origin.then_some("hunter3"),
            "request {at}"
        );
        assert_eq!(
            seen.header("cookie"),
            first_origin.then_some("a=hunter3"),
            "request {at}"
        );
    }
    let sent: Vec<_> = seen.iter().map(|seen| seen.header("authorization")).collect();
    let (me, other) = (Some("Basic bWU6aHVudGVyMg=="), Some("Basic b3RoZXI6cHc="));
    assert_eq!(sent, [None, me, None, other, other]);
    let book = diary.0.lock().unwrap();
    assert_eq!(
        (book.asked[0].host.as_str(), &book.asked[0].username),
        ("h:8443", &None)
    );
    assert_eq!(book.approved, ["h:8443 other:pw"]);
}

#[test]
fn the_same_origin_keeps_its_credentials() {
    let diary = Diary::with([("me", "hunter2")]);
    let script = Script::new([
        step(&ask("https://h/r"), 401, &[("www-authenticate", BASIC)], ""),
        moved("https://h/r", 302, &format!("https://H:443/s{TAIL}")),
        advertised("https://H:443/s"),
    ]);
    session_with(&script, "https://h/r", |_| {}, &diary)
        .discover(Service::ReceivePack, None)
        .unwrap();
    assert!(script.seen()[2].header("authorization").is_some());
    assert_eq!(diary.0.lock().unwrap().asked.len(), 1);
}

#[test]
fn posts_are_redirected_only_when_always_and_replayable() {
    const POST: &str = "POST https://h/r/git-receive-pack";
    let away = || step(POST, 307, &[("location", "https://o/x/git-receive-pack")], "").taking(3);
    let script = Script::new([away()]);
    let error = session(&script, "https://h/r")
        .post(Service::ReceivePack, None, Body::full("12345"))
        .unwrap_err();
    assert!(
        matches!(&error, Error::Redirect { reason, .. } if reason.contains("initial")),
        "{error:?}"
    );

    let always = |options: &mut Options| {
        options.follow_redirects = FollowRedirects::Always;
        options.post_buffer = 2;
    };
    for status in [301, 302, 303, 307, 308] {
        let script = Script::new([
            step(POST, status, &[("location", "https://o/x/git-receive-pack")], "").taking(3),
            step(
                "POST https://o/x/git-receive-pack",
                401,
                &[("www-authenticate", BASIC)],
                "",
            ),
            step(
                "POST https://o/x/git-receive-pack",
                200,
                &[("content-type", RECEIVED)],
                "0000",
            ),
        ]);
        let diary = Diary::with([("me", "hunter2")]);
        let mut session = session_with(&script, "https://h/r", always, &diary);
        session.post(Service::ReceivePack, None, Body::full("12345")).unwrap();
        assert_eq!(session.base_url(), "https://h/r");
        assert_eq!(script.seen()[2].body, b"12345");
        assert_eq!(diary.0.lock().unwrap().asked[0].path.as_ref().unwrap(), "x");
    }

    let script = Script::new([away()]);
    let mut session = session_with(&script, "https://h/r", always, &Diary::default());
    let error = session
        .post(Service::ReceivePack, None, Body::stream(None, &b"12345"[..]))
        .unwrap_err();
    assert!(
        matches!(&error, Error::Redirect { reason, .. } if reason.contains("read once")),
        "{error:?}"
    );
}
