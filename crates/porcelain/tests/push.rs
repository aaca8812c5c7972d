//! Whole pushes against the real `git receive-pack`, by way of a transport that runs it as a child: everything but the wire is real.

mod receive_pack;

use std::sync::{Arc, atomic::AtomicBool, atomic::Ordering};

use rgit_porcelain::{
    push::{Error, Options, PushOutcome, Status, push},
    remote::Remote,
};
use rgit_smart_http::{NoCredentials, Session};

use receive_pack::{ReceivePack, Room};

struct Pushed {
    outcome: Result<PushOutcome, Error>,
    remarks: String,
    transport: Arc<ReceivePack>,
}

impl Pushed {
    #[track_caller]
    fn ok(&self) -> &PushOutcome {
        match &self.outcome {
            Ok(outcome) => outcome,
            Err(err) => panic!("{err}: {err:?}"),
        }
    }

    #[track_caller]
    fn status(&self, remote: &str) -> &Status {
        let found = self.ok().refs.iter().find(|result| result.remote == remote);
        &found
            .unwrap_or_else(|| panic!("{remote} is not in {:?}", self.ok().refs))
            .status
    }
}

fn push_by(room: &Room, transport: ReceivePack, options: &Options, interrupt: bool) -> Pushed {
    let repo = room.open();
    let remote = Remote::for_push(&repo, None).unwrap();
    let transport = Arc::new(transport);
    let url = remote.push_urls()[0].to_string();
    let mut session = Session::new(transport.clone(), &url, Default::default(), Box::new(NoCredentials)).unwrap();
    let mut remarks = Vec::new();
    let outcome = push(
        &repo,
        &remote,
        &mut session,
        options,
        &mut gix::progress::Discard,
        &mut |text| remarks.extend_from_slice(text),
        &Arc::new(AtomicBool::new(interrupt)),
    );
    Pushed {
        outcome,
        remarks: String::from_utf8(remarks).unwrap(),
        transport,
    }
}

fn push_with(room: &Room, change: impl FnOnce(&mut Options)) -> Pushed {
    let mut options = Options::default();
    change(&mut options);
    push_by(room, ReceivePack::new(room, "r.git"), &options, false)
}

fn push_specs(room: &Room, refspecs: &[&str]) -> Pushed {
    push_with(room, |options| {
        options.refspecs = refspecs.iter().map(|spec| (*spec).into()).collect()
    })
}

#[test]
fn objects_and_refs_arrive_and_tracking_refs_follow() {
    let room = Room::new("sha1");
    let pushed = push_specs(&room, &["main", "main~1:refs/heads/older", "v1"]);
    assert!(pushed.ok().is_success());
    assert_eq!(pushed.transport.requests(), ["GET info/refs", "POST git-receive-pack"]);
    room.fsck("r.git");
    assert_eq!(room.refs("r.git"), room.sh("w", "echo $(git rev-parse main) refs/heads/main; echo $(git rev-parse main~1) refs/heads/older; echo $(git rev-parse v1) refs/tags/v1"));
    assert_eq!(
        room.sh("w", "git rev-list --objects --all | sort | uniq"),
        room.sh("r.git", "git rev-list --objects --all | sort | uniq")
    );
    assert_eq!(
        room.sh(
            "w",
            "git log -g --format=%gs refs/remotes/origin/main; git rev-parse origin/older"
        ),
        room.sh("w", "echo update by push; git rev-parse main~1")
    );
    let tracked: Vec<_> = pushed
        .ok()
        .tracked
        .iter()
        .map(|tracked| tracked.name.to_string())
        .collect();
    assert_eq!(tracked, ["refs/remotes/origin/main", "refs/remotes/origin/older"]);

    let again = push_specs(&room, &["main", "v1"]);
    assert!(again.ok().is_success() && again.ok().is_up_to_date() && !again.ok().posted);
    assert_eq!(again.transport.requests(), ["GET info/refs"]);

    room.sh("w", "echo more >>file; git commit -qam more");
    let more = push_specs(&room, &["main"]);
    assert_eq!(more.ok().pack.unwrap().objects, 3, "one commit, one tree, one blob");
    room.fsck("r.git");
}

#[test]
fn a_sha256_repository_is_pushed_as_well() {
    let room = Room::new("sha256");
    let pushed = push_specs(&room, &["main", "v1"]);
    assert!(pushed.ok().is_success());
    room.fsck("r.git");
}

#[test]
fn formats_that_differ_are_named_before_anything_is_sent() {
    let room = Room::new("sha1");
    room.sh(".", "git init -q --bare --object-format=sha256 s.git");
    let options = options_for(&["main"]);
    let pushed = push_by(&room, ReceivePack::new(&room, "s.git"), &options, false);
    let err = pushed.outcome.unwrap_err().to_string();
    assert!(err.contains("sha1") && err.contains("sha256"), "{err}");
    assert_eq!(pushed.transport.requests(), ["GET info/refs"]);
}

