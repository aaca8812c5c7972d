//! HTTP/2 peers that send and receive frame by frame (RFC 9113), for what no well-behaved server does.
//!
//! Owns framing and just enough HPACK to write an answer's head. It understands no header block it receives, and keeps no rule of the
//! protocol by itself, save that it acknowledges SETTINGS and answers PINGs unless told otherwise.

mod encode;
mod names;

use std::{
    collections::HashMap,
    fmt,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

pub use encode::{block, encode};
pub use names::{flag, kind, setting};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long a read waits before the script is called failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a closed connection goes on taking what the client still sends.
const LINGER: Duration = Duration::from_secs(2);

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream; 0 is the connection.
    pub stream: u32,
    /// What it carries.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Whether it has `flag`.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Four octets of the payload as a number: an error code, an increment.
    ///
    /// # Panics
    /// When the payload is shorter than that.
    pub fn number_at(&self, at: usize) -> u32 {
        let octets = self.payload[at..at + 4].try_into().expect("four octets");
        u32::from_be_bytes(octets)
    }
}

enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

/// The server's end of a connection.
pub struct Peer {
    wire: Wire,
    /// Answer PINGs and acknowledge SETTINGS while reading.
    pub polite: bool,
    resets: bool,
    shared: Arc<Shared>,
    number: usize,
}

impl Peer {
    /// Read the client's preface and send SETTINGS.
    ///
    /// # Errors
    /// When the client sends another preface, or goes.
    pub fn greet(&mut self, settings: &[(u16, u32)]) -> io::Result<()> {
        self.read_preface()?;
        self.settings(settings)
    }

