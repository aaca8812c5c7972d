//! What comes from outside: banned crates, licences, and C compilers.
//!
//! `deny.toml` says the same to cargo-deny, which also knows advisories but takes minutes to build; these rules need
//! nothing installed. A test keeps the two lists alike.

use super::{
    Finding,
    metadata::{Follow, Metadata},
};

/// Crates that would bring in what rgit is there to do without.
const BANNED: &[&str] = &["libgit2-sys", "git2", "curl", "curl-sys", "openssl-sys", "native-tls"];

/// Licences that need nothing of us but their text.
const LICENCES: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
];
/// Others, each for one crate.
const LICENCES_OF: &[(&str, &str)] = &[("uluru", "MPL-2.0")];

/// The one place dependencies come from.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates that compile C or C++, or are made of it.
const COMPILERS: &[&str] = &[
    "cc",
    "cmake",
    "bindgen",
    "ring",
    "aws-lc-sys",
    "libz-sys",
    "zstd-sys",
    "openssl-sys",
];

/// Banned crates that any of ours reaches, its build scripts included.
pub(super) fn bans(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata.members() {
        for (name, way) in metadata.reachable(package, Follow::NormalAndBuild) {
            if BANNED.contains(&name) {
                findings.push(Finding::new(
                    &package.name,
                    format!("reaches {name} ({way})"),
                    "pure Rust only: switch the feature off that brings it in, or use another crate",
                ));
            }
        }
    }
    findings
}

/// Licences that are not on the list, and crates from elsewhere.
pub(super) fn licences(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata.packages() {
        let place = format!("{} {}", package.name, package.version);
        if package.source.as_deref().is_some_and(|source| source != CRATES_IO) {
            let source = package.source.clone().unwrap_or_default();
            findings.push(Finding::new(
                &place,
                format!("comes from {source}"),
                "only crates.io and this workspace",
            ));
        }
        let allowed = |licence: &str| LICENCES.contains(&licence) || LICENCES_OF.contains(&(&*package.name, licence));
        match package.license.as_deref() {
            Some(expression) if satisfied(expression, &allowed) => {}
            Some(expression) => findings.push(Finding::new(
                place,
                format!("has the licence {expression}"),
                "use another crate, or add the licence here and in deny.toml with a reason",
            )),
            None => findings.push(Finding::new(
                place,
                "names no licence",
                "use another crate; or read its licence file and add an exception here and in deny.toml",
            )),
        }
    }
    findings
}

/// Crates in a list of names that call for a C compiler.
pub(super) fn c_compilers(names: &[String]) -> Vec<Finding> {
    names
        .iter()
        .filter(|name| COMPILERS.contains(&&***name))
        .map(|name| {
            Finding::new(
                "rgit-cli --no-default-features --features graviola",
                format!("takes in {name}"),
                format!("see `cargo tree --package rgit-cli --no-default-features --features graviola --edges normal,build --invert {name}`"),
            )
        })
        .collect()
}

/// Whether an SPDX expression can be met with allowed licences. `/` is the old way to write OR. What can't be read is not
/// satisfied.
fn satisfied(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest, allowed) == Some(true) && rest.is_empty()
}

/// `all (OR all)*`: AND binds closer (SPDX 2.3, annex D.4).
fn any(words: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut met = all(words, allowed)?;
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        met |= all(words, allowed)?;
    }
    Some(met)
}

fn all(words: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut met = one(words, allowed)?;
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        met &= one(words, allowed)?;
    }
    Some(met)
}

fn one(words: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let met = any(words, allowed)?;
            let [")", rest @ ..] = *words else { return None };
            *words = rest;
            Some(met)
        }
        [licence, "WITH", exception, rest @ ..] => {
            *words = rest;
            Some(allowed(licence) || allowed(&format!("{licence} WITH {exception}")))
        }
        [licence, rest @ ..] if !["OR", "AND", "WITH", ")"].contains(licence) => {
            *words = rest;
            Some(allowed(licence))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::metadata::made_up::graph, *};

    #[test]
    fn bans_reach_through_others_and_build_scripts_but_not_tests() {
        let metadata = graph(&[
            ("rgit-dial", &["pretty-tls", "dev:curl"]),
            ("pretty-tls", &["build:openssl-sys"]),
            ("openssl-sys", &[]),
            ("curl", &[]),
        ]);
        let findings = bans(&metadata);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(
            findings[0].what,
            "reaches openssl-sys (rgit-dial -> pretty-tls -> openssl-sys)"
        );
    }

    #[test]
    fn expressions() {
        let met = |expression: &str| satisfied(expression, &|licence| LICENCES.contains(&licence));
        for fine in [
            "MIT",
            "GPL-3.0 OR MIT",
            "Unlicense/MIT",
            "Apache-2.0 / MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
            "MIT OR GPL-2.0 AND GPL-3.0",
        ] {
            assert!(met(fine), "{fine}");
        }
        for not in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND GPL-3.0",
            "",
            "OR MIT",
            "(MIT",
            "MIT)",
            "MIT Apache-2.0",
            "LGPL-2.1 WITH GCC-exception-3.1",
        ] {
            assert!(!met(not), "{not}");
        }
    }

    #[test]
    fn a_licence_granted_to_one_crate_is_not_granted_to_another() {
        let text = r#"{ "packages": [
            { "id": "1", "name": "uluru", "version": "1", "license": "MPL-2.0", "source": "registry+https://github.com/rust-lang/crates.io-index" },
            { "id": "2", "name": "other", "version": "1", "license": "MPL-2.0", "source": "registry+https://github.com/rust-lang/crates.io-index" },
            { "id": "3", "name": "secret", "version": "1", "license": null, "source": null },
            { "id": "4", "name": "forked", "version": "1", "license": "MIT", "source": "git+https://example.com/forked" }
        ], "workspace_members": [], "resolve": { "nodes": [] } }"#;
        let findings = licences(&serde_json::from_str(text).expect("metadata"));
        let places: Vec<&str> = findings.iter().map(|finding| &*finding.place).collect();
        assert_eq!(places, ["other 1", "secret 1", "forked 1"]);
    }

    #[test]
    fn a_c_compiler_in_the_graviola_build_is_found() {
        let names = ["rustls", "rustls-graviola", "ring"].map(str::to_owned);
        let findings = c_compilers(&names);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].what, "takes in ring");
        assert_eq!(c_compilers(&names[..2]), []);
    }

    #[test]
    fn deny_toml_says_the_same() {
        let text = std::fs::read_to_string(crate::cargo::workspace().join("deny.toml")).expect("deny.toml");
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for name in BANNED {
            let entry = format!("{{ crate = \"{name}\",");
            assert!(
                lines.iter().any(|line| line.starts_with(&entry)),
                "deny.toml does not ban {name}"
            );
        }
        for licence in LICENCES.iter().chain(LICENCES_OF.iter().map(|(_, licence)| licence)) {
            assert!(
                text.contains(&format!("\"{licence}\"")),
                "deny.toml does not allow {licence}"
            );
        }
    }
}
