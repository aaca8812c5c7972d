//! Fresh deltas: against which base, within which bounds, and what happens when a base can't be read.

use rgit_pack::{Options, PackSource, Search};

use crate::support::{Lab, Repo, names, noise, read, text};

/// `versions` commits, each with one line of a file changed and the file a little longer.
fn versions(repo: &Repo, versions: u64) {
    for number in 0..versions {
        let mut content = text(7, 400);
        content.insert_str(0, &format!("version {number}\n"));
        content += &text(number + 100, number as usize);
        repo.write("src/file.txt", content);
        repo.commit(&number.to_string());
    }
}

fn failure(source: &PackSource) -> String {
    let mut reader = source.reader().unwrap();
    let error = std::io::Read::read_to_end(&mut reader, &mut Vec::new()).unwrap_err();
    format!(
        "{error}: {:?}",
        error.get_ref().unwrap().source().map(ToString::to_string)
    )
}

#[test]
fn versions_of_a_path_become_deltas_of_each_other() {
    for format in ["sha1", "sha256"] {
        let lab = Lab::new();
        let repo = lab.init("local", format);
        versions(&repo, 12);
        let wanted = repo.ids(&["main"]);
        let remote = lab.init("remote", format);
        for search in [Search::NewPaths, Search::Everything] {
            let (pack, statistics) = repo.pack(&wanted, &[], Options::default().search(search));
            assert_eq!(remote.contents(&pack), repo.referee(&wanted, &[]));
            assert!(statistics.fresh_deltas >= 11, "{search:?} {statistics:?}");
            let (whole, _) = repo.pack(&wanted, &[], Options::default().depth(0));
            assert!(
                pack.len() * 2 < whole.len(),
                "{search:?} {} {}",
                pack.len(),
                whole.len()
            );
        }
    }
}

#[test]
fn chains_are_as_long_as_the_depth_allows_and_no_longer() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    versions(&repo, 20);
    let wanted = repo.ids(&["main"]);
    let remote = lab.init("remote", "sha1");
    for search in [Search::NewPaths, Search::Everything] {
        for depth in [1usize, 2, 5, 16] {
            let options = Options::default().depth(depth).search(search);
            let (pack, statistics) = repo.pack(&wanted, &[], options);
            assert_eq!(remote.contents(&pack), repo.referee(&wanted, &[]));
            assert!(statistics.fresh_deltas > 0);
            let listed = remote.git(&["verify-pack", "-v", "checked.idx"]);
            let depths = listed
                .lines()
                .filter_map(|line| line.split_whitespace().nth(5)?.parse::<usize>().ok());
            let deepest = depths.max().unwrap();
            // A search may find better bases than the longest chain has.
            let least = if search == Search::NewPaths {
                depth.div_ceil(2)
            } else {
                1
            };
            assert!((least..=depth).contains(&deepest), "{search:?} {depth}: {deepest}");
        }
    }
}

#[test]
fn a_path_that_goes_back_and_forth_makes_no_cycle() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    for number in 0..9 {
        repo.write("file.txt", text([1, 2, 1, 2, 3, 1, 3, 2, 1][number], 300));
        repo.commit(&number.to_string());
    }
    let wanted = repo.ids(&["main"]);
    let (pack, statistics) = repo.pack(&wanted, &[], Options::default());
    assert_eq!(lab.init("remote", "sha1").contents(&pack), repo.referee(&wanted, &[]));
    assert!(statistics.fresh_deltas >= 2, "{statistics:?}");
}

#[test]
fn a_push_of_little_prefers_fresh_deltas_to_stored_ones() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    versions(&repo, 12);
    let (wanted, hidden) = (repo.ids(&["main"]), repo.ids(&["main~3"]));
    let (loose, _) = repo.pack(&wanted, &hidden, Options::default().thin(true));
    repo.git(&["repack", "-q", "-adf", "--no-write-bitmap-index"]);
    let (packed, statistics) = repo.pack(&wanted, &hidden, Options::default().thin(true));
    assert!(statistics.fresh_thin > 0 && statistics.deltas == 0, "{statistics:?}");
    // The commits are copied as git deflated them.
    assert!(
        packed.len().abs_diff(loose.len()) < 20,
        "{} {}",
        packed.len(),
        loose.len()
    );
    let remote = lab.init("remote", "sha1");
    remote.receive(&repo.pack(&hidden, &[], Options::default()).0, &hidden);
    remote.receive(&packed, &wanted);
}

