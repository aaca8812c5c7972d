//! The part of `cargo metadata` that the rules look at, and walks over its graph.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    path::PathBuf,
    process::Stdio,
};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::cargo;

/// What `cargo metadata --format-version 1` says.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

/// One package of the graph.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) version: String,
    /// An SPDX expression.
    pub(super) license: Option<String>,
    /// `None` for a path on this machine.
    pub(super) source: Option<String>,
    #[serde(default)]
    pub(super) targets: Vec<Target>,
}

/// A library, binary, test, ... of a package.
#[derive(Debug, Deserialize)]
pub(super) struct Target {
    pub(super) kind: Vec<String>,
    pub(super) src_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    /// `null` is a normal dependency; else `dev` or `build`.
    kind: Option<String>,
}

/// Which edges a walk follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    /// What is linked into the crate.
    Normal,
    /// That, and what its build scripts need.
    NormalAndBuild,
}

impl Edge {
    fn followed(&self, follow: Follow) -> bool {
        self.dep_kinds.iter().any(|kind| match kind.kind.as_deref() {
            None => true,
            Some("build") => follow == Follow::NormalAndBuild,
            Some(_) => false,
        })
    }
}

impl Metadata {
    /// Asks cargo, with every feature of our own crates on: an optional dependency is a dependency.
    ///
    /// # Errors
    /// When cargo fails or answers something else.
    pub(super) fn load() -> anyhow::Result<Self> {
        let output = cargo::command()
            .args(["metadata", "--format-version", "1", "--all-features"])
            .stderr(Stdio::inherit())
            .output()
            .context("start cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata failed ({})", output.status);
        }
        serde_json::from_slice(&output.stdout).context("understand cargo metadata")
    }

    /// Every package of the graph.
    pub(super) fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The packages of this workspace.
    pub(super) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Names of the packages that `package` depends on itself.
    pub(super) fn direct(&self, package: &Package, follow: Follow) -> Vec<&str> {
        let by_id: HashMap<&str, &Package> = self.packages.iter().map(|package| (&*package.id, package)).collect();
        let node = self.resolve.nodes.iter().find(|node| node.id == package.id);
        let edges = node.map(|node| &*node.deps).unwrap_or_default();
        let mut names: Vec<&str> = edges
            .iter()
            .filter(|edge| edge.followed(follow))
            .filter_map(|edge| by_id.get(&*edge.pkg))
            .map(|package| &*package.name)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Everything that `package` reaches, itself not included: name, and a shortest way there (`a -> b -> c`).
    pub(super) fn reachable(&self, package: &Package, follow: Follow) -> BTreeMap<&str, String> {
        let by_id: HashMap<&str, &Package> = self.packages.iter().map(|package| (&*package.id, package)).collect();
        let nodes: HashMap<&str, &Node> = self.resolve.nodes.iter().map(|node| (&*node.id, node)).collect();
        let mut ways: HashMap<&str, String> = HashMap::from([(&*package.id, package.name.clone())]);
        let mut pending = VecDeque::from([&*package.id]);
        let mut reached = BTreeMap::new();
        while let Some(id) = pending.pop_front() {
            let way = ways[id].clone();
            for edge in nodes.get(id).map(|node| &*node.deps).unwrap_or_default() {
                let Some(next) = by_id.get(&*edge.pkg) else { continue };
                if !edge.followed(follow) || ways.contains_key(&*next.id) {
                    continue;
                }
                let way = format!("{way} -> {}", next.name);
                reached.entry(&*next.name).or_insert_with(|| way.clone());
                ways.insert(&next.id, way);
                pending.push_back(&next.id);
            }
        }
        reached
    }
}

/// Whether a crate's name fits a pattern: a name, or the beginning of one and `*`.
pub(super) fn fits(name: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

#[cfg(test)]
pub(super) mod made_up {
    //! Small graphs for the rules' tests.
    use super::Metadata;
    use serde_json::{Value, json};

    /// A graph of `crate: normal dependencies / dev:x / build:x`. Names that begin with `rgit-` or are `xtask` are members.
    pub(in crate::tidy) fn graph(crates: &[(&str, &[&str])]) -> Metadata {
        let packages: Vec<Value> = crates
            .iter()
            .map(|(name, _)| {
                let ours = name.starts_with("rgit-") || *name == "xtask";
                let source = (!ours).then_some("registry+https://github.com/rust-lang/crates.io-index");
                json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT OR Apache-2.0", "source": source })
            })
            .collect();
        let nodes: Vec<Value> = crates
            .iter()
            .map(|(name, dependencies)| {
                let edges: Vec<Value> = dependencies
                    .iter()
                    .map(|dependency| match dependency.split_once(':') {
                        Some((kind, name)) => json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] }),
                        None => json!({ "pkg": dependency, "dep_kinds": [{ "kind": null }] }),
                    })
                    .collect();
                json!({ "id": name, "deps": edges })
            })
            .collect();
        let members: Vec<&&str> = crates
            .iter()
            .map(|(name, _)| name)
            .filter(|name| name.starts_with("rgit-") || **name == "xtask")
            .collect();
        serde_json::from_value(
            json!({ "packages": packages, "workspace_members": members, "resolve": { "nodes": nodes } }),
        )
        .expect("a graph")
    }
}

#[cfg(test)]
mod tests {
    use super::{made_up::graph, *};

    #[test]
    fn walks_follow_the_asked_kinds_and_tell_the_shortest_way() {
        let metadata = graph(&[
            ("rgit-a", &["b", "dev:d", "build:e"]),
            ("b", &["c", "dev:f"]),
            ("c", &["b"]),
            ("d", &[]),
            ("e", &["c"]),
            ("f", &[]),
        ]);
        let a = metadata.members().next().expect("a member");
        assert_eq!(metadata.direct(a, Follow::Normal), ["b"]);
        assert_eq!(metadata.direct(a, Follow::NormalAndBuild), ["b", "e"]);
        let reached = metadata.reachable(a, Follow::Normal);
        assert_eq!(reached.keys().copied().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(reached["c"], "rgit-a -> b -> c");
        assert_eq!(metadata.reachable(a, Follow::NormalAndBuild).len(), 3);
    }

    #[test]
    fn patterns() {
        assert!(fits("gix-odb", "gix*") && fits("gix", "gix*") && fits("http", "http"));
        assert!(!fits("http-body", "http") && !fits("agix", "gix*"));
    }
}
