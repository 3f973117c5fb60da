//! D10: the length of a body must be declared once, by one header.

use super::ExpectedResponse::{Refused, RefusedBy, ResponseOrClose};
use super::{check_all, get, put};

#[test]
fn d10_two_lengths_are_refused() {
    check_all(&[
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
fn d10_a_length_with_anything_but_digits_is_refused() {
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
    check_all(&cases);
}

#[test]
fn d10_only_chunked_is_accepted_as_transfer_encoding() {
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
    // Whitespace around a value is not part of it (RFC 9110 5.5).
    cases.push((
        "tabs around",
        put("Transfer-Encoding:\tchunked\t\r\n", body),
        ResponseOrClose(201),
    ));
    cases.push((
        "HTTP/1.0",
        put("Transfer-Encoding: chunked\r\n", body).replace("HTTP/1.1", "HTTP/1.0"),
        RefusedBy(&[400, 501, 505]),
    ));
    check_all(&cases);
}
