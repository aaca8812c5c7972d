//! The daemon: who is let in, how many at a time, and when it goes.

use std::{
    fs,
    io::{self, Read, Write},
    net::Shutdown,
    os::{
        fd::AsFd,
        unix::{
            fs::MetadataExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::Path,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
};
use serde_json::json;

use crate::{
    Settings, SocketPath,
    callers::Callers,
    clients::{Client, Clients},
    memory::Memory,
    place::{GREETING, Stamp, is_own},
    profile::shown,
    serve,
    upstreams::{Factory, Upstreams, lock},
};

/// How often origins in use are looked after, while there are any.
const ROUND: Duration = Duration::from_millis(500);

/// Why a daemon went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Left {
    /// Nobody needed it.
    Idle,
    /// Another program took the place of the one it was started from.
    Replaced,
    /// It was told to.
    Asked,
}

/// What all threads of a daemon share.
pub(crate) struct Shared {
    pub(crate) upstreams: Upstreams,
    pub(crate) memory: Memory,
    pub(crate) requests: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    /// Told by [`Handle::leave`].
    asked: AtomicBool,
    /// Rings the thread that lets clients in.
    bell: UnixStream,
    /// Readable for all once the daemon is leaving.
    leaving: UnixStream,
    pub(crate) clients: Clients,
    pub(crate) callers: Callers,
    /// Something happened that may want connections to be looked after.
    used: Condvar,
    rest: Mutex<Rest>,
    /// Those who wait for the end.
    farewell: Mutex<Vec<UnixStream>>,
    settings: Settings,
    begun: Instant,
}

/// Why the keeper is to stir.
#[derive(Debug, Default)]
struct Rest {
    over: bool,
    used: bool,
}

/// A daemon, ready to run.
pub struct Daemon {
    listener: UnixListener,
    place: SocketPath,
    /// The other ends of the shared streams.
    rung: UnixStream,
    left: UnixStream,
    shared: Arc<Shared>,
    program: Option<Stamp>,
    owns_socket: bool,
    /// What lay at the socket's path in the beginning: somebody may put another one there.
    file: Option<(u64, u64)>,
}

/// Tells a daemon that runs in another thread.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// Let nobody in any more, finish what is under way, and go.
    pub fn leave(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        self.0.ring();
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Handle").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl Daemon {
    /// A daemon for the clients of `listener`, whose socket lies at `place`.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn new(
        listener: UnixListener,
        place: SocketPath,
        factory: Box<Factory>,
        settings: Settings,
    ) -> io::Result<Daemon> {
        let (bell, rung) = UnixStream::pair()?;
        let (leaving, left) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        rung.set_nonblocking(true)?;
        listener.set_nonblocking(true)?;
        let shared = Shared {
            upstreams: Upstreams::new(factory),
            memory: Memory::new(settings.judge),
            requests: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            bell,
            leaving,
            clients: Clients::default(),
            callers: Callers::default(),
            used: Condvar::new(),
            rest: Mutex::default(),
            farewell: Mutex::default(),
            begun: Instant::now(),
            settings,
        };
        Ok(Daemon {
            listener,
            file: file(&place.socket()),
            place,
            rung,
            left,
            program: shared.settings.program.as_deref().and_then(Stamp::of),
            shared: Arc::new(shared),
            owns_socket: true,
        })
    }

    /// The socket is somebody else's: leave it where it is when leaving.
    pub fn leaving_the_socket(mut self) -> Daemon {
        self.owns_socket = false;
        self
    }

    /// To be told from elsewhere.
    pub fn handle(&self) -> Handle {
        Handle(self.shared.clone())
    }

    /// Serve until it is time to go, and what was begun is finished.
    ///
    /// # Errors
    /// When the socket can't be waited on.
    pub fn run(self) -> io::Result<Left> {
        let keeper = self.shared.clone();
        let keeper = std::thread::Builder::new()
            .name("rgit-keeper".to_owned())
            .spawn(move || keeper.keep())?;
        let watcher = self.shared.clone();
        let watcher = std::thread::Builder::new()
            .name("rgit-watcher".to_owned())
            .spawn(move || watcher.callers.watch())?;
        tracing::info!(socket = %self.place.socket().display(), pid = std::process::id(), "serving");
        let outcome = self.let_in();
        tracing::info!(?outcome, "leaving");
        if outcome.is_ok() && self.owns_socket {
            self.make_way();
        }
        let Daemon {
            shared, left, listener, ..
        } = self;
        drop(listener);
        // Whoever waits for a next request need not wait any longer.
        left.shutdown(Shutdown::Both).ok();
        lock(&shared.rest).over = true;
        shared.used.notify_all();
        shared.clients.wait_until_gone();
        shared.callers.end();
        keeper.join().ok();
        watcher.join().ok();
        tracing::info!(requests = shared.requests.load(Ordering::Relaxed), "gone");
        outcome
    }

    /// Let clients in until it is time to go.
    fn let_in(&self) -> io::Result<Left> {
        let mut failing = false;
        loop {
            if self.shared.asked.load(Ordering::SeqCst) {
                return Ok(Left::Asked);
            }
            let (count, idle) = self.shared.clients.count();
            let limit = self.shared.settings.idle_timeout;
            if count == 0 && idle >= limit {
                return Ok(Left::Idle);
            }
            let full = count >= self.shared.settings.clients;
            // Out of descriptors: they come back when a client goes, which rings; or somebody else's do.
            let left = match (failing, count) {
                (true, _) => Duration::from_secs(1),
                (false, 0) => limit - idle,
                _ => limit,
            };
            let bell = (self.rung.as_fd(), PollFlags::IN);
            match full || failing {
                true => wait(&[bell], Some(left))?,
                false => wait(&[bell, (self.listener.as_fd(), PollFlags::IN)], Some(left))?,
            };
            while matches!((&self.rung).read(&mut [0; 64]), Ok(count) if count > 0) {}
            if full {
                continue;
            }
            failing = false;
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if self.is_replaced() {
                        // Not a word: it finds another daemon.
                        return Ok(Left::Replaced);
                    }
                    self.welcome(stream);
                }
                Err(err) if is_nothing(&err) => {}
                Err(err) => {
                    tracing::warn!(%err, "can't let a client in");
                    failing = true;
                }
            }
        }
    }

    fn is_replaced(&self) -> bool {
        let program = self.shared.settings.program.as_deref();
        program.is_some_and(|path| Stamp::of(path) != self.program)
    }

    fn welcome(&self, mut stream: UnixStream) {
        if !matches!(is_own(&stream), Ok(true)) {
            tracing::warn!("a client of another user was turned away");
            return;
        }
        if stream
            .set_nonblocking(false)
            .and_then(|()| stream.write_all(GREETING))
            .is_err()
        {
            return;
        }
        let client = Client::enter(&self.shared);
        let caller = self.shared.callers.enter(stream);
        let serving = move || {
            if let Err(err) = serve::client(&client.0, &caller) {
                tracing::debug!(%err, "a client's connection ended");
            }
        };
        let spawned = std::thread::Builder::new()
            .name("rgit-client".to_owned())
            .spawn(serving);
        if let Err(err) = spawned {
            tracing::warn!(%err, "no thread for a client");
        }
    }

    /// Take the socket away, unless it is another daemon's by now, and turn away who comes meanwhile.
    fn make_way(&self) {
        let ours = self.file;
        let place = self.place.clone();
        let bell = self.shared.clone();
        let removed = Arc::new(AtomicBool::new(false));
        let done = removed.clone();
        // Who holds the lock may be waiting for us to say something: so waiting for it is another thread's work.
        let remover = std::thread::spawn(move || {
            if let Ok(_lock) = place.lock() {
                let socket = place.socket();
                let found = file(&socket);
                if found.is_some() && found == ours {
                    fs::remove_file(&socket).ok();
                }
            }
            done.store(true, Ordering::SeqCst);
            bell.ring();
        });
        loop {
            let last = removed.load(Ordering::SeqCst);
            // Closed without a word: these clients start another daemon.
            while self.listener.accept().is_ok() {}
            if last {
                break;
            }
            let bell = (self.rung.as_fd(), PollFlags::IN);
            if wait(&[bell, (self.listener.as_fd(), PollFlags::IN)], None).is_err() {
                break;
            }
            while matches!((&self.rung).read(&mut [0; 64]), Ok(count) if count > 0) {}
        }
        remover.join().ok();
    }
}

