//! A plain reading of gitformat-pack(5), to test the encoder against. Refuses what is out of bounds.

pub(super) fn apply(base: &[u8], mut delta: &[u8]) -> Option<Vec<u8>> {
    let (base_size, target_size) = (size(&mut delta)?, size(&mut delta)?);
    if base_size != base.len() {
        return None;
    }
    let mut target = Vec::new();
    while let Some(command) = byte(&mut delta) {
        if command & 0x80 != 0 {
            let (mut offset, mut length) = (0usize, 0usize);
            for bit in 0..4 {
                if command & (1 << bit) != 0 {
                    offset |= usize::from(byte(&mut delta)?) << (8 * bit);
                }
            }
            for bit in 0..3 {
                if command & (0x10 << bit) != 0 {
                    length |= usize::from(byte(&mut delta)?) << (8 * bit);
                }
            }
            if length == 0 {
                length = 0x1_0000;
            }
            target.extend_from_slice(base.get(offset..offset.checked_add(length)?)?);
        } else if command == 0 {
            return None;
        } else {
            let (fresh, rest) = delta.split_at_checked(usize::from(command))?;
            target.extend_from_slice(fresh);
            delta = rest;
        }
    }
    (target.len() == target_size).then_some(target)
}

fn byte(delta: &mut &[u8]) -> Option<u8> {
    let (first, rest) = delta.split_first()?;
    *delta = rest;
    Some(*first)
}

fn size(delta: &mut &[u8]) -> Option<usize> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let next = byte(delta)?;
        value |= usize::from(next & 0x7f) << shift;
        shift += 7;
        if next & 0x80 == 0 {
            return Some(value);
        }
    }
}