fn options_for(refspecs: &[&str]) -> Options {
    let mut options = Options::default();
    options.refspecs = refspecs.iter().map(|spec| (*spec).into()).collect();
    options
}

#[test]
fn what_is_refused_here_is_never_posted() {
    let room = Room::new("sha1");
    assert!(push_specs(&room, &["main", "v1"]).ok().is_success());
    room.sh("w", "git tag -f -a v1 -m moved");
    for refspecs in [&["main~1:main"][..], &["v1"]] {
        let pushed = push_specs(&room, refspecs);
        assert!(!pushed.ok().is_success());
        assert_eq!(pushed.transport.requests(), ["GET info/refs"]);
    }
    let unknown = push_specs(&room, &["nosuch"]);
    assert!(unknown.outcome.unwrap_err().is_refusal());
    assert!(
        unknown.transport.requests().is_empty(),
        "a source that isn't there needs no server"
    );
}

#[test]
fn a_dry_run_changes_nothing_on_either_side() {
    let room = Room::new("sha1");
    let before = room.refs("w");
    let pushed = push_with(&room, |options| {
        options.refspecs = vec!["main".into()];
        options.dry_run = true;
        options.set_upstream = true;
    });
    assert_eq!(pushed.status("refs/heads/main"), &Status::Ok);
    assert_eq!(pushed.ok().upstreams.len(), 1, "told, not recorded");
    assert_eq!(pushed.transport.requests(), ["GET info/refs"]);
    assert_eq!((room.refs("w"), room.refs("r.git").as_str()), (before, ""));
    assert_eq!(room.sh("w", "git config branch.main.merge || echo none"), "none\n");
}

#[test]
fn a_deletion_carries_no_pack_and_takes_its_tracking_ref_along() {
    let room = Room::new("sha1");
    assert!(
        push_specs(&room, &["main", "main:gone", "main:empty"])
            .ok()
            .is_success()
    );
    let pushed = push_specs(&room, &[":gone"]);
    assert!(pushed.ok().is_success());
    assert!(pushed.ok().pack.is_none());
    assert!(!pushed.transport.last_body().windows(4).any(|window| window == b"PACK"));
    assert_eq!(
        room.sh("w", "git for-each-ref --format='%(refname)' refs/remotes"),
        "refs/remotes/origin/empty\nrefs/remotes/origin/main\n"
    );
    assert!(!room.refs("r.git").contains("gone"));

    let both = push_specs(&room, &[":empty", "main:new"]);
    assert!(both.ok().is_success());
    let body = both.transport.last_body();
    let at = body
        .windows(4)
        .position(|window| window == b"PACK")
        .expect("a pack, though an empty one");
    assert_eq!(body[at..at + 12], *b"PACK\0\0\0\x02\0\0\0\0");
    assert_eq!(body.len(), at + 12 + 20);
}

#[test]
fn a_hook_over_there_decides_ref_by_ref() {
    let room = Room::new("sha1");
    room.hook("r.git", "update", "echo \"looking at $1\"; [ $1 != refs/heads/bad ]");
    let pushed = push_specs(&room, &["main", "main:bad"]);
    assert!(!pushed.ok().is_success());
    assert_eq!(pushed.status("refs/heads/main"), &Status::Ok);
    assert_eq!(
        pushed.status("refs/heads/bad"),
        &Status::RemoteRejected("hook declined".into())
    );
    assert!(
        pushed.remarks.contains("looking at refs/heads/bad"),
        "{}",
        pushed.remarks
    );
    let tracked: Vec<_> = pushed
        .ok()
        .tracked
        .iter()
        .map(|tracked| tracked.name.to_string())
        .collect();
    assert_eq!(tracked, ["refs/remotes/origin/main"], "only what was accepted");
    assert!(!room.refs("w").contains("origin/bad"));

    let atomic = push_with(&room, |options| {
        options.refspecs = vec!["main:more".into(), "main:bad".into()];
        options.atomic = true;
    });
    assert_eq!(
        atomic.status("refs/heads/more"),
        &Status::RemoteRejected("atomic push failure".into())
    );
    assert!(!room.refs("r.git").contains("more"));
}

