//! Verbs whose functions can fail, and what a job says of programs that can't be built.

use std::sync::atomic::Ordering::Relaxed;

use tidegate::prelude::*;

fn run(env: &Environment) -> Result<JobOutcome, String> {
    let job = env
        .build()
        .map_err(|e| e.to_string())?
        .start(StartOptions::default())
        .expect("starts");
    job.wait_blocking().map_err(|e| {
        let mut text = e.to_string();
        let mut source = std::error::Error::source(&*e);
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        text
    })
}

/// Over all tasks of the last attempt.
fn records_skipped(job: &JobHandle) -> u64 {
    let tasks = job.status().subtasks;
    let skipped = tasks.iter().map(|t| &t.metrics.records_skipped);
    skipped.map(|n| n.load(Relaxed)).sum()
}

#[test]
fn a_skip_is_counted_though_nobody_reads_the_side_output() {
    let env = Environment::new("counts-skips");
    let (made, _bad) = texts(&env).try_map_or_side("map", |t: String| t.parse::<u64>());
    let _sink = made.discard("made");
    let job = env.build().expect("builds").start(StartOptions::default());
    let job = job.expect("starts");
    job.wait_blocking().expect("ends well");
    assert_eq!(records_skipped(&job), 2);
}

fn texts(env: &Environment) -> Stream<String> {
    texts_as(env, "texts")
}

fn texts_as(env: &Environment, name: &str) -> Stream<String> {
    let texts = ["1", "two", "30", "-"].map(str::to_owned).to_vec();
    env.from_collection(name, texts).uid(name)
}

// `&T` of `Stream<String>`.
#[allow(clippy::ptr_arg)]
fn digits(text: &String) -> Result<bool, std::num::ParseIntError> {
    Ok(text.parse::<u64>()? > 1)
}

fn dots(text: String) -> Result<Vec<u64>, std::num::ParseIntError> {
    let n = text.parse::<u64>()?;
    Ok(vec![n; n as usize])
}

const NO_DIGIT: &str = "invalid digit found in string";

#[test]
fn a_skipped_record_is_in_the_side_output_and_the_others_go_on() {
    let env = Environment::new("skips");
    let (k, not_k) = texts(&env).try_filter_or_side("filter", digits);
    let (i, no_i) = texts_as(&env, "more").try_flat_map_or_side("expand", dots);
    let collected = (k.collect("kept"), i.collect("items"));
    let skipped = (not_k.collect("not kept"), no_i.collect("no items"));
    let job = env.build().expect("builds").start(StartOptions::default());
    let job = job.expect("starts");
    assert_eq!(job.wait_blocking().expect("ends well"), JobOutcome::Finished);
    assert_eq!(collected.0.take(), ["30"]);
    assert_eq!(collected.1.take(), [vec![1], vec![30; 30]].concat());
    let bad = ["two", "-"].map(|text| (text.to_owned(), NO_DIGIT.to_owned()));
    assert_eq!(skipped.0.take(), bad);
    assert_eq!(skipped.1.take(), bad);
    assert_eq!(records_skipped(&job), 4);
}

#[test]
fn an_error_names_the_operator_and_ends_the_job() {
    type Grow = fn(&Environment);
    let programs: [(&str, Grow); 4] = [
        ("filter", |env| {
            let _sink = texts(env)
                .try_filter("check", digits)
                .uid("check")
                .discard("nothing");
        }),
        ("flat_map", |env| {
            let _sink = texts(env)
                .try_flat_map("check", dots)
                .uid("check")
                .discard("nothing");
        }),
        ("map", |env| {
            let made = texts(env).try_map("check", |t: String| t.parse::<u64>());
            let _sink = made.uid("check").discard("nothing");
        }),
        ("reduce", |env| {
            let reduced = texts(env).key_by(|_: &String| 0u8).try_reduce("check", |a, b| {
                dots(b)?;
                Ok::<_, std::num::ParseIntError>(a)
            });
            let _sink = reduced.uid("check").discard("nothing");
        }),
    ];
    for (verb, grow) in programs {
        let env = Environment::new(format!("fails-{verb}"));
        grow(&env);
        let error = run(&env).expect_err(verb);
        assert!(
            error.contains("check") && error.contains(NO_DIGIT),
            "{verb}: {error}"
        );
    }
}

#[test]
fn a_uid_names_the_operator_whichever_output_it_is_given_to() {
    let env = Environment::new("side-uid");
    let (main, side) = texts(&env).try_filter_or_side("filter", digits);
    let side = side.uid("filter-uid");
    let _sinks = (main.discard("main"), side.discard("side"));
    assert!(
        env.build()
            .expect("builds")
            .explain()
            .contains("uid `filter-uid`\n")
    );
    let (_main, _side) = (main.uid("filter-uid"), side.uid("another"));
    let problem = env.build().expect_err("two uids").to_string();
    assert!(problem.contains("`filter-uid` and `another`"), "{problem}");
}

#[test]
fn one_side_output_with_two_types_is_refused() {
    let env = Environment::new("side-types");
    let numbers = texts(&env).map("len", |t: String| t.len() as u64);
    let _first = numbers
        .side_output(&SideTag::<u8>::new(1, "bytes"))
        .discard("bytes");
    let _second = numbers
        .side_output(&SideTag::<String>::new(1, "words"))
        .discard("words");
    let problem = env.build().expect_err("two types").to_string();
    assert!(
        problem.contains("side output 1") && problem.contains("u8"),
        "{problem}"
    );
}

#[test]
fn whoever_runs_the_job_may_call_it_otherwise() {
    let mut env = Environment::new("by-the-program");
    env.configuration().add_argument("pipeline.name=by-the-operator");
    let _sink = texts(&env).discard("nothing");
    let job = env.build().expect("builds").start(StartOptions::default());
    let job = job.expect("starts");
    let status = job.status();
    assert_eq!(
        (status.name.as_str(), job.id().as_str()),
        ("by-the-operator", "by-the-operator")
    );
    job.wait_blocking().expect("ends well");
}

#[test]
fn a_divided_stream_has_the_stateless_verbs_too() {
    let env = Environment::new("keyed-verbs");
    let lengths = texts(&env)
        .key_by(|t: &String| t.clone())
        .as_stream()
        .map("len", |t: String| t.len())
        .parallelism(2)
        .collect("lengths");
    assert_eq!(run(&env), Ok(JobOutcome::Finished));
    let mut lengths = lengths.take();
    lengths.sort_unstable();
    assert_eq!(lengths, [1, 1, 2, 3]);
}
