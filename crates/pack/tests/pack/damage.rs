//! Damage of every kind in a repository: an error that names an object, or the right pack. Git never takes in a wrong one.

use std::{collections::BTreeSet, io::Read, path::Path};

use gix::ObjectId;
use rgit_pack::{Options, PackSource};

use crate::support::{Lab, Repo, noise, text};

/// How far apart the places are that are damaged: 1 for all of them.
fn step() -> usize {
    let asked = std::env::var("RGIT_DAMAGE_STEP").ok();
    asked.and_then(|step| step.parse().ok()).unwrap_or(17)
}

/// What comes of making a pack: its bytes, or an error and what had been made of it.
fn attempt(
    repo: &Repo,
    wanted: &[ObjectId],
    hidden: &[ObjectId],
    options: Options,
) -> Result<Vec<u8>, (String, Vec<u8>)> {
    let plain = |error: rgit_pack::Error| (format!("{error}"), Vec::new());
    let set = repo.find(wanted, hidden).map_err(plain)?;
    let source = repo.source(set, options).map_err(plain)?;
    let mut pack = Vec::new();
    match source.reader().unwrap().read_to_end(&mut pack) {
        Ok(_) => Ok(pack),
        Err(error) => Err((error.to_string(), pack)),
    }
}

/// A push from one repository to another.
struct Push<'a> {
    repo: &'a Repo,
    remote: &'a Repo,
    wanted: Vec<ObjectId>,
    hidden: Vec<ObjectId>,
    options: Options,
}

impl Push<'_> {
    fn attempt(&self) -> Result<Vec<u8>, (String, Vec<u8>)> {
        attempt(self.repo, &self.wanted, &self.hidden, self.options.clone())
    }

    /// Damage `file` at one place after the other, and see what comes of it.
    fn with_damage_in(&self, file: &Path) {
        let all = |tips: &[ObjectId]| self.repo.referee(tips, &[]);
        let known: BTreeSet<String> = all(&self.wanted).into_iter().chain(all(&self.hidden)).collect();
        let expected = self.attempt().unwrap();
        if !self.hidden.is_empty() {
            let first = attempt(self.repo, &self.hidden, &[], Options::default()).unwrap();
            self.remote.receive(&first, &self.hidden);
        }
        let intact = std::fs::read(file).unwrap();
        let (mut errors, mut fine) = (0, 0);
        for at in (0..intact.len()).step_by(step()) {
            let mut damaged = intact.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::remove_file(file).unwrap();
            std::fs::write(file, &damaged).unwrap();
            match self.attempt() {
                Ok(pack) if pack == expected => fine += 1,
                // Another way to the same objects. As they may be there already, each goes to a repository of its own.
                Ok(pack) => {
                    fine += 1;
                    let fresh = tempfile::tempdir().unwrap();
                    let copy = Repo::copy(self.remote, fresh.path());
                    copy.git_with(&["index-pack", "--strict", "--fix-thin", "--stdin"], &pack);
                    let tips: Vec<String> = self.wanted.iter().map(ToString::to_string).collect();
                    copy.git(
                        &[
                            &["rev-list", "--quiet", "--objects"],
                            &tips.iter().map(String::as_str).collect::<Vec<_>>()[..],
                        ]
                        .concat(),
                    );
                }
                Err((error, pack)) => {
                    errors += 1;
                    let is_named =
                        known.iter().any(|id| error.contains(id)) || error.contains(&file.display().to_string());
                    assert!(is_named, "{at} of {}: {error}", file.display());
                    if errors % 10 == 1 {
                        self.remote.refuses(&pack);
                    }
                }
            }
        }
        assert!(errors > 0, "{fine}");
        std::fs::remove_file(file).unwrap();
        std::fs::write(file, intact).unwrap();
    }
}

fn history(repo: &Repo) {
    for number in 0..4 {
        repo.write("dir/text", text(number, 60));
        repo.write("other", format!("{number}\n"));
        repo.write("noise", noise(number / 2, 300));
        repo.commit(&number.to_string());
    }
    repo.git(&["tag", "-a", "-m", "annotated", "tag"]);
}

