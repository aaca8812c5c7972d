//! A link under the kernel's own TCP: two network namespaces, a TUN device in each, and between them this program, which hands over
//! each packet when it is due.
//!
//! What the relay can't show is here: slow start, the window that a kernel gives a connection, and loss. The namespaces have no
//! names: they go with the last thread and descriptor that is in them, however the bench ends. Delay and rate are kept in user space,
//! so that it works where the kernel has no netem; it needs root, or the capabilities to make namespaces and devices.

use std::{
    fs::File,
    io::{self, Read},
    net::Ipv4Addr,
    os::{fd::AsFd, unix::net::UnixStream},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::geteuid,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use tun_rs::{DeviceBuilder, SyncDevice};

use super::{client::on_path, matrix::Road};

/// Where the server listens, in its own namespace.
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 91, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 91, 0, 1);
/// The device's name in both.
const DEVICE: &str = "rgit0";
/// What fits into a packet on most links. TCP hands over several at once (segmentation offload), except where each may be lost.
const MTU: usize = 1500;
/// The largest that is handed over at once, with the header that says how to take it apart.
const LARGEST: usize = 65_535 + 64;
/// Bytes that wait without a rate: more than any TCP here has on its way, and still bounded.
const WAITING: u64 = 64 * 1024 * 1024;

/// The link, and the two places that it joins.
#[derive(Debug)]
pub(super) struct Tun {
    client: Namespace,
    server: Namespace,
    up: Way,
    down: Way,
}

/// Why such a link can't be had here, or nothing.
pub(super) fn missing() -> Option<String> {
    if !geteuid().is_root() {
        return Some("network namespaces and TUN devices are made by root".to_owned());
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some("the kernel has no TUN devices: /dev/net/tun is not there".to_owned());
    }
    let programs = [("ip", "iproute2"), ("unshare", "util-linux")];
    programs.into_iter().find_map(|(program, package)| {
        let known = on_path(program).is_some() || Path::new("/usr/sbin").join(program).is_file();
        (!known).then(|| format!("there is no {program}: install the Debian package {package}"))
    })
}

impl Tun {
    /// Makes the namespaces and joins them.
    ///
    /// # Errors
    /// Without the rights for it, or the programs that set up a device.
    pub(super) fn start(road: Road) -> anyhow::Result<Tun> {
        if let Some(why) = missing() {
            bail!("no kernel link: {why}");
        }
        let (client, server) = (Namespace::new()?, Namespace::new()?);
        // What may be lost is one packet, not the forty that are handed over at once.
        let whole = road.loss_per_mille == 0;
        let near = client.inside(|| device(CLIENT, whole))??;
        let far = server.inside(|| device(SERVER, whole))??;
        Ok(Tun {
            up: Way::start("link-up", near.clone(), far.clone(), road)?,
            down: Way::start("link-down", far, near, road)?,
            client,
            server,
        })
    }

    /// Does `work` where the server is; what it starts stays there.
    ///
    /// # Errors
    /// When the namespace can't be entered.
    pub(super) fn on_server<T: Send>(&self, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        self.server.inside(work)
    }

    /// Does `work` where the clients are.
    ///
    /// # Errors
    /// When the namespace can't be entered.
    pub(super) fn on_client<T: Send>(&self, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        self.client.inside(work)
    }

    /// Bytes of packets handed over so far, up and down.
    pub(super) fn carried(&self) -> (u64, u64) {
        let bytes = |way: &Way| way.bytes.load(Ordering::Relaxed);
        (bytes(&self.up), bytes(&self.down))
    }
}

/// A network namespace of its own, with its loopback up.
#[derive(Debug)]
struct Namespace(File);

impl Namespace {
    fn new() -> anyhow::Result<Namespace> {
        // A process is born into it, which goes once the namespace is held by a descriptor.
        let mut child = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", "echo; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .context("start unshare")?;
        let born = child.stdout.as_mut().map(|out| out.read_exact(&mut [0]));
        let file = match born {
            Some(Ok(())) => File::open(format!("/proc/{}/ns/net", child.id())).context("open a network namespace"),
            _ => Err(anyhow::anyhow!("no network namespace could be made")),
        };
        let _ = child.kill();
        let _ = child.wait();
        let namespace = Namespace(file?);
        namespace.inside(|| ip(&["link", "set", "lo", "up"]))??;
        Ok(namespace)
    }

    /// In a thread of its own: a thread that has moved would have to find its way back.
    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        let moved = thread::scope(|scope| {
            let inside = scope.spawn(|| -> io::Result<T> {
                move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(work())
            });
            inside.join()
        });
        match moved {
            Ok(done) => done.context("enter a network namespace"),
            Err(_) => bail!("what was done in a network namespace panicked"),
        }
    }
}

/// The device of the namespace that this thread is in.
fn device(address: Ipv4Addr, whole: bool) -> anyhow::Result<Arc<SyncDevice>> {
    let device = DeviceBuilder::new().name(DEVICE).offload(whole).build_sync();
    let device = device.context("make a TUN device")?;
    device.set_nonblocking(true).context("set up a TUN device")?;
    ip(&["address", "add", &format!("{address}/30"), "dev", DEVICE])?;
    let mtu = MTU.to_string();
    // The kernel drops what finds no place in its queue: this one holds more than any window.
    ip(&["link", "set", DEVICE, "mtu", &mtu, "txqueuelen", "10000", "up"])?;
    Ok(Arc::new(device))
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("ip").args(arguments).output().context("start ip")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("ip {} failed: {said}", arguments.join(" "));
    }
    Ok(())
}

