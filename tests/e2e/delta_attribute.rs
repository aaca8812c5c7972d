//! The attribute `delta`, read from where git reads it.

use std::path::{Path, PathBuf};

use crate::world::World;

/// A name, the files that hold a rule, and a setting.
type Case<'a> = (&'a str, &'a [(PathBuf, &'a str)], &'a str);

/// Which of `names` have versions that became deltas in the packs of a repository.
fn deltified(world: &World, work: &Path, remote: &Path, names: &[&str]) -> Vec<String> {
    let packs = std::fs::read_dir(remote.join("objects/pack")).unwrap();
    let indices = packs
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "idx"));
    let listed: String = indices
        .map(|index| world.git.text(remote, ["verify-pack", "-v", index.to_str().unwrap()]) + "\n")
        .collect();
    let is_delta = |id: &str| {
        listed
            .lines()
            .any(|line| line.starts_with(id) && line.split_whitespace().count() == 7)
    };
    let versions = |name: &str| -> Vec<String> {
        let revisions = ["main", "main~1"];
        revisions
            .map(|revision| world.git.text(work, ["rev-parse", &format!("{revision}:{name}")]))
            .to_vec()
    };
    let found = names.iter().filter(|name| versions(name).iter().any(|id| is_delta(id)));
    found.map(|name| (*name).to_owned()).collect()
}

#[test]
fn paths_with_the_delta_attribute_unset_are_no_deltas_where_git_makes_none() {
    let world = World::new();
    let work = world.path("work");
    let names = ["top.bin", "top.txt", "dir/in.bin", "dir/sub/in.bin", "dir/sub/in.txt"];
    world.git.git(world.directory.path(), ["init", "-q", "work"]);
    for version in 0..2 {
        for (number, name) in names.iter().enumerate() {
            let lines: String = (0..2000).map(|line| format!("{number} {}\n", line * line)).collect();
            let path = work.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{lines}version {version}\n")).unwrap();
        }
        world.git.git(&work, ["add", "."]);
        world.git.git(&work, ["commit", "-q", "-m", "version"]);
    }
    let user = world.git.home().join("attributes");
    let user_setting = format!("core.attributesFile={}", user.display());
    // Where rules are written, what, and what is set for it.
    let cases: &[Case<'_>] = &[
        ("none", &[], ""),
        ("top", &[(work.join(".gitattributes"), "*.bin -delta")], ""),
        ("nested", &[(work.join("dir/.gitattributes"), "*.bin -delta")], ""),
        ("deeper", &[(work.join("dir/sub/.gitattributes"), "in.bin -delta")], ""),
        (
            "exception",
            &[
                (work.join(".gitattributes"), "*.bin -delta"),
                (work.join("dir/.gitattributes"), "*.bin delta"),
            ],
            "",
        ),
        ("value", &[(work.join(".gitattributes"), "*.bin delta=false")], ""),
        (
            "macro",
            &[
                (work.join(".gitattributes"), "[attr]solid -delta"),
                (work.join("dir/.gitattributes"), "*.bin solid"),
            ],
            "",
        ),
        (
            "info",
            &[(work.join(".git/info/attributes"), "dir/**/*.bin -delta")],
            "",
        ),
        ("user", &[(user.clone(), "*.txt -delta")], &user_setting),
        ("tree", &[], "attr.tree=rules"),
        (
            "no-tree",
            &[(work.join(".gitattributes"), "*.bin -delta")],
            "attr.tree=nonsense",
        ),
        (
            "bare",
            &[(work.join(".gitattributes"), "*.bin -delta")],
            "core.bare=true",
        ),
        (
            "bare-info",
            &[(work.join(".git/info/attributes"), "*.bin -delta")],
            "core.bare=true",
        ),
    ];
    // A tree that holds rules, for `attr.tree`.
    let blob = work.join("rules");
    std::fs::write(&blob, "top.* -delta\n").unwrap();
    let blob = world.git.text(&work, ["hash-object", "-w", blob.to_str().unwrap()]);
    std::fs::remove_file(work.join("rules")).unwrap();
    world.git.git(&work, ["checkout", "-q", "--orphan", "rules-branch"]);
    let entry = format!("100644,{blob},.gitattributes");
    world.git.git(&work, ["rm", "-rq", "--cached", "."]);
    world.git.git(&work, ["update-index", "--add", "--cacheinfo", &entry]);
    let tree = world.git.text(&work, ["write-tree"]);
    world.git.git(&work, ["tag", "rules", &tree]);
    world.git.git(&work, ["symbolic-ref", "HEAD", "refs/heads/main"]);
    world.git.git(&work, ["reset", "-q"]);

    let mut seen = std::collections::BTreeSet::new();
    for (case, rules, setting) in cases {
        for (path, rule) in *rules {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{rule}\n")).unwrap();
        }
        let setting = if setting.is_empty() { "core.ignored=1" } else { setting };
        let mut results = Vec::new();
        for program in ["rgit", "git"] {
            let name = format!("{program}-{case}.git");
            world.server.create(&name, &[("receive.unpackLimit", "1")]);
            let url = world.server.url(&name);
            let arguments = ["-c", setting, "push", "-q", &url, "main"];
            let ran = if program == "rgit" {
                world.rgit(&work, arguments)
            } else {
                world.git(&work, arguments)
            };
            ran.exits(0);
            results.push(deltified(&world, &work, &world.server.root().join(&name), &names));
        }
        assert_eq!(results[0], results[1], "{case}");
        seen.insert(results.remove(0));
        for (path, _) in *rules {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert!(seen.len() >= 7, "the rules make a difference: {seen:?}");
}
