//! D10: requests whose end, or whose meaning, two programs could see differently, sent as they are.
//!
//! Each is followed on its connection by a second request, `PUT /smuggled`. A program that sees the first one's end elsewhere than
//! this server does would not know of it. So what is ambiguous gets one answer, 400, and then the connection ends; the second request
//! is never answered, and never done. What is sound gets both of its answers, or `/smuggled` would prove nothing.
//!
//! Here is what judges them, and what is sound. What is not lies below: `framing` (lengths and encodings), `chunks` (their insides, and
//! bodies that look like requests), `heads` (lines, fields, hosts).

mod chunks;
mod framing;
mod heads;

use crate::client::{RequestPathway, TestClient};
use crate::harness::TestServer;

/// What comes second, and must not be done.
const SECOND: &str = "PUT /smuggled HTTP/1.1\r\nHost: store.test\r\nContent-Length: 1\r\n\r\nx";

/// What comes last, so that a connection ends on which all was well.
const LAST: &str = "GET /last HTTP/1.1\r\nHost: store.test\r\nConnection: close\r\n\r\n";

/// What must come of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedResponse {
    /// This answer, and the end.
    Refused(u16),
    /// One of these, and the end.
    RefusedBy(&'static [u16]),
    /// An answer to it and one to the next.
    Both,
    /// Its answer, and the end.
    Last(u16),
    /// Its answer, after which the connection may end or the next one is answered: it is sound and says no more about itself.
    Either(u16),
}

use ExpectedResponse::{Both, Either, Last, Refused, RefusedBy};

/// A PUT with these fields, as they are, and this body.
fn put(fields: &str, body: &str) -> String {
    format!("PUT /f HTTP/1.1\r\nHost: store.test\r\n{fields}\r\n{body}")
}

/// The same in chunks.
fn chunks(body: &str) -> String {
    put("Transfer-Encoding: chunked\r\n", body)
}

/// A GET with these fields.
fn get(fields: &str) -> String {
    format!("GET /there HTTP/1.1\r\n{fields}\r\n")
}

/// Sends each of them and the second request after it, at once and byte by byte.
#[track_caller]
fn judge(cases: &[(&str, String, ExpectedResponse)]) {
    let mut wrong = Vec::new();
    for (name, first, comes) in cases {
        for (road, step) in [
            (RequestPathway::Plain, usize::MAX),
            (RequestPathway::Plain, 1),
            (RequestPathway::Tls, usize::MAX),
        ] {
            // Byte by byte is for what is short.
            if step == 1 && first.len() > 1000 {
                continue;
            }
            let served = TestServer::start();
            served.file("there", "there");
            if let Err(what) = one(&served, road, first, step, *comes) {
                wrong.push(format!("{name} ({road:?}, {step}): {what}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn one(
    served: &TestServer,
    road: RequestPathway,
    first: &str,
    step: usize,
    comes: ExpectedResponse,
) -> Result<(), String> {
    let mut client = TestClient::on(served, road);
    let all = format!("{first}{SECOND}{LAST}");
    for piece in all.as_bytes().chunks(step.min(all.len())) {
        // It may have refused already, and gone.
        if client.try_send(piece).is_err() {
            break;
        }
    }
    let answers = client.rest();
    let text = String::from_utf8_lossy(&answers).into_owned();
    let statuses: Vec<u16> = text
        .match_indices("HTTP/1.")
        .map(|(at, _)| text[at + 9..at + 12].parse().unwrap())
        .collect();
    let is_done = served.holds("smuggled").is_some();
    let is_right = match comes {
        Refused(status) => statuses == [status] && !is_done,
        RefusedBy(some) => statuses.len() == 1 && some.contains(&statuses[0]) && !is_done,
        Both => statuses.len() == 3 && statuses[0] < 300 && statuses[1..] == [201, 404] && is_done,
        Last(status) => statuses == [status] && !is_done,
        Either(status) if is_done => statuses == [status, 201, 404],
        Either(status) => statuses == [status],
    };
    // What was refused has changed nothing.
    let is_clean = !matches!(comes, Refused(_) | RefusedBy(_)) || served.holds("f").is_none();
    match is_right && is_clean {
        true => Ok(()),
        false => Err(format!(
            "{comes:?}, but {statuses:?}, done: {is_done}, put: {:?}",
            served.holds("f")
        )),
    }
}

#[test]
fn d10_sound_requests_are_both_answered() {
    judge(&[
        ("a length", put("Content-Length: 3\r\n", "abc"), Both),
        (
            "a length with zeros",
            put("Content-Length: 003\r\n", "abc"),
            Either(201),
        ),
        ("no body", get("Host: x\r\n"), Both),
        (
            "empty lines before",
            format!("\r\n\r\n{}", get("Host: x\r\n")),
            Both,
        ),
        ("chunks", chunks("3\r\nabc\r\n0\r\n\r\n"), Either(201)),
        (
            "chunks in capitals",
            chunks("A\r\n0123456789\r\n0\r\n\r\n"),
            Either(201),
        ),
        (
            "chunks with zeros",
            chunks("0003\r\nabc\r\n000\r\n\r\n"),
            Either(201),
        ),
        (
            "an extension",
            chunks("3;a=b;c=\"d e\"\r\nabc\r\n0\r\n\r\n"),
            Either(201),
        ),
        (
            "trailers",
            chunks("3\r\nabc\r\n0\r\nX: y\r\n\r\n"),
            Either(201),
        ),
        (
            "the encoding in capitals",
            put("TRANSFER-ENCODING: CHUNKED\r\n", "0\r\n\r\n"),
            Either(201),
        ),
        (
            "another host in the target",
            "GET http://other.test/there HTTP/1.1\r\nHost: store.test\r\n\r\n".into(),
            Both,
        ),
        ("close", get("Host: x\r\nConnection: close\r\n"), Last(200)),
        (
            "close in a list",
            get("Host: x\r\nConnection: x, Close\r\n"),
            Last(200),
        ),
        ("HTTP/1.0", "GET /there HTTP/1.0\r\n\r\n".into(), Last(200)),
    ]);
}
