//! Tells code, comments and strings of a Rust file apart, and test code from the rest.
//!
//! Not a parser: it knows the tokens that can hide others (comments, strings, characters) and matches braces. All
//! views have the lines and the bytes of the file; what a view leaves out is blank in it.

/// Views of one Rust file.
#[derive(Debug)]
pub struct Masked {
    /// Code without comments and without the contents of strings and characters.
    pub code: String,
    /// Comments alone, documentation included.
    pub comments: String,
    /// For each line whether it belongs to tests: the file is one, or the line is in a `#[cfg(test)]` item.
    pub test_lines: Vec<bool>,
}

impl Masked {
    /// `name` is the path from the root; it decides whether the whole file is test code.
    pub fn new(name: &str, text: &str) -> Self {
        let (code, comments) = split(text);
        let test_lines = if is_test_file(name) {
            vec![true; text.lines().count()]
        } else {
            test_lines(&code, text.lines().count())
        };
        Self {
            code,
            comments,
            test_lines,
        }
    }

    /// Lines of code, counted from 1.
    pub fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    /// Whether a line, counted from 1, is test code.
    pub fn is_test(&self, line: usize) -> bool {
        self.test_lines.get(line - 1).copied().unwrap_or(false)
    }
}

/// Whether a path is that of test code: in a directory of tests or benchmarks, or a `tests.rs`.
fn is_test_file(name: &str) -> bool {
    let mut parts: Vec<&str> = name.split('/').collect();
    let file = parts.pop().unwrap_or_default();
    parts.iter().any(|part| ["tests", "benches"].contains(part))
        || file == "tests.rs"
        || file.ends_with("_tests.rs")
}

/// What the lexer is inside of.
#[derive(Clone, Copy)]
enum Inside {
    Code,
    LineComment,
    BlockComment {
        depth: usize,
    },
    /// `"…"`, with escapes.
    Text,
    /// `r#"…"#` with so many `#`.
    RawText {
        hashes: usize,
    },
    /// Before a character literal's content of this length.
    Character {
        len: usize,
    },
    /// Before the quote that closes it.
    CharacterEnd,
}

fn split(text: &str) -> (String, String) {
    let chars: Vec<char> = text.chars().collect();
    let (mut code, mut comments) = (
        String::with_capacity(text.len()),
        String::with_capacity(text.len()),
    );
    let mut inside = Inside::Code;
    let mut at = 0;
    while at < chars.len() {
        let (len, next) = step(&chars, at, inside);
        let is_comment = |inside| matches!(inside, Inside::LineComment | Inside::BlockComment { .. });
        for c in &chars[at..at + len] {
            let blank = if *c == '\n' { "\n" } else { &"    "[..c.len_utf8()] };
            let mut own = [0; 4];
            let own = &*c.encode_utf8(&mut own);
            // The token that begins or ends a string is code; the one that begins or ends a comment is comment.
            let (to_code, to_comments) = match (inside, next) {
                (a, b) if is_comment(a) || is_comment(b) => (false, true),
                (Inside::Code, _) | (_, Inside::Code) => (true, false),
                _ => (false, false),
            };
            code.push_str(if to_code { own } else { blank });
            comments.push_str(if to_comments { own } else { blank });
        }
        (at, inside) = (at + len, next);
    }
    (code, comments)
}

/// The token at `at`: how many characters, and what comes after it.
fn step(chars: &[char], at: usize, inside: Inside) -> (usize, Inside) {
    let here = |text: &str| {
        text.chars()
            .enumerate()
            .all(|(i, c)| chars.get(at + i) == Some(&c))
    };
    match inside {
        Inside::Code if here("//") => (2, Inside::LineComment),
        Inside::Code if here("/*") => (2, Inside::BlockComment { depth: 1 }),
        Inside::Code if here("\"") => (1, Inside::Text),
        Inside::Code if here("r\"") || here("r#") => raw_text(chars, at),
        Inside::Code if here("'") => character(chars, at),
        Inside::Code => (word(chars, at), Inside::Code),
        // The line break ends the comment without being part of it.
        Inside::LineComment if here("\n") => (0, Inside::Code),
        Inside::BlockComment { depth } if here("/*") => (2, Inside::BlockComment { depth: depth + 1 }),
        Inside::BlockComment { depth: 1 } if here("*/") => (2, Inside::Code),
        Inside::BlockComment { depth } if here("*/") => (2, Inside::BlockComment { depth: depth - 1 }),
        Inside::Text if here("\\") => (2.min(chars.len() - at), Inside::Text),
        Inside::Text if here("\"") => (1, Inside::Code),
        Inside::RawText { hashes } if here(&format!("\"{}", "#".repeat(hashes))) => {
            (1 + hashes, Inside::Code)
        }
        Inside::Character { len } => (len, Inside::CharacterEnd),
        Inside::CharacterEnd => (1, Inside::Code),
        other => (1, other),
    }
}

/// `r"`, `r#"` …, or a raw identifier.
fn raw_text(chars: &[char], at: usize) -> (usize, Inside) {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + 1 + hashes) == Some(&'"') {
        (hashes + 2, Inside::RawText { hashes })
    } else {
        (1, Inside::Code)
    }
}

