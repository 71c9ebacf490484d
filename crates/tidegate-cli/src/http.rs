//! A small HTTP/1.1 client for the REST interface: one request per connection, JSON both ways.
//!
//! An administrator's tool talks to a server it trusts, mostly on loopback; a full client with pools, redirects
//! and TLS would be most of the binary. What is read is limited in size and time all the same, and anything
//! unexpected is an error.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

use crate::args::RestAddress;
use crate::error::CliError;

/// Until a connection stands, and between two pieces of an answer. The server itself gives an answer 30 s.
const PATIENCE: Duration = Duration::from_secs(35);

/// The longest answer: that about a job with thousands of subtasks has a few megabytes.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// An answer: its status and its JSON.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// Talks to one server.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    address: RestAddress,
}

impl Client {
    /// A client of the server there.
    pub(crate) fn new(address: RestAddress) -> Self {
        Self { address }
    }

    /// Asks, and expects a good answer.
    ///
    /// # Errors
    /// When nobody answers, or the answer is an error; its text is the server's.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, CliError> {
        let at = format!("http://{}", self.authority());
        let answer = self
            .exchange(method, path, body)
            .map_err(|error| match error.kind() {
                io::ErrorKind::ConnectionRefused => CliError::Failed(format!(
                    "nothing listens at {at}. Start the job with --rest, and name the same address here"
                )),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    CliError::Failed(format!("{at} didn't answer within {} s", PATIENCE.as_secs()))
                }
                _ => CliError::Failed(format!("{at} can't be asked: {error}")),
            })?;
        if (200..300).contains(&answer.status) {
            return Ok(answer.body);
        }
        let said = answer.body["errors"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let said: Vec<&str> = said.collect();
        Err(CliError::Failed(match &said[..] {
            [] => format!("{at} answered {method} {path} with status {}", answer.status),
            said => said.join("\n"),
        }))
    }

    fn authority(&self) -> String {
        let RestAddress { host, port } = &self.address;
        match host.contains(':') && !host.starts_with('[') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        }
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
        let mut stream = self.connect()?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAccept: application/json\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.authority(),
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut bytes = Vec::new();
        stream.take(MAX_ANSWER_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_ANSWER_BYTES {
            return Err(invalid("the answer is too long"));
        }
        parse(&bytes)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let host = self.address.host.trim_start_matches('[').trim_end_matches(']');
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name stands for no address");
        for address in (host, self.address.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{what}; is it Tidegate's REST interface?"),
    )
}

/// Reads a whole answer.
fn parse(bytes: &[u8]) -> io::Result<Answer> {
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .ok_or_else(|| invalid("the answer has no head"))?;
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| invalid("the answer's head isn't text"))?;
    let mut status = head.split("\r\n").next().unwrap_or_default().split(' ');
    let is_http = status
        .next()
        .is_some_and(|version| version.starts_with("HTTP/1."));
    let code = status
        .next()
        .and_then(|code| code.parse().ok())
        .filter(|_| is_http);
    let status = code.ok_or_else(|| invalid("the answer isn't HTTP"))?;
    let header = |wanted: &str| {
        let named = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        named
            .filter(|(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value.trim())
            .last()
    };
    let rest = &bytes[end + 4..];
    let chunked = header("transfer-encoding").is_some_and(|how| how.eq_ignore_ascii_case("chunked"));
    let body = match header("content-length") {
        _ if chunked => dechunked(rest)?,
        None => rest.to_vec(),
        Some(length) => {
            let length: usize = length
                .parse()
                .map_err(|_| invalid("the answer's length isn't a number"))?;
            rest.get(..length)
                .ok_or_else(|| invalid("the answer is cut off"))?
                .to_vec()
        }
    };
    let is_json = header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
    let body = match is_json {
        _ if body.is_empty() => Value::Null,
        true => serde_json::from_slice(&body)
            .map_err(|error| invalid(&format!("the answer isn't JSON: {error}")))?,
        false => Value::Null,
    };
    Ok(Answer { status, body })
}

/// Puts a body together that came in chunks, each with its length in hexadecimal before it.
fn dechunked(mut rest: &[u8]) -> io::Result<Vec<u8>> {
    let cut_off = || invalid("the answer is cut off");
    let mut body = Vec::new();
    loop {
        let line = rest
            .windows(2)
            .position(|two| two == b"\r\n")
            .ok_or_else(cut_off)?;
        let digits = std::str::from_utf8(&rest[..line])
            .ok()
            .and_then(|l| l.split(';').next());
        let length = digits
            .and_then(|d| usize::from_str_radix(d.trim(), 16).ok())
            .ok_or_else(cut_off)?;
        rest = &rest[line + 2..];
        if length == 0 {
            return Ok(body);
        }
        body.extend_from_slice(rest.get(..length).ok_or_else(cut_off)?);
        rest = rest[length..].strip_prefix(b"\r\n").ok_or_else(cut_off)?;
    }
}

/// A segment of a path, with everything encoded that isn't plain.
pub(crate) fn segment(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

#[cfg(test)]
mod tests;
