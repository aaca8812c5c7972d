//! What a fetch did, ref by ref, in the terms git prints.

use bstr::{BStr, BString, ByteSlice};
use gix::{
    ObjectId,
    refs::transaction::{Change, PreviousValue},
    remote::fetch::{Outcome, RefMap, Status, refs::update::Mode},
};

/// The result of [`fetch`](super::fetch()).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FetchOutcome {
    /// The remote's URL, without user and password.
    pub url: BString,
    /// One entry a ref, in the remote's order; pruned refs stand first, as git prints them.
    pub refs: Vec<FetchedRef>,
    /// What arrived; `None` when nothing was needed.
    pub pack: Option<PackStatistics>,
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

    /// Whether a ref was refused: `git fetch` exits with 1 then.
    pub fn has_rejected(&self) -> bool {
        self.refs.iter().any(|entry| entry.flag == Flag::Rejected)
    }

    pub(super) fn from_received(
        url: BString,
        repo: &gix::Repository,
        received: &mut Outcome,
        specs: &[gix::refspec::RefSpec],
    ) -> FetchOutcome {
        let (updates, pack) = match &received.status {
            Status::NoPackReceived { update_refs, .. } => (update_refs, None),
            Status::Change {
                update_refs,
                write_pack_bundle,
                ..
            } => (
                update_refs,
                Some(PackStatistics::new(write_pack_bundle.index.num_objects)),
            ),
        };
        let RefMap {
            mappings,
            extra_refspecs,
            ..
        } = &received.ref_map;
        let refs = updates
            .iter_mapping_updates(mappings, specs, extra_refspecs)
            .filter(|(update, ..)| update.mode != Mode::ImplicitTagNotSentByRemote)
            .map(|(update, mapping, _spec, edit)| {
                let old = match edit.map(|edit| &edit.change) {
                    Some(Change::Update { expected, .. }) => match expected {
                        PreviousValue::MustExistAndMatch(target) => target.try_id().map(ToOwned::to_owned),
                        _ => None,
                    },
                    _ => mapping.local.as_ref().and_then(|name| current(repo, name.as_bstr())),
                };
                let is_tag = mapping
                    .local
                    .as_ref()
                    .is_some_and(|name| name.starts_with(b"refs/tags/"));
                let (flag, reason) = match (&update.mode, mapping.local.is_some()) {
                    (_, false) => (Flag::New, None),
                    (Mode::NoChangeNeeded, _) => (Flag::UpToDate, None),
                    (Mode::FastForward, _) => (Flag::FastForward, None),
                    (Mode::Forced, _) if is_tag => (Flag::Tag, None),
                    (Mode::Forced, _) => (Flag::Forced, None),
                    (Mode::New, _) => (Flag::New, None),
                    (Mode::RejectedTagUpdate, _) => (Flag::Rejected, Some("would clobber existing tag".to_owned())),
                    (Mode::RejectedNonFastForward, _) => (Flag::Rejected, Some("non-fast-forward".to_owned())),
                    (Mode::RejectedCurrentlyCheckedOut { .. }, _) => (
                        Flag::Rejected,
                        Some("refusing to fetch into the branch that is checked out".to_owned()),
                    ),
                    (other, _) => (Flag::Rejected, Some(other.to_string())),
                };
                FetchedRef {
                    flag,
                    remote: mapping.remote.as_name().map(ToOwned::to_owned),
                    local: mapping.local.clone(),
                    old,
                    new: mapping.remote.as_id().map(ToOwned::to_owned),
                    reason,
                }
            })
            .collect();
        FetchOutcome { url, refs, pack }
    }
}

/// What a ref here holds now.
pub(super) fn current(repo: &gix::Repository, name: &BStr) -> Option<ObjectId> {
    repo.try_find_reference(name)
        .ok()
        .flatten()
        .and_then(|reference| reference.try_id().map(gix::Id::detach))
}
