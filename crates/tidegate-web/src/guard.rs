//! Who may ask, and for how long: what stands before every handler.
//!
//! A server that listens on loopback can be reached by every page that the machine's user opens in a browser. Two rules
//! keep such pages out, and let every other client in:
//!
//! - While only loopback is listened on, the `Host` must be an IP address, `localhost` or the configured name. A page
//!   whose domain was pointed at 127.0.0.1 (DNS rebinding) sends that domain.
//! - A request that changes something and names an `Origin`, as browsers do, must come from a page of this server.
//!
//! Each request has a time limit, its body included; everything slow is an operation that is asked about later.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::error::RestError;

/// From a request's head until its answer.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The longest text with which the framework refuses.
const MAX_REFUSAL_BYTES: usize = 4096;

/// Which requests are let through.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    /// The name under which a server on loopback is known, beside `localhost` and addresses; `None` if others than this
    /// machine may ask, which may know the server by any name.
    loopback_name: Option<String>,
}

impl Guard {
    /// For a server that this machine alone can reach.
    pub(crate) fn loopback(name: &str) -> Self {
        Self {
            loopback_name: Some(name.to_owned()),
        }
    }

    /// For a server that was told to listen to others.
    pub(crate) fn open() -> Self {
        Self { loopback_name: None }
    }

    fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), RestError> {
        let host = text(headers, &HOST);
        if let (Some(name), Some(host)) = (&self.loopback_name, host)
            && !is_local(host, name)
        {
            return Err(RestError::forbidden(format!(
                "this server listens on this machine only and is not known as `{host}`; use localhost, or set \
                 rest.address"
            )));
        }
        let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if changes && let Some(origin) = text(headers, &ORIGIN) {
            let from = origin
                .strip_prefix("http://")
                .or_else(|| origin.strip_prefix("https://"));
            if from.is_none() || from != host {
                return Err(RestError::forbidden(format!(
                    "pages of `{origin}` may not change jobs here"
                )));
            }
        }
        Ok(())
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    // What isn't text can't be right: it equals nothing that is allowed.
    headers
        .get(name)
        .map(|value| value.to_str().unwrap_or("(not text)"))
}

fn is_local(host: &str, name: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let host = authority.host();
    let bare = host
        .strip_prefix('[')
        .and_then(|h| h.strip_suffix(']'))
        .unwrap_or(host);
    bare.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || host.eq_ignore_ascii_case(name)
}

/// What the framework itself refuses (a body that is too long, a path that isn't UTF-8), in the form of all errors.
async fn in_json(response: Response) -> Response {
    let status = response.status();
    let of_type = response.headers().get(CONTENT_TYPE);
    let is_json = of_type.is_some_and(|of_type| of_type.as_bytes().starts_with(b"application/json"));
    if is_json || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let text = axum::body::to_bytes(response.into_body(), MAX_REFUSAL_BYTES)
        .await
        .unwrap_or_default();
    RestError::other(status, String::from_utf8_lossy(&text)).into_response()
}

/// Lets a request through, or answers it.
pub(crate) async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    if let Err(refused) = guard.check(request.method(), request.headers()) {
        return refused.into_response();
    }
    match tokio::time::timeout(TIME_LIMIT, next.run(request)).await {
        Ok(response) => in_json(response).await,
        Err(_) => RestError::too_slow().into_response(),
    }
}
