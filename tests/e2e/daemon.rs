//! The daemon that keeps connections warm: whole repositories through it, and what becomes of those whose daemon goes, in any way.

mod activation;
mod authentication;
mod connections;
mod early_data;
#[cfg(target_os = "linux")]
mod footprint;
mod memory;
mod races;
mod users;
mod vanished;
mod warmth;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use rgit_testkit::{history, repository::ObjectFormat, server::Builder};
use serde_json::Value;

use crate::world::{Ran, World, ran};

const PATIENCE: Duration = Duration::from_secs(60);

/// A world with a directory for a daemon, which ends with it.
struct Warm {
    world: World,
    /// What is run: a copy of rgit, where a test wants to replace it.
    program: PathBuf,
}

impl Warm {
    fn new() -> Warm {
        Self::with(|builder| builder)
    }

    fn with(configure: impl FnOnce(Builder) -> Builder) -> Warm {
        Warm {
            world: World::with(configure),
            program: env!("CARGO_BIN_EXE_rgit").into(),
        }
    }

    fn command(&self, directory: &Path) -> Command {
        let mut command = self.world.git.program(&self.program, directory);
        command.env("XDG_RUNTIME_DIR", self.world.directory.path());
        command
    }

    /// Run rgit by way of the daemon.
    fn rgit(&self, directory: &Path, arguments: &[&str]) -> Ran {
        let mut command = self.command(directory);
        command.arg("--transport=persistent").args(arguments);
        ran(&command.output().expect("rgit starts"))
    }

    /// The same, to be waited for later.
    fn begin(&self, directory: &Path, arguments: &[&str]) -> Child {
        let mut command = self.command(directory);
        command.arg("--transport=persistent").args(arguments);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("rgit starts")
    }

    /// List what the server has, by way of the daemon.
    fn list(&self, url: &str) -> Ran {
        self.rgit(self.world.directory.path(), &["-v", "ls-remote", url])
    }

    fn daemon(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(self.world.directory.path());
        command.arg("daemon").args(arguments).output().expect("rgit starts")
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&self.daemon(&["status", "--json"]).stdout).expect("JSON")
    }

    fn pid(&self) -> Option<u64> {
        self.status()["pid"].as_u64()
    }

    /// All daemons of this world that run, whether they can be reached or not.
    fn daemons(&self) -> Vec<u64> {
        let home = self.home();
        let of_ours = |pid: &u64| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut arguments = arguments.split(|byte| *byte == 0);
            is_running(*pid) && arguments.any(|argument| argument == home.as_os_str().as_encoded_bytes())
        };
        let processes = fs::read_dir("/proc").expect("processes");
        let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        numbers.filter(of_ours).collect()
    }

    fn home(&self) -> PathBuf {
        self.world.path("rgit")
    }

    /// A repository on the server with a little history.
    fn repository(&self) -> String {
        let source = self.world.path("source");
        history::small(&self.world.git, &source, 20);
        let remote = self.world.server.create("r.git", &[]);
        let there = remote.to_str().expect("UTF-8");
        self.world.git.git(&source, ["push", "-q", there, "main"]);
        self.world.server.url("r.git")
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        // A directory that a test has spoilt holds a daemon all the same.
        fs::set_permissions(self.home(), fs::Permissions::from_mode(0o700)).ok();
        self.daemon(&["stop"]);
        // Nor does `stop` reach one whose socket is gone, which a test that fails half-way leaves behind.
        for pid in self.daemons() {
            // It may be on its way out.
            Command::new("kill").args(["-KILL", &pid.to_string()]).status().ok();
        }
    }
}

#[test]
fn no_daemon_outlives_its_test() {
    let warm = Warm::new();
    ran(&warm.daemon(&["start"])).exits(0);
    let lost = warm.pid().expect("it runs");
    assert_eq!(warm.daemons(), [lost]);
    fs::remove_file(warm.home().join("daemon.sock")).expect("it was there");
    drop(warm);
    eventually("it is gone", || !is_running(lost));
}

