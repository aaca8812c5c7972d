//! Progress on a terminal, in git's words: `Receiving objects:  45% (450/1000), 3.20 MiB | 1.50 MiB/s`.
//!
//! The rooms below report by atomic counters ([`stage`]); a thread here looks at them a few times a second and redraws one line. Where
//! nothing is shown there is no thread, and counting costs next to nothing.

mod stage;

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

use super::Settings;
pub(crate) use stage::Stage;
use stage::{Seen, Stages};

/// Redrawing more often than this is not seen.
const PERIOD: Duration = Duration::from_millis(200);

/// The progress of one command.
pub(crate) struct Progress {
    stages: Arc<Stages>,
    drawing: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    pub(crate) fn new(settings: &Settings) -> Self {
        let stages = Arc::new(Stages::default());
        let drawing = settings.progress.then(|| {
            let (stop, stopped) = channel::<()>();
            let stages = Arc::clone(&stages);
            let thread = std::thread::spawn(move || {
                let mut lines = Lines::new(std::io::stderr());
                loop {
                    let last = !matches!(stopped.recv_timeout(PERIOD), Err(RecvTimeoutError::Timeout));
                    lines.draw(&stages.seen(), last);
                    if last {
                        break;
                    }
                }
            });
            (stop, thread)
        });
        Progress { stages, drawing }
    }

    /// Where the work reports to.
    pub(crate) fn handle(&self) -> Stage {
        Stage::top(Arc::clone(&self.stages))
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
fn title(seen: &Seen) -> Option<&'static str> {
    Some(match (&seen.id, seen.name.as_str()) {
        (_, "Counting objects") => "Counting objects",
        (_, "Compressing objects") => "Compressing objects",
        (_, "Writing objects") => "Writing objects",
        (b"IWIO", _) => "Receiving objects",
        (b"IWRO", _) => "Resolving deltas",
        _ => return None,
    })
}

/// The bytes that go with a stage are counted in one of their own: gix's when a pack is received, the push room's when one is sent.
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

    fn draw(&mut self, stages: &[Seen], last: bool) {
        let bytes = stages
            .iter()
            .find(|seen| BYTES.contains(&seen.id))
            .map(|seen| seen.step as u64);
        for seen in stages {
            let Some(title) = title(seen) else { continue };
            if self.finished.contains(title) || seen.step == 0 {
                continue;
            }
            let total = seen.total.filter(|total| *total > 0);
            let done = last || seen.ended || total.is_some_and(|total| seen.step >= total);
            self.line(title, seen.step, total, bytes, done);
            if !done {
                // One line is redrawn at a time: the first that isn't finished.
                break;
            }
        }
        if last && self.open.take().is_some() {
            let _ = self.out.write_all(b"\n");
        }
        // Nothing can be done for a terminal that is gone; the work goes on.
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
    use gix::progress::{Count as _, NestedProgress as _, Progress as _};

    use super::*;

    #[test]
    fn stages_are_drawn_in_gits_words_and_end_once() {
        let stages = Arc::new(Stages::default());
        let mut top = Stage::top(Arc::clone(&stages));
        let mut counting = top.add_child("Counting objects");
        counting.init(None, None);
        counting.set(7);
        drop(counting);
        let mut writing = top.add_child("Writing objects");
        writing.init(Some(4), None);
        let bytes = top.add_child_with_id("Bytes", *b"RGPB");
        bytes.set(2048);

        let mut lines = Lines::new(Vec::new());
        writing.set(1);
        lines.draw(&stages.seen(), false);
        writing.set(4);
        lines.draw(&stages.seen(), false);
        lines.draw(&stages.seen(), true);
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
