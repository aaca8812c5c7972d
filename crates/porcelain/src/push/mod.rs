//! Push: from what the user asks for to what became of each ref.
//!
//! [`push`] walks straight through: read the defaults, discover what the remote has, decide about each ref ([`PushPlan`]), ask the
//! `pre-push` hook, send commands and pack, read the report, and move the remote-tracking refs of what was accepted
//! ([`PushOutcome`]). What git would refuse without asking the server is refused here too, before a single POST.
//!
//! Refuses: printing (a [`summary`] is data), knowing how bytes travel (the [`Session`](rgit_smart_http::Session) is handed in),
//! certificates for pushes, and submodule recursion.

pub(crate) mod ancestry;
mod attributes;
mod default;
mod error;
mod hook;
mod lease;
mod local;
mod matching;
mod outcome;
mod plan;
pub(crate) mod refspec;
mod request;
mod run;
pub mod summary;
mod tags;
mod tracking;
mod upstream;

#[cfg(test)]
mod tests;

pub(crate) use self::tracking::commit;
pub use self::{
    error::{Complaint, Error},
    lease::{Expect, Lease},
    outcome::{PushOutcome, RefResult, Rewrite, Status},
    plan::{PlannedRef, PushPlan, Rejection, Verdict},
    request::Options,
    run::{Remarks, push},
    upstream::Upstream,
};
