//! The server against the real git, and against bytes written by hand where git can't show it.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    thread,
    time::Duration,
};

use rgit_testkit::{
    certificate::Authority,
    history,
    relay::{Break, Direction, Link, Relay},
    reply::{Gate, Reply, Rest, When},
    repository::{Git, ObjectFormat},
    server::{Builder, GitServer, KeepAlive, Protocols, Scope},
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, pem::PemObject},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// A working repository and a served, empty one.
fn stage(builder: Builder) -> (GitServer, Git, PathBuf) {
    let server = builder.start().expect("a server");
    server.create("repo.git", &[]);
    let git = Git::new();
    let work = git.home().join("work");
    history::zoo(&git, &work);
    (server, git, work)
}

fn round_trip(server: &GitServer, git: &Git, work: &Path, url: &str) {
    git.git(work, ["push", "-q", url, "refs/*:refs/*"]);
    git.assert_same(work, &server.root().join("repo.git"));
    let copy = git.home().join("copy");
    git.git(git.home(), ["clone", "-q", "--mirror", url, "copy"]);
    git.assert_same(work, &copy);
    assert!(server.wait_for_children(PATIENCE), "a child lingers");
}

/// An exchange written by hand over plain HTTP/1.1: everything the server sends until it closes.
fn raw(server: &GitServer, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address()).expect("connect");
    stream.write_all(request).expect("send");
    let mut answer = Vec::new();
    // A deliberate cut may end in a reset; what came before it is what counts.
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").into_bytes()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn push_and_clone_over_tls_with_both_versions_and_over_plain_http() {
    for (version, name) in [("HTTP/1.1", http::Version::HTTP_11), ("HTTP/2", http::Version::HTTP_2)] {
        let authority = Authority::new();
        let (server, git, work) = stage(GitServer::builder().tls(&authority));
        let git = git.with("GIT_SSL_CAINFO", authority.write_ca(git.home()));
        git.git(&work, ["config", "--global", "http.version", version]);
        round_trip(&server, &git, &work, &server.url("repo.git"));
        let requests = server.requests();
        assert!(requests.iter().all(|request| request.version == name), "{requests:?}");
        assert!(server.connections().iter().all(|connection| connection.secure));
    }
    let (server, git, work) = stage(GitServer::builder());
    round_trip(&server, &git, &work, &server.url("repo.git"));
    assert!(
        server
            .connections()
            .iter()
            .all(|connection| !connection.secure && connection.alpn.is_none())
    );
}

#[test]
fn each_choice_of_protocols_is_kept() {
    let authority = Authority::new();
    for (protocols, alpn, version) in [
        (Protocols::H1, Some(&b"http/1.1"[..]), http::Version::HTTP_11),
        (Protocols::H2, Some(&b"h2"[..]), http::Version::HTTP_2),
        (Protocols::Both, Some(&b"h2"[..]), http::Version::HTTP_2),
        (Protocols::H1WithoutAlpn, None, http::Version::HTTP_11),
    ] {
        let (server, git, _) = stage(GitServer::builder().tls(&authority).protocols(protocols));
        let git = git.with("GIT_SSL_CAINFO", authority.write_ca(git.home()));
        git.git(git.home(), ["ls-remote", &server.url("repo.git")]);
        assert_eq!(server.connections()[0].alpn.as_deref(), alpn, "{protocols:?}");
        assert_eq!(server.requests()[0].version, version, "{protocols:?}");
    }
}

#[test]
fn a_foreign_authority_is_not_trusted() {
    let (server, git, _) = stage(GitServer::builder().tls(&Authority::new()));
    let git = git.with("GIT_SSL_CAINFO", Authority::new().write_ca(git.home()));
    let output = git.run(git.home(), ["ls-remote", &server.url("repo.git")]);
    assert_eq!(output.status.code(), Some(128));
    assert!(text(&output.stderr).contains("certificate"), "{}", text(&output.stderr));
    assert!(server.requests().is_empty());
}

