//! What must hold for every declaration.

use std::collections::{BTreeMap, BTreeSet};

use crate::options::keys::ALL;
use crate::options::{Configuration, DefaultValue, Settings, environment_variable, table};

#[test]
fn keys_are_unique_lower_case_and_dotted() {
    let mut seen = BTreeSet::new();
    for option in ALL {
        let key = option.spec().key;
        assert!(seen.insert(key), "{key} is declared twice");
        let fine = |c: char| c.is_ascii_lowercase() || c == '.' || c == '-';
        assert!(key.contains('.') && key.chars().all(fine), "{key}");
    }
}

#[test]
fn no_two_keys_share_an_environment_variable() {
    let mut seen = BTreeMap::new();
    for option in ALL {
        let key = option.spec().key;
        if let Some(other) = seen.insert(environment_variable(key), key) {
            panic!("{key} and {other} share a variable");
        }
    }
}

#[test]
fn every_default_is_a_value_in_its_usual_notation() {
    for option in ALL {
        let spec = option.spec();
        match spec.default {
            DefaultValue::Value(text) => {
                assert_eq!(
                    option.canonical(text).as_deref(),
                    Some(text),
                    "default of {}",
                    spec.key
                );
            }
            DefaultValue::Unset(meaning) => {
                assert!(!meaning.is_empty(), "{} says what unset means", spec.key)
            }
        }
    }
}

#[test]
fn former_names_are_nobodys_present_name() {
    for option in ALL {
        for former in option.spec().former {
            assert!(
                ALL.iter().all(|other| other.spec().key != *former),
                "{former} is a key"
            );
        }
    }
}

/// Setting any option away from its default must change the settings: an option that nothing reads is a lie.
#[test]
fn every_option_is_read_into_the_settings() {
    let other = |key: &str| match key {
        "restart-strategy.type" => "fixed-delay",
        "execution.checkpointing.mode" => "aligned",
        "execution.checkpointing.externalized-checkpoint-retention" => "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.unaligned.enabled" => "true",
        "execution.checkpointing.checkpoints-after-tasks-finish" => "false",
        "execution.state-recovery.new-lineage" => "true",
        "restart-strategy.exponential-delay.jitter-factor" => "0.5",
        "execution.checkpointing.interval" | "execution.checkpointing.timeout" => "70 ms",
        _ => "7",
    };
    // What an option needs set besides, for the settings to hold its value.
    let context = |key: &str| match key {
        "execution.checkpointing.quiesce-limit" => Some(("execution.checkpointing.mode", "quiesce")),
        key if key.starts_with("restart-strategy.fixed") => Some(("restart-strategy.type", "fixed-delay")),
        key if key.starts_with("restart-strategy.exponential") => {
            Some(("restart-strategy.type", "exponential-delay"))
        }
        key if key.starts_with("restart-strategy.failure") => Some(("restart-strategy.type", "failure-rate")),
        _ => None,
    };
    for option in ALL {
        let key = option.spec().key;
        if key == "state.backend.type" {
            continue; // it has one value
        }
        let resolve = |set: bool| -> Settings {
            let mut configuration = Configuration::new();
            configuration.set_text("pipeline.name", "x");
            if key.contains("max-backoff") || key.contains("initial-backoff") {
                configuration.set_text("restart-strategy.exponential-delay.initial-backoff", "1 ms");
            }
            if let Some((key, text)) = context(key) {
                configuration.set_text(key, text);
            }
            if set {
                let text = if key == "task.gate.max-bytes" {
                    "7 kb"
                } else {
                    other(key)
                };
                configuration.set_text(key, text);
            }
            configuration
                .resolve()
                .unwrap_or_else(|errors| panic!("{key}: {errors}"))
        };
        assert_ne!(resolve(true), resolve(false), "{key} changes nothing");
    }
}

#[test]
fn the_table_has_a_row_for_every_option_in_order() {
    let rows: Vec<&str> = table().iter().map(|row| row.key).collect();
    let declared: Vec<&str> = ALL.iter().map(|option| option.spec().key).collect();
    assert_eq!(rows, declared);
}

#[test]
fn settings_survive_serialisation() {
    let mut configuration = Configuration::new();
    configuration
        .set_text("pipeline.name", "orders")
        .set_text("execution.checkpointing.interval", "3 s");
    let settings = configuration.resolve().unwrap();
    let bytes = rmp_serde::to_vec_named(&settings).unwrap();
    assert_eq!(rmp_serde::from_slice::<Settings>(&bytes).unwrap(), settings);
}