#[test]
fn push_options_reach_the_hook_or_are_refused() {
    let room = Room::new("sha1");
    room.hook(
        "r.git",
        "pre-receive",
        "echo \"$GIT_PUSH_OPTION_COUNT $GIT_PUSH_OPTION_0\"",
    );
    let with_option = |options: &mut Options| {
        options.refspecs = vec!["main".into()];
        options.push_options = vec!["ci.skip=yes".into()];
    };
    let refused = push_with(&room, with_option);
    assert!(refused.outcome.unwrap_err().to_string().contains("push options"));
    assert_eq!(refused.transport.requests(), ["GET info/refs"]);
    room.sh("r.git", "git config receive.advertisePushOptions true");
    let pushed = push_with(&room, with_option);
    assert!(pushed.ok().is_success());
    assert!(pushed.remarks.contains("1 ci.skip=yes"), "{}", pushed.remarks);
}

#[test]
#[cfg(unix)]
fn the_pre_push_hook_sees_what_will_happen_and_may_refuse() {
    let room = Room::new("sha1");
    assert!(
        push_specs(&room, &["main:gone", "main~1:refs/heads/main"])
            .ok()
            .is_success()
    );
    room.hook(
        "w/.git",
        "pre-push",
        "echo \"$1 $2 $(pwd)\" >>../seen; cat >>../seen; [ ! -e ../refuse ]",
    );
    std::fs::write(room.path("refuse"), "").unwrap();
    let before = room.refs("r.git");
    let refused = push_specs(&room, &["main", ":gone", "HEAD:x", "v1"]);
    assert!(matches!(refused.outcome, Err(Error::HookDeclined { .. })));
    assert!(refused.outcome.unwrap_err().is_refusal());
    assert_eq!(refused.transport.requests(), ["GET info/refs"]);
    assert_eq!(room.refs("r.git"), before);
    let expected = room.sh(
        "w",
        "null=0000000000000000000000000000000000000000
        echo \"origin http://host/r.git $(pwd)\"
        echo \"(delete) $null refs/heads/gone $(git rev-parse main)\"
        echo \"refs/heads/main $(git rev-parse main) refs/heads/main $(git rev-parse main~1)\"
        echo \"HEAD $(git rev-parse main) refs/heads/x $null\"
        echo \"refs/tags/v1 $(git rev-parse v1) refs/tags/v1 $null\"",
    );
    assert_eq!(std::fs::read_to_string(room.path("seen")).unwrap(), expected);

    let unasked = push_with(&room, |options| {
        options.refspecs = vec!["main".into()];
        options.verify = false;
    });
    assert!(unasked.ok().is_success());
    room.sh(
        "w",
        "mkdir own; mv .git/hooks/pre-push own/; git config core.hooksPath own",
    );
    assert!(matches!(
        push_specs(&room, &["v1"]).outcome,
        Err(Error::HookDeclined { .. })
    ));
    std::fs::remove_file(room.path("refuse")).unwrap();
    assert!(push_specs(&room, &["v1"]).ok().is_success());
}

#[test]
fn the_upstream_is_recorded_for_accepted_branches() {
    let room = Room::new("sha1");
    room.sh(
        "w",
        "git config branch.autoSetupRebase always; git branch other; git config branch.main.description kept",
    );
    room.hook("r.git", "update", "[ $1 != refs/heads/other ]");
    let pushed = push_with(&room, |options| {
        options.refspecs = vec!["HEAD:trunk".into(), "other".into(), "v1".into()];
        options.set_upstream = true;
    });
    assert_eq!(pushed.ok().upstreams.len(), 1);
    let upstream = &pushed.ok().upstreams[0];
    assert_eq!(
        (upstream.branch.to_string(), upstream.merge_short().to_string()),
        ("main".into(), "trunk".into())
    );
    assert_eq!(
        room.sh("w", "git config --get-regexp '^branch\\.'"),
        "branch.autosetuprebase always\nbranch.main.description kept\nbranch.main.remote origin\n\
         branch.main.merge refs/heads/trunk\nbranch.main.rebase true\n"
    );
    assert_eq!(
        room.sh("w", "git rev-parse --abbrev-ref main@{upstream}"),
        "origin/trunk\n"
    );
    push_with(&room, |options| {
        options.refspecs = vec!["main".into()];
        options.set_upstream = true;
    });
    assert_eq!(
        room.sh("w", "git config --get-all branch.main.merge"),
        "refs/heads/main\n"
    );
}

#[test]
fn a_shallow_clone_can_push() {
    let room = Room::new("sha1");
    assert!(push_specs(&room, &["main"]).ok().is_success());
    room.sh(
        ".",
        "mv w full; git clone -q --depth 1 file://$(pwd)/r.git w; cd w; git remote set-url origin http://host/r.git
        echo x >x; git add x; git commit -qm x",
    );
    let pushed = push_specs(&room, &["main"]);
    assert!(pushed.ok().is_success(), "{:?}", pushed.ok());
    let shallow = room.sh("w", "cat .git/shallow");
    let body = pushed.transport.last_body();
    assert!(
        body.starts_with(format!("0035shallow {shallow}").as_bytes()),
        "as git does"
    );
    room.fsck("r.git");
}

