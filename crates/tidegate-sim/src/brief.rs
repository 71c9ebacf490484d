//! Messages, requests and replies in few words, for the trace.

use tidegate_protocol::coordinator::Decision;
use tidegate_protocol::message::{FromTask, ToTask};
use tidegate_runtime::master::{IoReply, IoRequest};

/// A message to a task in few words.
pub(crate) fn brief(message: &ToTask) -> String {
    match message {
        ToTask::Trigger(b) => format!("trigger {} {} oldest {}", b.id, b.mode, b.oldest_pending),
        ToTask::AssignSplits { uid, splits } => format!("{} splits of {uid}", splits.len()),
        other => format!("{other:?}"),
    }
}

/// A message from a task in few words.
pub(crate) fn brief_from(message: &FromTask) -> String {
    match message {
        FromTask::Acknowledged { id, snapshot, stats } => {
            let mode = stats.mode.map_or("?", |m| m.name());
            let records = stats.persisted_records;
            format!(
                "ack {id} {mode}, {records} in flight{}",
                if snapshot.finished { ", finished" } else { "" }
            )
        }
        FromTask::Finished { newest_seen, .. } => format!("finished, newest seen {newest_seen}"),
        other => format!("{other:?}"),
    }
}

/// A request to the store in few words.
pub(crate) fn brief_request(request: &IoRequest) -> String {
    match request {
        IoRequest::Claim(choice) => format!("claim {choice:?}"),
        IoRequest::Settle { snapshot, .. } => format!("settle {:?}", snapshot.as_ref().map(|s| s.id().0)),
        IoRequest::TakeOverSinks { snapshot, .. } => {
            format!("take sinks over {:?}", snapshot.as_ref().map(|s| s.id().0))
        }
        IoRequest::Decide { id, decision, .. } => match decision {
            Decision::Complete(_) => format!("decide {id} complete"),
            Decision::Aborted(record) => {
                format!("decide {id} aborted: {record}")
            }
        },
        IoRequest::CopySavepoint { id, .. } => format!("copy savepoint {id}"),
        IoRequest::Commit { id, committables } => format!("commit {id}, {} sections", committables.len()),
        IoRequest::Sweep => "sweep".to_owned(),
        IoRequest::Close => "close".to_owned(),
    }
}

/// A reply of the store in few words.
pub(crate) fn brief_reply(reply: &IoReply) -> String {
    match reply {
        IoReply::Claimed(Ok(claimed)) => format!(
            "claimed epoch {} next {} newest {:?}",
            claimed.epoch,
            claimed.next_id,
            claimed.newest.map(|(id, _)| id.0)
        ),
        IoReply::Claimed(Err(error)) => format!("claim failed: {error}"),
        IoReply::Settled(Ok(())) => "settled".to_owned(),
        IoReply::Settled(Err((uid, error))) => format!("settle failed: {uid} {error}"),
        IoReply::Decided { id, outcome } => format!("decided {id} {outcome:?}"),
        IoReply::Copied { id, result } => format!("copied {id} {result:?}"),
        IoReply::Committed { id, result } => {
            format!("committed {id} {}", if result.is_ok() { "ok" } else { "failed" })
        }
        IoReply::Swept { warnings } => format!("swept {warnings:?}"),
        IoReply::Closed(result) => format!("closed {result:?}"),
    }
}
