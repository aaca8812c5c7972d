//! Which local ref meets which remote ref: refspecs applied to what both sides have.
//!
//! The outcome is a list of remote refs in the order in which the remote advertises them, new ones behind, each with the local ref
//! that is to be pushed to it, if any. Deciding whether that is allowed is [`plan`](super::plan)'s work.

use std::collections::{HashMap, HashSet};

use bstr::{BStr, BString, ByteSlice};
use gix::ObjectId;

use super::{
    Complaint, Error,
    ancestry::Ancestry,
    local::LocalRefs,
    refspec::{Found, Refspec, find, is_ref_name, substitute},
    request::{Request, Selection},
    tags,
};

/// What git calls the source of a deletion.
const DELETION: &str = "(delete)";

/// A remote ref and what is to be pushed to it.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) name: BString,
    /// What the remote has there; null for nothing.
    pub(super) old: ObjectId,
    pub(super) peer: Option<Peer>,
    /// A refspec asked to force this ref.
    pub(super) force: bool,
}

/// What stands on the left of a refspec: a ref, or what was typed instead of one.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) name: BString,
    /// Null for a deletion.
    pub(super) id: ObjectId,
}

impl Peer {
    fn deletion(null: ObjectId) -> Peer {
        Peer {
            name: DELETION.into(),
            id: null,
        }
    }
}

/// Remote refs by order and by name.
pub(super) struct Slots {
    pub(super) list: Vec<Slot>,
    index: HashMap<BString, usize>,
    null: ObjectId,
}

impl Slots {
    /// From what the remote advertises; what isn't a proper ref there is left alone, as git does.
    pub(super) fn new<'a>(advertised: impl IntoIterator<Item = (&'a BStr, ObjectId)>, null: ObjectId) -> Slots {
        let mut slots = Slots {
            list: Vec::new(),
            index: HashMap::new(),
            null,
        };
        for (name, old) in advertised {
            if name.starts_with(b"refs/") && is_ref_name(name, false) {
                slots.add(name.to_owned(), old);
            }
        }
        slots
    }

    fn add(&mut self, name: BString, old: ObjectId) -> usize {
        let position = *self.index.entry(name.clone()).or_insert(self.list.len());
        if position == self.list.len() {
            self.list.push(Slot {
                name,
                old,
                peer: None,
                force: false,
            });
        }
        position
    }

    pub(super) fn contains(&self, name: &BStr) -> bool {
        self.index.contains_key(name)
    }

    pub(super) fn link_new(&mut self, name: BString, peer: Peer) {
        let position = self.add(name, self.null);
        if let Some(slot) = self.list.get_mut(position) {
            slot.peer = Some(peer);
        }
    }
}

/// Find sources that name nothing or too much before the remote is asked anything.
pub(super) fn check_sources(local: &LocalRefs<'_>, specs: &[Refspec]) -> Result<(), Error> {
    let mut complaints = Vec::new();
    for spec in specs.iter().filter(|spec| spec.is_explicit()) {
        if let Err(complaint) = source(local, spec)? {
            complaints.push(complaint);
        }
    }
    if complaints.is_empty() {
        Ok(())
    } else {
        Err(Error::Unmatched(complaints))
    }
}

/// Fill `slots` with what `request` pushes to them.
pub(super) fn fill(
    slots: &mut Slots,
    local: &LocalRefs<'_>,
    ancestry: &Ancestry<'_>,
    request: &Request,
    prune: bool,
    follow_tags: bool,
) -> Result<(), Error> {
    let mut complaints = Vec::new();
    for spec in request.specs.iter().filter(|spec| spec.is_explicit()) {
        if let Err(complaint) = link_explicit(slots, local, spec)? {
            complaints.push(complaint);
        }
    }
    if request.specs.iter().any(|spec| spec.pattern || spec.matching) {
        link_patterns(slots, local, request)?;
    }
    if follow_tags {
        tags::follow(slots, local, ancestry)?;
    }
    if prune {
        mark_pruned(slots, local, request)?;
    }
    if request.specs.iter().any(|spec| spec.negative) {
        slots
            .list
            .retain(|slot| !request.specs.iter().any(|spec| spec.excludes(slot.name.as_bstr())));
        slots.index.clear();
    }
    if complaints.is_empty() {
        Ok(())
    } else {
        Err(Error::Unmatched(complaints))
    }
}

