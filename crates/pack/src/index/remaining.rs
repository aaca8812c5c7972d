//! Deltas that could not be resolved while the pack came: their bases are read back from its file.
//!
//! A chain of bases is walked from its beginning, so that each is inflated once. What must be held are objects with deltas still
//! to come; as the delta with most behind it comes last, and frees its base, these are no more than the logarithm of how many
//! deltas there are, whatever shape a pack gives its chains.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use gix_hash::ObjectId;
use gix_object::{Find, Kind};
use hashbrown::HashMap;

use super::{
    Error, delta,
    entry::{Header, Status},
    read_back::PackFile,
    receive::Received,
    resolve::{EXTERNAL, State, UNKNOWN, find, name},
};

/// Resolve what is left of `received`, whose bytes are in the file at `pack`, and hand all names over to its entries.
pub(super) fn resolve<F: Find + Clone + Send>(
    received: &mut Received,
    pack: &Path,
    bases: &F,
    threads: usize,
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    loop {
        find_in_pack(&mut received.state);
        while let Some(forest) = Forest::plant(&received.state) {
            resolve_all(received, &forest, pack, bases, threads, interrupt)?;
            find_in_pack(&mut received.state);
        }
        // Outside only now, as what a pack has itself need not be added to it.
        let wanted = received.state.wanted.len();
        if wanted > 0 {
            find_outside(&mut received.state, bases)?;
        }
        if received.state.wanted.len() == wanted {
            break;
        }
    }
    let state = &mut received.state;
    let named = state.status.iter().filter(|status| matches!(status, Status::Named(_)));
    let deltas = received.entries.len() - named.count();
    if deltas > 0 {
        return Err(Error::Unresolved { deltas });
    }
    for (entry, id) in received.entries.iter_mut().zip(&state.ids) {
        entry.id = *id;
    }
    Ok(())
}

/// Give those that want a base by name the one that came after them.
fn find_in_pack(state: &mut State) {
    let wanted = std::mem::take(&mut state.wanted);
    for (id, entry) in wanted {
        match state.by_name().get(&id).copied() {
            Some(base) => {
                state.set_base(entry, base);
                state.set(entry, Status::Deferred);
            }
            None => state.wanted.push((id, entry)),
        }
    }
}

/// The same with objects that are here.
fn find_outside(state: &mut State, bases: &impl Find) -> Result<(), Error> {
    let mut left = Vec::new();
    for (id, entry) in std::mem::take(&mut state.wanted) {
        match find(bases, &id)? {
            Some(_) => {
                let number = state.external(id);
                state.set_base(entry, number);
                state.set(entry, Status::Deferred);
            }
            None => left.push((id, entry)),
        }
    }
    state.wanted = left;
    Ok(())
}

/// Deltas to resolve, with all they build on.
struct Forest {
    /// What builds on each, the one with most behind it last.
    children: HashMap<u32, Vec<u32>>,
    /// Whole objects and those of the object database, the one with most behind it first.
    roots: Vec<u32>,
}

impl Forest {
    fn plant(state: &State) -> Option<Forest> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut roots = Vec::new();
        let mut seen = vec![false; state.status.len()];
        for (entry, status) in (0u32..).zip(&state.status) {
            if *status != Status::Deferred {
                continue;
            }
            let mut at = entry;
            while let Some(seen) = seen.get_mut(at as usize) {
                if std::mem::replace(seen, true) {
                    break;
                }
                let base = state.base.get(at as usize).copied().unwrap_or(UNKNOWN);
                if base == UNKNOWN {
                    // A whole object, or a delta whose base isn't known yet.
                    if matches!(state.status.get(at as usize), Some(Status::Named(_))) {
                        roots.push(at);
                    }
                    break;
                }
                let siblings = children.entry(base).or_default();
                siblings.push(at);
                if base >= EXTERNAL && siblings.len() == 1 {
                    roots.push(base);
                }
                at = base;
            }
        }
        if roots.is_empty() {
            return None;
        }
        // Bases before what builds on them; then weights from the end.
        let mut order = roots.clone();
        let mut next = 0;
        while let Some(at) = order.get(next) {
            if let Some(children) = children.get(at) {
                order.extend(children);
            }
            next += 1;
        }
        let mut weights: HashMap<u32, u32> = HashMap::with_capacity(order.len());
        for at in order.iter().rev() {
            let mut weight = 1;
            if let Some(children) = children.get_mut(at) {
                weight += children.iter().map(|child| weights[child]).sum::<u32>();
                children.sort_by_key(|child| weights[child]);
            }
            weights.insert(*at, weight);
        }
        roots.sort_by_key(|root| std::cmp::Reverse(weights[root]));
        Some(Forest { children, roots })
    }
}

