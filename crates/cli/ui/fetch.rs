//! `git fetch`'s report: `From URL`, then one line a ref, on standard error.

use std::io::{self, Write};

use bstr::{BStr, BString, ByteSlice};
use rgit_porcelain::fetch::{FetchOutcome, FetchedRef, Flag};
use rgit_smart_http::mask_control;

use super::Settings;

/// How wide git takes a terminal to be that doesn't tell.
const COLUMNS: usize = 80;

/// Print what changed. Refs that are up to date show only when asked for more.
pub(crate) fn print(
    outcome: &FetchOutcome,
    repo: &gix::Repository,
    remote: Option<&str>,
    settings: &Settings,
) -> io::Result<()> {
    let abbreviate = |id: gix::ObjectId| gix::prelude::ObjectIdExt::attach(id, repo).shorten_or_id().to_string();
    write(&mut io::stderr().lock(), outcome, remote, settings, abbreviate)
}

fn write(
    out: &mut dyn Write,
    outcome: &FetchOutcome,
    remote: Option<&str>,
    settings: &Settings,
    abbreviate: impl Fn(gix::ObjectId) -> String,
) -> io::Result<()> {
    for name in &outcome.ignored {
        writeln!(out, "error: * Ignoring funny ref '{}' locally", mask_control(name))?;
    }
    let shown = outcome.refs.iter().filter(|entry| match entry.flag {
        _ if entry.failure.is_some() => true,
        _ if settings.quiet => false,
        Flag::UpToDate => settings.verbose > 0,
        _ => true,
    });
    let columns = Columns::of(outcome, settings, &abbreviate);
    let mut headed = false;
    for entry in shown {
        if let Some(failure) = &entry.failure {
            writeln!(out, "error: {}", mask_control(failure.as_bytes()))?;
        }
        if settings.quiet {
            continue;
        }
        if !headed {
            writeln!(out, "From {}", mask_control(outcome.shown_url()))?;
            headed = true;
        }
        writeln!(out, "{}", columns.line(entry, settings, &abbreviate))?;
        for name in &entry.dangling {
            writeln!(out, "   ({} has become dangling)", mask_control(name))?;
        }
    }
    if outcome.refs.iter().any(|entry| entry.failure.is_some()) {
        let remote = remote.unwrap_or("<remote>");
        writeln!(
            out,
            "error: some local refs could not be updated; try running\n 'git remote prune {remote}' to remove any old, conflicting \
             branches"
        )?;
    }
    Ok(())
}

/// The width of git's columns (`transport_summary_width`, `refcol_width`).
struct Columns {
    summary: usize,
    name: usize,
}

impl Columns {
    fn of(outcome: &FetchOutcome, settings: &Settings, abbreviate: &impl Fn(gix::ObjectId) -> String) -> Columns {
        let limit = std::env::var("COLUMNS")
            .ok()
            .and_then(|columns| columns.parse().ok())
            .unwrap_or(COLUMNS);
        let (mut summary, mut name) = (0, 10);
        for entry in &outcome.refs {
            if entry.flag == Flag::UpToDate && settings.verbose == 0 {
                continue;
            }
            for id in entry.old.into_iter().chain(entry.new) {
                summary = summary.max(abbreviate(id).len());
            }
            let (Some(local), Some(remote)) = (&entry.local, &entry.remote) else {
                continue;
            };
            let width = |name: &BString| short(name.as_bstr()).chars().count();
            // A line too long for the terminal doesn't set the others' width.
            let whole = 21 + width(remote) + 4 + width(local);
            if remote != "HEAD" && whole < limit {
                name = name.max(width(remote));
            }
        }
        Columns {
            summary: if summary == 0 { 17 } else { 2 * summary + 3 },
            name,
        }
    }

    fn line(&self, entry: &FetchedRef, settings: &Settings, abbreviate: &impl Fn(gix::ObjectId) -> String) -> String {
        let refused = entry.flag == Flag::Rejected || entry.failure.is_some();
        let mut summary = format!("{:width$}", summary(entry, abbreviate), width = self.summary);
        if refused {
            summary = settings.red(&summary);
        }
        let flag = if refused { '!' } else { entry.flag.as_char() };
        let to = entry
            .local
            .as_ref()
            .map_or_else(|| "FETCH_HEAD".to_owned(), |name| short(name.as_bstr()));
        let note = match (&entry.failure, &entry.reason, entry.flag) {
            (Some(_), ..) => "  (unable to update local ref)".to_owned(),
            (None, Some(reason), _) => format!("  ({reason})"),
            (None, None, Flag::Forced) => "  (forced update)".to_owned(),
            _ => String::new(),
        };
        format!(
            " {flag} {summary} {:name$} -> {to}{note}",
            source(entry),
            name = self.name
        )
    }
}

/// What stands left of the arrow.
fn source(entry: &FetchedRef) -> String {
    match (&entry.remote, entry.new) {
        (Some(name), _) if entry.local.is_some() => short(name.as_bstr()),
        // For `FETCH_HEAD` git shortens fewer names.
        (Some(name), _) => [b"refs/heads/".as_slice(), b"refs/tags/", b"refs/remotes/"]
            .iter()
            .find_map(|prefix| name.strip_prefix(*prefix))
            .map_or_else(|| mask_control(name), mask_control),
        (None, Some(id)) => id.to_string(),
        (None, None) => "(none)".to_owned(),
    }
}

fn summary(entry: &FetchedRef, abbreviate: &impl Fn(gix::ObjectId) -> String) -> String {
    let name = entry.remote.as_ref().map_or(&b""[..], |name| name.as_bytes());
    let id = |id: Option<gix::ObjectId>| id.map_or_else(String::new, abbreviate);
    match entry.flag {
        Flag::FastForward => format!("{}..{}", id(entry.old), id(entry.new)),
        Flag::Forced => format!("{}...{}", id(entry.old), id(entry.new)),
        Flag::Pruned => "[deleted]".into(),
        Flag::Tag => "[tag update]".into(),
        Flag::New if entry.local.is_none() => match name {
            name if name.starts_with(b"refs/tags/") => "tag",
            name if name.starts_with(b"refs/remotes/") => "remote-tracking branch",
            _ => "branch",
        }
        .into(),
        Flag::New => match name {
            name if name.starts_with(b"refs/tags/") => "[new tag]",
            name if name.starts_with(b"refs/heads/") => "[new branch]",
            _ => "[new ref]",
        }
        .into(),
        Flag::UpToDate => "[up to date]".into(),
        _ => "[rejected]".into(),
    }
}

/// A ref's name as git shortens it for people; it came from the remote, so it is masked.
fn short(name: &BStr) -> String {
    let name = name.as_bytes();
    let short = [b"refs/heads/".as_slice(), b"refs/tags/", b"refs/remotes/"]
        .iter()
        .find_map(|prefix| name.strip_prefix(*prefix))
        .unwrap_or(name);
    mask_control(short)
}
