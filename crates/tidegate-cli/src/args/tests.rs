//! Command lines, right and wrong.

use clap::CommandFactory;

use super::*;

fn parse(line: &str) -> Result<Cli, String> {
    let words = std::iter::once("tidegate").chain(line.split_whitespace());
    Cli::try_parse_from(words)
        .map(Cli::with_defines)
        .map_err(|error| error.to_string())
}

fn parsed(line: &str) -> Cli {
    parse(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn the_declaration_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn global_flags_may_stand_on_both_sides_of_the_command() {
    for line in [
        "--restore latest --rest 0 --job-id a -D x=1 --new-lineage --trace-checkpoint 3 demo wordcount --input i \
         --output o",
        "demo wordcount --input i --output o --restore latest --rest 0 --job-id a -D x=1 --new-lineage \
         --trace-checkpoint 3",
    ] {
        let global = parsed(line).global;
        assert_eq!(global.restore, Some(RestoreFrom::Latest), "{line}");
        assert_eq!(
            global.rest,
            Some(RestAddress {
                host: "localhost".into(),
                port: 0
            }),
            "{line}"
        );
        assert_eq!(global.job_id.as_deref(), Some("a"), "{line}");
        assert_eq!(global.define, ["x=1"], "{line}");
        assert_eq!(
            (global.new_lineage, global.trace_checkpoint),
            (true, Some(3)),
            "{line}"
        );
    }
}

#[test]
fn definitions_on_both_sides_are_all_kept_and_the_later_ones_stand_last() {
    let cli = parsed("-D a=1 -Db=2 config -D c=3 -D a=4");
    assert_eq!(cli.global.define, ["a=1", "b=2", "c=3", "a=4"]);
    let cli = parsed("-D a=1 cancel");
    assert_eq!(cli.global.define, ["a=1"]);
}

#[test]
fn inputs_may_be_several() {
    let cli = parsed("demo wordcount --input a b --input c --output o --interval off");
    let Command::Demo(DemoCommand::Wordcount(args)) = cli.command else {
        panic!("another command")
    };
    assert_eq!(args.input, ["a", "b", "c"].map(PathBuf::from));
    assert_eq!(args.interval, Some(MaybeTime(None)));
    assert_eq!(args.on_error, OnError::Fail);
}

#[test]
fn modes_are_a_list_or_all() {
    use CheckpointingMode::{Adaptive, Aligned, Unaligned};
    assert_eq!(
        modes("aligned, UNALIGNED,exactly_once"),
        Ok(Modes(vec![Aligned, Unaligned, Adaptive]))
    );
    assert_eq!(modes("ALL").map(|m| m.0.len()), Ok(5));
    let error = modes("aligned,fast").expect_err("there is no such mode");
    assert!(error.contains("`at-least-once`"), "{error}");
    assert!(modes("").is_err());
}

#[test]
fn addresses_are_read_in_every_form() {
    let address = |host: &str, port| {
        Ok(RestAddress {
            host: host.to_owned(),
            port,
        })
    };
    assert_eq!(rest_address("9000"), address("localhost", 9000));
    assert_eq!(rest_address(":9000"), address("localhost", 9000));
    assert_eq!(rest_address("http://10.1.2.3:80/"), address("10.1.2.3", 80));
    assert_eq!(rest_address("example"), address("example", REST_PORT));
    assert_eq!(rest_address("[::1]:80"), address("[::1]", 80));
    assert_eq!(rest_address("[::1]"), address("[::1]", REST_PORT));
    assert_eq!(rest_address("::1"), address("::1", REST_PORT));
    for wrong in ["", "http://", "70000", "a:b", "a:70000", "http://a/jobs"] {
        assert!(rest_address(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn wrong_values_say_what_is_expected() {
    for (line, expected) in [
        ("demo backpressure --in-flight fixed:0", "fixed:N"),
        ("demo backpressure --work soon", "expected"),
        ("demo backpressure --interval 0ms", "above zero"),
        ("demo backpressure --checkpoints 1", "2..=1000"),
        ("demo backpressure --preset other", "published"),
        ("demo wordcount --output o", "--input"),
        ("demo wordcount --input i --output o --on-error ignore", "skip"),
        ("config --json --markdown", "cannot be used with"),
        ("demo wordcunt", "wordcount"),
        ("checkpoint show", "PATH"),
    ] {
        let error = parse(line).expect_err(line);
        assert!(error.contains(expected), "{line}: {error}");
    }
}
