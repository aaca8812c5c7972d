//! Rules over the sources: what rooms must not name, what must not be left, how long a file may be.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

use super::{
    Finding,
    metadata::Metadata,
    text::{code, lines_of, lines_with, std_modules, tests, without},
};

/// Past this a file is told: look for a second noun.
const LONG: usize = 500;
/// Past this it is a violation.
const TOO_LONG: usize = 600;

/// Modules of `std` that are I/O, or change from run to run.
const NOT_SANS_IO: &[&str] = &["net", "fs", "env", "thread", "time", "process", "os"];
/// The same under names of their own, however they came into scope.
const CLOCKS_AND_SOCKETS: &[&str] = &["Instant", "SystemTime", "TcpStream", "UdpSocket"];

const PRINTING: &[&str] = &["println!", "eprintln!", "print!", "eprint!", "dbg!"];
const UNFINISHED: &[&str] = &["todo!", "unimplemented!"];

/// Crates of the concrete transports, as sources name them.
const CONCRETE: &[&str] = &["rgit_transport_h1", "rgit_transport_h2", "rgit_transport_persistent"];

/// One Rust file.
#[derive(Debug)]
struct Source {
    /// From the workspace's root, with `/`.
    path: String,
    text: String,
    /// Without comments and literals.
    code: String,
    /// That without tests.
    shipped: String,
    /// Lines of the file without its tests.
    lines: usize,
}

impl Source {
    fn new(path: &str, text: String) -> Self {
        let code = code(&text);
        let tests = tests(&code);
        let shipped = without(&code, &tests);
        let lines = text.lines().count() - lines_of(&code, &tests);
        Source {
            path: path.to_owned(),
            text,
            code,
            shipped,
            lines,
        }
    }

    /// Whether the whole file is a test: in a `tests` folder, or a `tests.rs` of its own.
    fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests") || self.path.ends_with("/tests.rs")
    }

    fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path)
    }
}

/// Every Rust file of the checkout, what cargo builds left out.
#[derive(Debug)]
pub(super) struct Sources {
    root: PathBuf,
    files: Vec<Source>,
}

