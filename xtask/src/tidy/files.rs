//! Rules over the text of single files.

use super::Report;
use crate::tree::Tree;

/// Widest line of Rust. rustfmt holds code to 110; this is for what it leaves alone, comments and macros.
const MAX_WIDTH: usize = 120;

/// Marks of unfinished work in comments, and in documents outside of code.
pub fn left_overs(tree: &Tree, report: &mut Report) {
    let marks = ["FIXME", "XXX", "TODO", "HACK"];
    let mut look = |path: &str, text: &str| {
        for (index, line) in text.lines().enumerate() {
            for mark in marks.iter().filter(|mark| super::bans::has(line, mark)) {
                report.line(
                    path,
                    index + 1,
                    format!("`{mark}`: do it, or name it in the list of open points"),
                );
            }
        }
    };
    for (path, _, rust) in tree.rust() {
        look(path, &rust.comments);
    }
    for (path, file) in tree.ending(".md") {
        look(path, &super::links::without_code(&file.text));
    }
}

/// What a merge left behind.
pub fn merge_markers(tree: &Tree, report: &mut Report) {
    for (path, file) in &tree.files {
        for (index, line) in file.text.lines().enumerate() {
            let marks = ["<", ">", "|"].map(|c| format!("{} ", c.repeat(7)));
            if marks.iter().any(|mark| line.starts_with(mark)) {
                report.line(path, index + 1, "a merge was left unfinished here");
            }
        }
    }
}

/// Absolute paths that exist on the machine of whoever wrote them.
pub fn machine_paths(tree: &Tree, report: &mut Report) {
    // Put together so that this file doesn't hold them.
    let roots: Vec<String> = ["work", "root", "home", "Users"]
        .iter()
        .map(|name| format!("/{name}"))
        .collect();
    let continues = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '}' | '*');
    for (path, file) in tree.files.iter().filter(|(path, _)| !path.ends_with(".lock")) {
        for (index, line) in file.text.lines().enumerate() {
            let hit = |root: &&String| {
                line.match_indices(root.as_str()).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    let after = line[at + root.len()..].chars().next();
                    // `/home` alone may be a page of a site; the others alone are directories.
                    let whole = !root.ends_with("home") && !after.is_some_and(continues);
                    !before.is_some_and(continues) && (after == Some('/') || whole)
                })
            };
            if let Some(root) = roots.iter().find(hit) {
                report.line(path, index + 1, format!("`{root}/…` is a path of one machine"));
            }
        }
    }
}

/// Lines of Rust that don't fit, comments included; what a string holds isn't counted, since it can't be broken.
pub fn line_width(tree: &Tree, report: &mut Report) {
    for (path, file, rust) in tree.rust() {
        let lines = file
            .text
            .lines()
            .zip(rust.code.lines())
            .zip(rust.comments.lines());
        for (index, ((text, code), comment)) in lines.enumerate() {
            if text.chars().count() <= MAX_WIDTH {
                continue;
            }
            // In both views a blank, in the file not: inside a string.
            let in_string = |((t, c), o): ((u8, u8), u8)| t != b' ' && c == b' ' && o == b' ';
            let has_string = text.bytes().zip(code.bytes()).zip(comment.bytes()).any(in_string);
            if !has_string {
                report.line(
                    path,
                    index + 1,
                    format!("{} characters, at most {MAX_WIDTH}", text.chars().count()),
                );
            }
        }
    }
}

/// Each module begins with what it is for; files of tests are named after what they test.
pub fn module_headers(tree: &Tree, report: &mut Report) {
    for (path, file, rust) in tree.rust() {
        let in_source =
            path.starts_with("xtask/src/") || (path.starts_with("crates/") && path.contains("/src/"));
        if in_source && !rust.is_test(1) && !file.text.starts_with("//! ") {
            report.line(
                path,
                1,
                "must begin with a module header: `//!` purpose, owns, does not own, where to read next",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::said;
    use super::*;

    #[test]
    fn left_overs_are_found_in_comments_and_documents() {
        let files = [
            (
                "a.rs",
                "// TODO later\nfn fixme() { \"XXX\" }\n/// FIXMEs are fine",
            ),
            ("a.md", "FIXME\n`FIXME`\n```\nXXX\n```\n"),
        ];
        assert_eq!(
            said(left_overs, &files),
            [
                "a.md:1: `FIXME`: do it, or name it in the list of open points",
                "a.rs:1: `TODO`: do it, or name it in the list of open points",
            ]
        );
    }

    #[test]
    fn merge_markers_are_found_in_any_file() {
        let text = format!(
            "a\n{} HEAD\nb\n=======\nTitle\n{} other\n",
            "<".repeat(7),
            ">".repeat(7)
        );
        let said = said(merge_markers, &[("a.toml", &text)]);
        assert_eq!(
            said,
            [
                "a.toml:2: a merge was left unfinished here",
                "a.toml:6: a merge was left unfinished here"
            ]
        );
    }

    #[test]
    fn machine_paths_are_told_from_urls_and_variables() {
        let (work, home) = (["/", "work/x"].concat(), ["/", "home/me"].concat());
        let text = format!(
            "\"{work}\"\nhttp://a.b{home}\n$X{work}\ncd {home}\nnet{work}\n{home}work\n{work}shop\n/home"
        );
        let text = format!("{text}\ncd {}", ["/", "work"].concat());
        let lines: Vec<String> = said(machine_paths, &[("a.sh", &text)]);
        let lines: Vec<&str> = lines.iter().filter_map(|line| line.split(": ").next()).collect();
        assert_eq!(lines, ["a.sh:1", "a.sh:4", "a.sh:6", "a.sh:7", "a.sh:9"]);
    }

    #[test]
    fn wide_lines_are_found_unless_a_string_is_in_them() {
        let wide = "x".repeat(121);
        let text = format!("let {} = 1;\nlet a = \"{wide}\";\n// {wide}\n", "y".repeat(114));
        assert_eq!(
            said(line_width, &[("a.rs", &text)]),
            [
                "a.rs:1: 123 characters, at most 120",
                "a.rs:3: 124 characters, at most 120"
            ]
        );
    }

    #[test]
    fn modules_begin_with_a_header() {
        let files = [
            ("crates/a/src/lib.rs", "//! A.\n"),
            ("crates/a/src/b.rs", "use a;\n//! B.\n"),
            ("crates/a/tests/c.rs", "use a;\n"),
            ("crates/a/src/b/tests.rs", "use a;\n"),
        ];
        assert_eq!(said(module_headers, &files).len(), 1);
    }
}
