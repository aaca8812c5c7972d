//! What spares a round trip where the daemon has no connection left, but tickets.

use rgit_testkit::{
    certificate::Authority,
    early::{Mood, Server},
};

use super::Warm;
use crate::world::ran;

/// A repository with one branch, in the words of the first version of the protocol.
fn advertisement() -> String {
    let packet = |text: &str| format!("{:04x}{text}", text.len() + 4);
    let id = "1".repeat(40);
    let refs = format!("{id} refs/heads/main\0ofs-delta side-band-64k object-format=sha1 agent=git/test\n");
    let content = [
        packet("# service=git-upload-pack\n"),
        "0000".into(),
        packet(&refs),
        "0000".into(),
    ]
    .concat();
    format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\
         Content-Length: {}\r\n\r\n{content}",
        content.len()
    )
}

#[test]
fn the_next_command_asks_with_the_handshake_unless_that_is_switched_off() {
    let warm = Warm::new();
    let authority = Authority::new();
    let directory = warm.world.path("authority");
    std::fs::create_dir(&directory).expect("a directory");
    let ca = authority.write_ca(&directory);
    let server = Server::start(&authority, |_| Mood::Takes, |_| advertisement());
    let url = server.url("/r.git");
    let list = |settings: &[&str]| {
        let mut command = warm.command(&directory);
        command.env("GIT_SSL_CAINFO", &ca).arg("--transport=persistent");
        // A connection made ahead would spare even more.
        for setting in ["rgit.persistent.reopen=0"].iter().chain(settings) {
            command.args(["-c", setting]);
        }
        let listed = ran(&command.args(["ls-remote", &url]).output().expect("rgit starts")).exits(0);
        assert!(listed.stdout.contains("refs/heads/main"), "{}", listed.stdout);
        let last = server.seen().pop().expect("a request");
        (last.early, last.flights)
    };
    assert_eq!(list(&[]), (false, 1), "there is no ticket yet");
    assert_eq!(list(&["rgit.persistent.earlyData=false"]), (false, 1));
    assert_eq!(list(&[]), (true, 0));
    assert_eq!(list(&["http.extraHeader=X-Token: hunter2"]), (false, 1));
    assert!(server.seen()[3].head.contains("hunter2"));
}