/// One direction.
#[derive(Debug)]
struct Way {
    bytes: Arc<AtomicU64>,
    /// The other end of what the reader listens to besides.
    stop: Option<UnixStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Way {
    fn start(name: &str, from: Arc<SyncDevice>, to: Arc<SyncDevice>, road: Road) -> anyhow::Result<Way> {
        let (stop, stopped) = UnixStream::pair().context("make a pair of sockets")?;
        let (sender, receiver) = channel();
        let bytes = Arc::new(AtomicU64::new(0));
        let waiting = Arc::new(AtomicU64::new(0));
        let (counted, taken) = (bytes.clone(), waiting.clone());
        let spawn = |work: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
            thread.context("start a thread of the link")
        };
        let reader = spawn(Box::new(move || take(&from, &stopped, &sender, road, &waiting)))?;
        let writer = spawn(Box::new(move || deliver(&to, &receiver, &taken, &counted)))?;
        Ok(Way {
            bytes,
            stop: Some(stop),
            threads: vec![reader, writer],
        })
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        drop(self.stop.take());
        for thread in self.threads.drain(..) {
            // What went wrong there showed in the packets.
            let _ = thread.join();
        }
    }
}

type Packet = (Instant, Box<[u8]>);

/// Takes packets from a device and says when each is due on the other side, until it is told to stop.
fn take(from: &SyncDevice, stopped: &UnixStream, due: &Sender<Packet>, road: Road, waiting: &AtomicU64) {
    let delay = Duration::from_millis(road.round_trip_ms.into()) / 2;
    let rate = road.rate_mb_s.map(|rate| f64::from(rate) * 1e6);
    // A router's buffer, as the rule has it: one round trip at the link's rate.
    let room = rate.map_or(WAITING, |rate| {
        (rate * delay.as_secs_f64() * 2.0).max(64_000.0) as u64 + LARGEST as u64
    });
    let in_flight = rate.map_or(0, |rate| (rate * delay.as_secs_f64()) as u64);
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut free = Instant::now();
    let mut buffer = vec![0; LARGEST];
    loop {
        let length = match from.recv(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut both = [PollFd::new(from, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
                match poll(&mut both, None) {
                    Ok(_) if both[1].revents().is_empty() => continue,
                    Err(rustix::io::Errno::INTR) => continue,
                    _ => return,
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if dice.lose(road.loss_per_mille) || waiting.load(Ordering::Relaxed) > room + in_flight {
            continue;
        }
        let now = Instant::now();
        if let Some(rate) = rate {
            free = free.max(now) + Duration::from_secs_f64(length as f64 / rate);
        } else {
            free = now;
        }
        waiting.fetch_add(length as u64, Ordering::Relaxed);
        if due.send((free + delay, buffer[..length].into())).is_err() {
            return;
        }
    }
}

/// Hands packets over when they are due.
fn deliver(to: &SyncDevice, due: &Receiver<Packet>, waiting: &AtomicU64, bytes: &AtomicU64) {
    while let Ok((at, packet)) = due.recv() {
        // The delay is what this link is for.
        thread::sleep(at.saturating_duration_since(Instant::now()));
        waiting.fetch_sub(packet.len() as u64, Ordering::Relaxed);
        // A packet that can't be handed over is a lost one: TCP is made for that.
        if to.send(&packet).is_ok() {
            bytes.fetch_add(packet.len() as u64, Ordering::Relaxed);
        }
    }
}

/// The same sequence in each run (xorshift), so that what is lost doesn't differ from one client to the next by more than its timing.
struct Dice(u64);

impl Dice {
    fn lose(&mut self, per_mille: u32) -> bool {
        if per_mille == 0 {
            return false;
        }
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % 1000 < u64::from(per_mille)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
    };

    #[test]
    fn dice_lose_what_they_are_told_to() {
        for (per_mille, least, most) in [(0, 0, 0), (10, 800, 1200), (1000, 100_000, 100_000)] {
            let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
            let lost = (0..100_000).filter(|_| dice.lose(per_mille)).count();
            assert!((least..=most).contains(&lost), "{per_mille}: {lost}");
        }
    }

    #[test]
    fn bytes_cross_between_namespaces_late_and_whole() {
        if let Some(why) = missing() {
            println!("skipped: {why}");
            return;
        }
        for loss_per_mille in [0, 20] {
            let road = Road {
                round_trip_ms: 20,
                loss_per_mille,
                ..Road::default()
            };
            let tun = match Tun::start(road) {
                Ok(tun) => tun,
                // A container's root may do less.
                Err(error) => {
                    println!("skipped: {error:#}");
                    return;
                }
            };
            let listener = tun
                .on_server(|| TcpListener::bind((SERVER, 0)))
                .expect("a place")
                .expect("a port");
            let address = listener.local_addr().expect("an address");
            assert!(
                TcpStream::connect_timeout(&address, Duration::from_millis(100)).is_err(),
                "the host has a way to it"
            );
            let sent: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).take(300_000).collect();
            let expected = sent.clone();
            let begun = Instant::now();
            let got = thread::scope(|scope| {
                let peer = scope.spawn(|| {
                    let mut got = Vec::new();
                    listener
                        .accept()
                        .expect("a client")
                        .0
                        .read_to_end(&mut got)
                        .expect("bytes");
                    got
                });
                let mut stream = tun
                    .on_client(|| TcpStream::connect(address))
                    .expect("a place")
                    .expect("a connection");
                assert!(
                    begun.elapsed() >= Duration::from_millis(20),
                    "a handshake is a round trip"
                );
                stream.write_all(&sent).expect("bytes");
                drop(stream);
                peer.join().expect("the peer")
            });
            assert!(got == expected, "{} bytes of {}", got.len(), expected.len());
            let (up, down) = tun.carried();
            assert!(up > 300_000 && down > 100, "{up} up, {down} down");
        }
    }
}
