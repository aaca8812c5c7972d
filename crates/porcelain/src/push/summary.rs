//! The lines in which git tells what became of each ref, as data and as text. Nothing is printed here.
//!
//! Two forms (git-push(1), "Output"): for people, with short names and padded to a width that all lines share, and `--porcelain`,
//! tab-separated with full names.

use std::collections::HashSet;

use bstr::{BStr, BString, ByteSlice, ByteVec};
use gix::{ObjectId, hash::oid};

use super::{PushOutcome, RefResult, Rejection, Status};

/// One line about one ref. Text from the server has its control characters masked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// ` ` moved, `+` forced, `-` deleted, `*` new, `=` up to date, `!` refused.
    pub flag: char,
    /// `old..new`, `old...new` or a bracketed word.
    pub summary: String,
    /// The local side, in full; `None` where there is none to speak of.
    pub from: Option<BString>,
    /// The remote ref, in full.
    pub to: BString,
    /// What follows in parentheses.
    pub reason: Option<String>,
}

impl Line {
    /// The `--porcelain` form, without a newline.
    pub fn porcelain(&self) -> BString {
        let mut line = BString::from(format!("{}\t", self.flag));
        if let Some(from) = &self.from {
            line.push_str(from);
        }
        line.push_str(":");
        line.push_str(&self.to);
        line.push_str(format!("\t{}", self.summary));
        self.push_reason(&mut line);
        line
    }

    /// The form for people, with the summary padded to `width`, without a newline.
    pub fn human(&self, width: usize) -> BString {
        let mut line = BString::from(format!(" {} {:<width$} ", self.flag, self.summary));
        if let Some(from) = &self.from {
            line.push_str(pretty(from.as_bstr()));
            line.push_str(" -> ");
        }
        line.push_str(pretty(self.to.as_bstr()));
        self.push_reason(&mut line);
        line
    }

    fn push_reason(&self, line: &mut BString) {
        if let Some(reason) = &self.reason {
            line.push_str(format!(" ({reason})"));
        }
    }
}

/// A name without the part that goes without saying.
fn pretty(name: &BStr) -> &BStr {
    ["refs/heads/", "refs/tags/", "refs/remotes/"]
        .into_iter()
        .find_map(|prefix| name.strip_prefix(prefix.as_bytes()))
        .unwrap_or(name)
        .as_bstr()
}

/// The lines about `result`: one, or one for each ref that the server changed in its place.
pub fn lines(result: &RefResult, abbreviation: &Abbreviation<'_>) -> Vec<Line> {
    if result.status != Status::Ok || result.rewrites.is_empty() {
        return vec![line(result, abbreviation)];
    }
    let rewritten = result.rewrites.iter().map(|rewrite| {
        let mut shown = result.clone();
        shown.rewrites.clear();
        if let Some(name) = &rewrite.name {
            shown.remote = masked(name.as_bstr()).into();
        }
        shown.old = rewrite.old.unwrap_or(result.old);
        shown.new = rewrite.new.unwrap_or(result.new);
        shown.forced = rewrite.forced;
        line(&shown, abbreviation)
    });
    rewritten.collect()
}

fn line(result: &RefResult, abbreviation: &Abbreviation<'_>) -> Line {
    let bracketed = |flag, word: &str, reason: Option<String>| Line {
        flag,
        summary: format!("[{word}]"),
        from: result.local.clone(),
        to: result.remote.clone(),
        reason,
    };
    let without_source = |line: Line| Line { from: None, ..line };
    let refused_remotely = |line: Line| {
        if result.is_deletion() {
            without_source(line)
        } else {
            line
        }
    };
    match &result.status {
        Status::UpToDate => bracketed('=', "up to date", None),
        Status::Rejected(rejection) => {
            let line = bracketed('!', "rejected", Some(rejection.as_str().to_owned()));
            if *rejection == Rejection::NoDelete {
                without_source(line)
            } else {
                line
            }
        }
        Status::RemoteRejected(reason) => {
            refused_remotely(bracketed('!', "remote rejected", Some(masked(reason.as_bstr()))))
        }
        Status::Unreported => refused_remotely(bracketed(
            '!',
            "remote failure",
            Some("remote failed to report status".into()),
        )),
        Status::Ok if result.is_deletion() => without_source(bracketed('-', "deleted", None)),
        Status::Ok if result.old.is_null() => {
            let word = if result.remote.starts_with(b"refs/tags/") {
                "new tag"
            } else if result.remote.starts_with(b"refs/heads/") {
                "new branch"
            } else {
                "new reference"
            };
            bracketed('*', word, None)
        }
        Status::Ok => {
            let (flag, dots, reason) = if result.forced {
                ('+', "...", Some("forced update".to_owned()))
            } else {
                (' ', "..", None)
            };
            let (old, new) = (abbreviation.of(&result.old), abbreviation.of(&result.new));
            Line {
                summary: format!("{old}{dots}{new}"),
                ..bracketed(flag, "", reason)
            }
        }
    }
}

