//! How an entry of a pack begins (gitformat-pack(5)), and what is remembered of it.

use gix_hash::ObjectId;
use gix_object::Kind;

/// No header is longer: type and size in 10 bytes, then a name or an offset.
pub(super) const LONGEST_HEADER: usize = 10 + 32;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    Whole(Kind),
    /// A delta, and how far before it its base begins.
    Offset(u64),
    /// A delta, and its base's name.
    Named(ObjectId),
}

/// The header at the beginning of what `next` yields, with the size of what is deflated behind it.
pub(super) fn header<E>(
    hash: gix_hash::Kind,
    mut next: impl FnMut() -> Result<u8, E>,
    corrupt: impl Fn(&'static str) -> E,
) -> Result<(Header, u64), E> {
    let mut byte = next()?;
    let kind = byte >> 4 & 7;
    let mut size = u64::from(byte & 0xf);
    let mut shift = 4;
    while byte & 0x80 != 0 {
        byte = next()?;
        let part = u64::from(byte & 0x7f);
        if shift > 63 || part << shift >> shift != part {
            return Err(corrupt("its size has more than 64 bits"));
        }
        size |= part << shift;
        shift += 7;
    }
    let header = match kind {
        1 => Header::Whole(Kind::Commit),
        2 => Header::Whole(Kind::Tree),
        3 => Header::Whole(Kind::Blob),
        4 => Header::Whole(Kind::Tag),
        6 => {
            let mut byte = next()?;
            let mut distance = u64::from(byte & 0x7f);
            while byte & 0x80 != 0 {
                byte = next()?;
                distance = distance
                    .checked_add(1)
                    .filter(|distance| *distance < 1 << 56)
                    .ok_or_else(|| corrupt("its base is out of reach"))?
                    << 7
                    | u64::from(byte & 0x7f);
            }
            Header::Offset(distance)
        }
        7 => {
            let mut name = ObjectId::null(hash);
            for byte in name.as_mut_slice() {
                *byte = next()?;
            }
            Header::Named(name)
        }
        _ => return Err(corrupt("its type is not known")),
    };
    Ok((header, size))
}

/// How far an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// On its way to be named, or waiting for its base.
    Pending,
    /// It must be read back, as it or its base was not at hand when it came.
    Deferred,
    /// It has a name.
    Named(Kind),
}

/// An entry as the index lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) offset: u64,
    pub(super) crc: u32,
    pub(super) id: ObjectId,
}
