//! `rgit push` does and prints what `git push` does and prints.

use std::path::{Path, PathBuf};

use rgit_testkit::history;

use crate::world::{Ran, World};

/// Two equal servers' repositories, one for git and one for rgit, and one work repository to push from.
struct Pair {
    world: World,
    work: PathBuf,
}

impl Pair {
    fn new() -> Self {
        let world = World::new();
        let work = world.path("work");
        history::small(&world.git, &work, 6);
        let git = |arguments: &[&str]| world.git.git(&work, arguments);
        git(&["branch", "side", "main~2"]);
        git(&["branch", "old", "main~4"]);
        git(&["tag", "light", "main~3"]);
        git(&["tag", "-a", "-m", "annotated", "v1", "main~1"]);
        for name in ["ours", "theirs"] {
            world
                .server
                .create(&format!("{name}.git"), &[("receive.denyDeletes", "false")]);
            let url = world.server.url(&format!("{name}.git"));
            git(&[
                "push",
                "-q",
                &url,
                "main~3:refs/heads/main",
                "side:refs/heads/side",
                "old:refs/heads/gone",
            ]);
            git(&["push", "-q", &url, "light", "main~2:refs/heads/ahead"]);
        }
        Pair { world, work }
    }

    fn remote(&self, name: &str) -> PathBuf {
        self.world.server.root().join(format!("{name}.git"))
    }

    /// Push by both with the same arguments; exit code, standard output and what people read must agree, and so must the refs.
    #[track_caller]
    fn same(&self, arguments: &[&str]) -> Ran {
        let url = |name: &str| self.world.server.url(&format!("{name}.git"));
        let with = |name: &str| -> Vec<String> {
            arguments
                .iter()
                .map(|argument| argument.replace("URL", &url(name)))
                .collect()
        };
        let ours = self
            .world
            .rgit(&self.work, [vec!["push".to_owned()], with("ours")].concat());
        let theirs = self
            .world
            .git(&self.work, [vec!["push".to_owned()], with("theirs")].concat());
        assert_eq!(
            ours.code, theirs.code,
            "{arguments:?}\n{}\n---\n{}",
            ours.stderr, theirs.stderr
        );
        let plain = |ran: &Ran, name: &str| {
            let stderr: Vec<String> = ran
                .stderr
                .lines()
                .filter(|line| !line.starts_with("remote:") && !line.starts_with("hint:"))
                .map(|line| line.replace(&url(name), "URL"))
                .collect();
            (ran.stdout.replace(&url(name), "URL"), stderr)
        };
        assert_eq!(plain(&ours, "ours"), plain(&theirs, "theirs"), "{arguments:?}");
        assert_eq!(
            self.world.git.refs(&self.remote("ours")),
            self.world.git.refs(&self.remote("theirs")),
            "{arguments:?}"
        );
        self.world.git.fsck(&self.remote("ours"));
        ours
    }
}

#[test]
fn fast_forward_new_branch_tag_and_up_to_date() {
    let pair = Pair::new();
    pair.same(&["URL", "main"]).exits(0);
    pair.same(&["URL", "main"]).exits(0).says("Everything up-to-date");
    pair.same(&["URL", "main:fresh", "v1", "main~1:refs/notes/x"]).exits(0);
    pair.same(&["URL", "tag", "light", "HEAD"]).exits(0);
}

#[test]
fn porcelain_lines() {
    let pair = Pair::new();
    pair.same(&[
        "--porcelain",
        "URL",
        "main",
        "main:fresh",
        "side",
        ":gone",
        "main:ahead",
    ])
    .exits(0);
    pair.same(&["--porcelain", "URL", "old:main", "+old:side"]).exits(1);
}

