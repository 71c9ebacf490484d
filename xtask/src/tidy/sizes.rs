//! Files and functions stay small; the exceptions are a ratchet.
//!
//! A file counts all its lines. A function counts its lines of code from `fn` to its last brace, so that comments
//! cost nothing.

use std::collections::BTreeMap;

use super::Report;
use super::ratchet::{self, Limits};
use crate::mask::{Masked, body};
use crate::tree::Tree;

/// The list of exceptions.
pub const RATCHET: &str = "xtask/ratchet.toml";

const HEAD: &str = "\
# Files and functions that are too long today. This list only shrinks: `cargo xtask tidy` refuses an entry that is
# no longer needed and a limit above the real size, and `cargo xtask tidy --bless` lowers both. Split, don't add.
";

const FILES: &str = "file-length";
const FUNCTIONS: &str = "function-length";

/// The most lines a thing of a section may have without an exception.
fn limit(section: &str) -> usize {
    if section == FILES { 500 } else { 70 }
}

/// Lengths by section and name of all that is too long.
fn too_long(tree: &Tree) -> Limits {
    let mut found: Limits = [
        (FILES.to_owned(), BTreeMap::new()),
        (FUNCTIONS.to_owned(), BTreeMap::new()),
    ]
    .into();
    let mut add = |section: &str, name: String, lines: usize| {
        if lines > limit(section) {
            let entry = found
                .entry(section.to_owned())
                .or_default()
                .entry(name)
                .or_default();
            *entry = lines.max(*entry);
        }
    };
    for (path, file, rust) in tree.rust() {
        add(FILES, path.to_owned(), file.text.lines().count());
        for (name, lines) in functions(rust) {
            add(FUNCTIONS, format!("{path}::{name}"), lines);
        }
    }
    found
}

/// Each function with its lines of code.
fn functions(rust: &Masked) -> Vec<(&str, usize)> {
    let code = &rust.code;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let function = |(at, _): (usize, &str)| {
        let begins_word = !code[..at].chars().next_back().is_some_and(is_word);
        let rest = &code[at + 3..];
        let name = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        let (_, end) = body(code, at).filter(|_| begins_word && !name.is_empty())?;
        let lines = code[at..end]
            .lines()
            .filter(|line| !line.trim().is_empty())
            .count();
        Some((name, lines))
    };
    code.match_indices("fn ").filter_map(function).collect()
}

/// Nothing is longer than its limit, and no limit is higher than it must be.
pub fn check(tree: &Tree, report: &mut Report) {
    let limits = match tree.files.get(RATCHET).map(|file| ratchet::parse(&file.text)) {
        Some(Ok(limits)) => limits,
        Some(Err(line)) => return report.line(RATCHET, line, "expected `[section]` or `\"name\" = lines`"),
        None => Limits::new(),
    };
    let found = too_long(tree);
    for (section, things) in &found {
        let usual = limit(section);
        for (name, lines) in things {
            let path = name.split("::").next().unwrap_or(name);
            match limits.get(section).and_then(|limits| limits.get(name)) {
                None => report.file(
                    path,
                    format!("{} has {lines} lines, at most {usual}: split it", thing(name)),
                ),
                Some(allowed) if lines > allowed => {
                    report.file(
                        path,
                        format!("{} grew from {allowed} to {lines} lines: split it", thing(name)),
                    );
                }
                Some(allowed) if lines < allowed => {
                    report.file(
                        RATCHET,
                        format!("`{name}` has {lines} lines now: lower its limit"),
                    );
                }
                Some(_) => {}
            }
        }
    }
    for (section, things) in &limits {
        for name in things.keys() {
            if !found.get(section).is_some_and(|things| things.contains_key(name)) {
                report.file(RATCHET, format!("`{name}` is short enough, or gone: remove it"));
            }
        }
    }
}

fn thing(name: &str) -> String {
    name.split_once("::").map_or_else(
        || "the file".to_owned(),
        |(_, function)| format!("`fn {function}`"),
    )
}

/// The list with lower limits where they can be lower, and without entries that aren't needed.
pub fn blessed(tree: &Tree) -> String {
    let limits = tree
        .files
        .get(RATCHET)
        .and_then(|file| ratchet::parse(&file.text).ok())
        .unwrap_or_default();
    let mut kept = too_long(tree);
    for (section, things) in &mut kept {
        let allowed = |name: &String| limits.get(section).and_then(|limits| limits.get(name)).copied();
        things.retain(|name, _| allowed(name).is_some());
        for (name, lines) in things.iter_mut() {
            *lines = allowed(name).map_or(*lines, |allowed| allowed.min(*lines));
        }
    }
    ratchet::render(HEAD, &kept)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::said;
    use super::*;

    fn long_function(lines: usize) -> String {
        format!(
            "fn long() {{\n{}// not code\n\n}}\nfn short() {{}}\n",
            "f();\n".repeat(lines - 2)
        )
    }

    #[test]
    fn long_functions_and_files_are_found() {
        let fine = long_function(70);
        let long = long_function(71);
        let file = "\n".repeat(501);
        assert_eq!(said(check, &[("a.rs", &fine)]), [""; 0]);
        assert_eq!(
            said(check, &[("a.rs", &long), ("b.rs", &file)]),
            [
                "a.rs: `fn long` has 71 lines, at most 70: split it",
                "b.rs: the file has 501 lines, at most 500: split it",
            ]
        );
    }

    #[test]
    fn the_ratchet_allows_no_growth_and_no_slack() {
        let long = long_function(80);
        let with = |limit: usize| {
            let list = format!("[{FUNCTIONS}]\n\"a.rs::long\" = {limit}\n");
            said(check, &[("a.rs", &long), (RATCHET, &list)])
        };
        assert_eq!(with(80), [""; 0]);
        assert_eq!(with(79), ["a.rs: `fn long` grew from 79 to 80 lines: split it"]);
        assert_eq!(
            with(81),
            ["xtask/ratchet.toml: `a.rs::long` has 80 lines now: lower its limit"]
        );
        let gone = format!("[{FUNCTIONS}]\n\"b.rs::gone\" = 90\n");
        assert_eq!(
            said(check, &[(RATCHET, &gone)]),
            ["xtask/ratchet.toml: `b.rs::gone` is short enough, or gone: remove it"]
        );
    }

    #[test]
    fn blessing_lowers_and_never_raises_or_adds() {
        let long = long_function(80);
        let bless = |list: &str| blessed(&Tree::of(&[("a.rs", &long), (RATCHET, list)]));
        let list = |limit: usize| format!("[{FUNCTIONS}]\n\"a.rs::long\" = {limit}\n\"b.rs::gone\" = 90\n");
        assert!(bless(&list(90)).contains("\"a.rs::long\" = 80\n"));
        assert!(bless(&list(75)).contains("\"a.rs::long\" = 75\n"));
        assert!(!bless(&list(90)).contains("gone"));
        assert!(!bless("").contains("a.rs"));
    }

    #[test]
    fn functions_in_macros_signatures_and_names_are_not_counted() {
        let code =
            "macro_rules! m { ($n:ident) => { fn $n() {} } }\ntrait T { fn a(&self); }\ntype F = fn (u8);\n";
        assert_eq!(functions(&Masked::new("a.rs", code)), []);
    }
}
