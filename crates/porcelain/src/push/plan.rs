//! What becomes of each ref, decided from what both sides have: sent, up to date, or refused here without asking the server.
//!
//! The rules are git's (git-push(1), "Note about fast-forwards" and `--force-with-lease`): a remote ref may be created, deleted, or
//! moved to a descendant; tags don't move; all else takes force, or a lease that holds.

use bstr::{BStr, BString};
use gix::ObjectId;
use rgit_proto::RefUpdate;

use super::{
    Error, Options,
    ancestry::Ancestry,
    lease::{Leases, Verdict as LeaseVerdict},
    local::LocalRefs,
    matching::{self, Slot, Slots},
    request::{Request, Selection},
};
use crate::remote::Remote;

/// Why a ref is not even asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// The remote has commits that the new tip lacks.
    NonFastForward,
    /// What the remote has isn't here, so nobody can tell.
    FetchFirst,
    /// Old or new value is no commit.
    NeedsForce,
    /// A tag would move.
    AlreadyExists,
    /// The lease expected another value.
    Stale,
    /// The lease holds, but its commit never went into the local branch.
    RemoteUpdated,
    /// Another ref of an atomic push was refused.
    AtomicPushFailed,
    /// The server deletes no refs.
    NoDelete,
}

impl Rejection {
    /// Git's words, as they stand in parentheses.
    pub fn as_str(self) -> &'static str {
        match self {
            Rejection::NonFastForward => "non-fast-forward",
            Rejection::FetchFirst => "fetch first",
            Rejection::NeedsForce => "needs force",
            Rejection::AlreadyExists => "already exists",
            Rejection::Stale => "stale info",
            Rejection::RemoteUpdated => "remote ref updated since checkout",
            Rejection::AtomicPushFailed => "atomic push failed",
            Rejection::NoDelete => "remote does not support deleting refs",
        }
    }
}

/// What was decided for one ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Ask the server for it.
    Send,
    /// It already is what it should be.
    UpToDate,
    /// It is refused here.
    Rejected(Rejection),
}

/// One remote ref of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedRef {
    /// The local side: a full ref name, or the revision as typed. `None` for a deletion that a mirror implies.
    pub local: Option<BString>,
    /// The full name on the remote.
    pub remote: BString,
    /// What the remote has; null for nothing.
    pub old: ObjectId,
    /// What it shall have; null for nothing.
    pub new: ObjectId,
    /// It takes force, which was given.
    pub forced: bool,
    /// What was decided.
    pub verdict: Verdict,
}

impl PlannedRef {
    /// Whether the remote ref shall go.
    pub fn is_deletion(&self) -> bool {
        self.new.is_null()
    }
}

/// What a push would do, ref by ref.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushPlan {
    /// The refs that the push is about, in the remote's order, new ones last.
    pub refs: Vec<PlannedRef>,
    /// Whether the push is for all refs or none.
    pub atomic: bool,
}

/// What the remote side said, as far as a plan needs it.
#[derive(Debug)]
pub(super) struct Advertised<'a, I: IntoIterator<Item = (&'a BStr, ObjectId)>> {
    pub(super) refs: I,
    /// It offers `delete-refs`.
    pub(super) deletes: bool,
}

impl PushPlan {
    pub(super) fn new<'a>(
        local: &LocalRefs<'_>,
        remote: &Remote,
        request: &Request,
        options: &Options,
        advertised: Advertised<'a, impl IntoIterator<Item = (&'a BStr, ObjectId)>>,
    ) -> Result<PushPlan, Error> {
        let ancestry = Ancestry::new(local.repo)?;
        let leases = Leases::new(local, remote, options)?;
        let mut slots = Slots::new(advertised.refs, local.repo.object_hash().null());
        matching::fill(
            &mut slots,
            local,
            &ancestry,
            request,
            options.prune,
            options.follow_tags,
        )?;

        let mut refs = Vec::new();
        for slot in slots.list {
            if slot.peer.is_some() || request.selection == Selection::Mirror {
                refs.push(decide(
                    slot,
                    local,
                    &ancestry,
                    &leases,
                    request.force,
                    advertised.deletes,
                )?);
            }
        }
        let refused = |planned: &PlannedRef| matches!(planned.verdict, Verdict::Rejected(_));
        if options.atomic && refs.iter().any(refused) {
            for planned in refs.iter_mut().filter(|planned| planned.verdict == Verdict::Send) {
                planned.verdict = Verdict::Rejected(Rejection::AtomicPushFailed);
            }
        }
        Ok(PushPlan {
            refs,
            atomic: options.atomic,
        })
    }

    /// The commands for the server.
    pub fn updates(&self) -> Vec<RefUpdate> {
        self.sent()
            .map(|planned| RefUpdate {
                name: planned.remote.clone(),
                old: planned.old,
                new: planned.new,
            })
            .collect()
    }

    /// The refs that the server is asked for.
    pub fn sent(&self) -> impl Iterator<Item = &PlannedRef> {
        self.refs.iter().filter(|planned| planned.verdict == Verdict::Send)
    }
}

fn decide(
    slot: Slot,
    local: &LocalRefs<'_>,
    ancestry: &Ancestry<'_>,
    leases: &Leases<'_>,
    force: bool,
    deletes: bool,
) -> Result<PlannedRef, Error> {
    let new = slot.peer.as_ref().map_or(slot.old.kind().null(), |peer| peer.id);
    let mut planned = PlannedRef {
        new,
        old: slot.old,
        forced: false,
        verdict: Verdict::Send,
        local: slot.peer.map(|peer| peer.name),
        remote: slot.name,
    };
    if !planned.is_deletion() && planned.old == planned.new {
        planned.verdict = Verdict::UpToDate;
        return Ok(planned);
    }
    let (rejection, lease_holds) = match leases.check(&planned, ancestry)? {
        LeaseVerdict::Broken(rejection) => (Some(rejection), false),
        verdict => (rule(&planned, local, ancestry)?, verdict == LeaseVerdict::Holds),
    };
    if let Some(rejection) = rejection {
        planned.forced = force || slot.force || lease_holds;
        if !planned.forced {
            planned.verdict = Verdict::Rejected(rejection);
        }
    }
    if planned.is_deletion() && !deletes {
        planned.verdict = Verdict::Rejected(Rejection::NoDelete);
    }
    Ok(planned)
}

/// What stands against moving a ref where nobody forces it.
fn rule(planned: &PlannedRef, local: &LocalRefs<'_>, ancestry: &Ancestry<'_>) -> Result<Option<Rejection>, Error> {
    if planned.is_deletion() || planned.old.is_null() {
        return Ok(None);
    }
    if planned.remote.starts_with(b"refs/tags/") {
        return Ok(Some(Rejection::AlreadyExists));
    }
    if local.kind(planned.old)?.is_none() {
        return Ok(Some(Rejection::FetchFirst));
    }
    let (Some(old), Some(new)) = (local.commit(planned.old)?, local.commit(planned.new)?) else {
        return Ok(Some(Rejection::NeedsForce));
    };
    Ok((!ancestry.is_ancestor(old, new)?).then_some(Rejection::NonFastForward))
}
