//! What cargo knows about the workspace and its dependencies.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::error::Error;
use crate::run;

/// The packages and their dependencies as `cargo metadata` resolves them.
#[derive(Debug, Default)]
pub struct Workspace {
    /// By package id.
    pub packages: BTreeMap<String, Package>,
    /// Ids of the workspace's own packages.
    pub members: BTreeSet<String>,
}

/// One package, ours or another's.
#[derive(Debug, Default, Clone)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// SPDX expression.
    pub licence: Option<String>,
    /// Absolute paths of the files that its targets begin in.
    pub targets: Vec<String>,
    /// Names of the targets.
    pub target_names: Vec<String>,
    /// Ids of what it needs to be built and used.
    pub normal: BTreeSet<String>,
    /// Ids of what its build script needs.
    pub build: BTreeSet<String>,
    /// Ids of what only its tests need.
    pub dev: BTreeSet<String>,
    /// Whether it is a procedural macro, which runs in the compiler and isn't in what we ship.
    pub proc_macro: bool,
}

/// Whose dependencies are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// What ends up in our binaries and libraries.
    Normal,
    /// Everything, build scripts, procedural macros and tests included.
    All,
}

impl Workspace {
    /// Asks cargo, for all platforms.
    pub fn read() -> Result<Self, Error> {
        Self::ask(&[])
    }

    /// The same without what only other platforms need. One platform for everyone, so that everyone is told the
    /// same.
    pub fn read_for_linux() -> Result<Self, Error> {
        Self::ask(&["--filter-platform", "x86_64-unknown-linux-gnu"])
    }

    fn ask(more: &[&str]) -> Result<Self, Error> {
        let arguments = ["metadata", "--format-version", "1", "--quiet"];
        Self::parse(&run::output(run::cargo().args(arguments).args(more))?)
    }

    fn parse(json: &[u8]) -> Result<Self, Error> {
        let unreadable = |problem: serde_json::Error| Error::Output {
            command: "cargo metadata".to_owned(),
            problem: problem.to_string(),
        };
        let raw: raw::Metadata = serde_json::from_slice(json).map_err(unreadable)?;
        let mut edges: BTreeMap<String, Vec<raw::Dependency>> = raw
            .resolve
            .nodes
            .into_iter()
            .map(|node| (node.id, node.deps))
            .collect();
        let packages = raw.packages.into_iter().map(|package| {
            let deps = edges.remove(&package.id).unwrap_or_default();
            let of_kind = |kind: Option<&str>| -> BTreeSet<String> {
                let has = |dep: &&raw::Dependency| dep.dep_kinds.iter().any(|k| k.kind.as_deref() == kind);
                deps.iter().filter(has).map(|dep| dep.pkg.clone()).collect()
            };
            let ours = Package {
                targets: package
                    .targets
                    .iter()
                    .map(|target| target.src_path.clone())
                    .collect(),
                target_names: package.targets.iter().map(|target| target.name.clone()).collect(),
                normal: of_kind(None),
                build: of_kind(Some("build")),
                dev: of_kind(Some("dev")),
                proc_macro: package
                    .targets
                    .iter()
                    .any(|target| target.kind.iter().any(|k| k == "proc-macro")),
                name: package.name,
                version: package.version,
                licence: package.license,
            };
            (package.id, ours)
        });
        Ok(Self {
            packages: packages.collect(),
            members: raw.workspace_members.into_iter().collect(),
        })
    }

    /// Our own packages.
    pub fn own(&self) -> impl Iterator<Item = &Package> {
        self.members.iter().filter_map(|id| self.packages.get(id))
    }

    /// Everything reachable from some packages, these included.
    pub fn reachable(&self, from: impl IntoIterator<Item = String>, follow: Follow) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut open: Vec<String> = from.into_iter().collect();
        while let Some(id) = open.pop() {
            let Some((id, package)) = self.packages.get_key_value(&id) else {
                continue;
            };
            let skipped = follow == Follow::Normal && package.proc_macro;
            if skipped || !found.insert(id.as_str()) {
                continue;
            }
            open.extend(package.normal.iter().cloned());
            if follow == Follow::All {
                open.extend(package.build.iter().chain(&package.dev).cloned());
            }
        }
        found
    }
}

