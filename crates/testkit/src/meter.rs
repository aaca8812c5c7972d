//! What a child process costs: wall time, CPU, and anonymous memory at its highest.
//!
//! Owns the run of the child and the reading of `/proc`. For benches and reports; nothing here belongs in a timed test.
//! CPU and memory are known on Linux only.

use std::{
    collections::BTreeMap,
    fs, io,
    io::Read,
    os::unix::process::CommandExt,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

mod figures;
mod own;

pub use figures::{Figures, Medians, median};
pub use own::{children as waited_children, threads};

/// Between two looks at a child's memory, where nothing else is asked for.
const INTERVAL: Duration = Duration::from_millis(5);

/// Output kept of a child, of each of stdout and stderr; the rest is read and dropped.
const OUTPUT_KEPT: usize = 16 * 1024 * 1024;

/// What one run cost.
#[derive(Debug)]
#[non_exhaustive]
pub struct Measured {
    /// How the child ended.
    pub status: ExitStatus,
    /// The first 16 MiB of its stdout.
    pub stdout: Vec<u8>,
    /// The first 16 MiB of its stderr.
    pub stderr: Vec<u8>,
    /// From just before the start to the end.
    pub wall: Duration,
    /// CPU in user mode, of the child and of those of its descendants that were waited for; as fine as the kernel's clock
    /// tick, usually 10 ms. `None` where there is no `/proc`.
    pub user: Option<Duration>,
    /// The same in the kernel.
    pub system: Option<Duration>,
    /// The most anonymous memory (RssAnon) seen at one time in the child and all its descendants together, in bytes.
    /// `None` where there is no `/proc`, or the child was gone before the first look.
    pub peak_anonymous: Option<u64>,
    /// The most seen in any one process, by its name (`comm`): which of git's several programs needs it.
    pub peak_by_program: BTreeMap<String, u64>,
    /// How often memory was looked at.
    pub samples: u64,
    /// Whether its time was up and it was killed: see [`measure_within`].
    pub timed_out: bool,
}

impl Measured {
    /// User and system CPU together.
    pub fn cpu(&self) -> Option<Duration> {
        self.user.zip(self.system).map(|(user, system)| user + system)
    }
}

/// Runs a command to its end, looking at its memory every 5 ms.
///
/// # Errors
/// When it can't be started or waited for.
pub fn measure(command: &mut Command) -> io::Result<Measured> {
    measure_every(INTERVAL, command)
}

/// As [`measure`], with another time between two looks. Each look costs the machine some tens of microseconds.
///
/// # Errors
/// When the command can't be started or waited for.
pub fn measure_every(interval: Duration, command: &mut Command) -> io::Result<Measured> {
    run(interval, None, command)
}

/// As [`measure`], in a process group of its own that is killed when `limit` is over.
///
/// # Errors
/// When the command can't be started or waited for.
pub fn measure_within(limit: Duration, command: &mut Command) -> io::Result<Measured> {
    command.process_group(0);
    run(INTERVAL, Some(limit), command)
}

fn run(interval: Duration, limit: Option<Duration>, command: &mut Command) -> io::Result<Measured> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let id = child.id();
    thread::scope(|scope| {
        let stdout = scope.spawn(|| keep(stdout));
        let stderr = scope.spawn(|| keep(stderr));
        let (done, over) = mpsc::channel::<()>();
        let sampling = scope.spawn(move || sample(id, interval, &over));
        let (ended, watch) = mpsc::channel::<()>();
        let watching = limit.map(|limit| scope.spawn(move || kill_after(limit, id, &watch)));
        // The exit is noticed but not taken: as long as the child is a zombie, its final times stand in /proc.
        let exited = wait_without_reaping(id);
        let wall = begun.elapsed();
        drop((done, ended));
        // Before the child is reaped: until then its number can't belong to another.
        let timed_out = watching.is_some_and(|watching| watching.join().unwrap_or_default());
        let memory = sampling.join().unwrap_or_default();
        let times = times(id);
        let status = child.wait()?;
        exited?;
        Ok(Measured {
            status,
            stdout: stdout.join().unwrap_or_default(),
            stderr: stderr.join().unwrap_or_default(),
            wall,
            user: times.map(|(user, _)| user),
            system: times.map(|(_, system)| system),
            peak_anonymous: (memory.samples > 0).then_some(memory.peak),
            peak_by_program: memory.by_program,
            samples: memory.samples,
            timed_out,
        })
    })
}

/// Kills the process group `id` when `limit` is over, unless `watch` ends first. Whether it did.
fn kill_after(limit: Duration, id: u32, watch: &mpsc::Receiver<()>) -> bool {
    if watch.recv_timeout(limit) != Err(mpsc::RecvTimeoutError::Timeout) {
        return false;
    }
    let group = i32::try_from(id).ok().and_then(Pid::from_raw);
    group.is_some_and(|group| kill_process_group(group, Signal::KILL).is_ok())
}

