//! What the daemon costs: `cargo bench --bench relay`.
//!
//! The same exchanges directly and by way of a daemon, over TLS on loopback: uploads to a server that drops them, downloads from one
//! that makes them, and one of 100 bytes on connections that are open already. Each is measured twice: `time` by the clock, `cpu` by the
//! processor time of the client's thread together with the daemon's threads. Daemon and server run in this process, so no start of a
//! program is in it. One iteration of a bulk case moves [`SIZE`] bytes: ten times its `cpu` is what a gigabyte costs.
//!
//! Over HTTP/1.1 the length of an upload is known, which the hop then frames by it; over HTTP/2 it isn't, as a pack's, and the hop has
//! chunks. A machine with fewer than three processors can't run client, daemon and server at once: there, `time` says how they share it.

mod bulk;

use std::{
    io::{self, Read},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use bulk::{ProcessorTime, download, thread_time, upload};
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::Measurement};
use rgit_dial::{Dialer, Settings};
use rgit_testkit::{
    bulk::{Allowance, Bulk},
    certificate::Authority,
    meter,
};
use rgit_transport::{Body, Error, Transport};
use rgit_transport_h1::H1;
use rgit_transport_h2::{H2, Tuning};
use rgit_transport_persistent::{Daemon, Handle, Left, Persistent, Profile, SocketPath, Upstream};

/// Bytes moved by one iteration.
const SIZE: u64 = 100_000_000;
/// Bytes of a small answer.
const SMALL: u64 = 100;

/// Of the thread that asks, and of a daemon's. To look at a daemon's costs processor time, which is not to count.
const SPENT: ProcessorTime = ProcessorTime {
    begin: || daemon() + thread_time(),
    end: || thread_time() + daemon(),
};

/// What its threads have done is known exactly while they wait, as they do between two exchanges.
fn daemon() -> Duration {
    meter::threads("rgit-").unwrap_or_default()
}

/// A daemon in threads of this process, with the way to it.
struct Ridden {
    transport: Persistent,
    handle: Handle,
    running: JoinHandle<Left>,
    _directory: tempfile::TempDir,
}

impl Ridden {
    /// A daemon whose only upstream this is.
    fn by(upstream: Arc<dyn Transport>) -> Ridden {
        let directory = tempfile::tempdir().expect("a directory");
        let place = SocketPath::within(directory.path().join("rgit"));
        let listener = Daemon::bind(&place).expect("a socket");
        let factory = Box::new(move |_: &Profile| Ok(Upstream::new(upstream.clone())));
        let daemon = Daemon::new(listener, place.clone(), factory, Default::default()).expect("a daemon");
        let handle = daemon.handle();
        let running = std::thread::spawn(move || daemon.run().expect("it leaves when it is told to"));
        let transport = Persistent::new(place, None, &Profile::default(), || {
            Err(Error::Request {
                reason: "there is a daemon, and no direct way".into(),
            })
        });
        Ridden {
            transport,
            handle,
            running,
            _directory: directory,
        }
    }

    fn end(self) {
        drop(self.transport);
        self.handle.leave();
        self.running.join().expect("it ran");
    }
}

/// Which protocol is spoken with the server.
#[derive(Clone, Copy)]
enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Protocol::Http1 => "h1",
            Protocol::Http2 => "h2",
        }
    }

    fn transport(self, dialer: &Arc<Dialer>) -> Arc<dyn Transport> {
        match self {
            Protocol::Http1 => Arc::new(H1::new(dialer.clone(), rgit_transport_h1::Settings::default())),
            Protocol::Http2 => {
                let tuning = Tuning::default().prior_knowledge(true);
                Arc::new(H2::new(dialer.clone(), tuning).expect("a transport"))
            }
        }
    }

    fn upload(self) -> Body<'static> {
        let length = match self {
            Protocol::Http1 => Some(SIZE),
            Protocol::Http2 => None,
        };
        Body::stream(length, io::repeat(b'x').take(SIZE))
    }
}

fn relay<M: Measurement>(criterion: &mut Criterion<M>, clock: &str) {
    let files = tempfile::tempdir().expect("a directory");
    let authority = Authority::new();
    let dialer = Dialer::new(Settings::default().ca_file(authority.write_ca(files.path()))).expect("a dialer");
    let dialer = Arc::new(dialer);
    let serve = |protocol: Protocol, answer| {
        let alpn: &[u8] = match protocol {
            Protocol::Http1 => b"http/1.1",
            Protocol::Http2 => b"h2",
        };
        let allowance = Allowance {
            window: 16 << 20,
            frame_size: 16 << 10,
            answer,
        };
        Bulk::start(Some(authority.server_config(&["127.0.0.1"], &[alpn])), allowance).expect("a server")
    };
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = serve(protocol, SIZE);
        let mut group = criterion.benchmark_group(format!("{}/{clock}", protocol.name()));
        group.throughput(Throughput::Bytes(SIZE)).sample_size(10);
        both(&mut group, "up", protocol, &dialer, |transport| {
            let text = upload(transport, &server.url("/"), protocol.upload());
            assert_eq!(text, SIZE.to_string());
        });
        both(&mut group, "down", protocol, &dialer, |transport| {
            assert_eq!(download(transport, &server.url("/")), SIZE);
        });
        group.finish();
        let server = serve(protocol, SMALL);
        let mut group = criterion.benchmark_group(format!("{}/{clock}", protocol.name()));
        both(&mut group, "small", protocol, &dialer, |transport| {
            assert_eq!(download(transport, &server.url("/")), SMALL);
        });
        group.finish();
    }
}

/// The same exchange by both ways.
fn both<M: Measurement>(
    group: &mut BenchmarkGroup<'_, M>,
    name: &str,
    protocol: Protocol,
    dialer: &Arc<Dialer>,
    exchange: impl Fn(&dyn Transport),
) {
    let direct = protocol.transport(dialer);
    group.bench_function(format!("{name}/direct"), |bencher| {
        bencher.iter(|| exchange(&*direct));
    });
    let ridden = Ridden::by(protocol.transport(dialer));
    group.bench_function(format!("{name}/daemon"), |bencher| {
        bencher.iter(|| exchange(&ridden.transport));
    });
    ridden.end();
}

criterion_group! {
    name = time;
    config = Criterion::default();
    targets = by_the_clock
}
criterion_group! {
    name = cpu;
    config = Criterion::default().with_measurement(SPENT);
    targets = by_the_processor
}
criterion_main!(time, cpu);

fn by_the_clock(criterion: &mut Criterion) {
    relay(criterion, "time");
}

fn by_the_processor(criterion: &mut Criterion<ProcessorTime>) {
    relay(criterion, "cpu");
}
