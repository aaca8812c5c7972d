//! What the server offers, and what of it a push asks for (gitprotocol-capabilities(5)).
//!
//! Owns the capability list in both directions: [`Capabilities`] as advertised, [`ClientCapabilities`] as sent with the first
//! command. Refuses to ask for what isn't offered: the specification forbids clients that.
use bstr::{BStr, BString, ByteSlice};
use gix_hash::Kind;

use crate::{Error, error::excerpt};

/// The capabilities of an advertisement, in the order of the server. Never longer than one pkt-line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    list: BString,
}

impl Capabilities {
    /// From what follows the NUL of the first advertised line. Like git, ends at a second NUL.
    pub fn parse(list: &[u8]) -> Self {
        let list = list.split(|&byte| byte == 0).next().unwrap_or_default();
        Capabilities { list: list.into() }
    }

    /// Name and, after a `=`, value of each capability. Names may repeat.
    pub fn iter(&self) -> impl Iterator<Item = (&BStr, Option<&BStr>)> {
        self.list
            .split(u8::is_ascii_whitespace)
            .filter(|capability| !capability.is_empty())
            .map(|capability| match capability.split_once_str("=") {
                Some((name, value)) => (name.as_bstr(), Some(value.as_bstr())),
                None => (capability.as_bstr(), None),
            })
    }

    /// Whether the capability `name` is there, with or without a value.
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|(offered, _)| offered == name)
    }

    /// The first value given to `name`.
    pub fn value(&self, name: &str) -> Option<&BStr> {
        self.iter()
            .filter(|(offered, _)| *offered == name)
            .find_map(|(_, value)| value)
    }

    /// All values given to `name`, such as several of `symref` or `object-format`.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a BStr> + 'a {
        self.iter()
            .filter(move |(offered, _)| *offered == name)
            .filter_map(|(_, value)| value)
    }

    /// The software of the server, by its own account.
    pub fn agent(&self) -> Option<&BStr> {
        self.value("agent")
    }

    /// Which ref each symbolic ref points to, as far as the server says so.
    pub fn symrefs(&self) -> impl Iterator<Item = (&BStr, &BStr)> {
        self.values("symref")
            .filter_map(|pair| pair.split_once_str(":"))
            .map(|(name, target)| (name.as_bstr(), target.as_bstr()))
    }

    /// The object format in which the advertisement is written: the first that is announced. `None` means SHA-1.
    pub fn object_format(&self) -> Option<Result<Kind, Error>> {
        self.value("object-format")
            .map(|name| kind_of(name).ok_or_else(|| Error::UnknownObjectFormat { found: excerpt(name) }))
    }
}

/// Only the names of gitprotocol-capabilities(5): gix-hash's own parser takes more.
fn kind_of(name: &[u8]) -> Option<Kind> {
    Kind::all()
        .iter()
        .copied()
        .find(|kind| kind.to_string().as_bytes() == name)
}

/// What a push would like to use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wanted {
    /// The object format of the local repository. The push fails when the server has another.
    pub object_format: Kind,
    /// No progress, please: asked for by git with `--quiet` and when nobody watches.
    pub quiet: bool,
    /// All updates or none. The push fails when the server can't.
    pub atomic: bool,
    /// There are push options. The push fails when the server doesn't take any.
    pub push_options: bool,
    /// Our software, told only to servers that tell theirs.
    pub agent: Option<String>,
    /// An id under which both sides log, sent only to servers that send theirs.
    pub session_id: Option<String>,
}

impl Wanted {
    /// The least that a push from a repository in `object_format` wants.
    pub fn new(object_format: Kind) -> Self {
        Wanted {
            object_format,
            ..Wanted::default()
        }
    }
}

