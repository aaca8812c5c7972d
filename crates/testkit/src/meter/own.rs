//! What this process itself spends: for a server that runs in threads of the program that measures.

use std::{fs, time::Duration};

/// CPU of the threads of this process whose names begin with `prefix`, since their start, as fine as the scheduler counts.
/// `None` where the kernel doesn't tell. A thread that has ended is no longer counted.
pub fn threads(prefix: &str) -> Option<Duration> {
    let mut sum = None;
    for thread in fs::read_dir("/proc/self/task").ok()?.flatten() {
        let path = thread.path();
        // One that ends while it is looked at is no reason to know nothing.
        let Ok(name) = fs::read_to_string(path.join("comm")) else {
            continue;
        };
        if !name.starts_with(prefix) {
            continue;
        }
        let schedule = fs::read_to_string(path.join("schedstat")).ok()?;
        let spent = schedule.split(' ').next()?.parse().ok()?;
        *sum.get_or_insert(Duration::ZERO) += Duration::from_nanos(spent);
    }
    sum
}

/// CPU of all children that this process has waited for, with theirs; as fine as the kernel's clock tick.
/// `None` where there is no `/proc`.
pub fn children() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // Fields 16 and 17 of proc_pid_stat(5); the name before them ends with the last bracket and field 3 follows it.
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    let ticks: u64 = fields.get(13)?.parse::<u64>().ok()? + fields.get(14)?.parse::<u64>().ok()?;
    Some(Duration::from_secs_f64(
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
    ))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::{hint::black_box, process::Command, thread, time::Instant};

    #[test]
    fn threads_are_told_apart_by_name() {
        let worked = thread::Builder::new()
            .name("own-busy".to_owned())
            .spawn(|| {
                let begun = Instant::now();
                while threads("own-busy") < Some(Duration::from_millis(20)) && begun.elapsed() < Duration::from_secs(60)
                {
                    black_box((0..10_000u64).sum::<u64>());
                }
                threads("own-busy")
            })
            .expect("a thread");
        assert!(worked.join().expect("its figure") >= Some(Duration::from_millis(20)));
        assert_eq!(threads("no-such-thread"), None);
    }

    #[test]
    fn children_count_once_they_were_waited_for() {
        let before = children().expect("/proc");
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", script]).status().expect("sh").success());
        assert!(children().expect("/proc") > before);
    }
}