#[test]
fn refused_here_without_asking_the_server() {
    let pair = Pair::new();
    pair.world.server.clear_log();
    let before = pair.world.git.refs(&pair.remote("ours"));
    let url = pair.world.server.url("ours.git");
    for (arguments, says) in [
        (vec!["push", &url, "old:side"], "non-fast-forward"),
        (vec!["push", &url, "main:refs/tags/light"], "already exists"),
        (vec!["push", "--atomic", &url, "main", "old:side"], "atomic push failed"),
    ] {
        let ran = pair.world.rgit(&pair.work, arguments.clone());
        assert_eq!(ran.code, Some(1), "{arguments:?} {}", ran.stderr);
        // Where other refs could go, git sends them; here nothing else was asked for, or all or nothing.
        assert!(
            ran.stderr.contains("[rejected]") && ran.stderr.contains(says),
            "{arguments:?} {}",
            ran.stderr
        );
    }
    assert!(
        pair.world
            .server
            .requests()
            .iter()
            .all(|request| request.method == "GET")
    );
    assert_eq!(before, pair.world.git.refs(&pair.remote("ours")));
    pair.same(&["URL", "old:side"]).exits(1);
    pair.same(&["URL", "main:refs/tags/light"]).exits(1);
    pair.same(&["--atomic", "URL", "main", "old:side"]).exits(1);
    pair.same(&["URL", "main", "old:side"]).exits(1);
}

#[test]
fn what_the_remote_has_and_we_lack_is_to_be_fetched_first() {
    let pair = Pair::new();
    let other = pair.world.path("other");
    history::small(&pair.world.git, &other, 1);
    // The maker's first commits are alike everywhere; this one isn't.
    history::add_commit(&pair.world.git, &other, "somebody else's");
    for name in ["ours", "theirs"] {
        let url = pair.world.server.url(&format!("{name}.git"));
        pair.world
            .git
            .git(&other, ["push", "-q", &url, "main:refs/heads/foreign"]);
    }
    let ran = pair.same(&["URL", "main:foreign"]).exits(1);
    assert!(ran.stderr.contains("(fetch first)"), "{}", ran.stderr);
}

#[test]
fn force_delete_and_leases() {
    let pair = Pair::new();
    pair.same(&["--force", "URL", "old:side"]).exits(0);
    pair.same(&["URL", "+main:side"]).exits(0);
    pair.same(&["URL", ":gone"]).exits(0);
    pair.same(&["URL", ":gone"]).exits(1);
    pair.same(&["--delete", "URL", "ahead"]).exits(0);
    let at = pair.world.git.text(&pair.remote("ours"), ["rev-parse", "side"]);
    let wrong = pair.world.git.text(&pair.work, ["rev-parse", "old"]);
    pair.same(&[&format!("--force-with-lease=side:{wrong}"), "URL", "old:side"])
        .exits(1)
        .says("stale info");
    pair.same(&[&format!("--force-with-lease=side:{at}"), "URL", "old:side"])
        .exits(0);
    pair.same(&["--force-with-lease=brand-new:", "URL", "old:brand-new"])
        .exits(0);
}

#[test]
fn all_tags_mirror_prune_globs_and_matching() {
    let pair = Pair::new();
    pair.same(&["--dry-run", "--all", "URL"]).exits(0);
    pair.same(&["--all", "URL"]).exits(0);
    pair.same(&["--tags", "URL"]).exits(0);
    pair.same(&["URL", "refs/heads/*:refs/copies/*"]).exits(0);
    pair.same(&["--prune", "URL", "refs/heads/*:refs/heads/*"]).exits(0);
    pair.world
        .git
        .git(&pair.work, ["commit", "-q", "--allow-empty", "-m", "more"]);
    pair.same(&["URL", ":"]).exits(0);
    pair.same(&["--mirror", "URL"]).exits(0);
    pair.world.git.assert_same(&pair.work, &pair.remote("ours"));
    pair.same(&["--follow-tags", "URL", "main"]).exits(0);
}

#[test]
fn usage_errors_are_gits() {
    let pair = Pair::new();
    for arguments in [
        ["URL", "nothing-of-that-name"].as_slice(),
        &["--all", "URL", "main"],
        &["--delete", "URL"],
        &["URL", "main:refs/heads/bad..name"],
        &["--all", "--tags", "URL"],
    ] {
        let url = pair.world.server.url("ours.git");
        let arguments: Vec<String> = std::iter::once("push".to_owned())
            .chain(arguments.iter().map(|a| a.replace("URL", &url)))
            .collect();
        let ours = pair.world.rgit(&pair.work, &arguments);
        let theirs = pair.world.git(&pair.work, &arguments);
        assert_eq!(
            ours.code, theirs.code,
            "{arguments:?}\n{}\n---\n{}",
            ours.stderr, theirs.stderr
        );
    }
    pair.world.rgit(&pair.work, ["push", "--no-such-option"]).exits(129);
    pair.world
        .rgit(&pair.work, ["push", "ssh://example.com/r.git", "main"])
        .exits(128)
        .says("ssh");
}

