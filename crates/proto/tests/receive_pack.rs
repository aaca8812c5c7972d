//! Spoken with the real `git receive-pack`.
#[path = "support/repository.rs"]
mod repository;

use bstr::{BString, ByteSlice};
use gix_hash::{Kind, ObjectId};
use repository::{Lab, text};
use rgit_proto::{
    Advertisement, Band, ClientCapabilities, Error, RefOutcome, RefUpdate, ReportParser, ReportStatus, Request,
    Sideband, Wanted,
};

const SERVICE: &str = "git-receive-pack";

fn advertised(lab: &Lab, name: &str) -> Advertisement {
    let plain = Advertisement::parse(&lab.advertise(name), SERVICE).unwrap();
    for protocol in ["", "version=1", "version=2"] {
        let bytes = lab.advertise_by_http(name, protocol);
        // Asked for version 2, http-backend leaves the banner out, and receive-pack answers in version 0 all the same.
        let banner = bytes.starts_with(b"001f# service=git-receive-pack\n0000");
        assert_eq!(banner, protocol != "version=2");
        assert_eq!(bytes.contains_str("version 1\n"), protocol == "version=1");
        assert_eq!(
            without_session(Advertisement::parse(&bytes, SERVICE).unwrap()),
            without_session(plain.clone())
        );
    }
    let listed: Vec<String> = plain
        .refs
        .iter()
        .map(|found| format!("{} {}", found.id, found.name))
        .collect();
    assert_eq!(listed.join("\n"), lab.refs(name));
    plain
}

/// All but what differs from run to run.
fn without_session(seen: Advertisement) -> impl PartialEq + std::fmt::Debug {
    let list: Vec<String> = seen.capabilities.iter().map(|(name, _)| name.to_string()).collect();
    (seen.refs, seen.have, seen.shallow, seen.object_format, list)
}

fn update(name: &str, old: ObjectId, new: ObjectId) -> RefUpdate {
    RefUpdate {
        name: name.into(),
        old,
        new,
    }
}

fn null() -> ObjectId {
    Kind::Sha1.null()
}

fn agreed(lab: &Lab, name: &str, wanted: &Wanted) -> ClientCapabilities {
    let seen = Advertisement::parse(&lab.advertise(name), SERVICE).unwrap();
    ClientCapabilities::negotiate(&seen.capabilities, wanted).unwrap()
}

struct Answer {
    report: ReportStatus,
    progress: String,
}

impl Answer {
    fn outcome(&self, name: &str) -> &RefOutcome {
        &self
            .report
            .for_update(name.into())
            .unwrap_or_else(|| panic!("{name} is reported"))
            .outcome
    }

