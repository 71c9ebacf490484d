//! Links of documents that lead nowhere: to a file that isn't there, or a heading that isn't in it.

use std::collections::BTreeSet;

use super::Report;
use crate::tree::Tree;

/// Every relative link of every Markdown file has its target.
pub fn check(tree: &Tree, report: &mut Report) {
    for (path, file) in tree.ending(".md") {
        for (line, target) in targets(&without_code(&file.text)) {
            if let Some(problem) = problem(tree, path, &target) {
                report.line(path, line, format!("dead link `{target}`: {problem}"));
            }
        }
    }
}

fn problem(tree: &Tree, from: &str, target: &str) -> Option<String> {
    let is_elsewhere = ["http://", "https://", "mailto:"]
        .iter()
        .any(|scheme| target.starts_with(scheme));
    if is_elsewhere || target.is_empty() {
        return None;
    }
    let (file, anchor) = target
        .split_once('#')
        .map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let directory = from.rsplit_once('/').map_or("", |(directory, _)| directory);
    let full = if file.is_empty() {
        from.to_owned()
    } else {
        resolved(directory, file)?
    };
    if !tree.exists(&full) {
        return Some(format!("there is no {full}"));
    }
    let document = tree.files.get(&full).filter(|_| full.ends_with(".md"));
    match (anchor, document) {
        (Some(anchor), Some(document)) if !anchors(&document.text).contains(anchor) => {
            Some(format!("{full} has no heading for it"))
        }
        _ => None,
    }
}

/// A relative path from a directory; what leads out of the project can't be checked.
fn resolved(directory: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in file.split('/') {
        match part {
            ".." => drop(parts.pop()?),
            "" | "." => {}
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// A document with code blocks and code spans blanked; lines and bytes stay.
pub fn without_code(text: &str) -> String {
    let blank = |text: &str| " ".repeat(text.len());
    let mut in_block = false;
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let is_fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        if is_fence || in_block {
            in_block ^= is_fence;
            lines.push(blank(line));
            continue;
        }
        let mut parts: Vec<String> = line.split('`').map(str::to_owned).collect();
        let spans = parts.len().saturating_sub(1) / 2;
        parts
            .iter_mut()
            .skip(1)
            .step_by(2)
            .take(spans)
            .for_each(|part| *part = blank(part));
        lines.push(parts.join("`"));
    }
    lines.join("\n")
}

/// The targets of `[text](target)` and `[name]: target`, with their lines.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let inline = line
            .match_indices("](")
            .filter_map(|(at, _)| line[at + 2..].split_once(')'));
        found.extend(inline.map(|(target, _)| (index + 1, target)));
        let definition = line
            .trim_start()
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "));
        found.extend(definition.map(|(_, target)| (index + 1, target)));
    }
    // A title may follow the target.
    let bare = |target: &str| {
        target
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .trim_matches(['<', '>'])
            .to_owned()
    };
    found
        .into_iter()
        .map(|(line, target)| (line, bare(target)))
        .collect()
}

/// The anchors of a document's headings, made as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let visible = without_code(text);
    // Which lines are headings is asked of the text without code; the words may be code.
    for (line, _) in text
        .lines()
        .zip(visible.lines())
        .filter(|(_, visible)| visible.starts_with('#'))
    {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let keep = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
        let slug: String = title
            .chars()
            .filter(keep)
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let repeated = (0..).map(|n| {
            if n == 0 {
                slug.clone()
            } else {
                format!("{slug}-{n}")
            }
        });
        let free = repeated.into_iter().find(|slug| !found.contains(slug));
        found.extend(free);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fixture::said;
    use super::*;

    #[test]
    fn links_lead_to_files_and_headings() {
        let page = "# A `b` c!\n[x](b/c.md) [y](../out) [z](https://x.y) [w](#a-b-c) [v](b/) [u](b/c.md#d-1 \"t\")\n\
                    [gone](b/d.md) `[code](nowhere)` [head](#nope) ![pic](b/c.md#d-2)\n\
                    ```\n[block](nowhere)\n```\n[ref]: b/e.md\n";
        let other = "## D\n## D\n[up](../a.md)\n";
        assert_eq!(
            said(check, &[("a.md", page), ("b/c.md", other)]),
            [
                "a.md:3: dead link `#nope`: a.md has no heading for it",
                "a.md:3: dead link `b/c.md#d-2`: b/c.md has no heading for it",
                "a.md:3: dead link `b/d.md`: there is no b/d.md",
                "a.md:7: dead link `b/e.md`: there is no b/e.md",
            ]
        );
    }

    #[test]
    fn code_is_blanked_in_place() {
        assert_eq!(
            without_code("a `b` c `d\n```\ne\n```\nf"),
            "a ` ` c `d\n   \n \n   \nf"
        );
    }
}
