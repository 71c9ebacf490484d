//! Makes `docs/configuration.md` and the rows of `tidegate config` from the declarations.
//!
//! The prose in front is `intro.md`; the tables, the one of modes included, are computed.

use std::fmt::Write;

use serde::Serialize;

use super::configuration::Configuration;
use super::keys::{self, ALL};
use super::kinds::CheckpointingMode;
use super::names::environment_variable;
use super::spec::{Declared, Flink};
use super::value::OptionValue;
use crate::barrier::SnapshotMode;

/// One option as a person reads about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The part of the table it belongs to.
    pub group: &'static str,
    /// Dotted key.
    pub key: &'static str,
    /// Its environment variable.
    pub environment: String,
    /// Type, with the range if there is one.
    pub type_name: String,
    /// What holds when nobody sets it.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// Flink's counterpart and how it differs.
    pub flink: String,
}

/// Every option, in the order of the documentation.
pub fn table() -> Vec<Row> {
    ALL.iter().map(|option| row(*option)).collect()
}

fn row(option: &dyn Declared) -> Row {
    let spec = option.spec();
    let range = spec.range.map_or_else(String::new, |range| format!(", {range}"));
    Row {
        group: spec.group,
        key: spec.key,
        environment: environment_variable(spec.key),
        type_name: format!("{}{range}", option.type_name()),
        default: spec.default.shown(),
        meaning: spec.meaning,
        flink: match spec.flink {
            Flink::Same => "same".to_owned(),
            Flink::Differs(how) => format!("same key. {how}"),
            Flink::Other(key, how) => format!("`{key}`. {how}"),
            Flink::None => "none".to_owned(),
        },
    }
}

/// The text of `docs/configuration.md`.
pub fn markdown() -> String {
    let mut out = include_str!("intro.md").to_owned();
    push_modes(&mut out);
    let mut group = "";
    for row in table() {
        if row.group != group {
            group = row.group;
            line(&mut out, format_args!("\n## {group}\n"));
            line(
                &mut out,
                format_args!("| Key | Type | Default | Meaning | In Flink |\n|---|---|---|---|---|"),
            );
        }
        let Row {
            key,
            type_name,
            default,
            meaning,
            flink,
            ..
        } = row;
        line(
            &mut out,
            format_args!("| `{key}` | {type_name} | {default} | {meaning} | {flink} |"),
        );
    }
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing into a string doesn't fail");
}

/// The table of modes: each cell is what [`Configuration::resolve`] says.
fn push_modes(out: &mut String) {
    line(
        out,
        format_args!("| mode | unaligned.enabled | timeout unset | timeout `0 ms` | timeout `5 s` |"),
    );
    line(out, format_args!("|---|---|---|---|---|"));
    let modes = [
        CheckpointingMode::ExactlyOnce,
        CheckpointingMode::Aligned,
        CheckpointingMode::Unaligned,
        CheckpointingMode::Adaptive,
        CheckpointingMode::AtLeastOnce,
        CheckpointingMode::Quiesce,
    ];
    for mode in modes {
        for enabled in [None, Some(true), Some(false)] {
            let shown = enabled.map_or_else(|| "unset".to_owned(), |enabled: bool| enabled.to_string());
            let cells = [None, Some("0 ms"), Some("5 s")].map(|timeout| mode_cell(mode, enabled, timeout));
            line(
                out,
                format_args!("| {} | {shown} | {} |", mode.render(), cells.join(" | ")),
            );
        }
    }
}

fn mode_cell(mode: CheckpointingMode, enabled: Option<bool>, timeout: Option<&str>) -> String {
    let mut configuration = Configuration::new();
    configuration.set(&keys::CHECKPOINT_MODE, mode);
    if let Some(enabled) = enabled {
        configuration.set(&keys::UNALIGNED_ENABLED, enabled);
    }
    if let Some(timeout) = timeout {
        configuration.set_text(keys::ALIGNED_TIMEOUT.key(), timeout);
    }
    match configuration.resolve() {
        Err(_) => "refused".to_owned(),
        Ok(settings) => match settings.checkpoints.mode {
            SnapshotMode::Adaptive { timeout } => format!("adaptive after {}", timeout.render()),
            mode => mode.name().to_owned(),
        },
    }
}
