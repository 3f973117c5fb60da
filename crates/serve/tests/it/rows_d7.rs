//! D7: range requests over every transport, compared with the file.

use std::ops::Range;

use haul_lab::ResourceContent;

use crate::client::{TestResponse, TestTransport};
use crate::harness::TestServer;
use crate::multipart::{parse_content_range, parse_parts};

/// The expected response to a Range header.
#[derive(Debug)]
enum ExpectedRange {
    /// 200 with the whole file.
    Whole,
    /// 206 with these ranges in this order, several of them as multipart.
    Ranges(Vec<Range<usize>>),
    /// 416.
    Nothing,
    /// 200 with the whole file, or 206 with correct ranges.
    Any,
}

use ExpectedRange::{Any, Nothing, Ranges, Whole};

/// Range headers and the expected responses for a file of `len` bytes, at least ten.
fn cases(len: usize) -> Vec<(String, ExpectedRange)> {
    let one = |range| Ranges(vec![range]);
    let middle = len / 2;
    [
        ("bytes=0-0", one(0..1)),
        ("bytes=0-9", one(0..10)),
        ("bytes=5-", one(5..len)),
        ("bytes=-5", one(len - 5..len)),
        ("bytes=LAST-", one(len - 1..len)),
        ("bytes=LAST-LAST", one(len - 1..len)),
        ("bytes=LAST-LEN", one(len - 1..len)),
        ("bytes=0-LEN", one(0..len)),
        ("bytes=0-", one(0..len)),
        ("bytes=-LEN", one(0..len)),
        ("bytes=-99999999999999999999999", one(0..len)),
        ("bytes=0-99999999999999999999999", one(0..len)),
        ("bytes=MID-", one(middle..len)),
        ("bytes=007-008", one(7..9)),
        ("Bytes=1-2", one(1..3)),
        ("bytes=LEN-", Nothing),
        ("bytes=LEN-LEN", Nothing),
        ("bytes=99999999999999999999999-", Nothing),
        ("bytes=-0", Nothing),
        ("bytes=LEN-,-0", Nothing),
        ("bytes=5-4", Whole),
        ("bytes=a-b", Whole),
        ("bytes=1", Whole),
        ("bytes=", Whole),
        ("bytes=,", Whole),
        ("bytes", Whole),
        ("bytes=-", Whole),
        ("bytes=--5", Whole),
        ("bytes=+1-2", Whole),
        ("bytes=1-2x", Whole),
        ("bytes=0x1-2", Whole),
        ("bytes=1-2-3", Whole),
        ("bytes=1-2,5-4", Whole),
        ("bytes=1-2;3-4", Whole),
        ("lines=1-2", Whole),
        ("1-2", Whole),
        ("bytes 1-2", Whole),
        ("bytes=0-1,4-5", Ranges(vec![0..2, 4..6])),
        ("bytes=0-1, 4-5 ,\t7-", Ranges(vec![0..2, 4..6, 7..len])),
        ("bytes=0-1,,4-5,", Ranges(vec![0..2, 4..6])),
        ("bytes=0-0,-1", Ranges(vec![0..1, len - 1..len])),
        ("bytes=8-8,0-1", Ranges(vec![8..9, 0..2])),
        ("bytes=0-1,LEN-", one(0..2)),
        ("bytes=LEN-,0-1,-0", one(0..2)),
        ("bytes=0-5,3-8", Any),
        ("bytes=0-,0-,0-,0-,0-,0-", Any),
        ("bytes=MID-,0-", Any),
    ]
    .map(|(text, expected)| {
        let text = text
            .replace("LAST", &(len - 1).to_string())
            .replace("LEN", &len.to_string());
        (text.replace("MID", &middle.to_string()), expected)
    })
    .into()
}

