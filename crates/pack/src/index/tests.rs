use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::AtomicBool,
};

use flate2::{Compression, write::ZlibEncoder};
use gix_hash::{Kind as Hash, ObjectId};
use gix_object::{Data, Find, Kind};
use proptest::prelude::*;

use super::{Error, Indexed, LIMITS, Limits, Options, index_within};

/// Nothing is at hand: all that isn't whole is read back.
const NOTHING: Limits = Limits {
    large: 0,
    cache: 0,
    waiting: 0,
};
/// Some is, some isn't.
const LITTLE: Limits = Limits {
    large: 300,
    cache: 2_000,
    waiting: 400,
};

/// An object database of a few objects.
#[derive(Clone, Default)]
struct Here(Vec<(ObjectId, Vec<u8>)>);

impl Find for Here {
    fn try_find<'a>(&self, id: &gix_hash::oid, buffer: &'a mut Vec<u8>) -> gix::error::Result<Option<Data<'a>>> {
        let Some((_, data)) = self.0.iter().find(|(name, _)| *name == id) else {
            return Ok(None);
        };
        buffer.clear();
        buffer.extend_from_slice(data);
        Ok(Some(Data::new(buffer, Kind::Blob, id.kind())))
    }
}

/// A stream in pieces of odd sizes.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = self.1 * 7 % 1009 + 1;
        let length = self.1.min(buffer.len()).min(self.0.len());
        let (now, later) = self.0.split_at(length);
        buffer[..length].copy_from_slice(now);
        self.0 = later;
        Ok(length)
    }
}

fn name(hash: Hash, data: &[u8]) -> ObjectId {
    gix_object::compute_hash(hash, Kind::Blob, data).unwrap()
}

/// How one blob of a pack is stored.
#[derive(Debug, Clone, Copy)]
enum How {
    Whole,
    /// By the distance in entries.
    Before(usize),
    /// By the name of another blob, earlier or later in the pack.
    Named(usize),
    /// By the name of a blob that is here.
    Here,
}

/// Many small versions of one text.
fn text(version: u32) -> Vec<u8> {
    (0..40 + version % 30)
        .flat_map(|line| format!("line {} of {}\n", line, if line == version % 37 { version } else { 0 }).into_bytes())
        .collect()
}

fn varint(mut size: u64, out: &mut Vec<u8>) {
    while size > 0x7f {
        out.push(size as u8 | 0x80);
        size >>= 7;
    }
    out.push(size as u8);
}

