//! A server that does on each connection exactly what a script says, and records what it received.
//!
//! Owns the misbehaviour that no real server can be asked for: answers before the request is read, resets, half-closed sockets,
//! broken framing. It understands just enough HTTP/1.1 to find the end of a request, and refuses to be a web server: every byte of
//! an answer is written out by the test.
//!
//! ```
//! use rgit_testkit::scripted::{Server, Step};
//! let server = Server::start(|_connection| {
//!     vec![Step::ReadRequest, Step::write("HTTP/1.1 204 No Content\r\n\r\n"), Step::Close]
//! });
//! assert!(server.url("/path").starts_with("http://127.0.0.1:"));
//! ```

mod http2;
mod peer;
mod step;

use std::{
    collections::HashMap,
    fmt,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustls::ServerConfig;

use peer::Peer;
pub use step::{Framing, Gate, Handler, Request, Step};

/// What a script is played in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Play {
    Http1,
    Http2,
}

/// How long [`Server::wait_until`] and a step wait before the test is called failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the server and its connections' threads hold in common.
#[derive(Default)]
struct Shared {
    /// By connection, in the order of acceptance.
    requests: Mutex<Vec<Vec<Request>>>,
    changed: Condvar,
    /// To wake threads that read or write when the server ends.
    sockets: Mutex<HashMap<usize, TcpStream>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stop: AtomicBool,
}

/// The running server. Dropping it closes all connections and joins all threads.
pub struct Server {
    address: SocketAddr,
    secure: bool,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    /// A plain server. `script` is asked for each connection's steps by the connection's number, from 0.
    pub fn start(script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static) -> Server {
        Server::launch(Play::Http1, None, script)
    }

    /// As [`Server::start`], in HTTP/2 with prior knowledge. Scripts are the same: answers are written in the words of HTTP/1.1 and
    /// go out as frames, their `connection: close` as GOAWAY. What HTTP/2 can't say (half a head, bytes between answers) is not sent.
    pub fn start_h2(script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static) -> Server {
        Server::launch(Play::Http2, None, script)
    }

    /// As [`Server::start_h2`], over TLS.
    pub fn start_h2_tls(
        config: Arc<ServerConfig>,
        script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static,
    ) -> Server {
        Server::launch(Play::Http2, Some(config), script)
    }

    /// As [`Server::start`], over TLS.
    pub fn start_tls(config: Arc<ServerConfig>, script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static) -> Server {
        Server::launch(Play::Http1, Some(config), script)
    }

    fn launch(
        play: Play,
        config: Option<Arc<ServerConfig>>,
        script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let secure = config.is_some();
        let shared = Arc::new(Shared::default());
        let inner = shared.clone();
        let acceptor = std::thread::spawn(move || {
            for (number, socket) in listener.incoming().enumerate() {
                let Ok(socket) = socket else { break };
                if inner.stop.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(wake) = socket.try_clone() else { break };
                lock(&inner.sockets).insert(number, wake);
                lock(&inner.requests).push(Vec::new());
                inner.changed.notify_all();
                let (steps, config, shared) = (script(number), config.clone(), inner.clone());
                let thread = std::thread::spawn(move || {
                    // A failure here is the client's doing, and for the test to judge by what was recorded.
                    let _ = match play {
                        Play::Http1 => {
                            Peer::accept(socket, config, number, &shared).and_then(|mut peer| peer.play(&steps))
                        }
                        Play::Http2 => http2::play(socket, config, number, &shared, &steps),
                    };
                    lock(&shared.sockets).remove(&number);
                });
                lock(&inner.threads).push(thread);
            }
        });
        Server {
            address,
            secure,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// An absolute URL on this server.
    pub fn url(&self, path: &str) -> String {
        format!(
            "{}://{}{path}",
            if self.secure { "https" } else { "http" },
            self.address
        )
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> usize {
        lock(&self.shared.requests).len()
    }

    /// Everything received so far, by connection.
    pub fn requests(&self) -> Vec<Vec<Request>> {
        lock(&self.shared.requests).clone()
    }

    /// Wait until what was received satisfies `condition`, and return it.
    ///
    /// # Panics
    /// After a minute, with what was received until then.
    pub fn wait_until(&self, condition: impl Fn(&[Vec<Request>]) -> bool) -> Vec<Vec<Request>> {
        let end = Instant::now() + PATIENCE;
        let mut requests = lock(&self.shared.requests);
        while !condition(&requests) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "the server never received what was waited for: {requests:?}"
            );
            let waited = self.shared.changed.wait_timeout(requests, left);
            requests = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        requests.clone()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        {
            // Under the lock, so that nobody can miss it between looking and waiting.
            let _guard = lock(&self.shared.requests);
            self.shared.stop.store(true, Ordering::SeqCst);
            self.shared.changed.notify_all();
        }
        // Wakes the acceptor, which sees `stop`.
        TcpStream::connect(self.address).ok();
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().ok();
        }
        for socket in lock(&self.shared.sockets).values() {
            socket.shutdown(Shutdown::Both).ok();
        }
        for thread in std::mem::take(&mut *lock(&self.shared.threads)) {
            thread.join().ok();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
