//! `--force-with-lease` and `--force-if-includes` (git-push(1)): force, but only over what was expected to be there.

use bstr::{BStr, BString, ByteSlice};
use gix::{ObjectId, error::ResultExt};

use super::{Error, Options, PlannedRef, Rejection, ancestry::Ancestry, local::LocalRefs, refspec::stands_for};
use crate::remote::Remote;

/// `--force-with-lease=<ref>[:<expect>]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The remote ref, in full or short.
    pub name: BString,
    /// What it should hold.
    pub expect: Expect,
}

/// What a lease expects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expect {
    /// What the remote-tracking ref holds.
    Tracking,
    /// Nothing: the ref must not exist.
    Absent,
    /// What this revision names locally.
    Revision(BString),
}

impl Lease {
    /// From `<ref>`, `<ref>:` or `<ref>:<expect>`.
    pub fn parse(text: &BStr) -> Lease {
        let (name, expect) = match text.find_byte(b':') {
            None => (text, Expect::Tracking),
            Some(colon) if colon + 1 == text.len() => (text[..colon].as_bstr(), Expect::Absent),
            Some(colon) => (text[..colon].as_bstr(), Expect::Revision(text[colon + 1..].into())),
        };
        Lease {
            name: name.to_owned(),
            expect,
        }
    }
}

/// How a ref stands to the leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// None is about it.
    Free,
    /// It is where it was expected: force is granted.
    Holds,
    Broken(Rejection),
}

enum Expected {
    Tracking,
    Value(ObjectId),
}

pub(super) struct Leases<'a> {
    local: &'a LocalRefs<'a>,
    remote: &'a Remote,
    entries: Vec<(BString, Expected)>,
    rest: bool,
    if_includes: bool,
}

impl<'a> Leases<'a> {
    pub(super) fn new(local: &'a LocalRefs<'a>, remote: &'a Remote, options: &Options) -> Result<Self, Error> {
        let mut entries = Vec::new();
        for lease in &options.leases {
            let expected = match &lease.expect {
                Expect::Tracking => Expected::Tracking,
                Expect::Absent => Expected::Value(local.repo.object_hash().null()),
                Expect::Revision(revision) => Expected::Value(named(local.repo, revision)?),
            };
            entries.push((lease.name.clone(), expected));
        }
        Ok(Leases {
            local,
            remote,
            entries,
            rest: options.lease_rest,
            if_includes: options.force_if_includes,
        })
    }

    pub(super) fn check(&self, planned: &PlannedRef, ancestry: &Ancestry<'_>) -> Result<Verdict, Error> {
        let entry = self
            .entries
            .iter()
            .find(|(name, _)| stands_for(name.as_bstr(), planned.remote.as_bstr()));
        let expected = match entry {
            Some((_, expected)) => expected,
            None if self.rest => &Expected::Tracking,
            None => return Ok(Verdict::Free),
        };
        let (value, tracking) = match expected {
            Expected::Value(value) => (*value, None),
            Expected::Tracking => self.tracked(planned.remote.as_bstr())?,
        };
        if value != planned.old {
            return Ok(Verdict::Broken(Rejection::Stale));
        }
        if let Some(tracking) = tracking.filter(|_| self.if_includes)
            && !self.included(planned, tracking.as_bstr(), ancestry)?
        {
            return Ok(Verdict::Broken(Rejection::RemoteUpdated));
        }
        Ok(Verdict::Holds)
    }

    /// Where the remote-tracking ref stands, and its name. Without one the remote ref is expected not to exist.
    fn tracked(&self, remote_ref: &BStr) -> Result<(ObjectId, Option<BString>), Error> {
        let absent = self.local.repo.object_hash().null();
        let Some(name) = self.remote.tracking_ref(remote_ref) else {
            return Ok((absent, None));
        };
        Ok(match self.local.find(name.as_bstr())? {
            Some(found) => (found.id, Some(name)),
            None => (absent, None),
        })
    }

    /// Whether the local branch of the same name has ever, by its reflog, held what the remote has now. Entries older than the
    /// newest one of the tracking ref can't have.
    fn included(&self, planned: &PlannedRef, tracking: &BStr, ancestry: &Ancestry<'_>) -> Result<bool, Error> {
        let repo = self.local.repo;
        let Some(mut branch) = repo
            .try_find_reference(planned.remote.as_bstr())
            .map_err(Error::repository("reading a ref"))?
        else {
            return Ok(false);
        };
        let Some(theirs) = self.local.commit(planned.old)? else {
            return Ok(false);
        };
        let since = repo
            .try_find_reference(tracking)
            .map_err(Error::repository("reading a ref"))?
            .map(|reference| newest_first(&reference))
            .transpose()?
            .and_then(|entries| entries.first().map(|(time, _)| *time))
            .unwrap_or(0);
        let mut held = vec![
            branch
                .peel_to_id()
                .map_err(Error::repository("reading a ref"))?
                .detach(),
        ];
        for (time, id) in newest_first(&branch)? {
            held.push(id);
            if time < since {
                break;
            }
        }
        held.dedup();
        for id in held {
            if let Some(commit) = self.local.commit(id)?
                && ancestry.is_ancestor(theirs, commit)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What `revision` names. An id in full need not be here: the remote may have what was never fetched.
fn named(repo: &gix::Repository, revision: &BString) -> Result<ObjectId, Error> {
    if let Ok(id) = ObjectId::from_hex(revision)
        && id.kind() == repo.object_hash()
    {
        return Ok(id);
    }
    match repo.rev_parse_single(revision.as_bstr()) {
        Ok(id) => Ok(id.detach()),
        Err(_) => Err(Error::BadExpectation(revision.clone())),
    }
}

/// The reflog as times and the values set then.
fn newest_first(reference: &gix::Reference<'_>) -> Result<Vec<(i64, ObjectId)>, Error> {
    let failed = Error::repository("reading a reflog");
    let mut entries = Vec::new();
    let mut log = reference.log_iter();
    if let Some(lines) = log.all().or_error().map_err(failed)? {
        for line in lines {
            let Ok(line) = line else { continue };
            entries.push((line.signature.seconds(), line.new_oid()));
        }
    }
    entries.reverse();
    Ok(entries)
}
