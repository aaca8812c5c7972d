//! Packs from repositories of every shape, with git as referee over what is in them.

use crate::support::{Lab, Repo, names, noise, text};
use rgit_pack::{Base, Options};

/// A history with edits of several files in directories, an executable, a symlink, and a merge.
pub(super) fn fill(repo: &Repo, commits: u64) {
    for number in 0..commits {
        repo.write("src/a.txt", text(number, 200));
        repo.write("src/deep/er/b.txt", text(number / 2, 300));
        repo.write("README", format!("version {number}\n"));
        if number == 1 {
            std::os::unix::fs::symlink("README", repo.path.join("link")).unwrap();
        }
        repo.commit(&format!("commit {number}"));
    }
    repo.git(&["checkout", "-q", "-b", "side", "HEAD~2"]);
    repo.write("side.txt", "side\n");
    repo.commit("side");
    repo.git(&["checkout", "-q", "main"]);
    repo.git(&["merge", "-q", "--no-ff", "-m", "merge", "side"]);
}

fn check_full(lab: &Lab, repo: &Repo, format: &str, options: Options, name: &str) -> rgit_pack::Statistics {
    let wanted = repo.ids(&["main"]);
    let expected = repo.referee(&wanted, &[]);
    let (pack, statistics) = repo.pack(&wanted, &[], options);
    let remote = lab.init(name, format);
    assert_eq!(remote.contents(&pack), expected);
    remote.receive(&pack, &wanted);
    // Another reader of deltas than git.
    let read = remote.open();
    for id in &expected {
        let object = read.find_object(id.parse::<gix::ObjectId>().unwrap()).unwrap();
        let content = gix::objs::compute_hash(read.object_hash(), object.kind, &object.data).unwrap();
        assert_eq!(content.to_string(), *id);
    }
    statistics
}

#[test]
fn full_history_loose_packed_and_both_in_both_formats() {
    for format in ["sha1", "sha256"] {
        let lab = Lab::new();
        let repo = lab.init("local", format);
        fill(&repo, 12);
        let loose = check_full(&lab, &repo, format, Options::default(), "from-loose");
        assert_eq!(loose.deflated, loose.objects);
        repo.git(&["repack", "-q", "-adf", "--no-write-bitmap-index"]);
        repo.git(&["prune-packed"]);
        let packed = check_full(&lab, &repo, format, Options::default(), "from-pack");
        assert!(packed.deltas > 10 && packed.deflated == 0, "{packed:?}");
        let named = check_full(&lab, &repo, format, Options::default().offset_deltas(false), "by-id");
        assert_eq!(named.deltas, packed.deltas);
        repo.git(&["repack", "-q", "-adfb"]);
        check_full(&lab, &repo, format, Options::default(), "from-bitmapped");
        repo.write("src/a.txt", "new\n");
        repo.commit("loose on top");
        let mixed = check_full(&lab, &repo, format, Options::default().threads(Some(3)), "from-both");
        assert!(mixed.deflated >= 4 && mixed.deltas > 10, "{mixed:?}");
        repo.git(&["commit-graph", "write", "--reachable"]);
        check_full(&lab, &repo, format, Options::default().compression(0), "with-graph");
        repo.git(&["repack", "-q", "-d"]);
        repo.git(&["multi-pack-index", "write"]);
        check_full(
            &lab,
            &repo,
            format,
            Options::default().compression(9),
            "with-multi-pack-index",
        );
    }
}

#[test]
fn what_the_remote_has_is_left_out() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    fill(&repo, 12);
    for packed in [false, true] {
        if packed {
            repo.git(&["repack", "-q", "-adf", "--no-write-bitmap-index"]);
        }
        for (wanted, hidden) in [
            ("main", "main~1"),
            ("main", "main~5"),
            ("side", "main~3"),
            ("main", "side"),
        ] {
            let (wanted, hidden) = (repo.ids(&[wanted]), repo.ids(&[hidden]));
            let set = repo.find(&wanted, &hidden).unwrap();
            assert_eq!(names(&set), repo.referee(&wanted, &hidden), "{wanted:?} {hidden:?}");
            for thin in [false, true] {
                let (pack, _) = repo.pack(&wanted, &hidden, Options::default().thin(thin));
                let remote = lab.init(&format!("remote-{packed}-{thin}-{}-{}", wanted[0], hidden[0]), "sha1");
                let (first, _) = repo.pack(&hidden, &[], Options::default());
                remote.receive(&first, &hidden);
                remote.receive(&pack, &wanted);
                if !thin {
                    assert_eq!(remote.contents(&pack), repo.referee(&wanted, &hidden));
                }
            }
        }
    }
}

