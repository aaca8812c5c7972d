//! What `/proc` tells of one process.

use std::{fs, time::Duration};

/// CPU that a process has used so far, with that of the children it has waited for; as fine as the kernel's clock tick.
/// `None` where there is no such process, or no `/proc`.
pub fn spent(id: u32) -> Option<Duration> {
    times(id).map(|(user, system)| user + system)
}

/// Whether there is such a process and it has not ended: one that nobody has waited for yet has.
pub fn is_running(id: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{id}/stat")).ok().and_then(|stat| {
        let rest = stat.get(stat.rfind(')')? + 1..)?;
        rest.trim_start().chars().next()
    });
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// A process's name and its RssAnon in bytes: proc_pid_status(5).
pub(super) fn anonymous(id: u32) -> Option<(String, u64)> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let kib: u64 = field("RssAnon:")?.strip_suffix(" kB")?.trim().parse().ok()?;
    Some((field("Name:")?.to_owned(), kib * 1024))
}

/// The children of all of a process's threads: proc_tid_children(5).
pub(super) fn children(id: u32) -> Vec<u32> {
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
pub(super) fn times(id: u32) -> Option<(Duration, Duration)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Field 2 is the name in brackets and may hold anything, brackets too.
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3).and_then(|ticks| ticks.parse::<u64>().ok());
    let second = rustix::param::clock_ticks_per_second() as f64;
    let time =
        |own: usize, waited: usize| Some(Duration::from_secs_f64((ticks(own)? + ticks(waited)?) as f64 / second));
    Some((time(14, 16)?, time(15, 17)?))
}
