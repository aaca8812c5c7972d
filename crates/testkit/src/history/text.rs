//! The text of a long history: what lies in the source files at hand, written as a team would write it.
//!
//! Owns reading the files and growing them change by change; [`super::text_history`] makes commits of the changes.

use std::{fs, path::PathBuf};

use super::Numbers;

/// Text read for a long history: enough for one of any length, little enough to keep in memory.
const SOURCE_LIMIT: usize = 48 * 1024 * 1024;
/// Files longer than this are left out: each commit writes its file anew.
const FILE_LIMIT: u64 = 24 * 1024;

/// One source file.
pub(super) struct Text {
    path: String,
    pub(super) content: Vec<u8>,
}

/// Reads text files in order of their paths, up to the limits.
pub(super) fn read_texts(sources: &[PathBuf]) -> Vec<Text> {
    let mut texts = Vec::new();
    let mut total = 0;
    let mut pending: Vec<(PathBuf, String)> = sources.iter().rev().map(|path| (path.clone(), String::new())).collect();
    while let Some((directory, prefix)) = pending.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        let mut entries: Vec<fs::DirEntry> = entries.flatten().collect();
        entries.sort_unstable_by_key(fs::DirEntry::file_name);
        let mut deeper = Vec::new();
        for entry in entries {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let Ok(kind) = entry.file_type() else { continue };
            let path = format!("{prefix}{name}");
            if kind.is_dir() && !name.starts_with('.') && name != "target" {
                deeper.push((entry.path(), format!("{path}/")));
            } else if kind.is_file()
                && [".rs", ".toml", ".md", ".c", ".h"]
                    .iter()
                    .any(|end| name.ends_with(end))
                && entry
                    .metadata()
                    .is_ok_and(|metadata| (200..FILE_LIMIT).contains(&metadata.len()))
                && let Ok(content) = fs::read(entry.path())
            {
                total += content.len();
                texts.push(Text { path, content });
                if total > SOURCE_LIMIT {
                    return texts;
                }
            }
        }
        pending.extend(deeper.into_iter().rev());
    }
    texts
}

/// Writes the texts as a team would: several files at a time, each in parts, with edits in between.
pub(super) struct Writer<'a> {
    texts: &'a [Text],
    growing: Vec<Growing>,
    next: usize,
    numbers: Numbers,
}

/// A file on its way to its full length.
struct Growing {
    text: usize,
    /// How often the texts had been used up when this one was begun: the folder is another each time.
    round: usize,
    /// How much of the text is there.
    shown: usize,
    /// Lines put in between, by the place in the text before which they stand.
    edits: Vec<(usize, String)>,
}

impl<'a> Writer<'a> {
    /// A writer that has written nothing yet.
    pub(super) fn new(texts: &'a [Text]) -> Self {
        Writer {
            texts,
            growing: Vec::new(),
            next: 0,
            numbers: Numbers::new(20_000),
        }
    }

    /// The next change: a file and its new content.
    pub(super) fn change(&mut self) -> (String, Vec<u8>) {
        if self.growing.len() < 24 {
            self.growing.push(Growing {
                text: self.next % self.texts.len(),
                round: self.next / self.texts.len(),
                shown: 0,
                edits: Vec::new(),
            });
            self.next += 1;
        }
        let chosen = self.numbers.below(self.growing.len());
        let number = self.numbers.next();
        let file = &mut self.growing[chosen];
        let text = &self.texts[file.text];
        if file.shown < text.content.len() && !number.is_multiple_of(3) {
            let step = text.content.len() / 6 + 100;
            let to = (file.shown + step).min(text.content.len());
            file.shown = line_end(&text.content, to);
        } else {
            let at = line_end(&text.content, (number >> 8) as usize % file.shown.max(1));
            file.edits.push((at, format!("// Revised: see note {number:016x}.\n")));
            file.edits.sort_unstable();
        }
        let mut content = Vec::with_capacity(file.shown + 64 * file.edits.len());
        let mut from = 0;
        for (at, line) in file.edits.iter().filter(|(at, _)| *at <= file.shown) {
            content.extend_from_slice(&text.content[from..*at]);
            content.extend_from_slice(line.as_bytes());
            from = *at;
        }
        content.extend_from_slice(&text.content[from..file.shown]);
        let path = if file.round == 0 {
            text.path.clone()
        } else {
            format!("round-{}/{}", file.round, text.path)
        };
        if file.shown == text.content.len() && file.edits.len() >= 3 {
            self.growing.swap_remove(chosen);
        }
        (path, content)
    }
}

/// The end of the line that `at` lies in.
fn line_end(content: &[u8], at: usize) -> usize {
    content[at..]
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(content.len(), |more| at + more + 1)
}
