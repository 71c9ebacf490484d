//! From flags, file and environment to the engine's configuration.

use std::path::{Path, PathBuf};

use tidegate_types::options::{Configuration, OptionValue, keys};

use crate::args::Global;
use crate::error::CliError;

/// Names the configuration file if `--config` doesn't.
const CONFIG_VARIABLE: &str = "TIDEGATE_CONFIG";

/// Everything that was configured outside of the program's code.
///
/// # Errors
/// When the file can't be read. What is wrong with options is found when they are resolved.
pub(crate) fn configuration(global: &Global) -> Result<Configuration, CliError> {
    let mut configuration = Configuration::new();
    let named = std::env::var_os(CONFIG_VARIABLE)
        .filter(|name| !name.is_empty())
        .map(PathBuf::from);
    if let Some(file) = global.config.clone().or(named) {
        add_file(&mut configuration, &file)?;
    }
    // A variable that isn't Unicode can't be one of ours.
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    configuration.add_environment(variables);
    add_flags(&mut configuration, global);
    Ok(configuration)
}

fn add_file(configuration: &mut Configuration, file: &Path) -> Result<(), CliError> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| {
        CliError::Usage(format!("the configuration file `{name}` can't be read: {error}"))
    })?;
    configuration.add_file(&name, &text);
    Ok(())
}

fn add_flags(configuration: &mut Configuration, global: &Global) {
    let mut add = |key: &str, value: &str| {
        configuration.add_argument(&format!("{key}={value}"));
    };
    if let Some(rest) = &global.rest {
        add(keys::REST_ADDRESS.key(), &rest.host);
        add(keys::REST_PORT.key(), &rest.port.to_string());
    }
    if let Some(id) = &global.job_id {
        add(keys::JOB_ID.key(), id);
    }
    if let Some(from) = &global.restore {
        add(keys::RESTORE_PATH.key(), &from.render());
    }
    if global.new_lineage {
        add(keys::NEW_LINEAGE.key(), "true");
    }
    for argument in &global.define {
        configuration.add_argument(argument);
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::options::{RestPort, RestoreFrom};

    use super::*;
    use crate::args::RestAddress;

    #[test]
    fn flags_are_options_and_definitions_win_over_them() {
        let global = Global {
            rest: Some(RestAddress {
                host: "::1".into(),
                port: 0,
            }),
            job_id: Some("a=b".into()),
            restore: Some(RestoreFrom::Path("/c=d".into())),
            new_lineage: true,
            define: vec!["rest.port=7".into(), "parallelism.default=3".into()],
            ..Global::default()
        };
        let mut configuration = Configuration::new();
        add_flags(&mut configuration, &global);
        let settings = configuration.resolve().expect("all are valid");
        assert_eq!(settings.rest.address, "::1");
        assert_eq!(settings.rest.port, RestPort::Port(7));
        assert_eq!(settings.job.id.as_str(), "a=b");
        assert_eq!(settings.recovery.from, Some(RestoreFrom::Path("/c=d".into())));
        assert!(settings.recovery.new_lineage);
        assert_eq!(settings.job.parallelism.0, 3);
    }
}
