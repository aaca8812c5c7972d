//! [`Relay`]: a link between client and server in user space, with a round trip, a rate, a bounded queue, and faults.
//!
//! What is modelled: half the round trip each way for every byte; a rate each way that all connections share; a queue
//! whose bound holds the sender back, as TCP's window does; and the handshake of a new connection, as one round trip
//! before the first byte moves. That last one is a model because the kernel accepts on loopback at once: a client's
//! `connect` returns without delay, and a client that measures its own handshake sees none. What is not modelled: slow
//! start, loss, jitter.
//!
//! Threads, not tasks: a timer of tokio's is a millisecond coarse, a condition variable's about 60 µs.

use std::{
    io::{self, Read},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::requests::lock;

mod link;
mod pair;

pub use link::{Break, Carried, Direction, Link};
use link::{Counters, Cut, SEGMENT};
use pair::{Line, Pair, deliver, wait};

/// How often a writer that its peer does not read from looks whether the connection was broken meanwhile.
const BLOCKED_WRITE: Duration = Duration::from_millis(100);
/// The most that is taken off a socket at once.
const CHUNK: usize = 64 * 1024;

/// A running relay; dropping it breaks its connections and frees its port.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    link: Link,
    ending: AtomicBool,
    paused: AtomicBool,
    cut: Mutex<Option<Cut>>,
    carried: Mutex<Vec<Arc<Counters>>>,
    open: Mutex<Vec<Arc<Pair>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// When the line is free for the next byte, by direction.
    free: [Mutex<Instant>; 2],
}

