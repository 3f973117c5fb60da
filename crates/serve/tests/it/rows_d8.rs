//! D8: conditions of GET and HEAD, in the order of RFC 9110 13.2.2, on every road.

use std::fs::File;
use std::time::{Duration, SystemTime};

use haul_serve::FileServerOptions;
use http::HeaderValue;

use crate::client::RequestPathway;
use crate::harness::{ServerSetup, TestServer};

const BEFORE: &str = "Mon, 01 Jan 2001 00:00:00 GMT";
const AFTER: &str = "Fri, 01 Jan 2100 00:00:00 GMT";

/// A server of `/f`, changed an hour ago; its tag and its date.
fn served(content: &[u8]) -> (TestServer, String, String) {
    let setup = ServerSetup {
        server: FileServerOptions {
            cache_control: Some(HeaderValue::from_static("max-age=60")),
            ..FileServerOptions::default()
        },
        ..ServerSetup::default()
    };
    let served = setup.start();
    let path = served.file("f", content);
    let hour = SystemTime::now() - Duration::from_secs(3600);
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(hour)
        .unwrap();
    let answer = served.get("/f");
    let (tag, date) = (
        answer.tag().to_owned(),
        answer.field("last-modified").unwrap().to_owned(),
    );
    assert_eq!(date, httpdate::fmt_http_date(hour));
    (served, tag, date)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn d8_conditions_in_their_order() {
    // In which TAG and DATE are the file's.
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
        // A tag makes a date of its kind count for nothing.
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
        // What must hold comes before what need not be sent.
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
        // And both before ranges.
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
    let (served, tag, date) = served(&content);
    for road in RequestPathway::ALL {
        for (fields, status) in cases {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| (*name, value.replace("TAG", &tag).replace("DATE", &date)))
                .collect();
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            let get = served.ask(road, "GET", "/f", &fields);
            assert_eq!(get.status, *status, "{road:?} {fields:?}");
            match status {
                200 => assert!(get.body == content, "{road:?} {fields:?}"),
                206 => assert_eq!(get.body, b"01", "{road:?} {fields:?}"),
                304 => {
                    // What a cache must be told again (15.4.5), and nothing of a body.
                    assert_eq!(get.tag(), tag, "{road:?} {fields:?}");
                    assert_eq!(get.field("cache-control"), Some("max-age=60"));
                    assert!(get.field("date").is_some() && get.body.is_empty());
                    let length = get.field("content-length");
                    assert!(
                        length.is_none_or(|length| length == content.len().to_string()),
                        "{get:?}"
                    );
                }
                416 => assert_eq!(
                    get.field("content-range"),
                    Some(&*format!("bytes */{}", content.len()))
                ),
                _ => {}
            }
            let head = served.ask(road, "HEAD", "/f", &fields);
            let expected = match status {
                // Range is for GET alone.
                206 | 416 => 200,
                other => *other,
            };
            assert_eq!(head.status, expected, "{road:?} HEAD {fields:?}");
        }
    }
}

#[test]
fn d8_a_date_that_is_young_proves_nothing() {
    let served = TestServer::start();
    for road in RequestPathway::ALL {
        served.file("f", "0123456789");
        let date = served.get("/f").field("last-modified").unwrap().to_owned();
        let answer = served.ask(
            road,
            "GET",
            "/f",
            &[("If-Range", &date), ("Range", "bytes=0-1")],
        );
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, "0123456789"),
            "{road:?}"
        );
    }
}

#[test]
fn d8_a_part_and_the_whole_say_the_same_of_the_version() {
    let (served, tag, date) = served(b"0123456789");
    for road in RequestPathway::ALL {
        for range in ["bytes=0-1", "bytes=0-1,4-5", "bytes=x"] {
            let answer = served.ask(road, "GET", "/f", &[("Range", range)]);
            assert_eq!(answer.tag(), tag, "{road:?} {range}");
            assert_eq!(
                answer.field("last-modified"),
                Some(&*date),
                "{road:?} {range}"
            );
            assert_eq!(
                answer.field("cache-control"),
                Some("max-age=60"),
                "{road:?} {range}"
            );
            assert_eq!(
                answer.field("accept-ranges"),
                Some("bytes"),
                "{road:?} {range}"
            );
        }
    }
}

/// What was changed behind the server's back, and put back to the same length and date, is another version.
#[test]
fn d8_a_change_by_others_is_seen_at_once() {
    let (served, tag, date) = served(b"0123456789");
    let path = served.root().join("f");
    for road in RequestPathway::ALL {
        let before = served.ask(road, "GET", "/f", &[]);
        std::fs::write(&path, &b"9876543210"[..]).unwrap();
        let hour = httpdate::parse_http_date(&date).unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(hour)
            .unwrap();
        let after = served.ask(road, "GET", "/f", &[("If-None-Match", before.tag())]);
        assert_eq!(
            (after.status, after.text().as_str()),
            (200, "9876543210"),
            "{road:?}"
        );
        std::fs::write(&path, &b"0123456789"[..]).unwrap();
    }
    assert_ne!(served.get("/f").tag(), tag);
}
