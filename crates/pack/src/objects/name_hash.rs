//! Git's `pack_name_hash`: a number that sorts paths with the same ending next to each other, which is where delta
//! candidates are found. It folds one byte at a time, so a directory's state can be carried on to its entries.

/// The hash after `bytes` were appended to a path whose hash is `state`; 0 is the state of the empty path.
pub(crate) fn extend(state: u32, bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .filter(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
        .fold(state, |hash, &byte| (hash >> 2).wrapping_add(u32::from(byte) << 24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_sixteen_bytes_count_and_the_last_counts_most() {
        assert_eq!(extend(0, b"a"), 0x6100_0000);
        assert_eq!(extend(0, b"ab"), (0x6100_0000 >> 2) + 0x6200_0000);
        assert_eq!(extend(extend(0, b"src/"), b"lib.rs"), extend(0, b"src/lib.rs"));
        assert_eq!(extend(0, b"a b"), extend(0, b"ab"), "white space is skipped");
        assert_eq!(extend(0, b"x/0123456789abcdef"), extend(0, b"yy/0123456789abcdef"));
    }
}
