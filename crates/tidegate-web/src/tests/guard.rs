//! Who may ask.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use tower::ServiceExt;

use super::fixture::App;
use crate::guard::Guard;
use crate::routes::router;

fn ask(app: &App, router: &Router, method: &str, headers: &[(&str, &str)]) -> StatusCode {
    let mut request = Request::builder().method(method).uri("/jobs/counts");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).unwrap();
    app.runtime
        .block_on(router.clone().oneshot(request))
        .unwrap()
        .status()
}

#[test]
fn on_loopback_only_names_of_this_machine_are_answered() {
    let app = App::counts();
    let local = router(app.state.clone(), Guard::loopback("streams.internal"));
    for host in [
        "127.0.0.1:8081",
        "[::1]:8081",
        "localhost",
        "LOCALHOST:1",
        "a.localhost:8081",
        "streams.internal",
    ] {
        assert_eq!(
            ask(&app, &local, "GET", &[("host", host)]),
            StatusCode::OK,
            "{host}"
        );
    }
    for host in [
        "evil.example:8081",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "a b",
    ] {
        assert_eq!(
            ask(&app, &local, "GET", &[("host", host)]),
            StatusCode::FORBIDDEN,
            "{host}"
        );
    }
    let open = router(app.state.clone(), Guard::open());
    assert_eq!(
        ask(&app, &open, "GET", &[("host", "streams.example:8081")]),
        StatusCode::OK
    );
}

#[test]
fn pages_of_others_change_nothing() {
    let app = App::counts();
    for guard in [Guard::loopback("localhost"), Guard::open()] {
        let router = router(app.state.clone(), guard);
        let ask = |method: &str, origin: &str| {
            ask(
                &app,
                &router,
                method,
                &[("host", "localhost:8081"), ("origin", origin)],
            )
        };
        assert_eq!(ask("PATCH", "http://evil.example"), StatusCode::FORBIDDEN);
        assert_eq!(ask("PATCH", "http://localhost:3000"), StatusCode::FORBIDDEN);
        assert_eq!(ask("PATCH", "null"), StatusCode::FORBIDDEN);
        assert_eq!(ask("PATCH", "http://localhost:8081"), StatusCode::ACCEPTED);
        assert_eq!(ask("PATCH", "https://localhost:8081"), StatusCode::ACCEPTED);
        assert_eq!(
            ask("GET", "http://evil.example"),
            StatusCode::OK,
            "reading is the browser's to forbid"
        );
    }
}
