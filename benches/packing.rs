//! What a push computes: `cargo bench --bench packing`.
//!
//! Deltas of files as they change, and whole packs as a stream, read by one who throws the bytes away. Against git, and by processor
//! time and memory, the same is measured by `--bench pack`.
//!
//! `RGIT_BENCH_QUICK` makes the repositories small.

use std::{
    env,
    hint::black_box,
    io,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rgit_pack::{
    ObjectSet, Options, PackSource,
    delta::{DeltaIndex, Encoder},
};
use rgit_testkit::{history, repository::Git};

/// Lines of a text: about a megabyte.
const LINES: u64 = 20_000;

/// A text of which no two lines are alike; `seed` tells texts apart.
fn text(seed: u64) -> Vec<u8> {
    let mixed = |line: u64| (line ^ seed.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..LINES)
        .flat_map(|line| format!("line {line} has {:016x} to say and {}\n", mixed(line), line % 97).into_bytes())
        .collect()
}

/// `base` with every hundredth line changed, and its halves swapped.
fn rewritten(base: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = base.split_inclusive(|byte| *byte == b'\n').collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    let changed = second.iter().chain(first).enumerate();
    changed
        .flat_map(|(number, line)| match number % 100 {
            0 => [b"changed: ", *line].concat(),
            _ => line.to_vec(),
        })
        .collect()
}

fn deltas(criterion: &mut Criterion) {
    let base = text(1);
    let mut one_line = base.clone();
    let middle = one_line.len() / 2;
    one_line.splice(middle..middle + 4, *b"changed");
    let cases = [
        ("one place changed", one_line, 100),
        ("rewritten", rewritten(&base), base.len() / 4),
        ("nothing in common", text(2), base.len()),
    ];
    let mut index = DeltaIndex::default();
    index.build(&base, 0..base.len());

    let mut group = criterion.benchmark_group("delta of a megabyte of text");
    group.throughput(Throughput::Bytes(base.len() as u64));
    group.bench_function("index", |bencher| {
        let mut index = DeltaIndex::default();
        bencher.iter(|| index.build(black_box(&base), 0..base.len()));
    });
    for (name, target, most) in &cases {
        let mut encoder = Encoder::default();
        let length = encoder.encode(&base, target, usize::MAX).expect("a delta").len();
        assert!(length < *most + target.len() / 2, "{name}: {length} bytes");
        group.bench_function(*name, |bencher| {
            bencher.iter(|| {
                encoder
                    .encode(&base, black_box(target), usize::MAX)
                    .expect("a delta")
                    .len()
            });
        });
        group.bench_function(format!("{name}, base indexed"), |bencher| {
            bencher.iter(|| {
                let delta = encoder.encode_with(&base, &index, black_box(target), usize::MAX);
                delta.expect("a delta").len()
            });
        });
    }
}

/// Everything in the repository at `directory`, enumerated.
fn enumerated(directory: &Path) -> (gix::odb::Handle, Arc<ObjectSet>) {
    let repo = gix::open_opts(directory, gix::open::Options::isolated()).expect("a repository");
    let odb = repo.objects.clone().into_inner();
    let tip = repo.rev_parse_single("main").expect("a branch").detach();
    let objects =
        ObjectSet::find(&odb, &[tip], &[], &[], &Default::default(), &AtomicBool::new(false)).expect("objects");
    (odb, Arc::new(objects))
}

fn packs(criterion: &mut Criterion) {
    let quick = env::var_os("RGIT_BENCH_QUICK").is_some();
    let git = Git::new();
    let home = git.home().to_owned();
    let loose = home.join("loose");
    history::small(&git, &loose, if quick { 20 } else { 300 });
    let packed = home.join("packed");
    git.git(
        &home,
        [
            "clone",
            "-q",
            "--no-local",
            &loose.display().to_string(),
            &packed.display().to_string(),
        ],
    );
    let random = home.join("random");
    history::incompressible(&git, &random, 8, if quick { 100_000 } else { 4_000_000 }, 3);

    let mut group = criterion.benchmark_group("pack");
    group.sample_size(10);
    for (name, directory) in [
        ("loose objects", &loose),
        ("a clone", &packed),
        ("incompressible files", &random),
    ] {
        let (handle, objects) = enumerated(directory);
        let stream = || {
            let handle = handle.clone();
            PackSource::new(
                handle,
                objects.clone(),
                Options::default().threads(Some(2)),
                Arc::new(AtomicBool::new(false)),
            )
            .expect("a pack")
        };
        let length = io::copy(&mut stream().reader().expect("a reader"), &mut io::sink()).expect("bytes");
        group.throughput(Throughput::Bytes(length));
        group.bench_function(format!("{name}, {} objects", objects.len()), |bencher| {
            bencher.iter_batched(
                stream,
                |source| io::copy(&mut source.reader().expect("a reader"), &mut io::sink()).expect("bytes"),
                BatchSize::PerIteration,
            );
        });
    }
}

criterion_group!(packing, deltas, packs);
criterion_main!(packing);
