//! Repositories as git's maintenance leaves them: several packs under one index, bitmaps, alternates, chains of commit-graphs; and
//! those that lack a part: shallow and partial clones. What is sent is complete and no more than git itself would list.

use gix::ObjectId;
use rgit_pack::Options;

use crate::support::{Lab, Repo, names, text};

fn versions(repo: &Repo, numbers: std::ops::Range<u64>) {
    for number in numbers {
        repo.write("src/a.txt", text(number, 200));
        repo.write(&format!("src/deep/{}.txt", number % 5), text(number / 2, 300));
        repo.write("README", format!("version {number}\n"));
        repo.commit(&number.to_string());
    }
}

/// Pushes of various lengths, against git's list and into a repository that has what was left out.
fn check(lab: &Lab, repo: &Repo, name: &str) {
    for (number, (wanted, hidden)) in [
        ("main", ""),
        ("main", "main~1"),
        ("main", "main~7"),
        ("main~2", "main~11"),
    ]
    .into_iter()
    .enumerate()
    {
        let wanted = repo.ids(&[wanted]);
        let hidden = if hidden.is_empty() {
            Vec::new()
        } else {
            repo.ids(&[hidden])
        };
        let set = repo.find(&wanted, &hidden).unwrap();
        assert_eq!(names(&set), repo.referee(&wanted, &hidden), "{name} {number}");
        let (pack, _) = repo.pack(&wanted, &hidden, Options::default().thin(true));
        let remote = lab.init(&format!("{name}-{number}"), "sha1");
        if !hidden.is_empty() {
            remote.receive(&repo.pack(&hidden, &[], Options::default()).0, &hidden);
        }
        remote.receive(&pack, &wanted);
    }
}

#[test]
fn packs_under_a_multi_pack_index() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    for part in 0..4 {
        versions(&repo, part * 4..part * 4 + 4);
        repo.git(&["repack", "-q", "-d"]);
    }
    assert_eq!(repo.packs().len(), 4);
    let directory = repo.path.join(".git/objects/pack");
    let has = |end: &str| {
        let mut entries = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        entries.any(|name| name.to_string_lossy().ends_with(end))
    };
    repo.git(&["multi-pack-index", "write"]);
    check(&lab, &repo, "plain");
    repo.git(&["multi-pack-index", "write", "--bitmap"]);
    assert!(has(".bitmap"));
    check(&lab, &repo, "bitmap");
    repo.git(&["config", "pack.writeReverseIndex", "false"]);
    repo.git(&["repack", "-q", "-adf", "--no-write-bitmap-index"]);
    assert!(!has(".rev"));
    versions(&repo, 16..18);
    repo.git(&["repack", "-q", "-d", "--write-midx"]);
    check(&lab, &repo, "no-reverse-index");
    repo.git(&["repack", "-q", "-adf", "--write-midx", "--write-bitmap-index"]);
    versions(&repo, 18..20);
    check(&lab, &repo, "loose-on-top");
    // Newer packs than the index knows.
    repo.git(&["repack", "-q", "-d"]);
    check(&lab, &repo, "newer");
}

#[test]
fn a_chain_of_commit_graphs() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    for part in 0..4 {
        versions(&repo, part * 4..part * 4 + 4);
        let split = [
            "commit-graph",
            "write",
            "--reachable",
            "--changed-paths",
            "--split=no-merge",
        ];
        repo.git(&split);
    }
    let chain = repo.path.join(".git/objects/info/commit-graphs/commit-graph-chain");
    assert_eq!(std::fs::read_to_string(&chain).unwrap().lines().count(), 4);
    check(&lab, &repo, "chain");
    versions(&repo, 16..18);
    check(&lab, &repo, "beyond");
    // A broken chain is as good as none.
    std::fs::write(&chain, "0123456789012345678901234567890123456789\n").unwrap();
    repo.git(&["config", "core.commitGraph", "false"]);
    check(&lab, &repo, "broken");
}

#[test]
fn objects_borrowed_from_others_that_borrow_too() {
    let lab = Lab::new();
    let origin = lab.init("origin", "sha1");
    versions(&origin, 0..8);
    origin.git(&["repack", "-q", "-adf", "--write-midx", "--write-bitmap-index"]);
    origin.git(&["commit-graph", "write", "--reachable"]);
    let middle = lab.clone(&origin, "middle", &["--shared"]);
    versions(&middle, 8..12);
    middle.git(&["repack", "-q", "-d", "-l"]);
    middle.git(&["commit-graph", "write", "--reachable", "--split"]);
    let last = lab.clone(&middle, "last", &["--shared"]);
    versions(&last, 12..16);
    assert!(!last.loose(&last.id("main~14:README")).exists() && last.packs().is_empty());
    check(&lab, &last, "borrower");
}

