//! `/`: the state of all jobs on one page, for people.
//!
//! Owns: the page. It is made here, whole, without scripts; the browser asks anew every few seconds. Everything that
//! comes from a job (names, uids, errors) goes through [`html::Text`]. Does not own: figures (status boards, `rates`).

mod html;

use std::fmt::Write;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use tidegate_protocol::coordinator::{CheckpointStats, CheckpointStatus, SubtaskCheckpoint};
use tidegate_runtime::master::{JobState, JobStatus};
use tidegate_types::VertexId;

use crate::handlers::cells;
use crate::jobs::Job;
use crate::rates::Rate;
use crate::respond::typed;
use crate::state::{AppState, Shared, lifetime, state_name};
use crate::times::Times;

use html::{Bytes, Span, Text};

const STYLE: &str = include_str!("style.css");

/// Failures and failed checkpoints shown in full.
const FAILURES: usize = 3;

/// `GET /`
pub(crate) async fn page(State(state): State<AppState>) -> Response {
    let mut response = typed(StatusCode::OK, "text/html; charset=utf-8", render(&state));
    let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    response
}

/// The page.
pub(crate) fn render(state: &Shared) -> String {
    let times = state.times();
    let mut page = String::new();
    let version = env!("CARGO_PKG_VERSION");
    page.push_str(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" \
         content=\"5\"><meta name=\"viewport\" content=\"width=device-width\"><title>Tidegate</title>\n<style>",
    );
    page.push_str(STYLE);
    page.push_str("</style></head><body><main>\n");
    put(
        &mut page,
        format_args!("<header><h1>Tidegate</h1><span class=\"soft\">version {version}</span></header>\n"),
    );
    let jobs = state.jobs();
    if jobs.is_empty() {
        page.push_str("<section>No job was started in this process.</section>\n");
    }
    for job in jobs.into_values() {
        job_section(&mut page, state, &*job, &times);
    }
    page.push_str(
        "<footer>For machines: <a href=\"/jobs/overview\">/jobs/overview</a>, <a href=\"/metrics\">/metrics</a>, \
         <a href=\"/health\">/health</a>. This page asks anew every 5 seconds.</footer>\n</main></body></html>\n",
    );
    page
}

/// A String takes everything.
fn put(page: &mut String, what: std::fmt::Arguments<'_>) {
    let _always = page.write_fmt(what);
}

fn job_section(page: &mut String, state: &Shared, job: &dyn Job, times: &Times) {
    let status = &job.board().read();
    let (start, end) = lifetime(status);
    let lived = Duration::from_millis(end.unwrap_or(times.wall_ms).abs_diff(start));
    put(
        page,
        format_args!(
            "<section><header><h2>{}</h2><span class=\"tag {}\">{}</span></header>\n<p class=\"soft\">id {} · {} {} · \
             restarts {}",
            Text(&status.name),
            job_class(status.state),
            state_name(status.state),
            Text(status.job.as_str()),
            if end.is_some() { "lived" } else { "up" },
            Span(lived),
            status.restarts,
        ),
    );
    if status.abandoned_threads > 0 {
        put(
            page,
            format_args!(
                " · <span class=\"bad\">abandoned threads {}</span>",
                status.abandoned_threads
            ),
        );
    }
    page.push_str("</p>\n");
    failures(page, status, job.error().as_deref(), times);
    vertices(page, state, status);
    checkpoints(page, status, times);
    page.push_str("</section>\n");
}

fn job_class(state: JobState) -> &'static str {
    match state {
        JobState::Running | JobState::Finished => "good",
        JobState::Failed | JobState::Failing => "bad",
        JobState::Created
        | JobState::Restarting
        | JobState::Cancelling
        | JobState::Canceled
        | JobState::Suspended => "wait",
    }
}

fn failures(page: &mut String, status: &JobStatus, error: Option<&str>, times: &Times) {
    if let Some(error) = error {
        put(
            page,
            format_args!("<h3>The job's error</h3><pre>{}</pre>\n", Text(error)),
        );
    }
    if status.failures.is_empty() {
        return;
    }
    page.push_str("<h3>Failures</h3>\n");
    for failure in status.failures.iter().rev().take(FAILURES) {
        let ago = Span(Duration::from_millis(
            times.wall_ms.saturating_sub(failure.at).max(0).unsigned_abs(),
        ));
        put(
            page,
            format_args!(
                "<p class=\"soft\">{ago} ago</p><pre>{}</pre>\n",
                Text(&failure.error)
            ),
        );
    }
}

