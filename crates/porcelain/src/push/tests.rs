//! Plans and their wording, with `git push --dry-run` as the referee: both sides get the same repositories and arguments, and
//! must come to the same lines, errors and hints.

mod fixture;

use std::path::Path;

use bstr::{BStr, ByteSlice};
use gix::ObjectId;

use super::{Error, PushPlan, Status, Verdict, local::LocalRefs, outcome, plan::Advertised, request::Request, summary};
use fixture::{Fixture, parse};

#[test]
fn every_relation_of_two_refs() {
    let fixture = Fixture::new();
    for (refspec, flag) in [
        ("main", ' '),
        ("same", '='),
        ("new", '*'),
        ("behind", '!'),
        ("+behind", '+'),
        ("forked", '!'),
        ("tip", '!'),
        ("+tip", '+'),
        (":gone", '-'),
        ("moved", '!'),
        ("+moved", '+'),
        ("kept", '='),
        ("fresh", '*'),
        ("refs/data/blob", '!'),
        ("+refs/data/blob", '+'),
        ("refs/data/tree", '*'),
        ("main:refs/data/blob", '!'),
        ("refs/data/tree:refs/heads/behind", '!'),
        (":refs/heads/never", '-'),
        ("HEAD", ' '),
        ("@:new-name", '*'),
        ("HEAD~1:refs/heads/x", '*'),
        ("main:gone", ' '),
        ("main:tags/dup", '!'),
        ("sym", '='),
        ("sym:other", '*'),
        ("island", '*'),
        ("island:main", '!'),
        ("notes/n", '='),
    ] {
        let said = fixture.agree(&["origin", refspec]);
        assert_eq!(said.lines.len(), 1, "{refspec}: {said:?}");
        assert!(said.lines[0].starts_with(flag), "{refspec}: {said:?}");
    }
}

#[test]
fn what_can_not_be_matched_is_told_in_gits_words() {
    let fixture = Fixture::new();
    for refspecs in [
        &["nosuch"][..],
        &["amb"],
        &["main:dup"],
        &[":nosuch"],
        &["nosuch", "amb", "main"],
        &["main:x", "same:x"],
        &[":nosuch", "main:dup"],
        &["HEAD~1:short"],
        &["refs/notes/n:short"],
        &["refs/data/blob:short"],
        &["HEAD~1"],
        &["main:"],
        &["a*:b"],
        &["tag"],
        &["tag", "nosuch"],
        &["refs/remotes/origin/HEAD"],
    ] {
        let said = fixture.agree(&[&["origin"], refspecs].concat());
        assert!(!said.complaints.is_empty(), "{refspecs:?}");
    }
    let id = fixture.sh("w", "git rev-parse main").trim().to_owned();
    fixture.agree(&["origin", &id]);
    fixture.agree(&["origin", &format!("{id}:short")]);
    fixture.agree(&["origin", &format!("{id}:refs/heads/by-id")]);
}

#[test]
fn groups_patterns_and_exclusions() {
    let fixture = Fixture::new();
    for arguments in [
        &["origin", ":"][..],
        &["origin", "+:"],
        &["--force", "origin", ":"],
        &["--all", "origin"],
        &["--tags", "origin"],
        &["--tags", "origin", "main"],
        &["--mirror", "origin"],
        &["origin", "refs/heads/*:refs/heads/x/*"],
        &["origin", "refs/heads/*"],
        &["origin", "+refs/heads/*:refs/heads/*"],
        &["origin", "refs/tags/*:refs/tags/*", "+refs/heads/f*:refs/heads/f*"],
        &[
            "origin",
            "refs/heads/*:refs/heads/*",
            "^refs/heads/f*",
            "^refs/heads/tip",
        ],
        &["origin", ":", "^refs/heads/main"],
        &["origin", "main:refs/heads/z", "refs/heads/*:refs/heads/*"],
        &["origin", "tag", "fresh", "main"],
        &["--prune", "origin", "refs/heads/*:refs/heads/*"],
        &["--prune", "origin", "refs/heads/*:refs/heads/x/*"],
        &["--prune", "--all", "origin"],
        &["--prune", "origin", ":"],
        &["--delete", "origin", "gone", "tip"],
        &["--delete", "origin", "tag", "kept"],
        &["--follow-tags", "origin", "main"],
        &["--follow-tags", "origin", "same"],
        &["--follow-tags", "origin", "island"],
        &["--follow-tags", "--all", "origin"],
    ] {
        let said = fixture.agree(arguments);
        assert!(!said.lines.is_empty(), "{arguments:?}: {said:?}");
    }
}

