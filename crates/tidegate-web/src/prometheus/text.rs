//! Prometheus' text format, version 0.0.4.
//!
//! Owns: its rules. A family stands once, with its `HELP` and `TYPE`, and all its samples together; a sample's labels
//! are unique in it; backslash, line feed and, in label values, the quote are escaped. Families are sorted by name, so
//! that two answers can be compared.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The type of the body.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Labels in the order in which they are written.
pub(super) type Labels<'a> = [(&'static str, &'a str)];

#[derive(Debug)]
struct Family {
    help: &'static str,
    samples: String,
}

/// Families of gauges, being collected.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    families: BTreeMap<String, Family>,
}

impl Exposition {
    /// Adds a sample to a family. The caller sees to it that its labels are unique.
    pub(super) fn gauge(&mut self, name: &str, help: &'static str, labels: &Labels<'_>, value: f64) {
        debug_assert!(is_name(name), "`{name}` is no metric name");
        let family = match self.families.get_mut(name) {
            Some(family) => family,
            None => {
                let family = Family {
                    help,
                    samples: String::new(),
                };
                self.families.entry(name.to_owned()).or_insert(family)
            }
        };
        family.samples.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            family.samples.push(if at == 0 { '{' } else { ',' });
            family.samples.push_str(label);
            family.samples.push_str("=\"");
            escape(text, true, &mut family.samples);
            family.samples.push('"');
        }
        if !labels.is_empty() {
            family.samples.push('}');
        }
        family.samples.push(' ');
        number(value, &mut family.samples);
        family.samples.push('\n');
    }

    /// The body.
    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        for (name, family) in &self.families {
            text.push_str("# HELP ");
            text.push_str(name);
            text.push(' ');
            escape(family.help, false, &mut text);
            text.push_str("\n# TYPE ");
            text.push_str(name);
            text.push_str(" gauge\n");
            text.push_str(&family.samples);
        }
        text
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
    !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.bytes().all(is_part)
}

fn escape(text: &str, quotes: bool, into: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => into.push_str("\\\\"),
            '\n' => into.push_str("\\n"),
            '"' if quotes => into.push_str("\\\""),
            c => into.push(c),
        }
    }
}

fn number(value: f64, into: &mut String) {
    // A String takes everything.
    let _always = match value {
        f64::INFINITY => write!(into, "+Inf"),
        f64::NEG_INFINITY => write!(into, "-Inf"),
        value => write!(into, "{value}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_sorted_and_samples_stand_together() {
        let mut text = Exposition::default();
        text.gauge("b_two", "the second", &[("job", "x")], 1.0);
        text.gauge("a_one", "the first", &[], 2.5);
        text.gauge("b_two", "the second", &[("job", "y"), ("task", "z")], -1.0);
        assert_eq!(
            text.render(),
            "# HELP a_one the first\n# TYPE a_one gauge\na_one 2.5\n\
             # HELP b_two the second\n# TYPE b_two gauge\nb_two{job=\"x\"} 1\nb_two{job=\"y\",task=\"z\"} -1\n"
        );
    }

    #[test]
    fn what_would_end_a_value_or_a_line_is_escaped() {
        let mut text = Exposition::default();
        text.gauge(
            "a",
            "a \\ and\na \"quote\"",
            &[("l", "a \\ and\na \"quote\"")],
            0.0,
        );
        assert_eq!(
            text.render(),
            "# HELP a a \\\\ and\\na \"quote\"\n# TYPE a gauge\na{l=\"a \\\\ and\\na \\\"quote\\\"\"} 0\n"
        );
    }

    #[test]
    fn numbers_are_as_prometheus_reads_them() {
        let written = |value: f64| {
            let mut text = String::new();
            number(value, &mut text);
            text
        };
        assert_eq!(written(1_700_000_000_123.0), "1700000000123");
        assert_eq!(written(f64::INFINITY), "+Inf");
        assert_eq!(written(f64::NEG_INFINITY), "-Inf");
        assert_eq!(written(f64::NAN), "NaN");
        assert_eq!(written(0.25), "0.25");
    }
}
