//! The update request: commands, and the push options after them (gitprotocol-pack(5), "Reference Update Request and
//! Packfile Transfer").
//!
//! Owns the bytes before the pack. Makes no pack and decides on no update, but refuses to write what the receiving end would
//! misread or doesn't offer.
use bstr::BString;
use gix_hash::ObjectId;

use crate::{
    ClientCapabilities, Error,
    pktline::{encode_flush, encode_line},
    refname::is_pushable,
};

/// One command: move `name` from `old` to `new`. A null id stands for a ref that isn't there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RefUpdate {
    /// The full name, below `refs/`.
    pub name: BString,
    /// What the ref pointed to when it was advertised. The receiving end refuses if it has moved since.
    pub old: ObjectId,
    /// What it is to point to.
    pub new: ObjectId,
}

impl RefUpdate {
    /// Whether the ref is to go.
    pub fn is_delete(&self) -> bool {
        self.new.is_null()
    }

    /// Whether the ref is to be made.
    pub fn is_create(&self) -> bool {
        self.old.is_null() && !self.new.is_null()
    }
}

/// Everything that is sent before the pack.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// What to change, at least one; each name once, or the receiving end refuses.
    pub updates: &'a [RefUpdate],
    /// What was agreed on.
    pub capabilities: ClientCapabilities,
    /// Words for the hooks of the receiving end.
    pub push_options: &'a [BString],
    /// Where the local history is cut off.
    pub shallow: &'a [ObjectId],
}

impl Request<'_> {
    /// Whether a pack follows: unless all that is asked for is deletion, it must, even if it is empty.
    pub fn needs_pack(&self) -> bool {
        self.updates.iter().any(|update| !update.is_delete())
    }

    /// Shallow lines, commands with the capabilities on the first, a flush; then, only when agreed on, push options and
    /// another flush.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        if self.updates.is_empty() {
            return Err(Error::NoCommands);
        }
        if !self.push_options.is_empty() && !self.capabilities.push_options {
            return Err(Error::NotOffered { what: "push options" });
        }
        let mut out = Vec::new();
        for id in self.shallow {
            encode_line(&mut out, &[b"shallow ", self.hex(id)?.as_bytes(), b"\n"])?;
        }
        for (at, update) in self.updates.iter().enumerate() {
            if update.is_delete() && !self.capabilities.delete_refs {
                return Err(Error::DeleteNotOffered {
                    name: update.name.clone(),
                });
            }
            if !is_pushable(&update.name) {
                return Err(Error::InvalidRefName {
                    name: update.name.clone(),
                });
            }
            let (old, new) = (self.hex(&update.old)?, self.hex(&update.new)?);
            let capabilities = if at == 0 {
                [&[0][..], &self.capabilities.encode()].concat()
            } else {
                Vec::new()
            };
            encode_line(
                &mut out,
                &[old.as_bytes(), b" ", new.as_bytes(), b" ", &update.name, &capabilities],
            )?;
        }
        encode_flush(&mut out);
        if self.capabilities.push_options {
            for option in self.push_options {
                // The lines carry no newline of their own: one in the option would be lost, and a NUL would end it.
                if option.iter().any(|byte| matches!(byte, b'\n' | 0)) {
                    return Err(Error::InvalidPushOption { option: option.clone() });
                }
                encode_line(&mut out, &[option])?;
            }
            encode_flush(&mut out);
        }
        Ok(out)
    }

    fn hex(&self, id: &ObjectId) -> Result<String, Error> {
        let expected = self.capabilities.hash_kind();
        if id.kind() != expected {
            return Err(Error::IdKind { id: *id, expected });
        }
        Ok(id.to_string())
    }
}

#[cfg(test)]
mod tests {
    use bstr::ByteSlice;
    use gix_hash::Kind;

    use super::*;
    use crate::{Capabilities, Wanted};

    fn id(digit: &str) -> ObjectId {
        ObjectId::from_hex(digit.repeat(40).as_bytes()).unwrap()
    }

    fn update(name: &str, old: &str, new: &str) -> RefUpdate {
        RefUpdate {
            name: name.into(),
            old: id(old),
            new: id(new),
        }
    }

    fn agreed(server: &str, push_options: bool) -> ClientCapabilities {
        let mut wanted = Wanted::new(Kind::Sha1);
        wanted.push_options = push_options;
        ClientCapabilities::negotiate(&Capabilities::parse(server.as_bytes()), &wanted).unwrap()
    }

