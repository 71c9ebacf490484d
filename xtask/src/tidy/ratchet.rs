//! The list of what is too large today: it may only shrink.
//!
//! A small part of TOML: sections, and lines of `"name" = number`.

use std::collections::BTreeMap;

/// Limits by section and name.
pub type Limits = BTreeMap<String, BTreeMap<String, usize>>;

/// Reads the list; the error names the line.
pub fn parse(text: &str) -> Result<Limits, usize> {
    let mut limits = Limits::new();
    let mut section: Option<String> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            limits.entry(name.to_owned()).or_default();
            section = Some(name.to_owned());
            continue;
        }
        let entry = line.split_once('=').and_then(|(name, number)| {
            let name = name.trim().strip_prefix('"')?.strip_suffix('"')?;
            Some((name.to_owned(), number.trim().parse().ok()?))
        });
        let (Some(section), Some((name, number))) = (&section, entry) else {
            return Err(index + 1);
        };
        limits.entry(section.clone()).or_default().insert(name, number);
    }
    Ok(limits)
}

/// Writes the list under a head of comments.
pub fn render(head: &str, limits: &Limits) -> String {
    let mut text = head.to_owned();
    for (section, entries) in limits {
        text.push_str(&format!("\n[{section}]\n"));
        for (name, number) in entries {
            text.push_str(&format!("\"{name}\" = {number}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let text = "# head\n\n[a]\n\"x/y.rs::z\" = 12\n\n[b]\n";
        let limits = parse(text).expect("it is well formed");
        assert_eq!(limits["a"]["x/y.rs::z"], 12);
        assert_eq!(render("# head\n", &limits), text);
        for (broken, line) in [("\"x\" = 1", 1), ("[a]\nx = 1", 2), ("[a]\n\n\"x\" = one", 3)] {
            assert_eq!(parse(broken), Err(line), "{broken}");
        }
    }
}
