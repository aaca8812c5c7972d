//! Deltas by gitformat-pack(5), "Deltified representation", from hands that aren't trusted.

/// What one delta may make, and the largest base it may have: a copy's offset has 32 bits.
pub(super) const LIMIT: u64 = 1 << 32;
/// Results up to this size are allocated by what the delta's header says; it could say anything.
const PROMISED: u64 = 1 << 20;

/// Make an object of `base` and `delta`.
pub(super) fn apply(base: &[u8], delta: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut instructions = delta;
    if size(&mut instructions)? != base.len() as u64 {
        return Err("a delta is for a base of another size");
    }
    let length = size(&mut instructions)?;
    if length > LIMIT {
        return Err("a delta makes more than 4 GiB");
    }
    if length > PROMISED && made(instructions)? != length {
        return Err("a delta doesn't make what it promises");
    }
    let mut result = Vec::new();
    result
        .try_reserve_exact(length as usize)
        .map_err(|_| "a delta makes more than there is memory for")?;
    while let Some((&command, rest)) = instructions.split_first() {
        instructions = rest;
        let bytes = if command & 0x80 != 0 {
            let (offset, length) = copy(command, &mut instructions)?;
            base.get(offset..offset.saturating_add(length))
                .ok_or("a delta copies from beyond its base")?
        } else {
            insert(command, &mut instructions)?
        };
        if bytes.len() > length as usize - result.len() {
            return Err("a delta makes more than it promises");
        }
        result.extend_from_slice(bytes);
    }
    if result.len() as u64 != length {
        return Err("a delta makes less than it promises");
    }
    Ok(result)
}

/// How many bytes the instructions make.
fn made(mut instructions: &[u8]) -> Result<u64, &'static str> {
    let mut made = 0u64;
    while let Some((&command, rest)) = instructions.split_first() {
        instructions = rest;
        made += if command & 0x80 != 0 {
            copy(command, &mut instructions)?.1 as u64
        } else {
            insert(command, &mut instructions)?.len() as u64
        };
    }
    Ok(made)
}

fn copy(command: u8, rest: &mut &[u8]) -> Result<(usize, usize), &'static str> {
    let (mut offset, mut length) = (0u32, 0u32);
    for bit in 0..4 {
        if command & (1 << bit) != 0 {
            offset |= u32::from(byte(rest)?) << (8 * bit);
        }
    }
    for bit in 0..3 {
        if command & (0x10 << bit) != 0 {
            length |= u32::from(byte(rest)?) << (8 * bit);
        }
    }
    Ok((offset as usize, if length == 0 { 0x1_0000 } else { length as usize }))
}

fn insert<'a>(command: u8, rest: &mut &'a [u8]) -> Result<&'a [u8], &'static str> {
    if command == 0 {
        return Err("a delta has an instruction that is reserved");
    }
    let (fresh, after) = rest
        .split_at_checked(usize::from(command))
        .ok_or("a delta ends within an instruction")?;
    *rest = after;
    Ok(fresh)
}

fn byte(rest: &mut &[u8]) -> Result<u8, &'static str> {
    let (&first, after) = rest.split_first().ok_or("a delta ends within an instruction")?;
    *rest = after;
    Ok(first)
}

fn size(rest: &mut &[u8]) -> Result<u64, &'static str> {
    let (mut value, mut shift) = (0u64, 0u32);
    loop {
        let next = byte(rest)?;
        let part = u64::from(next & 0x7f);
        if shift > 63 || part << shift >> shift != part {
            return Err("a delta has a size of more than 64 bits");
        }
        value |= part << shift;
        shift += 7;
        if next & 0x80 == 0 {
            return Ok(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_inserts() {
        // Sizes 10 and 8; copy 4 from 2; insert "abcd".
        let delta = [10, 8, 0x91, 2, 4, 4, b'a', b'b', b'c', b'd'];
        assert_eq!(apply(b"0123456789", &delta).unwrap(), b"2345abcd");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let base = b"0123456789";
        for delta in [
            &[][..],
            &[10],
            &[9, 1, 1, b'x'],
            &[10, 1, 0],
            &[10, 2, 1, b'x'],
            &[10, 1, 2, b'x', b'y'],
            &[10, 4, 0x91, 8, 4],
            &[10, 4, 0x91, 8],
            &[10, 3, 3, b'x'],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            // 2^40 bytes from one insert.
            &[10, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 1, b'x'],
            // 2^31 bytes, of which there is one.
            &[10, 0x80, 0x80, 0x80, 0x80, 0x08, 1, b'x'],
        ] {
            assert!(apply(base, delta).is_err(), "{delta:?}");
        }
        let empty: [u8; 0] = [];
        assert_eq!(apply(base, &[10, 0]).unwrap(), empty);
    }
}
