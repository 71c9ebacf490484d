//! How the word count ends: suspended on a signal, and what is said of it.
//!
//! Owns: trying to suspend until that has worked, the job has ended by itself or the time is over, and the words for
//! each. Does not own: the job.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{Either, select};
use tidegate::files::SkippedRecords;
use tidegate::prelude::*;
use tidegate_protocol::coordinator::CheckpointStats;
use tidegate_types::CheckpointId;
use tokio::time::timeout;

use super::Tally;
use crate::args::WordcountArgs;
use crate::console::Console;
use crate::error::CliError;
use crate::render::{count, plural, time};
use crate::session::{Running, Session};

/// How long a signal leaves the job to suspend itself.
const GRACE: Duration = Duration::from_secs(30);

/// Before the second attempt to suspend the job; each further one waits twice as long.
const SUSPEND_AGAIN: Duration = Duration::from_millis(50);

/// The longest wait between two attempts.
const SUSPEND_AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// Ends the job in a last checkpoint within the grace period. It is never cancelled: that would delete its
/// checkpoints. An attempt that fails is made again: a task may have ended, or not begun, when its barrier came. If the
/// job ends by itself meanwhile, that is its end, and its error if it failed.
pub(super) async fn suspend(session: &Session<'_>, running: &Running<'_>) -> Result<JobOutcome, CliError> {
    let deadline = session.engine.now() + GRACE;
    let left = || deadline.since(session.engine.now());
    let mut pause = SUSPEND_AGAIN;
    loop {
        let ended = running.running().ended();
        let why = match timeout(left(), select(pin!(running.job.suspend()), pin!(ended))).await {
            Ok(Either::Left((Ok(_), _))) => {
                return match timeout(left(), running.end()).await {
                    Ok(ended) => ended,
                    Err(_) => Err(not_suspended(running, "its tasks didn't end in time")),
                };
            }
            Ok(Either::Left((Err(failure), _))) => failure.to_string(),
            Ok(Either::Right(_)) => return running.end().await,
            Err(_) => "its last checkpoint wasn't complete in time".to_owned(),
        };
        if timeout(pause.min(left()), running.running().ended())
            .await
            .is_ok()
        {
            return running.end().await;
        }
        if left().is_zero() {
            return Err(not_suspended(running, &why));
        }
        pause = (pause * 2).min(SUSPEND_AGAIN_AT_MOST);
    }
}

/// The time is over.
fn not_suspended(running: &Running<'_>, why: &str) -> CliError {
    let newest = running
        .board()
        .with(|s| s.history.latest_completed().map(|c| c.id));
    CliError::Failed(not_suspended_in_words(newest, why))
}

fn not_suspended_in_words(newest: Option<CheckpointId>, why: &str) -> String {
    let stands = match newest {
        Some(id) => format!(
            "Checkpoint {id} stands: nothing that was committed is lost, --restore latest goes on from there"
        ),
        None => "There is no complete checkpoint of this run".to_owned(),
    };
    format!(
        "the job couldn't be suspended within {}: {}. {stands}",
        time(GRACE),
        why.trim_end_matches('.')
    )
}

/// Says how it ended.
pub(super) fn finished(
    console: &Console,
    args: &WordcountArgs,
    running: &Running<'_>,
    skipped: &SkippedRecords,
    tally: &Tally,
    outcome: JobOutcome,
) -> Result<(), CliError> {
    console.clear();
    if skipped.total() > 0 {
        let each = skipped
            .by_reason()
            .filter(|(_, n)| *n > 0)
            .map(|(why, n)| format!("{why} {}", count(n)));
        console.line(format_args!(
            "skipped in this run: {}",
            each.collect::<Vec<_>>().join(", ")
        ))?;
    }
    let (checkpoints, last) = running.board().with(|status| {
        let history = &status.history;
        let complete = [history.latest_completed(), history.latest_savepoint()];
        let last = complete.into_iter().flatten().max_by_key(|c| c.id);
        (history.counts().completed, last.map(Last::of))
    });
    let in_memory = running.running().settings().checkpoints.dir.is_none();
    console.line(in_words(&outcome, checkpoints, last, in_memory))?;
    match outcome {
        JobOutcome::Finished => console.line(written(args, running, tally)),
        _ => Ok(()),
    }
}