/// Text without anything in common but its letters.
fn unrelated(seed: u64, bytes: usize) -> String {
    noise(seed, bytes / 2)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn what_no_delta_makes_shorter_is_copied_as_it_lies_in_its_pack() {
    for files in [3, 4_500u64] {
        let lab = Lab::new();
        let repo = lab.init("local", "sha1");
        let mut stream = String::new();
        for commit in 1..3u64 {
            stream += "commit refs/heads/main\ncommitter C <c@example.com> 1700000000 +0000\ndata 0\n";
            let blobs = [("small", 20_000), ("large", 3_000_000)];
            for (name, bytes) in blobs {
                stream += &format!("M 644 inline {name}\ndata {bytes}\n{}\n", unrelated(commit, bytes));
            }
            for number in (0..files).filter(|_| commit == 1) {
                stream += &format!("M 644 inline other/{number}\ndata 8\n{number:8}\n");
            }
        }
        repo.git_with(&["fast-import", "--quiet"], stream.as_bytes());
        // Deflated less well than would be done here.
        repo.git(&[
            "-c",
            "pack.compression=1",
            "repack",
            "-q",
            "-adF",
            "--no-write-bitmap-index",
        ]);
        // Length deflated, and offset.
        let entry = |repo: &Repo, id: &str| {
            let indices: Vec<_> = repo.packs().iter().map(|pack| pack.with_extension("idx")).collect();
            let listed = indices
                .iter()
                .map(|index| repo.git(&["verify-pack", "-v", index.to_str().unwrap()]));
            let lines: Vec<String> = listed
                .flat_map(|listed| listed.lines().map(str::to_owned).collect::<Vec<_>>())
                .collect();
            let line = lines.iter().find(|line| line.starts_with(id)).unwrap();
            let fields: Vec<usize> = line
                .split_whitespace()
                .skip(3)
                .map(|field| field.parse().unwrap())
                .collect();
            (fields[0], fields[1])
        };
        let (wanted, hidden) = (repo.ids(&["main"]), repo.ids(&["main~1"]));
        let remote = lab.init("remote", "sha1");
        remote.receive(&repo.pack(&hidden, &[], Options::default()).0, &hidden);
        let (pack, statistics) = repo.pack(&wanted, &hidden, Options::default().thin(true));
        assert!(statistics.kept >= 2, "{statistics:?}");
        remote.receive(&pack, &wanted);
        for name in ["main:small", "main:large"] {
            let id = repo.id(name).to_string();
            assert_eq!(entry(&remote, &id).0, entry(&repo, &id).0, "{name}");
        }
        // And never damaged bytes.
        let id = repo.id("main:small");
        let (length, offset) = entry(&repo, &id.to_string());
        let pack = repo.packs()[0].clone();
        let mut bytes = std::fs::read(&pack).unwrap();
        bytes[offset + length - 2] ^= 1;
        std::fs::remove_file(&pack).unwrap();
        std::fs::write(&pack, bytes).unwrap();
        let set = repo.find(&wanted, &hidden).unwrap();
        let message = failure(&repo.source(set, Options::default().thin(true)).unwrap());
        assert!(message.contains(&id.to_string()), "{message}");
    }
}

#[test]
fn a_new_file_finds_its_like_on_the_remote() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    for number in 0..30 {
        repo.write(
            &format!("old/part{number}/module.txt"),
            text(number * 31, 300) + &noise_text(number),
        );
    }
    let hidden = [repo.commit("base")];
    repo.write(
        "new/part/module.txt",
        text(31 * 3, 300) + "one more line\n" + &noise_text(3),
    );
    let wanted = [repo.commit("copied and changed")];
    let (thin, statistics) = repo.pack(&wanted, &hidden, Options::default().thin(true));
    assert!(statistics.fresh_thin >= 1, "{statistics:?}");
    let (plain, _) = repo.pack(&wanted, &hidden, Options::default().thin(true).window(0));
    assert!(thin.len() < plain.len(), "{} {}", thin.len(), plain.len());
    let remote = lab.init("remote", "sha1");
    remote.receive(&repo.pack(&hidden, &[], Options::default()).0, &hidden);
    remote.receive(&thin, &wanted);
}

fn noise_text(seed: u64) -> String {
    noise(seed, 600).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn large_objects_go_whole_or_one_at_a_time() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    for number in 0..3u64 {
        for name in ["a", "b"] {
            let mut content = noise(name.len() as u64 + number / 9, 3_000_000);
            content[1_000_000 + number as usize] ^= 0xff;
            repo.write(name, [name.as_bytes(), &content].concat());
        }
        repo.commit(&number.to_string());
    }
    let wanted = repo.ids(&["main"]);
    let remote = lab.init("remote", "sha1");
    let little = Options::default().memory(100_000).threads(Some(3));
    let (pack, statistics) = repo.pack(&wanted, &[], little.clone());
    assert_eq!(remote.contents(&pack), repo.referee(&wanted, &[]));
    assert!(pack.len() < 6_500_000, "{} {statistics:?}", pack.len());
    let (whole, statistics) = repo.pack(&wanted, &[], little.big_file_threshold(1_000_000));
    assert!(whole.len() > 17_000_000, "{} {statistics:?}", whole.len());
    assert_eq!(remote.contents(&whole), repo.referee(&wanted, &[]));
}

