//! Where values come from and which one wins.

use std::time::Duration;

use super::problems;
use crate::JobId;
use crate::options::{Configuration, Origin, keys};

fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// All sources set the timeout; with each that is left out, the next weaker one wins.
#[test]
fn later_sources_win() {
    for strongest in 0..=5 {
        let mut configuration = Configuration::new();
        if strongest >= 5 {
            configuration.add_argument("execution.checkpointing.timeout=5s");
        }
        if strongest >= 4 {
            configuration.set_flag("--timeout", &keys::CHECKPOINT_TIMEOUT, Duration::from_secs(4));
        }
        if strongest >= 3 {
            configuration.add_environment(environment(&[(
                "TIDEGATE_EXECUTION_CHECKPOINTING_TIMEOUT",
                "3 s",
            )]));
        }
        if strongest >= 2 {
            configuration.add_file("job.yaml", "execution.checkpointing.timeout: 2 s");
        }
        if strongest >= 1 {
            configuration.set(&keys::CHECKPOINT_TIMEOUT, Duration::from_secs(1));
        }
        let expected = if strongest == 0 {
            Duration::from_secs(600)
        } else {
            Duration::from_secs(strongest)
        };
        assert_eq!(
            configuration.resolve().unwrap().checkpoints.timeout,
            expected,
            "{strongest}"
        );
    }
}

#[test]
fn nested_flat_and_mixed_files_say_the_same() {
    let files = [
        "execution:\n  checkpointing:\n    interval: 10 s\n    dir: /data\npipeline:\n  name: orders\n",
        "execution.checkpointing.interval: 10s\nexecution.checkpointing.dir: /data\npipeline.name: orders\n",
        "execution.checkpointing: {interval: 10000, dir: '/data'}\npipeline: {name: \"orders\"}\n",
        "# settings\n---\nexecution:\n  checkpointing.interval: PT10S # ISO\nexecution.checkpointing:\n  dir: /data\npipeline.name: orders",
    ];
    for file in files {
        let mut configuration = Configuration::new();
        configuration.add_file("job.yaml", file);
        let settings = configuration.resolve().unwrap();
        assert_eq!(
            settings.checkpoints.interval,
            Some(Duration::from_secs(10)),
            "{file}"
        );
        assert_eq!(settings.checkpoints.dir.as_deref(), Some("/data"), "{file}");
        assert_eq!(settings.job.name, "orders", "{file}");
        assert_eq!(settings.job.id, JobId::new("orders"), "{file}");
    }
}

#[test]
fn empty_files_set_nothing() {
    for file in ["", "# nothing\n", "---\n", "{}", "\u{feff}pipeline.name: x"] {
        let mut configuration = Configuration::new();
        configuration.add_file("job.yaml", file);
        assert_eq!(problems(&configuration), [""; 0], "{file:?}");
    }
}

#[test]
fn a_later_file_wins_over_an_earlier_one() {
    let mut configuration = Configuration::new();
    configuration.add_file("base.yaml", "parallelism.default: 2\npipeline.name: base");
    configuration.add_file("job.yaml", "parallelism.default: 4");
    let settings = configuration.resolve().unwrap();
    assert_eq!(
        (settings.job.parallelism.0, settings.job.name.as_str()),
        (4, "base")
    );
}

#[test]
fn variables_of_others_are_ignored() {
    let mut configuration = Configuration::new();
    configuration.add_environment(environment(&[
        ("PATH", "/bin"),
        ("TIDEGATE_CONFIG", "job.yaml"),
        ("TIDEGATE_SERVICE_HOST", "10.0.0.1"),
        ("TIDEGATE_SERVICE_PORT", "8081"),
        ("TIDEGATE_SERVICE_PORT_REST", "8081"),
        ("TIDEGATE_PORT", "tcp://10.0.0.1:8081"),
        ("TIDEGATE_PORT_8081_TCP", "tcp://10.0.0.1:8081"),
        ("TIDEGATE_PORT_8081_TCP_PROTO", "tcp"),
        ("TIDEGATE_REST_PORT", "tcp://10.0.0.1:8081"),
        ("TIDEGATE_REST_PORT_8081_TCP_ADDR", "10.0.0.1"),
    ]));
    assert_eq!(
        configuration.resolve().unwrap(),
        Configuration::new().resolve().unwrap()
    );
}

#[test]
fn the_effective_table_says_who_set_what() {
    let mut configuration = Configuration::new();
    let line = line!() + 1;
    configuration.set(&keys::CHECKPOINT_TIMEOUT, Duration::from_secs(60));
    configuration.add_file("job.yaml", "pipeline:\n  name: orders\n");
    configuration.add_environment(environment(&[("TIDEGATE_PARALLELISM_DEFAULT", "04")]));
    configuration.add_argument("execution.checkpointing.interval=90s");
    let rows = configuration.effective();
    let row = |key: &str| rows.iter().find(|row| row.key == key).unwrap();
    assert_eq!(row("execution.checkpointing.timeout").value, "1 min");
    assert!(
        matches!(&row("execution.checkpointing.timeout").origin, Origin::Code { file, line: at } if file.ends_with("sources.rs") && *at == line)
    );
    assert_eq!(
        row("pipeline.name").origin,
        Origin::File {
            name: "job.yaml".to_owned(),
            line: 2
        }
    );
    assert_eq!(
        row("parallelism.default").value,
        "4",
        "shown in the usual notation"
    );
    assert_eq!(row("execution.checkpointing.interval").value, "90 s");
    assert_eq!(
        row("execution.checkpointing.interval").origin,
        Origin::CommandLine
    );
    assert_eq!(row("rest.port").origin, Origin::Default);
}
