//! `docs/sources.md` maps the documents behind the project to code, tests and commands, `docs/cases.md` the faults of
//! other engines to tests; what they name must exist.
//!
//! What stands between backticks there is judged by its form: a command by its first word, a path by its slash, a
//! test or item by `::` or by being three or more words joined by `_`. Anything else (types, options, Flink's
//! classes) is prose and isn't checked.

use std::collections::BTreeSet;

use super::Report;
use crate::tree::Tree;

const PAGES: [&str; 2] = ["docs/sources.md", "docs/cases.md"];

/// Commands that the pages may tell a reader to run.
const PROGRAMS: &[&str] = &["cargo", "tidegate", "bash", "curl", "kill"];

/// Subcommands of cargo that are used here, and those of xtask.
const CARGO: &[&str] = &["run", "test", "nextest", "build", "bench", "xtask", "doc"];
const XTASK: &[&str] = &["tidy", "licences", "docs", "ci", "sim", "help"];

/// Every reference of the pages is alive.
pub fn check(tree: &Tree, report: &mut Report) {
    let items = items(tree);
    for name in PAGES {
        let Some(page) = tree.files.get(name) else {
            continue;
        };
        for (index, line) in page.text.lines().enumerate() {
            for span in line.split('`').skip(1).step_by(2) {
                if let Some(problem) = problem(tree, &items, span.trim()) {
                    report.line(name, index + 1, format!("`{span}`: {problem}"));
                }
            }
        }
    }
}

/// Names of everything that Rust code here declares.
fn items(tree: &Tree) -> BTreeSet<&str> {
    let keywords = [
        "fn",
        "struct",
        "enum",
        "trait",
        "mod",
        "const",
        "static",
        "type",
        "macro_rules",
    ];
    let mut found = BTreeSet::new();
    for (_, _, rust) in tree.rust() {
        let mut declared = false;
        for word in rust
            .code
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
        {
            if declared {
                found.insert(word);
            }
            declared = keywords.contains(&word);
        }
    }
    found
}

fn problem(tree: &Tree, items: &BTreeSet<&str>, span: &str) -> Option<String> {
    let first = span.split_whitespace().next()?;
    if span.contains(' ') || first == span && PROGRAMS.contains(&first) {
        let is_script = first.starts_with("scripts/") || first.starts_with("./scripts/");
        return match (PROGRAMS.contains(&first), is_script) {
            (true, _) => command(tree, items, span),
            (_, true) => path(tree, items, first.trim_start_matches("./")),
            _ => None,
        };
    }
    let is_path = span.contains('/') && !span.contains("://") && !span.starts_with(['/', '<', '-', '$', '~']);
    let own_root = |span: &str| {
        ["crates/", "docs/", "scripts/", "xtask/", "examples/", "bench/"]
            .iter()
            .any(|d| span.starts_with(d))
    };
    if is_path && own_root(span) {
        return path(tree, items, span);
    }
    let last = span.rsplit("::").next().unwrap_or(span);
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_snake = is_name(span) && span.matches('_').count() >= 2 && span.chars().all(|c| !c.is_uppercase());
    let is_item = span.contains("::") && span.split("::").all(is_name);
    ((is_snake || is_item) && !items.contains(last)).then(|| "no such test or item".to_owned())
}

/// `file`, `file:line` or `file::item`.
fn path(tree: &Tree, items: &BTreeSet<&str>, span: &str) -> Option<String> {
    let (file, item) = span
        .split_once("::")
        .map_or((span, None), |(file, item)| (file, Some(item)));
    let (file, line) = file
        .split_once(':')
        .map_or((file, None), |(file, line)| (file, Some(line)));
    if !tree.exists(file) {
        return Some(format!("there is no {file}"));
    }
    let text = tree.files.get(file).map_or("", |file| file.text.as_str());
    if let Some(line) = line {
        let fits = line
            .parse()
            .is_ok_and(|line: usize| line >= 1 && line <= text.lines().count());
        return (!fits).then(|| format!("{file} has no such line"));
    }
    let last = item.map(|item| item.rsplit("::").next().unwrap_or(item))?;
    let known = items.contains(last) && super::bans::has(text, last);
    (!known).then(|| format!("{file} has no {last}"))
}