/// All objects that are really there, without asking anybody for more.
fn present(repo: &Repo) -> std::collections::BTreeSet<String> {
    let listed = repo.git(&["cat-file", "--batch-check=%(objectname)", "--batch-all-objects"]);
    listed.lines().map(str::to_owned).collect()
}

/// A commit that changes one file, made without reading anything but trees.
fn commit_over(repo: &Repo, parent: &str, path: &str, content: &[u8]) -> ObjectId {
    let blob = repo.hash_object("blob", content);
    repo.git(&["read-tree", parent]);
    repo.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{path}")]);
    let tree = repo.git(&["write-tree", "--missing-ok"]);
    repo.git(&["commit-tree", "-m", "on top", "-p", parent, &tree])
        .parse()
        .unwrap()
}

#[test]
fn a_partial_clone_sends_what_is_new_without_what_was_promised() {
    let lab = Lab::new();
    let origin = lab.init("origin", "sha1");
    versions(&origin, 0..12);
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    origin.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let hidden = origin.ids(&["main"]);
    for (name, filter) in [
        ("blobless", "--filter=blob:none"),
        ("treeless", "--filter=tree:0"),
        ("small", "--filter=blob:limit=100"),
    ] {
        let clone = lab.clone(&origin, name, &["--no-checkout", filter]);
        let first = commit_over(&clone, "HEAD", "src/deep/new.txt", text(90, 300).as_bytes());
        let second = commit_over(&clone, &first.to_string(), "src/a.txt", text(91, 210).as_bytes());
        clone.git(&["update-ref", "refs/heads/topic", &second.to_string()]);
        let before = present(&clone);
        let absent = origin.id("main:src/a.txt").to_string();
        assert!(
            name == "small" || !before.contains(&absent),
            "{name}: the previous version isn't here"
        );
        let set = clone.find(&[second], &hidden).unwrap();
        // Each commit: itself, and the trees on the way to its file.
        let sent = names(&set);
        assert_eq!(sent.len(), 2 + (1 + 3) + (1 + 2), "{name}: {sent:?}");
        let (pack, _) = clone.pack(&[second], &hidden, Options::default().thin(true));
        assert_eq!(present(&clone), before, "{name}: nothing was asked for");
        let remote = lab.clone(&origin, &format!("remote-{name}"), &[]);
        remote.receive(&pack, &[second]);
        // Where the remote lacks what was promised by another, that is an error that names it.
        let error = match clone.find(&[second], &[]) {
            Ok(set) => clone.source(set, Options::default()).map(|_| ()).unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(error, rgit_pack::Error::Missing { .. }), "{name}: {error}");
    }
}

#[test]
fn a_shallow_clone_with_a_commit_graph_and_merges_sends_what_is_new() {
    let lab = Lab::new();
    let origin = lab.init("origin", "sha1");
    versions(&origin, 0..6);
    origin.git(&["checkout", "-q", "-b", "side", "main~3"]);
    origin.write("side", "side\n");
    origin.commit("side");
    origin.git(&["checkout", "-q", "main"]);
    origin.git(&["merge", "-q", "--no-ff", "-m", "merge", "side"]);
    versions(&origin, 6..8);
    for depth in ["1", "2", "3", "4"] {
        let shallow = lab.clone(&origin, &format!("shallow{depth}"), &[&format!("--depth={depth}")]);
        versions(&shallow, 20..23);
        shallow.git(&["repack", "-q", "-ad", "--write-midx"]);
        versions(&shallow, 23..24);
        let (wanted, hidden) = (shallow.ids(&["main"]), origin.ids(&["main", "side"]));
        let set = shallow.find(&wanted, &hidden).unwrap();
        assert_eq!(names(&set), shallow.referee(&wanted, &hidden), "{depth}");
        let (pack, _) = shallow.pack(&wanted, &hidden, Options::default().thin(true));
        let remote = lab.clone(&origin, &format!("remote{depth}"), &[]);
        remote.receive(&pack, &wanted);
    }
}
