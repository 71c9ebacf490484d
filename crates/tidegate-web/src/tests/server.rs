//! The server over loopback, asked by a client of a few lines.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_protocol::coordinator::RequestDone;
use tidegate_runtime::master::local::Engine;
use tidegate_types::options::{RestPort, RestSettings};
use tokio::time::timeout;

use super::fixture::{FakeJob, FakeJobs, counts};
use crate::{Address, ServeError, Server};

/// Nothing here takes this long; a test that hangs fails instead.
const LIMIT: Duration = Duration::from_secs(20);

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, LIMIT).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Sends one request on a connection of its own; the status line and the body.
fn ask(to: SocketAddr, method: &str, path: &str, body: &str) -> (String, String) {
    let mut stream = connect(to);
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {to}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

fn serve(runtime: &tokio::runtime::Runtime) -> Server {
    let jobs = FakeJobs::of(vec![FakeJob::new(counts())]);
    Server::serve(jobs, runtime.handle(), &Address::new("localhost", 0)).unwrap()
}

#[test]
fn a_round_trip() {
    let runtime = runtime();
    let server = serve(&runtime);
    let local = server.local_addr();
    assert!(local.ip().is_loopback() && local.port() != 0, "{local}");
    let (status, body) = ask(local, "GET", "/v1/jobs", "");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body, json!({ "jobs": [{ "id": "counts", "status": "RUNNING" }] }));

    let body = json!({ "target-directory": "/save" }).to_string();
    let (status, body) = ask(local, "POST", "/jobs/counts/savepoints", &body);
    assert_eq!(status, "HTTP/1.1 202 Accepted");
    let body: Value = serde_json::from_str(&body).unwrap();
    let id = body["request-id"].as_str().unwrap();
    let (status, body) = ask(local, "GET", &format!("/jobs/counts/savepoints/{id}"), "");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(body.contains("IN_PROGRESS"), "{body}");
}

#[test]
fn several_requests_on_one_connection() {
    let runtime = runtime();
    let server = serve(&runtime);
    let local = server.local_addr();
    let mut stream = connect(local);
    for _ in 0..3 {
        write!(
            stream,
            "GET /jobs/counts/status HTTP/1.1\r\nHost: {local}\r\n\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\"RUNNING\"}") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 OK"));
    }
}

#[test]
fn whoever_ends_with_his_job_waits_until_outcomes_are_fetched() {
    let runtime = runtime();
    let jobs = FakeJobs::of(vec![FakeJob::new(counts())]);
    let job = jobs.jobs.lock().unwrap()[0].clone();
    let server = Server::serve(jobs, runtime.handle(), &Address::new("localhost", 0)).unwrap();
    let local = server.local_addr();
    // Nothing was begun: nothing to wait for.
    let waited = |limit| runtime.block_on(async { timeout(limit, server.outcomes_fetched()).await });
    assert!(waited(LIMIT).is_ok());

    let body = json!({ "targetDirectory": "/save" }).to_string();
    let (status, body) = ask(local, "POST", "/jobs/counts/stop", &body);
    assert_eq!(status, "HTTP/1.1 202 Accepted");
    let body: Value = serde_json::from_str(&body).unwrap();
    let path = format!("/jobs/counts/savepoints/{}", body["request-id"].as_str().unwrap());
    job.answer(Ok(RequestDone {
        id: None,
        path: Some("/save/s".to_owned()),
    }));
    assert!(
        waited(Duration::ZERO).is_err(),
        "the client has asked for nothing yet"
    );
    let fetched = std::thread::spawn(move || {
        loop {
            let (_, body) = ask(local, "GET", &path, "");
            if body.contains("COMPLETED") {
                return body;
            }
        }
    });
    assert!(waited(LIMIT).is_ok());
    // The answer is still on its way; shutting down lets it out.
    runtime.block_on(server.shutdown());
    assert!(fetched.join().unwrap().contains("/save/s"));
}

#[test]
fn after_shutdown_the_port_is_free_and_connections_are_closed() {
    let runtime = runtime();
    let server = serve(&runtime);
    let local = server.local_addr();
    let mut idle = connect(local);
    ask(local, "GET", "/health", "");
    runtime.block_on(server.shutdown());
    let mut rest = Vec::new();
    assert_eq!(
        idle.read_to_end(&mut rest).unwrap_or(0),
        0,
        "an unused connection is closed"
    );
    drop(idle);
    let again = Server::serve(FakeJobs::of(Vec::new()), runtime.handle(), &Address::from(local));
    assert_eq!(again.unwrap().local_addr(), local);
}

#[test]
fn a_dropped_server_stops() {
    let runtime = runtime();
    let server = serve(&runtime);
    let mut idle = connect(server.local_addr());
    drop(server);
    let mut rest = Vec::new();
    assert_eq!(idle.read_to_end(&mut rest).unwrap_or(0), 0);
}

#[test]
fn an_engine_without_jobs() {
    let engine = Engine::start().unwrap();
    let server = Server::start(&engine, &Address::new("127.0.0.1", 0)).unwrap();
    let (status, body) = ask(server.local_addr(), "GET", "/jobs/overview", "");
    assert_eq!(
        (status.as_str(), body.as_str()),
        ("HTTP/1.1 200 OK", r#"{"jobs":[]}"#)
    );
    engine.handle().block_on(server.shutdown());
}

#[test]
fn a_server_does_not_keep_its_engine_and_either_may_go_first_inside_a_runtime() {
    runtime().block_on(async {
        let engine = Engine::start().unwrap();
        let address = Address::new("127.0.0.1", 0);
        let (first, second) = (
            Server::start(&engine, &address).unwrap(),
            Server::start(&engine, &address).unwrap(),
        );
        drop(first);
        let kept = std::sync::Arc::downgrade(&engine);
        drop(engine);
        assert_eq!(kept.strong_count(), 0);
        drop(second);
    });
}

#[test]
fn a_port_in_use_is_named_with_the_remedy() {
    let runtime = runtime();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::from(taken.local_addr().unwrap());
    let error = Server::serve(FakeJobs::of(Vec::new()), runtime.handle(), &address).unwrap_err();
    assert!(
        matches!(&error, ServeError::Bind { address: at, .. } if *at == address),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("the REST interface can't listen at {address}: ")),
        "{text}"
    );
    assert!(
        text.contains("set rest.port to another port, or to 0 for any free one"),
        "{text}"
    );
}

#[test]
fn an_address_of_another_machine_is_named_with_the_remedy() {
    let runtime = runtime();
    // Kept for documentation: nobody has it.
    let address = Address::new("192.0.2.1", 0);
    let error = Server::serve(FakeJobs::of(Vec::new()), runtime.handle(), &address)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("192.0.2.1:0") && error.contains("rest.address"),
        "{error}"
    );
}

#[test]
fn addresses_from_options_and_in_words() {
    let configured = |port| {
        Address::configured(&RestSettings {
            address: "localhost".to_owned(),
            port,
        })
    };
    assert_eq!(configured(RestPort::Off), None);
    assert_eq!(configured(RestPort::Any), Some(Address::new("localhost", 0)));
    assert_eq!(
        configured(RestPort::Port(8081)),
        Some(Address::new("localhost", 8081))
    );
    assert_eq!(Address::new("::1", 80).to_string(), "[::1]:80");
    assert_eq!(Address::new("[::1]", 80).to_string(), "[::1]:80");
    assert_eq!(Address::new("h", 80).to_string(), "h:80");
}