#[test]
fn the_log_tells_what_was_exchanged() {
    let (server, git, work) = stage(GitServer::builder());
    let url = server.url("repo.git");
    git.git(&work, ["push", "-q", &url, "main"]);
    let requests = server.requests();
    let lines: Vec<String> = requests
        .iter()
        .map(|request| format!("{} {} {}", request.method, request.path, request.query))
        .collect();
    assert_eq!(
        lines,
        [
            "GET /repo.git/info/refs service=git-receive-pack",
            "POST /repo.git/git-receive-pack "
        ],
    );
    assert!(
        requests
            .iter()
            .all(|request| request.finished && request.status == Some(200))
    );
    assert_eq!((requests[0].request_bytes, requests[0].response_bytes > 100), (0, true));
    assert_eq!(
        requests[1].header("content-length"),
        Some(requests[1].request_bytes.to_string().as_str())
    );
    assert!(requests[1].request_bytes > 500);
    assert_eq!(requests[0].connection, requests[1].connection);
    assert_eq!(server.connections().len(), 1);

    server.clear_log();
    assert!(server.requests().is_empty() && server.connections().is_empty());
    git.git(&work, ["-c", "protocol.version=2", "ls-remote", &url]);
    assert_eq!(server.requests()[0].header("git-protocol"), Some("version=2"));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn bodies_come_chunked_and_compressed_and_reach_git() {
    let (server, git, work) = stage(GitServer::builder());
    let url = server.url("repo.git");
    let blobs = git.home().join("blobs");
    history::incompressible(&git, &blobs, 4, 700_000, 1);
    git.git(
        &blobs,
        ["-c", "http.postBuffer=100000", "push", "-q", &url, "main:blobs"],
    );
    let bulk = server.requests().pop().expect("a request");
    assert_eq!(
        (bulk.header("transfer-encoding"), bulk.header("content-length")),
        (Some("chunked"), None)
    );
    assert!(bulk.request_bytes > 2_800_000);
    git.git(&work, ["push", "-q", &url, "main"]);

    // A fetch with many haves is sent compressed.
    let other = git.home().join("other");
    history::small(&git, &other, 200);
    server.clear_log();
    git.git(&other, ["fetch", "-q", &url, "main"]);
    let compressed = |request: &rgit_testkit::requests::Request| request.header("content-encoding") == Some("gzip");
    assert!(server.requests().iter().any(compressed), "{:?}", server.requests());
    git.assert_same(&work, &work);
    assert_eq!(
        git.text(&other, ["rev-parse", "FETCH_HEAD"]),
        git.text(&work, ["rev-parse", "main"])
    );
}

#[test]
fn two_hundred_megabytes_stream_both_ways() {
    let (server, git, _) = stage(GitServer::builder());
    let blobs = git.home().join("blobs");
    history::incompressible(&git, &blobs, 50, 4_000_000, 3);
    git.git(&blobs, ["push", "-q", &server.url("repo.git"), "main"]);
    git.git(git.home(), ["clone", "-q", "--bare", &server.url("repo.git"), "copy"]);
    let tip = |directory: &Path| git.text(directory, ["rev-parse", "main"]);
    assert_eq!(tip(&blobs), tip(&git.home().join("copy")));
    let post = server
        .requests()
        .into_iter()
        .rfind(|request| request.path.ends_with("upload-pack"))
        .expect("a POST");
    assert!(post.response_bytes > 200_000_000);
}

#[test]
fn passwords_are_asked_for_in_their_scope() {
    for (scope, can_read, can_write) in [
        (Scope::All, false, false),
        (Scope::PushOnly, true, false),
        (Scope::PostOnly, false, false),
    ] {
        let (server, git, work) = stage(GitServer::builder().auth("ann", "s3cret", scope).realm("house"));
        let url = server.url("repo.git");
        let good = url.replace("://", "://ann:s3cret@");
        let bad = url.replace("://", "://ann:wrong@");
        git.git(&work, ["push", "-q", &good, "main"]);
        let refused = server
            .requests()
            .iter()
            .filter(|request| request.status == Some(401))
            .count();
        assert_eq!(refused, 1, "{scope:?}");
        let reflog = server.root().join("repo.git");
        assert_eq!(
            git.text(&reflog, ["rev-parse", "main"]),
            git.text(&work, ["rev-parse", "main"])
        );

        let clone = |url: &str, name: &str| {
            git.run(git.home(), ["clone", "-q", "--bare", url, name])
                .status
                .success()
        };
        assert_eq!(clone(&url, "anonymous"), can_read, "{scope:?}");
        // git offers a password only where it is asked for one.
        assert_eq!(clone(&bad, "wrong"), can_read, "{scope:?}");
        assert!(clone(&good, "right"), "{scope:?}");
        assert_eq!(
            git.run(&work, ["push", "-q", &url, "main:other"]).status.success(),
            can_write,
            "{scope:?}"
        );
    }
    let server = GitServer::builder()
        .auth("ann", "s3cret", Scope::All)
        .realm("house")
        .start()
        .expect("a server");
    let answer = text(&raw(&server, &get("/repo.git/info/refs?service=git-upload-pack")));
    assert!(
        answer.starts_with("HTTP/1.1 401") && answer.contains("www-authenticate: Basic realm=\"house\""),
        "{answer}"
    );
}

#[test]
fn the_backend_knows_who_pushes() {
    let server = GitServer::builder()
        .auth("ann", "s3cret", Scope::All)
        .start()
        .expect("a server");
    // Without http.receivepack the backend lets only users in that the server has named.
    let path = server.create("repo.git", &[("core.logAllRefUpdates", "true")]);
    server.git().git(&path, ["config", "--unset", "http.receivepack"]);
    let git = Git::new();
    let work = git.home().join("work");
    history::small(&git, &work, 1);
    git.git(
        &work,
        [
            "push",
            "-q",
            &server.url("repo.git").replace("://", "://ann:s3cret@"),
            "main",
        ],
    );
    assert_eq!(server.git().refs(&path).len(), 1);
}

#[test]
fn a_push_passes_the_narrowest_window() {
    let authority = Authority::new();
    let (server, git, _) = stage(
        GitServer::builder()
            .tls(&authority)
            .protocols(Protocols::H2)
            .window(16_384),
    );
    let git = git.with("GIT_SSL_CAINFO", authority.write_ca(git.home()));
    let blobs = git.home().join("blobs");
    history::incompressible(&git, &blobs, 1, 3_000_000, 5);
    git.git(&blobs, ["push", "-q", &server.url("repo.git"), "main"]);
    git.assert_same(&blobs, &server.root().join("repo.git"));
}

/// The server's first SETTINGS, and how much its first WINDOW_UPDATE adds to the connection's window.
fn settings(server: &GitServer, expect_update: bool) -> (Vec<(u16, u32)>, u32) {
    let mut stream = TcpStream::connect(server.address()).expect("connect");
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .expect("a preface");
    let (mut settings, mut update) = (None, None);
    while settings.is_none() || (expect_update && update.is_none()) {
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("a frame");
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).expect("a payload");
        match (head[3], head[4]) {
            (4, 0) => {
                let pair = |six: &[u8]| {
                    (
                        u16::from_be_bytes([six[0], six[1]]),
                        u32::from_be_bytes([six[2], six[3], six[4], six[5]]),
                    )
                };
                settings = Some(payload.chunks_exact(6).map(pair).collect());
            }
            (8, _) => update = Some(u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]])),
            _ => {}
        }
    }
    (settings.unwrap_or_default(), update.unwrap_or_default())
}

