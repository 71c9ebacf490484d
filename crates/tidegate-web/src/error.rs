//! What is answered when a request can't be met: Flink's `{"errors": […]}` with the status that fits.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::respond::json_response;

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RestError {
    status: StatusCode,
    message: String,
}

impl RestError {
    /// The request makes no sense as it is.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
        }
    }

    /// Nothing goes by that name.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            message: message.into(),
        }
    }

    /// It is too late for that.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::CONFLICT,
            message: message.into(),
        }
    }

    /// Somebody else's page asks.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            message: message.into(),
        }
    }

    /// The path is right and the method isn't.
    pub(crate) fn wrong_method(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::METHOD_NOT_ALLOWED,
            message: message.into(),
        }
    }

    /// Not now.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            message: message.into(),
        }
    }

    /// What the framework refused.
    pub(crate) fn other(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    /// The client took too long.
    pub(crate) fn too_slow() -> Self {
        let message = "the request took too long to arrive or to be answered".to_owned();
        Self {
            status: StatusCode::REQUEST_TIMEOUT,
            message,
        }
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        json_response(self.status, &json!({ "errors": [self.message] }))
    }
}
