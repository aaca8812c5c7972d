//! `FETCH_HEAD`: what the last fetch brought, for `git merge FETCH_HEAD` and `git pull`.

use std::{fs::OpenOptions, io::Write};

use super::{
    update::{in_order, peeled_commit},
    wanted::{ForMerge, Wanted},
};
use crate::Error;

/// One line a fetched ref: `<id> TAB [not-for-merge] TAB <description> LF`, those for merge first, as git writes it. With `append`
/// the lines of other remotes stay.
pub(super) fn write(repo: &gix::Repository, append: bool, wanted: &[Wanted], url: &[u8]) -> Result<(), Error> {
    let mut lines = Vec::new();
    let mut rest = Vec::new();
    for entry in in_order(wanted).filter(|entry| entry.for_merge != ForMerge::Absent) {
        // Nothing but a commit can be merged.
        let merge = entry.for_merge == ForMerge::Yes && peeled_commit(repo, entry.id).is_some();
        let lines = if merge { &mut lines } else { &mut rest };
        let mark = if merge { "" } else { "not-for-merge" };
        lines.extend_from_slice(format!("{}\t{mark}\t", entry.id).as_bytes());
        let what = match &entry.remote {
            Some(name) => description(name),
            None => Some(format!("'{}'", entry.id).into_bytes()),
        };
        if let Some(what) = what {
            lines.extend_from_slice(&what);
            lines.extend_from_slice(b" of ");
        }
        lines.extend_from_slice(url);
        lines.push(b'\n');
    }
    lines.append(&mut rest);
    let path = repo.git_dir().join("FETCH_HEAD");
    let mut options = OpenOptions::new();
    options.create(true).append(append).write(true).truncate(!append);
    options
        .open(&path)
        .and_then(|mut file| file.write_all(&lines))
        .map_err(|source| Error::Write { path, source })
}

fn description(name: &[u8]) -> Option<Vec<u8>> {
    if name == b"HEAD" {
        return None;
    }
    let (kind, short) = [
        (b"refs/heads/".as_slice(), "branch "),
        (b"refs/tags/", "tag "),
        (b"refs/remotes/", "remote-tracking branch "),
    ]
    .iter()
    .find_map(|(prefix, kind)| Some((*kind, name.strip_prefix(*prefix)?)))
    .unwrap_or(("", name));
    Some([kind.as_bytes(), b"'", short, b"'"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_prefix() {
        let of = |name: &str| description(name.as_bytes()).map(|text| String::from_utf8(text).unwrap());
        assert_eq!(of("refs/heads/a/b").as_deref(), Some("branch 'a/b'"));
        assert_eq!(of("refs/tags/v1").as_deref(), Some("tag 'v1'"));
        assert_eq!(of("refs/notes/x").as_deref(), Some("'refs/notes/x'"));
        assert_eq!(of("HEAD"), None);
    }
}