/// How wide the summaries of `outcome` are at most, for [`Line::human`].
pub fn width(outcome: &PushOutcome, abbreviation: &Abbreviation<'_>) -> usize {
    // Many refs share few objects, and each look-up costs.
    let ids: HashSet<ObjectId> = outcome
        .refs
        .iter()
        .flat_map(|result| [result.old, result.new])
        .collect();
    let lengths = ids.iter().map(|id| abbreviation.of(id).len());
    let longest = lengths.max().unwrap_or(Abbreviation::SHORTEST);
    2 * longest + 3
}

/// Shortens object names as `core.abbrev` says, or as far as they stay unique.
#[derive(Debug)]
pub struct Abbreviation<'repo> {
    repo: &'repo gix::Repository,
    /// For names of objects that aren't here, which nothing can be confused with.
    length: usize,
}

impl<'repo> Abbreviation<'repo> {
    const SHORTEST: usize = 7;

    /// For names in `repo`.
    pub fn new(repo: &'repo gix::Repository) -> Self {
        let full = repo.object_hash().len_in_hex();
        let configured = repo.config_snapshot().string("core.abbrev");
        let length = match configured.as_ref().map(|value| value.to_str_lossy().to_lowercase()) {
            Some(value) if matches!(value.as_str(), "no" | "off" | "false") => full,
            Some(value) => value
                .parse()
                .ok()
                .map_or(Self::SHORTEST, |length: usize| length.clamp(4, full)),
            None => {
                // Half the bits of the object count: where a collision becomes likely.
                let count = repo.objects.packed_object_count().unwrap_or(0);
                let bits = (u64::BITS - count.leading_zeros()) as usize;
                bits.div_ceil(2).max(Self::SHORTEST)
            }
        };
        Abbreviation { repo, length }
    }

    /// The short form of `id`.
    pub fn of(&self, id: &oid) -> String {
        let id = ObjectId::from(id);
        if !id.is_null()
            && self.repo.has_object(id)
            && let Ok(prefix) = self.repo_id(id).shorten()
        {
            return prefix.to_string();
        }
        id.to_hex_with_len(self.length).to_string()
    }

    fn repo_id(&self, id: ObjectId) -> gix::Id<'repo> {
        use gix::prelude::ObjectIdExt;
        id.attach(self.repo)
    }
}

fn masked(text: &BStr) -> String {
    text.to_str_lossy()
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// What a user may do about refused refs: the most pressing of git's cases, in words to stand behind `hint: `.
///
/// `None` where nothing was refused here, or the matching `advice.*` key is off.
pub fn advice(repo: &gix::Repository, outcome: &PushOutcome) -> Option<&'static str> {
    let rejected = |wanted: Rejection| move |result: &&RefResult| matches!(&result.status, Status::Rejected(rejection) if *rejection == wanted);
    let any = |wanted: Rejection| outcome.refs.iter().any(|result| rejected(wanted)(&result));
    let is_head = |result: &RefResult| outcome.head.as_ref() == Some(&result.remote);
    let behind: Vec<_> = outcome
        .refs
        .iter()
        .filter(rejected(Rejection::NonFastForward))
        .collect();
    let (key, text) = if behind.iter().any(|result| is_head(result)) {
        (
            "pushNonFFCurrent",
            "The remote branch has commits that your current branch lacks.\nFetch and merge or rebase onto them, then push again.",
        )
    } else if !behind.is_empty() {
        (
            "pushNonFFMatching",
            "A remote branch has commits that the pushed branch lacks.\nCheck that branch out, fetch and merge or rebase, then push \
             again.",
        )
    } else if any(Rejection::AlreadyExists) {
        (
            "pushAlreadyExists",
            "The tag exists on the remote already, with another value.",
        )
    } else if any(Rejection::FetchFirst) {
        (
            "pushFetchFirst",
            "The remote has work that is not in this repository: somebody else has pushed.\nFetch it, merge or rebase, then push \
             again.",
        )
    } else if any(Rejection::NeedsForce) {
        (
            "pushNeedsForce",
            "A ref that points, or would point, to something other than a commit moves only with --force.",
        )
    } else if any(Rejection::RemoteUpdated) {
        (
            "pushRefNeedsUpdate",
            "The remote-tracking branch has moved since the local branch last took it in.\nMerge or rebase onto it, then push again.",
        )
    } else {
        return None;
    };
    let config = repo.config_snapshot();
    let on = |key: &str| config.boolean(format!("advice.{key}").as_str()).unwrap_or(true);
    (on("pushUpdateRejected") && on(key)).then_some(text)
}