#[test]
fn options_that_exclude_each_other() {
    let fixture = Fixture::new();
    for arguments in [
        &["--all", "--tags", "origin"][..],
        &["--mirror", "--tags", "origin"],
        &["--all", "--mirror", "origin"],
        &["--all", "--mirror", "--tags", "origin"],
        &["--delete", "--tags", "origin", "x"],
        &["--delete", "--all", "--tags", "origin"],
        &["--delete", "origin"],
        &["--delete", "origin", "a:b"],
        &["--all", "origin", "main"],
        &["--mirror", "origin", "main"],
    ] {
        let said = fixture.agree(arguments);
        assert!(said.complaints.starts_with("fatal: "), "{arguments:?}");
    }
}

#[test]
fn leases() {
    let fixture = Fixture::new();
    let remote_tip = fixture.sh("r.git", "git rev-parse tip").trim().to_owned();
    for (arguments, flags) in [
        (&["--force-with-lease", "origin", "forked", "behind"][..], "++"),
        (&["--force-with-lease", "origin", "tip"], "!"),
        (&["--force-with-lease", "--force", "origin", "tip"], "+"),
        (&["--force-with-lease=tip", "origin", "tip", "forked"], "!!"),
        (&["--force-with-lease=forked:", "origin", "forked"], "!"),
        (&["--force-with-lease=new:", "origin", "new"], "*"),
        (&["--force-with-lease=forked:origin/forked", "origin", "forked"], "+"),
        (&["--force-with-lease=forked:main", "origin", "forked"], "!"),
        (&["--force-with-lease", "origin", ":gone"], "-"),
        (&["--force-with-lease", "origin", "main:refs/other/x"], "*"),
        (&["--force-with-lease", "origin", "same"], "="),
        (&["--force-with-lease", "--force-if-includes", "origin", "forked"], "+"),
        (&["--force-with-lease", "--force-if-includes", "origin", "behind"], "!"),
        (
            &["--force-with-lease", "--force-if-includes", "origin", "island:behind"],
            "!",
        ),
    ] {
        let said = fixture.agree(arguments);
        // Git lists what is done before what is refused.
        let got: String = said.lines.iter().filter_map(|line| line.chars().next()).collect();
        assert_eq!(got, flags, "{arguments:?}: {said:?}");
    }
    fixture.agree(&[&format!("--force-with-lease=tip:{remote_tip}"), "origin", "tip"]);
    let repo = fixture.open();
    let bad = fixture.plan(&repo, &["--force-with-lease=tip:nonsense", "origin", "tip"]);
    assert!(matches!(bad, Err(Error::BadExpectation(name)) if name == "nonsense"));
}

#[test]
fn one_refusal_fails_an_atomic_push() {
    let fixture = Fixture::new();
    let said = fixture.agree(&["--atomic", "origin", "main", "behind", "same", "new"]);
    let failed = said.lines.iter().filter(|line| line.ends_with("(atomic push failed)"));
    assert_eq!(failed.count(), 2, "{said:?}");
    let repo = fixture.open();
    let plan = fixture.plan(&repo, &["--atomic", "origin", "main", "behind"]).unwrap();
    assert!(plan.updates().is_empty(), "nothing may be sent");
    fixture.agree(&["--atomic", "origin", "main", "new"]);
}

#[test]
fn a_server_without_delete_refs_is_not_asked_to_delete() {
    let fixture = Fixture::new();
    let repo = fixture.open();
    let (options, remote) = parse(&repo, &["origin", ":gone"]);
    let local = LocalRefs::new(&repo);
    let request = Request::new(&local, &remote, &options).unwrap();
    let refs = fixture.advertised();
    let advertised = Advertised {
        refs: refs.iter().map(|(name, id)| (name.as_bstr(), *id)),
        deletes: false,
    };
    let plan = PushPlan::new(&local, &remote, &request, &options, advertised).unwrap();
    assert!(matches!(plan.refs[0].verdict, Verdict::Rejected(_)));
    let results = outcome::results(plan, None);
    let line = &summary::lines(&results[0], &summary::Abbreviation::new(&repo))[0];
    assert_eq!(
        line.human(17),
        " ! [rejected]        gone (remote does not support deleting refs)"
    );
}

