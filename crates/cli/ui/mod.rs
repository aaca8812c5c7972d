//! What the user sees: progress, the remote's words, one line a ref, errors.

pub(crate) mod error;
pub(crate) mod fetch;
pub(crate) mod progress;
pub(crate) mod push;
pub(crate) mod remote;
pub(crate) mod trace;

use std::io::IsTerminal;

use crate::args::{Color, Global};

/// As `eprintln!`, but for a standard error that is gone, where nothing can be done and the work goes on.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($text)*);
    }};
}
pub(crate) use say;

/// Standard output was closed by whoever read it.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl std::fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nobody reads the output any more")
    }
}

impl std::error::Error for ReaderGone {}

/// Write to standard output all that `write` does.
pub(crate) fn output(write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>) -> anyhow::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    write(&mut out)
        .and_then(|()| std::io::Write::flush(&mut out))
        .map_err(|err| match err.kind() {
            std::io::ErrorKind::BrokenPipe => ReaderGone.into(),
            _ => anyhow::Error::from(err).context("cannot write the output"),
        })
}

/// How much to show, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) quiet: bool,
    pub(crate) verbose: u8,
    pub(crate) progress: bool,
    pub(crate) color: bool,
}

impl Settings {
    pub(crate) fn new(global: &Global) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Settings {
            quiet: global.quiet,
            verbose: global.verbose,
            progress: global.progress || (terminal && !global.quiet && !global.no_progress),
            color: match global.color {
                Color::Always => true,
                Color::Never => false,
                Color::Auto => terminal && std::env::var_os("NO_COLOR").is_none(),
            },
        }
    }

    /// `text` in red where colours are wanted.
    pub(crate) fn red(&self, text: &str) -> String {
        if self.color {
            format!("\u{1b}[31m{text}\u{1b}[m")
        } else {
            text.to_owned()
        }
    }
}

/// What git caps `pack.depth` at.
const LONGEST_CHAIN: usize = 4095;

/// How packs are made, as `pack.*`, `core.compression` and `core.bigFileThreshold` say.
pub(crate) fn pack_options(config: &gix::config::File) -> anyhow::Result<rgit_porcelain::PackOptions> {
    use anyhow::Context as _;
    let number = |key: &str| -> anyhow::Result<Option<i64>> {
        config
            .integer(key)
            .with_context(|| format!("the configuration key {key} holds no number"))
    };
    let mut options = rgit_porcelain::PackOptions::default();
    // 0 means as many as there are cores (git-config, "pack.threads").
    options.threads = number("pack.threads")?
        .and_then(|threads| usize::try_from(threads).ok())
        .filter(|threads| *threads > 0);
    if let Some(level) = number("pack.compression")?.or(number("core.compression")?) {
        options.compression = i32::try_from(level)
            .ok()
            .filter(|level| (-1..=9).contains(level))
            .with_context(|| format!("bad zlib compression level {level}: use -1 to 9"))?;
    }
    let size = |key: &str| -> anyhow::Result<Option<u64>> {
        let Some(value) = number(key)? else { return Ok(None) };
        let value = u64::try_from(value).with_context(|| format!("the configuration key {key} is negative"))?;
        Ok(Some(value))
    };
    let count = |value: u64| usize::try_from(value).unwrap_or(usize::MAX).min(LONGEST_CHAIN);
    if let Some(window) = size("pack.window")? {
        options.window = count(window);
    }
    if let Some(depth) = size("pack.depth")? {
        options.depth = count(depth);
    }
    options.window_memory = size("pack.windowMemory")?.unwrap_or(options.window_memory);
    options.big_file_threshold = size("core.bigFileThreshold")?.unwrap_or(options.big_file_threshold);
    Ok(options)
}
