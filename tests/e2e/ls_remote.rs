//! `rgit ls-remote` prints what `git ls-remote` prints.

use rgit_testkit::history;

use crate::world::World;

#[test]
fn the_same_lines_as_git() {
    let world = World::new();
    let source = world.path("source");
    history::zoo(&world.git, &source);
    world.server.create("zoo.git", &[]);
    let url = world.server.url("zoo.git");
    world.git.git(&source, ["push", "-q", "--mirror", &url]);
    world.git.git(&source, ["remote", "add", "origin", &url]);
    for arguments in [
        ["URL"].as_slice(),
        &["--tags", "URL"],
        &["--heads", "URL"],
        &["-h", "-t", "URL"],
        &["--refs", "URL"],
        &["--symref", "URL"],
        &["URL", "main"],
        &["URL", "refs/tags/of-*"],
        &["--exit-code", "URL", "nothing"],
        &["--exit-code", "URL", "main"],
        &["--sort=-version:refname", "--tags", "URL"],
        &["--get-url", "origin"],
        &["origin"],
        &["-q"],
    ] {
        let arguments: Vec<String> = std::iter::once("ls-remote".to_owned())
            .chain(arguments.iter().map(|a| a.replace("URL", &url)))
            .collect();
        let ours = world.rgit(&source, &arguments);
        let theirs = world.git(&source, &arguments);
        assert_eq!(
            (ours.code, &ours.stdout),
            (theirs.code, &theirs.stdout),
            "{arguments:?} {}",
            ours.stderr
        );
        assert_eq!(ours.stderr, theirs.stderr, "{arguments:?}");
    }
}

#[test]
fn needs_no_repository() {
    let world = World::new();
    let source = world.path("source");
    history::small(&world.git, &source, 1);
    world.server.create("r.git", &[]);
    let url = world.server.url("r.git");
    world.git.git(&source, ["push", "-q", &url, "main"]);
    let nowhere = world.path("nowhere");
    std::fs::create_dir(&nowhere).unwrap();
    let tip = world.git.text(&source, ["rev-parse", "main"]);
    let ran = world.rgit(&nowhere, ["ls-remote", &url, "main"]).exits(0);
    assert_eq!(ran.stdout, format!("{tip}\trefs/heads/main\n"));
}