#[test]
fn nothing_to_send_is_a_valid_pack_of_no_objects() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    fill(&repo, 3);
    for (wanted, hidden) in [("main", "main"), ("main~1", "main")] {
        let (wanted, hidden) = (repo.ids(&[wanted]), repo.ids(&[hidden]));
        assert!(repo.find(&wanted, &hidden).unwrap().is_empty());
        let (pack, statistics) = repo.pack(&wanted, &hidden, Options::default());
        assert_eq!((pack.len(), statistics.objects), (32, 0));
        assert_eq!(&pack[..12], b"PACK\0\0\0\x02\0\0\0\0");
        assert!(
            lab.init(&format!("remote-{}", wanted[0]), "sha1")
                .contents(&pack)
                .is_empty()
        );
    }
}

#[test]
fn tags_of_everything_and_tips_the_remote_has_or_that_are_not_here() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    fill(&repo, 4);
    repo.git(&["tag", "-a", "-m", "commit", "of-commit", "main~1"]);
    repo.git(&["tag", "-a", "-m", "tag", "of-tag", "of-commit"]);
    repo.git(&["tag", "-a", "-m", "tree", "of-tree", "main~2^{tree}"]);
    let blob = repo.hash_object("blob", b"reached by a tag only");
    repo.git(&["tag", "-a", "-m", "blob", "of-blob", &blob.to_string()]);
    repo.git(&["tag", "bare-tree", "main^{tree}"]);
    repo.git(&["tag", "bare-blob", "main:README"]);
    let all = [
        "main",
        "of-commit",
        "of-tag",
        "of-tree",
        "of-blob",
        "bare-tree",
        "bare-blob",
    ];
    let absent = gix::ObjectId::from_hex(b"1234567812345678123456781234567812345678").unwrap();

    let wanted = repo.ids(&all);
    let set = repo.find(&wanted, &[absent]).unwrap();
    assert_eq!(names(&set), repo.referee(&wanted, &[]));
    let (pack, _) = repo.pack(&wanted, &[absent], Options::default());
    lab.init("remote", "sha1").receive(&pack, &wanted);

    for hidden in [
        &["of-tag"][..],
        &["of-tree", "of-blob"],
        &["bare-tree"],
        &["bare-blob", "of-commit"],
        &["main"],
    ] {
        let hidden_ids = repo.ids(hidden);
        let set = names(&repo.find(&wanted, &hidden_ids).unwrap());
        let referee = repo.referee(&wanted, &hidden_ids);
        assert!(set.is_subset(&referee), "{hidden:?}: {:?}", set.difference(&referee));
        let remote = lab.init(&format!("remote-{}", hidden[0]), "sha1");
        let (first, _) = repo.pack(&hidden_ids, &[], Options::default());
        remote.receive(&first, &hidden_ids);
        let (pack, _) = repo.pack(&wanted, &hidden_ids, Options::default().thin(true));
        remote.receive(&pack, &wanted);
    }
    // The tag chain stops where the remote has it.
    let set = repo.find(&repo.ids(&["of-tag"]), &repo.ids(&["of-commit"])).unwrap();
    assert_eq!(names(&set), [repo.id("of-tag").to_string()].into());
}

