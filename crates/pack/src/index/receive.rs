//! The thread that reads: entries in the order of the stream, inflated, handed out to be named.

use std::sync::atomic::AtomicBool;

use crossbeam_channel::{Sender, TrySendError, bounded};
use gix_hash::ObjectId;
use gix_object::{Find, Kind};
use prodash::{Count, DynNestedProgress, Progress, Unit};

use super::{
    Error, Limits,
    entry::{Entry, Header, Status, header},
    input::Input,
    place::Writer,
    read_back::PackFile,
    resolve::{Content, EXTERNAL, Job, Resolver, State, UNKNOWN},
};

/// Inflated bytes that are handed out together.
const BATCH: usize = 256 * 1024;
/// Batches on their way, for each thread.
const BATCHES: usize = 3;

/// The ids that gix gives these stages of its own indexer, so that whoever shows them need not tell one from the other.
const BYTES: [u8; 4] = *b"BWRB";
const OBJECTS: [u8; 4] = *b"IWIO";
const DELTAS: [u8; 4] = *b"IWRO";

/// All of a pack but its trailer.
pub(super) struct Received {
    pub(super) hash: gix_hash::Kind,
    pub(super) version: u32,
    /// Names are those in `state`, until all are known.
    pub(super) entries: Vec<Entry>,
    /// Where the last entry ends.
    pub(super) end: u64,
    pub(super) checksum: ObjectId,
    pub(super) state: State,
}

/// An entry of which nobody was told yet.
struct Fresh {
    offset: u64,
    status: Status,
    base: u32,
    id: ObjectId,
}

struct Reading<'a> {
    input: Input<'a>,
    hash: gix_hash::Kind,
    large: u64,
    entries: Vec<Entry>,
    fresh: Vec<Fresh>,
    jobs: Vec<Job>,
    bytes: usize,
    deltas: usize,
}

#[allow(clippy::too_many_arguments, reason = "one call, from next door")]
pub(super) fn receive<F: Find + Clone + Send>(
    limits: Limits,
    pack: &mut dyn std::io::Read,
    to: Writer,
    bases: F,
    hash: gix_hash::Kind,
    threads: usize,
    progress: &mut dyn DynNestedProgress,
    interrupt: &AtomicBool,
) -> Result<Option<Received>, Error> {
    let path = &to.path.clone();
    let mut reading = Reading {
        input: Input::new(pack, to, hash, interrupt),
        hash,
        large: limits.large,
        entries: Vec::new(),
        fresh: Vec::new(),
        jobs: Vec::new(),
        bytes: 0,
        deltas: 0,
    };
    let (version, announced) = reading.preamble()?;
    let mut bytes = progress.add_child_with_id("read pack".into(), BYTES);
    bytes.init(None, Some(prodash::unit::label("bytes")));
    let mut objects = progress.add_child_with_id("indexing".into(), OBJECTS);
    objects.init(Some(announced as usize), Some(count()));
    let mut deltas = progress.add_child_with_id("Resolving".into(), DELTAS);
    deltas.init(None, Some(count()));
    let resolver = Resolver::new(hash, limits, deltas.counter());

    let trailer = std::thread::scope(|scope| {
        let workers = threads.saturating_sub(1);
        let (send, receive) = bounded::<Vec<Job>>(workers.max(1) * BATCHES);
        for _ in 0..workers {
            let (receive, bases, resolver) = (receive.clone(), bases.clone(), &resolver);
            let started = std::thread::Builder::new()
                .name("pack-index".into())
                .spawn_scoped(scope, move || {
                    // Without it, what must be read back is put off.
                    let mut file = PackFile::open(path, hash).ok();
                    for jobs in receive {
                        resolver.work(jobs, &bases, &mut file);
                    }
                });
            // With fewer hands the work is the same: the reading thread lends one.
            if started.is_err() {
                break;
            }
        }
        let mut file = PackFile::open(path, hash).ok();
        let read = reading.entries(announced, |reading| {
            reading.hand_out(&resolver, (workers > 0).then_some(&send), &bases, &mut file);
            bytes.set(reading.input.offset() as usize);
            objects.set(reading.entries.len());
            !resolver.has_failed()
        });
        let end = reading.input.offset();
        let trailer = read.and_then(|()| reading.input.trailer(hash));
        drop(send);
        match trailer {
            Ok(trailer) => {
                for jobs in receive {
                    resolver.work(jobs, &bases, &mut file);
                }
                Some((end, trailer))
            }
            // What a worker ran into comes first: that is why reading was stopped.
            Err(err) => {
                resolver.fail(err);
                None
            }
        }
    });
    let received = reading.entries.len() as u32;
    deltas.set_max(Some(reading.deltas));
    let state = resolver.into_state()?;
    let Some((end, Some((expected, actual)))) = trailer else {
        return Err(Error::Ended {
            bytes: reading.input.offset(),
            entries: received,
            announced,
        });
    };
    if expected != actual {
        return Err(Error::Checksum { expected, actual });
    }
    if announced == 0 {
        return Ok(None);
    }
    Ok(Some(Received {
        hash,
        version,
        entries: reading.entries,
        end,
        checksum: actual,
        state,
    }))
}

