//! D7: ranges, on every road, compared with the file.

use std::ops::Range;

use haul_lab::ResourceContent;

use crate::client::{RequestPathway, TestResponse};
use crate::harness::TestServer;
use crate::multipart::{content_range, parts};

/// What a Range must come to.
#[derive(Debug)]
enum ExpectedRange {
    /// 200 with all of it.
    Whole,
    /// 206 with these, in this order; more than one in parts.
    Ranges(Vec<Range<usize>>),
    /// 416.
    Nothing,
    /// The whole, or parts that are right.
    Any,
}

use ExpectedRange::{Any, Nothing, Ranges, Whole};

/// Range fields and what they come to for a file of `len` bytes, which are ten at least.
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
    .map(|(text, comes)| {
        let text = text
            .replace("LAST", &(len - 1).to_string())
            .replace("LEN", &len.to_string());
        (text.replace("MID", &middle.to_string()), comes)
    })
    .into()
}

/// Compares an answer with the file that it is of.
#[track_caller]
fn compare(answer: &TestResponse, file: &[u8], comes: &ExpectedRange, why: &str) {
    assert_eq!(
        answer.field("accept-ranges"),
        (answer.status != 416).then_some("bytes"),
        "{why}"
    );
    match (comes, answer.status) {
        (Whole | Any, 200) => {
            assert!(answer.body == file, "{why}");
            assert!(answer.field("content-range").is_none(), "{why}");
        }
        (Nothing, 416) => {
            let field = format!("bytes */{}", file.len());
            assert_eq!(answer.field("content-range"), Some(&*field), "{why}");
        }
        (Ranges(ranges), 206) if ranges.len() == 1 => {
            let (range, len) = content_range(answer.field("content-range").unwrap());
            assert_eq!((&range, len), (&ranges[0], file.len()), "{why}");
            assert!(answer.body == file[range], "{why}");
        }
        (Ranges(_) | Any, 206) if answer.field("content-range").is_none() => {
            let parts = parts(answer);
            for part in &parts {
                assert_eq!(part.len, file.len(), "{why}");
                assert_eq!(part.kind, "text/plain; charset=utf-8", "{why}");
                assert!(
                    part.bytes == file[part.range.clone()],
                    "{why} {:?}",
                    part.range
                );
            }
            if let Ranges(ranges) = comes {
                let got: Vec<_> = parts.into_iter().map(|part| part.range).collect();
                assert_eq!(&got, ranges, "{why}");
            }
        }
        (Any, 206) => {
            let (range, _) = content_range(answer.field("content-range").unwrap());
            assert!(answer.body == file[range], "{why}");
        }
        (_, status) => panic!("{why}: {comes:?}, but {status}"),
    }
    if [200, 206].contains(&answer.status) {
        let length = answer
            .field("content-length")
            .map(|length| length.parse().unwrap());
        assert_eq!(length, Some(answer.body.len()), "{why}");
    }
}

#[test]
fn d7_ranges_are_what_the_file_has_there() {
    let served = TestServer::start();
    // One byte written at once, one below the road by sendfile, one on it.
    for len in [10_usize, 60_000, 700_001] {
        let file = ResourceContent::random(7, len as u64).to_vec();
        served.file("f.txt", &file);
        for road in RequestPathway::ALL {
            for (range, comes) in cases(len) {
                let answer = served.ask(road, "GET", "/f.txt", &[("Range", &range)]);
                compare(&answer, &file, &comes, &format!("{road:?} {len} {range}"));
            }
        }
    }
}

#[test]
fn d7_many_ranges_are_parts_and_too_many_the_whole() {
    let served = TestServer::start();
    let len = 700_001;
    let file = ResourceContent::random(7, len as u64).to_vec();
    served.file("f.txt", &file);
    for (count, each) in [(2, 300_000), (10, 5000), (90, 1000), (90, 7000)] {
        let ranges: Vec<_> = (0..count)
            .map(|index| index * each..index * each + each - 7)
            .collect();
        let list: Vec<_> = ranges
            .iter()
            .map(|range| format!("{}-{}", range.start, range.end - 1))
            .collect();
        let field = format!("bytes={}", list.join(","));
        for road in RequestPathway::ALL {
            let answer = served.ask(road, "GET", "/f.txt", &[("Range", &field)]);
            compare(
                &answer,
                &file,
                &Ranges(ranges.clone()),
                &format!("{road:?} {count} of {each}"),
            );
        }
    }
    for count in [1000, 5000] {
        let list: Vec<_> = (0..count)
            .map(|index| format!("{}-{}", index * 10, index * 10))
            .collect();
        let field = format!("bytes={}", list.join(","));
        for road in [RequestPathway::Plain, RequestPathway::Tls] {
            let answer = served.ask(road, "GET", "/f.txt", &[("Range", &field)]);
            assert!([200, 416].contains(&answer.status), "{road:?} {count}");
            assert!(answer.status == 416 || answer.body == file);
        }
    }
    // The same large range over and over is no way to make a server send more than it has.
    let field = format!("bytes={}", vec!["0-"; 100].join(","));
    let answer = served.ask(RequestPathway::Plain, "GET", "/f.txt", &[("Range", &field)]);
    assert!(answer.body.len() < 2 * len, "{}", answer.body.len());
}

