//! `rgit fetch` leaves what `git fetch` leaves.

use std::path::{Path, PathBuf};

use rgit_testkit::history;

use crate::world::{Ran, World};

/// A server repository with some history, and two equal clones made by git before it moved on.
pub(crate) struct Twins {
    pub(crate) world: World,
    pub(crate) source: PathBuf,
    pub(crate) ours: PathBuf,
    pub(crate) theirs: PathBuf,
}

impl Twins {
    pub(crate) fn new() -> Self {
        let world = World::new();
        let source = world.path("source");
        history::small(&world.git, &source, 8);
        let git = |directory: &Path, arguments: &[&str]| world.git.git(directory, arguments);
        git(&source, &["branch", "side", "main~3"]);
        git(&source, &["branch", "doomed", "main~4"]);
        git(&source, &["tag", "t1", "main~5"]);
        world.server.create("r.git", &[]);
        let url = world.server.url("r.git");
        git(
            &source,
            &["push", "-q", &url, "main~2:refs/heads/main", "side", "doomed", "t1"],
        );
        for name in ["ours", "theirs"] {
            git(world.directory.path(), &["clone", "-q", &url, name]);
        }
        git(&source, &["tag", "-a", "-m", "two", "v2", "main~1"]);
        git(&source, &["tag", "unrelated", "main~7"]);
        git(
            &source,
            &[
                "push",
                "-q",
                &url,
                "main",
                "v2",
                ":doomed",
                "+main~4:side",
                "main:refs/heads/fresh",
            ],
        );
        let (ours, theirs) = (world.path("ours"), world.path("theirs"));
        Twins {
            world,
            source,
            ours,
            theirs,
        }
    }

    /// Do the same to both, by git.
    #[track_caller]
    pub(crate) fn both(&self, arguments: &[&str]) {
        for clone in [&self.ours, &self.theirs] {
            self.world.git.git(clone, arguments);
        }
    }

    /// Push from the source to the server, by git.
    #[track_caller]
    pub(crate) fn publish(&self, arguments: &[&str]) {
        let url = self.world.server.url("r.git");
        let all = ["push", "-q", &url].into_iter().chain(arguments.iter().copied());
        self.world.git.git(&self.source, all);
    }

    /// Fetch by both; exit codes, refs, reflogs, `FETCH_HEAD` and the report must agree, to the byte.
    #[track_caller]
    pub(crate) fn same(&self, arguments: &[&str]) -> Ran {
        let url = self.world.server.url("r.git");
        let arguments: Vec<String> = std::iter::once("fetch".to_owned())
            .chain(arguments.iter().map(|a| a.replace("URL", &url)))
            .collect();
        let output = self
            .world
            .command(&self.ours)
            .args(&arguments)
            .output()
            .expect("rgit starts");
        let ours = crate::world::ran(&output);
        let theirs = self.world.git(&self.theirs, &arguments);
        assert_eq!(
            ours.code, theirs.code,
            "{arguments:?}\n{}\n---\n{}",
            ours.stderr, theirs.stderr
        );
        let git = &self.world.git;
        assert_eq!(git.refs(&self.ours), git.refs(&self.theirs), "{arguments:?}");
        git.fsck(&self.ours);
        let logs = |clone: &Path| git.text(clone, ["log", "--all", "--walk-reflogs", "--format=%gD %gs %H"]);
        assert_eq!(logs(&self.ours), logs(&self.theirs), "{arguments:?}: reflogs");
        let head = |clone: &Path| std::fs::read_to_string(clone.join(".git/FETCH_HEAD")).unwrap_or_default();
        assert_eq!(head(&self.ours), head(&self.theirs), "{arguments:?}: FETCH_HEAD");
        let report = |ran: &Ran, clone: &Path| -> Vec<String> {
            ran.stderr
                .lines()
                .filter(|line| !line.starts_with("remote:") && !line.starts_with("POST "))
                .map(|line| line.replace(&*clone.to_string_lossy(), "CLONE"))
                .collect()
        };
        assert_eq!(
            report(&ours, &self.ours),
            report(&theirs, &self.theirs),
            "{arguments:?}"
        );
        ours
    }
}

#[test]
fn the_configured_refspecs() {
    let twins = Twins::new();
    twins.same(&[]).exits(0);
    twins.same(&["origin"]).exits(0);
}

#[test]
fn prune_and_tags() {
    let twins = Twins::new();
    twins.same(&["--prune", "origin"]).exits(0);
    let url = twins.world.server.url("r.git");
    twins.world.git.git(&twins.source, ["push", "-q", &url, "unrelated"]);
    twins.same(&["--tags"]).exits(0);
}

#[test]
fn no_tags() {
    let twins = Twins::new();
    twins.same(&["--no-tags"]).exits(0);
    assert!(
        !twins
            .world
            .git
            .refs(&twins.ours)
            .iter()
            .any(|line| line.ends_with("/v2"))
    );
}

#[test]
fn refspecs_given_by_hand() {
    let twins = Twins::new();
    twins.same(&["origin", "main:refs/heads/copy"]).exits(0);
    twins.same(&["URL", "refs/heads/fresh:refs/heads/local"]).exits(0);
    twins.same(&["origin", "main"]).exits(0);
    twins.same(&["URL"]).exits(0);
}

