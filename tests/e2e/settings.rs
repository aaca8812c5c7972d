//! Settings that say how, or whether, to speak with a server are honoured, or refused with a sentence: never passed over.

use rgit_testkit::history;

use crate::world::World;

fn world() -> (World, String) {
    let world = World::new();
    let source = world.path("source");
    history::small(&world.git, &source, 2);
    world.server.create("r.git", &[]);
    let url = world.server.url("r.git");
    world.git.git(&source, ["push", "-q", &url, "main"]);
    world.git.git(&source, ["remote", "add", "origin", &url]);
    (world, url)
}

#[test]
fn a_protocol_that_is_not_allowed() {
    let (world, url) = world();
    let (source, anywhere) = (world.path("source"), world.directory.path().to_owned());
    for setting in ["protocol.allow=never", "protocol.https.allow=never"] {
        for (directory, command) in [
            (&source, ["push", "origin", "main"].as_slice()),
            (&source, &["fetch", "origin"]),
            (&anywhere, &["ls-remote", &url]),
            (&anywhere, &["clone", &url, "c"]),
        ] {
            let arguments = ["-c", setting].into_iter().chain(command.iter().copied());
            let ours = world.rgit(directory, arguments.clone()).exits(128);
            let theirs = world.git(directory, arguments).exits(128);
            let fatal = |text: &str| {
                text.lines()
                    .find(|line| line.starts_with("fatal"))
                    .map(ToOwned::to_owned)
            };
            assert_eq!(fatal(&ours.stderr), fatal(&theirs.stderr), "{command:?}");
        }
    }
    assert!(!world.path("c").exists());
}

#[test]
fn a_proxy_is_not_passed_by() {
    let (world, url) = world();
    world.server.clear_log();
    let run = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = world.command(&world.path("source"));
        command.envs(variables.iter().copied()).args(arguments);
        crate::world::ran(&command.output().expect("rgit starts"))
    };
    let proxy = "http://127.0.0.1:9";
    for ran in [
        run(&[("https_proxy", proxy)], &["ls-remote", &url]),
        run(&[], &["-c", "http.proxy=127.0.0.1:9", "push", "origin", "main"]),
        run(&[], &["-c", "remote.origin.proxy=127.0.0.1:9", "fetch", "origin"]),
        run(&[("ALL_PROXY", proxy)], &["clone", &url, "c"]),
    ] {
        assert!(ran.exits(128).says("can't speak through proxies yet").stdout.is_empty());
    }
    assert!(world.server.requests().is_empty(), "nothing went past the proxy");
    let excepted = [("https_proxy", proxy), ("no_proxy", "localhost,127.0.0.1")];
    run(&excepted, &["ls-remote", &url]).exits(0);
    run(&[("http_proxy", proxy)], &["ls-remote", &url]).exits(0);
    run(&[("https_proxy", proxy)], &["-c", "http.proxy=", "ls-remote", &url]).exits(0);
}

#[test]
fn checks_that_cannot_be_made() {
    let (world, url) = world();
    let anywhere = world.directory.path();
    let source = world.path("source");
    world
        .rgit(anywhere, ["-c", "transfer.fsckObjects=true", "clone", &url, "c"])
        .exits(128)
        .says("transfer.fsckObjects");
    assert!(!world.path("c").exists());
    world
        .rgit(&source, ["-c", "fetch.fsckObjects=true", "fetch"])
        .exits(128)
        .says("fetch.fsckObjects");
    let off = ["-c", "transfer.fsckObjects=true", "-c", "fetch.fsckObjects=false"];
    world.rgit(&source, off.iter().copied().chain(["fetch", "-q"])).exits(0);
    world
        .rgit(
            &source,
            ["-c", "transfer.fsckObjects=true", "push", "-q", "origin", "main"],
        )
        .exits(0);
}

#[test]
fn rewritten_urls_without_a_repository() {
    let (world, _) = world();
    let base = world.server.url("");
    let setting = format!("url.{base}.insteadOf=short:");
    let anywhere = world.directory.path();
    let ran = world
        .rgit(anywhere, ["-c", &setting, "ls-remote", "short:r.git"])
        .exits(0);
    assert!(ran.stdout.contains("refs/heads/main"), "{}", ran.stdout);
    world
        .rgit(anywhere, ["-c", &setting, "clone", "-q", "short:r.git"])
        .exits(0);
    let remembered = |name: &str| world.git.text(&world.path(name), ["config", "remote.origin.url"]);
    world
        .git(anywhere, ["-c", &setting, "clone", "-q", "short:r.git", "theirs"])
        .exits(0);
    assert_eq!(remembered("r"), remembered("theirs"));
}

#[test]
fn settings_of_the_git_that_runs_us() {
    let (world, url) = world();
    let rgit = env!("CARGO_BIN_EXE_rgit");
    let base = world.server.url("");
    let rewrite = format!("url.{base}.insteadOf=it's:");
    let alias = format!("alias.mine=!'{rgit}' ls-remote \"it's:r.git\"");
    let source = world.path("source");
    let ran = world.git(&source, ["-c", &rewrite, "-c", &alias, "mine"]).exits(0);
    assert!(ran.stdout.contains("refs/heads/main"), "{}", ran.stdout);
    let alias = format!("alias.mine=!'{rgit}' ls-remote '{url}'");
    world
        .git(&source, ["-c", "protocol.allow=never", "-c", &alias, "mine"])
        .exits(128)
        .says("not allowed");
}

#[test]
fn control_characters_in_names_do_not_reach_the_terminal() {
    let (world, url) = world();
    let source = world.path("source");
    // No control character of ASCII may stand in a ref's name, but others may.
    let names = ["refs/heads/\u{9b}31m", "refs/heads/\u{202e}evil"];
    for name in names {
        world.git.git(&source, ["push", "-q", &url, &format!("main:{name}")]);
    }
    let clean = |text: &str| !text.contains(['\u{9b}', '\u{202e}']);
    let fetched = world.rgit(&source, ["fetch", "origin"]).exits(0).says("evil");
    assert!(clean(&fetched.stderr), "{}", fetched.stderr);
    let pushed = world
        .rgit(&source, ["push", "--prune", "origin", "refs/heads/*:refs/heads/*"])
        .exits(0)
        .says("evil");
    assert!(clean(&pushed.stderr), "{}", pushed.stderr);
}
