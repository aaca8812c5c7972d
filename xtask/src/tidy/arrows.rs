//! Who may depend on whom.
//!
//! Two tables: [`ROOMS`] draws the arrows between our own crates, and [`NEVER`] names what a room must not reach even
//! through others. Only what is linked counts; a test may use anything.

use super::{
    Finding,
    metadata::{Follow, Metadata, fits},
};

/// A room, and our own crates that it may use.
const ROOMS: &[(&str, &[&str])] = &[
    ("rgit-transport", &[]),
    ("rgit-dial", &[]),
    ("rgit-transport-h1", &["rgit-transport", "rgit-dial"]),
    ("rgit-transport-h2", &["rgit-transport", "rgit-dial"]),
    // Its own hop is HTTP/1.1 over a Unix socket; its upstream is handed in. Of `dial` it knows what a connection is.
    (
        "rgit-transport-persistent",
        &["rgit-transport", "rgit-dial", "rgit-transport-h1"],
    ),
    (
        "rgit-transport-auto",
        &[
            "rgit-transport",
            "rgit-dial",
            "rgit-transport-h1",
            "rgit-transport-h2",
            "rgit-transport-persistent",
        ],
    ),
    ("rgit-smart-http", &["rgit-transport"]),
    ("rgit-proto", &[]),
    ("rgit-pack", &[]),
    (
        "rgit-porcelain",
        &["rgit-transport", "rgit-smart-http", "rgit-proto", "rgit-pack"],
    ),
    (
        "rgit-cli",
        &[
            "rgit-transport",
            "rgit-transport-auto",
            "rgit-smart-http",
            "rgit-porcelain",
        ],
    ),
    ("rgit-testkit", &[]),
    ("xtask", &["rgit-testkit"]),
];

/// Crates of `proto`: grammar needs no more than ids, packet lines and byte strings.
const PROTO: &[&str] = &[
    "bstr",
    "gix-hash",
    "gix-packetline",
    "thiserror",
    "memchr",
    "winnow",
    "smallvec",
    "bitflags",
];

/// Clients and servers of HTTP, and the sockets and TLS below them.
const HTTP: &[&str] = &[
    "http",
    "http-body*",
    "httparse",
    "hyper*",
    "h2",
    "ureq*",
    "reqwest",
    "rustls*",
    "tokio*",
];

/// Rooms, what they must not reach, and why.
const NEVER: &[(&[&str], &[&str], &str)] = &[
    (
        &["rgit-transport"],
        &["ureq*", "h2", "hyper*", "tokio*", "rustls*", "gix*", "rgit-proto"],
        "the trait knows HTTP messages and nothing of how they travel or what they carry; move the code to the room that does",
    ),
    (
        &[
            "rgit-dial",
            "rgit-transport-h1",
            "rgit-transport-h2",
            "rgit-transport-persistent",
        ],
        &["gix*", "rgit-proto", "rgit-smart-http", "rgit-pack", "rgit-porcelain"],
        "a transport carries HTTP and cannot spell \"ref\"; move what knows Git to smart-http, proto or porcelain",
    ),
    (
        &["rgit-transport-h1"],
        &["rgit-transport-h2", "rgit-transport-persistent", "h2"],
        "transports are siblings; only transport-auto names several",
    ),
    (
        &["rgit-transport-h2"],
        &["rgit-transport-h1", "rgit-transport-persistent", "ureq*"],
        "transports are siblings; only transport-auto names several",
    ),
    (
        &["rgit-transport-persistent"],
        &["rgit-transport-h2", "h2"],
        "the daemon's upstream is handed in as a `dyn Transport`; it chooses none itself",
    ),
    (&["rgit-proto"], HTTP, "proto is grammar without I/O"),
    (
        &["rgit-proto"],
        &[
            "gix",
            "gix-odb",
            "gix-pack",
            "gix-transport",
            "gix-protocol",
            "gix-fs",
            "gix-tempfile",
            "socket2",
            "rustix",
            "tempfile",
        ],
        "proto is grammar without I/O: no object database, no files, no sockets",
    ),
    (
        &["rgit-pack"],
        HTTP,
        "pack needs an object database and produces bytes; sending them is porcelain's and smart-http's work",
    ),
    (
        &["rgit-pack"],
        &[
            "rgit-proto",
            "rgit-transport*",
            "rgit-smart-http",
            "rgit-dial",
            "gix-transport",
            "gix-protocol",
        ],
        "pack needs an object database and produces bytes; it knows no protocol",
    ),
    (
        &["rgit-smart-http"],
        &[
            "rgit-dial",
            "rgit-transport-*",
            "rgit-proto",
            "ureq*",
            "h2",
            "hyper*",
            "rustls*",
            "gix-transport",
        ],
        "a session speaks through `dyn Transport`; take one as an argument",
    ),
    (
        &["rgit-porcelain"],
        &[
            "rgit-dial",
            "rgit-transport-*",
            "ureq*",
            "h2",
            "hyper*",
            "rustls*",
            "reqwest",
            "clap*",
        ],
        "porcelain takes a `dyn Transport` and plain option structs; choosing and parsing arguments belong to the binaries",
    ),
];

/// Our crates that are no libraries for others.
const NO_LIBRARIES: &[&str] = &["rgit-cli", "rgit-testkit", "xtask"];

