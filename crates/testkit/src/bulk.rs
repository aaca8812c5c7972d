//! A server that takes or makes bytes as fast as its machine allows, for benches: uploads are dropped, a GET yields many bytes.
//!
//! It speaks HTTP/2 to whoever begins with its preface, else HTTP/1.1, reads and writes large pieces, parses nothing but heads, and serves one request at a time on a connection. Not
//! for tests of behaviour: see [`frames`](crate::frames).

mod http1;

use std::{
    io::{self, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::frames::{block, encode, flag, kind, setting};

/// Bytes read from the socket at once.
const READ: usize = 256 * 1024;
/// Bytes written at once, in as many frames as that takes.
const BATCH: usize = 256 * 1024;
/// The largest frame made.
const LARGEST: usize = 1024 * 1024;
const PREFACE: usize = 24;

/// What a [`Bulk`] server allows.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// SETTINGS_INITIAL_WINDOW_SIZE, and how much each stream is kept at.
    pub window: u32,
    /// SETTINGS_MAX_FRAME_SIZE.
    pub frame_size: u32,
    /// How many bytes a GET yields.
    pub answer: u64,
}

/// A running server. Dropping it closes its port; connections end with their clients.
#[derive(Debug)]
pub struct Bulk {
    address: SocketAddr,
    secure: bool,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Bulk {
    /// Start it, over TLS where there is a configuration.
    ///
    /// # Errors
    /// Without a loopback port.
    pub fn start(config: Option<Arc<ServerConfig>>, allowance: Allowance) -> io::Result<Bulk> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, secure, stop) = (
            listener.local_addr()?,
            config.is_some(),
            Arc::new(AtomicBool::new(false)),
        );
        let stopped = stop.clone();
        let acceptor = std::thread::spawn(move || {
            for socket in listener.incoming() {
                let Ok(socket) = socket else { break };
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let config = config.clone();
                // The client's leaving is what ends a connection.
                std::thread::spawn(move || accept(socket, config, allowance).ok());
            }
        });
        Ok(Bulk {
            address,
            secure,
            stop,
            acceptor: Some(acceptor),
        })
    }

    /// An absolute URL on this server.
    pub fn url(&self, path: &str) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.address)
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the acceptor, which sees `stop`.
        TcpStream::connect(self.address).ok();
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().ok();
        }
    }
}

fn accept(mut socket: TcpStream, config: Option<Arc<ServerConfig>>, allowance: Allowance) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let Some(config) = config else {
        let reader = BufReader::with_capacity(READ, socket.try_clone()?);
        return serve(Split { reader, writer: socket }, allowance);
    };
    let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
    session.set_buffer_limit(None);
    while session.is_handshaking() {
        session.complete_io(&mut socket)?;
    }
    let reader = BufReader::with_capacity(READ, socket.try_clone()?);
    serve(StreamOwned::new(session, Split { reader, writer: socket }), allowance)
}

/// rustls reads 4 KiB at a time; here a large buffer lies in between.
struct Split {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Read for Split {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buf)
    }
}

