//! The ref advertisement that opens a push (gitprotocol-pack(5), "Reference Discovery"; its HTTP envelope:
//! gitprotocol-http(5), "Smart Server Response").
//!
//! Owns reading it in protocol version 0 and 1, with and without the `# service=` banner. Leaves to others the HTTP headers,
//! and what to do about the refs.
//!
//! Names are taken as git's client takes them when pushing (connect.c, `check_ref` with `REF_NORMAL`): names that aren't
//! well-formed or not below `refs/`, peeled tags (`^{}`) included, are no error; they are left out and counted. So hostile
//! names never leave this module. Of a name that comes twice the first counts. `HEAD`, which git's receive-pack doesn't send,
//! can't be pushed to, but its object is on the remote: it is taken as a `.have`.
use std::ops::ControlFlow;

use bstr::{BStr, BString};
use gix_hash::{Kind, ObjectId};

use crate::{
    Capabilities, DEFAULT_LIMIT, Error, Missing, Packet, Part, Splitter,
    error::excerpt,
    pktline::{chomp, describe},
    refname::is_pushable,
};

/// A ref of the remote repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvertisedRef {
    /// Its full, well-formed name below `refs/`.
    pub name: BString,
    /// What it points to.
    pub id: ObjectId,
}

/// What the remote repository holds and its server can do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advertisement {
    /// All refs, sorted by name, each name once. [`find`](Self::find) relies on that order.
    pub refs: Vec<AdvertisedRef>,
    /// Objects that the remote has (with all they reach) without a ref of its own: `.have` lines, from alternates or other
    /// namespaces. May repeat.
    pub have: Vec<ObjectId>,
    /// Commits at which the remote's history is cut off.
    pub shallow: Vec<ObjectId>,
    /// What the server offers.
    pub capabilities: Capabilities,
    /// The format of all ids here.
    pub object_format: Kind,
    /// How many lines were left out because their name can't be pushed to or was there before.
    pub skipped: usize,
}

impl Advertisement {
    /// Read all of `bytes`, the body of the answer to `info/refs?service=<service>`.
    pub fn parse(bytes: &[u8], service: &str) -> Result<Advertisement, Error> {
        let mut parser = AdvertisementParser::new(service);
        parser.push(bytes)?;
        parser.finish()
    }

    /// What the ref of this full name points to, in logarithmic time.
    pub fn find(&self, name: &BStr) -> Option<&ObjectId> {
        let at = self
            .refs
            .binary_search_by(|other| other.name.as_slice().cmp(name))
            .ok()?;
        self.refs.get(at).map(|found| &found.id)
    }
}

/// Reads an advertisement from bytes split anywhere: [`push`](Self::push) all of them, then [`finish`](Self::finish).
#[derive(Debug, Clone)]
pub struct AdvertisementParser {
    splitter: Splitter,
    lines: Lines,
}

#[derive(Debug, Clone)]
struct Lines {
    service: String,
    state: State,
    so_far: Advertisement,
}

/// Who may come next. The grammar's order is kept as strictly as git keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The banner, the version, or the first ref.
    Start,
    /// The rest of the banner, up to its flush.
    Banner,
    /// The version or the first ref.
    Version,
    /// The line with the capabilities.
    First,
    /// Refs and `.have`, then shallow lines.
    Refs,
    /// Shallow lines.
    Shallow,
    /// Nothing: what follows the flush isn't looked at.
    Done,
}

impl AdvertisementParser {
    /// For the answer to a request for `service`, such as `git-receive-pack`; a banner must name the same.
    pub fn new(service: &str) -> Self {
        AdvertisementParser {
            splitter: Splitter::new(Part::Advertisement, DEFAULT_LIMIT),
            lines: Lines {
                service: service.to_owned(),
                state: State::Start,
                so_far: Advertisement {
                    refs: Vec::new(),
                    have: Vec::new(),
                    shallow: Vec::new(),
                    capabilities: Capabilities::default(),
                    object_format: Kind::Sha1,
                    skipped: 0,
                },
            },
        }
    }

    /// Read at most `bytes` instead of [`DEFAULT_LIMIT`].
    pub fn limit(mut self, bytes: u64) -> Self {
        self.splitter.set_limit(bytes);
        self
    }

    /// Whether the closing flush was read. More bytes would be ignored.
    pub fn is_done(&self) -> bool {
        self.lines.state == State::Done
    }

