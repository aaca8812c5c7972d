//! A socket that a service manager made: it hands it over, and keeps it.

use std::{
    fs,
    os::unix::{
        fs::{DirBuilderExt, MetadataExt},
        net::UnixListener,
    },
    process::Stdio,
};

use super::{Warm, eventually, is_running};
use crate::world::ran;

/// The listener comes as standard input, and is moved to where sd_listen_fds(3) has it.
const HAND_OVER: &str = r#"exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@""#;

#[test]
fn a_socket_that_was_handed_over_is_served_and_left_behind() {
    let warm = Warm::new();
    let url = warm.repository();
    let home = warm.home();
    fs::DirBuilder::new().mode(0o700).create(&home).expect("a directory");
    let socket = home.join("daemon.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let inode = fs::metadata(&socket).expect("a socket").ino();
    let mut manager = warm.world.git.program("sh", warm.world.directory.path());
    manager
        .env("XDG_RUNTIME_DIR", warm.world.directory.path())
        .args(["-c", HAND_OVER, "sh"])
        .arg(&warm.program)
        .args(["daemon", "run", "--directory"])
        .arg(&home)
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(
            listener.try_clone().expect("a copy"),
        )))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut daemon = manager.spawn().expect("sh starts");
    let pid = u64::from(daemon.id());
    // Who comes before it is ready waits in the socket's queue.
    for _ in 0..3 {
        let listed = warm.list(&url).exits(0);
        assert!(listed.stdout.contains("refs/heads/main"), "{}", listed.stdout);
        assert!(!listed.stderr.contains("No daemon"), "{}", listed.stderr);
    }
    assert_eq!(warm.pid(), Some(pid), "no other was started");
    assert!(warm.status()["requests"].as_u64() >= Some(3), "{}", warm.status());
    ran(&warm.daemon(&["stop"])).exits(0);
    assert!(daemon.wait().expect("it ends").success());
    eventually("it goes", || !is_running(pid));
    let left = fs::metadata(&socket).expect("the socket stays");
    assert_eq!(left.ino(), inode, "it is the manager's own");
}