impl Write for Split {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.writer.write(buf)
    }

    fn write_vectored(&mut self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.writer.write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// The head of a frame.
struct Head {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

struct Serving<S> {
    wire: S,
    /// What the client lets us send: on a new stream, on the connection, and on the stream of now.
    initial: i64,
    connection: i64,
    stream: i64,
    /// The largest frame it takes.
    frame: usize,
    buffer: Vec<u8>,
}

fn serve<S: Read + Write>(mut wire: S, allowance: Allowance) -> io::Result<()> {
    // A request head is longer, too.
    let mut begun = [0; PREFACE];
    wire.read_exact(&mut begun)?;
    if !begun.starts_with(b"PRI * HTTP/2.0") {
        return http1::serve(&mut wire, &begun, allowance.answer);
    }
    let settings = [
        (setting::INITIAL_WINDOW_SIZE, allowance.window),
        (setting::MAX_FRAME_SIZE, allowance.frame_size),
    ];
    let payload: Vec<u8> = settings
        .iter()
        .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    wire.write_all(&encode(kind::SETTINGS, 0, 0, &payload))?;
    wire.write_all(&encode(
        kind::WINDOW_UPDATE,
        0,
        0,
        &(i32::MAX as u32 - 65_535).to_be_bytes(),
    ))?;
    wire.flush()?;
    let mut serving = Serving {
        wire,
        initial: 65_535,
        connection: 65_535,
        stream: 0,
        frame: 16 * 1024,
        buffer: vec![0; READ],
    };
    let (mut taken, mut open, mut owed) = (0u64, 0, 0u32);
    loop {
        let head = serving.head()?;
        match head.kind {
            kind::HEADERS => {
                serving.skip(head.length)?;
                serving.stream = serving.initial;
                open = head.stream;
                if head.flags & flag::END_STREAM != 0 {
                    serving.make(open, allowance.answer)?;
                }
            }
            kind::DATA => {
                serving.skip(head.length)?;
                taken += head.length as u64;
                owed += head.length as u32;
                if head.flags & flag::END_STREAM != 0 {
                    let head = encode(kind::HEADERS, flag::END_HEADERS, open, &block(200, &[]));
                    let data = encode(kind::DATA, flag::END_STREAM, open, taken.to_string().as_bytes());
                    serving.wire.write_all(&[head, data].concat())?;
                    serving.wire.flush()?;
                    taken = 0;
                } else if owed >= allowance.window / 2 || owed >= 1 << 29 {
                    let update = |stream| encode(kind::WINDOW_UPDATE, 0, stream, &owed.to_be_bytes());
                    serving.wire.write_all(&[update(0), update(open)].concat())?;
                    serving.wire.flush()?;
                    owed = 0;
                }
            }
            _ => serving.other(&head)?,
        }
    }
}

impl<S: Read + Write> Serving<S> {
    fn head(&mut self) -> io::Result<Head> {
        let mut octets = [0; 9];
        self.wire.read_exact(&mut octets)?;
        let [a, b, c, kind, flags, stream @ ..] = octets;
        Ok(Head {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        })
    }

    fn skip(&mut self, mut length: usize) -> io::Result<()> {
        while length > 0 {
            let room = length.min(self.buffer.len());
            match self.wire.read(&mut self.buffer[..room])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => length -= count,
            }
        }
        Ok(())
    }

    /// A frame that is neither HEADERS nor DATA.
    fn other(&mut self, head: &Head) -> io::Result<()> {
        let mut payload = vec![0; head.length];
        self.wire.read_exact(&mut payload)?;
        let number = |at: usize| {
            payload
                .get(at..at + 4)
                .and_then(|octets| octets.try_into().ok())
                .map_or(0, u32::from_be_bytes)
        };
        let acknowledges = head.flags & flag::ACK != 0;
        match head.kind {
            kind::SETTINGS if !acknowledges => {
                for at in (0..payload.len()).step_by(6) {
                    if payload[at..].starts_with(&setting::INITIAL_WINDOW_SIZE.to_be_bytes()) {
                        self.initial = number(at + 2).into();
                    }
                    if payload[at..].starts_with(&setting::MAX_FRAME_SIZE.to_be_bytes()) {
                        self.frame = number(at + 2) as usize;
                    }
                }
                self.wire.write_all(&encode(kind::SETTINGS, flag::ACK, 0, &[]))?;
                self.wire.flush()
            }
            kind::PING if !acknowledges => {
                self.wire.write_all(&encode(kind::PING, flag::ACK, 0, &payload))?;
                self.wire.flush()
            }
            kind::WINDOW_UPDATE if head.stream == 0 => {
                self.connection += i64::from(number(0));
                Ok(())
            }
            kind::WINDOW_UPDATE => {
                self.stream += i64::from(number(0));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Answer `stream` with so many bytes.
    fn make(&mut self, stream: u32, mut left: u64) -> io::Result<()> {
        let size = self.frame.min(LARGEST);
        let whole = encode(kind::DATA, 0, stream, &vec![b'x'; size]);
        let frames = (BATCH / size).max(1);
        let (batch, all) = (whole.repeat(frames), frames * size);
        self.wire
            .write_all(&encode(kind::HEADERS, flag::END_HEADERS, stream, &block(200, &[])))?;
        while left > 0 {
            let window = self.stream.min(self.connection);
            if window < all as i64 && (window as u64) < left {
                let head = self.head()?;
                self.other(&head)?;
                continue;
            }
            let count = if left >= all as u64 {
                self.wire.write_all(&batch)?;
                all
            } else {
                let count = left.min(size as u64) as usize;
                self.wire
                    .write_all(&encode(kind::DATA, 0, stream, &whole[9..9 + count]))?;
                count
            };
            left -= count as u64;
            self.stream -= count as i64;
            self.connection -= count as i64;
        }
        self.wire
            .write_all(&encode(kind::DATA, flag::END_STREAM, stream, &[]))?;
        self.wire.flush()
    }
}
