//! One run: a mode and a buffer, some checkpoints, a kill, a proof.

use std::path::Path;
use std::time::Duration;

use tidegate_protocol::coordinator::{CheckpointStats, CheckpointStatus};
use tidegate_types::options::{CheckpointingMode, GateBudget, OptionValue, keys};
use tidegate_types::{CheckpointId, Nanos};

use super::super::durable::median_write;
use super::super::keyed::{Probe, Workload, build, configure, drain, prove};
use super::super::own_directory;
use super::Plan;
use super::report::{Head, Summary, row_in_words};
use super::row::{Row, row};
use crate::error::CliError;
use crate::render::{spread, time};
use crate::session::{Running, Session};

/// Records per subtask that are counted after the restore before the job is drained.
const RECORDS_AFTER: u64 = 50;

/// How long after the last checkpoint the task is killed, at most: long enough that there is something to do again.
const KILL_AFTER: Duration = Duration::from_secs(1);

/// Runs the job once and measures.
pub(super) async fn round(
    session: &Session<'_>,
    plan: &Plan,
    workload: &Workload,
    mode: CheckpointingMode,
    in_flight: GateBudget,
) -> Result<Summary, CliError> {
    let dir = own_directory(plan.dir.as_deref())?;
    let measured = measure(session, plan, workload, (mode, in_flight), dir.path()).await;
    if measured.is_err() {
        session.give_up().await;
    }
    measured
}

async fn measure(
    session: &Session<'_>,
    plan: &Plan,
    workload: &Workload,
    (mode, in_flight): (CheckpointingMode, GateBudget),
    dir: &Path,
) -> Result<Summary, CliError> {
    let probe = Probe::new(&session.engine, workload);
    let mut configured = Ok(());
    let env = session.environment(|c| {
        configured = configure(c, workload, dir, ("--interval", plan.interval));
        c.set_flag("--modes", &keys::CHECKPOINT_MODE, mode)
            .set_flag("--in-flight", &keys::GATE_BUDGET, in_flight)
            .set_flag("--aligned-timeout", &keys::ALIGNED_TIMEOUT, plan.aligned_timeout);
    });
    configured?;
    build(&env, workload, &probe);
    let running = session.launch(&env)?;

    let names = Names {
        mode: mode.render(),
        in_flight: in_flight.render(),
    };
    let rows = checkpoints(session, &running, plan, &names).await?;
    let measured = &rows[1..];
    let durable_bytes = spread(measured.iter().map(|row| row.size_bytes)).map_or(0, |s| s.median);
    let durable = median_write(dir, durable_bytes, &|| probe.now())?;

    let restored = kill(session, &running, plan, &names, &probe, workload).await?;
    session
        .console
        .progress(|| format!("{}, {}: draining", names.mode, names.in_flight));
    drain(&running).await?;
    Ok(Summary::of(
        &names.mode,
        &names.in_flight,
        measured,
        (durable_bytes, durable),
        restored,
        prove(&probe, workload),
    ))
}

struct Names {
    mode: String,
    in_flight: String,
}

/// Shows checkpoints as they complete, until there are enough.
async fn checkpoints(
    session: &Session<'_>,
    running: &Running<'_>,
    plan: &Plan,
    names: &Names,
) -> Result<Vec<Row>, CliError> {
    let console = session.console;
    if !plan.json {
        Head::new(&names.mode, &names.in_flight)
            .lines()
            .into_iter()
            .try_for_each(|line| console.line(line))?;
    }
    let wanted = plan.checkpoints as usize;
    let mut rows: Vec<Row> = Vec::new();
    let mut last = CheckpointId(0);
    running
        .until(|| {
            for stats in decided_after(running, last) {
                last = stats.id;
                if stats.status == CheckpointStatus::Failed {
                    let why = stats
                        .failure
                        .as_ref()
                        .map(ToString::to_string)
                        .unwrap_or_default();
                    console.note(format_args!("checkpoint {} failed: {why}", stats.id));
                } else if rows.len() < wanted {
                    let row = row(running.running().graph(), &names.mode, &names.in_flight, &stats);
                    match plan.json {
                        true => console.line(serde_json::json!(row))?,
                        false => console.line(row_in_words(&row))?,
                    }
                    rows.push(row);
                }
            }
            console.progress(|| {
                let since = running
                    .board()
                    .with(|s| s.history.recent().next().map(|c| c.triggered_at));
                let under_way = since.map_or(Duration::ZERO, |at| session.engine.now().since(at));
                format!(
                    "{}, {}: checkpoint {} of {wanted}, the last was triggered {} ago",
                    names.mode,
                    names.in_flight,
                    rows.len() + 1,
                    time(under_way)
                )
            });
            Ok((rows.len() >= wanted).then_some(()))
        })
        .await?;
    Ok(rows)
}

/// Checkpoints that were decided, oldest first.
fn decided_after(running: &Running<'_>, last: CheckpointId) -> Vec<CheckpointStats> {
    running.board().with(|status| {
        let news = status
            .history
            .recent()
            .filter(|c| c.id > last && c.status != CheckpointStatus::InProgress);
        let mut news: Vec<CheckpointStats> = news.cloned().collect();
        news.reverse();
        // A later one may be decided while an earlier one is still in progress; it waits for its turn.
        let open = status
            .history
            .recent()
            .filter(|c| c.status == CheckpointStatus::InProgress)
            .map(|c| c.id)
            .min();
        news.retain(|c| open.is_none_or(|open| c.id < open));
        news
    })
}

/// Kills a task and waits until the job counts again; how long that took.
async fn kill(
    session: &Session<'_>,
    running: &Running<'_>,
    plan: &Plan,
    names: &Names,
    probe: &Probe,
    workload: &Workload,
) -> Result<Duration, CliError> {
    let say = |what: &str| {
        session
            .console
            .progress(|| format!("{}, {}: {what}", names.mode, names.in_flight))
    };
    let at: Nanos = session.engine.now() + (plan.interval / 2).min(KILL_AFTER);
    running
        .until(|| Ok((session.engine.now() >= at).then_some(())))
        .await?;
    say("killing a task");
    probe.kill();
    let (took, _) = running.until(|| Ok(probe.restored())).await?;
    say("counting on");
    let enough = probe.counted() + RECORDS_AFTER * u64::from(workload.parallelism.0);
    running
        .until(|| Ok((probe.counted() >= enough).then_some(())))
        .await?;
    Ok(took)
}