impl Sources {
    /// Reads all files under the workspace's root.
    ///
    /// # Errors
    /// When a folder or file can't be read.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
            for entry in entries {
                let entry = entry.with_context(|| format!("read {}", folder.display()))?;
                let (kind, name) = (entry.file_type()?, entry.file_name());
                let name = name.to_string_lossy();
                let left_out = name.starts_with('.') || ["target", "corpus", "artifacts"].contains(&&*name);
                if kind.is_dir() && !left_out {
                    folders.push(entry.path());
                } else if kind.is_file() && name.ends_with(".rs") {
                    let path = entry.path();
                    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
                    files.push(Source::new(&relative(root, &path), text));
                }
            }
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Sources {
            root: root.to_owned(),
            files,
        })
    }

    /// How many files were read.
    pub(super) fn count(&self) -> usize {
        self.files.len()
    }

    fn under<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a Source> {
        self.files.iter().filter(move |source| source.path.starts_with(folder))
    }

    /// I/O that `proto` names.
    pub(super) fn sans_io(&self) -> Vec<Finding> {
        let remedy =
            "proto is grammar: take bytes, give bytes; what reads, waits or asks the system belongs to its callers";
        let mut findings = Vec::new();
        for source in self.under("crates/proto/src/").filter(|source| !source.is_test()) {
            for (line, module) in std_modules(&source.shipped) {
                if NOT_SANS_IO.contains(&&*module) {
                    findings.push(Finding::new(source.at(line), format!("names std::{module}"), remedy));
                }
            }
            for name in CLOCKS_AND_SOCKETS {
                for line in lines_with(&source.shipped, name) {
                    findings.push(Finding::new(source.at(line), format!("names {name}"), remedy));
                }
            }
        }
        findings
    }

    /// Libraries that print.
    pub(super) fn silence(&self) -> Vec<Finding> {
        let library = |source: &&Source| {
            let folder = source
                .path
                .strip_prefix("crates/")
                .and_then(|path| path.split_once('/'));
            folder.is_some_and(|(folder, path)| {
                path.starts_with("src/") && !["cli", "remote-helper", "testkit"].contains(&folder)
            }) && !source.is_test()
        };
        let remedy = "progress goes through prodash, diagnostics through tracing, results are returned; binaries print";
        let mut findings = Vec::new();
        for source in self.files.iter().filter(library) {
            for name in PRINTING {
                for line in lines_with(&source.shipped, name) {
                    findings.push(Finding::new(source.at(line), format!("calls {name}"), remedy));
                }
            }
        }
        findings
    }

    /// Concrete transports that the binaries' own sources name.
    pub(super) fn choice(&self, metadata: &Metadata) -> Vec<Finding> {
        let remedy = "ask rgit_transport_auto::choose for a transport by its name";
        let mut folders: Vec<String> = metadata
            .members()
            .filter(|package| package.name == "rgit-cli")
            .flat_map(|package| &package.targets)
            .filter(|target| target.kind.iter().any(|kind| kind == "bin" || kind == "lib"))
            .filter_map(|target| {
                target
                    .src_path
                    .parent()
                    .map(|folder| format!("{}/", relative(&self.root, folder)))
            })
            .collect();
        folders.sort_unstable();
        folders.dedup();
        let mut findings = Vec::new();
        for source in folders
            .iter()
            .flat_map(|folder| self.under(folder))
            .filter(|source| !source.is_test())
        {
            for name in CONCRETE {
                for line in lines_with(&source.shipped, name) {
                    findings.push(Finding::new(source.at(line), format!("names {name}"), remedy));
                }
            }
        }
        findings
    }

    /// Ignored tests and code left to do.
    pub(super) fn unfinished(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for source in &self.files {
            for name in UNFINISHED {
                for line in lines_with(&source.code, name) {
                    findings.push(Finding::new(
                        source.at(line),
                        format!("calls {name}"),
                        "finish it, or return an error",
                    ));
                }
            }
            for line in ignored(&source.code) {
                findings.push(Finding::new(
                    source.at(line),
                    "ignores a test",
                    "a test that does not run says nothing: mend it or delete it",
                ));
            }
        }
        findings
    }

    /// Files that have grown long.
    pub(super) fn size(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for source in self.files.iter().filter(|source| !source.is_test()) {
            let lines = source.lines;
            if lines > LONG {
                findings.push(Finding {
                    tolerated: lines <= TOO_LONG,
                    ..Finding::new(
                        &source.path,
                        format!("has {lines} lines without its tests"),
                        "look for a second noun in it, and give that a file",
                    )
                });
            }
        }
        findings
    }

    /// Crate roots without module documentation.
    pub(super) fn front_pages(&self, metadata: &Metadata) -> Vec<Finding> {
        let build_script = |kind: &String| kind == "custom-build";
        let mut findings = Vec::new();
        for target in metadata.members().flat_map(|package| &package.targets) {
            let path = relative(&self.root, &target.src_path);
            let Some(source) = self.files.iter().find(|source| source.path == path) else {
                continue;
            };
            if !source.text.trim_start().starts_with("//!") && !target.kind.iter().any(build_script) {
                findings.push(Finding::new(
                    path,
                    "has no module documentation",
                    "open it with what it owns and refuses: `//! ...`",
                ));
            }
        }
        findings
    }
}

/// Lines of `#[ignore]`, `#[ignore = "..."]` and `#[cfg_attr(..., ignore)]`.
fn ignored(code: &str) -> Vec<usize> {
    let attribute = |line: usize| {
        let text = code.lines().nth(line - 1).unwrap_or_default();
        text.contains("#[ignore") || text.contains("#[cfg_attr(")
    };
    lines_with(code, "ignore")
        .into_iter()
        .filter(|line| attribute(*line))
        .collect()
}

fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    path.components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        let files = files
            .iter()
            .map(|(path, text)| Source::new(path, (*text).to_owned()))
            .collect();
        Sources {
            root: PathBuf::from("/house"),
            files,
        }
    }

    fn places(findings: &[Finding]) -> Vec<(&str, &str)> {
        findings
            .iter()
            .map(|finding| (&*finding.place, &*finding.what))
            .collect()
    }

    fn metadata(targets: &str) -> Metadata {
        let text = format!(
            r#"{{ "packages": [{{ "id": "1", "name": "rgit-cli", "license": null, "source": null, "targets": [{targets}] }}],
                 "workspace_members": ["1"], "resolve": {{ "nodes": [] }} }}"#
        );
        serde_json::from_str(&text).expect("metadata")
    }

    #[test]
    fn io_in_proto_is_found_and_io_in_its_tests_is_not() {
        let house = sources(&[
            (
                "crates/proto/src/a.rs",
                "//! std::net is not used\nuse std::{fmt, net::TcpStream};\n#[cfg(test)]\nmod tests { use std::fs; }\n",
            ),
            (
                "crates/proto/src/b.rs",
                "fn now() -> Instant { \"std::fs\"; Instant::now() }\n",
            ),
            ("crates/proto/tests/split.rs", "use std::thread;\n"),
            ("crates/pack/src/lib.rs", "use std::thread;\n"),
        ]);
        assert_eq!(
            places(&house.sans_io()),
            [
                ("crates/proto/src/a.rs:2", "names std::net"),
                ("crates/proto/src/a.rs:2", "names TcpStream"),
                ("crates/proto/src/b.rs:1", "names Instant"),
                ("crates/proto/src/b.rs:1", "names Instant"),
            ]
        );
    }

    #[test]
    fn printing_is_for_binaries_and_tests() {
        let house = sources(&[
            (
                "crates/porcelain/src/push.rs",
                "fn f() { println!(\"x\"); }\n#[cfg(test)]\nmod tests { fn g() { eprintln!(); } }\n",
            ),
            ("crates/porcelain/tests/all.rs", "fn f() { println!() }\n"),
            ("crates/cli/main.rs", "fn main() { println!() }\n"),
            ("xtask/src/main.rs", "fn main() { println!() }\n"),
        ]);
        assert_eq!(
            places(&house.silence()),
            [("crates/porcelain/src/push.rs:1", "calls println!")]
        );
    }

    #[test]
    fn binaries_that_choose_for_themselves_are_found() {
        let house = sources(&[
            ("crates/cli/main.rs", "use rgit_transport_auto::choose;\n"),
            ("crates/cli/commands/push.rs", "let x = rgit_transport_h1::H1::new();\n"),
            ("tests/e2e/main.rs", "use rgit_transport_h1::H1;\n"),
        ]);
        let metadata = metadata(r#"{ "kind": ["bin"], "src_path": "/house/crates/cli/main.rs" }"#);
        assert_eq!(
            places(&house.choice(&metadata)),
            [("crates/cli/commands/push.rs:1", "names rgit_transport_h1")]
        );
    }

    #[test]
    fn what_is_left_to_do_is_found_in_tests_too() {
        let house = sources(&[
            (
                "crates/a/src/lib.rs",
                "/// todo!() in words\nfn f() { todo!() }\nfn ignore() { ignore(); }\n",
            ),
            (
                "tests/e2e/main.rs",
                "#[test]\n#[ignore = \"slow\"]\nfn f() {}\n#[cfg_attr(windows, ignore)]\nfn g() {}\n",
            ),
            ("xtask/src/a.rs", "const A: &str = \"todo! #[ignore]\";\n"),
        ]);
        assert_eq!(
            places(&house.unfinished()),
            [
                ("crates/a/src/lib.rs:2", "calls todo!"),
                ("tests/e2e/main.rs:2", "ignores a test"),
                ("tests/e2e/main.rs:4", "ignores a test"),
            ]
        );
    }

    #[test]
    fn long_files_are_told_and_too_long_ones_refused() {
        let lines = |n: usize| "fn f() {}\n".repeat(n);
        let tested = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(500), lines(300));
        let house = sources(&[
            ("crates/a/src/tested.rs", &tested),
            ("crates/a/src/long.rs", &lines(501)),
            ("crates/a/src/too_long.rs", &lines(601)),
            ("crates/a/tests/long.rs", &lines(900)),
        ]);
        let findings = house.size();
        let found: Vec<(&str, bool)> = findings
            .iter()
            .map(|finding| (&*finding.place, finding.tolerated))
            .collect();
        assert_eq!(
            found,
            [("crates/a/src/long.rs", true), ("crates/a/src/too_long.rs", false)]
        );
    }

    #[test]
    fn front_pages_open_with_their_documentation() {
        let house = sources(&[("a.rs", "\n//! A.\n"), ("b.rs", "// B.\nfn main() {}\n")]);
        let metadata = metadata(
            r#"{ "kind": ["lib"], "src_path": "/house/a.rs" }, { "kind": ["bench"], "src_path": "/house/b.rs" }"#,
        );
        assert_eq!(
            places(&house.front_pages(&metadata)),
            [("b.rs", "has no module documentation")]
        );
    }

    #[test]
    fn builds_and_hidden_folders_are_not_read() {
        let house = tempfile::tempdir().expect("a temporary directory");
        for path in [
            "src/a.rs",
            "target/debug/b.rs",
            ".cargo/c.rs",
            "crates/x/fuzz/corpus/d.rs",
            "e.txt",
        ] {
            let path = house.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("make a folder");
            fs::write(path, "//! x\n").expect("write a file");
        }
        let read = Sources::read(house.path()).expect("read the house");
        let paths: Vec<&str> = read.files.iter().map(|source| &*source.path).collect();
        assert_eq!(paths, ["src/a.rs"]);
    }
}
