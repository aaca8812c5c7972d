//! What became of the push (gitprotocol-pack(5), "Report Status").
//!
//! Owns `report-status` and `report-status-v2`. Doesn't know what was asked for: comparing with that, and noticing refs
//! without a word in the report, is the caller's work ([`ReportStatus::for_update`]).
//!
//! Where the specification is silent, git's client (send-pack.c, `receive_status`) is followed: of contradicting lines for
//! one ref the last one counts, unknown options and an id in an option that can't be read are passed over, text after the
//! name in an `ok` line too. Stricter than git, whose client complains and goes on, is one thing: an option that belongs to no `ok`
//! is an error. What was understood until an error is not lost: [`ReportParser::so_far`].
use std::{collections::BTreeMap, ops::ControlFlow};

use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;

use crate::{
    DEFAULT_LIMIT, Error, Missing, Packet, Part, Splitter,
    error::excerpt,
    pktline::{chomp, describe},
};

/// The report as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReportStatus {
    /// Whether the pack was taken in, or, in the remote's unmasked words, why not.
    pub unpack: Result<(), BString>,
    /// What became of each ref, in the order in which the remote first named it. Each name once.
    pub refs: Vec<RefStatus>,
    /// Where each name is in `refs`.
    index: BTreeMap<BString, usize>,
}

/// What became of one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefStatus {
    /// The name by which the push asked for it, as the remote repeats it: compare before believing.
    pub name: BString,
    /// Whether the remote did it.
    pub outcome: RefOutcome,
}

/// The remote's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefOutcome {
    /// It was accepted.
    Ok {
        /// What a `proc-receive` hook did in its place, if it did.
        rewrites: Vec<Rewrite>,
    },
    /// It was refused.
    Rejected {
        /// Why, in the remote's unmasked words; `failed` if it gave none.
        reason: BString,
    },
}

/// A ref that a `proc-receive` hook changed instead of the one that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Its name, if it is another; unchecked.
    pub name: Option<BString>,
    /// What it pointed to, if that differs from the command.
    pub old: Option<ObjectId>,
    /// What it points to now, if that differs from the command.
    pub new: Option<ObjectId>,
    /// Whether that was no fast-forward.
    pub forced: bool,
}

impl ReportStatus {
    /// Read a whole report that came without a sideband, or was put together from its band 1.
    pub fn parse(bytes: &[u8]) -> Result<ReportStatus, Error> {
        let mut parser = ReportParser::new();
        parser.push(bytes)?;
        parser.finish()
    }

    /// What the remote says of the ref that a command named `name`, in logarithmic time. `None`: it doesn't say, and nothing
    /// may be assumed.
    pub fn for_update(&self, name: &BStr) -> Option<&RefStatus> {
        let at = *self.index.get(name)?;
        self.refs.get(at).filter(|status| status.name == name)
    }

    fn record(&mut self, name: &BStr, outcome: RefOutcome) {
        match self.index.get(name).copied() {
            None => {
                self.index.insert(name.to_owned(), self.refs.len());
                self.refs.push(RefStatus {
                    name: name.to_owned(),
                    outcome,
                });
            }
            Some(at) => {
                let Some(known) = self.refs.get_mut(at) else { return };
                // Another `ok` only announces another rewrite.
                let repeated = matches!(
                    (&known.outcome, &outcome),
                    (RefOutcome::Ok { .. }, RefOutcome::Ok { .. })
                );
                if !repeated {
                    known.outcome = outcome;
                }
            }
        }
    }
}

/// Reads a report from bytes split anywhere: [`push`](Self::push) all of them, then [`finish`](Self::finish).
#[derive(Debug, Clone)]
pub struct ReportParser {
    splitter: Splitter,
    lines: Lines,
}

#[derive(Debug, Clone, Default)]
struct Lines {
    status: Option<ReportStatus>,
    /// What an option line would belong to.
    rewrite: Owner,
    done: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Owner {
    /// Nothing: the last status line wasn't an `ok`, or there was none.
    #[default]
    Nobody,
    /// A rewrite that isn't there yet, of the ref at this index.
    Next(usize),
    /// The last rewrite of the ref at this index.
    Last(usize),
}

impl Default for ReportParser {
    fn default() -> Self {
        Self::new()
    }
}

impl ReportParser {
    /// At the beginning of the report.
    pub fn new() -> Self {
        ReportParser {
            splitter: Splitter::new(Part::Report, DEFAULT_LIMIT),
            lines: Lines::default(),
        }
    }

    /// Read at most `bytes` instead of [`DEFAULT_LIMIT`].
    pub fn limit(mut self, bytes: u64) -> Self {
        self.splitter.set_limit(bytes);
        self
    }

    /// Whether the closing flush was read. More bytes would be ignored.
    pub fn is_done(&self) -> bool {
        self.lines.done
    }

    /// What the report said until now, also after an error. `None` before its first line.
    pub fn so_far(&self) -> Option<&ReportStatus> {
        self.lines.status.as_ref()
    }

