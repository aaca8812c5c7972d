//! What must be on the disk before refs lead to it: `core.fsync`, `core.fsyncObjectFiles` (git-config(1)).

use gix::config::section::is_trusted;

/// The components that fetch and clone write.
///
/// `core.fsyncMethod` doesn't tell them apart: `batch` is for loose objects in numbers, and for `writeout-only` there is no call in
/// safe Rust; a flush to the disk is more than it asks for, and what git does where the system has no such call either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fsync {
    /// Objects in files of their own.
    pub loose_object: bool,
    /// Packs.
    pub pack: bool,
    /// Indices of packs.
    pub pack_metadata: bool,
}

/// Without configuration: `committed,-loose-object` and what is derived from it.
const DEFAULT: Fsync = Fsync {
    loose_object: false,
    pack: true,
    pack_metadata: true,
};

impl Fsync {
    /// Read what `config` says. A component that isn't known is passed over, as git does with a warning.
    ///
    /// Sections from files of other owners don't count.
    pub fn read(config: &gix::config::File) -> Fsync {
        let mut fsync = match config.string_filter("core.fsync", is_trusted) {
            Some(value) => parse(&value.to_string()),
            None => DEFAULT,
        };
        // Deprecated, and git heeds it still.
        if let Ok(Some(true)) = config.boolean_filter("core.fsyncObjectFiles", is_trusted) {
            fsync.loose_object = true;
        }
        fsync
    }
}

/// As the manual has it: the default, without what is disabled, with what is added; `none` empties the default.
///
/// git 2.47 departs from its manual: it knows `none` only as the last word, and takes `-pack` for `-pack-metadata` too.
fn parse(value: &str) -> Fsync {
    let (mut start, mut added, mut disabled) = (components("default"), 0, 0);
    for word in value
        .split([',', ' ', '\t', '\n', '\r'])
        .filter(|word| !word.is_empty())
    {
        match word.strip_prefix('-') {
            Some(word) => disabled |= components(word),
            None if word.eq_ignore_ascii_case("none") => start = 0,
            None => added |= components(word),
        }
    }
    let set = start & !disabled | added;
    Fsync {
        loose_object: set & LOOSE != 0,
        pack: set & PACK != 0,
        pack_metadata: set & METADATA != 0,
    }
}

const LOOSE: u8 = 1;
const PACK: u8 = 2;
const METADATA: u8 = 4;

fn components(word: &str) -> u8 {
    match word.to_ascii_lowercase().as_str() {
        "loose-object" => LOOSE,
        "pack" => PACK,
        "pack-metadata" | "derived-metadata" => METADATA,
        "objects" | "committed" | "added" => LOOSE | PACK,
        "all" => LOOSE | PACK | METADATA,
        "default" => PACK | METADATA,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_less_what_is_disabled_and_what_is_added() {
        let read = |config: &str| {
            let fsync = Fsync::read(&gix::config::File::try_from(format!("[core]\n{config}").as_str()).unwrap());
            (fsync.loose_object, fsync.pack, fsync.pack_metadata)
        };
        assert_eq!(read(""), (false, true, true));
        assert_eq!(read(" fsync =\n"), (false, true, true));
        assert_eq!(read(" fsync = none\n"), (false, false, false));
        assert_eq!(read(" fsync = none,Pack\n"), (false, true, false));
        assert_eq!(read(" fsync = -pack , unheard-of\n"), (false, false, true));
        assert_eq!(read(" fsync = -committed,loose-object\n"), (true, false, true));
        assert_eq!(read(" fsync = all\n fsync = none\n"), (false, false, false));
        assert_eq!(read(" fsync = none\n fsyncObjectFiles\n"), (true, false, false));
    }
}
