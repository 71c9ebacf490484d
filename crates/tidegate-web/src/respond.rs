//! JSON and text as responses.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

/// A response with a body of this type.
pub(crate) fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A JSON response. Values of this crate have text keys only, so they can always be written.
pub(crate) fn json_response(status: StatusCode, value: &Value) -> Response {
    typed(status, "application/json; charset=utf-8", value.to_string())
}

/// A JSON answer with status 200.
pub(crate) struct Json(pub(crate) Value);

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        json_response(StatusCode::OK, &self.0)
    }
}

/// A JSON answer with status 202: it has been begun.
pub(crate) struct Accepted(pub(crate) Value);

impl IntoResponse for Accepted {
    fn into_response(self) -> Response {
        json_response(StatusCode::ACCEPTED, &self.0)
    }
}