type Checked<T> = Result<Result<T, Complaint>, Error>;

/// The left side of an explicit refspec: a ref by full or short name, else any revision, else nothing for a deletion.
fn source(local: &LocalRefs<'_>, spec: &Refspec) -> Checked<Peer> {
    let null = local.repo.object_hash().null();
    if spec.src.is_empty() {
        return Ok(Ok(Peer::deletion(null)));
    }
    let src = spec.src.as_bstr();
    Ok(match find(src, |name| local.find(name))? {
        Found::One(found) => Ok(Peer {
            name: found.name,
            id: found.id,
        }),
        Found::Several => Err(Complaint::new(format!("src refspec {src} matches more than one"))),
        Found::Nothing => match local.repo.rev_parse_single(src) {
            Ok(id) => Ok(Peer {
                name: src.to_owned(),
                id: id.detach(),
            }),
            Err(_) => Err(Complaint::new(format!("src refspec {src} does not match any"))),
        },
    })
}

fn link_explicit(slots: &mut Slots, local: &LocalRefs<'_>, spec: &Refspec) -> Checked<()> {
    let peer = match source(local, spec)? {
        Ok(peer) => peer,
        Err(complaint) => return Ok(Err(complaint)),
    };
    let dst = match &spec.dst {
        Some(dst) => dst.clone(),
        None => match local.resolve(peer.name.as_bstr())? {
            Some(resolved) if !resolved.symbolic || resolved.name.starts_with(b"refs/heads/") => resolved.name,
            _ => return Err(Error::NoBranch(peer.name)),
        },
    };
    let found = find(dst.as_bstr(), |name| Ok::<_, Error>(slots.index.get(name).copied()))?;
    let position = match found {
        Found::One(position) => position,
        Found::Several => {
            return Ok(Err(Complaint::new(format!("dst refspec {dst} matches more than one"))));
        }
        Found::Nothing if dst.starts_with(b"refs/") => slots.add(dst, slots.null),
        Found::Nothing if peer.id.is_null() => {
            let text = format!("unable to delete '{dst}': remote ref does not exist");
            return Ok(Err(Complaint::new(text)));
        }
        Found::Nothing => match guess(local, dst.as_bstr(), peer.name.as_bstr())? {
            Some(name) => slots.add(name, slots.null),
            None => return Ok(Err(unqualified(local, dst.as_bstr(), &peer)?)),
        },
    };
    let Some(slot) = slots.list.get_mut(position) else {
        return Ok(Ok(()));
    };
    if slot.peer.is_some() {
        let text = format!("dst ref {} receives from more than one src", slot.name);
        return Ok(Err(Complaint::new(text)));
    }
    slot.peer = Some(peer);
    slot.force = spec.force;
    Ok(Ok(()))
}

/// What a short destination becomes by the kind of its source: a branch's is a branch, a tag's a tag.
fn guess(local: &LocalRefs<'_>, dst: &BStr, source: &BStr) -> Result<Option<BString>, Error> {
    let Some(resolved) = local.resolve(source)? else {
        return Ok(None);
    };
    let prefix = ["refs/heads/", "refs/tags/"]
        .into_iter()
        .find(|prefix| resolved.name.starts_with(prefix.as_bytes()));
    Ok(prefix.map(|prefix| BString::from([prefix.as_bytes(), dst].concat())))
}

