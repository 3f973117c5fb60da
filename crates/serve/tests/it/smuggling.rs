//! D10: requests whose end, or whose meaning, two programs could see differently, sent as they are.
//!
//! Each is followed on its connection by a second request, `PUT /smuggled`. A program that sees the first one's end elsewhere than
//! this server does would not know of it. So what is ambiguous gets one answer, 400, and then the connection ends; the second request
//! is never answered, and never done. What is sound gets both of its answers, or `/smuggled` would prove nothing.

use std::io::Write as _;

use crate::client::{Client, Road, find};
use crate::harness::Served;

/// What comes second, and must not be done.
const SECOND: &str = "PUT /smuggled HTTP/1.1\r\nHost: store.test\r\nContent-Length: 1\r\n\r\nx";

/// What comes last, so that a connection ends on which all was well.
const LAST: &str = "GET /last HTTP/1.1\r\nHost: store.test\r\nConnection: close\r\n\r\n";

/// What must come of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comes {
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

use Comes::{Both, Either, Last, Refused, RefusedBy};

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
fn judge(cases: &[(&str, String, Comes)]) {
    let mut wrong = Vec::new();
    for (name, first, comes) in cases {
        for (road, step) in [
            (Road::Plain, usize::MAX),
            (Road::Plain, 1),
            (Road::Tls, usize::MAX),
        ] {
            // Byte by byte is for what is short.
            if step == 1 && first.len() > 1000 {
                continue;
            }
            let served = Served::start();
            served.file("there", "there");
            if let Err(what) = one(&served, road, first, step, *comes) {
                wrong.push(format!("{name} ({road:?}, {step}): {what}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn one(served: &Served, road: Road, first: &str, step: usize, comes: Comes) -> Result<(), String> {
    let mut client = Client::on(served, road);
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

#[test]
fn d10_two_lengths_are_none() {
    judge(&[
        (
            "a length, then chunks",
            put(
                "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n",
                "0\r\n\r\nX",
            ),
            Refused(400),
        ),
        (
            "chunks, then a length",
            put(
                "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n",
                "0\r\n\r\nX",
            ),
            Refused(400),
        ),
        (
            "two of one value",
            put("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "two of two values",
            put("Content-Length: 3\r\nContent-Length: 0\r\n", "abc"),
            Refused(400),
        ),
        (
            "a list",
            put("Content-Length: 3, 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "a list of two values",
            put("Content-Length: 3, 0\r\n", "abc"),
            Refused(400),
        ),
        (
            "a GET with both",
            get("Host: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n",
            Refused(400),
        ),
        (
            "an empty one beside",
            put("Content-Length:\r\nContent-Length: 3\r\n", "abc"),
            Refused(400),
        ),
    ]);
}

#[test]
fn d10_a_length_is_digits() {
    let lengths = [
        "+3",
        "-3",
        "0x3",
        "3.0",
        "3 3",
        "",
        " ",
        "three",
        "\"3\"",
        "3;",
        "3,",
        "18446744073709551616",
        "99999999999999999999999",
        "3\0",
        "\u{0663}",
    ];
    let cases = lengths.map(|length| {
        (
            "a length",
            put(&format!("Content-Length: {length}\r\n"), "abc"),
            Refused(400),
        )
    });
    judge(&cases);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn d10_lines_end_in_two_bytes_and_are_not_folded() {
    judge(&[
        (
            "bare LF all over",
            "GET /there HTTP/1.1\nHost: x\n\n".into(),
            Refused(400),
        ),
        (
            "bare LF after the first line",
            "GET /there HTTP/1.1\nHost: x\r\n\r\n".into(),
            Refused(400),
        ),
        (
            "bare LF in the fields",
            put("X: y\nContent-Length: 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "bare LF at the end",
            "GET /there HTTP/1.1\r\nHost: x\r\n\n".into(),
            Refused(400),
        ),
        (
            "bare CR in a field",
            put("X: y\rContent-Length: 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "bare CR at the end",
            "GET /there HTTP/1.1\r\nHost: x\r\n\r".into(),
            Refused(400),
        ),
        (
            "CR CR LF",
            put("Content-Length: 3\r\r\n", "abc"),
            Refused(400),
        ),
        (
            "folded",
            put("X: y\r\n Content-Length: 9\r\nContent-Length: 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "folded by a tab",
            put("X: y\r\n\tz\r\nContent-Length: 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "a folded length",
            put("Content-Length:\r\n 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "a folded encoding",
            put("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"),
            Refused(400),
        ),
        (
            "a first field that is folded",
            "GET /there HTTP/1.1\r\n Host: x\r\n\r\n".into(),
            Refused(400),
        ),
        (
            "space before the first field",
            "GET /there HTTP/1.1\r\n \r\nHost: x\r\n\r\n".into(),
            Refused(400),
        ),
    ]);
}

#[test]
fn d10_names_of_fields_are_tokens() {
    judge(&[
        (
            "space before the colon",
            put("Content-Length : 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "tab before the colon",
            put("Content-Length\t: 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "space before the encoding's",
            put("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"),
            Refused(400),
        ),
        ("no colon", put("Content-Length 3\r\n", "abc"), Refused(400)),
        (
            "no name",
            put(": 3\r\nContent-Length: 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "NUL in a name",
            put("Content\0-Length: 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "NUL in a value",
            put("X: a\0b\r\nContent-Length: 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "a control in a value",
            put("X: a\x01b\r\nContent-Length: 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "a bracket in a name",
            put("X(y): z\r\nContent-Length: 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "space within a name",
            put("X y: z\r\nContent-Length: 3\r\n", "abc"),
            Refused(400),
        ),
        (
            "letters beyond ASCII in a name",
            put("Content\u{2010}Length: 3\r\n", "abc"),
            Refused(400),
        ),
    ]);
}

#[test]
fn d10_chunked_is_the_one_encoding() {
    let body = "3\r\nabc\r\n0\r\n\r\n";
    let encodings = [
        "chunked, identity",
        "identity, chunked",
        "gzip, chunked",
        "chunked, chunked",
        "chunked, gzip",
        "identity",
        "gzip",
        "xchunked",
        "chunkedx",
        "chunked;q=1",
        "\"chunked\"",
        "chunked,",
        ",chunked",
        "",
        "\u{0b}chunked",
        "chu nked",
        "chunk\u{212a}ed",
    ];
    let mut cases: Vec<_> = encodings
        .map(|encoding| {
            (
                "an encoding",
                put(&format!("Transfer-Encoding: {encoding}\r\n"), body),
                RefusedBy(&[400, 501]),
            )
        })
        .into();
    for fields in [
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
    ] {
        cases.push(("two encodings", put(fields, body), RefusedBy(&[400, 501])));
    }
    // Space around a value is none of it (RFC 9110 5.5).
    cases.push((
        "tabs around",
        put("Transfer-Encoding:\tchunked\t\r\n", body),
        Either(201),
    ));
    cases.push((
        "HTTP/1.0",
        put("Transfer-Encoding: chunked\r\n", body).replace("HTTP/1.1", "HTTP/1.0"),
        RefusedBy(&[400, 501, 505]),
    ));
    judge(&cases);
}

#[test]
fn d10_chunks_are_read_by_the_letter() {
    let end = "0\r\n\r\n";
    let bodies = [
        ("0x", format!("0x3\r\nabc\r\n{end}")),
        ("a sign", format!("+3\r\nabc\r\n{end}")),
        ("less than none", format!("-3\r\nabc\r\n{end}")),
        ("no digits", format!("\r\nabc\r\n{end}")),
        ("no digits, an extension", format!(";a\r\nabc\r\n{end}")),
        ("no hexadecimal", format!("g\r\nabc\r\n{end}")),
        (
            "2 to the 64th and 3",
            format!("10000000000000003\r\nabc\r\n{end}"),
        ),
        ("many digits", format!("fffffffffffffffff\r\nabc\r\n{end}")),
        ("space before", format!(" 3\r\nabc\r\n{end}")),
        ("space within", format!("3 3\r\nabc\r\n{end}")),
        ("bare LF after the length", format!("3\nabc\r\n{end}")),
        ("bare LF after the data", format!("3\r\nabc\n{end}")),
        ("bare LF at the end", "3\r\nabc\r\n0\n\n".to_owned()),
        ("bare LF in an extension", format!("3;a\nb\r\nabc\r\n{end}")),
        ("bare CR after the length", format!("3\rabc\r\n{end}")),
        ("bare CR in an extension", format!("3;a\rb\r\nabc\r\n{end}")),
        ("no line's end after the data", format!("3\r\nabc{end}")),
        ("more data than told", format!("3\r\nabcd\r\n{end}")),
        ("less data than told", format!("4\r\nabc\r\n{end}")),
        (
            "an extension without end",
            format!("3;{}\r\nabc\r\n{end}", "a".repeat(100_000)),
        ),
        (
            "trailers without end",
            format!("3\r\nabc\r\n0\r\n{}\r\n", "X: y\r\n".repeat(20_000)),
        ),
        (
            "trailers that are none",
            "3\r\nabc\r\n0\r\nnone\r\n\r\n".to_owned(),
        ),
        (
            "trailers with bare LF",
            "3\r\nabc\r\n0\r\nX: y\nZ: a\r\n\r\n".to_owned(),
        ),
    ];
    let cases = bodies.map(|(name, body)| (name, chunks(&body), Refused(400)));
    judge(&cases);
}

#[test]
fn d10_trailers_are_no_fields() {
    let trailers = [
        "Content-Length: 99",
        "Transfer-Encoding: chunked",
        "Host: other",
        "Content-Range: bytes 0-1/2",
        "If-None-Match: *",
    ];
    let cases = trailers.map(|line| {
        (
            "a trailer",
            chunks(&format!("3\r\nabc\r\n0\r\n{line}\r\n\r\n")),
            Either(201),
        )
    });
    judge(&cases);
}

#[test]
fn d10_a_host_is_given_once() {
    let none = "GET /there HTTP/1.1\r\n\r\n".to_owned();
    judge(&[
        ("none", none, Refused(400)),
        ("two", get("Host: a\r\nHost: b\r\n"), Refused(400)),
        ("two of one", get("Host: a\r\nHost: a\r\n"), Refused(400)),
        ("space within", get("Host: a b\r\n"), Refused(400)),
        ("a path", get("Host: a/b\r\n"), Refused(400)),
        ("a list", get("Host: a, b\r\n"), Refused(400)),
        ("a user", get("Host: user@a\r\n"), Refused(400)),
        ("no port", get("Host: a:b\r\n"), Refused(400)),
        (
            "brackets that do not close",
            get("Host: [::1\r\n"),
            Refused(400),
        ),
        (
            "beside a target's",
            "GET http://a/there HTTP/1.1\r\n\r\n".into(),
            Refused(400),
        ),
        // It is right where there is no authority (RFC 9112 3.2).
        ("an empty one", get("Host:\r\n"), Either(200)),
        ("an address", get("Host: [::1]:80\r\n"), Both),
        ("a name with a port", get("Host: a.example:8080\r\n"), Both),
    ]);
}

#[test]
fn d10_the_first_line_has_three_parts() {
    let line = |line: &str| format!("{line}\r\nHost: x\r\n\r\n");
    judge(&[
        ("HTTP/0.9", "GET /there\r\n\r\n".into(), Refused(400)),
        (
            "HTTP/0.9, told",
            line("GET /there HTTP/0.9"),
            RefusedBy(&[400, 505]),
        ),
        (
            "HTTP/1.2",
            line("GET /there HTTP/1.2"),
            RefusedBy(&[400, 505]),
        ),
        (
            "HTTP/3.0",
            line("GET /there HTTP/3.0"),
            RefusedBy(&[400, 505]),
        ),
        (
            "HTTP/01.1",
            line("GET /there HTTP/01.1"),
            RefusedBy(&[400, 505]),
        ),
        (
            "http/1.1",
            line("GET /there http/1.1"),
            RefusedBy(&[400, 505]),
        ),
        ("two spaces", line("GET  /there HTTP/1.1"), Refused(400)),
        (
            "two spaces, later",
            line("GET /there  HTTP/1.1"),
            Refused(400),
        ),
        ("a space after", line("GET /there HTTP/1.1 "), Refused(400)),
        ("a space before", line(" GET /there HTTP/1.1"), Refused(400)),
        ("a tab", line("GET\t/there HTTP/1.1"), Refused(400)),
        (
            "a path with a space",
            line("GET /the re HTTP/1.1"),
            Refused(400),
        ),
        ("a form feed", line("GET\x0c/there HTTP/1.1"), Refused(400)),
        // What follows a # is nobody's affair but the client's: it is no part of a path.
        ("a fragment", line("GET /there#x HTTP/1.1"), Either(200)),
        ("no method", line("/there HTTP/1.1"), Refused(400)),
        (
            "a method that is none",
            line("GE(T /there HTTP/1.1"),
            Refused(400),
        ),
        (
            "TLS",
            "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n".into(),
            Refused(400),
        ),
        // Methods differ by case: this is no GET.
        ("lower case", line("get /there HTTP/1.1"), Either(405)),
    ]);
}

#[test]
fn d10_heads_have_a_longest() {
    let long = "y".repeat(1 << 20);
    judge(&[
        (
            "a long field",
            get(&format!("Host: x\r\nX: {long}\r\n")),
            Refused(431),
        ),
        (
            "a long name",
            get(&format!("Host: x\r\n{long}: y\r\n")),
            RefusedBy(&[400, 431]),
        ),
        (
            "a long target",
            format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n"),
            RefusedBy(&[414, 431]),
        ),
        (
            "many fields",
            get(&format!("Host: x\r\n{}", "X: y\r\n".repeat(1000))),
            Refused(431),
        ),
        (
            "a method without end",
            format!("{long} / HTTP/1.1\r\nHost: x\r\n\r\n"),
            RefusedBy(&[400, 431]),
        ),
    ]);
}

#[test]
fn d10_upgrades_are_declined() {
    judge(&[
        (
            "h2c",
            get(
                "Host: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
            ),
            Both,
        ),
        (
            "websocket",
            get("Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"),
            Both,
        ),
    ]);
}

/// Where the next head begins, only whoever has read the chunks knows.
#[test]
fn d10_after_chunks_nothing_is_taken() {
    for (name, second) in [
        ("sound", SECOND.to_owned()),
        (
            "a length and chunks",
            SECOND.replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n")
                + "\r\n0\r\n\r\n",
        ),
        ("bare LF", SECOND.replace("\r\n", "\n")),
    ] {
        let served = Served::start();
        let mut client = Client::plain(&served);
        client.send(chunks("3\r\nabc\r\n0\r\n\r\n") + &second);
        assert_eq!(
            client.answer_to("PUT").field("connection"),
            Some("close"),
            "{name}"
        );
        client.ends();
        assert!(served.holds("smuggled").is_none(), "{name}");
    }
}

/// A body that says that it is a request stays a body.
#[test]
fn d10_a_body_is_no_request() {
    let served = Served::start();
    let mut client = Client::plain(&served);
    let mut all = Vec::new();
    for index in 0..50 {
        write!(
            all,
            "PUT /{index} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{SECOND}",
            SECOND.len()
        )
        .unwrap();
    }
    client.send(&all);
    for _ in 0..50 {
        assert_eq!(client.answer_to("PUT").status, 201);
    }
    assert!(served.holds("smuggled").is_none());
    for index in 0..50 {
        let held = served.holds(&index.to_string()).unwrap();
        assert!(find(&held, SECOND.as_bytes()) == Some(0) && held.len() == SECOND.len());
    }
}

/// A GET's body is read past, not answered (RFC 9110 9.3.1).
#[test]
fn d10_a_body_that_nobody_asked_for_is_no_request() {
    for (method, path, fine) in [
        ("GET", "/there", 200),
        ("HEAD", "/there", 200),
        ("DELETE", "/nowhere", 404),
        ("OPTIONS", "/", 204),
        ("POST", "/x", 405),
    ] {
        let served = Served::start();
        served.file("there", "there");
        let mut client = Client::plain(&served);
        client.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{SECOND}",
            SECOND.len()
        ));
        let answer = client.answer_to(method);
        assert!(
            answer.status == fine || method == "POST" && answer.status >= 400,
            "{method}: {answer:?}"
        );
        // It is read past, or the connection ends.
        if client.try_send(LAST).is_ok() {
            let rest = client.rest();
            assert!(
                rest.is_empty() || rest.starts_with(b"HTTP/1.1 404"),
                "{method}"
            );
        }
        assert!(served.holds("smuggled").is_none(), "{method}");
    }
}
