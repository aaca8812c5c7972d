//! Bad input: a sentence, exit 128 (1 where the server refused a ref), and nothing lost on either side.

use std::path::PathBuf;

use rgit_testkit::{
    history,
    reply::{Reply, When},
    repository::ObjectFormat,
    server::GitServer,
};

use crate::world::World;

/// A world with a repository of three commits at `work`, whose `origin` on the server holds the first two.
fn two_of_three() -> (World, PathBuf, PathBuf) {
    let world = World::new();
    let work = world.path("work");
    history::small(&world.git, &work, 3);
    let remote = world.server.create("r.git", &[]);
    let url = world.server.url("r.git");
    world.git.git(&work, ["remote", "add", "origin", &url]);
    world.git.git(&work, ["push", "-q", "origin", "main~1:refs/heads/main"]);
    world.server.clear_log();
    (world, work, remote)
}

/// `push`, `fetch` and `ls-remote` must all fail alike, and move nothing.
#[track_caller]
fn all_fail(world: &World, work: &std::path::Path, remote: &std::path::Path, says: &str) {
    let before = (world.git.refs(work), world.git.refs(remote));
    let commands: [&[&str]; 3] = [
        &["push", "origin", "main"],
        &["fetch", "origin"],
        &["ls-remote", "origin"],
    ];
    for arguments in commands {
        let ran = world.rgit(work, arguments).exits(128);
        assert!(ran.stderr.starts_with("fatal: "), "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(says),
            "{arguments:?}: no {says:?} in {}",
            ran.stderr
        );
    }
    assert_eq!(before, (world.git.refs(work), world.git.refs(remote)));
    world.git.fsck(work);
    world.git.fsck(remote);
}

#[test]
fn a_page_instead_of_a_git_server() {
    let (world, work, remote) = two_of_three();
    world
        .server
        .respond(When::any(), Reply::html(200, "<html>Welcome</html>"));
    all_fail(&world, &work, &remote, "text/html");
}

#[test]
fn not_found() {
    let (world, work, remote) = two_of_three();
    world
        .server
        .respond(When::any(), Reply::text(404, "no such repository\n"));
    all_fail(&world, &work, &remote, "404 Not Found");
}

