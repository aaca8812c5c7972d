//! Two users of one machine: neither end deals with the other's.

use std::{
    fs,
    io::Read,
    os::unix::{
        fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown},
        net::UnixStream,
        process::CommandExt,
    },
    process::{Command, Stdio},
};

use super::{PATIENCE, Warm, eventually};
use crate::world::ran;

/// Somebody without a name, who owns nothing here.
const OTHER: u32 = 54_321;

/// A world whose daemon's directory is another user's, and which that user can reach; `None` where only one user can be had.
fn of_another() -> Option<Warm> {
    let mut warm = Warm::new();
    let directory = warm.world.directory.path().to_owned();
    let owner = fs::metadata(&directory).expect("a directory").uid();
    if owner != 0 {
        eprintln!("skipped: only root can be two users, and this is user {owner}");
        return None;
    }
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("its mode");
    let copy = warm.world.path("rgit-copy");
    fs::copy(&warm.program, &copy).expect("a copy");
    warm.program = copy;
    let home = warm.home();
    fs::DirBuilder::new().mode(0o700).create(&home).expect("a directory");
    chown(&home, Some(OTHER), Some(OTHER)).expect("root may");
    Some(warm)
}

/// `rgit daemon` as the other user.
fn as_other(warm: &Warm, arguments: &[&str]) -> Command {
    let mut command = warm.command(warm.world.directory.path());
    command.env("HOME", warm.home()).arg("daemon").args(arguments);
    command.uid(OTHER).gid(OTHER);
    command
}

#[test]
fn a_client_refuses_the_directory_of_another_user() {
    let Some(warm) = of_another() else { return };
    let url = warm.repository();
    let listed = warm.list(&url).exits(0).says("No daemon").says("another user");
    assert!(listed.stdout.contains("refs/heads/main"), "{}", listed.stdout);
    ran(&warm.daemon(&["start"])).exits(128).says("another user");
    assert!(!warm.home().join("daemon.sock").exists());
}

#[test]
fn a_daemon_turns_a_client_of_another_user_away() {
    let Some(warm) = of_another() else { return };
    let home = warm.home();
    let log = fs::File::create(warm.world.path("said")).expect("a file");
    let mut daemon = as_other(&warm, &["run", "--directory", home.to_str().expect("UTF-8")])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("rgit starts");
    let socket = home.join("daemon.sock");
    let said = || fs::read_to_string(warm.world.path("said")).unwrap_or_default();
    eventually("it serves", || {
        assert!(matches!(daemon.try_wait(), Ok(None)), "{}", said());
        UnixStream::connect(&socket).is_ok()
    });
    // Root gets as far as the socket, which nobody else would; even so it hears not a word.
    let mut stream = UnixStream::connect(&socket).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).expect("an end");
    assert_eq!(heard, b"", "{}", String::from_utf8_lossy(&heard));
    // Whereas its own user is served.
    ran(&as_other(&warm, &["status"]).output().expect("rgit starts")).exits(0);
    ran(&as_other(&warm, &["stop"]).output().expect("rgit starts")).exits(0);
    assert!(daemon.wait().expect("it ends").success(), "{}", said());
}
