//! What holds for any input: see `support/invariants.rs`. And: what is written is read back.
#[path = "support/invariants.rs"]
mod invariants;

use std::ops::ControlFlow;

use bstr::{BString, ByteSlice};
use gix_hash::{Kind, ObjectId};
use proptest::{collection::vec, prelude::*};
use rgit_proto::{
    Capabilities, ClientCapabilities, Error, Packet, Part, RefOutcome, RefStatus, RefUpdate, Request, Rewrite,
    Splitter, Wanted, encode_flush, encode_line, is_pushable,
};

fn ids(kind: Kind) -> impl Strategy<Value = ObjectId> {
    let random = vec(any::<u8>(), kind.len_in_bytes()).prop_map(|bytes| ObjectId::try_from(&bytes[..]).unwrap());
    prop_oneof![4 => random, 1 => Just(kind.null())]
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Sha1), Just(Kind::Sha256)]
}

/// Names that can be pushed to, some of them no UTF-8.
fn names() -> impl Strategy<Value = BString> {
    let bytes = prop_oneof![8 => 0x30..0x7bu8, 1 => Just(b'/'), 1 => Just(b'.'), 1 => 0x80..=0xffu8];
    vec(bytes, 1..40)
        .prop_map(|tail| BString::from([&b"refs/heads/"[..], &tail].concat()))
        .prop_filter("well-formed", |name| is_pushable(name))
}

fn sizes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(1..4u8, 1..4), vec(any::<u8>(), 1..8), Just(vec![1])]
}

/// Lines that come close to the grammar, so that random input gets past the first one.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let id = "[0-3]{40}|[0-3]{64}";
    let known = prop_oneof![
        "# service=git-(receive|upload)-pack\n?".prop_map(String::into_bytes),
        "version [0-2]\n?".prop_map(String::into_bytes),
        (
            id,
            "refs/(heads|tags)/[a-z./]{1,4}(\\^\\{\\})?|\\.have|HEAD|capabilities\\^\\{\\}",
            "(\0(object-format=sha1|object-format=sha256|quiet|[a-z=]{0,5}))?\n?"
        )
            .prop_map(|(id, name, tail)| format!("{id} {name}{tail}").into_bytes()),
        id.prop_map(|id| format!("shallow {id}").into_bytes()),
        "ERR [a-z \x1b]{0,9}".prop_map(String::into_bytes),
        "unpack (ok|no|)\n?".prop_map(String::into_bytes),
        "(ok|ng) [ab]( [a-z ]{0,9})?\n?".prop_map(String::into_bytes),
        ("option (refname|old-oid|new-oid|forced-update|other)", id)
            .prop_map(|(key, id)| format!("{key} {id}").into_bytes()),
        ("[\x01-\x04]", vec(any::<u8>(), 0..6)).prop_map(|(band, data)| [band.into_bytes(), data].concat()),
        vec(any::<u8>(), 0..12),
    ];
    let line = known.prop_map(|line| {
        let mut out = Vec::new();
        encode_line(&mut out, &[&line]).unwrap();
        out
    });
    prop_oneof![
        12 => line,
        3 => Just(b"0000".to_vec()),
        1 => Just(b"0004".to_vec()),
        1 => "000[1-9]|fff[0-9]|<html>".prop_map(String::into_bytes),
    ]
}

