//! Answers, good, bad and hostile.

use serde_json::json;

use super::*;

fn answer(head: &str, body: &str) -> io::Result<Answer> {
    parse(format!("{head}\r\ncontent-type: application/json\r\n{body}").as_bytes())
}

#[test]
fn a_body_has_a_length_or_comes_in_chunks_or_to_the_end() {
    let good = Answer {
        status: 200,
        body: json!({"a": 1}),
    };
    for rest in [
        "Content-Length: 7\r\n\r\n{\"a\":1}trailing",
        "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n",
        "\r\n{\"a\":1}",
    ] {
        assert_eq!(answer("HTTP/1.1 200 OK", rest).expect(rest), good);
    }
    assert_eq!(
        answer("HTTP/1.1 202 Accepted", "Content-Length: 0\r\n\r\n")
            .expect("fine")
            .body,
        Value::Null
    );
}

#[test]
fn what_is_no_answer_is_an_error_and_not_a_panic() {
    for (head, rest) in [
        ("HTTP/1.1 200 OK", "Content-Length: 99\r\n\r\n{}"),
        ("HTTP/1.1 200 OK", "Content-Length: -1\r\n\r\n{}"),
        (
            "HTTP/1.1 200 OK",
            "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}\r\n0\r\n\r\n",
        ),
        ("HTTP/1.1 200 OK", "Transfer-Encoding: chunked\r\n\r\n2\r\n{}"),
        ("HTTP/1.1 200 OK", "\r\n{"),
        ("HTTP/1.1 OK", "\r\n{}"),
        ("SSH-2.0-x 200", "\r\n{}"),
        ("HTTP/1.1 200 OK", "no end"),
    ] {
        assert!(answer(head, rest).is_err(), "{head} {rest}");
    }
    assert!(parse(b"").is_err());
    assert!(parse(b"\xff\xfe\r\n\r\n").is_err());
}

#[test]
fn a_server_is_asked_over_a_connection() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the client comes");
        let mut asked = Vec::new();
        let mut buffer = [0; 1024];
        while !asked.ends_with(b"{\"drain\":true}") {
            let n = stream.read(&mut buffer).expect("it is readable");
            asked.extend_from_slice(&buffer[..n]);
        }
        let body = r#"{"errors":["no such job","ask another"]}"#;
        let head = format!(
            "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: {}",
            body.len()
        );
        stream
            .write_all(format!("{head}\r\n\r\n{body}").as_bytes())
            .expect("it is writable");
        String::from_utf8(asked).expect("text")
    });
    let client = Client::new(RestAddress {
        host: "127.0.0.1".into(),
        port,
    });
    let error = client
        .ask("POST", "/jobs/a/stop", Some(&json!({"drain": true})))
        .expect_err("it is refused");
    assert_eq!(error.to_string(), "no such job\nask another");
    let asked = server.join().expect("the server ends");
    assert!(asked.starts_with("POST /jobs/a/stop HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("\r\nContent-Length: 14\r\n"), "{asked}");
}

#[test]
fn segments_are_encoded() {
    assert_eq!(segment("word-count_1.~"), "word-count_1.~");
    assert_eq!(segment("a b/ü?"), "a%20b%2F%C3%BC%3F");
}
