//! What a fetch did, ref by ref, in the terms git prints.

use bstr::BString;
use gix::ObjectId;

/// The result of [`fetch`](super::fetch()).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FetchOutcome {
    /// The remote's URL, without user and password.
    pub url: BString,
    /// One entry a ref, in the order in which git prints them: pruned refs first.
    pub refs: Vec<FetchedRef>,
    /// What arrived; `None` when nothing was needed.
    pub pack: Option<PackStatistics>,
    /// Names that the remote's refs would have had here, but that no ref may have. Nothing was done about these.
    pub ignored: Vec<BString>,
}

/// The pack that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackStatistics {
    /// Objects in the pack, bases added to complete a thin one included.
    pub objects: u32,
}

impl PackStatistics {
    pub(crate) fn new(objects: u32) -> Self {
        PackStatistics { objects }
    }
}

/// One ref of the remote and what became of it here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchedRef {
    /// The flag that git prints first.
    pub flag: Flag,
    /// The ref's name on the remote; `None` for a pruned ref or a bare object id.
    pub remote: Option<BString>,
    /// The ref here that stores it; `None` when it is kept in `FETCH_HEAD` only.
    pub local: Option<BString>,
    /// What `local` held before.
    pub old: Option<ObjectId>,
    /// What the remote has.
    pub new: Option<ObjectId>,
    /// Why it was refused, in git's words.
    pub reason: Option<String>,
    /// Why `local` could not be written, though it might have been: a lock, or a ref whose name stands in the way.
    pub failure: Option<String>,
    /// Symbolic refs here that lead nowhere once `local` is pruned.
    pub dangling: Vec<BString>,
}

impl FetchedRef {
    /// Whether `local` is to get another value.
    pub(super) fn moves(&self) -> bool {
        self.local.is_some() && matches!(self.flag, Flag::FastForward | Flag::Forced | Flag::Tag | Flag::New)
    }
}

/// The flags of git-fetch(1), section "OUTPUT".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flag {
    /// ` `: fast-forwarded.
    FastForward,
    /// `+`: forced.
    Forced,
    /// `-`: pruned.
    Pruned,
    /// `t`: a tag moved.
    Tag,
    /// `*`: new, or kept in `FETCH_HEAD`.
    New,
    /// `!`: refused.
    Rejected,
    /// `=`: already there.
    UpToDate,
}

impl Flag {
    /// The character that git prints.
    pub fn as_char(self) -> char {
        match self {
            Flag::FastForward => ' ',
            Flag::Forced => '+',
            Flag::Pruned => '-',
            Flag::Tag => 't',
            Flag::New => '*',
            Flag::Rejected => '!',
            Flag::UpToDate => '=',
        }
    }
}

impl FetchOutcome {
    /// The URL as git prints it behind `From`, and writes it into `FETCH_HEAD`: without trailing slashes and `.git`.
    pub fn shown_url(&self) -> &[u8] {
        let mut url = self.url.as_slice();
        while let Some(shorter) = url.strip_suffix(b"/") {
            url = shorter;
        }
        url.strip_suffix(b".git").unwrap_or(url)
    }

    /// Whether a ref was refused or could not be written: `git fetch` exits with 1 then.
    pub fn has_rejected(&self) -> bool {
        self.refs
            .iter()
            .any(|entry| entry.flag == Flag::Rejected || entry.failure.is_some())
    }
}