#[test]
fn forbidden_with_a_text_which_is_shown_masked() {
    let (world, work, remote) = two_of_three();
    world
        .server
        .respond(When::any(), Reply::text(403, "Your key\u{1b}[2J expired\n"));
    all_fail(&world, &work, &remote, "403");
    let ran = world.rgit(&work, ["fetch", "origin"]).exits(128);
    assert!(
        ran.stderr.contains("Your key^[[2J expired") && !ran.stderr.contains('\u{1b}'),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_server_error() {
    let (world, work, remote) = two_of_three();
    world.server.respond(When::any(), Reply::status(500));
    all_fail(&world, &work, &remote, "500");
}

#[test]
fn a_server_error_on_the_post_only() {
    let (world, work, remote) = two_of_three();
    world.server.respond(When::post(), Reply::status(500));
    all_fail(&world, &work, &remote, "500");
}

#[test]
fn a_wrong_content_type() {
    let (world, work, remote) = two_of_three();
    world.server.respond(
        When::get(),
        Reply::status(200)
            .header("content-type", "application/octet-stream")
            .body("001e# service=git-upload-pack\n0000"),
    );
    all_fail(&world, &work, &remote, "application/octet-stream");
}

#[test]
fn an_advertisement_cut_inside_a_packet_line() {
    let (world, work, remote) = two_of_three();
    for bytes in [2, 10, 60] {
        world.server.clear_rules();
        world.server.respond(When::get(), Reply::backend().end_after(bytes));
        let before = (world.git.refs(&work), world.git.refs(&remote));
        for arguments in [
            ["push", "origin", "main"].as_slice(),
            &["fetch", "origin"],
            &["ls-remote", "origin"],
        ] {
            let ran = world.rgit(&work, arguments).exits(128);
            assert!(ran.stderr.starts_with("fatal: "), "{}", ran.stderr);
        }
        assert_eq!(before, (world.git.refs(&work), world.git.refs(&remote)));
    }
}

#[test]
fn a_pack_cut_in_the_middle() {
    let (world, work, _) = two_of_three();
    history::small(&world.git, &world.path("more"), 40);
    let more = world.server.create("more.git", &[]);
    let url = world.server.url("more.git");
    world.git.git(&world.path("more"), ["push", "-q", &url, "main"]);
    for (cut, reply) in [
        ("broken off", Reply::backend().cut_after(600)),
        ("ended early", Reply::backend().end_after(600)),
    ] {
        world.server.clear_rules();
        // The first POST lists refs.
        world.server.respond(When::post().path("more.git").skip(1), reply);
        let before = world.git.refs(&work);
        let ran = world.rgit(&work, ["fetch", &url, "main:refs/heads/more"]).exits(128);
        assert!(ran.stderr.starts_with("fatal: "), "{cut}: {}", ran.stderr);
        assert_eq!(before, world.git.refs(&work), "{cut}");
        world.git.fsck(&work);
        assert_eq!(leftovers(&work), Vec::<String>::new(), "{cut}");

        world.server.clear_rules();
        world
            .server
            .respond(When::post().path("more.git").skip(1), Reply::backend().cut_after(600));
        world.rgit(world.directory.path(), ["clone", &url, "cloned"]).exits(128);
        assert!(!world.path("cloned").exists(), "a failed clone leaves nothing");
    }
    world.server.clear_rules();
    world
        .rgit(&work, ["fetch", "-q", &url, "main:refs/heads/more"])
        .exits(0);
    world.git.fsck(&work);
    world.git.fsck(&more);
}

/// Files that no finished operation leaves in the object directory.
fn leftovers(work: &std::path::Path) -> Vec<String> {
    let pack = work.join(".git/objects/pack");
    std::fs::read_dir(pack)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| {
            let known = [".pack", ".idx", ".rev", ".bitmap"];
            !known.iter().any(|extension| name.ends_with(extension)) || name.ends_with(".keep")
        })
        .collect()
}

#[cfg(unix)]
fn hook(repository: &std::path::Path, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = repository.join("hooks").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(unix)]
#[test]
fn a_hook_says_no() {
    let (world, work, remote) = two_of_three();
    hook(
        &remote,
        "pre-receive",
        "#!/bin/sh\nprintf 'no \\033[31mred\\n' >&2\nexit 1\n",
    );
    let before = world.git.refs(&remote);
    let ran = world.rgit(&work, ["push", "origin", "main"]).exits(1);
    assert!(ran.stderr.contains("remote: no ^[[31mred"), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("! [remote rejected] main -> main (pre-receive hook declined)"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("error: failed to push some refs to"),
        "{}",
        ran.stderr
    );
    assert_eq!(before, world.git.refs(&remote));
    // The tracking ref stays where the server is.
    assert_eq!(
        world.git.text(&work, ["rev-parse", "refs/remotes/origin/main"]),
        world.git.text(&remote, ["rev-parse", "main"])
    );
}

#[cfg(unix)]
#[test]
fn one_of_two_refs_is_refused() {
    let (world, work, remote) = two_of_three();
    hook(&remote, "update", "#!/bin/sh\ntest \"$1\" != refs/heads/secret\n");
    let ran = world.rgit(&work, ["push", "origin", "main", "main:secret"]).exits(1);
    assert!(
        ran.stderr
            .contains("! [remote rejected] main -> secret (hook declined)"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        world.git.text(&remote, ["rev-parse", "main"]),
        world.git.text(&work, ["rev-parse", "main"])
    );
    let tracking = world.git.refs(&work);
    assert!(
        !tracking.iter().any(|line| line.ends_with("refs/remotes/origin/secret")),
        "{tracking:?}"
    );
    world.git.fsck(&remote);
}

#[test]
fn the_server_cannot_unpack() {
    let (world, work, remote) = two_of_three();
    // A pack larger than this is refused by index-pack on the server.
    world.git.git(&remote, ["config", "receive.maxInputSize", "10"]);
    world.git.git(&remote, ["config", "receive.unpackLimit", "1"]);
    let before = world.git.refs(&remote);
    let ran = world.rgit(&work, ["push", "origin", "main"]).exits(1);
    assert!(ran.stderr.contains("unpack"), "{}", ran.stderr);
    assert!(ran.stderr.contains("[remote rejected] main -> main"), "{}", ran.stderr);
    assert_eq!(before, world.git.refs(&remote));
    world.git.fsck(&remote);
}

#[test]
fn no_word_about_a_ref_that_was_asked_for() {
    let (world, work, _) = two_of_three();
    // `unpack ok` and nothing else, inside side band 1.
    let report = "0016\u{1}000eunpack ok\n0000";
    let inner = "000eunpack ok\n0000";
    let packet = format!("{:04x}\u{1}{inner}", inner.len() + 5);
    assert_eq!(packet.len(), 4 + 1 + inner.len(), "{report}");
    world.server.respond(
        When::post(),
        Reply::status(200)
            .header("content-type", "application/x-git-receive-pack-result")
            .body(format!("{packet}0000")),
    );
    let ran = world.rgit(&work, ["push", "origin", "main"]).exits(1);
    assert!(ran.stderr.contains("! [remote failure]"), "{}", ran.stderr);
    assert!(ran.stderr.contains("remote failed to report status"), "{}", ran.stderr);
    assert_eq!(
        world.git.text(&work, ["rev-parse", "refs/remotes/origin/main"]),
        world.git.text(&work, ["rev-parse", "main~1"]),
        "a ref that wasn't reported isn't taken for moved"
    );
}

#[test]
fn nobody_listens() {
    let (world, work, _) = two_of_three();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let url = format!("https://{address}/r.git");
    for arguments in [
        ["push", &url, "main"].as_slice(),
        &["fetch", &url],
        &["ls-remote", &url],
        &["clone", &url, "c"],
    ] {
        let ran = world.rgit(&work, arguments).exits(128);
        assert!(
            ran.stderr.contains("connecting") && ran.stderr.contains(&address.to_string()),
            "{}",
            ran.stderr
        );
    }
    assert!(!work.join("c").exists());
}

#[test]
fn a_certificate_that_nothing_here_trusts() {
    let (world, work, remote) = two_of_three();
    let other = rgit_testkit::certificate::Authority::new();
    let elsewhere = world.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let ca = other.write_ca(&elsewhere);
    let output = world
        .command(&work)
        .env("GIT_SSL_CAINFO", &ca)
        .args(["push", "origin", "main"])
        .output()
        .unwrap();
    let ran = crate::world::ran(&output).exits(128).says("certificate");
    assert!(ran.stderr.contains("http.sslCAInfo"), "what to do: {}", ran.stderr);
    assert!(
        world.server.requests().is_empty(),
        "nothing was asked over a connection that wasn't trusted"
    );

    // Only on request is it let through.
    let output = world
        .command(&work)
        .env("GIT_SSL_CAINFO", &ca)
        .env("GIT_SSL_NO_VERIFY", "1")
        .args(["push", "-q", "origin", "main"])
        .output()
        .unwrap();
    crate::world::ran(&output).exits(0);
    assert_eq!(
        world.git.text(&remote, ["rev-parse", "main"]),
        world.git.text(&work, ["rev-parse", "main"])
    );
}

#[test]
fn a_certificate_for_another_name_or_time() {
    let authority = rgit_testkit::certificate::Authority::new();
    let world = World::new();
    let work = world.path("work");
    history::small(&world.git, &work, 1);
    let ca = authority.write_ca(&work);
    for config in [
        authority.server_config(&["elsewhere.example"], &[b"http/1.1"]),
        authority.expired_server_config(&["localhost", "127.0.0.1"], &[b"http/1.1"]),
    ] {
        let server = GitServer::builder().tls_config(config).start().unwrap();
        server.create("r.git", &[]);
        let output = world
            .command(&work)
            .env("GIT_SSL_CAINFO", &ca)
            .args(["push", &server.url("r.git"), "main"])
            .output()
            .unwrap();
        crate::world::ran(&output).exits(128).says("certificate");
        assert!(server.requests().is_empty());
    }
}

#[test]
fn an_unreadable_repository() {
    let (world, work, remote) = two_of_three();
    let tip = world.git.text(&work, ["rev-parse", "main^{tree}"]);
    // Packed by the history's maker: take it apart, then lose one object.
    let packs = world.path("packs");
    std::fs::rename(work.join(".git/objects/pack"), &packs).unwrap();
    for entry in std::fs::read_dir(&packs).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "pack") {
            let pack = std::fs::read(&path).unwrap();
            world
                .git
                .input(&work, ["unpack-objects", "-q"], move |out| out.write_all(&pack));
        }
    }
    std::fs::remove_file(work.join(".git/objects").join(&tip[..2]).join(&tip[2..])).unwrap();
    let before = world.git.refs(&remote);
    let ran = world.rgit(&work, ["push", "origin", "main"]).exits(128);
    assert!(ran.stderr.contains(&tip), "names the object: {}", ran.stderr);
    assert_eq!(before, world.git.refs(&remote));

    let empty = world.path("no-repository");
    std::fs::create_dir(&empty).unwrap();
    world
        .rgit(&empty, ["push", "origin", "main"])
        .exits(128)
        .says("not a git repository");
    let broken = world.path("broken");
    history::small(&world.git, &broken, 1);
    std::fs::write(broken.join(".git/config"), "[core\n").unwrap();
    world.rgit(&broken, ["push", "origin", "main"]).exits(128);
}

#[test]
fn a_push_from_a_shallow_clone() {
    let (world, work, remote) = two_of_three();
    world.git.git(&work, ["push", "-q", "origin", "main"]);
    let shallow = world.path("shallow");
    let url = world.server.url("r.git");
    world
        .rgit(world.directory.path(), ["clone", "-q", "--depth=1", &url, "shallow"])
        .exits(0);
    assert!(shallow.join(".git/shallow").exists());
    history::add_commit(&world.git, &shallow, "on top of a shallow history");
    // Onto the same history: fine.
    world.rgit(&shallow, ["push", "-q", "origin", "HEAD:main"]).exits(0);
    world.git.fsck(&remote);
    assert_eq!(
        world.git.text(&remote, ["rev-parse", "main"]),
        world.git.text(&shallow, ["rev-parse", "HEAD"])
    );
    // Into a repository that lacks the rest of it: the server refuses, as it does for git.
    world.server.create("other.git", &[]);
    let other = world.server.url("other.git");
    let ours = world.rgit(&shallow, ["push", &other, "HEAD:refs/heads/ours"]);
    let theirs = world.git(&shallow, ["push", &other, "HEAD:refs/heads/theirs"]);
    assert_eq!(ours.code, theirs.code, "{}\n{}", ours.stderr, theirs.stderr);
    assert!(ours.stderr.contains("shallow update not allowed"), "{}", ours.stderr);
}

#[test]
fn object_formats_that_do_not_fit() {
    let world = World::new();
    let work = world.path("work");
    history::small_as(&world.git, &work, ObjectFormat::Sha256, 2);
    let remote = world.server.create("sha1.git", &[]);
    let url = world.server.url("sha1.git");
    let ran = world.rgit(&work, ["push", &url, "main"]).exits(128);
    assert!(
        ran.stderr.contains("sha1") && ran.stderr.contains("sha256"),
        "{}",
        ran.stderr
    );
    assert!(
        world.server.requests().iter().all(|request| request.method == "GET"),
        "not a byte of a pack was sent"
    );
    assert_eq!(world.git.refs(&remote), Vec::<String>::new());

    let old = world.path("old");
    history::small(&world.git, &old, 2);
    world.server.create_as("new.git", ObjectFormat::Sha256, &[]);
    let new = world.server.url("new.git");
    world.git.git(&work, ["push", "-q", &new, "main"]);
    let ran = world.rgit(&old, ["fetch", &new, "main:refs/heads/new"]).exits(128);
    assert!(
        ran.stderr.contains("sha1") && ran.stderr.contains("sha256"),
        "{}",
        ran.stderr
    );
}

#[cfg(target_os = "linux")]
#[test]
fn the_disk_is_full_on_fetch() {
    let world = World::new();
    let source = world.path("source");
    history::incompressible(&world.git, &source, 4, 1_000_000, 3);
    world.server.create("big.git", &[]);
    let url = world.server.url("big.git");
    world.git.git(&source, ["push", "-q", &url, "main"]);
    let work = world.path("work");
    history::small(&world.git, &work, 2);
    let before = world.git.refs(&work);
    // A limit on the size of files stands in for a full disk: the write fails in the middle (EFBIG instead of ENOSPC).
    let script = format!(
        "trap '' XFSZ; ulimit -f 1000; exec '{}' fetch '{url}' main:refs/heads/big",
        env!("CARGO_BIN_EXE_rgit")
    );
    let output = world.git.program("sh", &work).args(["-c", &script]).output().unwrap();
    let ran = crate::world::ran(&output).exits(128);
    assert!(
        ran.stderr.starts_with("fatal: ") && ran.stderr.contains("File too large"),
        "{}",
        ran.stderr
    );
    assert_eq!(before, world.git.refs(&work));
    world.git.fsck(&work);
    assert_eq!(leftovers(&work), Vec::<String>::new());
}
