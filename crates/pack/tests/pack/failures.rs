//! What can't be sent, and readers that are interrupted, dropped or outlive a repack.

use std::{
    io::Read,
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
};

use crate::{
    packs::fill,
    support::{Lab, read, text},
};
use rgit_pack::{Error, Options, PackSource, Stages};

/// The error in a reader's `io::Error`.
fn failure(source: &PackSource) -> String {
    let mut reader = source.reader().unwrap();
    let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
    let again = reader.read(&mut [0; 10]).unwrap_err();
    assert!(
        matches!(again.get_ref().unwrap().downcast_ref(), Some(Error::Ended)),
        "never takes an error for the end"
    );
    error.get_ref().unwrap().downcast_ref::<Error>().unwrap().to_string()
}

fn damage(path: &std::path::Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x55;
    let _ = std::fs::remove_file(path);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn missing_and_damaged_objects_are_named() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    repo.write("a", text(1, 100));
    repo.write("b", text(2, 100));
    repo.write("dir/c", "c\n");
    let first = repo.commit("1");
    repo.write("a", text(3, 100));
    let second = repo.commit("2");
    let blob = repo.id("HEAD:a");
    let hide = |id: &gix::ObjectId| {
        let path = repo.loose(id);
        let away = path.with_extension("away");
        std::fs::rename(&path, &away).unwrap();
        move || std::fs::rename(&away, &path).unwrap()
    };

    let back = hide(&blob);
    let set = repo.find(&[second], &[]).unwrap();
    let error = repo.source(set, Options::default()).unwrap_err();
    assert!(matches!(&error, Error::Missing { id, .. } if *id == blob), "{error}");
    back();
    for id in [repo.id("HEAD^{tree}"), repo.id("HEAD:dir"), first, second] {
        let back = hide(&id);
        let error = repo.find(&[second], &[]).unwrap_err();
        assert!(
            matches!(&error, Error::Missing { id: missing, .. } if *missing == id),
            "{error}"
        );
        assert!(error.to_string().contains(&id.to_string()));
        back();
    }
    // What the remote has need not be here.
    let back = hide(&repo.id("HEAD:dir"));
    assert_eq!(repo.find(&[second], &[first]).unwrap().len(), 3);
    back();

    let loose = repo.loose(&blob);
    let length = std::fs::metadata(&loose).unwrap().len() as usize;
    for at in [0, length / 2, length - 1] {
        damage(&loose, at);
        let set = repo.find(&[second], &[first]).unwrap();
        let message = failure(&repo.source(set, Options::default()).unwrap());
        assert!(message.contains(&blob.to_string()), "{message}");
        damage(&loose, at);
    }
    let tree = repo.id("HEAD^{tree}");
    damage(&repo.loose(&tree), 10);
    let message = repo.find(&[second], &[first]).unwrap_err().to_string();
    assert!(message.contains(&tree.to_string()), "{message}");
    damage(&repo.loose(&tree), 10);

    repo.git(&["repack", "-q", "-adf"]);
    let pack = repo.packs().pop().unwrap();
    let verified = repo.git(&["verify-pack", "-v", pack.to_str().unwrap()]);
    let line = verified
        .lines()
        .find(|line| line.starts_with(&blob.to_string()))
        .unwrap();
    let fields: Vec<usize> = line
        .split_whitespace()
        .skip(2)
        .take(3)
        .map(|field| field.parse().unwrap())
        .collect();
    let (packed_size, offset) = (fields[1], fields[2]);
    damage(&pack, offset + packed_size - 2);
    let set = repo.find(&[second], &[]).unwrap();
    let message = failure(&repo.source(set, Options::default()).unwrap());
    assert!(message.contains(&blob.to_string()), "{message}");

    let repo_odb = || repo.open().objects.clone().into_inner();
    let set = Arc::new(repo.find(&[first], &[]).unwrap());
    let error = PackSource::new(repo_odb(), set, Options::default().compression(10), Arc::default()).unwrap_err();
    assert!(matches!(error, Error::Level { level: 10 }));
}

