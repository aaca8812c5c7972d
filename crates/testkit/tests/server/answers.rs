//! Answers that a test puts in the backend's place.

use std::{
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::Duration,
};

use rgit_testkit::{
    reply::{Gate, Reply, Rest, When},
    server::GitServer,
};

use super::{PATIENCE, get, raw, stage, text};

#[test]
fn canned_answers_take_the_backend_s_place() {
    let (server, git, work) = stage(GitServer::builder().header("x-edge", "yes"));
    let url = server.url("repo.git");
    let refused = |when: When, reply: Reply, part: &str| {
        server.respond(when, reply);
        let output = git.run(&work, ["push", &url, "main"]);
        server.clear_rules();
        assert_eq!(
            output.status.success(),
            part.is_empty(),
            "{part}: {}",
            text(&output.stderr)
        );
        assert!(text(&output.stderr).contains(part), "{part}: {}", text(&output.stderr));
    };
    refused(When::get(), Reply::status(404), "not found");
    refused(
        When::get(),
        Reply::text(403, "No entry on Sundays.\n"),
        "No entry on Sundays.",
    );
    refused(When::get(), Reply::text(500, "broken"), "500");
    refused(
        When::get(),
        Reply::html(200, "<html>Log in</html>"),
        "Cannot access URL",
    );
    refused(
        When::get(),
        Reply::backend().header("content-type", "text/plain"),
        "not valid",
    );
    refused(When::post(), Reply::status(413), "413");
    refused(When::post(), Reply::hang_up(), "RPC failed");
    refused(When::post(), Reply::backend().with_status(502), "502");
    refused(
        When::get().query("service=git-receive-pack"),
        Reply::hang_up(),
        "unable to access",
    );
    refused(When::get().path("nowhere"), Reply::status(404), "");
    let answer = text(&raw(&server, &get("/repo.git/info/refs?service=git-upload-pack")));
    assert!(answer.contains("x-edge: yes\r\n"), "{answer}");
}

#[test]
fn rules_are_used_up_and_closures_see_the_request() {
    let server = GitServer::start().expect("a server");
    server.respond(When::any().path("/a").skip(1).times(2), Reply::status(410));
    server.respond(When::any(), |request: &rgit_testkit::requests::Request| {
        Reply::text(200, &format!("{} {}", request.method, request.path))
    });
    let status = |path: &str| text(&raw(&server, &get(path))[9..12]);
    assert_eq!(
        ["/a", "/b", "/a", "/a", "/a"].map(status),
        ["200", "200", "410", "410", "200"]
    );
    assert!(text(&raw(&server, &get("/c"))).ends_with("GET /c"));
}

#[test]
fn redirects_lead_to_another_path_and_another_server() {
    let (server, git, work) = stage(GitServer::builder());
    let front = GitServer::start().expect("another server");
    git.git(&work, ["push", "-q", &server.url("repo.git"), "main"]);
    for status in [301, 302, 307] {
        let target = server.url("repo.git");
        front.respond(
            When::any().path("/old.git/"),
            move |request: &rgit_testkit::requests::Request| {
                let rest = request.path.trim_start_matches("/old.git");
                Reply::redirect(status, &format!("{target}{rest}?{}", request.query))
            },
        );
        git.git(git.home(), ["ls-remote", "--exit-code", &front.url("old.git"), "main"]);
        server.respond(
            When::any().path("/here.git/"),
            Reply::redirect(status, "/repo.git/info/refs?service=git-upload-pack"),
        );
        git.git(
            git.home(),
            ["ls-remote", "--exit-code", &server.url("here.git"), "main"],
        );
        front.clear_rules();
        server.clear_rules();
    }
}

#[test]
fn answers_can_be_cut_broken_and_ended_early() {
    let (server, git, work) = stage(GitServer::builder());
    git.git(&work, ["push", "-q", &server.url("repo.git"), "main"]);
    let target = "/repo.git/info/refs?service=git-upload-pack";
    let body = |answer: &[u8]| {
        let at = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        answer[at..].to_vec()
    };
    let whole = body(&raw(&server, &get(target)));
    assert!(whole.ends_with(b"0\r\n\r\n"), "chunked to the end");

    server.respond(When::get().once(), Reply::backend().cut_after(40));
    let cut = body(&raw(&server, &get(target)));
    // What git wrote first may come as one chunk or several: only that 40 bytes came and no end matters.
    assert!(!cut.ends_with(b"0\r\n\r\n"), "{}", text(&cut));
    let entry = server.requests().pop().expect("a request");
    assert_eq!((entry.response_bytes, entry.finished), (40, false));
    assert!(text(&cut).contains("service=git-upload-pack"), "{}", text(&cut));

    server.respond(When::get().once(), Reply::backend().end_after(40));
    let ended = body(&raw(&server, &get(target)));
    assert!(ended.ends_with(b"0\r\n\r\n"), "{}", text(&ended));
    let entry = server.requests().pop().expect("a request");
    assert_eq!((entry.response_bytes, entry.finished), (40, true));

    server.respond(When::get().once(), Reply::text(200, "0123456789").cut_after(4));
    let answer = text(&raw(&server, &get(target)));
    assert!(
        answer.contains("content-length: 10\r\n") && answer.ends_with("\r\n\r\n0123"),
        "{answer}"
    );
    server.respond(When::get().once(), Reply::text(200, "0123456789").end_after(4));
    assert!(text(&raw(&server, &get(target))).contains("0123\r\n0\r\n\r\n"));
    server.respond(When::get().once(), Reply::text(200, "0123456789").chunked());
    assert!(text(&raw(&server, &get(target))).contains("transfer-encoding: chunked"));

    let big = vec![b'x'; 3_000_000];
    server.respond(When::get().once(), Reply::status(200).body(big).cut_after(2_500_000));
    assert_eq!(body(&raw(&server, &get(target))).len(), 2_500_000);
    assert!(server.wait_for_children(PATIENCE));
}

