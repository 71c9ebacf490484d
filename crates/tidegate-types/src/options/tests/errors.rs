//! What a person reads when something is wrong.

use std::time::Duration;

use proptest::prelude::*;

use super::{problem_of, problems};
use crate::options::{Configuration, keys};
use crate::{JobId, Parallelism};

#[test]
fn a_misspelt_key_gets_its_place_and_the_nearest_one() {
    let message = problem_of("pipeline.name: x\nexecution:\n  checkpointing:\n    intervall: 10 s\n");
    assert_eq!(
        message,
        "`execution.checkpointing.intervall` (job.yaml:4) is not an option; \
         did you mean `execution.checkpointing.interval`?"
    );
}

#[test]
fn suggestions_know_tails_swaps_and_former_names() {
    let suggested = |key: &str| problem_of(&format!("{key}: 1"));
    assert!(suggested("num-retained").ends_with("did you mean `execution.checkpointing.num-retained`?"));
    assert!(suggested("parallelism.defualt").ends_with("did you mean `parallelism.default`?"));
    assert!(suggested("state.checkpoints.dir").ends_with("its name is now `execution.checkpointing.dir`"));
    assert!(suggested("kafka.bootstrap.servers").ends_with("`tidegate config` lists all options"));
    assert!(suggested("execution.checkpointing.interval.x").contains("`execution.checkpointing.interval`?"));
}

#[test]
fn a_bad_value_says_what_was_expected() {
    assert_eq!(
        problem_of("execution.checkpointing.timeout: 10 parsecs"),
        "`execution.checkpointing.timeout` = `10 parsecs` (job.yaml:1): \
         expected a duration such as `500 ms`, `10 min` or `PT1H30M`, at least 10 ms"
    );
    assert_eq!(
        problem_of("execution.checkpointing.externalized-checkpoint-retention: NO"),
        "`execution.checkpointing.externalized-checkpoint-retention` = `NO` (job.yaml:1): \
         expected one of `DELETE_ON_CANCELLATION`, `RETAIN_ON_CANCELLATION`"
    );
    let long = "x".repeat(10_000);
    assert!(
        problem_of(&format!("parallelism.default: {long}")).len() < 250,
        "long values are cut"
    );
}

#[test]
fn ranges_hold_in_every_source() {
    let mut configuration = Configuration::new();
    configuration.set_text("execution.checkpointing.num-retained", "0");
    configuration.add_environment([(
        "TIDEGATE_EXECUTION_CHECKPOINTING_INTERVAL".to_owned(),
        "1 us".to_owned(),
    )]);
    configuration.add_argument("pipeline.job-id=../x");
    let problems = problems(&configuration);
    assert_eq!(problems.len(), 3, "{problems:#?}");
    assert!(
        problems[0].contains("tests/errors.rs:") && problems[0].ends_with("at least 1"),
        "{}",
        problems[0]
    );
    assert!(problems[1].contains("(environment variable TIDEGATE_EXECUTION_CHECKPOINTING_INTERVAL)"));
    assert!(problems[2].contains("(-D)"), "{}", problems[2]);
}

#[test]
fn a_flag_is_named_as_it_was_given() {
    let mut configuration = Configuration::new();
    configuration
        .set_flag(
            "--interval",
            &keys::CHECKPOINT_INTERVAL,
            Some(Duration::from_millis(3)),
        )
        .set_flag("--job-id", &keys::JOB_ID, JobId::new("a/b"))
        .set_flag("--parallelism", &keys::PARALLELISM, Parallelism(500));
    assert_eq!(
        problems(&configuration),
        [
            "`execution.checkpointing.interval` = `3 ms` (--interval): expected `off`, or a duration such as \
             `500 ms`, `10 min` or `PT1H30M`, at least 10 ms",
            "`pipeline.job-id` = `a/b` (--job-id): expected a text of 1 to 200 bytes without control characters, \
             `/` and `\\`, not starting with `.`",
            "`parallelism.default` = 500 (--parallelism) is above `pipeline.max-parallelism` = 128 (default); \
             lower the first, or raise the second if there is no state to restore",
        ]
    );
}

