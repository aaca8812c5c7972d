//! The machine that measures: what it is, and whether it has anything else to do.

use std::{
    fs,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::bail;

use super::results::Host;
use crate::cargo;

/// Load average for each processor above which times say more about other programs than about ours.
const BUSY: f64 = 0.5;

/// What is known of this machine.
pub(super) fn host() -> Host {
    let first = |file: &str, field: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix(field));
        value.map(|value| value.trim_start_matches([' ', '\t', ':']).trim().to_owned())
    };
    let memory = first("/proc/meminfo", "MemTotal");
    let kib = memory.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    Host {
        processor: first("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        processors: processors(),
        memory_mb: kib.unwrap_or(0) / 1000,
        system: said("uname", &["-sr"]).unwrap_or_else(|| std::env::consts::OS.to_owned()),
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Load average of the last minute; 0 where the system doesn't tell.
pub(super) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next().and_then(|first| first.parse().ok());
    first.unwrap_or(0.0)
}

/// The load average, when it is low enough to measure, or when `forced`.
///
/// # Errors
/// On a busy machine.
pub(super) fn idle(forced: bool) -> anyhow::Result<f64> {
    judge(load(), processors(), forced)
}

fn judge(load: f64, processors: usize, forced: bool) -> anyhow::Result<f64> {
    let most = BUSY * processors as f64;
    if load > most && !forced {
        bail!(
            "the machine is busy: its load average is {load:.2}, and more than {most:.1} on {processors} processors would be \
             measured too; wait a minute after the last build, or say --force"
        );
    }
    Ok(load)
}

/// The commit of the work tree, with `-dirty` where it was changed.
pub(super) fn commit() -> String {
    said(
        "git",
        &["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
    )
    .unwrap_or_else(|| "unknown".to_owned())
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(cargo::workspace()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Now, in UTC, to the minute.
pub(super) fn date() -> String {
    date_of(stamp())
}

/// Now, in seconds since 1970.
pub(super) fn stamp() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

fn date_of(seconds: u64) -> String {
    let mut days = seconds / 86_400;
    let minutes = seconds % 86_400 / 60;
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!(
        "{year}-{month:02}-{:02} {:02}:{:02}",
        days + 1,
        minutes / 60,
        minutes % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_refused_unless_forced() {
        assert!(judge(0.9, 2, false).is_ok());
        let error = judge(1.1, 2, false).expect_err("busy").to_string();
        assert!(error.contains("1.10") && error.contains("--force"), "{error}");
        assert!(judge(5.0, 2, true).is_ok());
    }

    #[test]
    fn dates_are_utc() {
        assert_eq!(date_of(0), "1970-01-01 00:00");
        assert_eq!(date_of(951_827_696), "2000-02-29 12:34");
        assert_eq!(date_of(1_767_225_599), "2025-12-31 23:59");
    }

    #[test]
    fn the_machine_has_a_name_and_the_tree_a_commit() {
        let host = host();
        assert!(
            !host.processor.is_empty() && host.processors > 0 && !host.system.is_empty(),
            "{host:?}"
        );
        assert!(!commit().is_empty());
    }
}