    /// Read the next `bytes`. After an error the parser is of no more use.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.is_done() {
            return Ok(());
        }
        let lines = &mut self.lines;
        self.splitter
            .push(bytes, &mut |packet, offset| lines.packet(packet, offset))
    }

    /// There are no more bytes: the advertisement, if it was complete.
    pub fn finish(self) -> Result<Advertisement, Error> {
        if !self.is_done() {
            self.splitter.finish()?;
            return Err(self.splitter.truncated(Missing::Flush));
        }
        let mut advertisement = self.lines.so_far;
        let refs = &mut advertisement.refs;
        // Servers send sorted, so that this mostly costs one comparison a ref.
        if !refs.is_sorted_by(|left, right| left.name < right.name) {
            let all = refs.len();
            refs.sort_by(|left, right| left.name.cmp(&right.name));
            refs.dedup_by(|later, first| later.name == first.name);
            advertisement.skipped += all - refs.len();
        }
        Ok(advertisement)
    }
}

impl Lines {
    fn packet(&mut self, packet: Packet<'_>, offset: u64) -> Result<ControlFlow<()>, Error> {
        match packet {
            Packet::Data(line) => {
                if let Some(text) = line.strip_prefix(b"ERR ") {
                    return Err(Error::remote(chomp(text)));
                }
                self.line(chomp(line), offset)?;
            }
            Packet::Flush if self.state == State::Banner => self.state = State::Version,
            Packet::Flush => self.state = State::Done,
            Packet::Delimiter | Packet::ResponseEnd => return Err(unexpected(describe(packet), offset)),
        }
        Ok(if self.state == State::Done {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    fn line(&mut self, line: &[u8], offset: u64) -> Result<(), Error> {
        if self.state == State::Start {
            if let Some(service) = line.strip_prefix(b"# service=") {
                if service != self.service.as_bytes() {
                    return Err(Error::WrongService {
                        expected: self.service.clone(),
                        found: excerpt(line),
                    });
                }
                self.state = State::Banner;
                return Ok(());
            }
            self.state = State::Version;
        }
        if self.state == State::Version {
            self.state = State::First;
            if let Some(version) = line.strip_prefix(b"version ") {
                return match version {
                    b"1" => Ok(()),
                    _ => Err(Error::UnsupportedVersion { found: excerpt(line) }),
                };
            }
        }
        // More lines of the banner mean nothing (remote-curl.c, `check_smart_http`).
        if self.state == State::Banner {
            return Ok(());
        }

        let mut halves = line.splitn(2, |&byte| byte == 0);
        let text = halves.next().unwrap_or_default();
        if self.state == State::First {
            self.capabilities(halves.next())?;
            self.state = State::Refs;
            let dummy = self.id_and_name(text)?;
            if dummy.is_some_and(|(id, name)| id.is_null() && name == b"capabilities^{}") {
                self.state = State::Shallow;
                return Ok(());
            }
        }
        if self.state == State::Refs {
            if let Some((id, name)) = self.id_and_name(text)? {
                return self
                    .reference(id, name)
                    .ok_or_else(|| unexpected(excerpt(text), offset));
            }
            self.state = State::Shallow;
        }
        let id = text.strip_prefix(b"shallow ").and_then(|hex| self.id(hex));
        let id = id.ok_or_else(|| unexpected(excerpt(text), offset))?;
        self.so_far.shallow.push(id);
        Ok(())
    }

    fn capabilities(&mut self, list: Option<&[u8]>) -> Result<(), Error> {
        let capabilities = Capabilities::parse(list.unwrap_or_default());
        if let Some(kind) = capabilities.object_format() {
            self.so_far.object_format = kind?;
        }
        self.so_far.capabilities = capabilities;
        Ok(())
    }

    /// `None` if this name may not come here.
    fn reference(&mut self, id: ObjectId, name: &[u8]) -> Option<()> {
        match name {
            b".have" | b"HEAD" => self.so_far.have.push(id),
            // Only an empty repository says this, and then as the first line.
            b"capabilities^{}" => return None,
            name if is_pushable(name) => self.so_far.refs.push(AdvertisedRef { name: name.into(), id }),
            _ => self.so_far.skipped += 1,
        }
        Some(())
    }

    /// `None` if the line has another form; an error if it has this form in another object format.
    fn id_and_name<'a>(&self, text: &'a [u8]) -> Result<Option<(ObjectId, &'a [u8])>, Error> {
        let announced = self.so_far.object_format;
        let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let Some((hex, [b' ', name @ ..])) = text.split_at_checked(digits) else {
            return Ok(None);
        };
        if let Some(id) = self.id(hex) {
            return Ok(Some((id, name)));
        }
        if Kind::all().iter().any(|kind| kind.len_in_hex() == digits) {
            return Err(Error::IdLength {
                announced,
                length: digits,
                found: excerpt(text),
            });
        }
        Ok(None)
    }

    fn id(&self, hex: &[u8]) -> Option<ObjectId> {
        let id = ObjectId::from_hex(hex).ok()?;
        (id.kind() == self.so_far.object_format).then_some(id)
    }
}

fn unexpected(found: String, offset: u64) -> Error {
    Error::Unexpected {
        part: Part::Advertisement,
        offset,
        found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pktline::{encode_flush, encode_line};

    const SERVICE: &str = "git-receive-pack";
    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";
    const NULL: &str = "0000000000000000000000000000000000000000";

    /// Each string becomes a pkt-line, and an empty one a flush.
    fn wire(lines: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        for line in lines {
            match *line {
                "" => encode_flush(&mut out),
                line => encode_line(&mut out, &[line.as_bytes()]).unwrap(),
            }
        }
        out
    }

    fn parse(lines: &[&str]) -> Result<Advertisement, Error> {
        Advertisement::parse(&wire(lines), SERVICE)
    }

    fn names(advertisement: &Advertisement) -> Vec<&str> {
        advertisement
            .refs
            .iter()
            .map(|found| std::str::from_utf8(&found.name).unwrap())
            .collect()
    }

    #[test]
    fn refs_have_and_shallow_in_every_envelope() {
        let main = format!("{ONE} refs/heads/main\0report-status quiet\n");
        let body = [
            main.as_str(),
            &format!("{TWO} refs/tags/v1"),
            &format!("{ONE} refs/tags/v1^{{}}"),
            &format!("{TWO} .have\n"),
            &format!("shallow {ONE}\n"),
            "",
        ];
        let bare = parse(&body).unwrap();
        assert_eq!(names(&bare), ["refs/heads/main", "refs/tags/v1"]);
        assert_eq!(bare.find("refs/tags/v1".into()).unwrap().to_string(), TWO);
        assert_eq!(bare.find("refs/tags/v2".into()), None);
        assert_eq!((bare.have.len(), bare.shallow.len(), bare.skipped), (1, 1, 1));
        assert!(bare.capabilities.contains("quiet"));
        assert_eq!(bare.object_format, Kind::Sha1);

        for envelope in [
            &["version 1\n"][..],
            &["# service=git-receive-pack\n", ""],
            &["# service=git-receive-pack", "more of the banner", "", "version 1"],
        ] {
            assert_eq!(parse(&[envelope, &body].concat()).unwrap(), bare, "{envelope:?}");
        }
    }

    #[test]
    fn empty_repositories() {
        let dummy = format!("{NULL} capabilities^{{}}\0delete-refs");
        let empty = parse(&[&dummy, ""]).unwrap();
        assert!(empty.refs.is_empty() && empty.have.is_empty());
        assert!(empty.capabilities.contains("delete-refs"));
        let shallow = parse(&[&dummy, &format!("shallow {ONE}"), ""]).unwrap();
        assert_eq!(shallow.shallow.len(), 1);
        let silent = parse(&[""]).unwrap();
        assert_eq!((silent.refs.len(), silent.capabilities.iter().count()), (0, 0));
        let only_have = parse(&[&format!("{ONE} .have\0quiet"), ""]).unwrap();
        assert_eq!((only_have.refs.len(), only_have.have.len()), (0, 1));
    }

    #[test]
    fn dangerous_and_repeated_names_are_left_out() {
        let seen = parse(&[
            &format!("{ONE} refs/heads/z\0quiet"),
            &format!("{ONE} refs/heads/../../hooks/update"),
            &format!("{ONE} HEAD"),
            &format!("{TWO} refs/heads/z"),
            &format!("{ONE} refs/heads/a\0late capabilities are ignored"),
            &format!("{ONE} refs/heads/with space"),
            &format!("{ONE} "),
            "",
        ])
        .unwrap();
        assert_eq!(names(&seen), ["refs/heads/a", "refs/heads/z"]);
        assert_eq!(seen.find("refs/heads/z".into()).unwrap().to_string(), ONE);
        assert_eq!((seen.skipped, seen.have.len()), (4, 1));
        assert_eq!(seen.capabilities, Capabilities::parse(b"quiet"));
    }

    #[test]
    fn sha256_and_mismatches() {
        let long = "3".repeat(64);
        let first = format!("{long} refs/heads/main\0object-format=sha256");
        let seen = parse(&[&first, ""]).unwrap();
        assert_eq!(seen.object_format, Kind::Sha256);
        assert_eq!(seen.find("refs/heads/main".into()).unwrap().to_string(), long);
        let null = format!("{} capabilities^{{}}\0object-format=sha256", "0".repeat(64));
        assert_eq!(parse(&[&null, ""]).unwrap().object_format, Kind::Sha256);

        for (lines, announced, length) in [
            (
                vec![format!("{ONE} refs/heads/a\0object-format=sha256")],
                Kind::Sha256,
                40,
            ),
            (vec![format!("{long} refs/heads/a\0object-format=sha1")], Kind::Sha1, 64),
            (vec![format!("{long} refs/heads/a\0quiet")], Kind::Sha1, 64),
            (vec![first.clone(), format!("{TWO} refs/heads/b")], Kind::Sha256, 40),
        ] {
            let lines: Vec<&str> = lines.iter().map(String::as_str).chain([""]).collect();
            match parse(&lines).unwrap_err() {
                Error::IdLength {
                    announced: a,
                    length: l,
                    ..
                } => assert_eq!((a, l), (announced, length)),
                other => panic!("{other}"),
            }
        }
        let unknown = format!("{ONE} refs/heads/a\0object-format=md5");
        assert!(matches!(parse(&[&unknown, ""]), Err(Error::UnknownObjectFormat { .. })));
    }

    #[test]
    fn err_packets_carry_the_servers_words() {
        let main = format!("{ONE} refs/heads/main\0quiet");
        for lines in [
            &["ERR access denied\n"][..],
            &["# service=git-receive-pack", "", "ERR access denied"],
            &[&main, "ERR access denied"],
        ] {
            assert_eq!(parse(lines).unwrap_err(), Error::remote(b"access denied"));
        }
    }

    #[test]
    fn what_is_no_advertisement() {
        let html = Advertisement::parse(b"<!DOCTYPE html>\n<title>Sign in</title>", SERVICE).unwrap_err();
        let text = html.to_string();
        assert!(
            text.contains("<!DOCTYPE html> <title>Sign in") && text.contains("URL"),
            "{text}"
        );

        let other = parse(&["# service=git-upload-pack\n", ""]).unwrap_err();
        assert!(matches!(other, Error::WrongService { .. }), "{other}");
        let v2 = parse(&["version 2\n", "agent=git/2", ""]).unwrap_err();
        assert!(matches!(v2, Error::UnsupportedVersion { .. }), "{v2}");

        let main = format!("{ONE} refs/heads/main\0quiet");
        let dummy = format!("{NULL} capabilities^{{}}\0quiet");
        let shallow = format!("shallow {ONE}");
        for lines in [
            &["hello", ""][..],
            &["version 1", "version 1", ""],
            &[&main, "hello", ""],
            &[&main, &dummy, ""],
            &[&dummy, &main, ""],
            &[&main, &shallow, &main, ""],
            &[&main, "shallow 12", ""],
            &[&main, &format!("{ONE}refs/heads/main"), ""],
            &[&format!("{ONE} capabilities^{{}}\0"), ""],
        ] {
            let err = parse(lines).unwrap_err();
            assert!(matches!(err, Error::Unexpected { .. }), "{lines:?}: {err}");
        }
        for special in ["0001", "0002"] {
            let err = Advertisement::parse(special.as_bytes(), SERVICE).unwrap_err();
            assert!(matches!(err, Error::Unexpected { offset: 4, .. }), "{err}");
        }
    }

    #[test]
    fn every_early_end_is_noticed() {
        let bytes = wire(&[
            "# service=git-receive-pack",
            "",
            &format!("{ONE} refs/heads/main\0quiet"),
            "",
        ]);
        for end in 0..bytes.len() {
            let err = Advertisement::parse(&bytes[..end], SERVICE).unwrap_err();
            match err {
                Error::Truncated { received, missing, .. } => {
                    assert_eq!(received, end as u64);
                    assert_eq!(missing == Missing::Everything, end == 0);
                }
                other => panic!("{other}"),
            }
        }
        let trailing = [&bytes[..], b"<html>"].concat();
        assert!(Advertisement::parse(&trailing, SERVICE).is_ok());
    }

    #[test]
    fn the_limit_is_kept() {
        let bytes = wire(&[
            &format!("{ONE} refs/heads/main\0quiet"),
            &format!("{ONE} refs/heads/n"),
            "",
        ]);
        let mut parser = AdvertisementParser::new(SERVICE).limit(bytes.len() as u64 - 1);
        assert!(matches!(parser.push(&bytes), Err(Error::TooLong { .. })));
        let mut parser = AdvertisementParser::new(SERVICE).limit(bytes.len() as u64);
        parser.push(&bytes).unwrap();
        assert!(parser.is_done() && parser.finish().is_ok());
    }

    /// Quadratic work over this many refs would take minutes.
    #[test]
    fn a_hundred_thousand_refs() {
        let mut bytes = Vec::new();
        encode_line(&mut bytes, &[ONE.as_bytes(), b" refs/heads/first\0report-status"]).unwrap();
        for number in (0..100_000).rev() {
            encode_line(&mut bytes, &[format!("{TWO} refs/tags/v{number}\n").as_bytes()]).unwrap();
        }
        encode_flush(&mut bytes);
        let mut parser = AdvertisementParser::new(SERVICE);
        for chunk in bytes.chunks(1000) {
            parser.push(chunk).unwrap();
        }
        let seen = parser.finish().unwrap();
        assert_eq!((seen.refs.len(), seen.skipped), (100_001, 0));
        for found in &seen.refs {
            assert_eq!(seen.find(found.name.as_ref()), Some(&found.id));
        }
    }
}