fn deflated(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// A delta that copies the first bytes both have, and brings the rest.
fn delta(base: &[u8], target: &[u8]) -> Vec<u8> {
    let common = base.iter().zip(target).take_while(|(a, b)| a == b).count();
    let mut out = Vec::new();
    varint(base.len() as u64, &mut out);
    varint(target.len() as u64, &mut out);
    if common > 0 {
        out.extend([0xb0, common as u8, (common >> 8) as u8]);
    }
    for part in target[common..].chunks(127) {
        out.push(part.len() as u8);
        out.extend_from_slice(part);
    }
    out
}

fn head(kind: u8, size: usize, out: &mut Vec<u8>) {
    let first = kind << 4 | (size & 15) as u8;
    if size < 16 {
        out.push(first);
    } else {
        out.push(first | 0x80);
        varint(size as u64 >> 4, out);
    }
}

fn distance(mut value: u64, out: &mut Vec<u8>) {
    let mut bytes = vec![(value & 0x7f) as u8];
    value >>= 7;
    while value > 0 {
        value -= 1;
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.extend(bytes.iter().rev());
}

fn seal(hash: Hash, count: u32, body: &[u8]) -> Vec<u8> {
    let mut pack = [b"PACK", &2u32.to_be_bytes()[..], &count.to_be_bytes(), body].concat();
    let mut hasher = gix_hash::hasher(hash);
    hasher.update(&pack);
    pack.extend_from_slice(hasher.try_finalize().unwrap().as_slice());
    pack
}

/// A pack of one blob for each of `how`, and the contents of all.
fn build(hash: Hash, how: &[How], here: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let texts: Vec<Vec<u8>> = (0..how.len() as u32).map(text).collect();
    let mut offsets = Vec::new();
    let mut body = Vec::new();
    for (index, how) in how.iter().enumerate() {
        let target = &texts[index];
        let offset = 12 + body.len() as u64;
        match *how {
            How::Whole => {
                head(3, target.len(), &mut body);
                body.extend(deflated(target));
            }
            How::Before(back) => {
                let bytes = delta(&texts[index - back], target);
                head(6, bytes.len(), &mut body);
                distance(offset - offsets[index - back], &mut body);
                body.extend(deflated(&bytes));
            }
            How::Named(other) => {
                let bytes = delta(&texts[other], target);
                head(7, bytes.len(), &mut body);
                body.extend_from_slice(name(hash, &texts[other]).as_slice());
                body.extend(deflated(&bytes));
            }
            How::Here => {
                let bytes = delta(here, target);
                head(7, bytes.len(), &mut body);
                body.extend_from_slice(name(hash, here).as_slice());
                body.extend(deflated(&bytes));
            }
        }
        offsets.push(offset);
    }
    (seal(hash, how.len() as u32, &body), texts)
}

fn index(
    pack: &[u8],
    directory: &Path,
    hash: Hash,
    limits: Limits,
    threads: usize,
    bases: Here,
) -> Result<Option<Indexed>, Error> {
    index_within(
        limits,
        &mut Pieces(pack, 1),
        directory,
        bases,
        &Options::new(hash).threads(Some(threads)),
        &mut prodash::progress::Discard,
        &AtomicBool::new(false),
    )
}

/// A repository, and a directory for packs of ours beside it.
struct Referee {
    home: tempfile::TempDir,
    hash: Hash,
}

impl Referee {
    fn new(hash: Hash) -> Self {
        let referee = Referee {
            home: tempfile::tempdir().unwrap(),
            hash,
        };
        let format = format!("--object-format={hash}");
        referee
            .git(&["init", "-q", "--bare", &format, "theirs.git"], &[])
            .unwrap();
        fs::create_dir(referee.ours()).unwrap();
        referee
    }

    fn ours(&self) -> PathBuf {
        self.home.path().join("ours")
    }

    fn git(&self, arguments: &[&str], input: &[u8]) -> Result<String, String> {
        let mut child = Command::new("git")
            .args(arguments)
            .current_dir(self.home.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Git closes its end when it has seen enough.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// Git must make the same of `pack`.
    fn same(&self, pack: &[u8], indexed: &Indexed) {
        self.git(&["-C", "theirs.git", "index-pack", "--stdin", "--strict"], pack)
            .unwrap();
        for ours in [&indexed.pack, &indexed.index, &indexed.index.with_extension("rev")] {
            let theirs = self
                .home
                .path()
                .join("theirs.git/objects/pack")
                .join(ours.file_name().unwrap());
            assert!(
                fs::read(ours).unwrap() == fs::read(&theirs).unwrap(),
                "{}",
                theirs.display()
            );
        }
    }

    /// Nothing must be left after a failure.
    fn nothing(&self) {
        let left: Vec<_> = fs::read_dir(self.ours()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// Each of `limits`, with one thread and several.
    fn all(&self, pack: &[u8], bases: &Here, mut look: impl FnMut(Result<Option<Indexed>, Error>)) {
        for limits in [LIMITS, LITTLE, NOTHING] {
            for threads in [1, 2, 5] {
                look(index(pack, &self.ours(), self.hash, limits, threads, bases.clone()));
                for entry in fs::read_dir(self.ours()).unwrap() {
                    fs::remove_file(entry.unwrap().path()).unwrap();
                }
            }
        }
    }
}

/// How each of up to 60 blobs is stored; names never go in circles.
fn hows() -> impl Strategy<Value = Vec<How>> {
    prop::collection::vec((0u8..6, any::<prop::sample::Index>()), 1..60).prop_map(|choices| {
        let count = choices.len();
        let mut hows: Vec<How> = Vec::new();
        for (index, (choice, at)) in choices.into_iter().enumerate() {
            hows.push(match choice {
                0 => How::Whole,
                1..=2 if index > 0 => How::Before(1),
                3 if index > 0 => How::Before(at.index(index) + 1),
                4 if index > 0 => How::Named(at.index(index)),
                // Forward: what comes there is whole, or it could come back here.
                5 if index + 1 < count => How::Named(index + 1 + at.index(count - index - 1)),
                _ => How::Whole,
            });
        }
        let targets: Vec<usize> = (0..count)
            .filter_map(|index| match hows[index] {
                How::Named(other) if other > index => Some(other),
                _ => None,
            })
            .collect();
        for target in targets {
            hows[target] = How::Whole;
        }
        hows
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_same_as_git(how in hows(), sha256: bool) {
        let referee = Referee::new(if sha256 { Hash::Sha256 } else { Hash::Sha1 });
        let (pack, texts) = build(referee.hash, &how, b"");
        referee.all(&pack, &Here::default(), |indexed| {
            let indexed = indexed.unwrap().unwrap();
            assert_eq!((indexed.received as usize, indexed.added), (texts.len(), 0));
            referee.same(&pack, &indexed);
        });
    }

    #[test]
    fn thin_packs_are_made_whole(how in hows(), at: prop::sample::Index) {
        let mut how = how;
        let at = at.index(how.len());
        if !how.iter().any(|how| matches!(how, How::Named(other) if *other == at)) {
            how[at] = How::Here;
        } else {
            how.push(How::Here);
        }
        let referee = Referee::new(Hash::Sha1);
        let base = text(5_000);
        let here = Here(vec![(name(Hash::Sha1, &base), base.clone())]);
        let (pack, texts) = build(Hash::Sha1, &how, &base);
        referee.all(&pack, &Here::default(), |indexed| {
            assert!(matches!(indexed, Err(Error::Unresolved { .. })), "{indexed:?}");
            referee.nothing();
        });
        referee.all(&pack, &here, |indexed| {
            let indexed = indexed.unwrap().unwrap();
            assert_eq!((indexed.received as usize, indexed.added), (texts.len(), 1));
            // It is whole now, and git finds in it what it should.
            referee.same(&fs::read(&indexed.pack).unwrap(), &indexed);
            let listed = referee
                .git(&["-C", "theirs.git", "show-index"], &fs::read(&indexed.index).unwrap())
                .unwrap();
            for data in texts.iter().chain([&base]) {
                assert!(listed.contains(&name(Hash::Sha1, data).to_string()));
            }
        });
    }

    #[test]
    fn damage_is_found(how in hows(), at: prop::sample::Index, bit in 0u8..8) {
        let referee = Referee::new(Hash::Sha1);
        let (mut pack, _) = build(Hash::Sha1, &how, b"");
        let at = at.index(pack.len());
        pack[at] ^= 1 << bit;
        // Versions 2 and 3 are the same, but the checksum isn't.
        for limits in [LIMITS, LITTLE, NOTHING] {
            assert!(index(&pack, &referee.ours(), Hash::Sha1, limits, 2, Here::default()).is_err());
            referee.nothing();
        }
    }

    #[test]
    fn any_end_is_too_early(how in hows(), at: prop::sample::Index) {
        let referee = Referee::new(Hash::Sha1);
        let (pack, _) = build(Hash::Sha1, &how, b"");
        let cut = &pack[..at.index(pack.len())];
        let err = index(cut, &referee.ours(), Hash::Sha1, LIMITS, 2, Here::default()).unwrap_err();
        assert!(matches!(err, Error::Ended { .. } | Error::Corrupt { .. }), "{err}");
        referee.nothing();
    }
}

/// One entry of kind `kind` that says it has `size` bytes.
fn entry(kind: u8, size: usize, base: &[u8], data: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    head(kind, size, &mut body);
    body.extend_from_slice(base);
    body.extend(deflated(data));
    body
}

#[test]
fn hostile_packs() {
    let referee = Referee::new(Hash::Sha1);
    let whole = |data: &[u8]| entry(3, data.len(), &[], data);
    let sealed = |count: u32, parts: &[Vec<u8>]| seal(Hash::Sha1, count, &parts.concat());
    // A delta of 20 bytes that makes 16 TB.
    let mut bomb = Vec::new();
    varint(10, &mut bomb);
    varint(1 << 44, &mut bomb);
    bomb.extend([0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff]);
    // One that only says that it makes 3 GB.
    let mut boast = Vec::new();
    varint(10, &mut boast);
    varint(3 << 30, &mut boast);
    boast.extend([1, b'x']);
    let first = whole(b"0123456789");
    let behind = first.len() as u8;
    let own_name = name(Hash::Sha1, b"whatever");
    let mut garbage = sealed(1, std::slice::from_ref(&first));
    garbage.push(0);
    let packs = [
        ("no pack", b"PUCK\0\0\0\x02\0\0\0\0".to_vec()),
        ("a version of its own", {
            let mut pack = sealed(1, std::slice::from_ref(&first));
            pack[7] = 4;
            pack
        }),
        ("garbage behind", garbage),
        ("fewer than announced", sealed(2, std::slice::from_ref(&first))),
        ("billions announced", sealed(u32::MAX, std::slice::from_ref(&first))),
        (
            "two billions announced",
            sealed((1 << 31) - 1, std::slice::from_ref(&first)),
        ),
        ("a size too large", sealed(1, &[entry(3, 11, &[], b"0123456789")])),
        ("a size too small", sealed(1, &[entry(3, 9, &[], b"0123456789")])),
        ("an exabyte", sealed(1, &[entry(3, 1 << 60, &[], b"0123456789")])),
        ("an unknown type", sealed(1, &[entry(5, 1, &[], b"x")])),
        (
            "a base before the pack",
            sealed(1, &[entry(6, 4, &[0x7f], &[10, 1, 1, b'x'])]),
        ),
        ("its own base", sealed(1, &[entry(6, 4, &[0], &[10, 1, 1, b'x'])])),
        (
            "a base within an entry",
            sealed(2, &[first.clone(), entry(6, 4, &[behind - 1], &[10, 1, 1, b'x'])]),
        ),
        (
            "a base of another size",
            sealed(2, &[first.clone(), entry(6, 4, &[behind], &[9, 1, 1, b'x'])]),
        ),
        (
            "a bomb",
            sealed(2, &[first.clone(), entry(6, bomb.len(), &[behind], &bomb)]),
        ),
        (
            "a boast",
            sealed(2, &[first.clone(), entry(6, boast.len(), &[behind], &boast)]),
        ),
        (
            "a base that is missing",
            sealed(1, &[entry(7, 4, own_name.as_slice(), &[8, 1, 1, b'x'])]),
        ),
    ];
    for (what, pack) in packs {
        referee.all(&pack, &Here::default(), |indexed| {
            assert!(indexed.is_err(), "{what}");
            referee.nothing();
        });
        assert!(
            referee
                .git(&["-C", "theirs.git", "index-pack", "--stdin", "--strict"], &pack)
                .is_err()
                || what == "garbage behind",
            "{what}: git takes it"
        );
    }
}

#[test]
fn a_pack_without_objects_leaves_nothing() {
    let referee = Referee::new(Hash::Sha1);
    let pack = seal(Hash::Sha1, 0, &[]);
    assert_eq!(
        index(&pack, &referee.ours(), Hash::Sha1, LIMITS, 2, Here::default()).unwrap(),
        None
    );
    referee.nothing();
}

#[test]
fn the_same_pack_again_is_somebody_elses() {
    let referee = Referee::new(Hash::Sha1);
    let (pack, _) = build(Hash::Sha1, &[How::Whole, How::Before(1)], b"");
    for keep in [true, false] {
        let indexed = index(&pack, &referee.ours(), Hash::Sha1, LIMITS, 2, Here::default());
        let indexed = indexed.unwrap().unwrap();
        assert_eq!(indexed.keep.is_some(), keep);
        referee.same(&pack, &indexed);
        let files = fs::read_dir(referee.ours()).unwrap().count();
        assert_eq!(files, 4, "pack, idx, rev, keep");
    }
}

#[test]
fn an_object_that_comes_twice() {
    let referee = Referee::new(Hash::Sha1);
    let twice = [entry(3, 3, &[], b"abc"), entry(3, 3, &[], b"abc")].concat();
    // git takes it, too, unless asked to be strict.
    let pack = seal(Hash::Sha1, 2, &twice);
    referee
        .git(&["-C", "theirs.git", "index-pack", "--stdin"], &pack)
        .unwrap();
    let base = name(Hash::Sha1, b"abc");
    let on_it = entry(7, 4, base.as_slice(), &[3, 1, 1, b'x']);
    let pack = seal(Hash::Sha1, 3, &[twice, on_it].concat());
    referee.all(&pack, &Here::default(), |indexed| {
        assert_eq!(indexed.unwrap().unwrap().received, 3);
    });
}

#[test]
fn chains_of_any_length_and_large_objects() {
    let referee = Referee::new(Hash::Sha1);
    let how: Vec<How> = std::iter::once(How::Whole)
        .chain(std::iter::repeat_n(How::Before(1), 3_000))
        .collect();
    let (pack, _) = build(Hash::Sha1, &how, b"");
    for limits in [LIMITS, LITTLE, NOTHING] {
        let indexed = index(&pack, &referee.ours(), Hash::Sha1, limits, 2, Here::default());
        let indexed = indexed.unwrap().unwrap();
        referee.same(&pack, &indexed);
        for entry in fs::read_dir(referee.ours()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    // Larger than what is held, and a delta on it.
    let large: Vec<u8> = (0u32..2_000_000)
        .flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 7).to_le_bytes())
        .collect();
    let mut delta = Vec::new();
    varint(large.len() as u64, &mut delta);
    varint(6, &mut delta);
    delta.extend([0x91, 9, 4, 2, b'o', b'k']);
    let first = entry(3, large.len(), &[], &large);
    let mut back = Vec::new();
    distance(first.len() as u64, &mut back);
    let pack = seal(Hash::Sha1, 2, &[first, entry(6, delta.len(), &back, &delta)].concat());
    let indexed = index(&pack, &referee.ours(), Hash::Sha1, LIMITS, 2, Here::default());
    referee.same(&pack, &indexed.unwrap().unwrap());
}

#[test]
fn an_interrupt_leaves_nothing() {
    struct Interrupting<'a>(&'a [u8], &'a AtomicBool);
    impl Read for Interrupting<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1.store(true, std::sync::atomic::Ordering::Relaxed);
            (&mut self.0).read(&mut buffer[..100])
        }
    }
    let referee = Referee::new(Hash::Sha1);
    let (pack, _) = build(Hash::Sha1, &[How::Whole; 20], b"");
    let flag = AtomicBool::new(false);
    let indexed = super::index_pack(
        &mut Interrupting(&pack, &flag),
        &referee.ours(),
        Here::default(),
        &Options::new(Hash::Sha1),
        &mut prodash::progress::Discard,
        &flag,
    );
    assert!(matches!(indexed, Err(Error::Interrupted)), "{indexed:?}");
    referee.nothing();
}
