//! Rust files that no `mod` leads to: compiled by nobody, believed by readers.

use std::collections::BTreeSet;

use super::Report;
use crate::mask::Masked;
use crate::tree::{self, Tree};

/// Every Rust file of a package is reached from one of its targets.
pub fn unreferenced(tree: &Tree, report: &mut Report) {
    let root = format!("{}/", tree::root().display());
    let targets = tree.workspace.own().flat_map(|package| &package.targets);
    let targets = targets.map(|path| path.strip_prefix(&root).unwrap_or(path).to_owned());
    let reached = reached(tree, targets);
    for (path, _, _) in tree.rust() {
        let ours = path.starts_with("crates/") || path.starts_with("xtask/");
        if ours && !reached.contains(path) {
            report.file(path, "no `mod` leads here: nothing compiles it");
        }
    }
}

/// The files reached from some by `mod name;`, `#[path = "…"]` and `include!("…")`.
fn reached(tree: &Tree, from: impl Iterator<Item = String>) -> BTreeSet<String> {
    // Children of a target's first file stand beside it, whatever its name is.
    let mut open: Vec<(String, bool)> = from.map(|path| (path, true)).collect();
    let mut found = BTreeSet::new();
    while let Some((path, is_root)) = open.pop() {
        let Some(file) = tree.files.get(&path) else {
            continue;
        };
        if !found.insert(path.clone()) {
            continue;
        }
        if let Some(rust) = &file.rust {
            open.extend(
                children(&path, is_root, &file.text, rust)
                    .into_iter()
                    .map(|child| (child, false)),
            );
        }
    }
    found
}

/// The files a module may lead to; of `a.rs` and `a/mod.rs` one exists.
fn children(path: &str, is_root: bool, text: &str, rust: &Masked) -> Vec<String> {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let own = if is_root || name == "mod.rs" {
        directory.to_owned()
    } else {
        format!("{directory}/{}", name.trim_end_matches(".rs"))
    };
    let mut found = Vec::new();
    let mut inline: Vec<(&str, usize)> = Vec::new();
    let mut braces = 0;
    let mut words: [&str; 2] = ["", ""];
    for (at, token) in tokens(&rust.code) {
        match (words, token) {
            (["mod", module], "{") => {
                inline.push((module, braces));
                braces += 1;
            }
            (["mod", module], ";") => {
                let inside: String = inline.iter().map(|(name, _)| format!("/{name}")).collect();
                match path_attribute(text, &rust.code, at) {
                    Some(file) => found.push(joined(directory, &file)),
                    None => {
                        found.push(format!("{own}{inside}/{module}.rs"));
                        found.push(format!("{own}{inside}/{module}/mod.rs"));
                    }
                }
            }
            (_, "{") => braces += 1,
            (_, "}") => {
                braces -= 1;
                inline.pop_if(|(_, outside)| *outside == braces);
            }
            ([_, "include"], "!") => {
                let quoted = text[at..].split('"').nth(1);
                found.extend(quoted.map(|file| joined(directory, file)));
            }
            _ => {}
        }
        words = [words[1], token];
    }
    found
}

/// Words and single punctuation characters with their bytes.
fn tokens(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '#';
    let mut at = 0;
    std::iter::from_fn(move || {
        at += code[at..].find(|c: char| !c.is_whitespace())?;
        let rest = &code[at..];
        let len = match rest.find(|c| !is_word(c)) {
            Some(0) => rest.chars().next().map_or(1, char::len_utf8),
            Some(len) => len,
            None => rest.len(),
        };
        let token = (at, &rest[..len]);
        at += len;
        Some(token)
    })
}

/// The `#[path = "…"]` before the `mod` that ends at `at`, if it has one.
fn path_attribute(text: &str, code: &str, at: usize) -> Option<String> {
    let item = code[..at].rfind([';', '}', '{']).map_or(0, |end| end + 1);
    let attribute = code[item..at].find("#[path")? + item;
    text.get(attribute..at)?.split('"').nth(1).map(str::to_owned)
}

/// A relative path from a directory, `..` resolved.
fn joined(directory: &str, file: &str) -> String {
    let mut parts: Vec<&str> = directory.split('/').collect();
    for part in file.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_followed_through_all_their_forms() {
        let tree = Tree::of(&[
            (
                "crates/a/src/lib.rs",
                "mod b;\nmod c { pub(crate) mod d; }\nmod e;\n#[path = \"../x/y.rs\"]\nmod y;",
            ),
            (
                "crates/a/src/b.rs",
                "#[cfg(test)]\nmod tests;\ninclude!(\"gen.rs\");",
            ),
            ("crates/a/src/b/tests.rs", "// mod not_this;"),
            ("crates/a/src/b/not_this.rs", ""),
            ("crates/a/src/gen.rs", ""),
            ("crates/a/src/c/d.rs", ""),
            ("crates/a/src/e/mod.rs", "mod f;"),
            ("crates/a/src/e/f.rs", ""),
            ("crates/a/x/y.rs", ""),
            ("crates/a/src/dead.rs", "mod also;"),
            ("crates/a/src/dead/also.rs", ""),
        ]);
        let reached = reached(&tree, ["crates/a/src/lib.rs".to_owned()].into_iter());
        let dead: Vec<&str> = tree
            .files
            .keys()
            .map(String::as_str)
            .filter(|path| !reached.contains(*path))
            .collect();
        assert_eq!(
            dead,
            [
                "crates/a/src/b/not_this.rs",
                "crates/a/src/dead.rs",
                "crates/a/src/dead/also.rs"
            ]
        );
    }

    #[test]
    fn files_outside_of_every_target_are_reported() {
        let tree = Tree::of(&[("crates/a/src/lib.rs", "")]);
        let said = super::super::fixture::said_of(unreferenced, &tree);
        assert_eq!(
            said,
            ["crates/a/src/lib.rs: no `mod` leads here: nothing compiles it"]
        );
    }
}