impl Reading<'_> {
    /// The version, and how many objects are announced.
    fn preamble(&mut self) -> Result<(u32, u32), Error> {
        let mut fields = [0u8; 12];
        for field in &mut fields {
            *field = self.byte(0)?;
        }
        let number = |at: usize| {
            fields[at..at + 4]
                .iter()
                .fold(0u32, |number, byte| number << 8 | u32::from(*byte))
        };
        if &fields[..4] != b"PACK" {
            return Err(Error::corrupt(0, "it doesn't begin as packs do"));
        }
        let (version, announced) = (number(4), number(8));
        if version != 2 && version != 3 {
            return Err(Error::corrupt(0, "its version is neither 2 nor 3"));
        }
        if announced >= EXTERNAL {
            return Err(Error::corrupt(0, "it has more than 2^31 objects"));
        }
        Ok((version, announced))
    }

    fn byte(&mut self, announced: u32) -> Result<u8, Error> {
        match self.input.byte()? {
            Some(byte) => Ok(byte),
            None => Err(Error::Ended {
                bytes: self.input.offset(),
                entries: self.entries.len() as u32,
                announced,
            }),
        }
    }

    /// All entries; `hand_out` is called with some of them at a time, and tells whether to go on.
    fn entries(&mut self, announced: u32, mut hand_out: impl FnMut(&mut Self) -> bool) -> Result<(), Error> {
        for _ in 0..announced {
            self.entry(announced)?;
            // A reader that waits for the network must not let the others wait, too.
            if (self.bytes >= BATCH || !self.input.is_ready()) && !hand_out(self) {
                return Err(Error::Interrupted);
            }
        }
        if hand_out(self) {
            Ok(())
        } else {
            Err(Error::Interrupted)
        }
    }

    fn entry(&mut self, announced: u32) -> Result<(), Error> {
        let offset = self.input.offset();
        self.input.begin_entry();
        let hash = self.hash;
        let (header, size) = header(hash, || self.byte(announced), |what| Error::corrupt(offset, what))?;
        let number = self.entries.len() as u32;
        let mut fresh = Fresh {
            offset,
            status: Status::Pending,
            base: UNKNOWN,
            id: ObjectId::null(hash),
        };
        let content = match header {
            Header::Whole(kind) => Content::Whole(kind),
            Header::Offset(distance) => {
                let base = offset
                    .checked_sub(distance)
                    .and_then(|base| self.entries.binary_search_by_key(&base, |entry| entry.offset).ok())
                    .ok_or_else(|| Error::corrupt(offset, "its base is no object of the pack"))?;
                fresh.base = base as u32;
                Content::On(base as u32)
            }
            Header::Named(id) => Content::OnNamed(id),
        };
        self.deltas += usize::from(!matches!(content, Content::Whole(_)));
        if size <= self.large {
            let data = self.input.inflate(size as usize, offset)?;
            // Large buffers cost more than what they hold.
            self.bytes += data.len() + 64;
            self.jobs.push(Job {
                entry: number,
                offset,
                content,
                data,
            });
        } else {
            match content {
                Content::Whole(kind) => {
                    fresh.id = self.name(kind, size, offset)?;
                    fresh.status = Status::Named(kind);
                    // Deltas may wait for it by its name.
                    self.jobs.push(Job {
                        entry: number,
                        offset,
                        content: Content::Known(fresh.id),
                        data: Vec::new(),
                    });
                }
                Content::On(_) => {
                    self.input.inflate_to(size, offset, |_| {})?;
                    fresh.status = Status::Deferred;
                }
                Content::OnNamed(id) => {
                    self.input.inflate_to(size, offset, |_| {})?;
                    self.jobs.push(Job {
                        entry: number,
                        offset,
                        content: Content::Wants(id),
                        data: Vec::new(),
                    });
                }
                Content::Known(..) | Content::Wants(_) => {}
            }
        }
        let crc = self.input.end_entry();
        self.entries.push(Entry {
            offset,
            crc,
            id: ObjectId::null(hash),
        });
        self.fresh.push(fresh);
        Ok(())
    }

    /// The name of a whole object that isn't kept.
    fn name(&mut self, kind: Kind, size: u64, offset: u64) -> Result<ObjectId, Error> {
        let mut hasher = gix_hash::hasher(self.hash);
        hasher.update(&gix_object::encode::loose_header(kind, size));
        self.input.inflate_to(size, offset, |bytes| hasher.update(bytes))?;
        hasher.try_finalize().map_err(|err| Error::Name {
            offset,
            source: err.into(),
        })
    }

    /// Give what was read to a worker, or do it here where all are busy.
    fn hand_out(
        &mut self,
        resolver: &Resolver,
        workers: Option<&Sender<Vec<Job>>>,
        bases: &impl Find,
        file: &mut Option<PackFile<'_>>,
    ) {
        if !self.fresh.is_empty() {
            let mut state = resolver.lock();
            state.stored = self.input.stored();
            for fresh in self.fresh.drain(..) {
                state.push(fresh.offset, fresh.status, fresh.base, fresh.id);
            }
        }
        self.bytes = 0;
        if self.jobs.is_empty() {
            return;
        }
        let jobs = std::mem::take(&mut self.jobs);
        let left = match workers {
            None => Some(jobs),
            Some(workers) => match workers.try_send(jobs) {
                Ok(()) => None,
                Err(TrySendError::Full(jobs) | TrySendError::Disconnected(jobs)) => Some(jobs),
            },
        };
        if let Some(jobs) = left {
            resolver.work(jobs, bases, file);
        }
    }
}

fn count() -> Unit {
    prodash::unit::label("objects")
}