/// A whole identifier, so that its last letter isn't taken for a prefix of a string; else one character. The
/// prefixes `b`, `c` and `br` are left to the next token.
fn word(chars: &[char], at: usize) -> usize {
    let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
    let len = chars[at..].iter().take_while(|c| is_word(c)).count();
    match chars[at..at + len] {
        ['b' | 'c', 'r'] => 1,
        _ => len.max(1),
    }
}

/// A character literal's content comes next, or the `'` was a lifetime's or a label's.
fn character(chars: &[char], at: usize) -> (usize, Inside) {
    let content = match chars.get(at + 1) {
        // After the escaped character the next quote closes: `'\''`, `'\u{1f600}'`.
        Some('\\') => chars[at + 2..]
            .iter()
            .skip(1)
            .take(10)
            .position(|c| *c == '\'')
            .map(|n| n + 2),
        Some(_) if chars.get(at + 2) == Some(&'\'') => Some(1),
        _ => None,
    };
    (1, content.map_or(Inside::Code, |len| Inside::Character { len }))
}

/// Lines inside items under `#[cfg(test)]`, the attribute included.
fn test_lines(code: &str, lines: usize) -> Vec<bool> {
    let mut marks = vec![false; lines];
    let mut from = 0;
    let next = |from: usize| {
        ["#[cfg(test)]", "#[cfg(all(test"]
            .iter()
            .filter_map(|a| code[from..].find(a))
            .min()
    };
    while let Some(found) = next(from) {
        let start = from + found;
        let end = item_end(code, start);
        let (first, last) = (line_of(code, start), line_of(code, end.saturating_sub(1)));
        marks
            .iter_mut()
            .take(last)
            .skip(first - 1)
            .for_each(|mark| *mark = true);
        from = end.max(start + 1);
    }
    marks
}

/// The line of a byte, counted from 1.
pub fn line_of(code: &str, byte: usize) -> usize {
    code.as_bytes()[..byte].iter().filter(|b| **b == b'\n').count() + 1
}

/// The byte after the item that begins at `start`: after its `;` or its matching `}`.
fn item_end(code: &str, start: usize) -> usize {
    match body(code, start) {
        Some((_, end)) => end,
        None => code[start..]
            .find(';')
            .map_or(code.len(), |offset| start + offset + 1),
    }
}

/// The body of the item that begins at `start`: the bytes of its `{` and after its `}`. `None` if a `;` ends it.
pub fn body(code: &str, start: usize) -> Option<(usize, usize)> {
    let mut brackets = 0usize;
    let mut open = None;
    let mut braces = 0usize;
    for (offset, c) in code[start..].char_indices() {
        match (open, c) {
            (None, '(' | '[') => brackets += 1,
            (None, ')' | ']') => brackets = brackets.saturating_sub(1),
            (None, ';') if brackets == 0 => return None,
            (None, '{') if brackets == 0 => {
                open = Some(start + offset);
                braces = 1;
            }
            (Some(_), '{') => braces += 1,
            (Some(open), '}') => {
                braces -= 1;
                if braces == 0 {
                    return Some((open, start + offset + 1));
                }
            }
            _ => {}
        }
    }
    open.map(|open| (open, code.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_comments_and_characters_hide_what_is_in_them() {
        // `_` stands for a blank that hides something.
        let cases = [
            ("a // dbg!\nb", "a _______\nb"),
            ("a /* x /* y */ z */ b", "a _________________ b"),
            ("f(\"{ // \\\" }\", x)", "f(\"_________\", x)"),
            ("r#\"a \" b\"# c", "r#\"_____\"# c"),
            ("br\"{\" b\"{\" b'{' c", "br\"_\" b\"_\" b'_' c"),
            ("'{' '\\'' '\\u{7b}' 'a: &'a str", "'_' '__' '______' 'a: &'a str"),
            ("'\\\\', '\"' x", "'__', '_' x"),
            ("let r#type = var\"\";", "let r#type = var\"\";"),
            ("\"open", "\"____"),
            ("x // é\ny", "x _____\ny"),
        ];
        for (text, code) in cases {
            assert_eq!(
                Masked::new("src/a.rs", text).code,
                code.replace('_', " "),
                "{text}"
            );
        }
        let masked = Masked::new("src/a.rs", "x /// é {\n\"FIXME\" // y");
        assert_eq!(masked.comments, "  /// é {\n        // y");
    }

    #[test]
    fn test_items_are_told_from_the_rest() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { \"}\"; }\n}\nfn c() {}\n#[cfg(test)]\nmod t;\nx";
        let masked = Masked::new("src/a.rs", text);
        assert_eq!(
            masked.test_lines,
            [false, true, true, true, true, false, true, true, false]
        );
        assert!(Masked::new("crates/a/tests/b.rs", "x").is_test(1));
        assert!(Masked::new("crates/a/src/b/tests.rs", "x").is_test(1));
        assert!(!Masked::new("crates/a/src/attests.rs", "x").is_test(1));
    }

    #[test]
    fn bodies_are_found_past_arrays_in_the_signature() {
        let code = "fn a(x: [u8; 2]) -> u8 where T: A<{ 1 }> { { } } rest";
        let (_, end) = body("fn a(x: [u8; 2]) -> u8 { { } } rest", 0).expect("it has a body");
        assert_eq!(end, "fn a(x: [u8; 2]) -> u8 { { } }".len());
        assert!(body(code, 0).is_some());
        assert_eq!(body("fn a(x: [u8; 2]);\nfn b() {}", 0), None);
    }
}