#[test]
fn renames_copies_and_reverts_send_no_content_again() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    for number in 0..20 {
        repo.write(&format!("dir{}/file{number}", number % 4), text(number, 50));
    }
    repo.write("kept/deep/file", "kept\n");
    let base = repo.commit("base");
    repo.git(&["mv", "dir1", "moved"]);
    repo.git(&["mv", "dir2/file2", "kept/renamed"]);
    repo.write("copy", text(3, 50));
    let moved = repo.commit("moved");
    repo.git(&["revert", "-n", "HEAD"]);
    let reverted = repo.commit("reverted");
    for wanted in [moved, reverted] {
        let set = repo.find(&[wanted], &[base]).unwrap();
        assert_eq!(names(&set), repo.referee(&[wanted], &[base]));
    }
    let (pack, statistics) = repo.pack(&[reverted], &[base], Options::default());
    assert_eq!(
        statistics.objects, 5,
        "two commits, and three trees of the first: its root, kept, dir2"
    );
    let remote = lab.init("remote", "sha1");
    remote.receive(&repo.pack(&[base], &[], Options::default()).0, &[base]);
    remote.receive(&pack, &[reverted]);
}

#[test]
fn submodule_commits_stay_where_they_are() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    repo.write("file", "content\n");
    let elsewhere = "1234567812345678123456781234567812345678";
    let entry = format!("160000,{elsewhere},sub");
    repo.git(&["update-index", "--add", "--cacheinfo", &entry]);
    repo.git(&["add", "file"]);
    repo.git(&["commit", "-q", "-m", "with a submodule"]);
    let first = repo.id("HEAD");
    repo.git(&["rm", "-q", "--cached", "sub"]);
    repo.write("sub/inside", "now a directory\n");
    let second = repo.commit("directory in its place");
    for (wanted, hidden) in [(first, vec![]), (second, vec![first]), (second, vec![])] {
        let set = repo.find(&[wanted], &hidden).unwrap();
        assert_eq!(names(&set), repo.referee(&[wanted], &hidden));
        assert!(!names(&set).contains(elsewhere));
    }
    let remote = lab.init("remote", "sha1");
    remote.receive(&repo.pack(&[second], &[], Options::default()).0, &[second]);
}

#[test]
fn a_shallow_clone_sends_what_it_has() {
    let lab = Lab::new();
    let origin = lab.init("origin", "sha1");
    fill(&origin, 8);
    let shallow = lab.clone(&origin, "shallow", &["--depth=2", "--no-single-branch"]);
    shallow.write("src/a.txt", "changed in the shallow clone\n");
    let tip = shallow.commit("on top");
    let hidden = origin.ids(&["main", "side"]);
    let set = shallow.find(&[tip], &hidden).unwrap();
    assert_eq!(names(&set), shallow.referee(&[tip], &hidden));
    assert_eq!(set.len(), 4, "commit, root, src, a.txt");
    let (pack, _) = shallow.pack(&[tip], &hidden, Options::default().thin(true));
    origin.receive(&pack, &[tip]);
    // To a remote that has nothing, all that is here goes: that much is known to be cut off.
    let all = shallow.find(&[tip], &[]).unwrap();
    assert_eq!(names(&all), shallow.referee(&[tip], &[]));
}

#[test]
fn previous_versions_and_name_hashes_are_recorded() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    repo.write("src/a b.txt", "1\n");
    let first = repo.commit("1");
    repo.write("src/a b.txt", "2\n");
    repo.commit("2");
    repo.write("src/a b.txt", "3\n");
    let third = repo.commit("3");
    let set = repo.find(&[third], &[first]).unwrap();
    let newest = set.position(&repo.id("HEAD:src/a b.txt")).unwrap();
    let middle = set.position(&repo.id("HEAD~1:src/a b.txt")).unwrap();
    let oldest = repo.id("HEAD~2:src/a b.txt");
    assert_eq!(set.previous(newest), Some(Base::Sent(middle)));
    assert_eq!(set.previous(middle), Some(Base::Remote(&oldest)));
    assert!(set.on_remote(&oldest));
    // Git's own figure, from `pack-objects`' name hash of "src/a b.txt".
    let expected = b"src/ab.txt"
        .iter()
        .fold(0u32, |hash, &byte| (hash >> 2).wrapping_add(u32::from(byte) << 24));
    assert_eq!(set.entry(newest).name_hash, expected);
    assert_eq!(set.entry(0).id, &*third, "newest commit first");
}

