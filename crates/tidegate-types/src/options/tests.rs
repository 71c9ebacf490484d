//! Tests of the options, one file per topic.

mod declarations;
mod errors;
mod modes;
mod sources;
mod values;

use super::{Configuration, OptionError};

/// The problems of a configuration, as a person reads them.
fn problems(configuration: &Configuration) -> Vec<String> {
    match configuration.resolve() {
        Ok(_) => Vec::new(),
        Err(errors) => errors.problems().iter().map(OptionError::to_string).collect(),
    }
}

/// The only problem of a file.
fn problem_of(yaml: &str) -> String {
    let mut configuration = Configuration::new();
    configuration.add_file("job.yaml", yaml);
    let problems = problems(&configuration);
    assert_eq!(problems.len(), 1, "one problem in {yaml:?}: {problems:#?}");
    problems[0].clone()
}
