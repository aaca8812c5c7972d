//! The 401 dialogue.

use std::io::Read;

use rgit_smart_http::{Error, Service, Session, Unauthenticated};
use rgit_transport::Body;

use crate::script::*;

const ASK: &str = "GET https://h:444/r.git/info/refs?service=git-receive-pack";
const POST: &str = "POST https://h:444/r.git/git-receive-pack";
const URL: &str = "https://h:444/r.git";

fn asked_for_credentials(expect: &str) -> Step {
    step(
        expect,
        401,
        &[("www-authenticate", "Negotiate"), ("www-authenticate", BASIC)],
        "who are you?",
    )
}

fn advertised() -> Step {
    step(ASK, 200, &[("content-type", RECEIVE)], "0000")
}

fn discover(session: &mut Session) -> Result<(), Error> {
    session.discover(Service::ReceivePack, None).map(drop)
}

fn failure(session: &mut Session) -> Unauthenticated {
    let error = discover(session).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
    match error {
        Error::Authentication { reason, url } => {
            assert_eq!(url, "https://h:444/r.git/info/refs?service=git-receive-pack");
            reason
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_a_discovery_without_secrets_may_go_before_the_handshake_is_through() {
    let result = step(POST, 200, &[("content-type", RECEIVED)], "0000");
    let script = Script::new([asked_for_credentials(ASK), advertised(), result, advertised()]);
    let mut session = session_with(&script, URL, |_| {}, &Diary::with([("me", "hunter2")]));
    discover(&mut session).unwrap();
    session.post(Service::ReceivePack, None, Body::full("x")).unwrap();
    discover(&mut session).unwrap();
    let early: Vec<_> = script.seen().iter().map(|seen| seen.early).collect();
    assert_eq!(early, [true, false, false, false]);

    let script = Script::new([advertised()]);
    let token = |options: &mut rgit_smart_http::Options| options.extra_headers = vec!["X-Token: hunter2".into()];
    discover(&mut session_with(&script, URL, token, &Diary::default())).unwrap();
    assert!(!script.seen()[0].early);
}

#[test]
fn credentials_are_asked_for_once_kept_and_approved_once() {
    let result = || step(POST, 200, &[("content-type", RECEIVED)], "0000");
    let script = Script::new([asked_for_credentials(ASK), advertised(), result(), advertised()]);
    let diary = Diary::with([("me", "hunter2")]);
    let mut session = session_with(&script, URL, |_| {}, &diary);
    discover(&mut session).unwrap();
    session.post(Service::ReceivePack, None, Body::full("x")).unwrap();
    discover(&mut session).unwrap();
    let sent: Vec<_> = script
        .seen()
        .iter()
        .map(|seen| seen.header("authorization").map(str::to_owned))
        .collect();
    let basic = Some("Basic bWU6aHVudGVyMg==".to_owned());
    assert_eq!(sent, [None, basic.clone(), basic.clone(), basic]);
    let book = diary.0.lock().unwrap();
    let [request] = &book.asked[..] else {
        panic!("asked {} times", book.asked.len())
    };
    assert_eq!((request.protocol.as_str(), request.host.as_str()), ("https", "h:444"));
    assert_eq!(request.path.as_ref().unwrap(), "r.git");
    assert_eq!(
        (&request.username, &request.wwwauth[..]),
        (&None, &["Negotiate".into(), BASIC.into()][..])
    );
    assert_eq!(
        (&book.approved[..], book.rejected.len()),
        (&["h:444 me:hunter2".to_owned()][..], 0)
    );
    assert!(!format!("{session:?}").contains("hunter2"));
    let statuses: Vec<u16> = session
        .exchanges()
        .iter()
        .map(|exchange| exchange.status.as_u16())
        .collect();
    assert_eq!(statuses, [401, 200, 200, 200]);
}

#[test]
fn the_urls_own_user_and_password_come_first_but_not_unasked() {
    let script = Script::new([asked_for_credentials(ASK), advertised()]);
    let diary = Diary::default();
    discover(&mut session_with(
        &script,
        "https://us%65r:p%40ss@h:444/r.git",
        |_| {},
        &diary,
    ))
    .unwrap();
    let seen = script.seen();
    assert_eq!(seen[0].header("authorization"), None);
    assert_eq!(seen[1].header("authorization"), Some("Basic dXNlcjpwQHNz"));
    let book = diary.0.lock().unwrap();
    assert_eq!(
        (book.asked.len(), &book.approved[..]),
        (0, &["h:444 user:p@ss".to_owned()][..])
    );
}

#[test]
fn a_user_without_a_password_is_handed_on() {
    let script = Script::new([asked_for_credentials(ASK), advertised()]);
    let diary = Diary::with([("me", "hunter2")]);
    discover(&mut session_with(&script, "https://m%65@h:444/r.git", |_| {}, &diary)).unwrap();
    script.seen();
    let book = diary.0.lock().unwrap();
    assert_eq!(book.asked[0].username.as_ref().unwrap(), "me");
    assert!(!format!("{:?}", book.asked[0]).contains("\"me\""));
}

#[test]
fn a_second_401_rejects_and_ends_it() {
    let script = Script::new([asked_for_credentials(ASK), asked_for_credentials(ASK)]);
    let diary = Diary::with([("me", "hunter2"), ("me", "never asked")]);
    assert_eq!(
        failure(&mut session_with(&script, URL, |_| {}, &diary)),
        Unauthenticated::Refused
    );
    script.seen();
    let book = diary.0.lock().unwrap();
    assert_eq!((book.asked.len(), book.approved.len()), (1, 0));
    assert_eq!(book.rejected, ["h:444 me:hunter2"]);
}

#[test]
fn a_wrong_password_in_the_url_is_not_tried_twice() {
    let script = Script::new([
        asked_for_credentials(ASK),
        asked_for_credentials(ASK),
        asked_for_credentials(ASK),
        advertised(),
    ]);
    let diary = Diary::with([("me", "right")]);
    let mut session = session_with(&script, "https://me:hunter2@h:444/r.git", |_| {}, &diary);
    assert_eq!(failure(&mut session), Unauthenticated::Refused);
    discover(&mut session).unwrap();
    script.seen();
    let book = diary.0.lock().unwrap();
    assert_eq!(book.asked[0].username.as_ref().unwrap(), "me");
    assert_eq!(
        (&book.rejected[..], &book.approved[..]),
        (&["h:444 me:hunter2".to_owned()][..], &["h:444 me:right".to_owned()][..])
    );
}

#[test]
fn no_credentials_and_no_basic_are_told_apart() {
    let script = Script::new([asked_for_credentials(ASK)]);
    assert_eq!(failure(&mut session(&script, URL)), Unauthenticated::NoCredentials);

    let diary = Diary::with([("me", "hunter2")]);
    let script = Script::new([step(
        ASK,
        401,
        &[("www-authenticate", "Negotiate, Bearer realm=\"Basic\"")],
        "",
    )]);
    let reason = failure(&mut session_with(
        &script,
        "https://me:hunter2@h:444/r.git",
        |_| {},
        &diary,
    ));
    assert_eq!(
        reason,
        Unauthenticated::NoBasic {
            offered: vec!["Negotiate".into(), "Bearer".into()]
        }
    );
    assert!(reason.to_string().contains("offers Negotiate, Bearer"));
    let script = Script::new([step(ASK, 401, &[], "")]);
    assert!(
        failure(&mut session_with(&script, URL, |_| {}, &diary))
            .to_string()
            .contains("no scheme")
    );
    assert_eq!(diary.0.lock().unwrap().asked.len(), 0);
}

#[test]
fn other_refusals_neither_approve_nor_reject() {
    let script = Script::new([asked_for_credentials(ASK), step(ASK, 403, &[], "")]);
    let diary = Diary::with([("me", "hunter2")]);
    let error = discover(&mut session_with(&script, URL, |_| {}, &diary)).unwrap_err();
    assert!(matches!(error, Error::Status { code: 403, .. }), "{error:?}");
    let book = diary.0.lock().unwrap();
    assert_eq!((book.approved.len(), book.rejected.len()), (0, 0));
}

#[test]
fn a_401_takes_the_place_of_a_configured_authorization() {
    let script = Script::new([asked_for_credentials(ASK), advertised()]);
    let diary = Diary::with([("me", "hunter2")]);
    let stale =
        |options: &mut rgit_smart_http::Options| options.extra_headers = vec!["AUTHORIZATION: bearer stale".into()];
    discover(&mut session_with(&script, URL, stale, &diary)).unwrap();
    let seen = script.seen();
    let sent = |at: usize| {
        seen[at]
            .headers
            .get_all("authorization")
            .iter()
            .map(|v| v.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (sent(0), sent(1)),
        (
            vec!["bearer stale".to_owned()],
            vec!["Basic bWU6aHVudGVyMg==".to_owned()]
        )
    );
}

#[test]
fn a_401_on_a_post_repeats_the_body() {
    let full = Body::full("12345");
    let replay = Body::replay(Some(5), || Ok(&b"12345"[..]));
    let unknown = Body::replay(None, || Ok(&b"12345"[..]));
    let short_stream = Body::stream(None, &b"12345"[..]);
    for (body, limit, kind) in [
        (full, 1 << 20, "full"),
        (replay, 1 << 20, "replay"),
        (unknown, 2, "replay"),
        (short_stream, 1 << 20, "full"),
        (Body::full("12345"), 2, "replay"),
    ] {
        let result = step(POST, 200, &[("content-type", RECEIVED)], "0000done");
        let script = Script::new([asked_for_credentials(POST).taking(4), result]);
        let diary = Diary::with([("me", "hunter2")]);
        let mut session = session_with(&script, URL, |options| options.post_buffer = limit, &diary);
        let reply = session.post(Service::ReceivePack, None, body).unwrap();
        assert_eq!(text(reply), "0000done");
        let seen = script.seen();
        assert_eq!(
            (seen[0].body.as_slice(), seen[1].body.as_slice()),
            (&b"1234"[..], &b"12345"[..])
        );
        assert_eq!((seen[0].kind, seen[1].kind), (kind, kind));
        assert_eq!(seen[1].header("authorization"), Some("Basic bWU6aHVudGVyMg=="));
        assert_eq!(diary.0.lock().unwrap().approved.len(), 1);
    }
}

#[test]
fn a_long_stream_is_sent_once_only() {
    let diary = Diary::with([("me", "hunter2")]);
    let small = |options: &mut rgit_smart_http::Options| options.post_buffer = 2;
    let script = Script::new([asked_for_credentials(POST).taking(1)]);
    let mut session = session_with(&script, URL, small, &diary);
    let error = session
        .post(Service::ReceivePack, None, Body::stream(None, &b"12345"[..]))
        .unwrap_err();
    let spent = matches!(
        error,
        Error::Authentication {
            reason: Unauthenticated::BodySpent,
            ..
        }
    );
    assert!(spent, "{error:?}");
    assert_eq!(diary.0.lock().unwrap().asked.len(), 0, "nobody is asked in vain");

    // Refused before a byte was taken, it can still go.
    let result = step(POST, 200, &[("content-type", RECEIVED)], "0000");
    let script = Script::new([asked_for_credentials(POST).taking(0), result]);
    let mut session = session_with(&script, URL, small, &diary);
    session
        .post(Service::ReceivePack, None, Body::stream(None, &b"12345"[..]))
        .unwrap();
    assert_eq!(script.seen()[1].body, b"12345");
}

#[test]
fn a_body_that_frees_no_connection_is_not_waited_for() {
    // Without a length it ends with its connection; before a body's end the connection is of no more use, whatever the length.
    let unframed = asked_for_credentials(ASK).stalling();
    let mut early = [("www-authenticate", BASIC), ("content-length", "100")].to_vec();
    let refused = step(POST, 401, &early, "").taking(10).stalling();
    early[0] = ("content-type", "text/html");
    let forbidden = step(POST, 403, &early, "").taking(10).stalling();
    let moved = step(
        ASK,
        302,
        &[("location", "https://o/r.git/info/refs?service=git-receive-pack")],
        "",
    )
    .stalling();
    let elsewhere = "GET https://o/r.git/info/refs?service=git-receive-pack";
    let script = Script::new([
        moved,
        unframed.expecting(elsewhere),
        advertised().expecting(elsewhere),
        forbidden.expecting("POST https://o/r.git/git-receive-pack"),
    ]);
    let mut session = session_with(&script, URL, |_| {}, &Diary::with([("me", "hunter2")]));
    discover(&mut session).unwrap();
    let body = || Body::replay(None, || Ok(std::io::repeat(b'x').take(3_000_000)));
    let err = session.post(Service::ReceivePack, None, body()).unwrap_err();
    assert!(matches!(err, Error::Status { code: 403, .. }), "{err:?}");
    script.seen();

    let script = Script::new([
        advertised(),
        refused,
        step(POST, 200, &[("content-type", RECEIVED)], "0000"),
    ]);
    let mut session = session_with(&script, URL, |_| {}, &Diary::with([("me", "hunter2")]));
    discover(&mut session).unwrap();
    session.post(Service::ReceivePack, None, body()).unwrap();
    script.seen();
}