/// A work repository whose origin is `ours.git`, cloned by git.
fn with_origin(pair: &Pair) -> PathBuf {
    let clone = pair.world.path("clone");
    let url = pair.world.server.url("ours.git");
    pair.world
        .git
        .git(pair.world.directory.path(), ["clone", "-q", &url, "clone"]);
    clone
}

#[test]
fn configured_remotes_move_their_tracking_refs() {
    let pair = Pair::new();
    let clone = with_origin(&pair);
    let git = |arguments: &[&str]| pair.world.git.text(&clone, arguments);
    history::add_commit(&pair.world.git, &clone, "one");
    pair.world.rgit(&clone, ["push", "-q"]).exits(0);
    assert_eq!(
        git(&["rev-parse", "refs/remotes/origin/main"]),
        git(&["rev-parse", "main"])
    );
    assert_eq!(
        git(&["log", "-g", "-1", "--format=%gs", "refs/remotes/origin/main"]),
        "update by push",
        "the reflog says how it moved"
    );
    pair.world
        .rgit(&clone, ["push", "-q", "--delete", "origin", "gone"])
        .exits(0);
    assert!(
        !pair
            .world
            .git
            .refs(&clone)
            .iter()
            .any(|line| line.ends_with("origin/gone"))
    );
    pair.world
        .rgit(&clone, ["push", "-q", "--dry-run", "origin", "main:never"])
        .exits(0);
    assert!(
        !pair
            .world
            .git
            .refs(&pair.remote("ours"))
            .iter()
            .any(|line| line.ends_with("never"))
    );
}

#[test]
fn push_default_in_all_its_values() {
    for (default, expect) in [
        ("nothing", Err(128)),
        ("current", Ok("topic")),
        ("simple", Err(128)),
        ("upstream", Ok("side")),
        ("matching", Ok("main")),
    ] {
        let pair = Pair::new();
        let clone = with_origin(&pair);
        pair.world
            .git
            .git(&clone, ["checkout", "-q", "-b", "topic", "--track", "origin/side"]);
        history::add_commit(&pair.world.git, &clone, "on topic");
        pair.world.git.git(&clone, ["branch", "-f", "main", "topic"]);
        pair.world.git.git(&clone, ["config", "push.default", default]);
        let before = pair.world.git.refs(&pair.remote("ours"));
        let ran = pair.world.rgit(&clone, ["push"]);
        match expect {
            Ok(moved) => {
                let code = if default == "matching" { ran.code } else { Some(0) };
                assert_eq!(ran.code, code, "{default}: {}", ran.stderr);
                let after = pair.world.git.text(&pair.remote("ours"), ["rev-parse", moved]);
                // `main` is no descendant of the remote's here, except through side: git refuses or takes it alike.
                if default != "matching" {
                    assert_eq!(after, pair.world.git.text(&clone, ["rev-parse", "topic"]), "{default}");
                }
            }
            Err(code) => {
                assert_eq!(ran.code, Some(code), "{default}: {}", ran.stderr);
                assert_eq!(before, pair.world.git.refs(&pair.remote("ours")), "{default}");
                let theirs = pair.world.git(&clone, ["push"]);
                assert_eq!(theirs.code, Some(code));
                let first = |ran: &Ran| ran.stderr.lines().next().unwrap_or_default().to_owned();
                assert_eq!(first(&ran), first(&theirs), "{default}");
            }
        }
    }
}