#[test]
fn a_delta_whose_base_is_neither_sent_nor_on_the_remote_goes_whole() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    for number in 0..12 {
        repo.write("file.txt", text(number, 400));
        repo.commit(&number.to_string());
    }
    repo.git(&["repack", "-q", "-adf", "--depth=50", "--window=50"]);
    // Git stores older versions as deltas of newer ones, which neither this push nor this remote includes.
    let (wanted, hidden) = (repo.ids(&["main~4"]), repo.ids(&["main~7"]));
    for thin in [false, true] {
        let (pack, statistics) = repo.pack(&wanted, &hidden, Options::default().thin(thin));
        assert!(statistics.deflated > 0, "{statistics:?}");
        let remote = lab.init(&format!("remote-{thin}"), "sha1");
        remote.receive(&repo.pack(&hidden, &[], Options::default()).0, &hidden);
        remote.receive(&pack, &wanted);
    }
}

#[test]
fn a_thin_delta_uses_a_base_the_remote_has() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    repo.write("file.txt", text(0, 2000));
    let old = repo.commit("old");
    repo.write("file.txt", text(0, 1900));
    let new = repo.commit("new");
    // Git prefers the larger as base, here the old version; so the new one is stored as a delta of it.
    repo.git(&["repack", "-q", "-adf"]);
    let (reused, statistics) = repo.pack(&[new], &[old], Options::default().thin(true).depth(0));
    assert_eq!((statistics.thin, statistics.fresh_thin), (1, 0), "{statistics:?}");
    let (thin, statistics) = repo.pack(&[new], &[old], Options::default().thin(true));
    assert_eq!((statistics.thin, statistics.fresh_thin), (0, 1), "{statistics:?}");
    let (whole, statistics) = repo.pack(&[new], &[old], Options::default());
    assert_eq!((statistics.thin, statistics.deltas, statistics.fresh_thin), (0, 0, 0));
    assert!(thin.len() <= reused.len(), "{} {}", thin.len(), reused.len());
    assert!(thin.len() < whole.len() / 4, "{} {}", thin.len(), whole.len());
    let remote = lab.init("remote", "sha1");
    remote.receive(&repo.pack(&[old], &[], Options::default()).0, &[old]);
    remote.receive(&thin, &[new]);
}

#[test]
fn deltas_in_two_packs_that_are_each_others_base_make_no_cycle() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    let a = text(1, 900);
    let b = text(2, 900);
    let (first, second) = (
        repo.hash_object("blob", a.as_bytes()),
        repo.hash_object("blob", b.as_bytes()),
    );
    let tree = format!("100644 blob {first}\ta\n100644 blob {second}\tb\n");
    let tree = String::from_utf8(repo.git_with(&["mktree"], tree.as_bytes())).unwrap();
    let commit = repo.git(&["commit-tree", "-m", "both", tree.trim()]);
    repo.git(&["update-ref", "refs/heads/main", &commit]);
    // Two packs, each with one blob whole and the other as a delta of it, then an index over both that picks the deltas.
    let pack = |base: gix::ObjectId, delta: gix::ObjectId| {
        let header = |kind: u8, size: usize| {
            let mut out = Vec::new();
            let mut byte = (kind << 4) | (size & 15) as u8;
            let mut rest = size >> 4;
            while rest > 0 {
                out.push(byte | 0x80);
                byte = (rest & 0x7f) as u8;
                rest >>= 7;
            }
            out.push(byte);
            out
        };
        let zlib = |bytes: &[u8]| {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            std::io::Write::write_all(&mut encoder, bytes).unwrap();
            encoder.finish().unwrap()
        };
        let content = |id| repo.git_with(&["cat-file", "blob", &format!("{id}")], b"");
        let (base_bytes, delta_bytes) = (content(base), content(delta));
        let varint = |mut size: usize| {
            let mut out = Vec::new();
            while size > 0x7f {
                out.push((size & 0x7f) as u8 | 0x80);
                size >>= 7;
            }
            out.push(size as u8);
            out
        };
        let mut instructions = [varint(base_bytes.len()), varint(delta_bytes.len())].concat();
        for part in delta_bytes.chunks(127) {
            instructions.push(part.len() as u8);
            instructions.extend_from_slice(part);
        }
        let mut out = b"PACK\0\0\0\x02\0\0\0\x02".to_vec();
        out.extend(header(3, base_bytes.len()));
        out.extend(zlib(&base_bytes));
        out.extend(header(7, instructions.len()));
        out.extend_from_slice(base.as_slice());
        out.extend(zlib(&instructions));
        let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
        hasher.update(&out);
        out.extend_from_slice(hasher.try_finalize().unwrap().as_slice());
        out
    };
    for (base, delta) in [(first, second), (second, first)] {
        repo.git_with(&["index-pack", "--stdin"], &pack(base, delta));
    }
    repo.git(&["prune-packed"]);
    assert!(!repo.loose(&first).exists() && !repo.loose(&second).exists());
    // Whichever pack each blob is taken from, what arrives is complete.
    let wanted = repo.ids(&["main"]);
    let (pack, _) = repo.pack(&wanted, &[], Options::default());
    lab.init("remote", "sha1").receive(&pack, &wanted);
}

