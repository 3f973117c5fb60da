//! D8: conditional GET and HEAD requests, in the order of RFC 9110 13.2.2, over every transport.

use std::fs::File;
use std::time::{Duration, SystemTime};

use haul_serve::FileServerOptions;
use http::HeaderValue;

use crate::client::TestTransport;
use crate::harness::{ServerSetup, TestServer};

const BEFORE: &str = "Mon, 01 Jan 2001 00:00:00 GMT";
const AFTER: &str = "Fri, 01 Jan 2100 00:00:00 GMT";

/// A server with a file `/f` that was changed an hour ago. Also returns its ETag and its date.
fn start_server(content: &[u8]) -> (TestServer, String, String) {
    let setup = ServerSetup {
        server: FileServerOptions {
            cache_control: Some(HeaderValue::from_static("max-age=60")),
            ..FileServerOptions::default()
        },
        ..ServerSetup::default()
    };
    let server = setup.start();
    let path = server.write_file("f", content);
    let hour = SystemTime::now() - Duration::from_secs(3600);
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(hour)
        .unwrap();
    let response = server.get("/f");
    let (tag, date) = (
        response.etag().to_owned(),
        response.header("last-modified").unwrap().to_owned(),
    );
    assert_eq!(date, httpdate::fmt_http_date(hour));
    (server, tag, date)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn d8_conditions_are_checked_in_order() {
    // TAG and DATE are replaced by those of the file.
    let cases: &[(&[(&str, &str)], u16)] = &[
        (&[("If-None-Match", "TAG")], 304),
        (&[("If-None-Match", "W/TAG")], 304),
        (&[("If-None-Match", "\"x\", TAG")], 304),
        (&[("If-None-Match", "\"x\""), ("If-None-Match", "TAG")], 304),
        (&[("If-None-Match", "*")], 304),
        (&[("If-None-Match", "\"x\"")], 200),
        (&[("If-None-Match", "")], 200),
        (&[("If-Modified-Since", "DATE")], 304),
        (&[("If-Modified-Since", AFTER)], 304),
        (&[("If-Modified-Since", BEFORE)], 200),
        (&[("If-Modified-Since", "yesterday")], 200),
        (&[("If-Match", "TAG")], 200),
        (&[("If-Match", "*")], 200),
        (&[("If-Match", "W/TAG")], 412),
        (&[("If-Match", "\"x\"")], 412),
        (&[("If-Unmodified-Since", "DATE")], 200),
        (&[("If-Unmodified-Since", AFTER)], 200),
        (&[("If-Unmodified-Since", BEFORE)], 412),
        // A condition with an ETag overrides the one with a date.
        (
            &[("If-None-Match", "\"x\""), ("If-Modified-Since", "DATE")],
            200,
        ),
        (
            &[("If-None-Match", "TAG"), ("If-Modified-Since", BEFORE)],
            304,
        ),
        (&[("If-Match", "TAG"), ("If-Unmodified-Since", BEFORE)], 200),
        (
            &[("If-Match", "\"x\""), ("If-Unmodified-Since", AFTER)],
            412,
        ),
        // Preconditions are checked before cache validators.
        (&[("If-Match", "\"x\""), ("If-None-Match", "TAG")], 412),
        (&[("If-Match", "TAG"), ("If-None-Match", "TAG")], 304),
        (
            &[("If-Unmodified-Since", BEFORE), ("If-None-Match", "TAG")],
            412,
        ),
        (
            &[("If-Unmodified-Since", AFTER), ("If-Modified-Since", AFTER)],
            304,
        ),
        // Both are checked before Range.
        (&[("If-None-Match", "TAG"), ("Range", "bytes=0-1")], 304),
        (&[("If-Match", "\"x\""), ("Range", "bytes=0-1")], 412),
        (&[("If-Match", "\"x\""), ("Range", "bytes=999999-")], 412),
        (&[("If-Match", "TAG"), ("Range", "bytes=0-1")], 206),
        (&[("If-Match", "TAG"), ("Range", "bytes=999999-")], 416),
        (&[("If-Range", "TAG"), ("Range", "bytes=0-1")], 206),
        (&[("If-Range", "TAG"), ("Range", "bytes=999999-")], 416),
        (&[("If-Range", "\"x\""), ("Range", "bytes=0-1")], 200),
        (&[("If-Range", "\"x\""), ("Range", "bytes=999999-")], 200),
        (&[("If-Range", "W/TAG"), ("Range", "bytes=0-1")], 200),
        (&[("If-Range", "DATE"), ("Range", "bytes=0-1")], 206),
        (&[("If-Range", AFTER), ("Range", "bytes=0-1")], 200),
        (&[("If-Range", BEFORE), ("Range", "bytes=0-1")], 200),
        (&[("If-Range", "x"), ("Range", "bytes=0-1")], 200),
        (&[("If-Range", "TAG")], 200),
        (
            &[
                ("If-Range", "TAG"),
                ("If-None-Match", "TAG"),
                ("Range", "bytes=0-1"),
            ],
            304,
        ),
    ];
    let content = b"0123456789".repeat(10_000);
    let (server, tag, date) = start_server(&content);
    for transport in TestTransport::ALL {
        for (fields, status) in cases {
            let owned_fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| (*name, value.replace("TAG", &tag).replace("DATE", &date)))
                .collect();
            let fields: Vec<_> = owned_fields
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            let get = server.request(transport, "GET", "/f", &fields);
            assert_eq!(get.status, *status, "{transport:?} {fields:?}");
            match status {
                200 => assert!(get.body == content, "{transport:?} {fields:?}"),
                206 => assert_eq!(get.body, b"01", "{transport:?} {fields:?}"),
                304 => {
                    // The headers that a cache needs (RFC 9110 15.4.5), and none about a body.
                    assert_eq!(get.etag(), tag, "{transport:?} {fields:?}");
                    assert_eq!(get.header("cache-control"), Some("max-age=60"));
                    assert!(get.header("date").is_some() && get.body.is_empty());
                    let length = get.header("content-length");
                    assert!(
                        length.is_none_or(|length| length == content.len().to_string()),
                        "{get:?}"
                    );
                }
                416 => assert_eq!(
                    get.header("content-range"),
                    Some(&*format!("bytes */{}", content.len()))
                ),
                _ => {}
            }
            let head = server.request(transport, "HEAD", "/f", &fields);
            let expected = match status {
                // Range applies to GET only.
                206 | 416 => 200,
                other => *other,
            };
            assert_eq!(head.status, expected, "{transport:?} HEAD {fields:?}");
        }
    }
}