    fn refused(&self, name: &str) -> &BString {
        match self.outcome(name) {
            RefOutcome::Rejected { reason } => reason,
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// Push `request` with `pack` to the repository `name`, and read the answer in chunks of an odd size.
fn push(lab: &Lab, name: &str, request: &Request<'_>, pack: &[u8]) -> Answer {
    let body = [request.encode().unwrap(), pack.to_vec()].concat();
    let answer = lab.receive(name, &body);
    let mut sideband = Sideband::new();
    let mut parser = ReportParser::new();
    let mut progress = Vec::new();
    for chunk in answer.chunks(13) {
        let read = sideband.push(chunk, &mut |band| {
            match band {
                Band::Data(data) => parser.push(data)?,
                Band::Progress(text) => progress.extend_from_slice(text),
                other => panic!("{other:?}"),
            }
            Ok(())
        });
        read.unwrap();
    }
    sideband.finish().unwrap();
    Answer {
        report: parser.finish().unwrap(),
        progress: String::from_utf8(progress).unwrap(),
    }
}

fn request(updates: &[RefUpdate], capabilities: ClientCapabilities) -> Request<'_> {
    Request {
        updates,
        capabilities,
        push_options: &[],
        shallow: &[],
    }
}

const ACCEPTED: RefOutcome = RefOutcome::Ok { rewrites: Vec::new() };

#[test]
fn advertisements_of_every_kind_of_repository() {
    let lab = Lab::new();
    lab.bare("empty", "sha1");
    let seen = advertised(&lab, "empty");
    assert!(seen.refs.is_empty() && seen.capabilities.contains("report-status-v2"));
    assert!(seen.capabilities.agent().unwrap().starts_with(b"git/"));

    lab.with_history("full", "sha1");
    let seen = advertised(&lab, "full");
    assert_eq!((seen.refs.len(), seen.object_format, seen.skipped), (3, Kind::Sha1, 0));
    assert_eq!(seen.find("refs/heads/side".into()), Some(&lab.id("full", "side")));
    assert_eq!(seen.find("refs/tags/v1".into()), Some(&lab.id("full", "v1")));

    lab.bare("empty256", "sha256");
    assert_eq!(advertised(&lab, "empty256").object_format, Kind::Sha256);
    lab.with_history("full256", "sha256");
    let seen = advertised(&lab, "full256");
    assert_eq!((seen.refs.len(), seen.object_format), (3, Kind::Sha256));
    let err = ClientCapabilities::negotiate(&seen.capabilities, &Wanted::new(Kind::Sha1)).unwrap_err();
    assert!(matches!(err, Error::ObjectFormat { .. }), "{err}");

    let url = format!("file://{}", text(&lab.path("full")));
    lab.git("", &["clone", "--quiet", "--bare", "--depth", "1", &url, "shallow"]);
    assert_eq!(advertised(&lab, "shallow").shallow, [lab.id("full", "side")]);

    // Borrows the objects of "full", of which the receiving end tells by `.have`.
    lab.bare("borrower", "sha1");
    let alternates = lab.path("borrower").join("objects/info/alternates");
    std::fs::write(alternates, format!("{}\n", text(&lab.path("full/.git/objects")))).unwrap();
    let seen = advertised(&lab, "borrower");
    let mut have = seen.have;
    have.sort();
    let mut tips = ["main", "side", "v1"].map(|name| lab.id("full", name));
    tips.sort();
    assert_eq!((seen.refs.len(), &have[..]), (0, &tips[..]));
}

#[test]
fn refs_are_created_moved_and_deleted() {
    let lab = Lab::new();
    lab.with_history("local", "sha1");
    lab.bare("remote", "sha1");
    let id = |revision: &str| lab.id("local", revision);

    let updates = [
        update("refs/heads/main", null(), id("main^")),
        update("refs/heads/gone", null(), id("main^")),
    ];
    let mut wanted = Wanted::new(Kind::Sha1);
    wanted.agent = Some("git/2.47.0 rgit/0.1.0".into());
    let first = push(
        &lab,
        "remote",
        &request(&updates, agreed(&lab, "remote", &wanted)),
        &lab.pack("local", "main^\n"),
    );
    assert_eq!(first.report.unpack, Ok(()));
    assert_eq!(first.report.refs.len(), 2);
    assert_eq!(first.outcome("refs/heads/gone"), &ACCEPTED);

    let updates = [
        update("refs/heads/main", id("main^"), id("main")),
        update("refs/heads/gone", id("main^"), null()),
        update("refs/tags/v1", null(), id("v1")),
    ];
    wanted.atomic = true;
    let request = request(&updates, agreed(&lab, "remote", &wanted));
    let second = push(&lab, "remote", &request, &lab.pack("local", "main\nv1\n^main^\n"));
    assert!(
        second.report.refs.iter().all(|status| status.outcome == ACCEPTED),
        "{:?}",
        second.report
    );
    assert_eq!(
        lab.refs("remote"),
        format!("{} refs/heads/main\n{} refs/tags/v1", id("main"), id("v1"))
    );
    lab.fsck("remote");
}

#[test]
fn deletion_alone_carries_no_pack() {
    let lab = Lab::new();
    lab.with_history("remote", "sha1");
    let updates = [update("refs/heads/side", lab.id("remote", "side"), null())];
    lab.git("remote", &["checkout", "--quiet", "main"]);
    let request = request(&updates, agreed(&lab, "remote", &Wanted::new(Kind::Sha1)));
    assert!(!request.needs_pack());
    assert_eq!(
        push(&lab, "remote", &request, b"").outcome("refs/heads/side"),
        &ACCEPTED
    );
    assert!(!lab.refs("remote").contains("side"));
}

#[test]
fn sha256_repositories() {
    let lab = Lab::new();
    lab.with_history("local", "sha256");
    lab.bare("remote", "sha256");
    let updates = [update("refs/heads/main", Kind::Sha256.null(), lab.id("local", "main"))];
    let request = request(&updates, agreed(&lab, "remote", &Wanted::new(Kind::Sha256)));
    let answer = push(&lab, "remote", &request, &lab.pack("local", "main\n"));
    assert_eq!(answer.outcome("refs/heads/main"), &ACCEPTED);
    lab.fsck("remote");
}

#[test]
fn hooks_refuse_with_their_own_words() {
    let lab = Lab::new();
    lab.with_history("local", "sha1");
    lab.bare("remote", "sha1");
    let updates = [
        update("refs/heads/main", null(), lab.id("local", "main")),
        update("refs/heads/side", null(), lab.id("local", "side")),
    ];
    let capabilities = agreed(&lab, "remote", &Wanted::new(Kind::Sha1));
    let request = request(&updates, capabilities);
    let pack = lab.pack("local", "side\n");

    lab.hook(
        "remote",
        "pre-receive",
        "cat >/dev/null; echo 'not on a Friday' >&2; exit 1",
    );
    let answer = push(&lab, "remote", &request, &pack);
    assert_eq!(answer.report.unpack, Ok(()));
    for update in &updates {
        assert_eq!(answer.refused(&update.name.to_string()), "pre-receive hook declined");
    }
    assert!(answer.progress.contains("not on a Friday\n"), "{}", answer.progress);
    assert_eq!(lab.refs("remote"), "");

    lab.hook("remote", "pre-receive", "cat >/dev/null");
    lab.hook("remote", "update", "test \"$1\" != refs/heads/side");
    let answer = push(&lab, "remote", &request, &pack);
    assert_eq!(answer.refused("refs/heads/side"), "hook declined");
    assert_eq!(answer.outcome("refs/heads/main"), &ACCEPTED);
    assert_eq!(
        lab.refs("remote"),
        format!("{} refs/heads/main", lab.id("local", "main"))
    );
}

#[test]
fn a_stale_old_id_and_a_broken_pack_are_refused() {
    let lab = Lab::new();
    lab.with_history("local", "sha1");
    lab.bare("remote", "sha1");
    let main = lab.id("local", "main");
    let stale = [
        update("refs/heads/main", lab.id("local", "side"), main),
        update("refs/heads/new", null(), main),
    ];
    let capabilities = agreed(&lab, "remote", &Wanted::new(Kind::Sha1));
    let pack = lab.pack("local", "main\n");
    let answer = push(&lab, "remote", &request(&stale, capabilities.clone()), &pack);
    assert!(!answer.refused("refs/heads/main").is_empty());
    assert_eq!(answer.outcome("refs/heads/new"), &ACCEPTED);

    let mut wanted = Wanted::new(Kind::Sha1);
    wanted.atomic = true;
    let stale = [stale[0].clone(), update("refs/heads/other", null(), main)];
    let answer = push(&lab, "remote", &request(&stale, agreed(&lab, "remote", &wanted)), &pack);
    answer.refused("refs/heads/main");
    answer.refused("refs/heads/other");

    let fresh = [update("refs/heads/broken", null(), main)];
    let broken = [&pack[..pack.len() - 1], b"?"].concat();
    let answer = push(&lab, "remote", &request(&fresh, capabilities), &broken);
    assert!(answer.report.unpack.is_err());
    assert_eq!(answer.refused("refs/heads/broken"), "unpacker error");
    assert_eq!(lab.refs("remote"), format!("{main} refs/heads/new"));
}

#[test]
fn push_options_reach_the_hook() {
    let lab = Lab::new();
    lab.with_history("local", "sha1");
    lab.bare("remote", "sha1");
    lab.git("remote", &["config", "receive.advertisePushOptions", "true"]);
    lab.hook(
        "remote",
        "pre-receive",
        "cat >/dev/null; echo \"$GIT_PUSH_OPTION_COUNT:$GIT_PUSH_OPTION_0:$GIT_PUSH_OPTION_1\" >&2",
    );
    let updates = [update("refs/heads/main", null(), lab.id("local", "main"))];
    let options = [BString::from("ci.skip"), "reviewer=me and you".into()];
    let mut wanted = Wanted::new(Kind::Sha1);
    wanted.push_options = true;
    let pack = lab.pack("local", "main\n");
    let request = Request {
        push_options: &options,
        ..request(&updates, agreed(&lab, "remote", &wanted))
    };
    let answer = push(&lab, "remote", &request, &pack);
    assert!(
        answer.progress.contains("2:ci.skip:reviewer=me and you"),
        "{}",
        answer.progress
    );
    assert_eq!(answer.outcome("refs/heads/main"), &ACCEPTED);

    // Agreed on, but none given: the section is empty, and the pack is still found.
    let updates = [update("refs/heads/again", null(), lab.id("local", "main"))];
    let request = Request {
        updates: &updates,
        push_options: &[],
        ..request
    };
    let answer = push(&lab, "remote", &request, &pack);
    assert_eq!(answer.outcome("refs/heads/again"), &ACCEPTED);
}

#[test]
fn a_shallow_local_repository_is_announced() {
    let lab = Lab::new();
    lab.with_history("origin", "sha1");
    let url = format!("file://{}", text(&lab.path("origin")));
    lab.git("", &["clone", "--quiet", "--depth", "1", &url, "local"]);
    lab.bare("remote", "sha1");
    lab.git("remote", &["config", "receive.shallowUpdate", "true"]);
    let side = lab.id("origin", "side");
    let updates = [update("refs/heads/side", null(), side)];
    let shallow = [side];
    let request = Request {
        shallow: &shallow,
        ..request(&updates, agreed(&lab, "remote", &Wanted::new(Kind::Sha1)))
    };
    let pack = lab.pipe(
        "local",
        &["pack-objects", "--revs", "--stdout", "--quiet", "--shallow"],
        b"HEAD\n",
    );
    assert_eq!(
        push(&lab, "remote", &request, &pack).outcome("refs/heads/side"),
        &ACCEPTED
    );
    assert_eq!(advertised(&lab, "remote").shallow, [side]);
}

#[test]
fn reports_without_a_sideband() {
    let lab = Lab::new();
    lab.with_history("local", "sha1");
    lab.bare("remote", "sha1");
    let main = lab.id("local", "main");
    let updates = [
        update("refs/heads/main", null(), main),
        update("refs/heads/stale", main, lab.id("local", "side")),
    ];
    let mut capabilities = ClientCapabilities::default();
    capabilities.report_status = true;
    let body = [
        request(&updates, capabilities).encode().unwrap(),
        lab.pack("local", "side\n"),
    ]
    .concat();
    let report = ReportStatus::parse(&lab.receive("remote", &body)).unwrap();
    assert_eq!(report.unpack, Ok(()));
    assert_eq!(report.for_update("refs/heads/main".into()).unwrap().outcome, ACCEPTED);
    assert!(matches!(
        report.for_update("refs/heads/stale".into()).unwrap().outcome,
        RefOutcome::Rejected { .. }
    ));
}

#[test]
fn a_proc_receive_hook_rewrites_refs() {
    let lab = Lab::new();
    lab.with_history("local", "sha1");
    lab.bare("remote", "sha1");
    lab.git("remote", &["config", "receive.procReceiveRefs", "refs/for"]);
    let main = lab.id("local", "main");
    let parent = lab.id("local", "main^");
    let mut lines = Vec::new();
    for line in [
        "",
        "ok refs/for/main",
        "option refname refs/pull/1/head",
        &format!("option old-oid {parent}"),
        "option forced-update",
        "ok refs/for/main",
        "option refname refs/pull/2/head",
        "",
    ] {
        match line {
            "" => rgit_proto::encode_flush(&mut lines),
            line => rgit_proto::encode_line(&mut lines, &[line.as_bytes()]).unwrap(),
        }
    }
    let version = "printf '000eversion=1\\n'";
    lab.hook(
        "remote",
        "proc-receive",
        &format!(
            "{version}; printf '%s' '{}'; cat >/dev/null",
            String::from_utf8(lines).unwrap()
        ),
    );
    let updates = [
        update("refs/for/main", null(), main),
        update("refs/heads/main", null(), main),
    ];
    let request = request(&updates, agreed(&lab, "remote", &Wanted::new(Kind::Sha1)));
    let answer = push(&lab, "remote", &request, &lab.pack("local", "main\n"));
    let RefOutcome::Ok { rewrites } = answer.outcome("refs/for/main") else {
        panic!("{:?}", answer.report)
    };
    let names: Vec<_> = rewrites.iter().map(|rewrite| rewrite.name.clone().unwrap()).collect();
    assert_eq!(names, ["refs/pull/1/head", "refs/pull/2/head"]);
    assert_eq!((rewrites[0].old, rewrites[0].forced), (Some(parent), true));
    assert_eq!((rewrites[1].old, rewrites[1].forced), (None, false));
    assert_eq!(answer.outcome("refs/heads/main"), &ACCEPTED);
}

#[test]
fn names_are_judged_as_git_judges_them() {
    let lab = Lab::new();
    for name in [
        "main", "a/b", "@", "a@", "a@{b", ".a", "a/.b", "a.", "a./b", "a.lock", "a.lock/b", "a..b", "a b", "a~b",
        "a^b", "a:b", "a?b", "a*b", "a[b", "a]b", "a\\b", "a\x7fb", "a\x01b", "a//b", "/a", "a/", "ä", "{}", "a.b",
        "lock", ".lock", "$(x)",
    ] {
        let git = lab
            .command("", &["check-ref-format", "--allow-onelevel", name])
            .status()
            .unwrap()
            .success();
        let full = format!("refs/{name}");
        assert_eq!(rgit_proto::is_pushable(full.as_bytes()), git, "{name}");
    }
}