#[test]
fn windows_frames_and_streams_are_what_was_set() {
    let server = GitServer::start().expect("a server");
    let (defaults, _) = settings(&server, false);
    let value = |settings: &[(u16, u32)], id, default| {
        settings
            .iter()
            .find(|(found, _)| *found == id)
            .map_or(default, |(_, value)| *value)
    };
    assert_eq!(
        (value(&defaults, 4, 65_535), value(&defaults, 5, 16_384)),
        (65_535, 16_384)
    );

    let builder = GitServer::builder()
        .window(16_384)
        .connection_window(1 << 24)
        .frame_size(1 << 20)
        .streams(7);
    let server = builder.start().expect("a server");
    let (set, update) = settings(&server, true);
    assert_eq!(
        (value(&set, 3, 0), value(&set, 4, 0), value(&set, 5, 0)),
        (7, 16_384, 1 << 20)
    );
    assert_eq!(update + 65_535, 1 << 24);

    // Frames of exactly the size that was allowed are taken, plain HTTP/2 with prior knowledge too.
    let server = GitServer::builder().window(1 << 24).start().expect("a server");
    let (set, update) = settings(&server, true);
    assert_eq!((value(&set, 4, 0), update + 65_535), (1 << 24, 1 << 24));
}

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

#[test]
fn connections_end_as_the_keep_alive_says() {
    let request = b"GET /x HTTP/1.1\r\nhost: test\r\n\r\n";
    let open = |keep_alive| {
        let server = GitServer::builder().keep_alive(keep_alive).start().expect("a server");
        server.respond(When::any(), Reply::text(200, "yes"));
        server
    };
    let off = open(KeepAlive::Off);
    let answer = text(&raw(&off, request));
    assert!(
        answer.contains("connection: close") && answer.ends_with("yes"),
        "{answer}"
    );

    let idle = open(KeepAlive::Idle(Duration::ZERO));
    let answer = text(&raw(&idle, request));
    assert!(
        !answer.contains("connection: close") && answer.ends_with("yes"),
        "{answer}"
    );

    let on = open(KeepAlive::On);
    let mut stream = TcpStream::connect(on.address()).expect("connect");
    for _ in 0..3 {
        stream.write_all(request).expect("send");
        let mut answer = Vec::new();
        while !answer.ends_with(b"yes") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an answer on the same connection");
            answer.push(byte[0]);
        }
    }
    assert_eq!(
        (on.connections().len(), on.requests().len(), on.open_connections()),
        (1, 3, 1)
    );
}