/// What came out. After a restart some of it was written again, in other files: then only the files know.
fn written(args: &WordcountArgs, running: &Running<'_>, tally: &Tally) -> String {
    let dir = args.output.display();
    match running.board().with(|status| status.restarts) {
        0 => {
            let (distinct, words) = (&tally.distinct, &tally.words);
            format!(
                "this run wrote {}, {} in all, to {dir}",
                plural(distinct.load(Ordering::Relaxed), "distinct word"),
                count(words.load(Ordering::Relaxed))
            )
        }
        _ => format!("the counts are in {dir}"),
    }
}

/// The newest complete checkpoint, or savepoint with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Last {
    id: CheckpointId,
    savepoint: Option<String>,
}

impl Last {
    fn of(stats: &CheckpointStats) -> Self {
        let savepoint = stats.kind.is_savepoint();
        Self {
            id: stats.id,
            savepoint: savepoint.then(|| stats.path.clone()).flatten(),
        }
    }
}

fn in_words(outcome: &JobOutcome, checkpoints: u64, last: Option<Last>, in_memory: bool) -> String {
    let taken = plural(checkpoints, "checkpoint");
    match (outcome, last) {
        (
            JobOutcome::Finished,
            Some(Last {
                savepoint: Some(place),
                ..
            }),
        ) => {
            format!("finished after {taken} in this run, the last of them a savepoint: {place}")
        }
        (JobOutcome::Finished, _) => format!("finished after {taken} in this run"),
        (JobOutcome::AlreadyFinished(id), _) => {
            format!("the job had finished with checkpoint {id}: its output is complete, nothing to do")
        }
        (
            JobOutcome::Suspended,
            Some(Last {
                id,
                savepoint: Some(place),
            }),
        ) => {
            format!("suspended in checkpoint {id}, a savepoint: {place}; go on with --restore and this path")
        }
        (JobOutcome::Suspended, _) if in_memory => {
            "suspended; its checkpoints were in memory, so it can't go on: use --checkpoint-dir".to_owned()
        }
        (JobOutcome::Suspended, Some(Last { id, .. })) => {
            format!("suspended in checkpoint {id}; go on with --restore latest")
        }
        (JobOutcome::Suspended, None) => "suspended; go on with --restore latest".to_owned(),
        (JobOutcome::Canceled, _) => "cancelled".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_savepoint_at_the_end_is_named() {
        let at = |savepoint: Option<&str>| {
            let savepoint = savepoint.map(str::to_owned);
            let id = CheckpointId(7);
            Some(Last { id, savepoint })
        };
        let said = |outcome, last, in_memory| in_words(&outcome, 3, last, in_memory);
        assert_eq!(
            said(JobOutcome::Suspended, at(Some("/sp/s-1")), true),
            "suspended in checkpoint 7, a savepoint: /sp/s-1; go on with --restore and this path"
        );
        assert_eq!(
            said(JobOutcome::Finished, at(Some("/sp/s-1")), false),
            "finished after 3 checkpoints in this run, the last of them a savepoint: /sp/s-1"
        );
        assert_eq!(
            said(JobOutcome::Suspended, at(None), false),
            "suspended in checkpoint 7; go on with --restore latest"
        );
        assert!(said(JobOutcome::Suspended, at(None), true).contains("--checkpoint-dir"));
    }

    #[test]
    fn what_kept_it_from_suspending_is_one_sentence() {
        assert_eq!(
            not_suspended_in_words(None, "checkpoint 4: it has finished. Nothing to do."),
            "the job couldn't be suspended within 30.0 s: checkpoint 4: it has finished. Nothing to do. There is no \
             complete checkpoint of this run"
        );
    }
}
