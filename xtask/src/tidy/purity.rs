//! Protocol crates do no I/O: neither by what they depend on nor by what they call.
//!
//! That is what lets the simulator run them on a virtual clock, and a test hold one in its hand.

use super::Report;
use crate::mask::{body, line_of};
use crate::metadata::Follow;
use crate::tree::Tree;

/// The crates that hold pure state machines and vocabulary.
const PURE: &[&str] = &["tidegate-types", "tidegate-protocol"];

/// Crates that bring I/O, clocks, randomness or logging, wherever in the tree they are.
const IMPURE_DEPENDENCIES: &[&str] = &[
    "async-std",
    "chrono",
    "crossbeam-channel",
    "futures-executor",
    "getrandom",
    "hyper",
    "log",
    "mio",
    "object_store",
    "parking_lot",
    "rand",
    "rayon",
    "reqwest",
    "rustix",
    "smol",
    "socket2",
    "tempfile",
    "time",
    "tokio",
    "tracing",
];

/// Modules of `std` that reach outside.
const IMPURE_MODULES: &[&str] = &["env", "fs", "net", "os", "process", "thread"];

/// Calls that do, with what to write instead.
const IMPURE_CALLS: &[(&str, &str)] = &[
    ("Instant::now", "take `now: Nanos` as an argument"),
    ("SystemTime", "take the time as an argument"),
    ("println!", "return what there is to say"),
    ("eprintln!", "return what there is to say"),
    ("thread_local!", "keep state in a value that is passed"),
    ("static mut", "keep state in a value that is passed"),
    (
        "RandomState",
        "use a BTreeMap, or a hasher with a fixed seed: the same seed must give the same trace",
    ),
];

/// Checks the dependencies and the sources of the pure crates; their tests may do as they like.
pub fn check(tree: &Tree, report: &mut Report) {
    for name in PURE {
        dependencies(tree, name, report);
        let sources = format!("crates/{name}/src/");
        for (path, _, rust) in tree.rust().filter(|(path, ..)| path.starts_with(&sources)) {
            for (line, text) in rust.code_lines().filter(|(line, _)| !rust.is_test(*line)) {
                for (call, instead) in IMPURE_CALLS
                    .iter()
                    .filter(|(call, _)| super::bans::has(text, call))
                {
                    report.line(path, line, format!("`{call}` in a pure crate: {instead}"));
                }
            }
            for (line, module) in impure_modules(&rust.code) {
                if !rust.is_test(line) {
                    report.line(path, line, format!("`std::{module}` in a pure crate"));
                }
            }
        }
    }
}

fn dependencies(tree: &Tree, name: &str, report: &mut Report) {
    let workspace = &tree.workspace;
    let Some(id) = workspace
        .members
        .iter()
        .find(|id| workspace.packages[*id].name == name)
    else {
        return;
    };
    for needed in workspace.reachable([id.clone()], Follow::Normal) {
        let needed = &workspace.packages[needed].name;
        if IMPURE_DEPENDENCIES.contains(&needed.as_str()) {
            report.file(
                &format!("crates/{name}/Cargo.toml"),
                format!("a pure crate depends on `{needed}`"),
            );
        }
    }
}

/// Uses of impure modules of `std`, alone (`std::fs`) or in a group (`std::{fmt, fs}`), with their lines.
fn impure_modules(code: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("std::") {
        let start = at + "std::".len();
        let group = match code[start..].starts_with('{') {
            true => body(code, start).map(|(open, close)| &code[open + 1..close - 1]),
            false => code[start..]
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next(),
        };
        let first_of = |item: &str| {
            item.trim()
                .split("::")
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        for item in group.unwrap_or_default().split(',').map(first_of) {
            let impure = IMPURE_MODULES.iter().find(|module| **module == item);
            found.extend(impure.map(|module| (line_of(code, at), *module)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{said, said_of};
    use super::*;
    use crate::metadata::fixture::workspace;

    #[test]
    fn impure_calls_and_modules_are_found_outside_of_tests() {
        let source = "//! println! is named here\nuse std::{fmt, fs::File};\nfn a() { std::net::lookup() }\n\
                      fn b() -> u64 { Instant::now() }\nconst C: &str = \"std::fs\";\nuse std::fmt::environment;\n\
                      #[cfg(test)]\nmod tests { use std::fs; }\n";
        assert_eq!(
            said(
                check,
                &[
                    ("crates/tidegate-types/src/a.rs", source),
                    ("crates/tidegate-runtime/src/a.rs", source)
                ]
            ),
            [
                "crates/tidegate-types/src/a.rs:2: `std::fs` in a pure crate",
                "crates/tidegate-types/src/a.rs:3: `std::net` in a pure crate",
                "crates/tidegate-types/src/a.rs:4: `Instant::now` in a pure crate: take `now: Nanos` as an argument",
            ]
        );
    }

    #[test]
    fn impure_dependencies_are_found_at_any_depth() {
        let mut tree = Tree::of(&[]);
        tree.workspace = workspace(&[
            ("tidegate-types", "0.1.0", None, &["a"]),
            ("a", "1.0.0", Some("MIT"), &["tokio"]),
            ("tokio", "1.0.0", Some("MIT"), &[]),
        ]);
        assert_eq!(
            said_of(check, &tree),
            ["crates/tidegate-types/Cargo.toml: a pure crate depends on `tokio`"]
        );
    }
}