impl Shared {
    pub(crate) fn ring(&self) {
        // Full means that it rings already.
        (&self.bell).write_all(&[0]).ok();
    }

    /// Go, once whoever waits on `stream` has been told to wait: it ends when the daemon does.
    pub(crate) fn leave(&self, stream: UnixStream) {
        lock(&self.farewell).push(stream);
        self.asked.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Wait for a next request on `stream`; `false` when the daemon leaves instead.
    pub(crate) fn wait_for_request(&self, stream: &UnixStream) -> io::Result<bool> {
        let ready = wait(
            &[(stream.as_fd(), PollFlags::IN), (self.leaving.as_fd(), PollFlags::IN)],
            None,
        )?;
        // What has come already is served.
        Ok(ready[0])
    }

    /// A request was served: there is something to keep warm.
    pub(crate) fn was_used(&self) {
        if !self.settings.reopen.is_zero() && !std::mem::replace(&mut lock(&self.rest).used, true) {
            self.used.notify_all();
        }
    }

    /// Look after idle connections of origins that were used lately.
    fn keep(&self) {
        let recent = self.settings.reopen;
        loop {
            let any = !recent.is_zero() && self.upstreams.reopen(recent);
            let mut rest = lock(&self.rest);
            // To look every so often is the work itself: a server closes when it pleases. With nothing to look after, it waits.
            if any {
                let waited = self.used.wait_timeout_while(rest, ROUND, |rest| !rest.over);
                rest = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else {
                let waited = self.used.wait_while(rest, |rest| !rest.over && !rest.used);
                rest = waited.unwrap_or_else(PoisonError::into_inner);
            }
            if rest.over {
                return;
            }
            rest.used = false;
        }
    }

    /// What `rgit daemon status --json` prints.
    pub(crate) fn status(&self) -> serde_json::Value {
        json!({
            "pid": std::process::id(),
            "program": self.settings.program.as_ref().map(|path| shown(path.as_os_str())),
            "age_seconds": self.begun.elapsed().as_secs(),
            "clients": self.clients.count().0,
            "requests": self.requests.load(Ordering::Relaxed),
            "bytes_sent": self.sent.load(Ordering::Relaxed),
            "bytes_received": self.received.load(Ordering::Relaxed),
            "remembered_answers": self.memory.len(),
            "profiles": self.upstreams.status(),
        })
    }
}

/// Device and inode of what lies at `path`.
fn file(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Which of these became ready, within `timeout`.
fn wait(descriptors: &[(std::os::fd::BorrowedFd<'_>, PollFlags)], timeout: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut fds: Vec<_> = descriptors
        .iter()
        .map(|(descriptor, flags)| PollFd::new(descriptor, *flags))
        .collect();
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match rustix::event::poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(err) => Err(err.into()),
    }
}

fn is_nothing(err: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(err.kind(), ConnectionAborted | Interrupted | WouldBlock)
}