fn unqualified(local: &LocalRefs<'_>, dst: &BStr, peer: &Peer) -> Result<Complaint, Error> {
    let src = &peer.name;
    let text = format!(
        "The destination you provided is not a full refname (i.e.,\nstarting with \"refs/\"). We tried to guess what you meant \
         by:\n\n- Looking for a ref that matches '{dst}' on the remote side.\n- Checking if the <src> being pushed ('{src}')\n  \
         is a ref in \"refs/{{heads,tags}}/\". If so we add a corresponding\n  refs/{{heads,tags}}/ prefix on the remote side.\n\n\
         Neither worked, so we gave up. You must fully qualify the ref."
    );
    use gix::objs::Kind;
    let hint = local.kind(peer.id)?.map(|kind| {
        let (what, creation, prefix) = match kind {
            Kind::Commit => ("a commit", "create a new branch", "heads"),
            Kind::Tag => ("a tag", "create a new tag", "tags"),
            Kind::Tree => ("a tree", "tag a new tree", "tags"),
            Kind::Blob => ("a blob", "tag a new blob", "tags"),
        };
        format!(
            "The <src> part of the refspec is {what} object.\nDid you mean to {creation} by pushing to\n\
             '{src}:refs/{prefix}/{dst}'?"
        )
    });
    let config = local.repo.config_snapshot();
    let wanted = config.boolean("advice.pushUnqualifiedRefName").unwrap_or(true);
    Ok(Complaint {
        text,
        hint: hint.filter(|_| wanted),
    })
}

/// Which way a pattern is read.
#[derive(Clone, Copy, PartialEq)]
enum From {
    Source,
    Destination,
}

/// The name on the other side of `name`, and the refspec that says so: the first pattern that matches, or else the first `:`,
/// unless a later one forces.
fn across<'a>(request: &'a Request, name: &BStr, from: From) -> Option<(BString, &'a Refspec)> {
    let mut colon: Option<&Refspec> = None;
    for spec in request.specs.iter().filter(|spec| !spec.negative) {
        if spec.matching {
            if colon.is_none() || spec.force {
                colon = Some(spec);
            }
        } else if spec.pattern {
            let (src, dst) = (spec.src.as_bstr(), spec.dst_or_src());
            let (pattern, value) = if from == From::Source { (src, dst) } else { (dst, src) };
            if let Some(other) = substitute(pattern, name, value) {
                return Some((other, spec));
            }
        }
    }
    let matching = request.selection == Selection::Mirror || name.starts_with(b"refs/heads/");
    Some((name.to_owned(), colon.filter(|_| matching)?))
}

fn link_patterns(slots: &mut Slots, local: &LocalRefs<'_>, request: &Request) -> Result<(), Error> {
    for found in local.all()? {
        let Some((dst, spec)) = across(request, found.name.as_bstr(), From::Source) else {
            continue;
        };
        let position = match slots.index.get(&dst) {
            Some(position) => *position,
            // `:` alone pushes only what both sides have.
            None if spec.matching && request.selection == Selection::Refspecs => continue,
            None => slots.add(dst, slots.null),
        };
        if let Some(slot) = slots.list.get_mut(position).filter(|slot| slot.peer.is_none()) {
            slot.peer = Some(Peer {
                name: found.name.clone(),
                id: found.id,
            });
            slot.force = spec.force;
        }
    }
    Ok(())
}

fn mark_pruned(slots: &mut Slots, local: &LocalRefs<'_>, request: &Request) -> Result<(), Error> {
    let ours: HashSet<&BStr> = local.all()?.iter().map(|found| found.name.as_bstr()).collect();
    let null = slots.null;
    for slot in slots.list.iter_mut().filter(|slot| slot.peer.is_none()) {
        if let Some((src, _)) = across(request, slot.name.as_bstr(), From::Destination)
            && !ours.contains(src.as_bstr())
        {
            slot.peer = Some(Peer::deletion(null));
        }
    }
    Ok(())
}
