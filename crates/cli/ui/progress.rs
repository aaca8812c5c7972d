//! Progress on a terminal, in git's words: `Receiving objects:  45% (450/1000), 3.20 MiB | 1.50 MiB/s`.
//!
//! The rooms below report to a `prodash` tree by atomic counters; a thread here looks at it a few times a second and redraws one
//! line. Where nothing is shown there is no thread, and the tree costs next to nothing.

use std::{
    collections::HashSet,
    io::Write,
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use prodash::{
    progress::Task,
    tree::{Item, Root},
};

use super::Settings;

/// Redrawing more often than this is not seen.
const PERIOD: Duration = Duration::from_millis(200);

/// The progress of one command.
pub(crate) struct Progress {
    root: Arc<Root>,
    drawing: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    pub(crate) fn new(settings: &Settings) -> Self {
        let root: Arc<Root> = prodash::tree::root::Options {
            message_buffer_capacity: 20,
            ..Default::default()
        }
        .into();
        let drawing = settings.progress.then(|| {
            let (stop, stopped) = channel::<()>();
            let root = Arc::clone(&root);
            let thread = std::thread::spawn(move || {
                let mut lines = Lines::new(std::io::stderr());
                loop {
                    let last = !matches!(stopped.recv_timeout(PERIOD), Err(RecvTimeoutError::Timeout));
                    lines.draw(&root, last);
                    if last {
                        break;
                    }
                }
            });
            (stop, thread)
        });
        Progress { root, drawing }
    }

    /// Where the work reports to.
    pub(crate) fn handle(&self) -> Item {
        self.root.add_child("rgit")
    }

    /// Draw the last state and stop.
    pub(crate) fn finish(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        if let Some((stop, thread)) = self.drawing.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What git calls a stage, by the name or id that the rooms below and gix give it.
fn title(task: &Task) -> Option<&'static str> {
    Some(match (&task.id, task.name.as_str()) {
        (_, "Counting objects") => "Counting objects",
        (_, "Compressing objects") => "Compressing objects",
        (_, "Writing objects") => "Writing objects",
        (b"IWIO", _) => "Receiving objects",
        (b"IWRO", _) => "Resolving deltas",
        _ => return None,
    })
}

/// The bytes that go with a stage are counted in a task of their own: gix's when a pack is received, the push room's when one is sent.
const BYTES: [[u8; 4]; 2] = [*b"BWRB", *b"RGPB"];

struct Lines<W> {
    out: W,
    started: Instant,
    finished: HashSet<&'static str>,
    open: Option<&'static str>,
}

impl<W: Write> Lines<W> {
    fn new(out: W) -> Self {
        Lines {
            out,
            started: Instant::now(),
            finished: HashSet::new(),
            open: None,
        }
    }

    fn draw(&mut self, root: &Root, last: bool) {
        let mut tasks = Vec::new();
        root.sorted_snapshot(&mut tasks);
        let bytes = tasks
            .iter()
            .find(|(_, task)| BYTES.contains(&task.id))
            .and_then(|(_, task)| task.progress.as_ref())
            .map(|value| value.step.load(std::sync::atomic::Ordering::Relaxed) as u64);
        let mut stages: Vec<(&'static str, usize, Option<usize>)> = Vec::new();
        for (_, task) in &tasks {
            let (Some(title), Some(value)) = (title(task), task.progress.as_ref()) else {
                continue;
            };
            let step = value.step.load(std::sync::atomic::Ordering::Relaxed);
            stages.push((title, step, value.done_at.filter(|total| *total > 0)));
        }
        let count = stages.len();
        for (index, (title, step, total)) in stages.into_iter().enumerate() {
            if self.finished.contains(title) || step == 0 {
                continue;
            }
            let done = total.is_some_and(|total| step >= total) || last || (total.is_none() && index + 1 < count);
            self.line(title, step, total, bytes, done);
        }
        if last && self.open.take().is_some() {
            let _ = self.out.write_all(b"\n");
        }
        let _ = self.out.flush();
    }

    fn line(&mut self, title: &'static str, step: usize, total: Option<usize>, bytes: Option<u64>, done: bool) {
        if self.open.is_some_and(|open| open != title) {
            let _ = self.out.write_all(b"\n");
        }
        let counted = match total {
            Some(total) => format!("{:3}% ({step}/{total})", step.saturating_mul(100) / total),
            None => step.to_string(),
        };
        let moved = match (title, bytes) {
            ("Receiving objects" | "Writing objects", Some(bytes)) => {
                let seconds = self.started.elapsed().as_secs_f64().max(0.001);
                format!(", {} | {}/s", size(bytes as f64), size(bytes as f64 / seconds))
            }
            _ => String::new(),
        };
        let end = if done { ", done.\n" } else { "\r" };
        let _ = self.out.write_all(format!("{title}: {counted}{moved}{end}").as_bytes());
        self.open = (!done).then_some(title);
        if done {
            self.finished.insert(title);
        }
    }
}

/// As git writes sizes.
fn size(bytes: f64) -> String {
    const KIB: f64 = 1024.0;
    if bytes >= KIB * KIB * KIB {
        format!("{:.2} GiB", bytes / (KIB * KIB * KIB))
    } else if bytes >= KIB * KIB {
        format!("{:.2} MiB", bytes / (KIB * KIB))
    } else if bytes >= KIB {
        format!("{:.2} KiB", bytes / KIB)
    } else {
        format!("{bytes:.0} bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_drawn_in_gits_words_and_end_once() {
        let root: Arc<Root> = prodash::tree::root::Options::default().into();
        let mut top = root.add_child("rgit");
        let counting = top.add_child("Counting objects");
        counting.init(None, None);
        counting.set(7);
        let writing = top.add_child("Writing objects");
        writing.init(Some(4), None);
        let bytes = top.add_child_with_id("Bytes", *b"RGPB");
        bytes.init(None, None);
        bytes.set(2048);

        let mut lines = Lines::new(Vec::new());
        writing.set(1);
        lines.draw(&root, false);
        writing.set(4);
        lines.draw(&root, false);
        lines.draw(&root, true);
        let text = String::from_utf8(lines.out).unwrap();
        assert!(text.starts_with("Counting objects: 7, done.\n"), "{text:?}");
        assert!(text.contains("Writing objects:  25% (1/4), 2.00 KiB | "), "{text:?}");
        assert_eq!(text.matches("100% (4/4)").count(), 1, "{text:?}");
        assert!(text.ends_with(", done.\n"), "{text:?}");
    }

    #[test]
    fn sizes_read_as_gits() {
        assert_eq!(size(300.0), "300 bytes");
        assert_eq!(size(2048.0), "2.00 KiB");
        assert_eq!(size(3.5 * 1024.0 * 1024.0), "3.50 MiB");
    }
}