#[test]
fn set_upstream_writes_the_configuration() {
    let pair = Pair::new();
    let clone = with_origin(&pair);
    pair.world.git.git(&clone, ["checkout", "-q", "-b", "topic"]);
    let ran = pair.world.rgit(&clone, ["push", "-u", "origin", "topic"]).exits(0);
    assert!(
        ran.stdout.contains("branch 'topic' set up to track 'origin/topic'."),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
    assert_eq!(
        pair.world
            .git
            .text(&clone, ["rev-parse", "--abbrev-ref", "topic@{upstream}"]),
        "origin/topic"
    );
}

#[test]
fn push_options_reach_the_hook() {
    let world = World::new();
    let work = world.path("work");
    history::small(&world.git, &work, 1);
    let remote = world
        .server
        .create("r.git", &[("receive.advertisePushOptions", "true")]);
    let script = "#!/bin/sh\necho \"$GIT_PUSH_OPTION_COUNT $GIT_PUSH_OPTION_0 $GIT_PUSH_OPTION_1\"\n";
    executable(&remote.join("hooks/pre-receive"), script);
    let url = world.server.url("r.git");
    let ran = world
        .rgit(&work, ["push", "-o", "one", "--push-option=two words", &url, "main"])
        .exits(0);
    assert!(ran.stderr.contains("remote: 2 one two words"), "{}", ran.stderr);
    // A server without them: git's words.
    world.server.create("plain.git", &[]);
    let ran = world
        .rgit(&work, ["push", "-o", "one", &world.server.url("plain.git"), "main"])
        .exits(128);
    assert!(
        ran.stderr.contains("the receiving end does not support push options"),
        "{}",
        ran.stderr
    );
}

#[cfg(unix)]
fn executable(path: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, script).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_pre_push_hook_sees_the_refs_and_may_refuse() {
    let world = World::new();
    let work = world.path("work");
    history::small(&world.git, &work, 2);
    let remote = world.server.create("r.git", &[]);
    let url = world.server.url("r.git");
    let seen = world.path("seen");
    let hook = work.join(".git/hooks/pre-push");
    executable(
        &hook,
        &format!(
            "#!/bin/sh\necho \"$1 $2\" > '{0}'\ncat >> '{0}'\nexit 1\n",
            seen.display()
        ),
    );
    world
        .rgit(&work, ["push", &url, "main"])
        .exits(1)
        .says("failed to push some refs");
    assert_eq!(world.git.refs(&remote), Vec::<String>::new());
    let tip = world.git.text(&work, ["rev-parse", "main"]);
    let zero = "0".repeat(40);
    let expected = format!("{url} {url}\nrefs/heads/main {tip} refs/heads/main {zero}\n");
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), expected);
    world.rgit(&work, ["push", "-q", "--no-verify", &url, "main"]).exits(0);
    assert_eq!(world.git.text(&remote, ["rev-parse", "main"]), tip);
}