/// The form of a command: known subcommands, packages, targets and tests.
fn command(tree: &Tree, items: &BTreeSet<&str>, span: &str) -> Option<String> {
    let words: Vec<&str> = span.split_whitespace().collect();
    let after = |flag: &str| {
        words
            .iter()
            .position(|word| *word == flag)
            .and_then(|at| words.get(at + 1))
    };
    match words.as_slice() {
        ["bash", script, ..] => (!tree.exists(script)).then(|| format!("there is no {script}")),
        ["cargo", "xtask", sub, ..] if !XTASK.contains(sub) => Some(format!("xtask has no command `{sub}`")),
        ["cargo", sub, ..] if !CARGO.contains(sub) => Some(format!("cargo has no command `{sub}`")),
        ["cargo", sub, ..] => {
            let packages = || tree.workspace.own();
            let no_package = after("-p").filter(|name| !packages().any(|package| package.name == **name));
            let target = ["--test", "--example", "--bin", "--bench"]
                .iter()
                .find_map(|flag| after(flag));
            let no_target =
                target.filter(|name| !packages().any(|p| p.target_names.iter().any(|t| t == **name)));
            let filter = test_filter(&words).filter(|_| ["test", "nextest"].contains(sub));
            let no_test = filter.filter(|filter| {
                let last = filter.rsplit("::").next().unwrap_or(filter);
                !items.iter().any(|item| item.contains(last))
            });
            no_package
                .map(|name| format!("there is no package `{name}`"))
                .or_else(|| no_target.map(|name| format!("there is no target `{name}`")))
                .or_else(|| no_test.map(|name| format!("there is no test `{name}`")))
        }
        _ => None,
    }
}

/// The words of `cargo test` that are neither flags nor their values: the last is a filter of tests.
fn test_filter<'a>(words: &[&'a str]) -> Option<&'a str> {
    let takes_value = |word: &str| {
        [
            "-p",
            "--package",
            "--test",
            "--bin",
            "--example",
            "--bench",
            "--features",
        ]
        .contains(&word)
    };
    let mut words = words.iter().skip(2).copied().take_while(|word| *word != "--");
    let mut filter = None;
    while let Some(word) = words.next() {
        if takes_value(word) {
            words.next();
        } else if !word.starts_with('-') && word != "run" {
            filter = Some(word);
        }
    }
    filter
}

#[cfg(test)]
mod tests {
    use super::super::fixture::said_of;
    use super::*;
    use crate::metadata::fixture::workspace;

    #[test]
    fn references_are_judged_by_their_form() {
        let fine = "`crates/a/src/lib.rs` `crates/a/src/` `crates/a/src/lib.rs:1` `crates/a/src/lib.rs::tests::a_b_c`\n\
                    `a_b_c` `tests::a_b_c` `Barrier` `CheckpointCoordinator.java` `min_pause` `<dir>/x` `s3://a/b`\n\
                    `cargo test -p a a_b_c` `cargo xtask sim 7` `tidegate config` `bash scripts/x.sh` `kill -9 1`\n\
                    `scripts/x.sh --fast` `cargo nextest run -p a` `two words`\n";
        let dead = "`crates/a/src/gone.rs`\n`crates/a/src/lib.rs:9`\n`crates/a/src/lib.rs::gone_it_is`\n`no_such_test`\n\
                    `tests::gone`\n`cargo test -p b`\n`cargo test -p a no_test`\n`cargo xtask dance`\n`cargo dance`\n\
                    `bash scripts/y.sh`\n`cargo test -p a --test t`\n";
        let tree = |name: &str, page: &str| {
            let code = "mod tests { fn a_b_c() {} }";
            let mut tree = Tree::of(&[(name, page), ("crates/a/src/lib.rs", code), ("scripts/x.sh", "")]);
            tree.workspace = workspace(&[("a", "0.1.0", None, &[])]);
            tree
        };
        for name in PAGES {
            assert_eq!(said_of(check, &tree(name, fine)), [""; 0]);
            let said = said_of(check, &tree(name, dead));
            let lines: BTreeSet<&str> = said.iter().filter_map(|line| line.split(':').nth(1)).collect();
            assert_eq!(lines.len(), 11, "{said:#?}");
        }
    }
}