/// The parts of `cargo metadata`'s format that are read.
mod raw {
    use super::Deserialize;

    #[derive(Deserialize)]
    pub struct Metadata {
        pub packages: Vec<Package>,
        pub workspace_members: Vec<String>,
        pub resolve: Resolve,
    }

    #[derive(Deserialize)]
    pub struct Package {
        pub id: String,
        pub name: String,
        pub version: String,
        pub license: Option<String>,
        pub targets: Vec<Target>,
    }

    #[derive(Deserialize)]
    pub struct Target {
        pub name: String,
        pub kind: Vec<String>,
        pub src_path: String,
    }

    #[derive(Deserialize)]
    pub struct Resolve {
        pub nodes: Vec<Node>,
    }

    #[derive(Deserialize)]
    pub struct Node {
        pub id: String,
        pub deps: Vec<Dependency>,
    }

    #[derive(Deserialize)]
    pub struct Dependency {
        pub pkg: String,
        pub dep_kinds: Vec<Kind>,
    }

    #[derive(Deserialize)]
    pub struct Kind {
        pub kind: Option<String>,
    }
}

#[cfg(test)]
pub mod fixture {
    //! Workspaces for the tests of rules.

    use super::{Package, Workspace};

    /// Packages `(name, version, licence, normal dependencies by name)`; those without a licence are ours.
    pub fn workspace(packages: &[(&str, &str, Option<&str>, &[&str])]) -> Workspace {
        let mut workspace = Workspace::default();
        let ids = |names: &[&str]| {
            let all = packages.iter().map(|p| (p.0, format!("{} {}", p.0, p.1)));
            all.filter(|(name, id)| names.contains(name) || names.contains(&id.as_str()))
                .map(|(_, id)| id)
                .collect()
        };
        for (name, version, licence, normal) in packages {
            let id = format!("{name} {version}");
            if licence.is_none() {
                workspace.members.insert(id.clone());
            }
            let package = Package {
                name: (*name).to_owned(),
                version: (*version).to_owned(),
                licence: Some(licence.unwrap_or("Apache-2.0").to_owned()),
                normal: ids(normal),
                ..Package::default()
            };
            workspace.packages.insert(id, package);
        }
        workspace
    }

    #[test]
    fn what_cargo_prints_is_understood() {
        let json = br#"{"packages":[{"id":"a","name":"a","version":"1.0.0","license":"MIT","manifest_path":"/x/a/Cargo.toml",
            "targets":[{"name":"a","kind":["lib"],"src_path":"/x/a/src/lib.rs"}]},
            {"id":"m","name":"m","version":"1.0.0","license":null,"manifest_path":"/x/m/Cargo.toml",
            "targets":[{"name":"m","kind":["proc-macro"],"src_path":"/x/m/src/lib.rs"}]}],
            "workspace_members":["a"],"resolve":{"nodes":[{"id":"a","deps":[
            {"pkg":"m","dep_kinds":[{"kind":null},{"kind":"dev"}]}]},{"id":"m","deps":[]}]}}"#;
        let workspace = Workspace::parse(json).expect("it has all parts");
        let a = &workspace.packages["a"];
        assert_eq!(a.targets, ["/x/a/src/lib.rs"]);
        assert!(a.normal.contains("m") && a.dev.contains("m") && a.build.is_empty());
        assert!(workspace.packages["m"].proc_macro);
        let all = workspace.reachable(["a".to_owned()], super::Follow::All);
        assert_eq!(all.into_iter().collect::<Vec<_>>(), ["a", "m"]);
        let shipped = workspace.reachable(["a".to_owned()], super::Follow::Normal);
        assert_eq!(shipped.into_iter().collect::<Vec<_>>(), ["a"]);
    }
}
