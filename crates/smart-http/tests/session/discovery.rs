//! What a discovery asks, and what it takes for an answer.

use rgit_smart_http::{Error, Service};
use rgit_transport::Rememberable;

use crate::script::*;

const ASK: &str = "GET https://h/r.git/info/refs?service=git-upload-pack";

fn failure(step: Step) -> Error {
    let script = Script::new([step]);
    let error = session(&script, "https://me:hunter2@h/r.git")
        .discover(Service::UploadPack, None)
        .unwrap_err();
    script.seen();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    error
}

#[test]
fn asks_as_git_does_and_gives_every_byte() {
    let script = Script::new([step(
        ASK,
        200,
        &[("content-type", "Application/X-Git-Upload-Pack-Advertisement; charset=x")],
        "001e# service=git-upload-pack\n0000rest",
    )]);
    let mut session = session_with(
        &script,
        "https://h/r.git/",
        |options| options.accept_language = Some("de, *;q=0.9".into()),
        &Diary::default(),
    );
    let discovery = session.discover(Service::UploadPack, Some("version=2")).unwrap();
    assert!(!discovery.redirected);
    assert_eq!(discovery.wire.unwrap().protocol, http::Version::HTTP_11);
    assert_eq!(text(discovery), "001e# service=git-upload-pack\n0000rest");
    let [seen] = &script.seen()[..] else {
        panic!("one request")
    };
    assert_eq!((seen.kind, seen.header("authorization")), ("empty", None));
    let sent: Vec<_> = seen
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    assert!(sent[0].1.starts_with("git/"));
    assert_eq!(
        sent[1..],
        [
            ("accept", "*/*"),
            ("accept-encoding", "identity"),
            ("accept-language", "de, *;q=0.9"),
            ("pragma", "no-cache"),
            ("git-protocol", "version=2"),
        ]
    );
    let [exchange] = session.exchanges() else {
        panic!("one exchange")
    };
    assert_eq!((exchange.method.as_str(), exchange.status.as_u16()), ("GET", 200));
    assert!(exchange.wire.is_some());
}

#[test]
fn refusals_carry_their_text_masked_and_bounded() {
    let error = failure(step(
        ASK,
        403,
        &[("content-type", "text/plain; charset=utf-8")],
        "no \x1b[31mway\ngo home\n",
    ));
    let Error::Status { code, text, url, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!((*code, text.as_deref()), (403, Some("no ^[[31mway\ngo home")));
    assert_eq!(url, "https://h/r.git/info/refs?service=git-upload-pack");
    assert!(
        error.to_string().contains("403 Forbidden to GET: no ^[[31mway"),
        "{error}"
    );

    let error = failure(step(ASK, 403, &[("content-type", "text/plain")], vec![b'x'; 1 << 20]));
    assert!(error.to_string().len() < 9000);

    for (status, headers) in [
        (404, &[("content-type", "text/html")][..]),
        (410, &[]),
        (500, &[("content-type", "text/plain"), ("content-encoding", "gzip")]),
        (304, &[]),
    ] {
        let error = failure(step(ASK, status, headers, "<b>secret page</b>"));
        let Error::Status { code, text: None, .. } = error else {
            panic!("{error:?}")
        };
        assert_eq!(code, status);
        assert!(error.to_string().contains(&status.to_string()) && !error.to_string().contains("secret page"));
    }
}

#[test]
fn what_is_not_git_is_told_apart() {
    let reason = |headers: &[(&'static str, &str)], body: &str| match failure(step(ASK, 200, headers, body)) {
        Error::NotGit {
            content_type,
            reason,
            url,
            ..
        } => {
            assert_eq!(url, "https://h/r.git/info/refs?service=git-upload-pack");
            (content_type, reason)
        }
        other => panic!("{other:?}"),
    };
    let (kind, why) = reason(&[("content-type", "text/html; charset=utf-8")], "<html>");
    assert_eq!(kind.as_deref(), Some("text/html"));
    assert!(why.contains("web page") && why.contains(UPLOAD), "{why}");
    assert!(
        reason(&[("content-type", "text/plain")], "aa\trefs/heads/x\n")
            .1
            .contains("dumb")
    );
    assert!(reason(&[("content-type", RECEIVE)], "0000").1.contains(RECEIVE));
    assert_eq!(reason(&[], "0000").0, None);
    assert!(
        reason(&[("content-type", UPLOAD), ("content-encoding", "GZIP")], "0000")
            .1
            .contains("gzip")
    );
    assert!(reason(&[("content-type", UPLOAD)], "").1.contains("empty"));
    assert!(reason(&[("content-type", UPLOAD)], "00").1.contains("2 bytes"));
    assert!(reason(&[("content-type", UPLOAD)], "hello").1.contains("pkt-line"));
}

#[test]
fn a_broken_exchange_keeps_its_stage() {
    let error = failure(step(ASK, 200, &[], "").broken());
    let Error::Transport(inner) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(inner.stage(), Some(rgit_transport::Stage::Wait));
    assert_eq!(error.to_string(), inner.to_string());
}

#[test]
fn bad_options_fail_before_anything_is_sent() {
    let script = Script::new([]);
    let error = session(&script, "https://h/r")
        .discover(Service::UploadPack, Some("version=2\r\nEvil: 1"))
        .unwrap_err();
    assert!(matches!(error, Error::InvalidHeader { .. }), "{error:?}");
}

#[test]
fn debug_shows_no_secret() {
    let script = Script::new([]);
    let session = session_with(
        &script,
        "https://me:hunter2@h/r.git/",
        |options| options.extra_headers = vec!["Authorization: Bearer hunter2".into()],
        &Diary::default(),
    );
    let shown = format!("{session:?} {:#?}", session.exchanges());
    assert!(!shown.contains("hunter2") && !shown.contains("me:"), "{shown}");
    assert_eq!(
        (session.url(), session.base_url()),
        ("https://h/r.git", "https://h/r.git")
    );
}

#[test]
fn what_was_remembered_is_doubted_once_and_asked_anew() {
    let answer = || {
        step(
            ASK,
            200,
            &[("content-type", "application/x-git-upload-pack-advertisement")],
            "0000",
        )
    };
    let script = Script::new([answer().remembered(), answer(), answer()]);
    let mut session = session(&script, "https://h/r.git");
    assert!(!session.doubt(), "nothing was told");
    let mut discover = |doubts| {
        session.discover(Service::UploadPack, Some("version=2")).unwrap();
        let doubted = session.doubt();
        assert_eq!(doubted, doubts);
    };
    discover(true);
    discover(false);
    discover(false);
    let asked: Vec<_> = script.seen().iter().map(|seen| seen.rememberable).collect();
    let [first, anew, again] = [Rememberable::Recall, Rememberable::Anew, Rememberable::Recall].map(Some);
    assert_eq!(asked, [first, anew, again]);
}

#[test]
fn only_refusals_of_the_request_itself_contradict_what_was_offered() {
    for (status, contradicts) in [
        (400, true),
        (403, false),
        (404, true),
        (415, true),
        (429, false),
        (500, false),
        (501, true),
        (503, false),
    ] {
        let error = failure(step(ASK, status, &[], ""));
        assert_eq!(error.is_contradiction(), contradicts, "{error}");
    }
    let page = failure(step(ASK, 200, &[("content-type", "text/html")], "<html>"));
    assert!(page.is_contradiction());
    assert!(!failure(step(ASK, 200, &[], "").broken()).is_contradiction());
}
