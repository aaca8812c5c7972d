//! What a child process costs: wall time, CPU, and anonymous memory at its highest.
//!
//! Owns the run of the child and the reading of `/proc`. For benches and reports; nothing here belongs in a timed test.
//! CPU and memory are known on Linux only.

use std::{
    collections::BTreeMap,
    io,
    io::Read,
    os::unix::process::CommandExt,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

mod figures;
mod interrupt;
mod own;
mod process;

pub use figures::{Figures, Medians, median};
pub use interrupt::Interrupt;
pub use own::{children as waited_children, threads};
pub use process::{is_running, spent};

use process::{anonymous, children, times};

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
    /// Whether its time was up and it was killed: see [`Meter::within`].
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
    Meter::default().measure(command)
}

/// How commands are measured: as [`measure`] does, unless told otherwise.
#[derive(Debug, Clone)]
pub struct Meter {
    interval: Duration,
    limit: Option<Duration>,
    beside: Vec<u32>,
    interrupt: Option<Interrupt>,
}

impl Default for Meter {
    fn default() -> Self {
        Meter {
            interval: INTERVAL,
            limit: None,
            beside: Vec::new(),
            interrupt: None,
        }
    }
}

impl Meter {
    /// Another time between two looks at memory. Each look costs the machine some tens of microseconds.
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Kills the command, and all in its process group, when `limit` is over.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Counts the memory of this process too: one that works for the command and is no child of it.
    #[must_use]
    pub fn beside(mut self, id: u32) -> Self {
        self.beside.push(id);
        self
    }

    /// Kills the command, and all in its process group, when this is told.
    #[must_use]
    pub fn until(mut self, interrupt: &Interrupt) -> Self {
        self.interrupt = Some(interrupt.clone());
        self
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// When it can't be started or waited for.
    pub fn measure(&self, command: &mut Command) -> io::Result<Measured> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if self.limit.is_some() || self.interrupt.is_some() {
            command.process_group(0);
        }
        let begun = Instant::now();
        let mut child = command.spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let id = child.id();
        let joined = self.interrupt.as_ref().map(|interrupt| interrupt.join(id));
        thread::scope(|scope| {
            let stdout = scope.spawn(|| keep(stdout));
            let stderr = scope.spawn(|| keep(stderr));
            let (done, over) = mpsc::channel::<()>();
            let sampling = scope.spawn(move || sample(id, &self.beside, self.interval, &over));
            let (ended, watch) = mpsc::channel::<()>();
            let watching = self
                .limit
                .map(|limit| scope.spawn(move || kill_after(limit, id, &watch)));
            // The exit is noticed but not taken: as long as the child is a zombie, its final times stand in /proc.
            let exited = wait_without_reaping(id);
            let wall = begun.elapsed();
            drop((done, ended));
            // Before the child is reaped: until then its number can't belong to another.
            let timed_out = watching.is_some_and(|watching| watching.join().unwrap_or_default());
            drop(joined);
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
}

/// Kills the process group `id` when `limit` is over, unless `watch` ends first. Whether it did.
fn kill_after(limit: Duration, id: u32, watch: &mpsc::Receiver<()>) -> bool {
    watch.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) && kill_group(id)
}

/// Kills all processes of a group. Whether there were any.
fn kill_group(id: u32) -> bool {
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

fn sample(id: u32, beside: &[u32], interval: Duration, over: &mpsc::Receiver<()>) -> Memory {
    let mut memory = Memory::default();
    loop {
        let mut total = None;
        let mut pending: Vec<u32> = std::iter::once(id).chain(beside.iter().copied()).collect();
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
        let measured = Meter::default()
            .every(Duration::from_millis(1))
            .measure(&mut shell(script))
            .expect("sh");
        assert!(measured.status.success(), "{measured:?}");
        assert_eq!(measured.stdout, b"33554432\n");
        assert!(measured.peak_anonymous > Some(32 * 1024 * 1024), "{measured:?}");
        assert!(measured.cpu() >= Some(Duration::from_millis(10)), "{measured:?}");
        assert!(measured.peak_by_program.len() >= 2, "{measured:?}");
    }

    #[test]
    fn a_run_beyond_its_limit_is_killed_with_its_children() {
        // The pipe of the output ends only when the grandchild is gone too.
        let measured = Meter::default()
            .within(Duration::from_millis(200))
            .measure(&mut shell("sleep 600; true"))
            .expect("sh");
        assert!(measured.timed_out && !measured.status.success(), "{measured:?}");
        assert!(measured.wall >= Duration::from_millis(200));
        let measured = Meter::default()
            .within(Duration::from_secs(60))
            .measure(&mut shell("exit 2"))
            .expect("sh");
        assert!(!measured.timed_out && measured.status.code() == Some(2), "{measured:?}");
    }

    #[test]
    fn a_run_ends_when_it_is_interrupted_and_none_begins_after_that() {
        let interrupt = Interrupt::default();
        let meter = Meter::default().until(&interrupt);
        thread::scope(|scope| {
            let running = scope.spawn(|| meter.measure(&mut shell("echo begun; sleep 600; true")).expect("sh"));
            while !interrupt.has_joined() {
                thread::yield_now();
            }
            interrupt.interrupt();
            let measured = running.join().expect("a measurement");
            assert!(!measured.status.success() && !measured.timed_out, "{measured:?}");
        });
        assert!(interrupt.is_told());
        let measured = meter.measure(&mut shell("sleep 600; true")).expect("sh");
        assert!(!measured.status.success(), "{measured:?}");
    }

    #[test]
    fn memory_of_a_process_beside_counts() {
        let script =
            "awk 'BEGIN { s = \"x\"; while (length(s) < 33554432) s = s s; print length(s); fflush(); getline }'";
        let mut large = shell(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut ready = [0; 9];
        let mut stdout = large.stdout.take().expect("its output");
        stdout.read_exact(&mut ready).expect("a line");
        let meter = Meter::default().beside(large.id());
        let measured = meter.measure(&mut shell("sleep 0.1")).expect("sh");
        assert!(measured.peak_anonymous > Some(32 * 1024 * 1024), "{measured:?}");
        assert!(spent(large.id()).is_some() && is_running(large.id()));
        drop(large.stdin.take());
        large.wait().expect("its end");
        assert!(spent(large.id()).is_none() && !is_running(large.id()));
    }

    #[test]
    fn what_cannot_be_started_is_an_error() {
        assert!(measure(&mut Command::new("/nonexistent/program")).is_err());
    }
}