    fn request<'a>(updates: &'a [RefUpdate], capabilities: ClientCapabilities) -> Request<'a> {
        Request {
            updates,
            capabilities,
            push_options: &[],
            shallow: &[],
        }
    }

    #[test]
    fn commands_shallow_lines_and_push_options() {
        let updates = [
            update("refs/heads/a", "0", "1"),
            update("refs/heads/b", "1", "2"),
            update("refs/heads/c", "2", "0"),
        ];
        let options = [BString::from("ci.skip"), "".into()];
        let shallow = [id("3")];
        let request = Request {
            push_options: &options,
            shallow: &shallow,
            ..request(&updates, agreed("report-status delete-refs push-options", true))
        };
        let expected = [
            &format!("0035shallow {}\n", "3".repeat(40)),
            &format!(
                "007e{} {} refs/heads/a\0 report-status push-options",
                "0".repeat(40),
                "1".repeat(40)
            ),
            &format!("0062{} {} refs/heads/b", "1".repeat(40), "2".repeat(40)),
            &format!("0062{} {} refs/heads/c", "2".repeat(40), "0".repeat(40)),
            "0000",
            "000bci.skip",
            "0004",
            "0000",
        ]
        .concat();
        assert_eq!(request.encode().unwrap().as_bstr(), expected);
        assert!(request.needs_pack());
        assert!(updates[0].is_create() && !updates[1].is_create() && !updates[1].is_delete() && updates[2].is_delete());
    }

    #[test]
    fn the_push_option_section_is_there_exactly_when_agreed_on() {
        let updates = [update("refs/heads/a", "0", "1")];
        let without = request(&updates, agreed("push-options", false)).encode().unwrap();
        assert!(without.ends_with(b"refs/heads/a\x000000"));
        let with = request(&updates, agreed("push-options", true)).encode().unwrap();
        assert!(with.ends_with(b" push-options00000000"));

        let options = [BString::from("x")];
        let unasked = Request {
            push_options: &options,
            ..request(&updates, agreed("push-options", false))
        };
        assert_eq!(unasked.encode(), Err(Error::NotOffered { what: "push options" }));
        for bad in ["two\nlines", "nul\0"] {
            let options = [BString::from(bad)];
            let request = Request {
                push_options: &options,
                ..request(&updates, agreed("push-options", true))
            };
            assert!(matches!(request.encode(), Err(Error::InvalidPushOption { option }) if option == bad));
        }
    }

    #[test]
    fn deletion_must_be_offered_and_needs_no_pack() {
        let updates = [update("refs/heads/gone", "1", "0")];
        let err = request(&updates, agreed("report-status", false)).encode().unwrap_err();
        assert!(err.to_string().contains("refs/heads/gone"), "{err}");
        assert!(matches!(err, Error::DeleteNotOffered { name } if name == "refs/heads/gone"));
        let allowed = request(&updates, agreed("delete-refs", false));
        assert!(allowed.encode().is_ok());
        assert!(!allowed.needs_pack());
    }

    #[test]
    fn what_would_be_misread_is_not_written() {
        let none = request(&[], ClientCapabilities::default());
        assert_eq!(none.encode(), Err(Error::NoCommands));
        for name in ["HEAD", "refs/heads/a\0 atomic", "refs/heads/a\n", "main", ""] {
            let updates = [update(name, "0", "1")];
            let err = request(&updates, ClientCapabilities::default()).encode().unwrap_err();
            assert_eq!(err, Error::InvalidRefName { name: name.into() });
        }
        let long = format!("refs/heads/{}", "x".repeat(70_000));
        let updates = [update(&long, "0", "1")];
        let err = request(&updates, ClientCapabilities::default()).encode().unwrap_err();
        assert!(matches!(err, Error::LineTooLong { .. }), "{err}");

        let foreign = [RefUpdate {
            new: ObjectId::null(Kind::Sha256),
            ..update("refs/heads/a", "0", "1")
        }];
        let capabilities = agreed("delete-refs", false);
        assert!(matches!(
            request(&foreign, capabilities).encode(),
            Err(Error::IdKind {
                expected: Kind::Sha1,
                ..
            })
        ));
    }
}
