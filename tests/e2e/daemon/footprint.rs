//! How much anonymous memory the daemon takes: while much goes through it, and when it only keeps connections.
//!
//! `RGIT_BENCH_MB` sets how much goes each way; 1000 is what the bound is meant for.

use std::{
    env, fs,
    io::{self, Read},
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use rgit_testkit::{
    bulk::{Allowance, Bulk},
    certificate::Authority,
};
use rgit_transport::{Body, Error, Transport};
use rgit_transport_persistent::{Persistent, Profile, Road, SocketPath};

use super::{Warm, eventually};
use crate::world::ran;

/// Megabytes each way where nothing else is asked for: some seconds, and far more than any buffer holds.
const MEGABYTES: u64 = 200;
/// Bytes between two looks at the daemon.
const EVERY: u64 = 4_000_000;
/// What it may take meanwhile.
const BUSY: u64 = 40_000_000;
/// What it may take when it only keeps connections to [`ORIGINS`].
const IDLE: u64 = 15_000_000;
const ORIGINS: usize = 20;

/// RssAnon in bytes: proc_pid_status(5).
fn anonymous(pid: u64) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let field = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = field.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("a number of KiB") * 1024
}

/// Looks at a daemon's memory as bytes go by.
struct Watched<'w, R> {
    bytes: R,
    pid: u64,
    since: u64,
    most: &'w AtomicU64,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buf)?;
        self.since += count as u64;
        if self.since >= EVERY || count == 0 {
            self.since = 0;
            self.most.fetch_max(anonymous(self.pid), Ordering::SeqCst);
        }
        Ok(count)
    }
}

/// A world with a daemon that runs, and servers of many bytes.
struct Bulky {
    warm: Warm,
    authority: Authority,
    ca_file: PathBuf,
    pid: u64,
}

impl Bulky {
    fn new() -> Bulky {
        let warm = Warm::new();
        let (authority, directory) = (Authority::new(), warm.world.path("authority"));
        fs::create_dir(&directory).expect("a directory");
        ran(&warm.daemon(&["start"])).exits(0);
        Bulky {
            ca_file: authority.write_ca(&directory),
            authority,
            pid: warm.pid().expect("it runs"),
            warm,
        }
    }

    fn serve(&self, protocol: &[u8], answer: u64) -> Bulk {
        let config = self.authority.server_config(&["127.0.0.1"], &[protocol]);
        let allowance = Allowance {
            window: 16 << 20,
            frame_size: 16 << 10,
            answer,
        };
        Bulk::start(Some(config), allowance).expect("a server")
    }

    /// The way by the daemon, which takes `road`.
    fn transport(&self, road: Road) -> Persistent {
        let mut profile = Profile::default();
        profile.road = road;
        profile.ca_file = Some(self.ca_file.clone());
        Persistent::new(SocketPath::within(self.warm.home()), None, &profile, || {
            Err(Error::Request {
                reason: "only the daemon's way is of interest".into(),
            })
        })
    }

    fn upload(&self, transport: &Persistent, url: &str, size: u64, most: &AtomicU64) {
        let bytes = Watched {
            bytes: io::repeat(b'x').take(size),
            pid: self.pid,
            since: 0,
            most,
        };
        let request = http::Request::post(url).body(Body::stream(Some(size), bytes)).unwrap();
        let mut text = String::new();
        let mut answer = transport.exchange(request).expect("an answer").into_body();
        answer.read_to_string(&mut text).expect("its body");
        assert_eq!(text, size.to_string());
    }

    fn download(&self, transport: &Persistent, url: &str, size: u64, most: &AtomicU64) {
        let request = http::Request::get(url).body(Body::Empty).unwrap();
        let mut bytes = Watched {
            bytes: transport.exchange(request).expect("an answer").into_body(),
            pid: self.pid,
            since: 0,
            most,
        };
        assert_eq!(io::copy(&mut bytes, &mut io::sink()).expect("its body"), size);
    }
}

fn size() -> u64 {
    let given = env::var("RGIT_BENCH_MB").ok();
    let megabytes = given.map_or(MEGABYTES, |text| text.parse().expect("RGIT_BENCH_MB is a number"));
    megabytes * 1_000_000
}

#[test]
fn what_goes_through_the_daemon_does_not_stay_there() {
    let (world, size) = (Bulky::new(), size());
    for (road, protocol) in [(Road::Http1, &b"http/1.1"[..]), (Road::Http2, b"h2")] {
        // Two of them: each does one thing at a time.
        let (takes, makes) = (world.serve(protocol, 0), world.serve(protocol, size));
        let (transport, most) = (world.transport(road), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| world.upload(&transport, &takes.url("/"), size, &most));
            scope.spawn(|| world.download(&transport, &makes.url("/"), size, &most));
        });
        let most = most.into_inner();
        eprintln!("{road:?}: {size} bytes each way, at most {most} of anonymous memory");
        assert!(most < BUSY, "{road:?}: {most}");
    }
}

#[test]
fn connections_that_are_only_kept_take_little_memory() {
    let world = Bulky::new();
    // Enough for every buffer to have been as large as it gets.
    let (size, most) = (5_000_000, AtomicU64::new(0));
    let servers: Vec<_> = (0..ORIGINS).map(|_| world.serve(b"http/1.1", size)).collect();
    let transport = world.transport(Road::Http1);
    thread::scope(|scope| {
        for server in &servers {
            scope.spawn(|| {
                world.upload(&transport, &server.url("/"), size, &most);
                world.download(&transport, &server.url("/"), size, &most);
            });
        }
    });
    eventually("little is kept", || anonymous(world.pid) < IDLE);
    eprintln!(
        "{ORIGINS} connections: {} bytes of anonymous memory",
        anonymous(world.pid)
    );
    let open = fs::read_dir(format!("/proc/{}/fd", world.pid)).expect("it runs");
    let sockets = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let sockets = sockets.filter(|link| link.to_string_lossy().starts_with("socket:"));
    // To each server one, and for each one that a client may use again.
    assert!(sockets.count() >= 2 * ORIGINS, "the connections are still open");
}