/// Entries with the names that were found for them.
type Named = Vec<(u32, ObjectId, Kind)>;

fn resolve_all<F: Find + Clone + Send>(
    received: &mut Received,
    forest: &Forest,
    pack: &Path,
    bases: &F,
    threads: usize,
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let results: Mutex<(Named, Option<Error>)> = Mutex::default();
    let shared = &*received;
    let work = |bases: F| {
        let walk = || -> Result<Named, Error> {
            let mut walker = Walker::new(shared, pack, bases)?;
            while let Some(root) = forest.roots.get(next.fetch_add(1, Ordering::Relaxed)) {
                walker.walk(*root, forest, &|| {
                    interrupt.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed)
                })?;
            }
            Ok(walker.named)
        };
        let result = walk();
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(named) => results.0.extend(named),
            Err(err) => {
                failed.store(true, Ordering::Relaxed);
                results.1.get_or_insert(err);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(forest.roots.len()) {
            let (bases, work) = (bases.clone(), &work);
            let started = std::thread::Builder::new()
                .name("pack-deltas".into())
                .spawn_scoped(scope, move || work(bases));
            if started.is_err() {
                break;
            }
        }
        work(bases.clone());
    });
    let (named, failure) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(err) = failure {
        return Err(err);
    }
    let state = &mut received.state;
    for (entry, id, kind) in named {
        state.set(entry, Status::Named(kind));
        if let Some(place) = state.ids.get_mut(entry as usize) {
            *place = id;
        }
        if let Some(named) = &mut state.named {
            named.entry(id).or_insert(entry);
        }
    }
    Ok(())
}

/// One thread's way through the trees.
struct Walker<'a, F> {
    received: &'a Received,
    file: PackFile<'a>,
    bases: F,
    named: Named,
}

impl<'a, F: Find> Walker<'a, F> {
    fn new(received: &'a Received, pack: &'a Path, bases: F) -> Result<Self, Error> {
        Ok(Walker {
            received,
            file: PackFile::open(pack, received.hash)?,
            bases,
            named: Vec::new(),
        })
    }

    fn walk(&mut self, root: u32, forest: &Forest, stop: &impl Fn() -> bool) -> Result<(), Error> {
        let (kind, data) = self.root(root)?;
        // Each with its base. The last that needs a base takes it along.
        let mut stack: Vec<(u32, Arc<Vec<u8>>)> = Vec::new();
        let push = |stack: &mut Vec<_>, at: u32, data: Vec<u8>| {
            let data = Arc::new(data);
            let children = forest.children.get(&at).into_iter().flatten();
            stack.extend(children.rev().map(|child| (*child, Arc::clone(&data))));
        };
        push(&mut stack, root, data);
        while let Some((entry, base)) = stack.pop() {
            if stop() {
                return Err(Error::Interrupted);
            }
            let offset = self.offset(entry);
            let instructions = self.read(entry)?.1;
            let made = delta::apply(&base, &instructions).map_err(|what| Error::corrupt(offset, what))?;
            drop((base, instructions));
            if self.received.state.status.get(entry as usize) == Some(&Status::Deferred) {
                let id = name(self.received.hash, kind, &made, offset)?;
                self.named.push((entry, id, kind));
            }
            push(&mut stack, entry, made);
        }
        Ok(())
    }

    fn offset(&self, entry: u32) -> u64 {
        let entries = &self.received.entries;
        entries
            .get(entry as usize)
            .map_or(self.received.end, |entry| entry.offset)
    }

    fn read(&mut self, entry: u32) -> Result<(Header, Vec<u8>), Error> {
        let (offset, end) = (self.offset(entry), self.offset(entry + 1));
        let read = self.file.read(offset, end, delta::LIMIT)?;
        read.ok_or_else(|| Error::corrupt(offset, "it has more than 4 GiB, and deltas build on it"))
    }

    fn root(&mut self, root: u32) -> Result<(Kind, Vec<u8>), Error> {
        if let Some(external) = root
            .checked_sub(EXTERNAL)
            .and_then(|number| self.received.state.external.get(number as usize))
        {
            return find(&self.bases, &external.id)?.ok_or_else(|| Error::Base {
                id: external.id,
                source: "it was here a moment ago".into(),
            });
        }
        let offset = self.offset(root);
        match self.read(root)? {
            (Header::Whole(kind), data) => Ok((kind, data)),
            _ => Err(Error::corrupt(offset, "it was whole when it came")),
        }
    }
}