#[test]
fn push_default_in_all_its_forms() {
    let fixture = Fixture::new();
    let config = |lines: &str| fixture.sh("w", lines);
    // Nothing configured: `simple` without an upstream.
    let said = fixture.agree(&[]);
    assert!(said.complaints.contains("has no upstream branch"), "{said:?}");
    for default in ["simple", "current", "upstream", "matching", "nothing"] {
        config(&format!("git config push.default {default}"));
        fixture.agree(&[]);
        fixture.agree(&["origin"]);
        fixture.agree(&["../r.git"]);
        fixture.agree(&["origin", "same"]);
    }
    config("git config branch.main.remote origin; git config branch.main.merge refs/heads/gone");
    for default in ["simple", "current", "upstream", "matching", "nothing"] {
        config(&format!("git config push.default {default}"));
        fixture.agree(&[]);
        fixture.agree(&["../r.git"]);
        fixture.agree(&["origin", "main"]);
    }
    config("git config --unset push.default");
    let said = fixture.agree(&[]);
    assert!(
        said.complaints.contains("push.default in 'git help config'"),
        "{said:?}"
    );
    config("git config branch.autoSetupMerge simple");
    fixture.agree(&[]);
    config("git config branch.main.merge refs/heads/main");
    assert_eq!(fixture.agree(&[]).lines.len(), 1);
    config("git config --add branch.main.merge refs/heads/same");
    let said = fixture.agree(&[]);
    assert!(said.complaints.contains("multiple upstream branches"), "{said:?}");
    config("git config --unset-all branch.main.merge; git config push.autoSetupRemote true");
    assert_eq!(fixture.agree(&[]).lines.len(), 1);
    config("git remote add second ../r.git; git config branch.main.pushRemote second");
    fixture.agree(&[]);
    config("git config push.default upstream");
    fixture.agree(&[]);
    config("git config --unset push.default; git checkout -q --detach");
    let said = fixture.agree(&[]);
    assert!(said.complaints.contains("not currently on a branch"), "{said:?}");
    fixture.agree(&["origin", "HEAD"]);
    fixture.agree(&["origin", "HEAD:refs/heads/detached"]);
}

#[test]
fn configured_refspecs_and_mirrors() {
    let fixture = Fixture::new();
    fixture.sh(
        "w",
        "git config remote.origin.push refs/heads/main:refs/heads/released; git config --add remote.origin.push '+refs/heads/f*:refs/heads/q/*'",
    );
    fixture.agree(&[]);
    fixture.agree(&["origin", "main"]);
    fixture.agree(&["origin", "forked"]);
    fixture.agree(&["origin", "same"]);
    fixture.sh(
        "w",
        "git config --unset-all remote.origin.push; git config remote.origin.mirror true",
    );
    fixture.agree(&[]);
    fixture.agree(&["origin", "main"]);
}

#[test]
fn an_empty_remote_and_an_unborn_branch() {
    let fixture = Fixture::new();
    fixture.sh(".", "git init -q --bare empty.git; cd w; git remote set-url origin ../empty.git; mv ../r.git ../full.git; mv ../empty.git ../r.git");
    fixture.sh("w", "git remote set-url origin ../r.git");
    fixture.agree(&["origin", "main", "fresh"]);
    fixture.agree(&["origin", ":"]);
    fixture.sh("w", "git checkout -q --orphan unborn");
    let said = fixture.agree(&["origin", "HEAD"]);
    assert!(said.complaints.contains("does not match any"), "{said:?}");
}

#[test]
fn the_commit_graph_and_packed_refs_change_nothing() {
    let fixture = Fixture::new();
    fixture.sh("w", "git gc -q; git commit-graph write --reachable");
    for refspec in ["main", "behind", "forked", "island:main", "+behind", "refs/data/blob"] {
        fixture.agree(&["origin", refspec]);
    }
    fixture.agree(&["--follow-tags", "--all", "origin"]);
    fixture.agree(&["--mirror", "origin"]);
}