#[test]
fn a_flipped_bit_in_a_pack_or_its_index() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    history(&repo);
    for (number, arguments) in [&[][..], &["-c", "repack.useDeltaBaseOffset=false"]]
        .into_iter()
        .enumerate()
    {
        let repack = ["repack", "-q", "-adf", "--no-write-bitmap-index"];
        repo.git(&[arguments, &repack].concat());
        let pack = repo.packs().pop().unwrap();
        // All is copied; deltas are resolved, their bases not being sent; new deltas are made.
        for (wanted, hidden) in [("tag", &[][..]), ("main~2", &[]), ("tag", &["main~1"])] {
            let push = Push {
                repo: &repo,
                remote: &lab.init(&format!("remote{number}{wanted}{}", hidden.len()), "sha1"),
                wanted: repo.ids(&[wanted]),
                hidden: repo.ids(hidden),
                options: Options::default().thin(true),
            };
            push.with_damage_in(&pack);
            push.with_damage_in(&pack.with_extension("idx"));
        }
    }
}

#[test]
fn a_flipped_bit_in_a_loose_object() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    history(&repo);
    let names = [
        "tag",
        "main~1",
        "main~1^{tree}",
        "main~2:dir",
        "main:dir/text",
        "main:noise",
    ];
    for (number, options) in [Options::default(), Options::default().window(0).depth(0)]
        .into_iter()
        .enumerate()
    {
        let push = Push {
            repo: &repo,
            remote: &lab.init(&format!("remote{number}"), "sha1"),
            wanted: repo.ids(&["tag"]),
            hidden: Vec::new(),
            options,
        };
        for name in names {
            push.with_damage_in(&repo.loose(&repo.id(name)));
        }
    }
    let push = Push {
        repo: &repo,
        remote: &lab.init("has-base", "sha1"),
        wanted: repo.ids(&["tag"]),
        hidden: repo.ids(&["main~1"]),
        options: Options::default().thin(true),
    };
    push.with_damage_in(&repo.loose(&repo.id("main~1:dir/text")));
}

#[test]
fn a_loose_object_in_place_of_another_is_not_taken_in() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    history(&repo);
    let wanted = repo.ids(&["main"]);
    for (place, other) in [("main:dir/text", "main~1:dir/text"), ("main:noise", "main:other")] {
        let (place, other) = (repo.id(place), repo.id(other));
        let file = repo.loose(&place);
        let intact = std::fs::read(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        std::fs::copy(repo.loose(&other), &file).unwrap();
        match attempt(&repo, &wanted, &[], Options::default()) {
            Ok(pack) => {
                let refused = lab.init(&format!("remote-{place}"), "sha1").refuses(&pack);
                assert!(refused.contains(&place.to_string()), "{refused}");
            }
            Err((error, _)) => assert!(error.contains(&place.to_string()), "{error}"),
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, intact).unwrap();
    }
}

/// A pack as `index-pack` would never take it, with an index that says it is fine.
struct Crafted {
    pack: Vec<u8>,
    entries: Vec<(ObjectId, u64, u32)>,
}

impl Crafted {
    fn new(objects: u32) -> Self {
        let pack = [&b"PACK\0\0\0\x02"[..], &objects.to_be_bytes()].concat();
        Crafted {
            pack,
            entries: Vec::new(),
        }
    }

    /// A delta that inserts `content`, against a base by name.
    fn delta(&mut self, id: ObjectId, base: ObjectId, base_length: usize, content: &[u8]) {
        let size = |mut value: usize| {
            let mut bytes = Vec::new();
            while value > 0x7f {
                bytes.push(value as u8 | 0x80);
                value >>= 7;
            }
            bytes.push(value as u8);
            bytes
        };
        let mut delta = [size(base_length), size(content.len())].concat();
        for part in content.chunks(127) {
            delta.push(part.len() as u8);
            delta.extend_from_slice(part);
        }
        let start = self.pack.len();
        let (low, mut rest) = (delta.len() & 15, delta.len() >> 4);
        self.pack.push(7 << 4 | low as u8 | if rest > 0 { 0x80 } else { 0 });
        while rest > 0 {
            let more = if rest > 0x7f { 0x80 } else { 0 };
            self.pack.push((rest & 0x7f) as u8 | more);
            rest >>= 7;
        }
        self.pack.extend_from_slice(base.as_slice());
        let mut encoder = flate2::write::ZlibEncoder::new(&mut self.pack, flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, &delta).unwrap();
        encoder.finish().unwrap();
        let mut crc = flate2::Crc::new();
        crc.update(&self.pack[start..]);
        self.entries.push((id, start as u64, crc.sum()));
    }

