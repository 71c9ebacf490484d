//! Which path leads to which handler. `docs/rest.md` has the same list for people.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, Uri};
use axum::middleware;
use axum::routing::{get, patch, post};

use crate::error::RestError;
use crate::guard::{Guard, guard};
use crate::handlers::{checkpoints, cluster, commands, details, job, vertex};
use crate::state::AppState;
use crate::{page, prometheus};

/// The longest body: requests are a few short fields.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// Everything behind one port.
pub(crate) fn router(state: AppState, allowed: Guard) -> Router {
    let api = api();
    Router::new()
        .route("/", get(page::page))
        .route("/health", get(cluster::health))
        .route("/metrics", get(prometheus::metrics))
        .merge(api.clone())
        .nest("/v1", api)
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(state)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(Arc::new(allowed), guard))
}

/// Flink's paths.
fn api() -> Router<AppState> {
    Router::new()
        .route("/overview", get(cluster::overview))
        .route("/config", get(cluster::config))
        .route("/jobs", get(cluster::jobs))
        .route("/jobs/overview", get(cluster::jobs_overview))
        .route("/jobs/{job}", get(job::details).merge(patch(commands::terminate)))
        .route("/jobs/{job}/status", get(job::status))
        .route("/jobs/{job}/config", get(job::config))
        .route("/jobs/{job}/plan", get(job::plan))
        .route("/jobs/{job}/exceptions", get(job::exceptions))
        .route("/jobs/{job}/vertices/{vertex}", get(vertex::details))
        .route(
            "/jobs/{job}/vertices/{vertex}/backpressure",
            get(vertex::backpressure),
        )
        .route(
            "/jobs/{job}/vertices/{vertex}/watermarks",
            get(vertex::watermarks),
        )
        .route(
            "/jobs/{job}/checkpoints",
            get(checkpoints::statistics).merge(post(commands::checkpoint)),
        )
        .route("/jobs/{job}/checkpoints/config", get(checkpoints::config))
        .route(
            "/jobs/{job}/checkpoints/details/{checkpoint}",
            get(details::checkpoint),
        )
        .route(
            "/jobs/{job}/checkpoints/details/{checkpoint}/subtasks/{vertex}",
            get(details::vertex),
        )
        .route(
            "/jobs/{job}/checkpoints/{trigger}",
            get(commands::checkpoint_status),
        )
        .route("/jobs/{job}/savepoints", post(commands::savepoint))
        .route(
            "/jobs/{job}/savepoints/{trigger}",
            get(commands::savepoint_status),
        )
        .route("/jobs/{job}/stop", post(commands::stop))
}

async fn unknown_path(uri: Uri) -> RestError {
    RestError::not_found(format!(
        "there is nothing at {}; GET / shows the jobs",
        uri.path()
    ))
}

async fn wrong_method(method: Method, uri: Uri) -> RestError {
    RestError::wrong_method(format!("{method} means nothing for {}", uri.path()))
}