#[test]
fn ancestry_is_gits_in_a_random_history() {
    let fixture = Fixture::new();
    // Merges, equal dates and clock skew, as they hurt walks that trust dates.
    fixture.sh(
        ".",
        r#"
        git init -q g && cd g
        tree=$(git mktree </dev/null)
        seed=7 ; n=0
        next() { seed=$(( (seed * 1103515245 + 12345) % 2147483648 )); echo $(( seed / 65536 % $1 )); }
        while [ $n -lt 40 ]; do
            parents=''
            if [ $n -gt 0 ]; then
                for i in 1 2; do p=$(next $n); parents="$parents -p refs/c/$p"; done
                [ $(next 9) = 0 ] && parents=''
            fi
            GIT_COMMITTER_DATE="2020-01-01T00:00:$(printf %02d $(next 60))Z" GIT_AUTHOR_DATE="$GIT_COMMITTER_DATE" \
                git commit-tree -m $n $parents $tree >id
            git update-ref refs/c/$n $(cat id) ; n=$((n+1))
        done
        "#,
    );
    let truth = fixture.sh(
        "g",
        "for a in $(git for-each-ref --format='%(objectname)'); do git rev-list $a | sed \"s/^/$a /\"; done",
    );
    let pairs: std::collections::HashSet<(&str, &str)> =
        truth.lines().map(|line| line.split_once(' ').unwrap()).collect();
    let ids: std::collections::HashSet<&str> = pairs.iter().map(|(id, _)| *id).collect();
    let check = |path: &Path| {
        let repo = gix::open_opts(path, gix::open::Options::isolated()).unwrap();
        let ancestry = super::ancestry::Ancestry::new(&repo).unwrap();
        let id = |text: &str| ObjectId::from_hex(text.as_bytes()).unwrap();
        for new in &ids {
            let mut reached = std::collections::HashSet::new();
            for old in &ids {
                let expected = pairs.contains(&(*new, *old));
                assert_eq!(ancestry.is_ancestor(id(old), id(new)).unwrap(), expected, "{old} {new}");
                if expected {
                    reached.insert(id(old));
                }
            }
            let all = ids.iter().map(|text| id(text)).collect();
            assert_eq!(ancestry.reachable([id(new)], &all).unwrap(), reached);
        }
    };
    assert!(ids.len() > 30);
    check(&fixture.path("g"));
    fixture.sh("g", "git commit-graph write --reachable");
    check(&fixture.path("g"));
}

#[test]
fn statuses_of_a_report_are_told_as_git_tells_them() {
    let fixture = Fixture::new();
    let repo = fixture.open();
    let plan = fixture
        .plan(&repo, &["origin", "main", "new", ":gone", "fresh"])
        .unwrap();
    let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
    let report = [
        line("unpack ok\n"),
        line("ok refs/heads/main\n"),
        line("option refname refs/pull/1/head\n"),
        line("option forced-update\n"),
        line("ng refs/heads/gone deletion\x1b[31m prohibited\n"),
        line("ng refs/heads/new hook declined\n"),
        "0000".into(),
    ]
    .concat();
    let report = rgit_proto::ReportStatus::parse(report.as_bytes()).unwrap();
    let results = outcome::results(plan, Some(&report));
    let abbreviation = summary::Abbreviation::new(&repo);
    let lines: Vec<String> = results
        .iter()
        .flat_map(|result| summary::lines(result, &abbreviation))
        .map(|line| line.human(17).to_string())
        .collect();
    let main = results
        .iter()
        .find(|result| result.remote == "refs/heads/main")
        .unwrap();
    let (old, new) = (abbreviation.of(&main.old), abbreviation.of(&main.new));
    let expected = [
        " ! [remote rejected] gone (deletion?[31m prohibited)".to_owned(),
        format!(" + {old}...{new} main -> refs/pull/1/head (forced update)"),
        " ! [remote rejected] new -> new (hook declined)".to_owned(),
        " ! [remote failure]  fresh -> fresh (remote failed to report status)".to_owned(),
    ];
    assert_eq!(lines, expected);
    assert_eq!(
        results
            .iter()
            .filter(|result| result.status == Status::Unreported)
            .count(),
        1
    );
}

#[test]
fn names_that_are_no_refs_are_left_alone() {
    let fixture = Fixture::new();
    let repo = fixture.open();
    let (options, remote) = parse(&repo, &["--mirror", "origin"]);
    let local = LocalRefs::new(&repo);
    let request = Request::new(&local, &remote, &options).unwrap();
    let id = repo.head_id().unwrap().detach();
    let refs = ["HEAD", "refs/heads/a..b", "refs/heads/ok", "refs/tags/v^{}"].map(|name| (BStr::new(name), id));
    let advertised = Advertised { refs, deletes: true };
    let plan = PushPlan::new(&local, &remote, &request, &options, advertised).unwrap();
    let deleted: Vec<_> = plan.refs.iter().filter(|planned| planned.is_deletion()).collect();
    assert_eq!(deleted.len(), 1);
    assert_eq!(deleted[0].remote, "refs/heads/ok");
}
