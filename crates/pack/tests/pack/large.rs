//! Blobs of a gigabyte, packs of more than four, millions of objects. They take minutes and up to 15 GB of disk, so they only run
//! where `RGIT_LARGE` is set: `RGIT_LARGE=1 cargo test -p rgit-pack --test pack large:: -- --nocapture` prints figures.
#![allow(clippy::print_stderr)]

use std::{
    fs::File,
    io::{BufWriter, Read, Write},
    process::{Child, Stdio},
    sync::{Mutex, MutexGuard},
    time::Instant,
};

use gix::ObjectId;
use rgit_pack::{Options, PackSource};

use crate::support::{Lab, Repo};

const MB: u64 = 1024 * 1024;

/// Memory is that of the whole process, so one at a time.
static ONE: Mutex<()> = Mutex::new(());

fn wanted(name: &str) -> Option<MutexGuard<'static, ()>> {
    if std::env::var_os("RGIT_LARGE").is_none() {
        eprintln!("{name}: skipped, RGIT_LARGE is not set");
        return None;
    }
    Some(ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// In bytes; 0 where the system doesn't tell.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

struct Figures {
    bytes: u64,
    /// The most anonymous memory seen beyond what there was before.
    anonymous: u64,
}

/// Have git take in a pack while it is made, and read what it says.
fn through_git(lab: &Lab, name: &str, source: impl FnOnce() -> PackSource) -> Figures {
    let remote = lab.init(name, "sha1");
    let mut index: Child = remote
        .git_command(&["index-pack", "--strict", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut pipe = index.stdin.take().unwrap();
    let (before, began) = (anonymous(), Instant::now());
    let mut figures = Figures { bytes: 0, anonymous: 0 };
    let source = source();
    let mut reader = source.reader().unwrap();
    let mut buffer = vec![0; 128 * 1024];
    for reads in 0u64.. {
        let length = reader.read(&mut buffer).unwrap();
        if reads % 16 == 0 || length == 0 {
            figures.anonymous = figures.anonymous.max(anonymous().saturating_sub(before));
        }
        if length == 0 {
            break;
        }
        pipe.write_all(&buffer[..length]).unwrap();
        figures.bytes += length as u64;
    }
    let made = began.elapsed();
    drop(pipe);
    assert!(index.wait().unwrap().success());
    eprintln!(
        "{name}: {} objects, {} bytes in {made:.1?} (git reads along), {} MB of anonymous memory",
        source.statistics().objects,
        figures.bytes,
        figures.anonymous / MB
    );
    std::fs::remove_dir_all(&remote.path).unwrap();
    figures
}

/// A loose blob that doesn't compress.
fn add_noise(repo: &Repo, name: &str, seed: u64, length: u64) {
    let mut file = BufWriter::new(File::create(repo.path.join(name)).unwrap());
    let mut state = seed | 1;
    for _ in 0..length / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes()).unwrap();
    }
    file.into_inner().unwrap();
    repo.git(&[
        "-c",
        "core.bigFileThreshold=3g",
        "-c",
        "core.compression=0",
        "add",
        name,
    ]);
    std::fs::remove_file(repo.path.join(name)).unwrap();
}

fn source(repo: &Repo, tip: ObjectId, options: &Options) -> PackSource {
    let set = repo.find(&[tip], &[]).unwrap();
    repo.source(set, options.clone()).unwrap()
}

#[test]
fn a_blob_of_a_gigabyte_does_not_show_in_memory() {
    let Some(_one) = wanted("a_blob_of_a_gigabyte_does_not_show_in_memory") else {
        return;
    };
    for kind in ["zeros", "noise"] {
        let lab = Lab::new();
        let repo = lab.init("local", "sha1");
        if kind == "zeros" {
            let file = File::create(repo.path.join("blob")).unwrap();
            file.set_len(1024 * MB).unwrap();
            repo.git(&["-c", "core.bigFileThreshold=3g", "add", "blob"]);
            std::fs::remove_file(repo.path.join("blob")).unwrap();
        } else {
            add_noise(&repo, "blob", 1, 1024 * MB);
        }
        repo.git(&["commit", "-q", "-m", "large"]);
        let tip = repo.id("main");
        let options = Options::default().threads(Some(2));
        let loose = source(&repo, tip, &options);
        let most = options.memory as u64 + 24 * MB;
        let figures = through_git(&lab, &format!("{kind}, loose"), || source(&repo, tip, &options));
        assert!(figures.anonymous < most, "{}", figures.anonymous);
        // Packed since the source was made.
        repo.git(&["repack", "-q", "-ad"]);
        let moved = through_git(&lab, &format!("{kind}, packed in between"), || loose);
        assert!(moved.anonymous < most, "{}", moved.anonymous);
        assert_eq!(moved.bytes, figures.bytes);
        let packed = through_git(&lab, &format!("{kind}, packed"), || source(&repo, tip, &options));
        assert!(packed.anonymous < most, "{}", packed.anonymous);
    }
}

#[test]
fn a_pack_of_more_than_four_gigabytes() {
    let Some(_one) = wanted("a_pack_of_more_than_four_gigabytes") else {
        return;
    };
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    for number in 0..5 {
        add_noise(&repo, &format!("blob{number}"), number * 2 + 3, 900 * MB);
    }
    // Small ones behind them, as deltas whose offsets need more than 32 bits.
    for number in 0..3 {
        repo.write("zz", crate::support::text(number, 500));
        repo.git(&["add", "zz"]);
        repo.git(&["commit", "-q", "-m", "large"]);
    }
    let tip = repo.id("main");
    let options = Options::default().threads(Some(2));
    let figures = through_git(&lab, "five blobs of 900 MB", || source(&repo, tip, &options));
    assert!(figures.bytes > 4 << 30);
    assert!(
        figures.anonymous < options.memory as u64 + 24 * MB,
        "{}",
        figures.anonymous
    );
}

#[test]
fn three_million_objects() {
    let Some(_one) = wanted("three_million_objects") else {
        return;
    };
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    let mut import = repo
        .git_command(&["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stream = BufWriter::new(import.stdin.take().unwrap());
    for directory in 0..3000u64 {
        write!(
            stream,
            "commit refs/heads/main\ncommitter C <c@example.com> {} +0000\ndata 0\n",
            1_700_000_000 + directory
        )
        .unwrap();
        for file in 0..1000u64 {
            let number = (directory * 1000 + file).wrapping_mul(2_654_435_761) % (1 << 32);
            let content = format!("blob {file} of {directory} {number}\n");
            write!(
                stream,
                "M 644 inline d{directory}/f{file}\ndata {}\n{content}\n",
                content.len()
            )
            .unwrap();
        }
    }
    drop(stream.into_inner().unwrap());
    assert!(import.wait().unwrap().success());
    let tip = repo.id("main");
    let options = Options::default().threads(Some(2));
    let figures = through_git(&lab, "three million objects", || source(&repo, tip, &options));
    assert!(figures.anonymous < 3_009_000 * 160, "{}", figures.anonymous);
}