    /// Read the next `bytes`. After an error the rest can't be read.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.is_done() {
            return Ok(());
        }
        let lines = &mut self.lines;
        self.splitter
            .push(bytes, &mut |packet, offset| lines.packet(packet, offset))
    }

    /// There are no more bytes: the report, if it was complete.
    pub fn finish(self) -> Result<ReportStatus, Error> {
        match self.lines.status {
            Some(status) if self.lines.done => Ok(status),
            _ => {
                self.splitter.finish()?;
                Err(self.splitter.truncated(Missing::Flush))
            }
        }
    }
}

impl Lines {
    fn packet(&mut self, packet: Packet<'_>, offset: u64) -> Result<ControlFlow<()>, Error> {
        if let Packet::Data(line) = packet
            && let Some(text) = line.strip_prefix(b"ERR ")
        {
            return Err(Error::remote(chomp(text)));
        }
        let Some(status) = &mut self.status else {
            let unpack = match packet {
                Packet::Data(line) => chomp(line).strip_prefix(b"unpack "),
                _ => None,
            };
            let reason = unpack.ok_or_else(|| Error::NoUnpackStatus {
                found: describe(packet),
            })?;
            self.status = Some(ReportStatus {
                unpack: if reason == b"ok" { Ok(()) } else { Err(reason.into()) },
                refs: Vec::new(),
                index: BTreeMap::new(),
            });
            return Ok(ControlFlow::Continue(()));
        };
        let unexpected = |found| Error::Unexpected {
            part: Part::Report,
            offset,
            found,
        };
        match packet {
            Packet::Data(line) => {
                self.rewrite = line_of(status, self.rewrite, chomp(line)).ok_or_else(|| unexpected(excerpt(line)))?;
                Ok(ControlFlow::Continue(()))
            }
            Packet::Flush => {
                self.done = true;
                Ok(ControlFlow::Break(()))
            }
            Packet::Delimiter | Packet::ResponseEnd => Err(unexpected(describe(packet))),
        }
    }
}

/// Take in one line after the first. `None` if it is none of a report.
fn line_of(status: &mut ReportStatus, owner: Owner, line: &[u8]) -> Option<Owner> {
    let (keyword, rest) = line.split_once_str(" ")?;
    if keyword == b"option" {
        return option_line(status, owner, rest);
    }
    let (name, text) = match rest.split_once_str(" ") {
        Some((name, text)) => (name.as_bstr(), Some(text)),
        None => (rest.as_bstr(), None),
    };
    match keyword {
        b"ok" => {
            status.record(name, RefOutcome::Ok { rewrites: Vec::new() });
            status.index.get(name).copied().map(Owner::Next)
        }
        b"ng" => {
            let reason = text.unwrap_or(b"failed").into();
            status.record(name, RefOutcome::Rejected { reason });
            Some(Owner::Nobody)
        }
        _ => None,
    }
}