#[test]
fn d8_a_recent_date_is_not_a_strong_validator() {
    let server = TestServer::start();
    for transport in TestTransport::ALL {
        server.write_file("f", "0123456789");
        let date = server.get("/f").header("last-modified").unwrap().to_owned();
        let response = server.request(
            transport,
            "GET",
            "/f",
            &[("If-Range", &date), ("Range", "bytes=0-1")],
        );
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, "0123456789"),
            "{transport:?}"
        );
    }
}

#[test]
fn d8_partial_and_full_responses_have_the_same_validators() {
    let (server, tag, date) = start_server(b"0123456789");
    for transport in TestTransport::ALL {
        for range in ["bytes=0-1", "bytes=0-1,4-5", "bytes=x"] {
            let response = server.request(transport, "GET", "/f", &[("Range", range)]);
            assert_eq!(response.etag(), tag, "{transport:?} {range}");
            assert_eq!(
                response.header("last-modified"),
                Some(&*date),
                "{transport:?} {range}"
            );
            assert_eq!(
                response.header("cache-control"),
                Some("max-age=60"),
                "{transport:?} {range}"
            );
            assert_eq!(
                response.header("accept-ranges"),
                Some("bytes"),
                "{transport:?} {range}"
            );
        }
    }
}

/// Another program changes the file and restores its length and date: that is another version.
#[test]
fn d8_a_change_by_another_program_is_seen_at_once() {
    let (server, tag, date) = start_server(b"0123456789");
    let path = server.root().join("f");
    for transport in TestTransport::ALL {
        let before = server.request(transport, "GET", "/f", &[]);
        std::fs::write(&path, &b"9876543210"[..]).unwrap();
        let hour = httpdate::parse_http_date(&date).unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(hour)
            .unwrap();
        let after = server.request(transport, "GET", "/f", &[("If-None-Match", before.etag())]);
        assert_eq!(
            (after.status, after.text().as_str()),
            (200, "9876543210"),
            "{transport:?}"
        );
        std::fs::write(&path, &b"0123456789"[..]).unwrap();
    }
    assert_ne!(server.get("/f").etag(), tag);
}