/// The arrows between our own crates, `proto`'s short list, and what no library has.
pub(super) fn between_rooms(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata.members() {
        let direct = metadata.direct(package, Follow::Normal);
        let Some((_, allowed)) = ROOMS.iter().find(|(room, _)| *room == package.name) else {
            findings.push(Finding::new(
                &package.name,
                "is in no table of arrows",
                "add it to ROOMS in xtask/src/tidy/arrows.rs with the rooms it may use, and to ARCHITECTURE.md",
            ));
            continue;
        };
        for dependency in direct
            .iter()
            .filter(|name| name.starts_with("rgit-") && !allowed.contains(name))
        {
            let remedy = if *dependency == "rgit-testkit" {
                "move it to [dev-dependencies]: the test kit is never shipped".to_owned()
            } else if allowed.is_empty() {
                "this room uses none of ours; hand in what it needs, or move the code up".to_owned()
            } else {
                format!(
                    "it may use {}; hand in what it needs, or move the code up",
                    allowed.join(", ")
                )
            };
            findings.push(Finding::new(&package.name, format!("depends on {dependency}"), remedy));
        }
        if package.name == "rgit-proto" {
            for dependency in direct
                .iter()
                .filter(|name| !PROTO.contains(name) && !name.starts_with("rgit-"))
            {
                findings.push(Finding::new(
                    &package.name,
                    format!("depends on {dependency}"),
                    format!("grammar gets along with {}", PROTO.join(", ")),
                ));
            }
        }
        if !NO_LIBRARIES.contains(&&*package.name) && direct.contains(&"anyhow") {
            findings.push(Finding::new(
                &package.name,
                "depends on anyhow",
                "a library has one typed error enum; anyhow is for binaries and tests",
            ));
        }
    }
    findings
}

/// What rooms reach that they must not know.
pub(super) fn never(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata.members() {
        let rules: Vec<_> = NEVER
            .iter()
            .filter(|(rooms, ..)| rooms.contains(&&*package.name))
            .collect();
        if rules.is_empty() {
            continue;
        }
        for (name, way) in metadata.reachable(package, Follow::Normal) {
            for (_, forbidden, remedy) in &rules {
                if forbidden.iter().any(|pattern| fits(name, pattern)) {
                    findings.push(Finding::new(&package.name, format!("reaches {name} ({way})"), *remedy));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{super::metadata::made_up::graph, *};

    fn places(findings: &[Finding]) -> Vec<(&str, &str)> {
        findings
            .iter()
            .map(|finding| (&*finding.place, &*finding.what))
            .collect()
    }

    #[test]
    fn a_house_in_order_has_no_findings() {
        let metadata = graph(&[
            ("rgit-transport", &["http"]),
            ("rgit-dial", &["rustls", "dev:rgit-testkit"]),
            (
                "rgit-transport-h1",
                &["rgit-transport", "rgit-dial", "ureq-proto", "dev:rgit-testkit"],
            ),
            ("rgit-proto", &["gix-hash", "bstr"]),
            ("rgit-pack", &["gix-odb"]),
            ("rgit-smart-http", &["rgit-transport", "gix-url"]),
            (
                "rgit-porcelain",
                &[
                    "rgit-transport",
                    "rgit-smart-http",
                    "rgit-proto",
                    "rgit-pack",
                    "dev:rgit-transport-h1",
                ],
            ),
            ("rgit-testkit", &["hyper"]),
            ("xtask", &["rgit-testkit", "anyhow", "clap"]),
            ("http", &[]),
            ("rustls", &[]),
            ("ureq-proto", &["http"]),
            ("gix-hash", &[]),
            ("gix-odb", &[]),
            ("gix-url", &[]),
            ("bstr", &[]),
            ("hyper", &["tokio"]),
            ("tokio", &[]),
            ("anyhow", &[]),
            ("clap", &[]),
        ]);
        assert_eq!(between_rooms(&metadata), []);
        assert_eq!(never(&metadata), []);
    }

    #[test]
    fn arrows_against_the_plan_are_found() {
        let metadata = graph(&[
            ("rgit-transport-h1", &["rgit-transport-h2", "rgit-testkit"]),
            ("rgit-transport-h2", &[]),
            ("rgit-testkit", &[]),
            ("rgit-proto", &["gix-odb", "bstr"]),
            ("rgit-pack", &["anyhow"]),
            ("rgit-attic", &[]),
            ("gix-odb", &[]),
            ("bstr", &[]),
            ("anyhow", &[]),
        ]);
        assert_eq!(
            places(&between_rooms(&metadata)),
            [
                ("rgit-transport-h1", "depends on rgit-testkit"),
                ("rgit-transport-h1", "depends on rgit-transport-h2"),
                ("rgit-proto", "depends on gix-odb"),
                ("rgit-pack", "depends on anyhow"),
                ("rgit-attic", "is in no table of arrows"),
            ]
        );
    }

    #[test]
    fn what_must_never_be_known_is_found_through_others() {
        let metadata = graph(&[
            ("rgit-transport", &["innocent"]),
            ("innocent", &["tokio-util"]),
            ("tokio-util", &[]),
            ("rgit-pack", &["gix-odb"]),
            ("gix-odb", &["http"]),
            ("http", &[]),
            ("rgit-porcelain", &["clap_complete"]),
            ("clap_complete", &[]),
        ]);
        assert_eq!(
            places(&never(&metadata)),
            [
                (
                    "rgit-transport",
                    "reaches tokio-util (rgit-transport -> innocent -> tokio-util)"
                ),
                ("rgit-pack", "reaches http (rgit-pack -> gix-odb -> http)"),
                (
                    "rgit-porcelain",
                    "reaches clap_complete (rgit-porcelain -> clap_complete)"
                ),
            ]
        );
    }
}
