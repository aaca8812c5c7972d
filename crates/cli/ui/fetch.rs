//! `git fetch`'s report: `From URL`, then one line a ref, on standard error.

use std::io::{self, Write};

use bstr::{BStr, BString, ByteSlice};
use rgit_porcelain::fetch::{FetchOutcome, FetchedRef, Flag};
use rgit_smart_http::mask_control;

use super::Settings;

/// Print what changed. Refs that are up to date show only when asked for more.
pub(crate) fn print(outcome: &FetchOutcome, repo: &gix::Repository, settings: &Settings) -> io::Result<()> {
    write(&mut io::stderr().lock(), outcome, settings, |id| {
        id.map_or_else(String::new, |id| {
            gix::prelude::ObjectIdExt::attach(id, repo).shorten_or_id().to_string()
        })
    })
}

fn write(
    out: &mut dyn Write,
    outcome: &FetchOutcome,
    settings: &Settings,
    abbreviate: impl Fn(Option<gix::ObjectId>) -> String,
) -> io::Result<()> {
    let shown: Vec<&FetchedRef> = outcome
        .refs
        .iter()
        .filter(|entry| match entry.flag {
            Flag::UpToDate => settings.verbose > 0,
            Flag::Rejected => true,
            _ => !settings.quiet,
        })
        .collect();
    if shown.is_empty() {
        return Ok(());
    }
    let width = shown
        .iter()
        .map(|entry| remote_name(entry).chars().count())
        .max()
        .unwrap_or(0)
        .clamp(10, 60);
    writeln!(out, "From {}", mask_control(outcome.shown_url()))?;
    for entry in shown {
        let summary = summary(entry, &abbreviate);
        let summary = if entry.flag == Flag::Rejected {
            settings.red(&format!("{summary:17}"))
        } else {
            format!("{summary:17}")
        };
        let to = entry
            .local
            .as_ref()
            .map_or_else(|| "FETCH_HEAD".to_owned(), |name| short(name.as_bstr()));
        let mut line = format!(
            " {} {summary} {:width$} -> {to}",
            entry.flag.as_char(),
            remote_name(entry)
        );
        match (&entry.reason, entry.flag) {
            (Some(reason), _) => line.push_str(&format!("  ({reason})")),
            (None, Flag::Forced) => line.push_str("  (forced update)"),
            _ => {}
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn remote_name(entry: &FetchedRef) -> String {
    entry
        .remote
        .as_ref()
        .map_or_else(|| "(none)".to_owned(), |name| short(name.as_bstr()))
}

fn summary(entry: &FetchedRef, abbreviate: &impl Fn(Option<gix::ObjectId>) -> String) -> String {
    let kind = |name: Option<&BString>| match name.map(|name| name.as_bytes()) {
        Some(name) if name.starts_with(b"refs/heads/") => "branch",
        Some(name) if name.starts_with(b"refs/tags/") => "tag",
        Some(b"HEAD") => "branch",
        _ => "ref",
    };
    match entry.flag {
        Flag::FastForward => format!("{}..{}", abbreviate(entry.old), abbreviate(entry.new)),
        Flag::Forced => format!("{}...{}", abbreviate(entry.old), abbreviate(entry.new)),
        Flag::Pruned => "[deleted]".into(),
        Flag::Tag => "[tag update]".into(),
        Flag::New if entry.local.is_none() => kind(entry.remote.as_ref()).into(),
        Flag::New => format!("[new {}]", kind(entry.remote.as_ref())),
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
