//! Names of options: their environment variables, and what an unknown name was meant to be.
//!
//! Variables are derived from keys and never the other way round, so dots and dashes may both become `_`; that no
//! two keys share a variable is a test.

use super::error::Suggestion;
use super::keys::ALL;
use super::spec::Declared;

/// What the variables of options begin with.
pub(super) const ENV_PREFIX: &str = "TIDEGATE_";

/// Variables with our prefix that are not options: the configuration file's path, the log filter, and the build
/// cache of the test script.
const OTHER_VARIABLES: &[&str] = &["TIDEGATE_CONFIG", "TIDEGATE_LOG", "TIDEGATE_CACHE"];

/// Names longer than this are compared with nothing: the distance costs the product of both lengths.
const MAX_COMPARED_CHARS: usize = 128;

/// The environment variable of a key: `TIDEGATE_`, then the key in capitals with `_` for `.` and `-`.
pub fn environment_variable(key: &str) -> String {
    let name = key.chars().map(|c| {
        if c == '.' || c == '-' {
            '_'
        } else {
            c.to_ascii_uppercase()
        }
    });
    ENV_PREFIX.chars().chain(name).collect()
}

/// The declaration of a key.
pub(super) fn find(key: &str) -> Option<&'static dyn Declared> {
    ALL.iter().copied().find(|option| option.spec().key == key)
}

/// The declaration that an environment variable belongs to.
pub(super) fn find_variable(variable: &str) -> Option<&'static dyn Declared> {
    ALL.iter()
        .copied()
        .find(|option| environment_variable(option.spec().key) == variable)
}

/// Whether a variable that begins like ours is someone else's: one of the tools' own, or one of those that
/// Kubernetes puts into every pod for a service called `tidegate` or `tidegate-…`. One of the latter,
/// `TIDEGATE_REST_PORT=tcp://…`, has an option's very name and is told apart by its value.
pub(super) fn is_foreign_variable(variable: &str, value: &str) -> bool {
    let is_url = ["tcp://", "udp://", "sctp://"]
        .iter()
        .any(|scheme| value.starts_with(scheme));
    OTHER_VARIABLES.contains(&variable)
        || (variable.contains("_PORT") && is_url)
        || variable.ends_with("_SERVICE_HOST")
        || variable.contains("_SERVICE_PORT")
        || is_port_detail(variable)
}

/// `…_PORT_8081_TCP`, with `_ADDR`, `_PORT` or `_PROTO` after it.
fn is_port_detail(variable: &str) -> bool {
    let Some((_, detail)) = variable.split_once("_PORT_") else {
        return false;
    };
    let mut parts = detail.split('_');
    parts.next().is_some_and(|number| number.parse::<u16>().is_ok())
        && parts
            .next()
            .is_some_and(|protocol| ["TCP", "UDP", "SCTP"].contains(&protocol))
        && parts
            .next()
            .is_none_or(|what| ["ADDR", "PORT", "PROTO"].contains(&what))
        && parts.next().is_none()
}

/// What an unknown key was probably meant to be.
pub(super) fn suggest_key(unknown: &str) -> Suggestion {
    let renamed = ALL.iter().find(|option| option.spec().former.contains(&unknown));
    if let Some(option) = renamed {
        return Suggestion::Renamed(option.spec().key.to_owned());
    }
    suggest(
        unknown,
        ALL.iter().map(|option| option.spec().key.to_owned()),
        ['.', '-'],
    )
}

/// What an unknown variable was probably meant to be.
pub(super) fn suggest_variable(unknown: &str) -> Suggestion {
    suggest(
        unknown,
        ALL.iter().map(|option| environment_variable(option.spec().key)),
        ['_', '_'],
    )
}

/// The known name whose last parts are `unknown`, if there is just one; else the one the fewest edits away, if
/// these are at most a quarter of it.
fn suggest(unknown: &str, known: impl Iterator<Item = String>, separators: [char; 2]) -> Suggestion {
    let known: Vec<String> = known.collect();
    let mut tails = known.iter().filter(|name| {
        name.strip_suffix(unknown)
            .is_some_and(|head| !unknown.is_empty() && head.ends_with(separators))
    });
    if let (Some(name), None) = (tails.next(), tails.next()) {
        return Suggestion::Nearest(name.clone());
    }
    if unknown.chars().count() > MAX_COMPARED_CHARS {
        return Suggestion::Nothing;
    }
    let nearest = known.iter().map(|name| (distance(unknown, name), name)).min();
    match nearest {
        Some((edits, name)) if edits <= (name.len() / 4).max(1) => Suggestion::Nearest(name.clone()),
        _ => Suggestion::Nothing,
    }
}

/// Insertions, deletions, replacements and swaps of neighbours that make one text of the other (the restricted
/// Damerau–Levenshtein distance, by rows).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_each_kind_of_edit_once() {
        for (a, b, edits) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "abd", 1),
            ("abc", "ac", 1),
            ("acb", "abc", 1),
        ] {
            assert_eq!(distance(a, b), edits, "{a} to {b}");
            assert_eq!(distance(b, a), edits, "{b} to {a}");
        }
    }
}
