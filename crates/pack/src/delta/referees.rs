//! Deltas of many kinds, applied by everyone who may ever get one: a plain reading of the format, gix, and git, the latter two as
//! entries of a pack.

use std::{collections::HashMap, io::Write, path::Path, process::Command};

use gix_hash::ObjectId;
use gix_object::Kind;
use gix_pack::data::entry::Header;
use proptest::{collection::vec, prelude::*};

use super::{DeltaIndex, Encoder, apply::apply};

/// A base and what is to become of it.
type Pair = (Vec<u8>, Vec<u8>);

/// A change of one content into another.
#[derive(Clone, Debug)]
enum Edit {
    Insert(u32, Vec<u8>),
    Remove(u32, u32),
    Overwrite(u32, Vec<u8>),
    Move(u32, u32, u32),
    Repeat(u32, u32, u8),
}

impl Edit {
    fn make(&self, content: &mut Vec<u8>) {
        let at = |place: u32, content: &[u8]| place as usize % (content.len() + 1);
        match self {
            Edit::Insert(place, bytes) => {
                let at = at(*place, content);
                content.splice(at..at, bytes.iter().copied());
            }
            Edit::Remove(place, length) => {
                let start = at(*place, content);
                let end = (start + *length as usize).min(content.len());
                content.drain(start..end);
            }
            Edit::Overwrite(place, bytes) => {
                let start = at(*place, content);
                for (to, from) in content[start..].iter_mut().zip(bytes) {
                    *to = *from;
                }
            }
            Edit::Move(from, length, to) => {
                let start = at(*from, content);
                let end = (start + *length as usize).min(content.len());
                let piece: Vec<u8> = content.drain(start..end).collect();
                let to = at(*to, content);
                content.splice(to..to, piece);
            }
            Edit::Repeat(place, length, times) => {
                let start = at(*place, content);
                let end = (start + *length as usize).min(content.len());
                let piece = content[start..end].repeat(usize::from(*times));
                content.splice(end..end, piece);
            }
        }
    }
}

/// Content of `length` bytes: noise, text, records, few different bytes, or one.
fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut made = Vec::with_capacity(length + 64);
    while made.len() < length {
        match seed % 5 {
            0 => made.extend(next().to_le_bytes()),
            1 => made.extend(format!("line {} says {}\n", made.len() / 20, next() % 100).bytes()),
            2 => made.extend([
                1,
                0,
                0,
                0,
                (next() % 4) as u8,
                0,
                0,
                0,
                7,
                0,
                0,
                0,
                (made.len() >> 8) as u8,
                0,
                0,
                0,
            ]),
            3 => made.push((next() % 2) as u8),
            _ => made.push(b'='),
        }
    }
    made.truncate(length);
    made
}

fn edit() -> impl Strategy<Value = Edit> {
    // Around the most that one instruction carries.
    let short = prop_oneof![
        0..40usize,
        Just(126),
        Just(127),
        Just(128),
        Just(254),
        Just(255),
        0..2000usize
    ];
    let bytes = (any::<u64>(), short).prop_map(|(seed, length)| content(seed, length));
    let length = prop_oneof![0..64u32, 0..5_000u32, 65_530..65_542u32, 0..200_000u32];
    prop_oneof![
        4 => (any::<u32>(), bytes.clone()).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        3 => (any::<u32>(), length.clone()).prop_map(|(at, length)| Edit::Remove(at, length)),
        3 => (any::<u32>(), bytes).prop_map(|(at, bytes)| Edit::Overwrite(at, bytes)),
        2 => (any::<u32>(), length, any::<u32>()).prop_map(|(from, length, to)| Edit::Move(from, length, to)),
        1 => (any::<u32>(), 0..3000u32, 0..4u8).prop_map(|(at, length, times)| Edit::Repeat(at, length, times)),
    ]
}

fn pair() -> impl Strategy<Value = Pair> {
    let length = prop_oneof![
        1 => Just(0usize),
        4 => 1..64usize,
        6 => 0..5_000usize,
        2 => 0..100_000usize,
        1 => 65_520..65_560usize,
        1 => 131_060..400_000usize,
    ];
    let made = (any::<u64>(), length).prop_map(|(seed, length)| content(seed, length));
    let edited = (made.clone(), vec(edit(), 0..9)).prop_map(|(base, edits)| {
        let mut target = base.clone();
        for edit in &edits {
            edit.make(&mut target);
        }
        (base, target)
    });
    prop_oneof![8 => edited, 1 => (made.clone(), made)]
}

/// Encode each pair in each way and have all apply it.
fn judge(pairs: &[Pair]) {
    let mut encoder = Encoder::default();
    let mut index = DeltaIndex::default();
    let mut pack = Pack::default();
    for (base, target) in pairs {
        index.build(base, 0..base.len());
        let alone = encoder.encode(base, target, usize::MAX).map(<[u8]>::to_vec);
        let indexed = encoder
            .encode_with(base, &index, target, usize::MAX)
            .map(<[u8]>::to_vec);
        assert_eq!(alone.is_none(), target.is_empty());
        for (number, delta) in [alone, indexed].into_iter().flatten().enumerate() {
            assert!(
                apply(base, &delta).as_deref() == Some(target),
                "{} {}",
                base.len(),
                target.len()
            );
            // Never much longer than the target itself.
            assert!(
                delta.len() <= target.len() + target.len() / 100 + 24,
                "{} {}",
                delta.len(),
                target.len()
            );
            pack.add(base, target, &delta, number == 0);
        }
    }
    pack.check();
}