/// Asserts that a response has the expected status and the bytes of the file.
#[track_caller]
fn assert_response(response: &TestResponse, file: &[u8], expected: &ExpectedRange, context: &str) {
    assert_eq!(
        response.header("accept-ranges"),
        (response.status != 416).then_some("bytes"),
        "{context}"
    );
    match (expected, response.status) {
        (Whole | Any, 200) => {
            assert!(response.body == file, "{context}");
            assert!(response.header("content-range").is_none(), "{context}");
        }
        (Nothing, 416) => {
            let field = format!("bytes */{}", file.len());
            assert_eq!(response.header("content-range"), Some(&*field), "{context}");
        }
        (Ranges(ranges), 206) if ranges.len() == 1 => {
            let (range, len) = parse_content_range(response.header("content-range").unwrap());
            assert_eq!((&range, len), (&ranges[0], file.len()), "{context}");
            assert!(response.body == file[range], "{context}");
        }
        (Ranges(_) | Any, 206) if response.header("content-range").is_none() => {
            let parts = parse_parts(response);
            for part in &parts {
                assert_eq!(part.len, file.len(), "{context}");
                assert_eq!(part.kind, "text/plain; charset=utf-8", "{context}");
                assert!(
                    part.bytes == file[part.range.clone()],
                    "{context} {:?}",
                    part.range
                );
            }
            if let Ranges(ranges) = expected {
                let found: Vec<_> = parts.into_iter().map(|part| part.range).collect();
                assert_eq!(&found, ranges, "{context}");
            }
        }
        (Any, 206) => {
            let (range, _) = parse_content_range(response.header("content-range").unwrap());
            assert!(response.body == file[range], "{context}");
        }
        (_, status) => panic!("{context}: {expected:?}, but {status}"),
    }
    if [200, 206].contains(&response.status) {
        let length = response
            .header("content-length")
            .map(|length| length.parse().unwrap());
        assert_eq!(length, Some(response.body.len()), "{context}");
    }
}

#[test]
fn d7_ranges_have_the_bytes_of_the_file() {
    let server = TestServer::start();
    // Lengths that are sent at once, in chunks, and with sendfile.
    for len in [10_usize, 60_000, 700_001] {
        let file = ResourceContent::random(7, len as u64).to_vec();
        server.write_file("f.txt", &file);
        for transport in TestTransport::ALL {
            for (range, expected) in cases(len) {
                let response = server.request(transport, "GET", "/f.txt", &[("Range", &range)]);
                assert_response(
                    &response,
                    &file,
                    &expected,
                    &format!("{transport:?} {len} {range}"),
                );
            }
        }
    }
}

#[test]
fn d7_several_ranges_are_sent_as_multipart_and_too_many_as_the_whole_file() {
    let server = TestServer::start();
    let len = 700_001;
    let file = ResourceContent::random(7, len as u64).to_vec();
    server.write_file("f.txt", &file);
    for (count, each) in [(2, 300_000), (10, 5000), (90, 1000), (90, 7000)] {
        let ranges: Vec<_> = (0..count)
            .map(|index| index * each..index * each + each - 7)
            .collect();
        let list: Vec<_> = ranges
            .iter()
            .map(|range| format!("{}-{}", range.start, range.end - 1))
            .collect();
        let field = format!("bytes={}", list.join(","));
        for transport in TestTransport::ALL {
            let response = server.request(transport, "GET", "/f.txt", &[("Range", &field)]);
            assert_response(
                &response,
                &file,
                &Ranges(ranges.clone()),
                &format!("{transport:?} {count} of {each}"),
            );
        }
    }
    for count in [1000, 5000] {
        let list: Vec<_> = (0..count)
            .map(|index| format!("{}-{}", index * 10, index * 10))
            .collect();
        let field = format!("bytes={}", list.join(","));
        for transport in [TestTransport::Plain, TestTransport::Tls] {
            let response = server.request(transport, "GET", "/f.txt", &[("Range", &field)]);
            assert!(
                [200, 416].contains(&response.status),
                "{transport:?} {count}"
            );
            assert!(response.status == 416 || response.body == file);
        }
    }
    // Repeating a large range must not make the server send more than the file has.
    let field = format!("bytes={}", vec!["0-"; 100].join(","));
    let response = server.request(TestTransport::Plain, "GET", "/f.txt", &[("Range", &field)]);
    assert!(response.body.len() < 2 * len, "{}", response.body.len());
}

#[test]
fn d7_an_empty_file_has_no_ranges() {
    let server = TestServer::start();
    server.write_file("empty", "");
    for transport in TestTransport::ALL {
        for range in [
            "bytes=0-",
            "bytes=0-0",
            "bytes=-1",
            "bytes=-0",
            "bytes=0-0,1-1",
        ] {
            let response = server.request(transport, "GET", "/empty", &[("Range", range)]);
            assert!(
                [200, 416].contains(&response.status),
                "{transport:?} {range}"
            );
            assert!(response.status == 416 || response.body.is_empty());
        }
        let response = server.request(transport, "GET", "/empty", &[]);
        assert_eq!(
            (response.status, response.body.len()),
            (200, 0),
            "{transport:?}"
        );
    }
}

