//! `tidegate checkpoint`: what stands in a checkpoint directory. Reads only, beside a running job too.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_storage::{
    CheckpointStore, CheckpointSummary, DecisionSummary, Finished, Problem, Snapshot, StorageError, StoreDir,
    VerifyReport, layout, open_snapshot, verify,
};
use tidegate_types::JobId;
use tidegate_types::snapshot::{Location, Section, SectionKind};

use crate::args::{CheckpointCommand, PathArgs};
use crate::console::Console;
use crate::error::CliError;
use crate::render::{count, plural, size, table, time};
use crate::runtime;

/// Carries the command out.
pub(crate) fn run(console: &Console, command: &CheckpointCommand) -> Result<(), CliError> {
    let runtime = runtime()?;
    match command {
        CheckpointCommand::List(args) => list(console, args, runtime.block_on(listing(&args.path))?),
        CheckpointCommand::Show(args) => show(console, args, &runtime.block_on(open_snapshot(&args.path))?),
        CheckpointCommand::Verify(args) => report(console, args, &runtime.block_on(verify(&args.path))?),
    }
}

type Listing = Vec<(JobId, Vec<CheckpointSummary>)>;

/// The checkpoints of every job there; of one job if its directory is named.
async fn listing(path: &str) -> Result<Listing, StorageError> {
    let dir = StoreDir::open(path)?;
    let store = CheckpointStore::at(dir.clone());
    let mut all = Vec::new();
    for job in store.jobs().await? {
        let checkpoints = store.job(&job)?.checkpoints().await?;
        all.push((job, checkpoints));
    }
    if !all.is_empty() {
        return Ok(all);
    }
    let local = dir.local_path();
    let name = local
        .and_then(|p| p.file_name())
        .and_then(|name| name.to_str())
        .and_then(layout::job_of_dir_name);
    if let (Some(job), Some(parent)) = (name, local.and_then(|p| p.parent()).and_then(|p| p.to_str())) {
        let checkpoints = CheckpointStore::at(StoreDir::open(parent)?)
            .job(&job)?
            .checkpoints()
            .await?;
        if !checkpoints.is_empty() {
            return Ok(vec![(job, checkpoints)]);
        }
    }
    // What else it is, and why there is nothing to list, is said best by trying to open it.
    match open_snapshot(path).await {
        Ok(_) => {
            let found =
                "it is a checkpoint itself; `tidegate checkpoint show` tells what is in it".to_owned();
            Err(StorageError::new(
                "list checkpoints in",
                path,
                Problem::NotACheckpoint { found },
            ))
        }
        Err(error) => Err(error),
    }
}

fn list(console: &Console, args: &PathArgs, listing: Listing) -> Result<(), CliError> {
    if args.json {
        let jobs: Vec<Value> = listing
            .iter()
            .map(|(job, checkpoints)| json!({ "job": job, "checkpoints": checkpoints }))
            .collect();
        return console.line(Value::from(jobs));
    }
    for (job, checkpoints) in listing {
        console.line(format_args!("job `{job}`"))?;
        let rows: Vec<Vec<String>> = checkpoints.iter().map(row).collect();
        for line in table(&["  checkpoint", "files", "bytes", "state", "what"], &rows) {
            console.line(line)?;
        }
    }
    Ok(())
}

fn row(checkpoint: &CheckpointSummary) -> Vec<String> {
    let (state, what) = match &checkpoint.state {
        DecisionSummary::Complete {
            savepoint: Some(place),
            state_bytes,
            ..
        } => (size(*state_bytes), format!("savepoint, {place}")),
        DecisionSummary::Complete {
            savepoint: None,
            state_bytes,
            ..
        } => (size(*state_bytes), "complete".to_owned()),
        DecisionSummary::Aborted { reason } => (String::new(), format!("aborted: {reason}")),
        DecisionSummary::Undecided => (String::new(), "in progress, or left behind".to_owned()),
        DecisionSummary::Unreadable { error } => (String::new(), format!("unreadable: {error}")),
    };
    vec![
        format!("  {}", checkpoint.id),
        count(checkpoint.files),
        size(checkpoint.size_bytes),
        state,
        what,
    ]
}

/// Where a section's bytes are, in short.
fn place(section: &Section) -> String {
    match &section.location {
        Location::Inline(_) => "in _metadata".to_owned(),
        Location::File { path, offset, .. } => format!("{path} at {offset}"),
    }
}

fn kind(section: &Section) -> String {
    match &section.head.kind {
        SectionKind::InFlight(at) => {
            format!(
                "in flight, input {}, subtask {} to {}",
                at.input, at.producer, at.consumer
            )
        }
        kind => format!("{kind:?}").to_lowercase(),
    }
}