impl Relay {
    /// Starts a relay on a free port of 127.0.0.1 that carries connections to `target`.
    ///
    /// # Errors
    /// When there is no port to listen on.
    pub fn start(target: SocketAddr, link: Link) -> io::Result<Relay> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let now = Instant::now();
        let shared = Arc::new(Shared {
            target,
            link,
            ending: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            cut: Mutex::new(None),
            carried: Mutex::default(),
            open: Mutex::default(),
            threads: Mutex::default(),
            free: [Mutex::new(now), Mutex::new(now)],
        });
        let accepting = thread::Builder::new().name("relay-accept".to_owned()).spawn({
            let shared = shared.clone();
            move || shared.accept(&listener)
        })?;
        Ok(Relay {
            address,
            shared,
            accepting: Some(accepting),
        })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port of [`Relay::address`].
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        lock(&self.shared.carried).len()
    }

    /// Bytes delivered by each connection, in order of acceptance.
    pub fn carried(&self) -> Vec<Carried> {
        lock(&self.shared.carried)
            .iter()
            .map(|counters| counters.carried())
            .collect()
    }

    /// Bytes delivered by all connections together.
    pub fn total(&self) -> Carried {
        self.carried().iter().fold(Carried::default(), |sum, one| Carried {
            up: sum.up + one.up,
            down: sum.down + one.down,
        })
    }

    /// Breaks the next `connections` connections (`None`: all from now on) to deliver `bytes` in this direction, exactly
    /// there. Connections open already count from their own beginning too. Replaces an earlier cut.
    pub fn cut_after(&self, direction: Direction, bytes: u64, how: Break, connections: Option<u32>) {
        *lock(&self.shared.cut) = Some(Cut {
            direction,
            after: bytes,
            how,
            left: connections,
        });
        // An open connection may be at its place already, with nothing more to come that would show it.
        for pair in self.shared.open_pairs() {
            let there = pair.carried.of(direction).load(Ordering::SeqCst) >= bytes;
            if there && self.shared.take_cut(direction, bytes).is_some() {
                pair.fail(how);
            }
        }
    }

    /// Breaks no more connections.
    pub fn heal(&self) {
        *lock(&self.shared.cut) = None;
    }

    /// Breaks all connections that are open now.
    pub fn break_all(&self, how: Break) {
        for pair in self.shared.open_pairs() {
            pair.fail(how);
        }
    }

    /// Delivers nothing from now on, in either direction, without closing anything: an unplugged cable.
    pub fn pause(&self) {
        self.shared.paused.store(true, Ordering::SeqCst);
    }

    /// Delivers again, what was sent meanwhile first.
    pub fn resume(&self) {
        self.shared.paused.store(false, Ordering::SeqCst);
        for pair in self.shared.open_pairs() {
            pair.up.changed.notify_all();
            pair.down.changed.notify_all();
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        // The accept loop looks up when someone knocks.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        self.break_all(Break::Reset);
        let threads = std::mem::take(&mut *lock(&self.shared.threads));
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while let Ok((client, _)) = listener.accept() {
            if self.ending.load(Ordering::SeqCst) {
                return;
            }
            let opened = Instant::now();
            let carried = Arc::new(Counters::default());
            lock(&self.carried).push(carried.clone());
            // A server that refuses shows as a connection that ends at once: the client's `connect` has returned already.
            if let Ok(server) = TcpStream::connect(self.target) {
                let _ = self.carry(client, server, opened, carried);
            }
        }
    }

    fn carry(
        self: &Arc<Self>,
        client: TcpStream,
        server: TcpStream,
        opened: Instant,
        carried: Arc<Counters>,
    ) -> io::Result<()> {
        for socket in [&client, &server] {
            socket.set_nodelay(true)?;
            socket.set_write_timeout(Some(BLOCKED_WRITE))?;
        }
        let pair = Arc::new(Pair {
            client,
            server,
            carried,
            failed: Mutex::new(None),
            up: Line::default(),
            down: Line::default(),
            running: AtomicU64::new(4),
        });
        lock(&self.open).push(pair.clone());
        let round_trip = self.link.round_trip;
        let mut threads = lock(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        for direction in [Direction::Up, Direction::Down] {
            // The client may send once SYN and SYN-ACK have crossed, the server once the SYN is there.
            let begin = opened
                + if direction == Direction::Up {
                    round_trip
                } else {
                    round_trip / 2
                };
            let (reading, writing) = ((self.clone(), pair.clone()), (self.clone(), pair.clone()));
            threads.push(thread::Builder::new().name("relay-read".to_owned()).spawn(move || {
                reading.0.read(&reading.1, direction, begin);
                reading.0.leave(&reading.1);
            })?);
            threads.push(thread::Builder::new().name("relay-write".to_owned()).spawn(move || {
                writing.0.write(&writing.1, direction);
                writing.0.leave(&writing.1);
            })?);
        }
        Ok(())
    }

    /// The last of a pair's threads takes it off the list, which closes its sockets.
    fn leave(&self, pair: &Arc<Pair>) {
        if pair.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            lock(&self.open).retain(|open| !Arc::ptr_eq(open, pair));
        }
    }

    fn open_pairs(&self) -> Vec<Arc<Pair>> {
        lock(&self.open).clone()
    }

    /// Takes bytes off the sender's socket, and says when each is due at the other end.
    fn read(&self, pair: &Pair, direction: Direction, begin: Instant) {
        let (mut source, _) = pair.ends(direction);
        let line = pair.line(direction);
        let most = self
            .link
            .rate
            .map_or(CHUNK, |rate| usize::try_from(rate / 500).unwrap_or(CHUNK))
            .clamp(SEGMENT, CHUNK);
        let mut buffer = vec![0; most];
        loop {
            let mut queue = lock(&line.queue);
            while queue.bytes >= self.link.queue && pair.broken().is_none() {
                queue = wait(&line.changed, queue, None);
            }
            let broken = pair.broken();
            // After an orderly break the socket is read to its end all the same: a close with bytes unread would be a
            // reset, and could destroy what was delivered.
            let room = if broken.is_some() {
                most
            } else {
                self.link.queue.saturating_sub(queue.bytes).min(most)
            };
            drop(queue);
            if broken == Some(Break::Reset) {
                return;
            }
            let read = match source.read(&mut buffer[..room]) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return pair.fail(Break::Reset),
            };
            if pair.broken().is_some() {
                if read == 0 {
                    return;
                }
                continue;
            }
            let due = self.departure(direction, begin, read) + self.link.round_trip / 2;
            let mut queue = lock(&line.queue);
            queue.bytes += read;
            queue.parts.push_back((due, buffer[..read].to_vec()));
            drop(queue);
            line.changed.notify_all();
            if read == 0 {
                return;
            }
        }
    }

    /// When the last of these bytes has left the sender, on a line that all connections share.
    fn departure(&self, direction: Direction, begin: Instant, bytes: usize) -> Instant {
        let now = Instant::now().max(begin);
        let Some(rate) = self.link.rate else { return now };
        let mut free = lock(&self.free[direction as usize]);
        *free = now.max(*free) + Duration::from_secs_f64(bytes as f64 / rate as f64);
        *free
    }

    /// Delivers what is due; nothing at all is the end of the stream.
    fn write(&self, pair: &Pair, direction: Direction) {
        let (_, mut sink) = pair.ends(direction);
        let line = pair.line(direction);
        loop {
            let mut queue = lock(&line.queue);
            let part = loop {
                if pair.broken().is_some() {
                    return;
                }
                let paused = self.paused.load(Ordering::SeqCst);
                let due = queue
                    .parts
                    .front()
                    .map(|(due, _)| due.saturating_duration_since(Instant::now()));
                queue = match due {
                    Some(Duration::ZERO) if !paused => match queue.parts.pop_front() {
                        Some((_, part)) => break part,
                        None => queue,
                    },
                    Some(left) if !paused => wait(&line.changed, queue, Some(left)),
                    _ => wait(&line.changed, queue, None),
                };
            };
            drop(queue);
            if part.is_empty() {
                let _ = sink.shutdown(Shutdown::Write);
                return;
            }
            let counter = pair.carried.of(direction);
            let before = counter.load(Ordering::SeqCst);
            let cut = self.cut_within(direction, before, part.len() as u64);
            let wanted = cut.map_or(part.len(), |(after, _)| {
                usize::try_from(after - before).unwrap_or(part.len())
            });
            // Counted first: whoever has received a byte finds it counted.
            counter.fetch_add(wanted as u64, Ordering::SeqCst);
            if deliver(&mut sink, &part[..wanted], pair).is_err() {
                return pair.fail(Break::Reset);
            }
            if let Some((_, how)) = cut {
                return pair.fail(how);
            }
            lock(&line.queue).bytes -= part.len();
            line.changed.notify_all();
        }
    }

    /// Where in the next `bytes` this connection is to be broken: not before the first of them.
    fn cut_within(&self, direction: Direction, before: u64, bytes: u64) -> Option<(u64, Break)> {
        let after = lock(&self.cut)
            .filter(|cut| cut.direction == direction)?
            .after
            .max(before);
        let how = (after <= before + bytes)
            .then(|| self.take_cut(direction, after))
            .flatten()?;
        Some((after, how))
    }

    /// Uses up one of the connections to be broken.
    fn take_cut(&self, direction: Direction, reached: u64) -> Option<Break> {
        let mut cut = lock(&self.cut);
        let active = cut
            .as_mut()
            .filter(|cut| cut.direction == direction && cut.after <= reached)?;
        let how = active.how;
        match &mut active.left {
            None => {}
            Some(0) => return None,
            Some(left) => *left -= 1,
        }
        Some(how)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A server for one connection, run by a closure, behind a relay.
    fn behind<T: Send + 'static>(
        link: Link,
        serve: impl FnOnce(TcpStream) -> T + Send + 'static,
    ) -> (Relay, TcpStream, JoinHandle<T>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let relay = Relay::start(listener.local_addr().expect("an address"), link).expect("a relay");
        let server = thread::spawn(move || serve(listener.accept().expect("a connection").0));
        let client = TcpStream::connect(relay.address()).expect("connect");
        (relay, client, server)
    }

    fn echo(mut stream: TcpStream) {
        let mut byte = [0];
        while stream.read(&mut byte).is_ok_and(|read| read == 1) {
            stream.write_all(&byte).expect("echo");
        }
    }

    fn ping(client: &mut TcpStream) -> Duration {
        let begun = Instant::now();
        let mut byte = [7];
        client.write_all(&byte).expect("send");
        client.read_exact(&mut byte).expect("receive");
        begun.elapsed()
    }

    #[test]
    fn a_new_connection_costs_a_round_trip_and_each_exchange_another() {
        let round_trip = Duration::from_millis(40);
        let begun = Instant::now();
        let (relay, mut client, server) = behind(Link::round_trip(round_trip), echo);
        ping(&mut client);
        assert!(begun.elapsed() >= 2 * round_trip);
        assert!(ping(&mut client) >= round_trip);
        drop(client);
        server.join().expect("the server ended");
        assert_eq!((relay.connections(), relay.total()), (1, Carried { up: 2, down: 2 }));
    }

    #[test]
    fn a_rate_is_shared_by_all_and_kept() {
        let (relay, mut client, server) = behind(Link::default().rate(1_000_000), |mut stream| {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).map(|_| all.len()).expect("read")
        });
        let begun = Instant::now();
        client.write_all(&[0; 200_000]).expect("send");
        drop(client);
        assert_eq!(server.join().expect("the server ended"), 200_000);
        assert!(begun.elapsed() >= Duration::from_millis(200));
        assert_eq!(relay.total().up, 200_000);
    }

    #[test]
    fn a_reset_comes_after_exactly_the_bytes_asked_for() {
        let (relay, mut client, server) = behind(Link::default(), |mut stream| {
            let mut all = Vec::new();
            (stream.read_to_end(&mut all).map_err(|error| error.kind()), all.len())
        });
        relay.cut_after(Direction::Up, 1000, Break::Reset, Some(1));
        client.write_all(&[0; 5000]).expect("send");
        let (end, received) = server.join().expect("the server ended");
        // The reset may overtake what the server has not read yet, never what was cut off.
        assert_eq!(end, Err(io::ErrorKind::ConnectionReset));
        assert!(received <= 1000, "{received}");
        assert_eq!(relay.carried(), [Carried { up: 1000, down: 0 }]);
        assert!(client.read(&mut [0]).is_err());
    }

    #[test]
    fn an_orderly_cut_delivers_everything_before_it() {
        let (relay, mut client, server) = behind(Link::round_trip(Duration::from_millis(2)), |mut stream| {
            stream.write_all(&[1; 100_000]).expect("send");
            stream.read(&mut [0]).expect("an orderly end")
        });
        relay.cut_after(Direction::Down, 70_001, Break::Finish, Some(1));
        let mut all = Vec::new();
        client.read_to_end(&mut all).expect("an orderly end");
        assert_eq!(all.len(), 70_001);
        assert_eq!(server.join().expect("the server ended"), 0);
        // That was the one connection to be cut.
        drop((client, relay));
    }

    #[test]
    fn a_cut_takes_as_many_connections_as_it_was_told() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let relay = Relay::start(listener.local_addr().expect("an address"), Link::default()).expect("a relay");
        relay.cut_after(Direction::Up, 0, Break::Finish, Some(2));
        let server = thread::spawn(move || {
            for _ in 0..3 {
                echo(listener.accept().expect("a connection").0);
            }
        });
        let outcome = |_| {
            let mut client = TcpStream::connect(relay.address()).expect("connect");
            let sent = client.write_all(&[1]);
            sent.and_then(|()| client.read_exact(&mut [0])).is_ok()
        };
        assert_eq!([0, 1, 2].map(outcome), [false, false, true]);
        server.join().expect("the server ended");
    }

    #[test]
    fn a_paused_link_delivers_nothing_and_holds_the_sender_back() {
        let (relay, mut client, server) = behind(Link::default().queue(100_000), |stream| stream);
        let mut server = server.join().expect("the connection");
        client.write_all(&[1]).expect("send");
        server.read_exact(&mut [0]).expect("receive");

        relay.pause();
        client
            .set_write_timeout(Some(Duration::from_millis(200)))
            .expect("a timeout");
        let block = [2; 64 * 1024];
        let mut sent = 0;
        while let Ok(more) = client.write(&block) {
            sent += more;
            assert!(sent < 256 * 1024 * 1024, "nothing holds the sender back");
        }
        server
            .set_read_timeout(Some(Duration::from_millis(50)))
            .expect("a timeout");
        assert!(server.read(&mut [0]).is_err(), "a byte came through");

        relay.resume();
        server.set_read_timeout(None).expect("no timeout");
        drop(client);
        let mut all = Vec::new();
        server.read_to_end(&mut all).expect("receive");
        assert_eq!(all.len(), sent);
    }

    #[test]
    fn dropping_a_relay_ends_its_connections() {
        let (relay, mut client, server) = behind(Link::default(), echo);
        ping(&mut client);
        let address = relay.address();
        drop(relay);
        assert!(!client.read(&mut [0]).is_ok_and(|read| read > 0));
        server.join().expect("the server ended");
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn a_target_that_refuses_ends_the_connection() {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .expect("a port");
        let relay = Relay::start(free, Link::default()).expect("a relay");
        let mut client = TcpStream::connect(relay.address()).expect("connect");
        assert!(!client.read(&mut [0]).is_ok_and(|read| read > 0));
    }
}
