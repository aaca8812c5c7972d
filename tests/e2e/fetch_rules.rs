//! `rgit fetch` decides about refs as `git fetch` does: what may move, what stands in the way, what is told of it.

use std::path::Path;

use crate::{fetch::Twins, world::World};

#[test]
fn the_report_to_the_byte() {
    let twins = Twins::new();
    let long = "refs/heads/a-branch/whose-name-is-longer-than-what-is-left-of-a-line/of-eighty-columns";
    twins.publish(&[&format!("main:{long}")]);
    twins.same(&["-v", "--prune"]).exits(0);
    twins.same(&["-v", "--tags"]).exits(0);
    twins.same(&["-q"]).exits(0);
}

#[test]
fn a_tag_that_came_later_onto_a_commit_that_is_here() {
    let twins = Twins::new();
    twins.same(&[]).exits(0);
    twins
        .world
        .git
        .git(&twins.source, ["tag", "-a", "-m", "late", "late", "main~3"]);
    twins.publish(&["late"]);
    twins.same(&[]).exits(0).says("late");
}

#[test]
fn tag_options_of_the_remote() {
    let twins = Twins::new();
    twins.both(&["config", "remote.origin.tagOpt", "--no-tags"]);
    twins.same(&["origin"]).exits(0);
    twins.publish(&["unrelated"]);
    twins.both(&["config", "remote.origin.tagOpt", "--tags"]);
    twins.same(&["origin", "main"]).exits(0);
}

#[test]
fn a_tag_is_not_moved_unless_forced() {
    let twins = Twins::new();
    twins.both(&["tag", "v2", "main"]);
    twins.same(&["--tags"]).exits(1).says("would clobber existing tag");
    twins.same(&["-q", "--tags"]).exits(1);
    twins.same(&["--tags", "--force"]).exits(0).says("[tag update]");
}

#[test]
fn a_branch_that_is_checked_out_is_not_moved() {
    let twins = Twins::new();
    let refused = "refusing to fetch into branch";
    twins.same(&["origin", "main:main"]).exits(128).says(refused);
    twins
        .same(&["origin", "+refs/heads/*:refs/heads/*"])
        .exits(128)
        .says(refused);
    for clone in [&twins.ours, &twins.theirs] {
        twins
            .world
            .git
            .git(clone, ["worktree", "add", "-q", "-b", "tree", "tree"]);
    }
    twins.same(&["origin", "main:tree"]).exits(128).says(refused);
}

#[test]
fn not_even_where_it_has_no_commit_yet() {
    let twins = Twins::new();
    let url = twins.world.server.url("r.git");
    let fresh = twins.world.path("fresh");
    twins.world.git.init(&fresh, Default::default());
    let ran = twins.world.rgit(&fresh, ["fetch", &url, "main:main"]).exits(128);
    assert!(
        ran.stderr.contains("refusing to fetch into branch 'refs/heads/main'"),
        "{}",
        ran.stderr
    );
    assert_eq!(twins.world.git.refs(&fresh), Vec::<String>::new());
}

#[test]
fn a_name_is_a_ref_or_a_folder_packed_or_not() {
    for packed in [false, true] {
        let twins = Twins::new();
        if packed {
            twins.both(&["pack-refs", "--all"]);
        }
        twins.publish(&[":side", "main:refs/heads/side/below"]);
        twins.same(&["--no-tags"]).exits(1).says("unable to update local ref");
        twins.same(&["--no-tags", "--prune", "--dry-run"]).exits(0);
        twins.same(&["--no-tags", "--prune"]).exits(0);
        if packed {
            twins.both(&["pack-refs", "--all"]);
        }
        twins.publish(&[":side/below", "main:refs/heads/side"]);
        twins.same(&["--no-tags"]).exits(1).says("unable to update local ref");
        twins.same(&["--no-tags", "--prune"]).exits(0);
    }
}