fn vertices(page: &mut String, state: &Shared, status: &JobStatus) {
    page.push_str(
        "<h3>Tasks</h3><div class=\"scroll\"><table><tr><th>vertex</th><th>state</th><th class=\"n\">parallelism</th>\
         <th>busy · backpressured · idle</th><th class=\"n\">records/s in · out</th><th>queue</th></tr>\n",
    );
    for (at, info) in status.vertices.iter().enumerate() {
        let id = VertexId(at as u32);
        let states = cells::states_of(status, id);
        let subtasks: Vec<_> = cells::subtasks_of(status, id).into_iter().flatten().collect();
        let rates: Vec<Rate> = subtasks.iter().filter_map(|s| state.rate(status, s.id)).collect();
        put(
            page,
            format_args!(
                "<tr><td class=\"wrap\">{}<br><span class=\"soft\">{}</span></td><td>{}</td><td class=\"n\">{}</td>",
                Text(&info.name),
                Text(&info.uids.join(", ")),
                cells::vertex_state(&states),
                info.parallelism,
            ),
        );
        busy_bar(page, &rates);
        let (queued, capacity) = subtasks
            .iter()
            .map(|s| s.metrics.fill())
            .fold((0, 0), |a: (u64, u64), b| {
                (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
            });
        let percent = if capacity == 0 {
            0.0
        } else {
            (queued as f64 / capacity as f64 * 100.0).min(100.0)
        };
        put(
            page,
            format_args!(
                "<td><span class=\"bar\"><i class=\"fill\" style=\"width:{percent:.0}%\"></i></span> \
                 {queued} of {capacity}</td></tr>\n"
            ),
        );
    }
    page.push_str("</table></div>\n");
}

/// The mean over the subtasks.
fn busy_bar(page: &mut String, rates: &[Rate]) {
    if rates.is_empty() {
        page.push_str("<td class=\"soft\">–</td><td class=\"n soft\">–</td>");
        return;
    }
    let percent = |of: fn(&Rate) -> f64| rates.iter().map(of).sum::<f64>() / rates.len() as f64 / 10.0;
    let (busy, press, idle) = (
        percent(|r| r.busy_ms),
        percent(|r| r.backpressured_ms),
        percent(|r| r.idle_ms),
    );
    let (taken, given) = rates.iter().fold((0.0, 0.0), |sum, rate| {
        (sum.0 + rate.records_in, sum.1 + rate.records_out)
    });
    put(
        page,
        format_args!(
            "<td><span class=\"bar\"><i class=\"busy\" style=\"width:{busy:.0}%\"></i><i class=\"press\" \
             style=\"width:{press:.0}%\"></i><i class=\"idle\" style=\"width:{idle:.0}%\"></i></span> {busy:.0} · \
             {press:.0} · {idle:.0} %</td><td class=\"n\">{taken:.0} · {given:.0}</td>"
        ),
    );
}

fn checkpoints(page: &mut String, status: &JobStatus, times: &Times) {
    let counts = status.history.counts();
    put(
        page,
        format_args!(
            "<h3>Checkpoints</h3><p class=\"soft\">triggered {} · complete {} · failed {} · in progress {} · restored \
             {}</p>\n",
            counts.total, counts.completed, counts.failed, counts.in_progress, counts.restored
        ),
    );
    if status.history.recent().next().is_none() {
        return;
    }
    page.push_str(
        "<div class=\"scroll\"><table><tr><th class=\"n\">id</th><th>status</th><th>kind</th><th>mode</th><th>triggered\
         </th><th class=\"n\">duration</th><th class=\"n\">written</th><th class=\"n\">full size</th><th class=\"n\">in \
         flight</th><th class=\"n\">start delay</th><th class=\"n\">alignment</th><th>acknowledged</th></tr>\n",
    );
    for stats in status.history.recent() {
        checkpoint_row(page, stats, times);
    }
    page.push_str("</table></div>\n");
    let failed = status.history.recent().filter_map(|stats| stats.failure.as_ref());
    for record in failed.take(FAILURES) {
        put(page, format_args!("<pre>{}</pre>\n", Text(&record.to_string())));
    }
}

fn checkpoint_row(page: &mut String, stats: &CheckpointStats, times: &Times) {
    let class = match stats.status {
        CheckpointStatus::InProgress => "wait",
        CheckpointStatus::Completed => "good",
        CheckpointStatus::Failed => "bad",
    };
    // The slowest subtask decides.
    let longest =
        |of: fn(&SubtaskCheckpoint) -> Duration| Span(stats.acked().map(of).max().unwrap_or_default());
    let ago = times
        .wall_ms
        .saturating_sub(times.at(stats.triggered_at))
        .max(0)
        .unsigned_abs();
    put(
        page,
        format_args!(
            "<tr><td class=\"n\">{}</td><td class=\"{class}\">{}</td><td>{}</td><td>{}</td><td>{} ago</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td>{} of {}</td></tr>\n",
            stats.id,
            stats.status.name(),
            if stats.kind.is_savepoint() {
                "savepoint"
            } else {
                "checkpoint"
            },
            stats.mode,
            Span(Duration::from_millis(ago)),
            Span(stats.end_to_end()),
            Bytes(stats.checkpointed_bytes()),
            Bytes(stats.state_bytes()),
            Bytes(stats.persisted_bytes()),
            longest(|part| part.stats.start_delay),
            longest(|part| part.stats.alignment),
            stats.acknowledged(),
            stats.subtask_count(),
        ),
    );
}
