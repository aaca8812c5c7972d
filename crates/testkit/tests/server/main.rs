//! The server against the real git, and against bytes written by hand where git can't show it.

mod answers;
mod exchanges;
mod lifetimes;

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    time::Duration,
};

use rgit_testkit::{
    history,
    repository::Git,
    server::{Builder, GitServer},
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