#[test]
fn pruning_leaves_what_a_negative_refspec_leaves_out_and_tells_of_dangling_refs() {
    let twins = Twins::new();
    twins.both(&["config", "--add", "remote.origin.fetch", "^refs/heads/doomed"]);
    twins.same(&["--prune"]).exits(0);
    twins.both(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/side"]);
    twins.publish(&[":side"]);
    let arguments = ["fetch", "--prune"];
    let ours = twins.world.rgit(&twins.ours, arguments).exits(0);
    let theirs = twins.world.git(&twins.theirs, arguments);
    assert_eq!(ours.stderr, theirs.stderr);
    assert!(ours.stderr.contains("has become dangling"), "{}", ours.stderr);
}

#[test]
fn short_names_objects_and_other_forms() {
    let twins = Twins::new();
    let remote = twins.world.server.root().join("r.git");
    twins
        .world
        .git
        .git(&remote, ["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let id = twins.world.git.text(&twins.source, ["rev-parse", "main~1"]);
    let id = id.trim();
    twins.publish(&["main~2:refs/tags/fresh", "main:refs/notes/n"]);
    twins.same(&["--no-tags", "origin", "fresh"]).exits(0);
    twins.same(&["--no-tags", "origin", "heads/fresh:heads/taken"]).exits(0);
    twins.same(&["--no-tags", "origin", id]).exits(0);
    twins
        .same(&["--no-tags", "origin", &format!("{id}:refs/heads/by-id")])
        .exits(0);
    twins.same(&["--no-tags", "origin", "refs/notes/n"]).exits(0);
    twins
        .same(&["--no-tags", "origin", "refs/notes/*:refs/notes/*"])
        .exits(0);
    twins.same(&["--no-tags", "origin", ":by-nothing"]).exits(0);
    twins.same(&["--no-tags", "origin", "main:x", "fresh:x"]).exits(128);
    twins.same(&["origin", "nowhere"]).exits(128);
    assert_eq!(
        std::fs::read_to_string(twins.ours.join(".git/FETCH_HEAD")).unwrap(),
        "",
        "nothing stale is left to merge"
    );
}

#[test]
fn several_refspecs_and_merges() {
    let twins = Twins::new();
    twins.both(&[
        "config",
        "--add",
        "remote.origin.fetch",
        "refs/heads/fresh:refs/copies/fresh",
    ]);
    twins.both(&["config", "--add", "branch.main.merge", "refs/heads/fresh"]);
    twins.same(&[]).exits(0);
    twins.both(&["config", "--unset-all", "remote.origin.fetch"]);
    twins.same(&[]).exits(0);
    twins.both(&["config", "remote.origin.fetch", "refs/heads/gone:refs/copies/gone"]);
    twins
        .same(&[])
        .exits(128)
        .says("couldn't find remote ref refs/heads/gone");
}

#[test]
fn a_remote_that_fails_does_not_keep_the_others() {
    let twins = Twins::new();
    let (url, nowhere) = (twins.world.server.url("r.git"), twins.world.server.url("nowhere.git"));
    twins.both(&["remote", "add", "broken", &nowhere]);
    twins.both(&["remote", "add", "a-third", &url]);
    let ran = twins.world.rgit(&twins.ours, ["fetch", "--all"]).exits(1);
    let theirs = twins.world.git(&twins.theirs, ["fetch", "--all"]).exits(1);
    assert_eq!(ran.stdout, theirs.stdout);
    assert!(ran.stderr.contains("error: could not fetch broken"), "{}", ran.stderr);
    let head = |clone: &Path| std::fs::read_to_string(clone.join(".git/FETCH_HEAD")).unwrap();
    assert_eq!(head(&twins.ours), head(&twins.theirs));
    assert_eq!(twins.world.git.refs(&twins.ours), twins.world.git.refs(&twins.theirs));
    twins.both(&["config", "remote.broken.skipFetchAll", "true"]);
    twins.world.rgit(&twins.ours, ["fetch", "--all"]).exits(0);
}

#[test]
fn an_empty_remote() {
    let twins = Twins::new();
    twins.world.server.create("empty.git", &[]);
    let url = twins.world.server.url("empty.git");
    twins.both(&["remote", "add", "empty", &url]);
    twins.same(&["empty"]).exits(0);
    twins.same(&["empty", "main"]).exits(128);
    twins.same(&[&url]).exits(128);
}

#[test]
fn the_shallow_boundary_of_a_full_clone() {
    let twins = Twins::new();
    twins.same(&["--depth=2"]).exits(0);
    twins.same(&["--depth=1", "--no-tags"]).exits(0);
    twins.same(&["--unshallow"]).exits(0);
    twins
        .same(&["--depth=0"])
        .exits(128)
        .says("depth 0 is not a positive number");
}

#[test]
fn a_linked_worktree_has_a_fetch_head_of_its_own() {
    let twins = Twins::new();
    let tree = twins.world.path("tree");
    twins.world.git.git(
        &twins.ours,
        ["worktree", "add", "-q", "-b", "tree", tree.to_str().unwrap()],
    );
    twins.world.rgit(&tree, ["fetch", "-q", "origin", "fresh"]).exits(0);
    assert_eq!(
        twins.world.git.text(&tree, ["rev-parse", "FETCH_HEAD"]),
        twins.world.git.text(&twins.source, ["rev-parse", "main"])
    );
    assert!(!twins.ours.join(".git/FETCH_HEAD").exists());
}

#[test]
fn with_alternates_nothing_is_sent_twice() {
    let twins = Twins::new();
    let world: &World = &twins.world;
    let url = world.server.url("r.git");
    world.git.git(&twins.source, ["gc", "-q"]);
    let borrower = world.path("borrower");
    world.git.git(
        world.directory.path(),
        ["clone", "-q", "--shared", "--no-tags", "source", "borrower"],
    );
    world.git.git(&borrower, ["remote", "set-url", "origin", &url]);
    world.rgit(&borrower, ["fetch", "-q"]).exits(0);
    world.git.fsck(&borrower);
    let packs = std::fs::read_dir(borrower.join(".git/objects/pack")).unwrap().count();
    assert_eq!(packs, 0, "all objects were there already");
}