#[test]
fn duplicates_in_several_packs_and_alternates_are_sent_once() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    fill(&repo, 6);
    repo.git(&["repack", "-q", "-adf"]);
    repo.git(&["pack-objects", "-q", "--all", "--window=0", ".git/objects/pack/pack"]);
    assert_eq!(repo.packs().len(), 2);
    check_full(&lab, &repo, "sha1", Options::default(), "from-two");
    let borrower = lab.clone(&repo, "borrower", &["--shared"]);
    assert!(borrower.packs().is_empty());
    borrower.write("own", "own\n");
    borrower.commit("own");
    let statistics = check_full(&lab, &borrower, "sha1", Options::default(), "from-borrower");
    assert_eq!(statistics.deflated, 3, "commit, tree and blob of its own");
}

#[test]
fn large_and_incompressible_objects_pass_through_small_windows() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    repo.write("noise", noise(7, 3_000_000));
    repo.write("text", text(1, 60_000));
    repo.write("empty", "");
    repo.write("more-noise", noise(8, 70_000));
    repo.commit("large");
    repo.write("text", text(2, 60_000));
    repo.commit("large again");
    let options = Options::default().memory(100_000).threads(Some(4));
    let statistics = check_full(&lab, &repo, "sha1", options.clone(), "from-loose");
    assert_eq!(statistics.stored, 2, "{statistics:?}");
    assert!(statistics.bytes_deflated > 7_000_000);
    repo.git(&["repack", "-q", "-adf"]);
    let statistics = check_full(&lab, &repo, "sha1", options.clone(), "from-pack");
    assert!(statistics.deltas >= 1 && statistics.deflated == 0, "{statistics:?}");
    // Only the older text, which is a delta of the newer: resolved in memory although larger than the window.
    let wanted = repo.ids(&["main~1"]);
    let (pack, statistics) = repo.pack(&wanted, &[], options);
    assert!(statistics.deflated >= 1, "{statistics:?}");
    lab.init("older", "sha1").receive(&pack, &wanted);
}

#[test]
fn the_empty_tree_need_not_be_stored() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    let commit = repo.git(&["commit-tree", "-m", "empty", "4b825dc642cb6eb9a060e54bf8d69288fbee4904"]);
    let wanted = repo.ids(&[&commit]);
    let (pack, statistics) = repo.pack(&wanted, &[], Options::default());
    assert_eq!(statistics.objects, 2);
    lab.init("remote", "sha1").receive(&pack, &wanted);
}

#[test]
fn replacements_do_not_leak() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    fill(&repo, 3);
    let wanted = repo.ids(&["main"]);
    let before = repo.pack(&wanted, &[], Options::default()).0;
    let other = repo.hash_object("blob", b"something else");
    repo.git(&["replace", "-f", &repo.id("main:README").to_string(), &other.to_string()]);
    assert!(repo.pack(&wanted, &[], Options::default()).0 == before);
}
