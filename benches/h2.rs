//! How fast HTTP/2 moves bytes, and at what cost: `cargo bench --bench h2`.
//!
//! Uploads to a server that drops them, downloads from one that makes them, on loopback, plain and over TLS, in one thread. The server
//! runs in the same process; CPU is that of the client's thread alone, by the kernel's clock. What is printed is a report; no number here
//! fails anything, and a machine that does other work at the same time yields other numbers.
//!
//! `RGIT_BENCH_MB` sets the size (1000 without it), `RGIT_BENCH_RUNS` how often (5). `RGIT_H2_CHUNK`, `_SEND_BUFFER`, `_BUDGET`, `_FRAME`
//! and `_WINDOW` override the tuning (bytes). Started by anything but `cargo bench` it is a smoke run of 8 MB.
#![allow(clippy::print_stdout, reason = "a bench reports to the person who started it")]

use std::{
    env, fs,
    io::{self, Read},
    sync::Arc,
    time::{Duration, Instant},
};

use rgit_dial::{Dialer, Settings};
use rgit_testkit::{
    bulk::{Allowance, Bulk},
    certificate::Authority,
};
use rgit_transport::{Body, Transport, Wire};
use rgit_transport_h2::{H2, Tuning};

fn main() {
    let bench = env::args().any(|argument| argument == "--bench");
    let megabytes = number("RGIT_BENCH_MB").unwrap_or(if bench { 1000 } else { 8 });
    let runs = number("RGIT_BENCH_RUNS").unwrap_or(if bench { 5 } else { 1 });
    let size = megabytes as u64 * 1_000_000;
    let files = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::new();
    let ca_file = authority.write_ca(files.path());
    println!("{megabytes} MB each way, the best and the median of {runs} runs; CPU seconds are the client thread's");
    println!(
        "{:<10}{:<7}{:>14}{:>10}{:>10}{:>12}",
        "", "frames", "best MB/s", "MB/s", "CPU s/GB", ""
    );
    for secure in [false, true] {
        for frame_size in [16 << 10, 256 << 10] {
            let config = secure.then(|| authority.server_config(&["127.0.0.1"], &[b"h2"]));
            let allowance = Allowance {
                window: 16 << 20,
                frame_size,
                answer: size,
            };
            let server = Bulk::start(config, allowance).expect("a server");
            let dialer = Dialer::new(Settings::default().ca_file(&ca_file)).expect("a dialer");
            let transport = H2::new(Arc::new(dialer), tuning()).expect("a transport");
            let wire = if secure { "TLS" } else { "plain" };
            report(wire, "up", frame_size, size, runs, || {
                upload(&transport, &server.url("/"), size)
            });
            if frame_size == 16 << 10 {
                report(wire, "down", 0, size, runs, || {
                    download(&transport, &server.url("/"), size)
                });
            }
        }
    }
}

fn number(name: &str) -> Option<usize> {
    let given = env::var(name).ok()?;
    match given.parse() {
        Ok(number) if number > 0 => Some(number),
        _ => panic!("{name} is no positive number"),
    }
}

fn tuning() -> Tuning {
    let mut tuning = Tuning::default().prior_knowledge(true);
    if let Some(bytes) = number("RGIT_H2_CHUNK") {
        tuning = tuning.chunk(bytes);
    }
    if let Some(bytes) = number("RGIT_H2_SEND_BUFFER") {
        tuning = tuning.send_buffer(bytes);
    }
    if let Some(bytes) = number("RGIT_H2_BUDGET") {
        tuning = tuning.read_budget(bytes);
    }
    if let Some(bytes) = number("RGIT_H2_FRAME") {
        tuning = tuning.max_frame_size(bytes as u32);
    }
    if let Some(bytes) = number("RGIT_H2_WINDOW") {
        tuning = tuning.stream_window(bytes as u32).connection_window(bytes as u32);
    }
    tuning
}

fn upload(transport: &H2, url: &str, size: u64) -> Wire {
    let body = Body::stream(Some(size), io::repeat(b'x').take(size));
    let request = http::Request::post(url).body(body).expect("a request");
    let response = transport.exchange(request).expect("an answer");
    let wire = *response.extensions().get::<Wire>().expect("a wire");
    let mut text = String::new();
    response.into_body().read_to_string(&mut text).expect("its body");
    assert_eq!(text, size.to_string());
    wire
}

fn download(transport: &H2, url: &str, size: u64) -> Wire {
    let request = http::Request::get(url).body(Body::Empty).expect("a request");
    let response = transport.exchange(request).expect("an answer");
    let wire = *response.extensions().get::<Wire>().expect("a wire");
    let (mut body, mut piece, mut got) = (response.into_body(), vec![0; 128 * 1024], 0);
    loop {
        match body.read(&mut piece).expect("its body") {
            0 => break,
            count => got += count as u64,
        }
    }
    assert_eq!(got, size);
    wire
}

/// CPU time of this thread, where the system tells.
fn cpu() -> Option<Duration> {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    schedstat.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn report(wire: &str, direction: &str, frame_size: u32, size: u64, runs: usize, mut run: impl FnMut() -> Wire) {
    let mut measured: Vec<(Duration, Option<Duration>, Duration)> = (0..runs)
        .map(|_| {
            let (begun, before) = (Instant::now(), cpu());
            let starved = run().starved;
            let spent = before.zip(cpu()).map(|(before, after)| after - before);
            (begun.elapsed(), spent, starved)
        })
        .collect();
    measured.sort_unstable();
    let rate = |time: Duration| size as f64 / 1e6 / time.as_secs_f64();
    let (median, mut spent) = (measured[runs / 2], measured.iter().map(|run| run.1).collect::<Vec<_>>());
    spent.sort_unstable();
    let spent = spent[runs / 2].map_or("?".to_owned(), |spent| {
        format!("{:.2}", spent.as_secs_f64() / (size as f64 / 1e9))
    });
    let frames = if frame_size == 0 {
        String::new()
    } else {
        format!("{} KiB", frame_size >> 10)
    };
    println!(
        "{:<10}{frames:<10}{:>11.0}{:>10.0}{spent:>10}   starved {:.2} s",
        format!("{wire} {direction}"),
        rate(measured[0].0),
        rate(median.0),
        median.2.as_secs_f64(),
    );
}