#[test]
fn what_is_no_ancestor_is_refused_unless_forced() {
    let twins = Twins::new();
    for clone in [&twins.ours, &twins.theirs] {
        twins.world.git.git(clone, ["branch", "kept", "origin/main"]);
        twins.world.git.git(clone, ["checkout", "-q", "kept"]);
        twins
            .world
            .git
            .git(clone, ["commit", "-q", "--allow-empty", "-m", "mine"]);
        twins.world.git.git(clone, ["checkout", "-q", "main"]);
    }
    // The two commits above differ (their dates do), so that refs are compared by hand here.
    let ran = twins.world.rgit(&twins.ours, ["fetch", "origin", "main:kept"]).exits(1);
    assert!(
        ran.stderr.contains("! [rejected]") && ran.stderr.contains("non-fast-forward"),
        "{}",
        ran.stderr
    );
    twins
        .world
        .rgit(&twins.ours, ["fetch", "-q", "--force", "origin", "main:kept"])
        .exits(0);
    assert_eq!(
        twins.world.git.text(&twins.ours, ["rev-parse", "kept"]),
        twins.world.git.text(&twins.source, ["rev-parse", "main"])
    );
}

#[test]
fn a_ref_that_is_not_there() {
    let twins = Twins::new();
    let ran = twins.world.rgit(&twins.ours, ["fetch", "origin", "nowhere"]).exits(128);
    assert!(
        ran.stderr.contains("couldn't find remote ref nowhere"),
        "{}",
        ran.stderr
    );
    let theirs = twins.world.git(&twins.theirs, ["fetch", "origin", "nowhere"]);
    assert_eq!(theirs.code, Some(128));
}

#[test]
fn dry_run_changes_nothing() {
    let twins = Twins::new();
    let before = twins.world.git.refs(&twins.ours);
    let ran = twins.same(&["--dry-run", "--no-tags"]).exits(0).says("forced update");
    assert!(ran.stderr.contains("fresh"), "{}", ran.stderr);
    assert_eq!(before, twins.world.git.refs(&twins.ours));
}

#[test]
fn nothing_new_asks_for_no_pack() {
    let twins = Twins::new();
    twins.same(&[]).exits(0);
    twins.world.server.clear_log();
    let ran = twins.world.rgit(&twins.ours, ["fetch"]).exits(0);
    assert_eq!(ran.stderr, "");
    let posts = twins
        .world
        .server
        .requests()
        .iter()
        .filter(|request| request.method == "POST")
        .count();
    assert_eq!(posts, 1, "only the list of refs");
}

#[test]
fn the_shallow_boundary_moves_as_asked() {
    let twins = Twins::new();
    let url = twins.world.server.url("r.git");
    for (name, by_us) in [("shallow-ours", true), ("shallow-theirs", false)] {
        let arguments = ["clone", "-q", "--depth=2", &url, name];
        let directory = twins.world.directory.path();
        let ran = if by_us {
            twins.world.rgit(directory, arguments)
        } else {
            twins.world.git(directory, arguments)
        };
        ran.exits(0);
    }
    let commits = |name: &str| {
        twins
            .world
            .git
            .text(&twins.world.path(name), ["rev-list", "--count", "HEAD"])
    };
    let shallow = |name: &str| std::fs::read_to_string(twins.world.path(name).join(".git/shallow")).ok();
    for arguments in [
        ["fetch", "-q", "--deepen=1"],
        ["fetch", "-q", "--depth=5"],
        ["fetch", "-q", "--unshallow"],
    ] {
        assert_eq!(commits("shallow-ours"), commits("shallow-theirs"));
        assert_eq!(shallow("shallow-ours"), shallow("shallow-theirs"));
        twins.world.rgit(&twins.world.path("shallow-ours"), arguments).exits(0);
        twins.world.git(&twins.world.path("shallow-theirs"), arguments).exits(0);
    }
    assert_eq!(commits("shallow-ours"), "8");
    assert_eq!(shallow("shallow-ours"), None);
    twins.world.git.fsck(&twins.world.path("shallow-ours"));
}

#[test]
fn into_a_bare_repository_by_url() {
    let twins = Twins::new();
    let bare = twins.world.path("bare.git");
    twins
        .world
        .git
        .init_bare(&bare, rgit_testkit::repository::ObjectFormat::Sha1);
    let url = twins.world.server.url("r.git");
    twins.world.rgit(&bare, ["fetch", "-q", &url, "main:main"]).exits(0);
    assert_eq!(
        twins.world.git.text(&bare, ["rev-parse", "main"]),
        twins.world.git.text(&twins.source, ["rev-parse", "main"])
    );
    twins.world.git.fsck(&bare);
}

#[test]
fn every_remote() {
    let twins = Twins::new();
    let url = twins.world.server.url("r.git");
    twins.world.git.git(&twins.ours, ["remote", "add", "second", &url]);
    twins.world.rgit(&twins.ours, ["fetch", "-q", "--all"]).exits(0);
    let refs = twins.world.git.refs(&twins.ours);
    for name in ["refs/remotes/origin/fresh", "refs/remotes/second/fresh"] {
        assert!(refs.iter().any(|line| line.ends_with(name)), "{name} in {refs:?}");
    }
}