fn wait_without_reaping(id: u32) -> io::Result<()> {
    let id = i32::try_from(id)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or(io::ErrorKind::InvalidInput)?;
    loop {
        match waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn keep(source: Option<impl Read>) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut source) = source
        && source.by_ref().take(OUTPUT_KEPT as u64).read_to_end(&mut kept).is_ok()
    {
        // A pipe nobody reads would stop the child.
        let _ = io::copy(&mut source, &mut io::sink());
    }
    kept
}

#[derive(Debug, Default)]
struct Memory {
    peak: u64,
    by_program: BTreeMap<String, u64>,
    samples: u64,
}

fn sample(id: u32, interval: Duration, over: &mpsc::Receiver<()>) -> Memory {
    let mut memory = Memory::default();
    loop {
        let mut total = None;
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            if let Some((program, anonymous)) = anonymous(id) {
                *total.get_or_insert(0) += anonymous;
                let peak = memory.by_program.entry(program).or_default();
                *peak = anonymous.max(*peak);
            }
            pending.extend(children(id));
        }
        if let Some(total) = total {
            memory.samples += 1;
            memory.peak = memory.peak.max(total);
        }
        if over.recv_timeout(interval) != Err(mpsc::RecvTimeoutError::Timeout) {
            return memory;
        }
    }
}

/// A process's name and its RssAnon in bytes: proc_pid_status(5).
fn anonymous(id: u32) -> Option<(String, u64)> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let kib: u64 = field("RssAnon:")?.strip_suffix(" kB")?.trim().parse().ok()?;
    Some((field("Name:")?.to_owned(), kib * 1024))
}

/// The children of all of a process's threads: proc_tid_children(5).
fn children(id: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{id}/task")) else {
        return Vec::new();
    };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|ids| {
            ids.split_ascii_whitespace()
                .filter_map(|id| id.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

/// User and system CPU of a process and of the children it has waited for: fields 14 to 17 of proc_pid_stat(5).
fn times(id: u32) -> Option<(Duration, Duration)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Field 2 is the name in brackets and may hold anything, brackets too.
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3).and_then(|ticks| ticks.parse::<u64>().ok());
    let second = rustix::param::clock_ticks_per_second() as f64;
    let time =
        |own: usize, waited: usize| Some(Duration::from_secs_f64((ticks(own)? + ticks(waited)?) as f64 / second));
    Some((time(14, 16)?, time(15, 17)?))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_run_is_measured_and_its_output_kept() {
        let measured = measure(&mut shell("echo out; echo err >&2; sleep 0.2; exit 3")).expect("sh");
        assert_eq!(measured.status.code(), Some(3));
        assert_eq!(measured.stdout, b"out\n");
        assert_eq!(measured.stderr, b"err\n");
        assert!(measured.wall >= Duration::from_millis(200));
        assert!(measured.samples > 0 && measured.peak_anonymous > Some(0));
    }

    #[test]
    fn memory_and_cpu_of_descendants_count() {
        // A string of 32 MiB in awk, made by doubling, inside a child of the shell; the loop is worth some CPU.
        let script = "awk 'BEGIN { s = \"x\"; while (length(s) < 33554432) s = s s; for (i = 0; i < 3000000; i++) n += i; print length(s) }'; true";
        let measured = measure_every(Duration::from_millis(1), &mut shell(script)).expect("sh");
        assert!(measured.status.success(), "{measured:?}");
        assert_eq!(measured.stdout, b"33554432\n");
        assert!(measured.peak_anonymous > Some(32 * 1024 * 1024), "{measured:?}");
        assert!(measured.cpu() >= Some(Duration::from_millis(10)), "{measured:?}");
        assert!(measured.peak_by_program.len() >= 2, "{measured:?}");
    }

    #[test]
    fn a_run_beyond_its_limit_is_killed_with_its_children() {
        // The pipe of the output ends only when the grandchild is gone too.
        let measured = measure_within(Duration::from_millis(200), &mut shell("sleep 600; true")).expect("sh");
        assert!(measured.timed_out && !measured.status.success(), "{measured:?}");
        assert!(measured.wall >= Duration::from_millis(200));
        let measured = measure_within(Duration::from_secs(60), &mut shell("exit 2")).expect("sh");
        assert!(!measured.timed_out && measured.status.code() == Some(2), "{measured:?}");
    }

    #[test]
    fn what_cannot_be_started_is_an_error() {
        assert!(measure(&mut Command::new("/nonexistent/program")).is_err());
    }
}
