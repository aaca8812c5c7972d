//! Objects that move or vanish while packs are made of them: a source yields the same bytes again, or an error.

use std::io::Read;

use gix::ObjectId;
use rgit_pack::{Options, PackReader, PackSource, Search};

use crate::support::{Lab, Repo, names, noise, read, text};

/// Where zlib gains something, but not where a sample is taken; and the other way around.
fn deceptive() -> Vec<(&'static str, Vec<u8>)> {
    let mut hollow = vec![b'.'; 400_000];
    for at in [0, 195_904, 391_808] {
        hollow[at..at + 8192].copy_from_slice(&noise(at as u64 + 1, 8192));
    }
    let mut spotted = noise(2, 1_200_000);
    let middle = spotted.len() / 2 - 4096;
    spotted[middle - 4096..middle + 8192].fill(b' ');
    vec![
        ("hollow", hollow),
        ("spotted", spotted),
        ("noise", noise(3, 1_500_001)),
        ("exact", noise(4, 1 << 20)),
        ("short", noise(5, 65_536)),
        ("text", text(6, 32_000).into_bytes()),
    ]
}

fn is_here(repo: &Repo, id: &ObjectId) -> bool {
    repo.loose(id).exists()
}

/// What is left of a reader, or the error that ended it, with its sources.
fn rest(mut reader: PackReader, mut pack: Vec<u8>) -> Result<Vec<u8>, String> {
    match reader.read_to_end(&mut pack) {
        Ok(_) => Ok(pack),
        Err(error) => {
            let error = error.into_inner().unwrap();
            Err(format!("{error}: {:?}", error.source().map(ToString::to_string)))
        }
    }
}

#[test]
fn where_an_object_lies_does_not_show_in_the_pack() {
    for search in [Search::NewPaths, Search::Everything] {
        let lab = Lab::new();
        let repo = lab.init("local", "sha1");
        for (name, content) in deceptive() {
            repo.write(name, content);
        }
        let tip = repo.commit("loose");
        let blob = repo.id("HEAD:hollow");
        for options in [
            Options::default().search(search),
            Options::default().search(search).window(0).compression(1),
            Options::default().search(search).big_file_threshold(300_000),
        ] {
            let source = repo
                .source(repo.find(&[tip], &[]).unwrap(), options.threads(Some(2)))
                .unwrap();
            let before = read(&source);
            repo.git(&["repack", "-q", "-adf"]);
            assert!(!is_here(&repo, &blob), "packed now");
            assert!(read(&source) == before, "{search:?}");
            // And loose again, from packs that are gone.
            let packs = repo.packs();
            for pack in &packs {
                let aside = lab.path("aside.pack");
                std::fs::rename(pack, &aside).unwrap();
                std::fs::remove_file(pack.with_extension("idx")).unwrap();
                repo.git_with(&["unpack-objects", "-q"], &std::fs::read(&aside).unwrap());
            }
            assert!(is_here(&repo, &blob), "loose again");
            assert!(read(&source) == before, "{search:?}");
            assert_eq!(
                lab.init(&format!("remote{}", before.len()), "sha1").contents(&before),
                repo.referee(&[tip], &[])
            );
        }
    }
}

#[test]
fn a_delta_that_has_to_be_resolved_may_become_loose() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    // The older is a delta of the newer in the pack, which isn't sent: it is resolved, and what comes of it is incompressible.
    let content = noise(1, 300_000);
    repo.write("file", &content);
    let older = repo.commit("older");
    repo.write("file", [&content[..], b"longer"].concat());
    repo.commit("newer");
    repo.git(&["repack", "-q", "-adf"]);
    let set = || repo.find(&[older], &[]).unwrap();
    let source = repo.source(set(), Options::default()).unwrap();
    let before = read(&source);
    assert_eq!(source.statistics().stored, 1);
    let packs = repo.packs();
    let aside = lab.path("aside.pack");
    std::fs::rename(&packs[0], &aside).unwrap();
    std::fs::remove_file(packs[0].with_extension("idx")).unwrap();
    repo.git_with(&["unpack-objects", "-q"], &std::fs::read(&aside).unwrap());
    assert!(read(&source) == before);
    assert_eq!(lab.init("remote", "sha1").contents(&before), names(&set()));
}

/// A history large enough for workers to be held back by a reader that doesn't read on.
fn held_back(lab: &Lab) -> (Repo, ObjectId) {
    let repo = lab.init("local", "sha1");
    for version in 0..3 {
        for number in 0..60u64 {
            let content = format!("{version}{}", text(number, 1_000 + version * 10));
            repo.write(&format!("dir{}/file{number}", number % 7), content);
        }
        repo.write("blob", noise(version as u64, 1_200_000));
        repo.commit(&version.to_string());
    }
    let tip = repo.id("main");
    (repo, tip)
}

fn begun(source: &PackSource) -> (PackReader, Vec<u8>) {
    let mut reader = source.reader().unwrap();
    let mut beginning = vec![0; 1000];
    reader.read_exact(&mut beginning).unwrap();
    (reader, beginning)
}

#[test]
fn a_collection_of_garbage_in_the_middle_changes_nothing() {
    let lab = Lab::new();
    let (repo, tip) = held_back(&lab);
    let options = Options::default().memory(200_000).threads(Some(2));
    // Loose to packed, then packed to packed another way.
    for round in 0..3 {
        let expected = repo.referee(&[tip], &[]);
        let source = repo.source(repo.find(&[tip], &[]).unwrap(), options.clone()).unwrap();
        let (reader, beginning) = begun(&source);
        match round {
            0 => repo.git(&["gc", "-q", "--prune=now"]),
            1 => repo.git(&["repack", "-q", "-adF", "--window=3"]),
            _ => repo.git(&["repack", "-q", "-adF", "--window=0"]),
        };
        let pack = rest(reader, beginning).unwrap();
        assert_eq!(lab.init(&format!("remote{round}"), "sha1").contents(&pack), expected);
        assert!(read(&source) == pack, "{round}");
    }
}