    fn store(mut self, repo: &Repo, name: &str) {
        let checksum = |bytes: &[u8]| {
            let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
            hasher.update(bytes);
            hasher.try_finalize().unwrap()
        };
        let trailer = checksum(&self.pack);
        self.pack.extend_from_slice(trailer.as_slice());
        self.entries.sort();
        let mut index = b"\xfftOc\0\0\0\x02".to_vec();
        for byte in 0..=255u8 {
            let count = self.entries.iter().filter(|(id, ..)| id.as_slice()[0] <= byte).count() as u32;
            index.extend(count.to_be_bytes());
        }
        index.extend(self.entries.iter().flat_map(|(id, ..)| id.as_slice().to_vec()));
        index.extend(self.entries.iter().flat_map(|(_, _, crc)| crc.to_be_bytes()));
        index.extend(
            self.entries
                .iter()
                .flat_map(|(_, offset, _)| (*offset as u32).to_be_bytes()),
        );
        index.extend_from_slice(trailer.as_slice());
        let end = checksum(&index);
        index.extend_from_slice(end.as_slice());
        let directory = repo.path.join(".git/objects/pack");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("pack-{name}.pack")), self.pack).unwrap();
        std::fs::write(directory.join(format!("pack-{name}.idx")), index).unwrap();
    }
}

#[test]
fn deltas_that_are_each_others_base_and_nothing_else_are_named() {
    let lab = Lab::new();
    for (name, kind) in [("blobs", "blob"), ("commits", "commit")] {
        for packs in [1, 2] {
            let repo = lab.init(&format!("{name}{packs}"), "sha1");
            history(&repo);
            let (first, second) = match kind {
                "blob" => (repo.id("main:dir/text"), repo.id("main~1:dir/text")),
                _ => (repo.id("main"), repo.id("main~1")),
            };
            let content = |id: &ObjectId| repo.git_with(&["cat-file", kind, &id.to_string()], b"");
            let (a, b) = (content(&first), content(&second));
            for id in [&first, &second] {
                std::fs::remove_file(repo.loose(id)).unwrap();
            }
            if packs == 1 {
                let mut circle = Crafted::new(2);
                circle.delta(first, second, b.len(), &a);
                circle.delta(second, first, a.len(), &b);
                circle.store(&repo, "circle");
            } else {
                for (name, id, base, length, content) in
                    [("one", first, second, b.len(), &a), ("two", second, first, a.len(), &b)]
                {
                    let mut half = Crafted::new(1);
                    half.delta(id, base, length, content);
                    half.store(&repo, name);
                }
            }
            let tip = [std::fs::read_to_string(repo.path.join(".git/refs/heads/main"))
                .unwrap()
                .trim()
                .parse()
                .unwrap()];
            for options in [Options::default(), Options::default().depth(0)] {
                let (error, pack) = attempt(&repo, &tip, &[], options).unwrap_err();
                let named = [first, second].iter().any(|id| error.contains(&id.to_string()));
                assert!(named, "{name} {packs}: {error}");
                lab.init(&format!("remote-{name}{packs}"), "sha1").refuses(&pack);
            }
        }
    }
}

#[test]
fn an_interrupt_leaves_a_pack_that_git_refuses() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    for number in 0..40 {
        repo.write(&format!("file{number}"), text(number, 2000));
    }
    let tip = repo.commit("much");
    let interrupt = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let set = repo.find(&[tip], &[]).unwrap();
    let odb = repo.open().objects.clone().into_inner();
    let source = PackSource::new(odb, std::sync::Arc::new(set), Options::default(), interrupt.clone()).unwrap();
    let whole = crate::support::read(&source);
    let remote = lab.init("remote", "sha1");
    for length in [0, 5, 12, 1000, whole.len() / 2, whole.len() - 21] {
        let (mut reader, mut pack) = (source.reader().unwrap(), vec![0; length]);
        reader.read_exact(&mut pack).unwrap();
        interrupt.store(true, std::sync::atomic::Ordering::Relaxed);
        let error = reader.read_to_end(&mut pack).unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
        interrupt.store(false, std::sync::atomic::Ordering::Relaxed);
        assert!(pack.len() < whole.len(), "{length}");
        remote.refuses(&pack);
    }
    assert_eq!(remote.contents(&whole), repo.referee(&[tip], &[]));
}