fn option_line(status: &mut ReportStatus, owner: Owner, option: &[u8]) -> Option<Owner> {
    let at = match owner {
        Owner::Nobody => return None,
        Owner::Next(at) | Owner::Last(at) => at,
    };
    let RefOutcome::Ok { rewrites } = &mut status.refs.get_mut(at)?.outcome else {
        return None;
    };
    if owner == Owner::Next(at) {
        rewrites.push(Rewrite::default());
    }
    let rewrite = rewrites.last_mut()?;
    let (key, value) = match option.split_once_str(" ") {
        Some((key, value)) => (key, Some(value)),
        None => (option, None),
    };
    let id = || {
        let hex = value?.split(|&byte| byte == b' ').next()?;
        ObjectId::from_hex(hex).ok()
    };
    match key {
        b"refname" => rewrite.name = value.map(Into::into),
        b"old-oid" => rewrite.old = id().or(rewrite.old),
        b"new-oid" => rewrite.new = id().or(rewrite.new),
        b"forced-update" => rewrite.forced = true,
        _ => {}
    }
    Some(Owner::Last(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pktline::{encode_flush, encode_line};

    fn wire(lines: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        for line in lines {
            encode_line(&mut out, &[line.as_bytes(), b"\n"]).unwrap();
        }
        encode_flush(&mut out);
        out
    }

    fn parse(lines: &[&str]) -> Result<ReportStatus, Error> {
        ReportStatus::parse(&wire(lines))
    }

    fn rejected(reason: &str) -> RefOutcome {
        RefOutcome::Rejected { reason: reason.into() }
    }

    fn accepted() -> RefOutcome {
        RefOutcome::Ok { rewrites: Vec::new() }
    }

    #[test]
    fn the_first_version() {
        let report = parse(&[
            "unpack ok",
            "ok refs/heads/a",
            "ng refs/heads/b hook declined",
            "ng refs/heads/c",
        ])
        .unwrap();
        assert_eq!(report.unpack, Ok(()));
        let outcome = |name: &str| report.for_update(name.into()).map(|status| status.outcome.clone());
        assert_eq!(outcome("refs/heads/a"), Some(accepted()));
        assert_eq!(outcome("refs/heads/b"), Some(rejected("hook declined")));
        assert_eq!(outcome("refs/heads/c"), Some(rejected("failed")));
        assert_eq!(outcome("refs/heads/d"), None);
        assert_eq!(report.refs.len(), 3);
        let failed = parse(&["unpack index-pack abnormal exit", "ng refs/heads/a unpacker error"]).unwrap();
        assert_eq!(failed.unpack, Err("index-pack abnormal exit".into()));
    }

    #[test]
    fn rewrites_of_the_second_version() {
        let (one, two) = ("1".repeat(40), "2".repeat(64));
        let report = parse(&[
            "unpack ok",
            "ok refs/for/main",
            "option refname refs/pull/1/head",
            &format!("option old-oid {one}"),
            &format!("option new-oid {two} and more"),
            "option forced-update",
            "option from-the-future maybe",
            "ok refs/for/main",
            "option refname refs/pull/2/head",
            "ok refs/heads/b",
            "option old-oid nonsense",
            "ok refs/heads/c",
        ])
        .unwrap();
        let expected = [
            Rewrite {
                name: Some("refs/pull/1/head".into()),
                old: Some(ObjectId::from_hex(one.as_bytes()).unwrap()),
                new: Some(ObjectId::from_hex(two.as_bytes()).unwrap()),
                forced: true,
            },
            Rewrite {
                name: Some("refs/pull/2/head".into()),
                ..Rewrite::default()
            },
        ];
        let names: Vec<_> = report.refs.iter().map(|status| status.name.to_string()).collect();
        assert_eq!(names, ["refs/for/main", "refs/heads/b", "refs/heads/c"]);
        assert_eq!(
            report.refs[0].outcome,
            RefOutcome::Ok {
                rewrites: expected.into()
            }
        );
        assert_eq!(
            report.refs[1].outcome,
            RefOutcome::Ok {
                rewrites: vec![Rewrite::default()]
            }
        );
        assert_eq!(report.refs[2].outcome, accepted());
    }

    #[test]
    fn of_contradictions_the_last_counts() {
        let report = parse(&["unpack ok", "ok a", "ng b no", "ng a stale", "ok b", "ok b"]).unwrap();
        assert_eq!(report.refs.len(), 2);
        assert_eq!(report.refs[0].outcome, rejected("stale"));
        assert_eq!(report.refs[1].outcome, accepted());
    }

    #[test]
    fn what_is_no_report() {
        for lines in [&["ok refs/heads/a"][..], &[], &["unpack"], &["hello"]] {
            let err = parse(lines).unwrap_err();
            assert!(matches!(err, Error::NoUnpackStatus { .. }), "{lines:?}: {err}");
        }
        for line in [
            "hello",
            "hello world",
            "",
            "unpack ok",
            "option refname x",
            "ok",
            "OK a",
        ] {
            let err = parse(&["unpack ok", line]).unwrap_err();
            assert!(
                matches!(err, Error::Unexpected { part: Part::Report, .. }),
                "{line}: {err}"
            );
        }
        let after_ng = parse(&["unpack ok", "ok a", "ng b no", "option forced-update"]).unwrap_err();
        assert!(matches!(after_ng, Error::Unexpected { .. }), "{after_ng}");
        assert_eq!(
            parse(&["unpack ok", "ERR disk on fire"]),
            Err(Error::remote(b"disk on fire"))
        );
        let html = ReportStatus::parse(b"<html></html>").unwrap_err();
        assert!(matches!(html, Error::NotPktLine { .. }), "{html}");
    }

    #[test]
    fn an_error_does_not_take_back_what_was_said() {
        let mut parser = ReportParser::new();
        assert!(parser.so_far().is_none());
        assert!(parser.push(&wire(&["unpack ok", "ok refs/heads/a", "?"])).is_err());
        let known = parser.so_far().unwrap();
        assert_eq!(known.for_update("refs/heads/a".into()).unwrap().outcome, accepted());
    }

    #[test]
    fn every_early_end_is_noticed() {
        let bytes = wire(&["unpack ok", "ok refs/heads/a", "ng refs/heads/b no"]);
        for end in 0..bytes.len() {
            let err = ReportStatus::parse(&bytes[..end]).unwrap_err();
            assert!(
                matches!(err, Error::Truncated { received, .. } if received == end as u64),
                "{err}"
            );
        }
        let mut parser = ReportParser::new().limit(bytes.len() as u64 - 1);
        assert!(matches!(parser.push(&bytes), Err(Error::TooLong { .. })));
    }

    /// Quadratic work over this many refs would take minutes.
    #[test]
    fn a_hundred_thousand_refs() {
        let mut lines = vec!["unpack ok".to_owned()];
        lines.extend((0..100_000).map(|number| format!("ok refs/heads/{number}")));
        lines.extend((0..100_000).map(|number| format!("ng refs/heads/{number} no")));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let report = parse(&lines).unwrap();
        assert_eq!(report.refs.len(), 100_000);
        for status in &report.refs {
            assert_eq!(report.for_update(status.name.as_ref()), Some(status));
            assert_eq!(status.outcome, rejected("no"));
        }
    }
}
