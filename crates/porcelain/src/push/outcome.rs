//! What became of each ref: the plan's verdicts and the server's report put together.

use bstr::{BString, ByteSlice};
use gix::ObjectId;
use rgit_proto::{RefOutcome, ReportStatus};

use super::{PlannedRef, PushPlan, Rejection, Upstream, Verdict};
pub use rgit_proto::Rewrite;

/// The end of one ref's way.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// The server did it (in a dry run: would be asked to).
    Ok,
    /// There was nothing to do.
    UpToDate,
    /// Refused here; the server was not asked.
    Rejected(Rejection),
    /// The server, or a hook there, refused, with these unmasked words.
    RemoteRejected(BString),
    /// The server was asked and said nothing about it.
    Unreported,
}

/// One remote ref after a push.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefResult {
    /// The local side: a full ref name, or the revision as typed; `None` for a deletion that a mirror implies.
    pub local: Option<BString>,
    /// The full name on the remote.
    pub remote: BString,
    /// What the remote had; null for nothing.
    pub old: ObjectId,
    /// What it was to have; null for nothing.
    pub new: ObjectId,
    /// It took force, which was given.
    pub forced: bool,
    /// How it ended.
    pub status: Status,
    /// What the server changed in its place (`report-status-v2`); names in here are the server's and unchecked.
    pub rewrites: Vec<Rewrite>,
}

impl RefResult {
    fn new(planned: PlannedRef, status: Status) -> Self {
        RefResult {
            local: planned.local,
            remote: planned.remote,
            old: planned.old,
            new: planned.new,
            forced: planned.forced,
            status,
            rewrites: Vec::new(),
        }
    }

    /// Whether the ref was to go.
    pub fn is_deletion(&self) -> bool {
        self.new.is_null()
    }

    /// Whether the remote has what was wanted.
    pub fn is_done(&self) -> bool {
        matches!(self.status, Status::Ok | Status::UpToDate)
    }
}

/// A remote-tracking ref that was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tracked {
    /// Its full local name.
    pub name: BString,
    /// What it has now; null when it was deleted.
    pub new: ObjectId,
}

/// What a push came to.
#[derive(Debug)]
#[non_exhaustive]
pub struct PushOutcome {
    /// Each ref that the push was about, in the remote's order, new ones last.
    pub refs: Vec<RefResult>,
    /// Whether the server took the pack in, or its unmasked words.
    pub unpack: Result<(), BString>,
    /// Nothing was really sent.
    pub dry_run: bool,
    /// A request was posted.
    pub posted: bool,
    /// What the pack was made of, if one was sent.
    pub pack: Option<rgit_pack::Statistics>,
    /// How long it took to find out what to send.
    pub counting: std::time::Duration,
    /// The remote-tracking refs that moved.
    pub tracked: Vec<Tracked>,
    /// The remote-tracking refs that could not be moved; the push itself stands.
    pub untracked: Vec<(BString, gix::Error)>,
    /// Branches whose upstream was recorded (in a dry run: would be).
    pub upstreams: Vec<Upstream>,
    /// Why no upstream could be recorded; the push itself stands.
    pub unrecorded: Option<super::Error>,
    /// The branch `HEAD` is on, in full: advice depends on it.
    pub head: Option<BString>,
}

impl PushOutcome {
    /// Whether every ref is as it should be: exit code 0, else 1.
    pub fn is_success(&self) -> bool {
        self.unpack.is_ok() && self.refs.iter().all(RefResult::is_done)
    }

    /// Whether git would say `Everything up-to-date`.
    pub fn is_up_to_date(&self) -> bool {
        self.refs.iter().all(|result| result.status == Status::UpToDate)
    }

    /// The refs in the order in which git tells of them: those up to date (which it shows only when verbose), those done, and
    /// those refused.
    pub fn in_order(&self, with_up_to_date: bool) -> impl Iterator<Item = &RefResult> {
        let class = |result: &RefResult| match result.status {
            Status::UpToDate => 0,
            Status::Ok => 1,
            _ => 2,
        };
        let from = if with_up_to_date { 0 } else { 1 };
        (from..3).flat_map(move |wanted| self.refs.iter().filter(move |result| class(result) == wanted))
    }
}

/// Put `report` to `plan`. Without a report (a dry run, a server that gives none) what was sent counts as done.
pub(super) fn results(plan: PushPlan, report: Option<&ReportStatus>) -> Vec<RefResult> {
    let result = |planned: PlannedRef| match planned.verdict {
        Verdict::UpToDate => RefResult::new(planned, Status::UpToDate),
        Verdict::Rejected(rejection) => RefResult::new(planned, Status::Rejected(rejection)),
        Verdict::Send => {
            let Some(report) = report else {
                return RefResult::new(planned, Status::Ok);
            };
            match report
                .for_update(planned.remote.as_bstr())
                .map(|status| &status.outcome)
            {
                None => RefResult::new(planned, Status::Unreported),
                Some(RefOutcome::Rejected { reason }) => {
                    RefResult::new(planned, Status::RemoteRejected(reason.clone()))
                }
                Some(RefOutcome::Ok { rewrites }) => RefResult {
                    rewrites: rewrites.clone(),
                    ..RefResult::new(planned, Status::Ok)
                },
            }
        }
    };
    plan.refs.into_iter().map(result).collect()
}