#[test]
fn a_client_that_leaves_takes_its_children_along() {
    let (server, git, _) = stage(GitServer::builder());
    let blobs = git.home().join("blobs");
    history::incompressible(&git, &blobs, 40, 500_000, 9);
    let relay = Relay::start(server.address(), Link::default()).expect("a relay");
    let url = server.base_url_at("127.0.0.1", relay.port()) + "/repo.git";

    relay.cut_after(Direction::Up, 10_000_000, Break::Reset, None);
    assert!(!git.run(&blobs, ["push", "-q", &url, "main"]).status.success());
    assert!(server.wait_for_children(PATIENCE), "receive-pack lingers");
    assert!(server.git().refs(&server.root().join("repo.git")).is_empty());
    relay.heal();
    git.git(&blobs, ["push", "-q", &url, "main"]);

    relay.cut_after(Direction::Down, 10_000_000, Break::Finish, None);
    assert!(!git.run(git.home(), ["clone", "-q", &url, "half"]).status.success());
    assert!(server.wait_for_children(PATIENCE), "upload-pack lingers");
    relay.heal();
    git.git(git.home(), ["clone", "-q", &url, "whole"]);
    git.assert_same(&blobs, &server.root().join("repo.git"));
}

/// Processes whose environment names this directory: what a server has started, grandchildren included.
#[cfg(target_os = "linux")]
fn processes_of(root: &Path) -> usize {
    let needle = format!("GIT_PROJECT_ROOT={}", root.display()).into_bytes();
    let environments = fs::read_dir("/proc")
        .expect("proc")
        .flatten()
        .map(|entry| fs::read(entry.path().join("environ")));
    environments
        .flatten()
        .filter(|environment| environment.windows(needle.len()).any(|at| at == needle))
        .count()
}