#[test]
fn what_is_no_yaml_is_said_in_words() {
    for (yaml, said) in [
        ("a: b\n\tc", ""),
        ("pipeline:\n\tname: x", "tab"),
        ("pipeline.name: a\0b", ""),
        ("pipeline.name: \"open", "unclosed quote"),
    ] {
        let problem = problem_of(yaml);
        let (place, words) = problem.rsplit_once(": ").expect("place and words");
        assert!(place.starts_with("job.yaml:"), "{problem}");
        assert!(words.len() > 5 && words.contains(said), "{yaml:?}: {problem}");
    }
    assert!(problem_of(&"{a: ".repeat(300)).ends_with("nested deeper than 32 levels"));
}

#[test]
fn a_bad_value_is_a_problem_even_where_it_is_overridden() {
    let mut configuration = Configuration::new();
    configuration.add_file("job.yaml", "parallelism.default: many");
    configuration.add_argument("parallelism.default=4");
    assert_eq!(problems(&configuration).len(), 1);
}

#[test]
fn a_file_that_is_no_configuration_is_given_up_on() {
    let mut configuration = Configuration::new();
    let lines: String = (0..1_000).map(|n| format!("key-{n}: value\n")).collect();
    configuration.add_file("words.yaml", &lines);
    assert_eq!(problems(&configuration).len(), 100);
}

#[test]
fn unknown_variables_and_malformed_arguments() {
    let mut configuration = Configuration::new();
    configuration.add_environment([("TIDEGATE_PARALELISM_DEFAULT".to_owned(), "2".to_owned())]);
    configuration.add_argument("parallelism.default");
    configuration.add_argument("parallelism.default=");
    assert_eq!(
        problems(&configuration),
        [
            "`TIDEGATE_PARALELISM_DEFAULT` (environment variable TIDEGATE_PARALELISM_DEFAULT) is not an option; \
             did you mean `TIDEGATE_PARALLELISM_DEFAULT`?",
            "-D parallelism.default: expected -D key=value",
            "`parallelism.default` = `` (-D): expected a whole number from 1 to 32768",
        ]
    );
}

#[test]
fn what_configuration_does_not_use_of_yaml_is_refused_by_line() {
    assert_eq!(
        problem_of("pipeline.name: a\npipeline:\n  name: b\n"),
        "`pipeline.name` is set twice in one file (job.yaml:1 and job.yaml:3); remove one of them"
    );
    assert!(problem_of("pipeline.name:\n").starts_with("`pipeline.name` (job.yaml:1) has no value"));
    assert_eq!(
        problem_of("pipeline:\n  name: [a, {b: c}]\n  max-parallelism: 3\n"),
        "`pipeline.name` (job.yaml:2) is a list; no option takes one"
    );
    assert!(problem_of("- a\n").starts_with("job.yaml:1:1: expected `key: value` lines, found a list"));
    assert!(problem_of("just words").starts_with("job.yaml:1:1: expected `key: value` lines"));
    assert!(problem_of("pipeline.name: &a x\npipeline.job-id: *a\n").starts_with("job.yaml:2:18: aliases"));
    assert!(
        problem_of("pipeline.name: a\n---\npipeline.name: b\n")
            .starts_with("job.yaml:2:1: a second document")
    );
    assert!(
        problem_of("pipeline.name: \"open\nx").starts_with("job.yaml:"),
        "a syntax error has a place"
    );
    assert!(
        problem_of(&"{a: ".repeat(300)).starts_with("job.yaml:1:"),
        "deep nesting is refused"
    );
    assert!(problem_of(&" ".repeat(2 << 20)).contains("more than 1048576"));
}

proptest! {
    /// Whatever a file, a variable or an argument holds: an answer, never a panic.
    #[test]
    fn no_text_panics(text in "[-a-z:{}\\[\\]&*!|>'\"%#@ \\n\\t,.?~0-9]{0,120}", wild in any::<String>()) {
        for text in [&text, &wild] {
            let mut configuration = Configuration::new();
            configuration.add_file("job.yaml", text);
            configuration.add_argument(text);
            configuration.set_text("task.gate.budget", text);
            configuration.add_environment([(format!("TIDEGATE_{text}"), text.clone())]);
            if let Err(errors) = configuration.resolve() {
                prop_assert!(!errors.to_string().is_empty());
            }
        }
    }
}
