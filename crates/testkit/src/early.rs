//! [`Server`]: HTTP/1.1 over TLS 1.3 that takes early data (RFC 8446, section 2.3), or doesn't, and tells how each request came.
//!
//! Owns the handshakes in all their moods, and the count of flights that a client waited for. tokio-rustls gives a server no early data, so
//! here threads drive rustls, and answer what came early together with the handshake's own flight. Understands as much HTTP as it takes
//! to find the end of a request with a `content-length` or none; answers are written out by the test.

use std::{
    collections::HashMap,
    fmt,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use rustls::{HandshakeKind, ServerConfig, ServerConnection, server::ServerSessionMemoryCache};

use crate::{certificate::Authority, requests::lock};

/// Early data that a ticket allows: rustls' own counts what it passes over in bytes on the wire.
const MOST: u32 = 8 * 1024;
/// Sessions remembered.
const SESSIONS: usize = 256;

/// How a connection's handshake goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mood {
    /// Early data is taken.
    Takes,
    /// Sessions are resumed, and early data is passed over.
    Refuses,
    /// No session is remembered.
    Forgets,
    /// The connection is closed with the first bytes.
    Breaks,
    /// Nothing is said to the first bytes.
    Hangs,
    /// As [`Mood::Takes`], but after the handshake the connection is closed without an answer.
    Leaves,
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// On which connection, counted from 0.
    pub connection: usize,
    /// Request line and headers.
    pub head: String,
    /// Whether it came as early data.
    pub early: bool,
    /// How many flights of our handshake had gone out before it came: the round trips that it waited for, after TCP's.
    pub flights: u32,
    /// Whether the handshake took up an earlier session.
    pub resumed: bool,
}

type Moods = dyn Fn(usize) -> Mood + Send + Sync;
type Answers = dyn Fn(&Seen) -> String + Send + Sync;

struct Shared {
    takes: Arc<ServerConfig>,
    refuses: Arc<ServerConfig>,
    forgets: Arc<ServerConfig>,
    moods: Box<Moods>,
    answers: Box<Answers>,
    seen: Mutex<Vec<Seen>>,
    accepted: Mutex<usize>,
    sockets: Mutex<HashMap<usize, TcpStream>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stop: AtomicBool,
}

/// The running server. Dropping it closes all connections and joins all threads.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    /// A server at 127.0.0.1 with a certificate of `authority`. Each connection is in one of the `moods`, by its number from 0.
    ///
    /// # Panics
    /// When there is no port on loopback.
    pub fn start(
        authority: &Authority,
        moods: impl Fn(usize) -> Mood + Send + Sync + 'static,
        answers: impl Fn(&Seen) -> String + Send + Sync + 'static,
    ) -> Server {
        let mut takes = ServerConfig::clone(&authority.server_config(&["127.0.0.1"], &[b"http/1.1"]));
        takes.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        takes.max_early_data_size = MOST;
        takes.send_half_rtt_data = true;
        let mut refuses = takes.clone();
        refuses.max_early_data_size = 0;
        let mut forgets = takes.clone();
        forgets.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            takes: Arc::new(takes),
            refuses: Arc::new(refuses),
            forgets: Arc::new(forgets),
            moods: Box::new(moods),
            answers: Box::new(answers),
            seen: Mutex::default(),
            accepted: Mutex::default(),
            sockets: Mutex::default(),
            threads: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let inner = shared.clone();
        let acceptor = std::thread::spawn(move || {
            for (number, socket) in listener.incoming().enumerate() {
                let Ok(socket) = socket else { break };
                if inner.stop.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(wake) = socket.try_clone() else { break };
                *lock(&inner.accepted) = number + 1;
                lock(&inner.sockets).insert(number, wake);
                let shared = inner.clone();
                let thread = std::thread::spawn(move || {
                    // A failure here is the client's doing, and for the test to judge by what was seen.
                    let _ = shared.serve(socket, number);
                    // The kernel closes a socket with its last descriptor.
                    lock(&shared.sockets).remove(&number);
                });
                lock(&inner.threads).push(thread);
            }
        });
        Server {
            address,
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
        format!("https://{}{path}", self.address)
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> usize {
        *lock(&self.shared.accepted)
    }

    /// The requests that came so far. Each stands here before its answer goes out.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
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
        self.shared.stop.store(true, Ordering::SeqCst);
        // Wakes the acceptor, which sees `stop`.
        TcpStream::connect(self.address).ok();
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().ok();
        }
        for socket in lock(&self.shared.sockets).values() {
            socket.shutdown(Shutdown::Both).ok();
        }
        let threads = std::mem::take(&mut *lock(&self.shared.threads));
        for thread in threads {
            thread.join().ok();
        }
    }
}

impl Shared {
    fn serve(&self, mut socket: TcpStream, number: usize) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let mood = (self.moods)(number);
        let config = match mood {
            Mood::Refuses => &self.refuses,
            Mood::Forgets => &self.forgets,
            Mood::Takes | Mood::Leaves | Mood::Breaks | Mood::Hangs => &self.takes,
        };
        if [Mood::Breaks, Mood::Hangs].contains(&mood) {
            let mut bytes = [0; 64 * 1024];
            while socket.read(&mut bytes)? > 0 && mood == Mood::Hangs {}
            return Ok(());
        }
        let mut session = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        session.set_buffer_limit(None);
        let (mut bytes, mut early, mut flights) = (Vec::new(), 0, 0);
        let mut is_leaving = false;
        while session.read_tls(&mut socket)? > 0 {
            let processed = session.process_new_packets();
            if let Some(mut data) = session.early_data() {
                early += data.read_to_end(&mut bytes)?;
            }
            match session.reader().read_to_end(&mut bytes) {
                Err(err) if err.kind() != io::ErrorKind::WouldBlock => return Err(err),
                _ => {}
            }
            while let Some(length) = request(&bytes) {
                let head = bytes.drain(..length).collect::<Vec<_>>();
                let seen = Seen {
                    connection: number,
                    head: String::from_utf8_lossy(&head).into_owned(),
                    early: early >= length,
                    flights,
                    resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
                };
                early = early.saturating_sub(length);
                lock(&self.seen).push(seen.clone());
                is_leaving = mood == Mood::Leaves;
                if !is_leaving {
                    session.writer().write_all((self.answers)(&seen).as_bytes())?;
                }
            }
            // Tickets follow the handshake, and nobody waits for them.
            if session.wants_write() && session.is_handshaking() {
                flights += 1;
            }
            while session.wants_write() {
                session.write_tls(&mut socket)?;
            }
            processed.map_err(io::Error::other)?;
            if is_leaving && !session.is_handshaking() {
                break;
            }
        }
        Ok(())
    }
}

/// How long the request at the start of `bytes` is, once it is there as a whole.
fn request(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let whole = head + length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
    (bytes.len() >= whole).then_some(whole)
}
