//! The crate graph is the architecture picture: the table in ARCHITECTURE.md says what cargo says.

use std::collections::BTreeMap;

use super::Report;
use crate::metadata::Workspace;
use crate::tree::Tree;

/// Where the table stands.
pub const ARCHITECTURE: &str = "ARCHITECTURE.md";

const BEGIN: &str = "<!-- crates:begin -->";
const END: &str = "<!-- crates:end -->";

/// Every crate of ours and which of ours it needs (without what only tests need).
fn expected(workspace: &Workspace) -> BTreeMap<String, String> {
    let row = |package: &crate::metadata::Package| {
        let ours = |id: &&String| workspace.members.contains(*id);
        let mut names: Vec<&str> = package
            .normal
            .iter()
            .chain(&package.build)
            .filter(ours)
            .filter_map(|id| workspace.packages.get(id))
            .map(|needed| needed.name.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        (
            package.name.clone(),
            if names.is_empty() {
                "—".to_owned()
            } else {
                names.join(", ")
            },
        )
    };
    workspace.own().map(row).collect()
}

/// The table that would be right.
fn table(workspace: &Workspace) -> String {
    let rows = expected(workspace);
    let rows: Vec<String> = rows
        .iter()
        .map(|(name, needs)| format!("| {name} | {needs} |"))
        .collect();
    format!(
        "{BEGIN}\n| crate | depends on |\n|---|---|\n{}\n{END}",
        rows.join("\n")
    )
}

/// The rows of the table in a text, with their lines; `None` without both marks.
fn found(text: &str) -> Option<Vec<(usize, String, String)>> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begin = lines.iter().position(|line| *line == BEGIN)?;
    let end = lines
        .iter()
        .position(|line| *line == END)
        .filter(|end| *end > begin)?;
    let row = |(index, line): (usize, &&str)| {
        let mut cells = line
            .trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().replace('`', ""));
        let (name, needs) = (cells.next()?, cells.next()?);
        let is_head = name == "crate" || name.chars().all(|c| c == '-' || c == ':');
        (!is_head).then_some((begin + 2 + index, name, needs))
    };
    Some(lines[begin + 1..end].iter().enumerate().filter_map(row).collect())
}

/// The table in ARCHITECTURE.md has a row for each crate, with what it depends on, in any order.
pub fn graph(tree: &Tree, report: &mut Report) {
    let expected = expected(&tree.workspace);
    let rows = tree.files.get(ARCHITECTURE).and_then(|file| found(&file.text));
    let Some(rows) = rows else {
        let table = table(&tree.workspace);
        report.file(
            ARCHITECTURE,
            format!("must have the crate table (`cargo xtask tidy --bless` writes it):\n{table}"),
        );
        return;
    };
    let sorted = |needs: &str| {
        let mut names: Vec<String> = needs.split(',').map(|name| name.trim().to_owned()).collect();
        names.sort_unstable();
        names.join(", ")
    };
    for (line, name, needs) in &rows {
        match expected.get(name) {
            None => report.line(ARCHITECTURE, *line, format!("there is no crate `{name}`")),
            Some(right) if *right != sorted(needs) => {
                report.line(ARCHITECTURE, *line, format!("`{name}` depends on: {right}"));
            }
            Some(_) => {}
        }
    }
    for (name, needs) in &expected {
        if !rows.iter().any(|(_, row, _)| row == name) {
            report.file(
                ARCHITECTURE,
                format!("the crate table lacks `| {name} | {needs} |`"),
            );
        }
    }
}

/// ARCHITECTURE.md with the right table.
pub fn blessed(tree: &Tree) -> String {
    let table = table(&tree.workspace);
    let text = tree.files.get(ARCHITECTURE).map(|file| file.text.as_str());
    match text.and_then(|text| Some((text, text.find(BEGIN)?, text.find(END)?))) {
        Some((text, begin, end)) if begin < end => {
            format!("{}{table}{}", &text[..begin], &text[end + END.len()..])
        }
        _ => format!("{}\n## Crates\n\n{table}\n", text.unwrap_or("# Architecture\n")),
    }
}

/// What every manifest of the workspace says: its licence and its lints are the workspace's.
pub fn manifests(tree: &Tree, report: &mut Report) {
    for (path, file) in tree.ending("Cargo.toml") {
        let is_ours = path.starts_with("crates/") || path.starts_with("xtask/");
        let says = |wanted: &str| file.text.lines().any(|line| line.trim() == wanted);
        if !is_ours {
            continue;
        }
        if !file.text.contains("[lints]\nworkspace = true") {
            report.file(path, "must have `[lints]` with `workspace = true`");
        }
        for key in ["license", "edition", "rust-version"] {
            if !says(&format!("{key}.workspace = true")) {
                report.file(path, format!("must have `{key}.workspace = true`"));
            }
        }
        if !file.text.lines().any(|line| line.starts_with("description = ")) {
            report.file(path, "must have a `description`");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{said, said_of};
    use super::*;
    use crate::metadata::fixture::workspace;

    fn tree(architecture: &str) -> Tree {
        let mut tree = Tree::of(&[(ARCHITECTURE, architecture)]);
        tree.workspace = workspace(&[
            ("base", "0.1.0", None, &["serde"]),
            ("top", "0.1.0", None, &["base", "mid"]),
            ("mid", "0.1.0", None, &["base"]),
            ("serde", "1.0.0", Some("MIT"), &[]),
        ]);
        tree
    }

    #[test]
    fn the_table_must_say_what_cargo_says() {
        let right = "# A\n\n<!-- crates:begin -->\n| crate | depends on |\n|---|:--|\n| `top` | mid, base |\n\
                     | mid | base |\n| base | — |\n<!-- crates:end -->\n";
        assert_eq!(said_of(graph, &tree(right)), [""; 0]);
        let wrong = right
            .replace("| mid | base |\n", "")
            .replace("| base | — |", "| base | mid |\n| old | — |");
        assert_eq!(
            said_of(graph, &tree(&wrong)),
            [
                "ARCHITECTURE.md: the crate table lacks `| mid | base |`",
                "ARCHITECTURE.md:7: `base` depends on: —",
                "ARCHITECTURE.md:8: there is no crate `old`",
            ]
        );
        assert!(said_of(graph, &tree("# A"))[0].contains("| top | base, mid |"));
    }

    #[test]
    fn blessing_replaces_the_table_alone() {
        let text = "before\n<!-- crates:begin -->\nold\n<!-- crates:end -->\nafter\n";
        let text = blessed(&tree(text));
        assert!(
            text.starts_with("before\n<!-- crates:begin -->\n| crate |") && text.ends_with("-->\nafter\n")
        );
        for text in [text, blessed(&tree("# A\n"))] {
            assert_eq!(said_of(graph, &tree(&text)), [""; 0]);
        }
    }

    #[test]
    fn manifests_share_lints_and_licence() {
        let good = "[package]\nedition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\
                    description = \"x\"\n[lints]\nworkspace = true\n";
        let bad = good
            .replace("license.workspace = true\n", "")
            .replace("[lints]\nworkspace = true\n", "");
        let files = [
            ("crates/a/Cargo.toml", good),
            ("crates/b/Cargo.toml", &bad),
            ("Cargo.toml", "[workspace]"),
        ];
        assert_eq!(
            said(manifests, &files),
            [
                "crates/b/Cargo.toml: must have `[lints]` with `workspace = true`",
                "crates/b/Cargo.toml: must have `license.workspace = true`",
            ]
        );
    }
}