#[test]
fn objects_of_another_type_than_their_tree_entry_says_are_refused() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    let blob = repo.hash_object("blob", b"not a tree");
    let mut tree = b"40000 dir\0".to_vec();
    tree.extend_from_slice(blob.as_slice());
    let output = repo.git_with(&["hash-object", "-w", "--literally", "-t", "tree", "--stdin"], &tree);
    let tree: gix::ObjectId = String::from_utf8(output).unwrap().trim().parse().unwrap();
    let error = repo.find(&[tree], &[]).unwrap_err();
    assert!(matches!(error, Error::WrongKind { id, .. } if id == blob), "{error}");

    let inner = repo.git_with(&["mktree"], format!("100644 blob {blob}\tfile\n").as_bytes());
    let inner: gix::ObjectId = String::from_utf8(inner).unwrap().trim().parse().unwrap();
    let mut as_blob = b"100644 file\0".to_vec();
    as_blob.extend_from_slice(inner.as_slice());
    let output = repo.git_with(&["hash-object", "-w", "--literally", "-t", "tree", "--stdin"], &as_blob);
    let tree: gix::ObjectId = String::from_utf8(output).unwrap().trim().parse().unwrap();
    let set = repo.find(&[tree], &[]).unwrap();
    let message = failure(&repo.source(set, Options::default()).unwrap());
    assert!(message.contains(&inner.to_string()), "{message}");
    let cut = repo.git_with(
        &["hash-object", "-w", "--literally", "-t", "tree", "--stdin"],
        b"100644 fi",
    );
    let cut: gix::ObjectId = String::from_utf8(cut).unwrap().trim().parse().unwrap();
    assert!(matches!(repo.find(&[cut], &[]).unwrap_err(), Error::Corrupt { id, .. } if id == cut));
}

#[test]
fn a_repack_between_two_readers_changes_nothing() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    fill(&repo, 6);
    repo.git(&["repack", "-q", "-d"]);
    repo.write("README", "loose\n");
    repo.commit("loose");
    let set = repo.find(&repo.ids(&["main"]), &[]).unwrap();
    let source = repo.source(set, Options::default()).unwrap();
    let before = read(&source);
    repo.git(&["repack", "-q", "-adf", "--window=0"]);
    repo.git(&["prune-packed"]);
    assert!(read(&source) == before);
}

#[test]
fn interrupting_and_dropping_end_all_threads() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    for number in 0..60 {
        repo.write(&format!("text{number}"), format!("{number}{}", text(number, 6_000)));
    }
    let tip = repo.commit("much to deflate");
    let interrupt = Arc::new(AtomicBool::new(false));
    let odb = repo.open().objects.clone().into_inner();
    let set = Arc::new(repo.find(&[tip], &[]).unwrap());
    let stages = Stages::default();
    let source = PackSource::new(
        odb.clone(),
        set.clone(),
        Options::default().threads(Some(3)),
        interrupt.clone(),
    )
    .unwrap()
    .watched(stages.clone());
    // Dropping joins the threads: the only other owners of the object set are then gone.
    let mut reader = source.reader().unwrap();
    reader.read_exact(&mut [0; 1000]).unwrap();
    drop(reader);
    drop(source.reader().unwrap());
    drop(source);
    assert_eq!(Arc::strong_count(&set), 1, "no thread holds on to the source");

    let source = PackSource::new(odb.clone(), set.clone(), Options::default(), interrupt.clone()).unwrap();
    let source = source.watched(stages.clone());
    let mut reader = source.reader().unwrap();
    reader.read_exact(&mut [0; 1000]).unwrap();
    interrupt.store(true, Ordering::Relaxed);
    let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
    assert!(matches!(
        error.get_ref().unwrap().downcast_ref(),
        Some(Error::Interrupted)
    ));
    assert_ne!(
        error.kind(),
        std::io::ErrorKind::Interrupted,
        "which readers would answer by calling again"
    );
    let done = stages.writing.load(Ordering::Relaxed);
    assert!(done < set.len(), "{done}");
    drop(reader);
    let counted = Default::default();
    let found = rgit_pack::ObjectSet::find(&odb, &[tip], &[], &[], &counted, &interrupt);
    assert!(matches!(found, Err(Error::Interrupted)));
    let planned = PackSource::new(odb, set.clone(), Options::default(), interrupt.clone());
    assert!(matches!(planned, Err(Error::Interrupted)));

    interrupt.store(false, Ordering::Relaxed);
    let pack = read(&source);
    assert_eq!(stages.writing.load(Ordering::Relaxed), set.len());
    assert_eq!(stages.compressing.load(Ordering::Relaxed), set.len());
    assert_eq!(stages.bytes.load(Ordering::Relaxed), pack.len());
}
