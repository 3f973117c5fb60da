//! D10: heads that other programs could parse differently: lines, header names, hosts, lengths.

use super::ExpectedResponse::{Both, Refused, RefusedBy, ResponseOrClose};
use super::{check_all, get, put};

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn d10_bare_line_feeds_and_folded_lines_are_refused() {
    check_all(&[
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
fn d10_header_names_must_be_tokens() {
    check_all(&[
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
fn d10_two_host_headers_are_refused() {
    let none = "GET /there HTTP/1.1\r\n\r\n".to_owned();
    check_all(&[
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
        // Valid if the target has no authority (RFC 9112 3.2).
        ("an empty one", get("Host:\r\n"), ResponseOrClose(200)),
        ("an address", get("Host: [::1]:80\r\n"), Both),
        ("a name with a port", get("Host: a.example:8080\r\n"), Both),
    ]);
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
#[test]
fn d10_the_request_line_must_have_three_parts() {
    let line = |line: &str| format!("{line}\r\nHost: x\r\n\r\n");
    check_all(&[
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
        // A fragment is only for the client and is not part of the path.
        (
            "a fragment",
            line("GET /there#x HTTP/1.1"),
            ResponseOrClose(200),
        ),
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
        // Methods are case-sensitive, so this is not a GET.
        (
            "lower case",
            line("get /there HTTP/1.1"),
            ResponseOrClose(405),
        ),
    ]);
}

#[test]
fn d10_long_heads_are_refused() {
    let long = "y".repeat(1 << 20);
    check_all(&[
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
    check_all(&[
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

#[test]
fn d10_the_host_of_a_target_is_checked_like_the_host_header() {
    for host in [
        "[::1].evil.example",
        "[::1]evil.example",
        "localhost:80@evil.example",
        "127.0.0.1:1@evil.example:2",
        "[ab..cd::1]",
        "extra[::1]:98",
        "example.com.:1.2",
    ] {
        check_all(&[(
            host,
            format!("GET http://{host}/there HTTP/1.1\r\nHost: x\r\n\r\n"),
            Refused(400),
        )]);
    }
    for host in ["[]", "[zz]", "local%zz"] {
        check_all(&[(
            host,
            format!("GET /there HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            Refused(400),
        )]);
    }
}