/// A pack of bases and deltas.
#[derive(Default)]
struct Pack {
    bytes: Vec<u8>,
    objects: u32,
    /// What is in it, and where.
    whole: HashMap<ObjectId, u64>,
    made: HashMap<ObjectId, Vec<u8>>,
}

impl Pack {
    fn entry(&mut self, header: &Header, content: &[u8]) -> u64 {
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(b"PACK\0\0\0\x02\0\0\0\0");
        }
        let offset = self.bytes.len() as u64;
        header.write_to(content.len() as u64, &mut self.bytes).unwrap();
        let mut deflate = flate2::write::ZlibEncoder::new(&mut self.bytes, flate2::Compression::fast());
        deflate.write_all(content).unwrap();
        deflate.finish().unwrap();
        self.objects += 1;
        offset
    }

    /// Each object is in a pack once, so what is there already is left out.
    fn add(&mut self, base: &[u8], target: &[u8], delta: &[u8], by_offset: bool) {
        let name = |content: &[u8]| gix_object::compute_hash(gix_hash::Kind::Sha1, Kind::Blob, content).unwrap();
        let (base_id, id) = (name(base), name(target));
        if self.whole.contains_key(&id) || self.made.contains_key(&id) || id == base_id {
            return;
        }
        let base_offset = match self.whole.get(&base_id) {
            Some(offset) => *offset,
            None if self.made.contains_key(&base_id) => return,
            None => {
                let offset = self.entry(&Header::Blob, base);
                self.whole.insert(base_id, offset);
                offset
            }
        };
        let header = match by_offset {
            true => Header::OfsDelta {
                base_distance: self.bytes.len() as u64 - base_offset,
            },
            false => Header::RefDelta { base_id },
        };
        self.entry(&header, delta);
        self.made.insert(id, target.to_vec());
    }

    fn check(mut self) {
        if self.made.is_empty() {
            return;
        }
        self.bytes[8..12].copy_from_slice(&self.objects.to_be_bytes());
        let mut hasher = gix_hash::hasher(gix_hash::Kind::Sha1);
        hasher.update(&self.bytes);
        self.bytes.extend_from_slice(hasher.try_finalize().unwrap().as_slice());
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("checked.pack");
        std::fs::write(&file, &self.bytes).unwrap();
        git(directory.path(), &["init", "-q", "."]);
        git(directory.path(), &["index-pack", "--strict", "checked.pack"]);
        let bundle = gix_pack::Bundle::at(&file, gix_hash::Kind::Sha1).unwrap();
        assert_eq!(bundle.index.num_objects(), self.objects);
        let (mut out, mut inflate) = (Vec::new(), gix_pack::cache::Never);
        let mut zlib = Default::default();
        for (id, target) in &self.made {
            // Git named it by what it made of the delta.
            let (object, _) = bundle
                .find(id, &mut out, &mut zlib, &mut inflate)
                .unwrap()
                .expect("git made another object");
            assert!(object.data == target, "{id}");
        }
    }
}

fn git(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(directory).env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
        .env("HOME", directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Each goes through git; `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn all_make_the_same_of_a_delta(pairs in vec(pair(), 1..60)) {
        judge(&pairs);
    }
}

#[test]
fn offsets_of_four_bytes_and_copies_of_every_length() {
    let mut pairs = Vec::new();
    // 16 MiB and more into the base, and across that boundary.
    let base = content(5, 17_500_000);
    for place in [0xff_fff0, 0x100_0000, 0x100_0001, 17_000_000] {
        let target = [
            &base[place..place + 100_000],
            b"between",
            &base[..70_000],
            &base[place - 20..place + 300],
        ]
        .concat();
        pairs.push((base.clone(), target));
    }
    let base = content(10, 300_000);
    for length in [
        15, 16, 17, 31, 32, 255, 256, 0xffff, 0x1_0000, 0x1_0001, 0x1_ffff, 0x2_0000, 0x3_0005,
    ] {
        for place in [0, 1, 0x100, 0x101, 0x1_0000] {
            let target = [b"x", &base[place..place + length], b"y"].concat();
            pairs.push((base.clone(), target));
        }
    }
    for length in [1, 2, 126, 127, 128, 129, 253, 254, 255, 381] {
        let target = [&base[100..5000], &content(1_000_000 * 5, length), &base[7000..9000]].concat();
        pairs.push((base.clone(), target));
        pairs.push((Vec::new(), content(5 * length as u64, length)));
    }
    pairs.push((base, Vec::new()));
    pairs.push((Vec::new(), Vec::new()));
    judge(&pairs);
}
