//! How connections, processes, sessions and threads end.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use rgit_testkit::{
    certificate::Authority,
    history,
    relay::{Break, Direction, Link, Relay},
    reply::{Reply, When},
    server::{GitServer, KeepAlive, Protocols},
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::{PATIENCE, get, raw, stage, text};

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