#[test]
fn a_gate_holds_an_exchange_and_a_stall_its_body() {
    let (server, git, work) = stage(GitServer::builder());
    git.git(&work, ["push", "-q", &server.url("repo.git"), "main"]);
    let (gate, stall) = (Gate::new(), Gate::new());
    server.respond(When::get().once(), Reply::backend().gate(&gate).stall_after(10, &stall));
    thread::scope(|scope| {
        let listing = scope.spawn(|| git.text(git.home(), ["ls-remote", &server.url("repo.git"), "main"]));
        assert!(gate.wait_for(1, PATIENCE));
        assert_eq!(server.children(), 0);
        assert_eq!(server.requests().last().and_then(|request| request.status), None);
        gate.open();
        assert!(stall.wait_for(1, PATIENCE));
        assert_eq!(server.requests().last().map(|request| request.response_bytes), Some(10));
        assert!(!listing.is_finished());
        stall.open();
        assert!(listing.join().expect("git").contains("refs/heads/main"));
    });
}

/// A POST whose body never ends, answered early: what the client reads, and whether the server still takes bytes.
fn early(rest: Rest) -> String {
    let server = GitServer::builder().rest(rest).start().expect("a server");
    server.respond(When::post(), Reply::text(403, "no"));
    let mut stream = TcpStream::connect(server.address()).expect("connect");
    stream
        .write_all(b"POST /x HTTP/1.1\r\nhost: test\r\ncontent-length: 40000000\r\n\r\n")
        .expect("send");
    let block = vec![0; 1_000_000];
    // With `Close` the server lingers, so that even ten megabytes later the answer is still there to be read.
    for _ in 0..10 {
        stream.write_all(&block).expect("the server takes what is sent");
    }
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    if rest == Rest::Drain {
        for _ in 0..30 {
            stream.write_all(&block).expect("the server takes the rest");
        }
        stream
            .write_all(&get("/after"))
            .expect("another request on the same connection");
    }
    let mut more = Vec::new();
    stream.read_to_end(&mut more).expect("an orderly end");
    text(&answer) + &text(&more)
}

#[test]
fn an_early_answer_is_delivered_and_the_rest_drained_or_not() {
    let closed = early(Rest::Close);
    assert!(closed.starts_with("HTTP/1.1 403") && closed.ends_with("no"), "{closed}");
    let drained = early(Rest::Drain);
    assert!(
        drained.starts_with("HTTP/1.1 403") && drained.matches("HTTP/1.1").count() == 2,
        "{drained}"
    );

    let server = GitServer::start().expect("a server");
    server.respond(When::post(), Reply::text(403, "no").rest(Rest::First));
    let mut stream = TcpStream::connect(server.address()).expect("connect");
    stream
        .write_all(b"POST /x HTTP/1.1\r\nhost: test\r\ncontent-length: 2\r\n\r\n.")
        .expect("send");
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a timeout");
    assert!(stream.read(&mut [0]).is_err(), "answered before the body was there");
    stream.set_read_timeout(None).expect("no timeout");
    stream.write_all(b".").expect("send");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 403");
}

#[test]
fn a_head_goes_out_before_the_body_was_read_unless_it_is_held_back() {
    for held in [false, true] {
        let builder = GitServer::builder();
        let server = if held { builder.hold_head() } else { builder };
        let server = server.start().expect("a server");
        server.create("repo.git", &[]);
        let mut stream = TcpStream::connect(server.address()).expect("connect");
        stream
            .write_all(
                b"POST /repo.git/git-receive-pack HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
                content-type: application/x-git-receive-pack-request\r\ncontent-length: 4\r\n\r\n00",
            )
            .expect("send");
        let patience = if held { Duration::from_millis(300) } else { PATIENCE };
        stream.set_read_timeout(Some(patience)).expect("a timeout");
        let mut status = [0; 12];
        let early = stream.read_exact(&mut status).is_ok();
        assert_eq!(early, !held, "{}", text(&status));
        stream.write_all(b"00").expect("send");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("an answer");
        let answer = text(if early { &status } else { &rest });
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[test]
fn an_abrupt_server_resets_a_client_that_is_still_sending() {
    let server = GitServer::builder()
        .rest(Rest::Close)
        .abrupt()
        .start()
        .expect("a server");
    server.respond(When::post(), Reply::text(403, "no"));
    let mut stream = TcpStream::connect(server.address()).expect("connect");
    stream
        .write_all(b"POST /x HTTP/1.1\r\nhost: test\r\ncontent-length: 40000000\r\n\r\n")
        .expect("send");
    let block = vec![0; 1_000_000];
    assert!(
        (0..40).any(|_| stream.write_all(&block).is_err()),
        "the server took it all"
    );
}
