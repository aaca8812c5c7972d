//! Real exchanges: protocols, certificates, passwords, bodies, windows, formats.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
};

use rgit_testkit::{
    certificate::Authority,
    history,
    repository::{Git, ObjectFormat},
    requests::Request,
    server::{GitServer, Protocols, Scope},
};

use super::{PATIENCE, get, raw, round_trip, stage, text};

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
        let bodies = |of: fn(&Request) -> u64| requests.iter().map(of).sum::<u64>();
        let (received, sent) = server.data_frames();
        if version == "HTTP/2" {
            // What was received and sent is in frames, and nothing else is.
            assert_eq!(received.bytes, bodies(|request| request.request_bytes));
            assert_eq!(sent.bytes, bodies(|request| request.response_bytes));
        } else {
            assert_eq!((received.count, sent.count), (0, 0));
        }
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
