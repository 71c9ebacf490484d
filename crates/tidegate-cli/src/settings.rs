//! From flags, file and environment to the engine's configuration.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use tidegate_types::JobId;
use tidegate_types::options::{Configuration, MAX_FILE_BYTES, Origin, RestPort, keys};

use crate::args::Global;
use crate::error::CliError;

/// Names the configuration file if `--config` doesn't.
const CONFIG_VARIABLE: &str = "TIDEGATE_CONFIG";

/// What variables of ours begin with.
const PREFIX: &str = "TIDEGATE_";

/// An option that a demo decides itself, with the flag that says how, if one does.
pub(crate) type Decided = (&'static str, Option<&'static str>);

/// Refuses what somebody set and the demo would pass over: its figures would be about something that didn't run.
///
/// # Errors
/// One for all of them.
pub(crate) fn refuse(configuration: &Configuration, decided: &[Decided]) -> Result<(), CliError> {
    let given = configuration.effective().into_iter().filter(|given| {
        !matches!(
            given.origin,
            Origin::Default | Origin::Code { .. } | Origin::Flag { .. }
        )
    });
    let refused = given.filter_map(|given| {
        let (_, flag) = decided.iter().find(|(key, _)| *key == given.key)?;
        let instead = match flag {
            Some(flag) => format!("use {flag}"),
            None => "leave it out".to_owned(),
        };
        Some(format!(
            "`{}` ({}) is decided by this demo itself; {instead}",
            given.key, given.origin
        ))
    });
    let refused: Vec<String> = refused.collect();
    if refused.is_empty() {
        Ok(())
    } else {
        Err(CliError::Usage(format!("configuration: {}", refused.join("\n"))))
    }
}

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
    let variables = unicode_variables(std::env::vars_os())?;
    configuration.add_environment(variables);
    add_flags(&mut configuration, global);
    Ok(configuration)
}

/// The variables, of which those that begin like ours must be Unicode. `TIDEGATE_CONFIG` is a path and may be anything.
fn unicode_variables(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, CliError> {
    let (mut unicode, mut wrong) = (Vec::new(), Vec::new());
    for (name, value) in variables {
        let is_ours = name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) && name != CONFIG_VARIABLE;
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => unicode.push((name, value)),
            (Ok(name), Err(value)) if is_ours => wrong.push(format!(
                "the value `{}` of the environment variable `{name}` isn't valid UTF-8",
                value.to_string_lossy()
            )),
            (Err(name), _) if is_ours => wrong.push(format!(
                "the name of the environment variable `{}` isn't valid UTF-8",
                name.to_string_lossy()
            )),
            _ => {}
        }
    }
    if wrong.is_empty() {
        Ok(unicode)
    } else {
        Err(CliError::Usage(format!("configuration: {}", wrong.join("\n"))))
    }
}

fn add_file(configuration: &mut Configuration, file: &Path) -> Result<(), CliError> {
    let name = file.display().to_string();
    let wrong = |why: &dyn fmt::Display| {
        CliError::Usage(format!("the configuration file `{name}` can't be read: {why}"))
    };
    // One byte more than there may be, so that a device without an end is no reason to read for ever.
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| wrong(&error))?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(wrong(&format_args!("it has more than {MAX_FILE_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        wrong(&format_args!("it isn't valid UTF-8 at byte {at}"))
    })?;
    configuration.add_file(&name, &text);
    Ok(())
}

fn add_flags(configuration: &mut Configuration, global: &Global) {
    if let Some(rest) = &global.rest {
        let port = match rest.port {
            0 => RestPort::Any,
            port => RestPort::Port(port),
        };
        configuration
            .set_flag("--rest", &keys::REST_ADDRESS, rest.host.clone())
            .set_flag("--rest", &keys::REST_PORT, port);
    }
    if let Some(id) = &global.job_id {
        configuration.set_flag("--job-id", &keys::JOB_ID, JobId::new(id.as_str()));
    }
    if let Some(from) = &global.restore {
        configuration.set_flag("--restore", &keys::RESTORE_PATH, from.clone());
    }
    if global.new_lineage {
        configuration.set_flag("--new-lineage", &keys::NEW_LINEAGE, true);
    }
    for argument in &global.define {
        configuration.add_argument(argument);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use tidegate_types::options::RestoreFrom;

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
    #[test]
    fn variables_of_ours_are_unicode_and_those_of_others_may_be_anything() {
        let bytes = |text: &[u8]| OsString::from_vec(text.to_vec());
        let pair = |name: &[u8], value: &[u8]| (bytes(name), bytes(value));
        let fine = [
            pair(b"OTHER_\xff", b"\xff"),
            pair(b"TIDEGATE_CONFIG", b"/\xff"),
            pair(b"TIDEGATE_REST_PORT", b"7"),
        ];
        let read = unicode_variables(fine.clone()).expect("only others are odd");
        assert_eq!(read, [("TIDEGATE_REST_PORT".to_owned(), "7".to_owned())]);
        let odd = [pair(b"TIDEGATE_A", b"x\xff"), pair(b"TIDEGATE_\xfe", b"1")];
        let error = unicode_variables(fine.into_iter().chain(odd)).expect_err("two are odd");
        assert!(matches!(error, CliError::Usage(_)));
        let text = error.to_string();
        assert!(
            text.contains("`x\u{fffd}`") && text.contains("`TIDEGATE_A`"),
            "{text}"
        );
        assert!(text.contains("`TIDEGATE_\u{fffd}`"), "{text}");
    }

    #[test]
    fn what_a_demo_decides_is_refused_with_the_flag_to_use() {
        let decided: &[Decided] = &[(keys::GATE_BUDGET.key(), Some("--in-flight"))];
        let mut configuration = Configuration::new();
        configuration
            .set_flag(
                "--in-flight",
                &keys::GATE_BUDGET,
                tidegate_types::options::GateBudget::Fixed(3),
            )
            .add_argument("rest.port=7");
        assert!(refuse(&configuration, decided).is_ok());
        configuration.add_environment([("TIDEGATE_TASK_GATE_BUDGET".to_owned(), "fixed:5".to_owned())]);
        // The flag would win; that there are two wishes is wrong all the same.
        configuration.add_argument("task.gate.budget=fixed:4");
        let error = refuse(&configuration, decided).expect_err("it is given");
        assert_eq!(
            error.to_string(),
            "configuration: `task.gate.budget` (-D) is decided by this demo itself; use --in-flight"
        );
    }

    #[test]
    fn a_file_without_an_end_is_read_up_to_the_limit() {
        let refused = |path: &Path| {
            let error = add_file(&mut Configuration::new(), path).expect_err("it is no configuration");
            error.to_string()
        };
        assert!(refused("/dev/zero".as_ref()).contains("more than 1048576 bytes"));
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = dir.path().join("c.yaml");
        std::fs::write(&file, b"a: \xff").expect("it is writable");
        assert!(refused(&file).ends_with("it isn't valid UTF-8 at byte 3"));
    }
}
