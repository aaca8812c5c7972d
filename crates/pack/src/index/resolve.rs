//! Names for objects while the pack is still coming: whole ones are hashed, deltas applied to bases that are still at hand.
//!
//! A delta whose base is being worked on waits for it, and whoever names the base goes on with those that wait. One whose base has
//! left the cache, or that is too large to wait, is put off until `remaining`. No entry is ever looked for that
//! isn't before it in the pack, so that there are no cycles: a base by name is one that was named already.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use gix_hash::ObjectId;
use gix_object::{Find, Kind};
use hashbrown::HashMap;
use prodash::progress::StepShared;

use super::{Error, Limits, cache::Cache, delta, entry::Status, read_back::PackFile};

/// Bases are read back through so many deltas; git makes chains of 50.
const LINKS: usize = 64;
/// So many bytes are inflated again beyond as many as came: a pack must not be able to make that its business.
const READ_BACK: u64 = 64 << 20;
/// Objects from the object database count from here on; a pack has fewer.
pub(super) const EXTERNAL: u32 = 1 << 31;
/// No base, or none that is known.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// An entry with its inflated bytes.
pub(super) struct Job {
    pub(super) entry: u32,
    /// Where it begins, for messages.
    pub(super) offset: u64,
    pub(super) content: Content,
    pub(super) data: Vec<u8>,
}

pub(super) enum Content {
    Whole(Kind),
    /// A delta on this entry.
    On(u32),
    /// A delta on the object of this name.
    OnNamed(ObjectId),
    /// As that, but the delta must be read back.
    Wants(ObjectId),
    /// Named already; its bytes must be read back.
    Known(ObjectId),
}

/// An object of the object database that deltas build on.
pub(super) struct External {
    pub(super) id: ObjectId,
}

/// What is known of all entries so far.
pub(super) struct State {
    pub(super) ids: Vec<ObjectId>,
    offsets: Vec<u64>,
    /// How much of the pack is in its file.
    pub(super) stored: u64,
    pub(super) status: Vec<Status>,
    /// The entry that each builds on.
    pub(super) base: Vec<u32>,
    pub(super) cache: Cache,
    /// Deltas by the entry they wait for.
    waiting: HashMap<u32, Vec<(u32, Vec<u8>)>>,
    waiting_bytes: usize,
    waiting_limit: usize,
    large: u64,
    /// Bytes inflated as they came,
    inflated: u64,
    /// and again.
    read_back: u64,
    /// Deltas by the name they wait for, without bytes.
    pub(super) wanted: Vec<(ObjectId, u32)>,
    /// Deltas by the name they wait for.
    waiting_named: HashMap<ObjectId, Vec<(u32, Vec<u8>)>>,
    /// Entries by name, once a delta asked for one.
    pub(super) named: Option<HashMap<ObjectId, u32>>,
    pub(super) external: Vec<External>,
    by_external: HashMap<ObjectId, u32>,
    failure: Option<Error>,
}

pub(super) struct Resolver {
    state: Mutex<State>,
    hash: gix_hash::Kind,
    failed: AtomicBool,
    resolved: StepShared,
}

/// Where a delta's base is.
enum Found {
    Here(Next),
    /// In the file: entries from the one whose base is whole, or at hand, to the base itself.
    Back(Chain, Vec<u8>),
    /// Not yet anywhere. The delta waits, or is put off.
    Later,
}

/// How to make an object again.
struct Chain {
    base: u32,
    kind: Kind,
    /// What the first of `links` builds on, if it isn't whole.
    start: Option<Arc<Vec<u8>>>,
    /// From where to where each is, the last first.
    links: Vec<(u64, u64)>,
}

/// What is to be done next: a delta that can be applied, or an object that can be named.
enum Next {
    Name(Kind, Vec<u8>),
    Apply(Kind, Arc<Vec<u8>>, Vec<u8>),
}

