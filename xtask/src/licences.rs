//! Licences of all dependencies, and crates that are there in two versions.
//!
//! Owns the list of licences that go with Apache-2.0, a small reader of SPDX expressions, and the exceptions with
//! their reasons. An exception that isn't needed any more is an error, so the lists only say what is true.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::metadata::{Follow, Workspace};

/// Licences under which what we ship may contain code.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Packages whose licence isn't in the list, with the reason why they are taken nevertheless.
const LICENCE_EXCEPTIONS: &[(&str, &str)] = &[];

/// Crates that are in what we ship in two versions, with the reason.
const DOUBLES: &[(&str, &str)] = &[];

/// Checks both for the workspace.
pub fn check() -> Result<String, Error> {
    let workspace = Workspace::read()?;
    let mut problems = licences(&workspace, LICENCE_EXCEPTIONS);
    problems.extend(doubles(&Workspace::read_for_linux()?, DOUBLES));
    if problems.is_empty() {
        return Ok(format!(
            "licences: {} packages, nothing to say\n",
            workspace.packages.len()
        ));
    }
    Err(Error::Broken(format!(
        "{}\nlicences: {} problems",
        problems.join("\n"),
        problems.len()
    )))
}

/// Packages whose licence doesn't go with ours, those for tests and for building included.
fn licences(workspace: &Workspace, exceptions: &[(&str, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut unused: BTreeSet<&str> = exceptions.iter().map(|(name, _)| *name).collect();
    for id in workspace.reachable(workspace.members.iter().cloned(), Follow::All) {
        let package = &workspace.packages[id];
        let fine = package.licence.as_deref().is_some_and(allowed);
        if !fine
            && !unused.remove(package.name.as_str())
            && !exceptions.iter().any(|(name, _)| *name == package.name)
        {
            let licence = package.licence.as_deref().unwrap_or("none");
            problems.push(format!("{} {}: licence {licence}", package.name, package.version));
        }
    }
    problems.extend(
        unused
            .iter()
            .map(|name| format!("{name}: the licence exception isn't needed")),
    );
    problems
}

/// Crates of which two versions end up in what we ship. Procedural macros run in the compiler and don't.
fn doubles(workspace: &Workspace, exceptions: &[(&str, &str)]) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for id in workspace.reachable(workspace.members.iter().cloned(), Follow::Normal) {
        let package = &workspace.packages[id];
        versions
            .entry(&package.name)
            .or_default()
            .insert(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let excepted = |name: &str| exceptions.iter().any(|(exception, _)| *exception == name);
    let doubled = versions.iter().filter(|(name, _)| !excepted(name));
    let mut problems: Vec<String> = doubled
        .map(|(name, versions)| {
            let versions: Vec<&str> = versions.iter().copied().collect();
            format!(
                "{name} is there in several versions: {} (`cargo tree -d` says why)",
                versions.join(", ")
            )
        })
        .collect();
    let unused = exceptions.iter().filter(|(name, _)| !versions.contains_key(name));
    problems.extend(unused.map(|(name, _)| format!("{name}: the exception for two versions isn't needed")));
    problems
}

/// Whether an SPDX expression can be satisfied with allowed licences.
fn allowed(expression: &str) -> bool {
    // Older manifests write `MIT/Apache-2.0`.
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (result, rest) = any(&words);
    result && rest.is_empty()
}

/// `a OR b …`; gives what is left over.
fn any<'a, 'w>(words: &'a [&'w str]) -> (bool, &'a [&'w str]) {
    let (mut result, mut rest) = all(words);
    while let ["OR", more @ ..] = rest {
        let (next, left) = all(more);
        (result, rest) = (result || next, left);
    }
    (result, rest)
}

/// `a AND b …`, which binds closer.
fn all<'a, 'w>(words: &'a [&'w str]) -> (bool, &'a [&'w str]) {
    let (mut result, mut rest) = one(words);
    while let ["AND", more @ ..] = rest {
        let (next, left) = one(more);
        (result, rest) = (result && next, left);
    }
    (result, rest)
}

/// A licence, with its exception, or an expression in parentheses. What can't be read isn't allowed.
fn one<'a, 'w>(words: &'a [&'w str]) -> (bool, &'a [&'w str]) {
    match words {
        ["(", inner @ ..] => match any(inner) {
            (result, [")", rest @ ..]) => (result, rest),
            (_, rest) => (false, rest),
        },
        [licence, "WITH", exception, rest @ ..] => (
            ALLOWED.contains(&format!("{licence} WITH {exception}").as_str()),
            rest,
        ),
        [licence, rest @ ..] => (ALLOWED.contains(licence), rest),
        [] => (false, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::fixture::workspace;

    #[test]
    fn expressions_are_satisfied_by_allowed_licences() {
        for (expression, result) in [
            ("MIT", true),
            ("MIT OR GPL-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("MIT/Apache-2.0", true),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
            ("MIT AND (GPL-3.0 OR LGPL-3.0)", false),
            ("GPL-3.0 OR MIT AND ISC", true),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("GPL-2.0 WITH Classpath-exception-2.0", false),
            ("LGPL-3.0-only", false),
            ("MIT OR", true),
            ("MIT ISC", false),
            ("(MIT", false),
            ("", false),
        ] {
            assert_eq!(allowed(expression), result, "{expression}");
        }
    }

    #[test]
    fn unknown_licences_and_unneeded_exceptions_are_reported() {
        let workspace = workspace(&[
            ("ours", "0.1.0", None, &["free", "viral", "odd"]),
            ("free", "1.0.0", Some("MIT"), &[]),
            ("viral", "1.0.0", Some("GPL-3.0"), &[]),
            ("odd", "1.0.0", Some("Odd-1.0"), &[]),
        ]);
        assert_eq!(
            licences(&workspace, &[("odd", "asked")]),
            ["viral 1.0.0: licence GPL-3.0"]
        );
        let said = licences(
            &workspace,
            &[("odd", "asked"), ("viral", "asked"), ("gone", "asked")],
        );
        assert_eq!(said, ["gone: the licence exception isn't needed"]);
    }

    #[test]
    fn two_versions_of_a_crate_are_reported_once() {
        let workspace = workspace(&[
            ("ours", "0.1.0", None, &["a", "b"]),
            ("a", "1.0.0", Some("MIT"), &["c 1.0.0"]),
            ("b", "1.0.0", Some("MIT"), &["c 2.0.0"]),
            ("c", "1.0.0", Some("MIT"), &[]),
            ("c", "2.0.0", Some("MIT"), &[]),
        ]);
        let said = doubles(&workspace, &[]);
        assert_eq!(
            said,
            ["c is there in several versions: 1.0.0, 2.0.0 (`cargo tree -d` says why)"]
        );
        assert_eq!(doubles(&workspace, &[("c", "b is slow to move")]), [""; 0]);
        assert_eq!(
            doubles(&workspace, &[("c", "x"), ("a", "y")]),
            ["a: the exception for two versions isn't needed"]
        );
    }
}
