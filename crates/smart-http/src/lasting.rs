//! Which answers stay true for a while: for whoever remembers some ([`Rememberable`](rgit_transport::Rememberable)).
//!
//! Only one kind does: what upload-pack says it can do in version 2 (gitprotocol-v2(5), "Capability Advertisement"). It names no ref and no
//! object. In every other version the same question is answered with refs.

use http::{HeaderMap, Uri};

use crate::{Service, session::is_coded, text::MediaType};

/// The URL of the repository that a request of a session belongs to.
pub fn repository_of(uri: &Uri) -> Option<String> {
    let path = uri.path();
    let tails = ["/info/refs", "/git-upload-pack", "/git-receive-pack"];
    let repository = tails.iter().find_map(|tail| path.strip_suffix(tail))?;
    Some(format!("{}://{}{repository}", uri.scheme_str()?, uri.authority()?))
}

/// Whether an answer is what upload-pack can do, and nothing else.
pub fn is_capability_advertisement(headers: &HeaderMap, body: &[u8]) -> bool {
    if essence(headers).as_deref() != Some("application/x-git-upload-pack-advertisement") || is_coded(headers).is_some()
    {
        return false;
    }
    let Some(mut lines) = lines(body) else { return false };
    // Some servers put the banner of older versions before it.
    if lines
        .first()
        .is_some_and(|line| line.is_some_and(|line| line.trim_ascii_end() == b"# service=git-upload-pack"))
    {
        lines.drain(..2.min(lines.len()));
    }
    let Some((Some(first), rest)) = lines.split_first() else {
        return false;
    };
    let is_capability = |line: &Option<&[u8]>| line.is_some_and(|line| !line.contains(&b' ') || line.contains(&b'='));
    first.trim_ascii_end() == b"version 2"
        && matches!(rest.split_last(), Some((None, capabilities)) if capabilities.iter().all(is_capability))
}

/// Whether an answer is one that a smart Git server gives.
pub fn is_git_answer(headers: &HeaderMap) -> bool {
    let essence = essence(headers);
    [Service::UploadPack, Service::ReceivePack].iter().any(|service| {
        let kinds = ["advertisement", "result"].map(|kind| format!("application/x-{service}-{kind}"));
        essence.as_ref().is_some_and(|essence| kinds.contains(essence))
    })
}

fn essence(headers: &HeaderMap) -> Option<String> {
    MediaType::of(headers).map(|media| media.essence)
}

/// Packet lines to the last byte (gitprotocol-common(5)); `None` for a flush. Nothing where they are none.
fn lines(mut body: &[u8]) -> Option<Vec<Option<&[u8]>>> {
    let mut lines = Vec::new();
    while !body.is_empty() {
        let (digits, rest) = body.split_at_checked(4)?;
        let digits = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        match usize::from_str_radix(digits, 16).ok()? {
            0 => (lines.push(None), body = rest).1,
            length => {
                let (line, rest) = rest.split_at_checked(length.checked_sub(4)?)?;
                lines.push(Some(line));
                body = rest;
            }
        }
    }
    Some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(essence: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(http::header::CONTENT_TYPE, essence.parse().unwrap())])
    }

    fn packets(lines: &[&str]) -> String {
        let packet = |line: &&str| match line.is_empty() {
            true => "0000".to_owned(),
            false => format!("{:04x}{line}\n", line.len() + 5),
        };
        lines.iter().map(packet).collect()
    }

    #[test]
    fn only_capabilities_of_version_2_last() {
        let essence = "application/x-git-upload-pack-advertisement";
        let refs = "1111111111111111111111111111111111111111 refs/heads/main";
        for (lines, expected) in [
            (&["version 2", "agent=git/2 x", "ls-refs=unborn", "fetch", ""][..], true),
            (&["# service=git-upload-pack", "", "version 2", "ls-refs", ""], true),
            (&["version 2", "ls-refs"], false),
            (&["version 2", refs, ""], false),
            (&["version 2", "ls-refs", "", "more", ""], false),
            (&["version 1", refs, ""], false),
            (&["# service=git-upload-pack", "", refs, ""], false),
            (&["# service=git-upload-pack"], false),
            (&[""], false),
            (&[], false),
        ] {
            let body = packets(lines);
            assert_eq!(
                is_capability_advertisement(&headers(essence), body.as_bytes()),
                expected,
                "{body}"
            );
            assert!(!is_capability_advertisement(&headers("text/html"), body.as_bytes()));
        }
        for body in ["0003", "zzzz", "00", "+00f", "ffffversion 2"] {
            assert!(
                !is_capability_advertisement(&headers(essence), body.as_bytes()),
                "{body}"
            );
        }
        let mut coded = headers(essence);
        coded.insert("content-encoding", "gzip".parse().unwrap());
        assert!(!is_capability_advertisement(
            &coded,
            packets(&["version 2", ""]).as_bytes()
        ));
    }

    #[test]
    fn a_repository_is_what_its_requests_have_in_common() {
        let expected = Some("https://h:1/a/b.git".to_owned());
        for url in [
            "https://h:1/a/b.git/info/refs?service=git-upload-pack",
            "https://h:1/a/b.git/git-upload-pack",
            "https://h:1/a/b.git/git-receive-pack",
        ] {
            assert_eq!(repository_of(&Uri::from_static(url)), expected);
        }
        assert_eq!(repository_of(&Uri::from_static("https://h/a")), None);
    }

    #[test]
    fn git_answers_are_told_from_pages() {
        assert!(is_git_answer(&headers("application/x-git-receive-pack-result")));
        assert!(!is_git_answer(&headers("text/html; charset=utf-8")));
        assert!(!is_git_answer(&HeaderMap::new()));
    }
}