#[test]
fn deltas_that_have_to_be_resolved_are_found_in_the_new_pack() {
    let lab = Lab::new();
    let (repo, _) = held_back(&lab);
    repo.git(&["repack", "-q", "-adf"]);
    let older = repo.ids(&["main~1"]);
    // Of an older commit nearly all blobs are deltas of what isn't sent.
    let options = Options::default().memory(100_000).threads(Some(2));
    let expected = repo.referee(&older, &[]);
    let source = repo.source(repo.find(&older, &[]).unwrap(), options).unwrap();
    assert!(source.statistics().deflated > 10, "{:?}", source.statistics());
    let (reader, beginning) = begun(&source);
    repo.git(&["repack", "-q", "-adF", "--depth=1", "--no-write-bitmap-index"]);
    repo.git(&["prune", "--expire=now"]);
    let pack = rest(reader, beginning).unwrap();
    assert_eq!(lab.init("remote", "sha1").contents(&pack), expected);
    assert!(read(&source) == pack);
}

#[test]
fn what_vanishes_is_named_and_no_pack_is_finished() {
    for packed in [false, true] {
        let lab = Lab::new();
        let (repo, _) = held_back(&lab);
        if packed {
            repo.git(&["repack", "-q", "-adf"]);
        }
        let older = repo.ids(&["main~1"]);
        let set = repo.find(&older, &[]).unwrap();
        let ids = names(&set);
        let options = Options::default().memory(100_000).threads(Some(2));
        let source = repo.source(set, options).unwrap();
        let (reader, beginning) = begun(&source);
        let objects = repo.path.join(".git/objects");
        std::fs::rename(&objects, lab.path("away")).unwrap();
        std::fs::create_dir(&objects).unwrap();
        // What is mapped or open already may suffice.
        let mut broken = Vec::new();
        for (mut reader, mut pack) in [(reader, beginning), (source.reader().unwrap(), Vec::new())] {
            match reader.read_to_end(&mut pack) {
                Ok(_) => assert_eq!(lab.init(&format!("whole{}", pack.len()), "sha1").contents(&pack), ids),
                Err(error) => {
                    let error = error.to_string();
                    assert!(ids.iter().any(|id| error.contains(id)), "{packed}: {error}");
                    broken.push(pack);
                }
            }
        }
        assert!(packed || broken.len() == 2, "loose files are not kept open");
        for pack in broken {
            let refused = lab.init("refuses", "sha1").refuses(&pack);
            assert!(refused.contains("early EOF"), "{refused}");
        }
        std::fs::remove_dir_all(&objects).unwrap();
        std::fs::rename(lab.path("away"), &objects).unwrap();
        assert_eq!(lab.init("again", "sha1").contents(&read(&source)), ids);
    }
}

#[test]
fn a_base_that_was_used_before_must_still_be_there() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    repo.write("file", text(1, 400));
    let hidden = [repo.commit("theirs")];
    repo.write("file", text(1, 410));
    let wanted = [repo.commit("ours")];
    let base = repo.id("main~1:file");
    let thin = || {
        let set = repo.find(&wanted, &hidden).unwrap();
        repo.source(set, Options::default().thin(true)).unwrap()
    };
    let (first, second) = (thin(), thin());
    let pack = read(&first);
    assert_eq!(first.statistics().fresh_thin, 1);
    let file = repo.loose(&base);
    let content = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let error = rest(first.reader().unwrap(), Vec::new()).unwrap_err();
    assert!(error.contains(&base.to_string()), "{error}");
    // One that nobody has read from yet does without, and goes on doing without.
    let without = read(&second);
    assert!(without.len() > pack.len());
    std::fs::write(&file, content).unwrap();
    assert!(read(&second) == without);
    assert!(read(&first) == pack);
}

#[test]
fn a_store_that_is_open_sees_what_repacking_under_a_multi_pack_index_did() {
    let lab = Lab::new();
    let (repo, _) = held_back(&lab);
    let older = repo.ids(&["main~1"]);
    let expected = repo.referee(&older, &[]);
    let rounds: [&[&str]; 5] = [
        &["repack", "-q", "-adf", "--write-midx", "--write-bitmap-index"],
        &[
            "repack",
            "-q",
            "-adF",
            "--write-midx",
            "--no-write-bitmap-index",
            "--depth=1",
        ],
        &["repack", "-q", "-adF", "--window=3"],
        &["repack", "-q", "-d", "--geometric=2", "--write-midx"],
        &["gc", "-q", "--prune=now"],
    ];
    repo.git(&["repack", "-q", "-adf", "--write-midx"]);
    let odb = repo.open().objects.clone().into_inner();
    let go = std::sync::atomic::AtomicBool::new(false);
    for (number, round) in rounds.into_iter().enumerate() {
        let counted = Default::default();
        let set = rgit_pack::ObjectSet::find(&odb, &older, &[], &[], &counted, &go).unwrap();
        let options = Options::default().memory(100_000).threads(Some(2));
        let source = PackSource::new(odb.clone(), std::sync::Arc::new(set), options, Default::default()).unwrap();
        let (reader, beginning) = begun(&source);
        repo.git(round);
        let pack = rest(reader, beginning).unwrap();
        assert_eq!(lab.init(&format!("remote{number}"), "sha1").contents(&pack), expected);
        assert!(read(&source) == pack, "{number}");
    }
}
