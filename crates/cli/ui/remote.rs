//! What the remote says (side band 2), each line behind `remote: `, with control characters masked.
//!
//! The text arrives in pieces that end anywhere. A carriage return redraws the line, as the remote's progress does; such lines are
//! shown only where progress is.

use std::io::Write;

use rgit_porcelain::bridge::RemoteMessages;
use rgit_smart_http::mask_control;

use super::Settings;

/// A line longer than this is shown in pieces: a remote can't make us keep more.
const LINE_LIMIT: usize = 4096;

/// Puts pieces together and writes whole lines.
pub(crate) struct RemoteText<W> {
    out: W,
    line: Vec<u8>,
    show_progress: bool,
    /// Our cursor stands behind a line that a carriage return will overwrite.
    redrawing: bool,
}

impl<W: Write> RemoteText<W> {
    pub(crate) fn new(out: W, show_progress: bool) -> Self {
        RemoteText {
            out,
            line: Vec::new(),
            show_progress,
            redrawing: false,
        }
    }

    /// Take the next piece.
    pub(crate) fn push(&mut self, mut text: &[u8]) {
        while let Some(end) = text.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line.extend_from_slice(&text[..end]);
            self.write_line(text[end]);
            text = &text[end + 1..];
        }
        self.line.extend_from_slice(text);
        if self.line.len() > LINE_LIMIT {
            self.write_line(b'\n');
        }
    }

    fn write_line(&mut self, end: u8) {
        let line = std::mem::take(&mut self.line);
        let transient = end == b'\r';
        if (transient || is_progress(&line)) && !self.show_progress {
            return;
        }
        if line.is_empty() && transient {
            return;
        }
        let text = mask_control(&line);
        // The blanks wipe what a longer line left behind on a terminal.
        let wipe = if self.redrawing { "        " } else { "" };
        self.redrawing = transient;
        // Nothing can be done for a reader that is gone; the work goes on.
        let _ = self
            .out
            .write_all(format!("remote: {text}{wipe}{}", end as char).as_bytes());
        let _ = self.out.flush();
    }

    /// Show what came without a line end; the beginning of a progress line is none of it.
    pub(crate) fn finish(&mut self) {
        if !self.show_progress && STAGES.iter().any(|stage| stage.as_bytes().starts_with(&self.line)) {
            self.line.clear();
        }
        if !self.line.is_empty() {
            self.write_line(b'\n');
        } else if self.redrawing {
            let _ = self.out.write_all(b"\n");
        }
        self.redrawing = false;
    }
}

/// What a server's progress lines begin with.
const STAGES: [&str; 7] = [
    "Enumerating objects: ",
    "Counting objects: ",
    "Finding sources: ",
    "Getting sizes: ",
    "Compressing objects: ",
    "Unpacking objects: ",
    "Resolving deltas: ",
];

/// `Counting objects: 100% (3/3), done.` and the like.
fn is_progress(line: &[u8]) -> bool {
    let Ok(line) = std::str::from_utf8(line) else {
        return false;
    };
    if line.starts_with("Total ") && line.contains(" (delta ") {
        return true;
    }
    let Some((title, rest)) = line.split_once(": ") else {
        return false;
    };
    let rest = rest.trim_start();
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    !title.is_empty()
        && title.chars().all(|c| c.is_ascii_alphabetic() || c == ' ')
        && after.len() < rest.len()
        && (after.starts_with("% (") || after.is_empty() || after.starts_with(", done"))
}

/// Prints on standard error while a fetch runs.
pub(crate) fn fetch_listener(settings: &Settings) -> RemoteMessages {
    let mut text = Finished(RemoteText::new(std::io::stderr(), settings.progress));
    Box::new(move |piece| text.0.push(piece))
}

/// Shows an unfinished line when the last listener goes.
struct Finished<W: Write>(RemoteText<W>);

impl<W: Write> Drop for Finished<W> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&str], progress: bool) -> String {
        let mut out = Vec::new();
        let mut text = RemoteText::new(&mut out, progress);
        for piece in pieces {
            text.push(piece.as_bytes());
        }
        text.finish();
        drop(text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_joined_from_pieces_and_prefixed() {
        assert_eq!(
            shown(&["hel", "lo\nwor", "ld"], false),
            "remote: hello\nremote: world\n"
        );
    }

    #[test]
    fn progress_shows_only_where_wanted() {
        let pieces = [
            "Counting objects:  50% (1/2)\rCounting objects: 100% (2/2), done.\n",
            "Hook says hi\n",
        ];
        assert_eq!(shown(&pieces, false), "remote: Hook says hi\n");
        assert!(shown(&pieces, true).contains("50% (1/2)"));
        assert_eq!(
            shown(&["Total 3 (delta 0), reused 0 (delta 0), pack-reused 0\n"], false),
            ""
        );
        assert_eq!(
            shown(&["Policy: 3 approvals are missing\n"], false),
            "remote: Policy: 3 approvals are missing\n"
        );
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let text = shown(&["\u{1b}]0;title\u{7}\u{1b}[2J\n"], false);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
    }

    #[test]
    fn what_is_left_at_the_end_is_shown_unless_progress_begins_there() {
        assert_eq!(shown(&["bye"], false), "remote: bye\n");
        assert_eq!(shown(&["Counting obj"], false), "");
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let mut text = RemoteText::new(std::io::sink(), false);
        for _ in 0..10_000 {
            text.push(&[b'x'; 1000]);
            assert!(text.line.len() <= LINE_LIMIT + 1000);
        }
    }
}