#[test]
fn d7_two_range_headers_are_ignored() {
    let server = TestServer::start();
    server.write_file("f.txt", "0123456789");
    for transport in TestTransport::ALL {
        let response = server.request(
            transport,
            "GET",
            "/f.txt",
            &[("Range", "bytes=0-1"), ("Range", "bytes=4-5")],
        );
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, "0123456789"),
            "{transport:?}"
        );
    }
}

/// The headers of a response that GET and HEAD must share: all but Date, Connection and an empty length.
fn comparable_headers(response: &TestResponse) -> Vec<(String, String)> {
    let mut fields = response.fields.clone();
    fields.retain(|(name, value)| {
        !["date", "connection"].contains(&name.as_str())
            && (name.as_str(), value.as_str()) != ("content-length", "0")
    });
    fields.sort();
    fields
}

#[test]
fn d7_head_has_the_headers_of_get() {
    let server = TestServer::start();
    server.write_file("folder/x", "");
    for (name, len) in [
        ("empty", 0),
        ("tiny.html", 10),
        ("small.bin", 60_000),
        ("large", 300_000),
    ] {
        server.write_file(name, ResourceContent::random(1, len).to_vec());
    }
    for transport in TestTransport::ALL {
        for path in [
            "/empty",
            "/tiny.html",
            "/small.bin",
            "/large",
            "/nowhere",
            "/..%2f",
            "/folder",
        ] {
            for fields in [&[][..], &[("If-None-Match", "*")], &[("If-Match", "\"x\"")]] {
                let [get, head] =
                    ["GET", "HEAD"].map(|method| server.request(transport, method, path, fields));
                assert_eq!(head.status, get.status, "{transport:?} {path} {fields:?}");
                assert_eq!(
                    comparable_headers(&head),
                    comparable_headers(&get),
                    "{transport:?} {path} {fields:?}"
                );
                assert!(head.body.is_empty());
            }
        }
        // Range applies to GET only (RFC 9110 14.2).
        let head = server.request(transport, "HEAD", "/large", &[("Range", "bytes=0-1")]);
        assert_eq!(
            (head.status, head.header("content-length")),
            (200, Some("300000")),
            "{transport:?}"
        );
    }
}

#[test]
fn d7_whole_files_of_every_size() {
    let server = TestServer::start();
    for len in [
        0, 1, 100, 65_535, 65_536, 65_537, 131_072, 262_145, 5_000_000,
    ] {
        let file = ResourceContent::random(len, len).to_vec();
        server.write_file("f", &file);
        for transport in TestTransport::ALL {
            let response = server.request(transport, "GET", "/f", &[]);
            assert!(
                response.status == 200 && response.body == file,
                "{transport:?} {len}"
            );
            let length = response.header("content-length");
            // Over HTTP/2, the end of the stream with the head is equivalent to a length of 0.
            assert!(
                length == Some(&*len.to_string()) || (len == 0 && length.is_none()),
                "{transport:?}"
            );
        }
    }
}

/// On one connection, so that bytes of one response would be seen in the next.
#[test]
fn d7_large_and_small_responses_alternate_on_a_connection() {
    let server = TestServer::start();
    let (large, small) = (
        ResourceContent::random(1, 2_000_000).to_vec(),
        ResourceContent::random(2, 2000).to_vec(),
    );
    server.write_file("large", &large);
    server.write_file("small", &small);
    for transport in TestTransport::HTTP1 {
        let mut client = crate::client::TestClient::connect(&server, transport);
        let mut all = String::new();
        for _ in 0..5 {
            for path in ["/large", "/small", "/nowhere", "/large", "/large"] {
                all += &crate::client::request_head("GET", path, &[]);
            }
        }
        client.send(all);
        for _ in 0..5 {
            assert!(client.read_response().body == large);
            assert!(client.read_response().body == small);
            assert_eq!(client.read_response().status, 404);
            assert!(client.read_response().body == large);
            assert!(client.read_response().body == large);
        }
    }
}