impl Resolver {
    pub(super) fn new(hash: gix_hash::Kind, limits: Limits, resolved: StepShared) -> Self {
        Resolver {
            state: Mutex::new(State {
                ids: Vec::new(),
                offsets: Vec::new(),
                stored: 0,
                read_back: 0,
                inflated: 0,
                status: Vec::new(),
                base: Vec::new(),
                cache: Cache::new(limits.cache),
                waiting: HashMap::new(),
                waiting_bytes: 0,
                waiting_limit: limits.waiting,
                large: limits.large,
                wanted: Vec::new(),
                waiting_named: HashMap::new(),
                named: None,
                external: Vec::new(),
                by_external: HashMap::new(),
                failure: None,
            }),
            hash,
            failed: AtomicBool::new(false),
            resolved,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread failed, so that nothing more need be done.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Keep the first failure.
    pub(super) fn fail(&self, err: Error) {
        self.lock().failure.get_or_insert(err);
        self.failed.store(true, Ordering::Relaxed);
    }

    /// What is known in the end, or why there is nothing.
    pub(super) fn into_state(self) -> Result<State, Error> {
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match state.failure.take() {
            Some(err) => Err(err),
            None => {
                // What was at hand is not needed to read back the rest.
                state.cache = Cache::new(0);
                let named = std::mem::take(&mut state.waiting_named);
                for (id, waiting) in named {
                    state.wanted.extend(waiting.into_iter().map(|(entry, _)| (id, entry)));
                }
                let waiting = std::mem::take(&mut state.waiting);
                for (entry, _) in waiting.into_values().flatten() {
                    state.set(entry, Status::Deferred);
                }
                Ok(state)
            }
        }
    }

    /// Do these, and what waits for them.
    pub(super) fn work(&self, jobs: Vec<Job>, bases: &impl Find, file: &mut Option<PackFile<'_>>) {
        self.lock().inflated += jobs.iter().map(|job| job.data.len() as u64).sum::<u64>();
        for job in jobs {
            if self.has_failed() {
                return;
            }
            if let Err(err) = self.job(job, bases, file) {
                self.fail(err);
            }
        }
    }

    fn job(&self, job: Job, bases: &impl Find, file: &mut Option<PackFile<'_>>) -> Result<(), Error> {
        let Job {
            entry,
            offset,
            content,
            data,
        } = job;
        let found = match content {
            Content::Whole(kind) => Found::Here(Next::Name(kind, data)),
            Content::On(base) => self.lock().at_hand(entry, base, data),
            Content::OnNamed(id) => self.on_named(entry, id, data, bases)?,
            Content::Wants(id) => {
                self.lock().wanted.push((id, entry));
                Found::Later
            }
            Content::Known(id) => {
                self.lock().came(entry, id);
                Found::Later
            }
        };
        let next = match found {
            Found::Here(next) => Some(next),
            Found::Back(chain, data) => self.read_back(entry, chain, data, file)?,
            Found::Later => None,
        };
        let mut stack: Vec<(u32, Next)> = next.map(|next| (entry, next)).into_iter().collect();
        while let Some((entry, next)) = stack.pop() {
            let (kind, data) = match next {
                Next::Name(kind, data) => (kind, data),
                Next::Apply(kind, base, bytes) => {
                    let made = delta::apply(&base, &bytes).map_err(|what| Error::corrupt(offset, what))?;
                    self.resolved.fetch_add(1, Ordering::Relaxed);
                    (kind, made)
                }
            };
            let id = name(self.hash, kind, &data, offset)?;
            let data = Arc::new(data);
            let children = self.lock().complete(entry, id, kind, &data);
            stack.extend(
                children
                    .into_iter()
                    .map(|(child, bytes)| (child, Next::Apply(kind, Arc::clone(&data), bytes))),
            );
        }
        Ok(())
    }

    /// A delta on an object by name: in the pack, here, or later in the pack.
    fn on_named(&self, entry: u32, id: ObjectId, data: Vec<u8>, bases: &impl Find) -> Result<Found, Error> {
        {
            let mut state = self.lock();
            let known = state.by_name().get(&id).copied();
            if let Some(base) = known.or_else(|| state.by_external.get(&id).copied()) {
                state.set_base(entry, base);
                return Ok(state.at_hand(entry, base, data));
            }
        }
        let found = find(bases, &id)?;
        let mut state = self.lock();
        // It may have come meanwhile.
        let known = state.named.as_ref().and_then(|named| named.get(&id).copied());
        if let Some(base) = known {
            state.set_base(entry, base);
            return Ok(state.at_hand(entry, base, data));
        }
        match found {
            Some((kind, base)) => {
                let number = state.external(id);
                let base = Arc::new(base);
                state.cache.insert(number, kind, Arc::clone(&base));
                state.set_base(entry, number);
                Ok(Found::Here(Next::Apply(kind, base, data)))
            }
            None => {
                if state.waiting_bytes + data.len() <= state.waiting_limit {
                    state.waiting_bytes += data.len();
                    state.waiting_named.entry(id).or_default().push((entry, data));
                } else {
                    state.wanted.push((id, entry));
                }
                Ok(Found::Later)
            }
        }
    }

    /// Make the base of `entry` again. It is put off if that is too large to be held.
    fn read_back(
        &self,
        entry: u32,
        chain: Chain,
        data: Vec<u8>,
        file: &mut Option<PackFile<'_>>,
    ) -> Result<Option<Next>, Error> {
        let large = self.lock().large;
        let mut made = chain.start;
        let mut bytes = 0;
        for (start, end) in chain.links.iter().rev() {
            let read = match file {
                Some(file) => file.read(*start, *end, large)?,
                None => None,
            };
            let Some((_, read)) = read else {
                self.lock().defer(entry);
                return Ok(None);
            };
            bytes += read.len() as u64;
            made = Some(Arc::new(match made {
                None => read,
                Some(base) => delta::apply(&base, &read).map_err(|what| Error::corrupt(*start, what))?,
            }));
        }
        let base = made.unwrap_or_default();
        let mut state = self.lock();
        state.read_back += bytes + base.len() as u64;
        state.cache.insert(chain.base, chain.kind, Arc::clone(&base));
        Ok(Some(Next::Apply(chain.kind, base, data)))
    }
}

impl State {
    pub(super) fn push(&mut self, offset: u64, status: Status, base: u32, id: ObjectId) {
        self.offsets.push(offset);
        self.status.push(status);
        self.base.push(base);
        self.ids.push(id);
    }

    pub(super) fn set(&mut self, entry: u32, to: Status) {
        if let Some(status) = self.status.get_mut(entry as usize) {
            *status = to;
        }
    }

    pub(super) fn set_base(&mut self, entry: u32, to: u32) {
        if let Some(base) = self.base.get_mut(entry as usize) {
            *base = to;
        }
    }

    /// Entries by name, from now on kept.
    pub(super) fn by_name(&mut self) -> &mut HashMap<ObjectId, u32> {
        let State { ids, status, named, .. } = self;
        named.get_or_insert_with(|| {
            let all = (0u32..).zip(ids.iter().zip(status.iter()));
            all.filter(|(_, (_, status))| matches!(status, Status::Named(_)))
                .map(|(entry, (id, _))| (*id, entry))
                .collect()
        })
    }

    /// The number of the object `id` of the object database.
    pub(super) fn external(&mut self, id: ObjectId) -> u32 {
        let next = EXTERNAL + self.external.len() as u32;
        let number = *self.by_external.entry(id).or_insert(next);
        if number == next {
            self.external.push(External { id });
        }
        number
    }

    /// Apply `data` to `base` if that is at hand. If not, wait for it, read it back, or put it off.
    fn at_hand(&mut self, entry: u32, base: u32, data: Vec<u8>) -> Found {
        if let Some((kind, base)) = self.cache.find(base) {
            return Found::Here(Next::Apply(kind, base, data));
        }
        if let Some(chain) = self.chain(base) {
            return Found::Back(chain, data);
        }
        let pending = self.status.get(base as usize) == Some(&Status::Pending);
        if pending && self.waiting_bytes + data.len() <= self.waiting_limit {
            self.waiting_bytes += data.len();
            self.waiting.entry(base).or_default().push((entry, data));
        } else {
            self.defer(entry);
        }
        Found::Later
    }

    /// How to make `base` again, if it has a name and its chain is short, all in the file, and the effort in proportion.
    fn chain(&mut self, base: u32) -> Option<Chain> {
        let Status::Named(kind) = *self.status.get(base as usize)? else {
            return None;
        };
        if self.read_back > self.inflated + READ_BACK {
            return None;
        }
        let (mut at, mut links) = (base, Vec::new());
        let start = loop {
            let (start, end) = (*self.offsets.get(at as usize)?, *self.offsets.get(at as usize + 1)?);
            if end > self.stored || links.len() == LINKS {
                return None;
            }
            links.push((start, end));
            at = *self.base.get(at as usize)?;
            if at == UNKNOWN {
                break None;
            }
            if let Some((_, data)) = self.cache.find(at) {
                break Some(data);
            }
        };
        Some(Chain {
            base,
            kind,
            start,
            links,
        })
    }

    /// Put off `entry` and all that wait for it.
    pub(super) fn defer(&mut self, entry: u32) {
        let mut entries = vec![entry];
        while let Some(entry) = entries.pop() {
            self.set(entry, Status::Deferred);
            for (waiting, data) in self.waiting.remove(&entry).into_iter().flatten() {
                self.waiting_bytes -= data.len();
                entries.push(waiting);
            }
        }
    }

    /// `entry` has the name `id`, but its bytes aren't here: deltas that wait for it are put off.
    fn came(&mut self, entry: u32, id: ObjectId) {
        let Some(named) = &mut self.named else { return };
        named.entry(id).or_insert(entry);
        for (child, data) in self.waiting_named.remove(&id).unwrap_or_default() {
            self.waiting_bytes -= data.len();
            self.set_base(child, entry);
            self.defer(child);
        }
    }

    /// `entry` has a name. Returns the deltas that waited for it.
    fn complete(&mut self, entry: u32, id: ObjectId, kind: Kind, data: &Arc<Vec<u8>>) -> Vec<(u32, Vec<u8>)> {
        if let Some(place) = self.ids.get_mut(entry as usize) {
            *place = id;
        }
        self.set(entry, Status::Named(kind));
        self.cache.insert(entry, kind, Arc::clone(data));
        let mut children = self.waiting.remove(&entry).unwrap_or_default();
        if let Some(named) = &mut self.named {
            named.entry(id).or_insert(entry);
            let waiting = self.waiting_named.remove(&id).unwrap_or_default();
            for (child, _) in &waiting {
                self.set_base(*child, entry);
            }
            children.extend(waiting);
        }
        for (_, data) in &children {
            self.waiting_bytes -= data.len();
        }
        children
    }
}

/// The name of an object.
pub(super) fn name(hash: gix_hash::Kind, kind: Kind, data: &[u8], offset: u64) -> Result<ObjectId, Error> {
    gix_object::compute_hash(hash, kind, data).map_err(|err| Error::Name {
        offset,
        source: err.into(),
    })
}

/// An object of the object database.
pub(super) fn find(bases: &impl Find, id: &ObjectId) -> Result<Option<(Kind, Vec<u8>)>, Error> {
    let mut buffer = Vec::new();
    let found = bases.try_find(id, &mut buffer).map_err(|err| Error::Base {
        id: *id,
        source: err.into(),
    })?;
    let Some(kind) = found.map(|found| found.kind) else {
        return Ok(None);
    };
    Ok(Some((kind, buffer)))
}