/// Anything from noise to almost a conversation.
fn input() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..300),
        vec(lines(), 0..12).prop_map(|lines| lines.concat()),
        (vec(lines(), 0..12), vec(any::<u8>(), 0..120)).prop_map(|(lines, tail)| [lines.concat(), tail].concat()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in input(), sizes in sizes()) {
        // The checks are in these.
        let _ = invariants::advertisement(&bytes, &sizes);
        let _ = invariants::report(&bytes, &sizes);
        let _ = invariants::sideband(&bytes, &sizes);
    }

    #[test]
    fn a_wellbegun_report_of_any_lines(lines in vec(lines(), 0..12), sizes in sizes()) {
        let _ = invariants::report(&[b"000eunpack ok\n", lines.concat().as_slice()].concat(), &sizes);
    }

    #[test]
    fn advertised_refs_are_read_back(
        (kind, refs, have) in kinds().prop_flat_map(|kind| {
            (Just(kind), proptest::collection::btree_map(names(), ids(kind), 1..20), vec(ids(kind), 0..4))
        }),
        (banner, version, newline) in any::<(bool, bool, bool)>(),
        sizes in sizes(),
    ) {
        let end: &[u8] = if newline { b"\n" } else { b"" };
        let mut bytes = Vec::new();
        if banner {
            encode_line(&mut bytes, &[b"# service=git-receive-pack\n"]).unwrap();
            encode_flush(&mut bytes);
        }
        if version {
            encode_line(&mut bytes, &[b"version 1", end]).unwrap();
        }
        let mut capabilities = format!("\0report-status object-format={kind}");
        for (name, id) in &refs {
            encode_line(&mut bytes, &[id.to_string().as_bytes(), b" ", name, capabilities.as_bytes(), end]).unwrap();
            capabilities.clear();
        }
        for id in &have {
            encode_line(&mut bytes, &[id.to_string().as_bytes(), b" .have", end]).unwrap();
        }
        encode_flush(&mut bytes);

        let seen = invariants::advertisement(&bytes, &sizes).unwrap();
        let read: Vec<_> = seen.refs.into_iter().map(|found| (found.name, found.id)).collect();
        prop_assert_eq!(read, refs.into_iter().collect::<Vec<_>>());
        prop_assert_eq!((seen.have, seen.object_format, seen.skipped), (have, kind, 0));
    }

    #[test]
    fn a_report_is_read_back(
        statuses in proptest::collection::btree_map(names(), (any::<bool>(), "[a-z]([a-z ]{0,20}[a-z])?", vec((proptest::option::of(names()), proptest::option::of(ids(Kind::Sha1)), any::<bool>()), 0..3)), 0..12),
        unpack in "ok|[a-z ]{3,9}",
        (packets, sizes) in (vec(1..60usize, 1..5), sizes()),
    ) {
        let mut bytes = Vec::new();
        encode_line(&mut bytes, &[b"unpack ", unpack.as_bytes(), b"\n"]).unwrap();
        let mut expected = Vec::new();
        for (name, (accepted, reason, rewrites)) in statuses {
            if !accepted {
                encode_line(&mut bytes, &[b"ng ", &name, b" ", reason.as_bytes(), b"\n"]).unwrap();
                expected.push(RefStatus { name, outcome: RefOutcome::Rejected { reason: reason.into() } });
                continue;
            }
            encode_line(&mut bytes, &[b"ok ", &name, b"\n"]).unwrap();
            // A rewrite without any option isn't on the wire at all.
            let rewrites: Vec<Rewrite> = rewrites
                .into_iter()
                .filter(|(name, new, forced)| name.is_some() || new.is_some() || *forced)
                .map(|(name, new, forced)| Rewrite { name, old: None, new, forced })
                .collect();
            for (at, rewrite) in rewrites.iter().enumerate() {
                if at > 0 {
                    encode_line(&mut bytes, &[b"ok ", &name, b"\n"]).unwrap();
                }
                if let Some(other) = &rewrite.name {
                    encode_line(&mut bytes, &[b"option refname ", other, b"\n"]).unwrap();
                }
                if let Some(id) = &rewrite.new {
                    encode_line(&mut bytes, &[b"option new-oid ", id.to_string().as_bytes(), b"\n"]).unwrap();
                }
                if rewrite.forced {
                    encode_line(&mut bytes, &[b"option forced-update\n"]).unwrap();
                }
            }
            expected.push(RefStatus { name, outcome: RefOutcome::Ok { rewrites } });
        }
        encode_flush(&mut bytes);

        // Through a sideband whose packets don't respect the report's lines, with keepalives between them.
        let mut multiplexed = Vec::new();
        let mut rest = &bytes[..];
        for size in packets.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (data, tail) = rest.split_at((*size).min(rest.len()));
            encode_line(&mut multiplexed, &[&[1], data]).unwrap();
            encode_line(&mut multiplexed, &[&[1]]).unwrap();
            encode_line(&mut multiplexed, &[&[2], b"progress"]).unwrap();
            rest = tail;
        }
        encode_flush(&mut multiplexed);
        let (events, end) = invariants::sideband(&multiplexed, &sizes);
        prop_assert_eq!(end, Ok(()));
        let data: Vec<u8> = events.into_iter().filter(|(band, _)| *band == 1).flat_map(|(_, data)| data).collect();
        prop_assert_eq!(&data, &bytes);

        let report = invariants::report(&data, &sizes).unwrap();
        prop_assert_eq!(&report.refs, &expected);
        prop_assert_eq!(report.unpack, if unpack == "ok" { Ok(()) } else { Err(unpack.into()) });
    }

    #[test]
    fn requests_are_read_back(
        (kind, updates, shallow) in kinds().prop_flat_map(|kind| {
            (Just(kind), vec((names(), ids(kind), ids(kind)), 1..12), vec(ids(kind), 0..3))
        }),
        options in proptest::option::of(vec("[ -~]{0,20}", 0..4)),
        atomic in any::<bool>(),
    ) {
        let updates: Vec<RefUpdate> = updates.into_iter().map(|(name, old, new)| RefUpdate { name, old, new }).collect();
        let offered = format!("report-status-v2 side-band-64k delete-refs atomic push-options object-format={kind} agent=git/2");
        let mut wanted = Wanted::new(kind);
        wanted.atomic = atomic;
        wanted.push_options = options.is_some();
        wanted.agent = Some("git/2.47.3".into());
        let options: Option<Vec<BString>> = options.map(|options| options.into_iter().map(BString::from).collect());
        let capabilities = ClientCapabilities::negotiate(&Capabilities::parse(offered.as_bytes()), &wanted).unwrap();
        let encoded = Request {
            updates: &updates,
            capabilities: capabilities.clone(),
            push_options: options.as_deref().unwrap_or_default(),
            shallow: &shallow,
        }
        .encode()
        .unwrap();

        let mut sections = vec![Vec::<BString>::new()];
        let mut splitter = Splitter::new(Part::Report, u64::MAX);
        let pushed = splitter.push(&encoded, &mut |packet, _| {
            match packet {
                Packet::Data(line) => sections.last_mut().unwrap().push(line.into()),
                _ => sections.push(Vec::new()),
            }
            Ok::<_, Error>(ControlFlow::Continue(()))
        });
        prop_assert!(pushed.is_ok() && splitter.finish().is_ok());
        prop_assert_eq!(sections.pop(), Some(Vec::new()), "a flush ends it");
        let commands = sections.remove(0);
        prop_assert_eq!(sections, options.into_iter().collect::<Vec<_>>());

        let (cut_off, commands) = commands.split_at(shallow.len());
        for (line, id) in cut_off.iter().zip(&shallow) {
            prop_assert_eq!(line, &format!("shallow {id}\n"));
        }
        let mut read = Vec::new();
        for (at, line) in commands.iter().enumerate() {
            let (command, list) = match line.split_once_str("\0") {
                Some((command, list)) => (command, Some(list)),
                None => (&line[..], None),
            };
            prop_assert_eq!(list.is_some(), at == 0, "only the first command has capabilities");
            if let Some(list) = list {
                prop_assert_eq!(list, capabilities.encode());
            }
            let mut parts = command.splitn(3, |byte| *byte == b' ');
            let mut id = || ObjectId::from_hex(parts.next().unwrap()).unwrap();
            let (old, new) = (id(), id());
            read.push(RefUpdate { name: parts.next().unwrap().into(), old, new });
        }
        prop_assert_eq!(read, updates);
    }
}
