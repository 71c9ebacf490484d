//! Banned identifiers, each with its replacement.

use super::Report;
use crate::tree::Tree;

/// Where a ban holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// In all Rust code.
    Everywhere,
    /// In tests and benchmarks.
    Tests,
    /// In the libraries under `crates/`, outside of their tests.
    Libraries,
}

/// One banned text.
struct Ban {
    text: &'static str,
    holds: Where,
    /// Beginnings or ends of paths where it is allowed.
    except: &'static [&'static str],
    instead: &'static str,
}

const fn ban(
    text: &'static str,
    holds: Where,
    except: &'static [&'static str],
    instead: &'static str,
) -> Ban {
    Ban {
        text,
        holds,
        except,
        instead,
    }
}

/// Files that read the clock so that nothing else does.
const CLOCKS: &[&str] = &["/clock.rs", "bench/", "examples/", "xtask/"];

/// Programs, which own their process; a library shares it with the program it is in.
const PROGRAMS: &[&str] = &[
    "crates/tidegate-cli/",
    "crates/tidegate-sim/src/main.rs",
    "xtask/",
    "bench/",
    "examples/",
];

// A table, one ban a line.
#[rustfmt::skip]
const BANS: &[Ban] = &[
    ban("dbg!", Where::Everywhere, &[], "remove it"),
    ban("todo!", Where::Everywhere, &[], "do it, or return a typed error"),
    ban("unimplemented!", Where::Everywhere, &[], "do it, or return a typed error"),
    ban("assert!(true", Where::Everywhere, &[], "a test that can't fail proves nothing"),
    ban("#[ignore", Where::Everywhere, &[], "a test that isn't run proves nothing: mend it or remove it"),
    ban("allow(dead_code)", Where::Everywhere, &[], "remove what nobody uses"),
    ban("expect(dead_code", Where::Everywhere, &[], "remove what nobody uses"),
    ban("allow(unused", Where::Everywhere, &[], "remove what nobody uses"),
    ban("static mut", Where::Everywhere, &[], "pass the state as a value"),
    ban("lazy_static!", Where::Everywhere, &[], "std::sync::LazyLock, or better: pass the value"),
    ban("env::set_var", Where::Everywhere, &[], "pass the value; the environment is shared by all threads"),
    ban("set_current_dir", Where::Everywhere, &[], "pass the directory; the current one is the process's"),
    ban("thread::sleep", Where::Everywhere, &["bench/", "examples/"], "wait for a signal, with a time limit"),
    ban("sleep(", Where::Tests, &[], "wait for a signal, or move the virtual clock"),
    ban("yield_now(", Where::Tests, &[], "wait for a signal, or move the virtual clock"),
    ban("Instant::now", Where::Everywhere, CLOCKS, "take the time as an argument; only the clock reads it"),
    ban("SystemTime::now", Where::Everywhere, CLOCKS, "take the time as an argument; only the clock reads it"),
    ban("thread_rng", Where::Everywhere, &[], "take a seed as an argument"),
    ban("rand::random", Where::Everywhere, &[], "take a seed as an argument"),
    ban("unbounded_channel", Where::Libraries, &[], "give the queue a limit with a name and a reason"),
    ban("process::exit", Where::Libraries, PROGRAMS, "return an error; exiting is the program's decision"),
    ban("set_hook(", Where::Libraries, PROGRAMS, "catch_unwind; the panic hook is the program's"),
    ban("ctrl_c(", Where::Libraries, PROGRAMS, "signals are the program's"),
];

/// Whether a line of code has a text as whole words.
pub fn has(line: &str, text: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let begins_word = text.starts_with(is_word);
    let ends_word = text.ends_with(is_word);
    line.match_indices(text).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + text.len()..].chars().next();
        let continues = begins_word && before.is_some_and(is_word) || ends_word && after.is_some_and(is_word);
        !continues
    })
}

/// Looks for every ban in every line of code.
pub fn check(tree: &Tree, report: &mut Report) {
    for (path, _, rust) in tree.rust() {
        for (line, text) in rust.code_lines() {
            let in_test = rust.is_test(line);
            let holds = |ban: &&Ban| match ban.holds {
                Where::Everywhere => true,
                Where::Tests => in_test,
                Where::Libraries => path.starts_with("crates/") && !in_test,
            };
            let excepted = |ban: &Ban| {
                ban.except
                    .iter()
                    .any(|part| path.starts_with(part) || path.ends_with(part))
            };
            for ban in BANS
                .iter()
                .filter(holds)
                .filter(|ban| !excepted(ban) && has(text, ban.text))
            {
                report.line(path, line, format!("`{}`: {}", ban.text, ban.instead));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::said;
    use super::*;

    #[test]
    fn bans_hold_where_they_should() {
        let source = "fn a() { dbg!(1); xdbg!(); \"todo!\"; /* todo! */ }\nfn b() { sleep(1); process::exit(1) }\n\
                      #[cfg(test)]\nmod tests { fn c() { tokio::time::sleep(1) } }\n";
        assert_eq!(
            said(check, &[("crates/a/src/lib.rs", source)]),
            [
                "crates/a/src/lib.rs:1: `dbg!`: remove it",
                "crates/a/src/lib.rs:2: `process::exit`: return an error; exiting is the program's decision",
                "crates/a/src/lib.rs:4: `sleep(`: wait for a signal, or move the virtual clock",
            ]
        );
        let clock = "fn now() { Instant::now() }";
        assert_eq!(said(check, &[("crates/a/src/clock.rs", clock)]), [""; 0]);
        assert_eq!(said(check, &[("crates/a/src/o_clock.rs", clock)]).len(), 1);
    }

    #[test]
    fn every_ban_fires() {
        for ban in BANS {
            let code = format!("fn a() {{ {} }}", ban.text);
            let path = if ban.holds == Where::Tests {
                "crates/a/tests/a.rs"
            } else {
                "crates/a/src/a.rs"
            };
            assert!(!said(check, &[(path, &code)]).is_empty(), "{}", ban.text);
        }
    }

    #[test]
    fn texts_match_as_whole_words() {
        assert!(has("x.sleep(1)", "sleep(") && has("sleep(1)", "sleep("));
        assert!(!has("asleep(1)", "sleep(") && !has("Instant::nowhere", "Instant::now"));
    }
}
