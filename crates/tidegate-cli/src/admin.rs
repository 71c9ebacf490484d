//! `savepoint`, `stop` and `cancel`: asking a running job through its REST interface, with the bodies Flink's has.

use std::time::Duration;

use serde_json::{Value, json};

use crate::args::{CancelArgs, Global, SavepointArgs, StopArgs};
use crate::console::Console;
use crate::error::CliError;
use crate::http::{Client, segment};
use crate::runtime;

/// Between two questions whether an operation has ended.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Takes a savepoint.
pub(crate) fn savepoint(console: &Console, global: &Global, args: &SavepointArgs) -> Result<(), CliError> {
    let admin = Admin::new(global, args.job.as_deref())?;
    let body = json!({ "target-directory": absolute(args.target.as_deref())?, "unaligned": args.unaligned });
    let done = admin.carry_out(console, "savepoint", "savepoints", &body)?;
    match done["location"].as_str() {
        Some(place) => console.line(format_args!("savepoint of `{}`: {place}", admin.job)),
        None => Err(CliError::Failed(
            "the savepoint is complete, and the server didn't say where".to_owned(),
        )),
    }
}

/// Stops a job, with a savepoint or a last checkpoint.
pub(crate) fn stop(console: &Console, global: &Global, args: &StopArgs) -> Result<(), CliError> {
    let admin = Admin::new(global, args.job.as_deref())?;
    let mut body = json!({ "drain": args.drain, "savepoint": args.savepoint.is_some() });
    if let Some(target) = absolute(args.savepoint.as_deref())? {
        body["targetDirectory"] = target.into();
    }
    let done = admin.carry_out(console, "stop", "stop", &body)?;
    let how = if args.drain { "drained" } else { "suspended" };
    console.line(
        match (done["location"].as_str(), done["checkpoint-id"].as_u64()) {
            (Some(place), _) => format!("job `{}` is {how}; savepoint: {place}", admin.job),
            (None, Some(id)) if !args.drain => {
                format!(
                    "job `{}` is {how} in checkpoint {id}; it goes on with --restore latest",
                    admin.job
                )
            }
            _ => format!("job `{}` is {how}", admin.job),
        },
    )
}

/// Cancels a job.
pub(crate) fn cancel(console: &Console, global: &Global, args: &CancelArgs) -> Result<(), CliError> {
    let admin = Admin::new(global, args.job.as_deref())?;
    admin.client.ask(
        "PATCH",
        &format!("/jobs/{}?mode=cancel", segment(&admin.job)),
        None,
    )?;
    console.line(format_args!("job `{}` is being cancelled", admin.job))
}

/// The server is another process, whose current directory may be another one.
fn absolute(path: Option<&str>) -> Result<Option<String>, CliError> {
    let Some(path) = path else { return Ok(None) };
    if path.contains("://") {
        return Ok(Some(path.to_owned()));
    }
    let absolute = std::path::absolute(path)
        .map_err(|error| CliError::Usage(format!("`{path}` can't be made an absolute path: {error}")))?;
    Ok(Some(absolute.display().to_string()))
}

struct Admin {
    client: Client,
    job: String,
}

impl Admin {
    fn new(global: &Global, job: Option<&str>) -> Result<Self, CliError> {
        let client = Client::new(global.rest.clone().unwrap_or_default());
        let job = match job.or(global.job_id.as_deref()) {
            Some(job) => job.to_owned(),
            None => only_job(&client.ask("GET", "/jobs", None)?)?,
        };
        Ok(Self { client, job })
    }

    /// Begins an operation and waits for its end.
    fn carry_out(&self, console: &Console, what: &str, path: &str, body: &Value) -> Result<Value, CliError> {
        let job = segment(&self.job);
        let begun = self
            .client
            .ask("POST", &format!("/jobs/{job}/{path}"), Some(body))?;
        let Some(request) = begun["request-id"].as_str() else {
            return Err(CliError::Failed(
                "the server began nothing; is it Tidegate's REST interface?".to_owned(),
            ));
        };
        let status = format!("/jobs/{job}/savepoints/{}", segment(request));
        runtime()?.block_on(async {
            loop {
                match self.client.ask("GET", &status, None) {
                    Ok(answer) if answer["status"]["id"] == "COMPLETED" => return outcome(answer),
                    Ok(_) => {}
                    // The process ended all the same, killed or tired of waiting; what came of it can't be told then.
                    Err(error) => {
                        return Err(CliError::Failed(format!(
                            "{error}\nThe {what} was begun; how it ended isn't known: look at the job's output"
                        )));
                    }
                }
                console.progress(|| format!("{what} of `{}`", self.job));
                tokio::time::sleep(ASK_AGAIN).await;
            }
        })
    }
}

fn outcome(mut answer: Value) -> Result<Value, CliError> {
    let operation = answer["operation"].take();
    match operation["failure-cause"]["stack-trace"].as_str() {
        Some(cause) => Err(CliError::Failed(cause.to_owned())),
        None => Ok(operation),
    }
}

/// The job that is meant if none is named: the only one that runs.
fn only_job(jobs: &Value) -> Result<String, CliError> {
    let ended = |job: &&Value| {
        let status = job["status"].as_str().unwrap_or_default();
        ["FINISHED", "CANCELED", "FAILED", "SUSPENDED"].contains(&status)
    };
    let all = jobs["jobs"].as_array().into_iter().flatten();
    let running: Vec<&str> = all
        .filter(|job| !ended(job))
        .filter_map(|job| job["id"].as_str())
        .collect();
    match &running[..] {
        [one] => Ok((*one).to_owned()),
        [] => Err(CliError::Failed("no job runs there".to_owned())),
        several => Err(CliError::Usage(format!(
            "{} jobs run there; name one with --job: {}",
            several.len(),
            several.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_running_job_is_meant() {
        let jobs = json!({"jobs": [{"id": "a", "status": "FINISHED"}, {"id": "b", "status": "RUNNING"}]});
        assert_eq!(only_job(&jobs).expect("there is one"), "b");
        let none = only_job(&json!({"jobs": [{"id": "a", "status": "FAILED"}]})).expect_err("none runs");
        assert!(matches!(none, CliError::Failed(_)));
        let jobs = json!({"jobs": [{"id": "a", "status": "CREATED"}, {"id": "b", "status": "RUNNING"}]});
        assert_eq!(
            only_job(&jobs).expect_err("two run").to_string(),
            "2 jobs run there; name one with --job: a, b"
        );
        assert!(only_job(&Value::Null).is_err());
    }

    #[test]
    fn a_failed_operation_is_an_error_with_its_cause() {
        let failed = json!({"operation": {"failure-cause": {"class": "Refused", "stack-trace": "not now"}}});
        assert_eq!(outcome(failed).expect_err("it failed").to_string(), "not now");
        let done = outcome(json!({"operation": {"location": "/sp"}})).expect("it is done");
        assert_eq!(done["location"], "/sp");
    }

    #[test]
    fn paths_are_the_servers_and_urls_stay() {
        assert_eq!(absolute(None).expect("nothing"), None);
        assert_eq!(
            absolute(Some("file:///sp")).expect("a URL").as_deref(),
            Some("file:///sp")
        );
        assert_eq!(
            absolute(Some("/sp/../a")).expect("a path").as_deref(),
            Some("/sp/../a")
        );
        assert!(
            absolute(Some("sp"))
                .expect("a path")
                .is_some_and(|p| p.starts_with('/'))
        );
    }
}
