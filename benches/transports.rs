//! Uploads to a server that drops them and downloads from one that makes them, over loopback: `cargo bench --bench transports`.
//!
//! Each case is measured twice: `time` by the clock, `cpu` by the processor time of the client's thread alone, which is where both
//! transports do all their work. The server runs in the same process. One iteration moves [`SIZE`] bytes, so ten times its `cpu` time
//! is what a gigabyte costs. `--bench h2` has more of HTTP/2: whole gigabytes, and the tuning by the environment.

mod bulk;

use std::{
    io::{self, Read},
    sync::Arc,
};

use bulk::{ProcessorTime, download, thread_time, upload};
use criterion::{Criterion, Throughput, criterion_group, criterion_main, measurement::Measurement};
use rgit_dial::{Dialer, Settings};
use rgit_testkit::{
    bulk::{Allowance, Bulk},
    certificate::Authority,
};
use rgit_transport::{Body, Transport};
use rgit_transport_h1::H1;
use rgit_transport_h2::{H2, Tuning};

/// Bytes moved by one iteration.
const SIZE: u64 = 100_000_000;

const THREAD: ProcessorTime = ProcessorTime {
    begin: thread_time,
    end: thread_time,
};

fn both_ways<M: Measurement>(criterion: &mut Criterion<M>, clock: &str) {
    let files = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::new();
    let ca_file = authority.write_ca(files.path());
    for secure in [false, true] {
        let mut group = criterion.benchmark_group(format!("{}/{clock}", if secure { "tls" } else { "plain" }));
        group.throughput(Throughput::Bytes(SIZE)).sample_size(10);
        let serve = |protocol: &'static [u8], frame_size| {
            let config = secure.then(|| authority.server_config(&["127.0.0.1"], &[protocol]));
            let allowance = Allowance {
                window: 16 << 20,
                frame_size,
                answer: SIZE,
            };
            let server = Bulk::start(config, allowance).expect("a server");
            let dialer = Dialer::new(Settings::default().ca_file(&ca_file)).expect("a dialer");
            (server, Arc::new(dialer))
        };
        let (server, dialer) = serve(b"http/1.1", 16 << 10);
        let transport = H1::new(dialer, rgit_transport_h1::Settings::default());
        group.bench_function("h1/up", |bencher| bencher.iter(|| up(&transport, &server.url("/"))));
        group.bench_function("h1/down", |bencher| {
            bencher.iter(|| down(&transport, &server.url("/")));
        });
        for frame_size in [16 << 10, 256 << 10] {
            let (server, dialer) = serve(b"h2", frame_size);
            let transport = H2::new(dialer, Tuning::default().prior_knowledge(true)).expect("a transport");
            let frames = format!("{} KiB frames", frame_size >> 10);
            group.bench_function(format!("h2/up/{frames}"), |bencher| {
                bencher.iter(|| up(&transport, &server.url("/")));
            });
            // What the server allows says nothing of what it sends: that is up to the client's own settings.
            if frame_size == 16 << 10 {
                group.bench_function("h2/down", |bencher| {
                    bencher.iter(|| down(&transport, &server.url("/")));
                });
            }
        }
    }
}

fn up(transport: &dyn Transport, url: &str) {
    let body = Body::stream(Some(SIZE), io::repeat(b'x').take(SIZE));
    assert_eq!(upload(transport, url, body), SIZE.to_string());
}

fn down(transport: &dyn Transport, url: &str) {
    assert_eq!(download(transport, url), SIZE);
}

criterion_group! {
    name = time;
    config = Criterion::default();
    targets = by_the_clock
}
criterion_group! {
    name = cpu;
    config = Criterion::default().with_measurement(THREAD);
    targets = by_the_processor
}
criterion_main!(time, cpu);

fn by_the_clock(criterion: &mut Criterion) {
    both_ways(criterion, "time");
}

fn by_the_processor(criterion: &mut Criterion<ProcessorTime>) {
    both_ways(criterion, "cpu");
}