/// What both sides can do: the first part is sent with the first command, the rest only guides the sender.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// A report comes back.
    pub report_status: bool,
    /// It comes with option lines. Is preferred, and then sent instead of `report-status`.
    pub report_status_v2: bool,
    /// The answer is multiplexed ([`crate::Sideband`]).
    pub side_band_64k: bool,
    /// The server is asked to keep its progress to itself.
    pub quiet: bool,
    /// All updates or none.
    pub atomic: bool,
    /// The section of push options is sent.
    pub push_options: bool,
    /// The object format, sent only if the server announced it.
    pub object_format: Option<Kind>,
    /// Our software.
    pub agent: Option<String>,
    /// The id for the server's log.
    pub session_id: Option<String>,
    /// Not sent. The server accepts deletions.
    pub delete_refs: bool,
    /// Not sent. The server reads packs whose deltas name their bases by offset.
    pub ofs_delta: bool,
    /// Not sent. The server can't complete packs whose delta bases are missing from them.
    pub no_thin: bool,
}

impl ClientCapabilities {
    /// Choose as git's send-pack does: take what is offered of what serves every push, and fail if the server lacks what was
    /// explicitly `wanted`, so that nobody believes in an atomic push that wasn't.
    pub fn negotiate(server: &Capabilities, wanted: &Wanted) -> Result<Self, Error> {
        let offered = |name| server.contains(name);
        let mut formats = server.values("object-format").peekable();
        let announced = formats.peek().is_some();
        let fits = if announced {
            formats.any(|name| kind_of(name) == Some(wanted.object_format))
        } else {
            wanted.object_format == Kind::Sha1
        };
        if !fits {
            let theirs: Vec<&[u8]> = server.values("object-format").map(AsRef::as_ref).collect();
            return Err(Error::ObjectFormat {
                local: wanted.object_format,
                remote: if announced {
                    excerpt(theirs.join(&b", "[..]))
                } else {
                    Kind::Sha1.to_string()
                },
            });
        }
        if wanted.atomic && !offered("atomic") {
            return Err(Error::NotOffered { what: "--atomic push" });
        }
        if wanted.push_options && !offered("push-options") {
            return Err(Error::NotOffered { what: "push options" });
        }
        let report_status_v2 = offered("report-status-v2");
        Ok(ClientCapabilities {
            report_status: report_status_v2 || offered("report-status"),
            report_status_v2,
            side_band_64k: offered("side-band-64k"),
            quiet: wanted.quiet && offered("quiet"),
            atomic: wanted.atomic,
            push_options: wanted.push_options,
            object_format: announced.then_some(wanted.object_format),
            agent: wanted.agent.clone().filter(|_| offered("agent")),
            session_id: wanted.session_id.clone().filter(|_| offered("session-id")),
            delete_refs: offered("delete-refs"),
            ofs_delta: offered("ofs-delta"),
            no_thin: offered("no-thin"),
        })
    }

    /// The list as it follows the NUL of the first command: each capability after a space, in send-pack's order.
    pub fn encode(&self) -> Vec<u8> {
        let mut list = Vec::new();
        let mut add = |name: &str, value: Option<&str>| {
            list.push(b' ');
            list.extend_from_slice(name.as_bytes());
            if let Some(value) = value {
                list.push(b'=');
                list.extend(
                    value
                        .trim()
                        .bytes()
                        .map(|byte| if byte.is_ascii_graphic() { byte } else { b'.' }),
                );
            }
        };
        if self.report_status_v2 {
            add("report-status-v2", None);
        } else if self.report_status {
            add("report-status", None);
        }
        for (name, set) in [
            ("side-band-64k", self.side_band_64k),
            ("quiet", self.quiet),
            ("atomic", self.atomic),
            ("push-options", self.push_options),
        ] {
            if set {
                add(name, None);
            }
        }
        if let Some(kind) = self.object_format {
            add("object-format", Some(&kind.to_string()));
        }
        if let Some(agent) = &self.agent {
            add("agent", Some(agent));
        }
        if let Some(id) = &self.session_id {
            add("session-id", Some(id));
        }
        list
    }

