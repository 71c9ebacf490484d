//! Style as a test: what a person would otherwise have to say in every review, said by a program.
//!
//! Owns the list of rules and how violations are reported. Each rule is a module with its own test: a function from
//! the tree to violations, without I/O. To add one: write the function, add it to [`RULES`].

mod bans;
mod crates;
mod files;
mod links;
mod modules;
mod purity;
mod ratchet;
mod sizes;
mod sources;

use std::fmt;

use crate::error::Error;
use crate::tree::{self, Tree};

/// A place where a rule is broken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// File, relative to the root.
    pub path: String,
    /// Line, from 1; `None` if it is about the file.
    pub line: Option<usize>,
    /// What is wrong and what to do instead.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

/// Collects violations.
#[derive(Debug, Default)]
pub struct Report(Vec<Violation>);

impl Report {
    /// About a line, counted from 1.
    fn line(&mut self, path: &str, line: usize, message: impl Into<String>) {
        self.0.push(Violation {
            path: path.to_owned(),
            line: Some(line),
            message: message.into(),
        });
    }

    /// About a file.
    fn file(&mut self, path: &str, message: impl Into<String>) {
        self.0.push(Violation {
            path: path.to_owned(),
            line: None,
            message: message.into(),
        });
    }
}

/// A rule by its name in reports.
type Rule = (&'static str, fn(&Tree, &mut Report));

/// All rules.
const RULES: &[Rule] = &[
    ("crate-graph", crates::graph),
    ("manifest", crates::manifests),
    ("purity", purity::check),
    ("bans", bans::check),
    ("left-overs", files::left_overs),
    ("merge-markers", files::merge_markers),
    ("machine-paths", files::machine_paths),
    ("line-width", files::line_width),
    ("module-headers", files::module_headers),
    ("unreferenced", modules::unreferenced),
    ("sizes", sizes::check),
    ("links", links::check),
    ("sources", sources::check),
];

/// Runs all rules over the work tree.
pub fn check() -> Result<String, Error> {
    let tree = Tree::read()?;
    let mut lines = Vec::new();
    for (name, rule) in RULES {
        let mut report = Report::default();
        rule(&tree, &mut report);
        report.0.sort();
        lines.extend(report.0.iter().map(|violation| format!("{violation} [{name}]")));
    }
    if lines.is_empty() {
        return Ok(format!(
            "tidy: {} files, {} rules, nothing to say\n",
            tree.files.len(),
            RULES.len()
        ));
    }
    Err(Error::Broken(format!(
        "{}\ntidy: {} violations",
        lines.join("\n"),
        lines.len()
    )))
}

/// Rewrites what only restates the tree: the crate table, and limits of the ratchet that can be lowered. It never
/// raises a limit and never adds one.
pub fn bless() -> Result<String, Error> {
    let tree = Tree::read()?;
    let write = |path: &str, text: String| -> Result<String, Error> {
        if tree.files.get(path).is_some_and(|file| file.text == text) {
            return Ok(format!("{path} was current\n"));
        }
        let full = tree::root().join(path);
        std::fs::write(&full, text).map_err(|source| Error::File { path: full, source })?;
        Ok(format!("{path} rewritten\n"))
    };
    let architecture = write(crates::ARCHITECTURE, crates::blessed(&tree))?;
    let limits = write(sizes::RATCHET, sizes::blessed(&tree))?;
    Ok(architecture + &limits)
}

#[cfg(test)]
mod fixture {
    //! What the tests of rules share.

    use super::Report;
    use crate::tree::Tree;

    /// What a rule says about files given as literals, without the machine's temporary paths.
    pub fn said(rule: fn(&Tree, &mut Report), files: &[(&str, &str)]) -> Vec<String> {
        said_of(rule, &Tree::of(files))
    }

    /// What a rule says about a tree.
    pub fn said_of(rule: fn(&Tree, &mut Report), tree: &Tree) -> Vec<String> {
        let mut report = Report::default();
        rule(tree, &mut report);
        report.0.sort();
        report.0.iter().map(ToString::to_string).collect()
    }
}
