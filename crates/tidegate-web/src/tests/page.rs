//! The status page.

use axum::body::Body;
use axum::http::Request;
use tidegate_runtime::master::{JobFailure, JobState};

use super::fixture::{App, EPOCH_MS, FakeJob, counts, plain};

fn page(app: &App) -> String {
    app.send("GET", "/", "").1
}

#[test]
fn shows_jobs_tasks_and_checkpoints() {
    let app = App::counts();
    app.state.sample();
    app.jobs.pass(1000);
    app.state.sample();
    let page = page(&app);
    for part in [
        "<meta http-equiv=\"refresh\" content=\"5\">",
        "<h2>Counts of &lt;words&gt;</h2>",
        ">RUNNING</span>",
        "up 1 min 0 s",
        "Source: numbers",
        "sum -&gt; print",
        "100 · 0 · 0 %",
        "50 of 200",
        "triggered 4 · complete 2 · failed 1 · in progress 1 · restored 1",
        "IN_PROGRESS",
        "no &lt;space&gt; left on device",
        "Check that the checkpoint directory is writable",
        "<td>savepoint</td><td>aligned</td>",
        "<td class=\"n\">40.0 ms</td><td class=\"n\">120 B</td><td class=\"n\">160 B</td><td class=\"n\">64 B</td>\
         <td class=\"n\">20.0 ms</td><td class=\"n\">7.0 ms</td><td>4 of 4</td>",
    ] {
        assert!(page.contains(part), "no {part} in {page}");
    }
}

#[test]
fn nothing_of_a_job_becomes_markup() {
    let evil = "<script>alert('&\"')</script>";
    let mut status = counts();
    status.name = evil.to_owned();
    status.job = evil.into();
    status.vertices[0].name = evil.to_owned();
    status.vertices[1].uids = vec![evil.to_owned()];
    status.failed(JobFailure {
        at: EPOCH_MS,
        subtask: None,
        error: evil.to_owned(),
    });
    let mut job = FakeJob::new(status);
    job.error = Some(evil.to_owned());
    let page = page(&App::new(vec![job]));
    assert!(!page.contains("<script"), "{page}");
    let escaped = "&lt;script&gt;alert(&#39;&amp;&quot;&#39;)&lt;/script&gt;";
    assert_eq!(page.matches(escaped).count(), 6);
}

#[test]
fn without_jobs_and_without_tasks() {
    assert!(page(&App::new(Vec::new())).contains("No job was started in this process."));
    let new = FakeJob::new(plain("new", JobState::Created, &[("CREATED", 59_000)]));
    let page = page(&App::new(vec![new]));
    assert!(page.contains("CREATED") && page.contains("0 of 0"), "{page}");
}

#[test]
fn the_browser_is_told_to_run_nothing() {
    let response = App::counts().respond(Request::builder().uri("/").body(Body::empty()).unwrap());
    assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
    assert_eq!(
        response.headers()["content-security-policy"],
        "default-src 'none'; style-src 'unsafe-inline'"
    );
}