#[test]
#[cfg(target_os = "linux")]
fn dropping_a_server_ends_its_children_and_their_children() {
    let (server, git, work) = stage(GitServer::builder());
    let root = server.root().to_owned();
    let repository = root.join("repo.git");
    // A hook that says it is there and then waits for longer than any test.
    let hook = repository.join("hooks/pre-receive");
    let says = git.home().join("says");
    assert!(
        git.program("mkfifo", git.home())
            .arg(&says)
            .status()
            .expect("mkfifo")
            .success()
    );
    fs::write(
        &hook,
        format!("#!/bin/sh\necho hook > {}\nsleep 1000\n", says.display()),
    )
    .expect("a hook");
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("an executable hook");

    let mut push = git.command(&work);
    push.args(["push", "-q", &server.url("repo.git"), "main"])
        .stderr(Stdio::null());
    let mut push = push.spawn().expect("git");
    assert_eq!(fs::read_to_string(&says).expect("the hook's word"), "hook\n");
    assert_eq!(server.children(), 1);
    assert!(processes_of(&root) >= 3, "http-backend, receive-pack, the hook");
    drop(server);
    assert_eq!(processes_of(&root), 0);
    assert!(!root.exists());
    assert!(!push.wait().expect("git").success());
}

#[test]
fn sha256_and_empty_repositories_are_served() {
    let server = GitServer::start().expect("a server");
    let git = Git::new();
    let served = server.create_as("sha256.git", ObjectFormat::Sha256, &[]);
    let work = git.home().join("work");
    history::zoo_as(&git, &work, ObjectFormat::Sha256);
    git.git(&work, ["push", "-q", &server.url("sha256.git"), "refs/*:refs/*"]);
    git.assert_same(&work, &served);
    server.create("empty.git", &[("receive.denyDeletes", "true")]);
    git.git(git.home(), ["clone", "-q", &server.url("empty.git"), "empty"]);
    assert_eq!(
        server
            .git()
            .text(&server.root().join("empty.git"), ["config", "receive.denyDeletes"]),
        "true"
    );
}

#[test]
fn a_refusal_of_the_backend_is_passed_on_with_its_words() {
    let (server, git, work) = stage(GitServer::builder());
    server
        .git()
        .git(&server.root().join("repo.git"), ["config", "http.receivepack", "false"]);
    let output = git.run(&work, ["push", &server.url("repo.git"), "main"]);
    assert_eq!(output.status.code(), Some(128));
    assert_eq!(server.requests()[0].status, Some(403));
    let missing = text(&raw(&server, &get("/nowhere.git/info/refs?service=git-upload-pack")));
    assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
    assert!(server.wait_for_children(PATIENCE));
    assert!(server.stderr().contains("Service not enabled"), "{}", server.stderr());
}

#[test]
fn sessions_resume_when_the_client_offers_its_ticket() {
    let authority = Authority::new();
    let server = GitServer::builder()
        .tls(&authority)
        .protocols(Protocols::H1)
        .start()
        .expect("a server");
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.ca_pem().as_bytes()).expect("PEM"))
        .expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    for _ in 0..2 {
        let name = "localhost".try_into().expect("a name");
        let client = ClientConnection::new(config.clone(), name).expect("a client");
        let mut stream = StreamOwned::new(client, TcpStream::connect(server.address()).expect("connect"));
        stream.write_all(&get("/nowhere")).expect("send");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer and a proper end");
        assert!(answer.starts_with(b"HTTP/1.1 404"), "{}", text(&answer));
    }
    let resumed: Vec<bool> = server
        .connections()
        .iter()
        .map(|connection| connection.resumed)
        .collect();
    assert_eq!(resumed, [false, true]);
}

#[test]
fn threads_of_a_server_are_gone_from_an_async_test_too() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    // Another test may be given the port that became free; not each time.
    let is_gone = (0..5).any(|_| {
        let address = runtime.block_on(async {
            let server = GitServer::start().expect("a server");
            server.address()
        });
        TcpStream::connect(address).is_err()
    });
    assert!(is_gone);
}