fn show(console: &Console, args: &PathArgs, snapshot: &Snapshot) -> Result<(), CliError> {
    if args.json {
        return console.line(described(snapshot));
    }
    for line in head(snapshot) {
        console.line(line)?;
    }
    let mut of_operator: BTreeMap<&str, Vec<&Section>> = BTreeMap::new();
    for section in snapshot.metadata().sections() {
        of_operator
            .entry(section.head.uid.as_str())
            .or_default()
            .push(section);
    }
    for operator in &snapshot.metadata().operators {
        let finished = match operator.finished {
            Finished::No => "",
            Finished::Partly => ", some subtasks finished",
            Finished::Fully => ", finished",
        };
        let of = plural(u64::from(operator.parallelism.0), "subtask");
        let (uid, name) = (&operator.uid, &operator.name);
        console.line(format_args!("operator `{uid}` ({name}), {of}{finished}"))?;
        let sections = of_operator.remove(uid.as_str()).unwrap_or_default();
        let rows: Vec<Vec<String>> = sections.into_iter().map(section_row).collect();
        if !rows.is_empty() {
            for line in table(&["  state", "entries", "bytes", "where"], &rows) {
                console.line(line)?;
            }
        }
    }
    Ok(())
}

/// What there is to say of a checkpoint as a whole.
fn head(snapshot: &Snapshot) -> [String; 3] {
    let (header, metadata) = (snapshot.header(), snapshot.metadata());
    let what = if metadata.kind.is_savepoint() {
        "savepoint"
    } else {
        "checkpoint"
    };
    let took = u64::try_from(metadata.completed_at_ms - metadata.triggered_at_ms).unwrap_or(0);
    [
        format!(
            "{what} {} of job `{}` at {}",
            header.id,
            header.job,
            snapshot.location()
        ),
        format!(
            "  triggered at {} ms since 1970, complete {} later; leader epoch {}, lineage {}, {} key groups",
            metadata.triggered_at_ms,
            time(Duration::from_millis(took)),
            header.epoch,
            metadata.lineage.0,
            metadata.max_parallelism
        ),
        format!(
            "  {} of state, {} of it in _metadata; {} in flight ({})",
            size(metadata.state_bytes()),
            size(metadata.inline_bytes()),
            size(metadata.stats.persisted_bytes),
            plural(metadata.stats.persisted_records, "record")
        ),
    ]
}

fn section_row(section: &Section) -> Vec<String> {
    let name = match section.head.name.as_str() {
        "" => kind(section),
        name => format!("{} `{name}`", kind(section)),
    };
    vec![
        format!("  {name}"),
        count(section.head.records),
        size(section.location.size_bytes()),
        place(section),
    ]
}

fn described(snapshot: &Snapshot) -> Value {
    let (header, metadata) = (snapshot.header(), snapshot.metadata());
    let sections: Vec<Value> = metadata
        .sections()
        .map(|s| {
            json!({
                "uid": s.head.uid, "kind": kind(s), "name": s.head.name, "records": s.head.records,
                "encoding": s.head.encoding, "bytes": s.location.size_bytes(), "crc32c": s.crc,
                "where": place(s),
            })
        })
        .collect();
    json!({
        "job": header.job, "checkpoint": header.id, "location": snapshot.location(),
        "savepoint": metadata.kind.is_savepoint(), "epoch": header.epoch, "lineage": metadata.lineage.0,
        "triggered_at_ms": metadata.triggered_at_ms, "completed_at_ms": metadata.completed_at_ms,
        "max_parallelism": metadata.max_parallelism, "state_bytes": metadata.state_bytes(),
        "inline_bytes": metadata.inline_bytes(), "in_flight_bytes": metadata.stats.persisted_bytes,
        "in_flight_records": metadata.stats.persisted_records, "retained": metadata.retained,
        "operators": metadata.operators, "sections": sections,
    })
}

fn report(console: &Console, args: &PathArgs, report: &VerifyReport) -> Result<(), CliError> {
    if args.json {
        let text = serde_json::to_string(report).map_err(|error| CliError::Failed(error.to_string()))?;
        console.line(text)?;
    } else {
        for c in &report.checkpoints {
            let what = if c.savepoint { "savepoint" } else { "checkpoint" };
            let (sections, files) = (plural(c.sections, "section"), plural(c.files, "state file"));
            console.line(format_args!(
                "{what} {} of job `{}`: {sections} in {files}, {} compared",
                c.id,
                c.job,
                size(c.bytes)
            ))?;
        }
        for orphan in &report.orphans {
            let why = if orphan.may_be_in_progress {
                "of a checkpoint in progress, or left behind"
            } else {
                "named by none"
            };
            console.line(format_args!(
                "{}: {why}, {}",
                orphan.path,
                size(orphan.size_bytes)
            ))?;
        }
    }
    if report.ok {
        return if args.json {
            Ok(())
        } else {
            console.line(format_args!("{} is fine", report.location))
        };
    }
    Err(CliError::Failed(problems(report)))
}

fn problems(report: &VerifyReport) -> String {
    let mut text = format!("{} is damaged:", report.location);
    for p in &report.problems {
        text.push_str(&format!("\n  {}", p.path));
        if let Some(uid) = &p.uid {
            text.push_str(&format!(", operator `{uid}`"));
        }
        if let Some(state) = &p.state {
            text.push_str(&format!(", {state}"));
        }
        if let Some(offset) = p.offset {
            text.push_str(&format!(", byte {offset}"));
        }
        text.push_str(&format!(": {}", p.text));
    }
    text
}

#[cfg(test)]
mod tests;