#[test]
fn quiet_says_nothing_when_all_went_well() {
    let pair = Pair::new();
    let url = pair.world.server.url("ours.git");
    let ran = pair.world.rgit(&pair.work, ["push", "-q", &url, "main", "v1"]).exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn progress_is_shown_on_request_in_gits_stages() {
    let pair = Pair::new();
    let url = pair.world.server.url("ours.git");
    let ran = pair
        .world
        .rgit(&pair.work, ["push", "--progress", &url, "main"])
        .exits(0);
    for stage in ["Counting objects: ", "Writing objects: 100% ("] {
        assert!(ran.stderr.contains(stage), "{stage}: {}", ran.stderr);
    }
}

#[test]
fn minus_c_and_minus_big_c_come_before_the_command() {
    let pair = Pair::new();
    let url = pair.world.server.url("ours.git");
    let elsewhere = pair.world.directory.path();
    let setting = format!("url.{}.insteadOf=short:", url.strip_suffix("ours.git").unwrap());
    pair.world
        .rgit(
            elsewhere,
            ["-C", "work", "-c", &setting, "push", "-q", "short:ours.git", "main"],
        )
        .exits(0);
    let tip = pair.world.git.text(&pair.work, ["rev-parse", "main"]);
    assert_eq!(pair.world.git.text(&pair.remote("ours"), ["rev-parse", "main"]), tip);
    let git_dir = pair.work.join(".git");
    let git_dir = git_dir.to_str().unwrap();
    pair.world
        .rgit(elsewhere, ["--git-dir", git_dir, "push", "-q", &url, "main:again"])
        .exits(0);
}

#[test]
fn verbose_pushes_tell_what_the_pack_was_made_of() {
    let pair = Pair::new();
    let url = |name: &str| pair.world.server.url(&format!("{name}.git"));
    let ours = pair
        .world
        .rgit(&pair.work, ["push", "-v", &url("ours"), "main"])
        .exits(0);
    let theirs = pair.world.git(&pair.work, ["push", "-v", &url("theirs"), "main"]);
    let (figures, others): (Vec<&str>, Vec<&str>) = ours.stderr.lines().partition(|line| line.starts_with("Pack: "));
    let same = others.join("\n").replace(&url("ours"), &url("theirs"));
    let said = theirs.stderr.lines().filter(|line| !line.starts_with("POST "));
    assert_eq!(same, said.collect::<Vec<_>>().join("\n"), "all else is git's");
    let [figures] = figures[..] else {
        panic!("{}", ours.stderr)
    };
    let objects = pair
        .world
        .git
        .text(&pair.work, ["rev-list", "--objects", "main", "^main~3", "^main~2"])
        .lines()
        .count();
    assert!(figures.starts_with(&format!("Pack: {objects} objects, ")), "{figures}");
    for part in [" fresh deltas, ", " thin bases; ", " bytes in, ", " out; counting "] {
        assert!(figures.contains(part), "{figures}");
    }
    for stage in ["counting", "planning", "reading", "deltas", "deflating", "writing"] {
        let seconds = figures.split_once(&format!("{stage} ")).unwrap().1;
        let seconds = seconds.split_once(" s").unwrap().0;
        assert!(seconds.parse::<f64>().unwrap() >= 0.0, "{figures}");
    }
    // Nothing to send, nothing to tell.
    let again = pair
        .world
        .rgit(&pair.work, ["push", "-v", &url("ours"), "main"])
        .exits(0);
    assert!(!again.stderr.contains("Pack: "), "{}", again.stderr);
}

#[test]
fn progress_ends_in_gits_total() {
    let pair = Pair::new();
    let total = |ran: &Ran| {
        let line = ran
            .stderr
            .split(['\n', '\r'])
            .find(|line| line.starts_with("Total "))
            .map(str::to_owned);
        line.unwrap_or_else(|| panic!("no total in {}", ran.stderr))
    };
    let url = |name: &str| pair.world.server.url(&format!("{name}.git"));
    let ours = pair
        .world
        .rgit(&pair.work, ["push", "--progress", &url("ours"), "main"])
        .exits(0);
    let theirs = pair
        .world
        .git(&pair.work, ["push", "--progress", &url("theirs"), "main"]);
    let shape = |line: &str| line.replace(|c: char| c.is_ascii_digit(), "");
    let (ours, theirs) = (total(&ours), total(&theirs));
    assert_eq!(shape(&ours), shape(&theirs));
    let objects = |line: &str| line.split(' ').nth(1).map(str::to_owned);
    assert_eq!(objects(&ours), objects(&theirs));
}

#[test]
fn partial_and_shallow_clones_push_without_what_they_lack() {
    let pair = Pair::new();
    let (world, remote) = (&pair.world, pair.remote("ours"));
    let url = world.server.url("ours.git");
    world.git.git(&remote, ["config", "uploadpack.allowFilter", "true"]);
    for (name, how) in [
        ("blobless", "--filter=blob:none"),
        ("treeless", "--filter=tree:0"),
        ("shallow", "--depth=1"),
    ] {
        let clone = world.path(name);
        world
            .git
            .git(world.directory.path(), ["clone", "-q", how, "-b", "main", &url, name]);
        std::fs::write(clone.join("new.txt"), format!("{name}\n")).unwrap();
        world.git.git(&clone, ["add", "new.txt"]);
        world.git.git(&clone, ["commit", "-q", "-m", "on top"]);
        let here = |world: &World| world.git.text(&clone, ["count-objects", "-v"]);
        let before = here(world);
        world
            .rgit(&clone, ["push", "-q", "origin", &format!("HEAD:{name}")])
            .exits(0);
        assert_eq!(here(world), before, "{name}: nothing was fetched for it");
        world.git.git(&remote, ["fsck", "--strict"]);
        let tips = [
            world.git.text(&clone, ["rev-parse", "HEAD"]),
            world.git.text(&remote, ["rev-parse", name]),
        ];
        assert_eq!(tips[0], tips[1]);
    }
}
