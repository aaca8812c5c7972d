//! `FETCH_HEAD`: what the last fetch brought, for `git merge FETCH_HEAD` and `git pull`.

use std::io::Write;

use bstr::{BString, ByteSlice};
use gix::remote::fetch::{RefMap, Tags};

use super::outcome::{FetchOutcome, Flag};
use crate::Error;

/// One line a fetched ref: `<id> TAB [not-for-merge] TAB <description> LF`, those for merge first, as git writes it.
pub(super) fn write(
    repo: &gix::Repository,
    configured_remote: bool,
    given: bool,
    tags: Tags,
    map: &RefMap,
    outcome: &FetchOutcome,
) -> Result<(), Error> {
    let upstream = upstream_of_head(repo).filter(|_| configured_remote && !given);
    let mut for_merge = Vec::new();
    let mut rest = Vec::new();
    let mut explicit_seen = false;
    for mapping in &map.mappings {
        let Some(id) = mapping.remote.as_id() else { continue };
        let implicit = mapping.spec_index.implicit_index().is_some();
        // Followed tags stand in the file only when they were taken.
        let taken = outcome.refs.iter().any(|entry| {
            entry.local == mapping.local
                && entry.remote.as_ref().map(|n| n.as_bstr()) == mapping.remote.as_name()
                && !(implicit && entry.flag == Flag::UpToDate)
        });
        if implicit && tags != Tags::All && !taken {
            continue;
        }
        let merge = !implicit
            && match (&upstream, given) {
                (_, true) => true,
                (Some(upstream), false) => mapping.remote.as_name() == Some(upstream.as_bstr()),
                (None, false) => !explicit_seen && !configured_remote,
            };
        explicit_seen = true;
        let what = match mapping.remote.as_name() {
            Some(name) => description(name.as_bytes()),
            None => Some(format!("'{id}'")),
        };
        let mut line = format!("{id}\t{}\t", if merge { "" } else { "not-for-merge" }).into_bytes();
        if let Some(what) = what {
            line.extend_from_slice(what.as_bytes());
            line.extend_from_slice(b" of ");
        }
        line.extend_from_slice(outcome.shown_url());
        line.push(b'\n');
        if merge { for_merge.push(line) } else { rest.push(line) }
    }
    let path = repo.git_dir().join("FETCH_HEAD");
    let written = std::fs::File::create(&path).and_then(|mut file| {
        for line in for_merge.iter().chain(&rest) {
            file.write_all(line)?;
        }
        file.flush()
    });
    written.map_err(|source| Error::Write { path, source })
}

fn description(name: &[u8]) -> Option<String> {
    let lossy = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    if name == b"HEAD" {
        return None;
    }
    Some(if let Some(short) = name.strip_prefix(b"refs/heads/") {
        format!("branch '{}'", lossy(short))
    } else if let Some(short) = name.strip_prefix(b"refs/tags/") {
        format!("tag '{}'", lossy(short))
    } else if let Some(short) = name.strip_prefix(b"refs/remotes/") {
        format!("remote-tracking branch '{}'", lossy(short))
    } else {
        format!("'{}'", lossy(name))
    })
}

fn upstream_of_head(repo: &gix::Repository) -> Option<BString> {
    let head = repo.head_name().ok().flatten()?;
    let name = repo
        .branch_remote_ref_name(head.as_ref(), gix::remote::Direction::Fetch)?
        .ok()?;
    Some(name.as_bstr().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_prefix() {
        assert_eq!(description(b"refs/heads/a/b").as_deref(), Some("branch 'a/b'"));
        assert_eq!(description(b"refs/tags/v1").as_deref(), Some("tag 'v1'"));
        assert_eq!(description(b"refs/notes/x").as_deref(), Some("'refs/notes/x'"));
        assert_eq!(description(b"HEAD"), None);
    }
}