#[test]
fn d7_an_empty_file_has_no_ranges() {
    let served = TestServer::start();
    served.file("empty", "");
    for road in RequestPathway::ALL {
        for range in [
            "bytes=0-",
            "bytes=0-0",
            "bytes=-1",
            "bytes=-0",
            "bytes=0-0,1-1",
        ] {
            let answer = served.ask(road, "GET", "/empty", &[("Range", range)]);
            assert!([200, 416].contains(&answer.status), "{road:?} {range}");
            assert!(answer.status == 416 || answer.body.is_empty());
        }
        let answer = served.ask(road, "GET", "/empty", &[]);
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{road:?}");
    }
}

#[test]
fn d7_two_fields_are_none() {
    let served = TestServer::start();
    served.file("f.txt", "0123456789");
    for road in RequestPathway::ALL {
        let answer = served.ask(
            road,
            "GET",
            "/f.txt",
            &[("Range", "bytes=0-1"), ("Range", "bytes=4-5")],
        );
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, "0123456789"),
            "{road:?}"
        );
    }
}

/// Fields but for the time of day, how a connection goes on, and that there is nothing.
fn lasting(answer: &TestResponse) -> Vec<(String, String)> {
    let mut fields = answer.fields.clone();
    fields.retain(|(name, value)| {
        !["date", "connection"].contains(&name.as_str())
            && (name.as_str(), value.as_str()) != ("content-length", "0")
    });
    fields.sort();
    fields
}

#[test]
fn d7_head_is_what_get_begins_with() {
    let served = TestServer::start();
    served.file("folder/x", "");
    for (name, len) in [
        ("empty", 0),
        ("tiny.html", 10),
        ("small.bin", 60_000),
        ("large", 300_000),
    ] {
        served.file(name, ResourceContent::random(1, len).to_vec());
    }
    for road in RequestPathway::ALL {
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
                    ["GET", "HEAD"].map(|method| served.ask(road, method, path, fields));
                assert_eq!(head.status, get.status, "{road:?} {path} {fields:?}");
                assert_eq!(lasting(&head), lasting(&get), "{road:?} {path} {fields:?}");
                assert!(head.body.is_empty());
            }
        }
        // Range is for GET alone (RFC 9110 14.2).
        let head = served.ask(road, "HEAD", "/large", &[("Range", "bytes=0-1")]);
        assert_eq!(
            (head.status, head.field("content-length")),
            (200, Some("300000")),
            "{road:?}"
        );
    }
}

#[test]
fn d7_whole_files_of_every_size() {
    let served = TestServer::start();
    for len in [
        0, 1, 100, 65_535, 65_536, 65_537, 131_072, 262_145, 5_000_000,
    ] {
        let file = ResourceContent::random(len, len).to_vec();
        served.file("f", &file);
        for road in RequestPathway::ALL {
            let answer = served.ask(road, "GET", "/f", &[]);
            assert!(
                answer.status == 200 && answer.body == file,
                "{road:?} {len}"
            );
            let length = answer.field("content-length");
            // Over HTTP/2 a head may be the end, which says the same.
            assert!(
                length == Some(&*len.to_string()) || (len == 0 && length.is_none()),
                "{road:?}"
            );
        }
    }
}

/// On one connection, so that what one answer leaves behind would show in the next.
#[test]
fn d7_large_and_small_answers_take_turns_on_a_connection() {
    let served = TestServer::start();
    let (large, small) = (
        ResourceContent::random(1, 2_000_000).to_vec(),
        ResourceContent::random(2, 2000).to_vec(),
    );
    served.file("large", &large);
    served.file("small", &small);
    for road in RequestPathway::FIRST {
        let mut client = crate::client::TestClient::on(&served, road);
        let mut all = String::new();
        for _ in 0..5 {
            for path in ["/large", "/small", "/nowhere", "/large", "/large"] {
                all += &crate::client::request("GET", path, &[]);
            }
        }
        client.send(all);
        for _ in 0..5 {
            assert!(client.answer().body == large);
            assert!(client.answer().body == small);
            assert_eq!(client.answer().status, 404);
            assert!(client.answer().body == large);
            assert!(client.answer().body == large);
        }
    }
}