#[test]
fn a_proc_receive_hook_may_change_other_refs_instead() {
    let room = Room::new("sha1");
    room.sh("r.git", "git config receive.procReceiveRefs refs/for");
    let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
    let version = line("version=1");
    let report = [
        line("ok refs/for/main"),
        line("option refname refs/heads/reviewed"),
        line("option forced-update"),
        "0000".into(),
    ];
    // The dialogue of githooks(5): versions, then commands up to a flush, then the report. Nothing is buffered ahead by `dd`.
    room.hook(
        "r.git",
        "proc-receive",
        &format!(
            "read_line() {{ n=$(dd bs=1 count=4 2>/dev/null); [ $n = 0000 ] || dd bs=1 count=$((0x$n - 4)) 2>/dev/null >>log; [ $n != 0000 ]; }}
            while read_line; do :; done
            printf '{version}0000'
            while read_line; do :; done
            printf '%s' '{}'",
            report.concat()
        ),
    );
    let pushed = push_specs(&room, &["main:refs/for/main"]);
    assert!(pushed.ok().is_success(), "{:?}", pushed.ok());
    let result = &pushed.ok().refs[0];
    assert_eq!(result.rewrites.len(), 1);
    assert_eq!(result.rewrites[0].name.as_ref().unwrap(), "refs/heads/reviewed");
    assert_eq!(pushed.ok().tracked[0].name, "refs/remotes/origin/reviewed");
}

#[test]
fn an_interrupted_push_leaves_everything_as_it_was() {
    let room = Room::new("sha1");
    let before = room.refs("w");
    let pushed = push_by(&room, ReceivePack::new(&room, "r.git"), &options_for(&["main"]), true);
    assert!(
        matches!(pushed.outcome, Err(Error::Interrupted)),
        "{:?}",
        pushed.outcome
    );
    assert_eq!((room.refs("w"), room.refs("r.git").as_str()), (before, ""));
}

#[test]
fn an_answer_cut_anywhere_moves_no_local_ref() {
    let room = Room::new("sha1");
    let whole = push_specs(&room, &["main:seen"]).transport.last_answer_length();
    assert!(whole > 20);
    let before = room.refs("w");
    for (number, keep) in [0, 3, 4, 20, whole - 5, whole - 1].into_iter().enumerate() {
        let transport = ReceivePack::new(&room, "r.git").cut_answer(keep);
        let pushed = push_by(&room, transport, &options_for(&[&format!("main:cut{number}")]), false);
        let err = pushed.outcome.expect_err("an answer that breaks off is no outcome");
        assert!(!err.is_refusal());
        assert!(err.to_string().contains("not known"), "{err}");
        assert_eq!(room.refs("w"), before, "{keep} bytes");
    }
}

#[test]
fn a_damaged_repository_fails_before_the_server_is_told_anything() {
    let room = Room::new("sha1");
    room.sh(
        "w",
        "blob=$(git rev-parse HEAD:file); rm -f .git/objects/$(echo $blob | cut -c1-2)/$(echo $blob | cut -c3-)",
    );
    let pushed = push_specs(&room, &["main"]);
    assert!(pushed.outcome.is_err());
    assert_eq!(room.refs("r.git"), "");
}

#[test]
fn progress_has_a_stage_for_each_step() {
    let room = Room::new("sha1");
    let repo = room.open();
    let remote = Remote::for_push(&repo, None).unwrap();
    let transport = Arc::new(ReceivePack::new(&room, "r.git"));
    let mut session = Session::new(
        transport,
        "http://host/r.git",
        Default::default(),
        Box::new(NoCredentials),
    )
    .unwrap();
    let tree = gix::progress::tree::Root::new();
    let seen = std::sync::Mutex::new(Vec::new());
    let mut item = tree.add_child("push");
    // The server speaks while the pack's stages still stand.
    room.hook("r.git", "update", "echo hello");
    let outcome = push(
        &repo,
        &remote,
        &mut session,
        &options_for(&["main"]),
        &mut item,
        &mut |_| tree.sorted_snapshot(&mut seen.lock().unwrap()),
        &Arc::new(AtomicBool::new(false)),
    );
    assert!(outcome.unwrap().is_success());
    let seen = seen.into_inner().unwrap();
    let step = |name: &str| {
        let (_, task) = seen
            .iter()
            .find(|(_, task)| task.name == name)
            .unwrap_or_else(|| panic!("{name}: {seen:?}"));
        task.progress.as_ref().unwrap().step.load(Ordering::SeqCst)
    };
    assert_eq!(step("Counting objects"), 6);
    assert_eq!(step("Writing objects"), 6);
    assert!(step("Bytes") > 32);
}
