//! `tidegate config`: every option, generated from its declaration.

use serde::Serialize;
use tidegate_types::options::{Configuration, Effective, Origin, Row, markdown, table};

use crate::args::ConfigArgs;
use crate::console::Console;
use crate::error::CliError;

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    row: Row,
    value: String,
    origin: String,
}

/// Prints the options with what holds for each.
pub(crate) fn run(
    console: &Console,
    configuration: &Configuration,
    args: &ConfigArgs,
) -> Result<(), CliError> {
    if args.markdown {
        return console.line(markdown().trim_end());
    }
    check(configuration)?;
    if args.json {
        let all: Vec<Shown> = shown(configuration).collect();
        let text = serde_json::to_string_pretty(&all).map_err(|e| CliError::Failed(e.to_string()))?;
        return console.line(text);
    }
    let mut group = "";
    for Shown { row, value, origin } in shown(configuration) {
        if row.group != group {
            let gap = if group.is_empty() { "" } else { "\n" };
            console.line(format_args!(
                "{gap}{}\n{}",
                row.group,
                "=".repeat(row.group.chars().count())
            ))?;
            group = row.group;
        }
        console.line(format_args!("\n{} = {value}  ({origin})", row.key))?;
        console.line(format_args!(
            "    {}, default {}; {}",
            row.type_name, row.default, row.environment
        ))?;
        console.line(format_args!("    {}", row.meaning))?;
        console.line(format_args!("    Flink: {}", row.flink))?;
    }
    Ok(())
}

/// Problems of the configuration, except that a job without a name is none here: there is no job.
fn check(configuration: &Configuration) -> Result<(), CliError> {
    let mut named = configuration.clone();
    named.set(&tidegate_types::options::keys::PIPELINE_NAME, "job".to_owned());
    named.resolve()?;
    Ok(())
}

fn shown(configuration: &Configuration) -> impl Iterator<Item = Shown> {
    let effective = configuration.effective();
    table()
        .into_iter()
        .zip(effective)
        .map(|(row, Effective { key, value, origin })| {
            assert_eq!(row.key, key, "both lists are in the order of the declarations");
            let origin = if origin == Origin::Default {
                "default".to_owned()
            } else {
                origin.to_string()
            };
            Shown { row, value, origin }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_stands_beside_what_holds_for_it() {
        let mut configuration = Configuration::new();
        configuration.add_argument("parallelism.default=7");
        let all: Vec<Shown> = shown(&configuration).collect();
        assert_eq!(all.len(), table().len());
        let parallelism = all
            .iter()
            .find(|s| s.row.key == "parallelism.default")
            .expect("it is declared");
        assert_eq!(
            (parallelism.value.as_str(), parallelism.origin.as_str()),
            ("7", "-D")
        );
        assert!(all.iter().filter(|s| s.origin != "default").count() == 1);
    }

    #[test]
    fn an_interval_without_a_job_is_no_problem_and_a_wrong_value_is() {
        let mut configuration = Configuration::new();
        configuration.add_argument("execution.checkpointing.interval=1s");
        assert!(check(&configuration).is_ok());
        configuration.add_argument("execution.checkpointing.interval=soon");
        assert!(matches!(check(&configuration), Err(CliError::Usage(_))));
    }
}