    /// The object format of all ids in the request: SHA-1 unless agreed otherwise.
    pub fn hash_kind(&self) -> Kind {
        self.object_format.unwrap_or(Kind::Sha1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIT: &[u8] = b"report-status report-status-v2 delete-refs side-band-64k quiet atomic ofs-delta push-options \
        session-id=abc object-format=sha1 symref=HEAD:refs/heads/main agent=git/2.47.3\n";

    #[test]
    fn names_and_values() {
        let server = Capabilities::parse(GIT);
        assert!(server.contains("report-status") && server.contains("agent") && server.contains("ofs-delta"));
        assert!(!server.contains("report") && !server.contains("status") && !server.contains(""));
        assert_eq!(server.value("session-id").unwrap(), "abc");
        assert_eq!(server.value("quiet"), None, "it has no value");
        assert_eq!(server.agent().unwrap(), "git/2.47.3", "the newline isn't part of it");
        assert_eq!(server.object_format(), Some(Ok(Kind::Sha1)));
        assert_eq!(
            server.symrefs().collect::<Vec<_>>(),
            [("HEAD".into(), "refs/heads/main".into())]
        );
        assert_eq!(server.iter().count(), 12);
        assert_eq!(Capabilities::parse(b"quiet\0atomic").iter().count(), 1);
    }

    #[test]
    fn object_formats() {
        assert_eq!(
            Capabilities::parse(b"object-format=sha256").object_format(),
            Some(Ok(Kind::Sha256))
        );
        assert_eq!(Capabilities::parse(b"").object_format(), None);
        assert!(matches!(
            Capabilities::parse(b"object-format=sha3").object_format(),
            Some(Err(Error::UnknownObjectFormat { found })) if found == "sha3"
        ));
    }

    #[test]
    fn everything_that_is_offered_and_wanted_is_sent_in_gits_order() {
        let mut wanted = Wanted::new(Kind::Sha1);
        wanted.quiet = true;
        wanted.atomic = true;
        wanted.push_options = true;
        wanted.agent = Some("git/2.47.0 rgit\n".into());
        wanted.session_id = Some("me".into());
        let agreed = ClientCapabilities::negotiate(&Capabilities::parse(GIT), &wanted).unwrap();
        assert_eq!(
            agreed.encode().as_bstr(),
            " report-status-v2 side-band-64k quiet atomic push-options object-format=sha1 agent=git/2.47.0.rgit session-id=me"
        );
        assert!(agreed.delete_refs && agreed.ofs_delta && !agreed.no_thin);
    }

    #[test]
    fn what_is_not_offered_is_not_sent() {
        let mut wanted = Wanted::new(Kind::Sha1);
        wanted.quiet = true;
        wanted.agent = Some("git/2".into());
        wanted.session_id = Some("me".into());
        let agreed = ClientCapabilities::negotiate(&Capabilities::parse(b"report-status no-thin"), &wanted).unwrap();
        assert_eq!(agreed.encode().as_bstr(), " report-status");
        assert!(agreed.no_thin && !agreed.delete_refs);
        let nothing = ClientCapabilities::negotiate(&Capabilities::default(), &wanted).unwrap();
        assert_eq!(nothing.encode().as_bstr(), "");
        assert_eq!(nothing.hash_kind(), Kind::Sha1);
    }

    #[test]
    fn what_was_asked_for_must_be_offered() {
        let server = Capabilities::parse(b"report-status");
        let mut wanted = Wanted::new(Kind::Sha1);
        wanted.atomic = true;
        let err = ClientCapabilities::negotiate(&server, &wanted).unwrap_err();
        assert!(err.to_string().contains("does not support --atomic push"), "{err}");
        wanted.atomic = false;
        wanted.push_options = true;
        let err = ClientCapabilities::negotiate(&server, &wanted).unwrap_err();
        assert!(err.to_string().contains("does not support push options"), "{err}");
    }

    #[test]
    fn a_mismatch_of_object_formats_names_both() {
        for (server, local, remote) in [
            (&b"object-format=sha256"[..], Kind::Sha1, "sha256"),
            (b"object-format=sha1", Kind::Sha256, "sha1"),
            (b"quiet", Kind::Sha256, "sha1"),
        ] {
            let err = ClientCapabilities::negotiate(&Capabilities::parse(server), &Wanted::new(local)).unwrap_err();
            assert_eq!(
                err,
                Error::ObjectFormat {
                    local,
                    remote: remote.into()
                }
            );
            assert!(
                err.to_string()
                    .contains(&format!("it is {local} here and {remote} there")),
                "{err}"
            );
        }
        let both = Capabilities::parse(b"object-format=sha1 object-format=sha256");
        assert!(ClientCapabilities::negotiate(&both, &Wanted::new(Kind::Sha256)).is_ok());
    }
}