    /// Read the client's preface, and send nothing.
    ///
    /// # Errors
    /// When the client sends another preface, or goes.
    pub fn read_preface(&mut self) -> io::Result<()> {
        let mut preface = [0; PREFACE.len()];
        self.read_exact(&mut preface)?;
        match preface == PREFACE {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "this is no HTTP/2 preface")),
        }
    }

    /// Send a SETTINGS frame.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn settings(&mut self, settings: &[(u16, u32)]) -> io::Result<()> {
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        self.send(kind::SETTINGS, 0, 0, &payload)
    }

    /// Send any frame.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        self.raw(&encode(kind, flags, stream, payload))
    }

    /// Send any bytes.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.wire {
            Wire::Plain(socket) => socket.write_all(bytes),
            Wire::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    /// Send an answer's head whole, with `flags` besides END_HEADERS.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn headers(&mut self, stream: u32, status: u16, fields: &[(&str, &str)], flags: u8) -> io::Result<()> {
        self.send(kind::HEADERS, flags | flag::END_HEADERS, stream, &block(status, fields))
    }

    /// Send DATA.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn data(&mut self, stream: u32, data: &[u8], flags: u8) -> io::Result<()> {
        self.send(kind::DATA, flags, stream, data)
    }

    /// Send a whole answer with status 200.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn answer(&mut self, stream: u32, text: &str) -> io::Result<()> {
        self.headers(stream, 200, &[], 0)?;
        self.data(stream, text.as_bytes(), flag::END_STREAM)
    }

    /// Send RST_STREAM.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn reset_stream(&mut self, stream: u32, code: u32) -> io::Result<()> {
        self.send(kind::RST_STREAM, 0, stream, &code.to_be_bytes())
    }

    /// Send GOAWAY.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn goaway(&mut self, last_stream: u32, code: u32) -> io::Result<()> {
        let payload = [last_stream.to_be_bytes(), code.to_be_bytes()].concat();
        self.send(kind::GOAWAY, 0, 0, &payload)
    }

    /// Send WINDOW_UPDATE.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn window_update(&mut self, stream: u32, increment: u32) -> io::Result<()> {
        self.send(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
    }

    /// The next frame.
    ///
    /// # Errors
    /// When the client is gone, or nothing comes for a minute.
    pub fn frame(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.read_exact(&mut head)?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.read_exact(&mut payload)?;
        let stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
        let frame = Frame {
            kind,
            flags,
            stream,
            payload,
        };
        if self.polite && !frame.has(flag::ACK) {
            match frame.kind {
                kind::SETTINGS => self.send(kind::SETTINGS, flag::ACK, 0, &[])?,
                kind::PING => self.send(kind::PING, flag::ACK, 0, &frame.payload.clone())?,
                _ => {}
            }
        }
        Ok(frame)
    }

    /// The next frame of this type; others are passed over.
    ///
    /// # Errors
    /// As [`frame`](Self::frame).
    pub fn until(&mut self, kind: u8) -> io::Result<Frame> {
        loop {
            let frame = self.frame()?;
            if frame.kind == kind {
                return Ok(frame);
            }
        }
    }

    /// The stream of the next request whose head comes.
    ///
    /// # Errors
    /// As [`frame`](Self::frame).
    pub fn request(&mut self) -> io::Result<u32> {
        Ok(self.until(kind::HEADERS)?.stream)
    }

    /// Read until so many octets of DATA came on any stream, or one ends: how many came.
    ///
    /// # Errors
    /// As [`frame`](Self::frame).
    pub fn body(&mut self, least: usize) -> io::Result<usize> {
        let mut got = 0;
        while got < least {
            let frame = self.until(kind::DATA)?;
            got += frame.payload.len();
            if frame.has(flag::END_STREAM) {
                break;
            }
        }
        Ok(got)
    }

    /// Read and drop whatever comes until the client closes.
    pub fn hold(&mut self) {
        while self.frame().is_ok() {}
    }

    /// Read nothing until the server ends.
    pub fn hold_unread(&mut self) {
        while !self.shared.stop.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Close with a reset, whatever is still under way.
    pub fn reset(mut self) {
        self.resets = true;
        socket2::SockRef::from(self.socket())
            .set_linger(Some(Duration::ZERO))
            .ok();
    }

    fn socket(&self) -> &TcpStream {
        match &self.wire {
            Wire::Plain(socket) => socket,
            Wire::Tls(stream) => &stream.sock,
        }
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> io::Result<()> {
        match &mut self.wire {
            Wire::Plain(socket) => socket.read_exact(buf),
            Wire::Tls(stream) => stream.read_exact(buf),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Wire::Tls(stream) = &mut self.wire {
            stream.conn.send_close_notify();
            stream.flush().ok();
        }
        if !self.resets && self.socket().shutdown(Shutdown::Write).is_ok() {
            // A socket that is closed over unread bytes sends a reset, which destroys what the client has not read yet.
            self.socket().set_read_timeout(Some(LINGER)).ok();
            while matches!((&mut self.socket()).read(&mut [0; 4096]), Ok(1..)) {}
        }
        // The kernel closes a socket with its last descriptor: the one kept for waking must go, too.
        lock(&self.shared.sockets).remove(&self.number);
    }
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    connections: AtomicUsize,
    /// To wake threads that read or write when the server ends.
    sockets: Mutex<HashMap<usize, TcpStream>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A server whose connections are played by a function. Dropping it closes all connections and joins all threads.
pub struct Server {
    address: SocketAddr,
    secure: bool,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    /// A plain server. `script` plays each connection, by its number from 0; when it returns, the connection is closed. Its errors are
    /// the client's doing, and for the test to judge.
    ///
    /// # Panics
    /// Without a loopback port.
    pub fn start(script: impl Fn(usize, Peer) -> io::Result<()> + Send + Sync + 'static) -> Server {
        Server::launch(None, script)
    }

    /// As [`Server::start`], over TLS.
    ///
    /// # Panics
    /// Without a loopback port.
    pub fn start_tls(
        config: Arc<ServerConfig>,
        script: impl Fn(usize, Peer) -> io::Result<()> + Send + Sync + 'static,
    ) -> Server {
        Server::launch(Some(config), script)
    }

    fn launch(
        config: Option<Arc<ServerConfig>>,
        script: impl Fn(usize, Peer) -> io::Result<()> + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let (secure, shared, script) = (config.is_some(), Arc::new(Shared::default()), Arc::new(script));
        let inner = shared.clone();
        let acceptor = std::thread::spawn(move || {
            for (number, socket) in listener.incoming().enumerate() {
                let Ok(socket) = socket else { break };
                if inner.stop.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(wake) = socket.try_clone() else { break };
                lock(&inner.sockets).insert(number, wake);
                inner.connections.fetch_add(1, Ordering::SeqCst);
                let (config, shared, script) = (config.clone(), inner.clone(), script.clone());
                let thread = std::thread::spawn(move || {
                    let played = accept(socket, config, number, &shared).and_then(|peer| script(number, peer));
                    drop(played);
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
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.address)
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

fn accept(
    mut socket: TcpStream,
    config: Option<Arc<ServerConfig>>,
    number: usize,
    shared: &Arc<Shared>,
) -> io::Result<Peer> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let wire = match config {
        None => Wire::Plain(socket),
        Some(config) => {
            let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
            while session.is_handshaking() {
                session.complete_io(&mut socket)?;
            }
            Wire::Tls(Box::new(StreamOwned::new(session, socket)))
        }
    };
    Ok(Peer {
        wire,
        polite: true,
        resets: false,
        shared: shared.clone(),
        number,
    })
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
        let panics = threads.into_iter().filter_map(|thread| thread.join().err());
        // What a script asserts is part of the test.
        if let Some(panic) = panics.last()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
