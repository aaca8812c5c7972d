//! What comes off the wire, taken apart: `cargo bench --bench wire`.
//!
//! The advertisement of a repository with 100,000 refs, as pkt-lines and as refs, and a sideband of 64 MB. Bytes come in pieces of
//! [`PIECE`], as a transport hands them over.

use std::{hint::black_box, ops::ControlFlow};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rgit_proto::{
    AdvertisementParser, Band, DEFAULT_LIMIT, MAX_DATA, Packet, Part, Sideband, Splitter, encode_flush, encode_line,
};

const REFS: usize = 100_000;
/// Bytes handed over at a time: what one read of a TLS connection gives.
const PIECE: usize = 16 * 1024;

/// What receive-pack says of [`REFS`] branches.
fn advertisement() -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_line(&mut bytes, &[b"# service=git-receive-pack\n"]).expect("it fits");
    encode_flush(&mut bytes);
    for number in 0..REFS {
        let line = format!("{number:040x} refs/heads/topic/{number:06}");
        let capabilities: &[u8] = match number {
            0 => b"\0report-status delete-refs side-band-64k quiet atomic ofs-delta object-format=sha1 agent=git/2.47",
            _ => b"",
        };
        encode_line(&mut bytes, &[line.as_bytes(), capabilities, b"\n"]).expect("it fits");
    }
    encode_flush(&mut bytes);
    bytes
}

fn sideband() -> Vec<u8> {
    let mut bytes = Vec::new();
    let data = vec![b'x'; MAX_DATA - 1];
    for _ in 0..1000 {
        encode_line(&mut bytes, &[b"\x01", &data]).expect("it fits");
    }
    encode_flush(&mut bytes);
    bytes
}

fn discovery(criterion: &mut Criterion) {
    let bytes = advertisement();
    let mut group = criterion.benchmark_group("advertisement of 100,000 refs");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("pkt-lines", |bencher| {
        bencher.iter(|| {
            let (mut splitter, mut count) = (Splitter::new(Part::Advertisement, DEFAULT_LIMIT), 0);
            for piece in bytes.chunks(PIECE) {
                let mut sink = |packet: Packet<'_>, _| {
                    black_box(packet);
                    count += 1;
                    Ok(ControlFlow::Continue(()))
                };
                splitter.push(piece, &mut sink).expect("pkt-lines");
            }
            assert_eq!(count, REFS + 3);
        });
    });
    group.bench_function("refs", |bencher| {
        bencher.iter(|| {
            let mut parser = AdvertisementParser::new("git-receive-pack");
            for piece in bytes.chunks(PIECE) {
                parser.push(piece).expect("an advertisement");
            }
            assert_eq!(parser.finish().expect("all of it").refs.len(), REFS);
        });
    });
}

fn answer(criterion: &mut Criterion) {
    let bytes = sideband();
    let mut group = criterion.benchmark_group("answer");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("sideband", |bencher| {
        bencher.iter(|| {
            let (mut sideband, mut got) = (Sideband::new(), 0);
            for piece in bytes.chunks(PIECE) {
                let mut sink = |band: Band<'_>| {
                    if let Band::Data(data) = band {
                        got += black_box(data).len();
                    }
                    Ok(())
                };
                sideband.push(piece, &mut sink).expect("bands");
            }
            assert_eq!(got, 1000 * (MAX_DATA - 1));
        });
    });
}

criterion_group!(wire, discovery, answer);
criterion_main!(wire);