#[test]
fn a_damaged_base_is_an_error_and_an_absent_one_is_done_without() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    versions(&repo, 2);
    let (wanted, hidden) = (repo.ids(&["main"]), repo.ids(&["main~1"]));
    let base = repo.id("main~1:src/file.txt");
    let file = repo.loose(&base);
    let intact = std::fs::read(&file).unwrap();
    let thin = Options::default().thin(true);
    let source = |options| repo.source(repo.find(&wanted, &hidden).unwrap(), options).unwrap();
    let pack = read(&source(thin.clone()));

    let mut damaged = intact.clone();
    damaged.truncate(damaged.len() / 2);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, &damaged).unwrap();
    let message = failure(&source(thin.clone()));
    assert!(message.contains(&base.to_string()), "{message}");

    std::fs::remove_file(&file).unwrap();
    let without = read(&source(thin.clone()));
    assert!(without.len() > pack.len());
    std::fs::write(&file, &intact).unwrap();
    let remote = lab.init("remote", "sha1");
    remote.receive(&repo.pack(&hidden, &[], Options::default()).0, &hidden);
    remote.receive(&without, &wanted);
}

#[test]
fn the_same_bytes_whatever_the_threads() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    for number in 0..150u64 {
        repo.write(
            &format!("d{}/file{}.txt", number % 7, number % 40),
            text(number, 200 + number as usize),
        );
        if number % 10 == 9 {
            repo.commit(&number.to_string());
        }
    }
    let tips = repo.ids(&["main"]);
    for search in [Search::NewPaths, Search::Everything] {
        let pack = |threads, memory| {
            let options = Options::default().search(search).threads(Some(threads)).memory(memory);
            read(&repo.source(repo.find(&tips, &[]).unwrap(), options).unwrap())
        };
        let one = pack(1, 24 << 20);
        for threads in [2, 4, 4, 8] {
            assert!(pack(threads, 24 << 20) == one, "{search:?} {threads}");
        }
        assert_eq!(
            lab.init(&format!("{search:?}"), "sha1").contents(&one),
            names(&repo.find(&tips, &[]).unwrap())
        );
    }
}

#[test]
fn what_was_asked_for_in_vain_tells_what_the_remote_has() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    repo.write("there", text(10, 30));
    let asked = repo.commit("asked for, but the remote has it");
    repo.write("more", "more\n");
    let hidden = repo.commit("what the remote has");
    repo.git(&["checkout", "-q", "--orphan", "other"]);
    repo.git(&["rm", "-q", "-r", "--cached", "."]);
    repo.git(&["clean", "-q", "-f", "-d"]);
    repo.write("elsewhere", text(10, 30));
    let other = repo.commit("the same content without a common ancestor");
    let set = repo.find(&[asked, other], &[hidden]).unwrap();
    assert_eq!(names(&set).len(), 2, "the commit and its tree, not the blob");
}

#[test]
fn paths_with_the_delta_attribute_unset_go_whole_and_are_no_bases() {
    let lab = Lab::new();
    let repo = lab.init("local", "sha1");
    for number in 0..3 {
        for (seed, name) in [(1, "top.bin"), (2, "dir/deep/in.bin"), (3, "dir/deep/in.txt")] {
            repo.write(name, text(seed, 400) + &format!("version {number}\n"));
        }
        repo.commit(&number.to_string());
    }
    let wanted = repo.ids(&["main"]);
    let asked = std::sync::Mutex::new(std::collections::BTreeSet::new());
    let delta_unset = |path: &[u8]| {
        let path = String::from_utf8(path.to_owned()).unwrap();
        let is_binary = path.ends_with(".bin");
        asked.lock().unwrap().insert(path);
        is_binary
    };
    for search in [Search::NewPaths, Search::Everything] {
        let options = Options::default().search(search);
        let (usual, _) = repo.pack(&wanted, &[], options.clone());
        let set = repo.find_with_attributes(&wanted, &[], &delta_unset);
        let binaries: Vec<String> = ["top.bin", "dir/deep/in.bin"]
            .iter()
            .flat_map(|name| (0..3).map(move |age| format!("main~{age}:{name}")))
            .map(|name| repo.id(&name).to_string())
            .collect();
        for entry in set.iter() {
            assert_eq!(entry.delta_unset, binaries.contains(&entry.id.to_string()));
        }
        let pack = read(&repo.source(set, options).unwrap());
        assert!(usual.len() * 2 < pack.len());
        let remote = lab.init(&format!("{search:?}"), "sha1");
        assert_eq!(remote.contents(&pack), repo.referee(&wanted, &[]));
        let listed = remote.git(&["verify-pack", "-v", "checked.idx"]);
        let deltas: Vec<Vec<&str>> = listed
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|fields| fields.len() == 7)
            .collect();
        assert!(deltas.len() >= 2, "those of the text: {listed}");
        for fields in deltas {
            assert!(!binaries.contains(&fields[0].to_owned()), "made a delta: {fields:?}");
            assert!(!binaries.contains(&fields[6].to_owned()), "made a base: {fields:?}");
        }
    }
    let asked: Vec<String> = asked.into_inner().unwrap().into_iter().collect();
    let paths = ["dir", "dir/deep", "dir/deep/in.bin", "dir/deep/in.txt", "top.bin"];
    assert_eq!(asked, paths);
}