/// Wait for what must come; the pause is between two looks at another process, which nothing here could be woken by.
#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(10));
    }
}

fn kill(signal: &str, pid: u64) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(status.expect("kill starts").success());
}

fn is_running(pid: u64) -> bool {
    // A zombie has ended; it only waits for its parent to notice.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn there_and_back_by_way_of_the_daemon() {
    for upstream in ["auto", "h1", "h2"] {
        let warm = Warm::new();
        let source = warm.world.path("source");
        history::incompressible(&warm.world.git, &source, 40, 50_000, 1);
        let remote = warm.world.server.create_as("there.git", ObjectFormat::Sha1, &[]);
        let url = warm.world.server.url("there.git");
        let by = format!("rgit.persistent.upstream={upstream}");
        warm.rgit(&source, &["-c", &by, "push", "-q", "--mirror", &url])
            .exits(0);
        warm.world.git.assert_same(&source, &remote);
        let clone = ["-c", &by, "clone", "-q", "--mirror", &url, "back.git"];
        warm.rgit(warm.world.directory.path(), &clone).exits(0);
        warm.world.git.assert_same(&remote, &warm.world.path("back.git"));
        let status = warm.status();
        assert_eq!(status["profiles"][0]["upstream"], upstream, "{status}");
        assert!(status["bytes_sent"].as_u64() > Some(2_000_000), "{status}");
        assert!(status["bytes_received"].as_u64() > Some(2_000_000), "{status}");
        assert_eq!(
            warm.world.server.connections().len(),
            1,
            "all of it went over one connection"
        );
    }
}

#[test]
fn a_daemon_is_started_told_of_and_stopped() {
    let warm = Warm::new();
    assert_eq!(warm.daemon(&["status"]).status.code(), Some(1));
    assert_eq!(warm.status()["running"], false);
    ran(&warm.daemon(&["start"])).exits(0);
    let pid = warm.pid().expect("it runs");
    ran(&warm.daemon(&["start"])).exits(0).says("already");
    assert_eq!(warm.pid(), Some(pid));
    let url = warm.repository();
    warm.list(&url).exits(0);
    let told = ran(&warm.daemon(&["status"])).exits(0).stdout;
    let origin = warm.world.server.base_url();
    assert!(
        told.contains(origin.trim_end_matches('/')) && told.contains(&pid.to_string()),
        "{told}"
    );
    ran(&warm.daemon(&["stop"])).exits(0);
    assert!(!is_running(pid), "stop waits for the end");
    assert!(!warm.home().join("daemon.sock").exists());
    ran(&warm.daemon(&["stop"])).exits(0).says("No daemon");
    assert_eq!(warm.status()["running"], false);
}

