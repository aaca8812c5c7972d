//! A bench that is interrupted leaves nothing behind: no client, no daemon, no server in front, no file.
#![cfg(target_os = "linux")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(120);

/// An rgit that never ends, and has a daemon that doesn't either.
const RGIT: &str = r#"#!/bin/sh
pid="$XDG_RUNTIME_DIR/pid"
case " $* " in
*' --version '*) echo 'rgit of a test' ;;
*' daemon status '*) [ -f "$pid" ] && printf '{"pid": %s}' "$(cat "$pid")" ;;
*' daemon stop '*) kill "$(cat "$pid")" ;;
*)
    setsid sleep 600 </dev/null >/dev/null 2>&1 &
    echo $! >"$pid"
    : >STARTED
    sleep 600
    ;;
esac
"#;

/// Until this holds.
fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        // It is told by files and processes of others, which wake nobody here.
        thread::sleep(Duration::from_millis(10));
    }
}

fn ends(bench: &mut Child) -> ExitStatus {
    let mut status = None;
    wait("the end of the bench", || {
        status = bench.try_wait().expect("a child");
        status.is_some()
    });
    status.expect("its status")
}

/// Command lines of processes with this folder in their environment.
fn around(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let processes = fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .map(|process| process.path());
    let read = |file| fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "));
    processes
        .filter(|process| read(process.join("environ")).is_ok_and(|all| all.contains(&folder)))
        .map(|process| read(process.join("cmdline")).unwrap_or_default())
        .collect()
}

fn interrupted_by(signal: Signal) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().canonicalize().expect("its path");
    let (temporary, started, rgit) = (path.join("temporary"), path.join("started"), path.join("rgit"));
    fs::create_dir(&temporary).expect("a folder");
    fs::write(&rgit, RGIT.replace("STARTED", &started.display().to_string())).expect("a script");
    fs::set_permissions(&rgit, fs::Permissions::from_mode(0o755)).expect("a program");

    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["bench", "--force", "-n", "1", "--limit", "600"]);
    command.args([
        "--transport",
        "persistent-warm",
        "--scenario",
        "ls-remote",
        "--rtt",
        "5",
    ]);
    command
        .arg("--rgit")
        .arg(&rgit)
        .arg("--output")
        .arg(path.join("output"));
    let is_there = |program: &str| Path::new("/usr/sbin").join(program).is_file();
    if is_there("nginx") {
        command.args(["--server", "nginx"]);
    }
    command
        .env("TMPDIR", &temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut bench = command.stderr(Stdio::piped()).spawn().expect("xtask");
    wait("a client", || {
        started.exists() || bench.try_wait().expect("a child").is_some()
    });
    // The bench, the client and its sleep, the daemon, and the server in front where there is one.
    let before = around(&path);
    assert!(before.len() >= 4, "{before:?}");

    let id = Pid::from_child(&bench);
    kill_process(id, signal).expect("a signal");
    assert_eq!(ends(&mut bench).code(), Some(2), "it is neither a pass nor a failure");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut bench.stderr.take().expect("its stderr"), &mut said).expect("text");
    assert!(said.contains("interrupted"), "{said}");
    assert_eq!(around(&path), [""; 0]);
    assert_eq!(fs::read_dir(&temporary).expect("the folder").count(), 0);
}

#[test]
fn ctrl_c_ends_all_that_the_bench_has_started() {
    interrupted_by(Signal::INT);
}

#[test]
fn a_signal_to_terminate_ends_all_that_the_bench_has_started() {
    interrupted_by(Signal::TERM);
}