#[test]
fn where_none_can_be_had_the_direct_way_is_taken_and_that_is_said_once() {
    let warm = Warm::new();
    let url = warm.repository();
    fs::create_dir(warm.home()).expect("a directory");
    fs::set_permissions(warm.home(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let said = warm.list(&url).exits(0).stderr;
    assert_eq!(said.matches("No daemon").count(), 1, "{said}");
    assert!(said.contains("755") && said.contains("700"), "{said}");
    // Quiet unless asked.
    let quiet = warm.rgit(warm.world.directory.path(), &["ls-remote", &url]).exits(0);
    assert!(quiet.stderr.is_empty(), "{}", quiet.stderr);
    ran(&warm.daemon(&["start"])).exits(128).says("700");
    assert!(!warm.home().join("daemon.sock").exists());
}

#[test]
fn auto_rides_a_daemon_that_answers_and_starts_none() {
    let warm = Warm::new();
    let url = warm.repository();
    let list = || {
        let mut command = warm.command(warm.world.directory.path());
        ran(&command
            .args(["--transport=auto", "-v", "ls-remote", &url])
            .output()
            .expect("rgit starts"))
        .exits(0)
    };
    let direct = list();
    assert!(
        !warm.home().exists() && !direct.stderr.contains("daemon"),
        "{}",
        direct.stderr
    );
    ran(&warm.daemon(&["start"])).exits(0);
    assert_eq!(list().stdout, direct.stdout);
    assert!(warm.status()["requests"].as_u64() > Some(0), "{}", warm.status());
}

#[test]
fn auto_goes_directly_where_the_daemon_would_be_the_slowest_part() {
    let warm = Warm::new();
    let source = warm.world.path("source");
    history::incompressible(&warm.world.git, &source, 20, 500_000, 1);
    ran(&warm.daemon(&["start"])).exits(0);
    // Of a pack that is sent as it is made nobody knows the size.
    for (name, buffer, rides) in [("known.git", "100m", false), ("unknown.git", "1m", true)] {
        warm.world.server.create(name, &[]);
        let (url, buffer) = (warm.world.server.url(name), format!("http.postBuffer={buffer}"));
        let mut command = warm.command(&source);
        command.args(["--transport=auto", "-c", &buffer, "push", "-q", &url, "main"]);
        ran(&command.output().expect("rgit starts")).exits(0);
        let sent = warm.status()["bytes_sent"].as_u64().expect("a number");
        assert_eq!(sent > 5_000_000, rides, "{name}: {sent}");
    }
}

#[test]
fn a_daemon_leaves_after_its_idle_timeout() {
    let warm = Warm::new();
    let url = warm.repository();
    let list = ["-c", "rgit.persistent.idleTimeout=1s", "ls-remote", &url];
    warm.rgit(warm.world.directory.path(), &list).exits(0);
    let socket = warm.home().join("daemon.sock");
    eventually("it leaves", || !socket.exists());
    for setting in [
        "idleTimeout=soon",
        "reopen=-1s",
        "pingInterval=1ms",
        "upstream=persistent",
        "upstream=h9",
    ] {
        let setting = format!("rgit.persistent.{setting}");
        let key = setting.split('=').next().expect("a key");
        warm.rgit(warm.world.directory.path(), &["-c", &setting, "ls-remote", &url])
            .exits(128)
            .says(key);
    }
}

#[test]
fn nothing_of_whoever_started_it_stays_with_the_daemon() {
    let warm = Warm::new();
    let url = warm.repository();
    // A pipe by a high number and one by a low: were the daemon to keep either, this would not come to its end.
    let script = format!("exec 9>&1; \"$0\" --transport=persistent ls-remote {url} 2>&1");
    let mut command = warm.world.git.program("sh", warm.world.directory.path());
    command
        .args(["-c", &script])
        .arg(&warm.program)
        .env("XDG_RUNTIME_DIR", warm.world.directory.path())
        .env("SECRET_TOKEN", "hush");
    let listed = ran(&command.output().expect("sh starts")).exits(0);
    assert!(listed.stdout.contains("refs/heads/main"), "{}", listed.stdout);
    let pid = warm.pid().expect("it runs");
    let environment = fs::read_to_string(format!("/proc/{pid}/environ")).expect("its environment");
    assert!(!environment.contains("hush"), "{environment}");
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("its state");
    let fields: Vec<_> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let own = pid.to_string();
    assert_eq!(
        (fields[2], fields[3]),
        (own.as_str(), own.as_str()),
        "group and session: {stat}"
    );
}

#[test]
fn secrets_pass_through_and_appear_nowhere() {
    let warm = Warm::with(|builder| builder.auth("me", "swordfish", rgit_testkit::server::Scope::All));
    let url = warm.world.server.url("r.git");
    warm.world.server.create("r.git", &[]);
    let with_user = url.replace("https://", "https://me:swordfish@");
    let directory = warm.world.directory.path().to_owned();
    for arguments in [
        ["-c", "http.extraHeader=X-Token: opensesame", "ls-remote", &with_user],
        ["-c", "protocol.version=0", "ls-remote", &with_user],
    ] {
        warm.rgit(&directory, &arguments).exits(0);
    }
    let log = fs::read_to_string(warm.home().join("daemon.log")).expect("a log");
    let shown = format!("{log}{}", warm.status());
    for secret in ["swordfish", "opensesame", "me:", "Basic"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(warm.status()["requests"].as_u64() >= Some(2));
}
