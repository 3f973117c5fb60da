//! Row C2 for CSV and JSON Lines, and errors in their records.

use std::path::Path;

use haul_plan::DigestAlgorithm;

use super::{NO_URL, assert_problems, problem, read, urls};
use crate::list::*;

#[test]
fn c2_csv_has_columns_quotes_and_newlines_within_them() {
    let sha = "AB".repeat(32);
    let text = format!(
        "# a comment\n\nPath,\"URL\",size, sha256 ,caption,checksum\n\
         a/b.jpg,http://h/1,5,{sha},,md5:{}\r\n\n\
         ,http://h/2,,,\"two\nlines, \"\"quoted\"\"\",\n\
         \" x \",\"http://h/3,4\"\n",
        "cd".repeat(16)
    );
    let (good, bad) = read(&text, None);
    assert!(bad.is_empty(), "{bad:?}");
    assert_eq!(
        urls(&good),
        [(4, "http://h/1"), (6, "http://h/2"), (8, "http://h/3,4")]
    );
    assert_eq!(
        (good[0].path.as_deref(), good[0].size),
        (Some(Path::new("a/b.jpg")), Some(5))
    );
    let algorithms: Vec<_> = good[0]
        .checksums
        .iter()
        .map(|checksum| checksum.algorithm)
        .collect();
    assert_eq!(algorithms, [DigestAlgorithm::Sha256, DigestAlgorithm::Md5]);
    assert_eq!(good[1], ListEntry::new(6, "http://h/2".parse().unwrap()));
    assert_eq!(good[2].path.as_deref(), Some(Path::new(" x ")));

    let tabs = "url\tpath\nhttp://h/a,b\tc d\n";
    let (good, bad) = read(tabs, None);
    assert_eq!((urls(&good), bad.len()), (vec![(2, "http://h/a,b")], 0));
    let (good, _) = read("URL\nhttp://h/1\n", None);
    assert_eq!(urls(&good), [(2, "http://h/1")]);
}

#[test]
fn c2_bad_records_of_csv() {
    let text = "url,path,size,md5\nhttp://h/2,/a,1,\nhttp://h/3,a,-1,\nhttp://h/4,a,1,zz\n,a,1,\nhttp://h/a,b,c,d,e\n\
                x,,,\n\"http://h/8\nhttp://h/9\",a\nhttp://h/10\nhttp://h/11,\"never closed,\nhttp://h/12";
    let (good, bad) = read(text, None);
    assert_eq!(urls(&good), [(10, "http://h/10")]);
    assert_problems(
        &bad,
        &[
            problem(2, "/a", "the path is absolute"),
            problem(3, "-1", "not a size in bytes"),
            problem(
                4,
                "zz",
                "not a valid checksum: a md5 digest has 32 hexadecimal digits",
            ),
            problem(5, "", "there is no URL"),
            problem(
                6,
                "http://h/a",
                "the line has 5 columns and the header names 4",
            ),
            problem(7, "x", NO_URL),
            problem(
                8,
                "http://h/8\u{fffd}http://h/9",
                "the URL contains control characters",
            ),
            problem(11, "", "a quotation mark is not closed"),
        ],
    );
    for header in ["path,size\nhttp://h/1,2\n", "\"url\n", "\u{1}\n"] {
        let (good, bad) = read(header, Some(ListFormat::Csv));
        assert!(good.is_empty() && bad.len() == 1, "{header}");
        assert!(matches!(bad[0].problem, BadLineProblem::NoUrlColumn));
    }
}

#[test]
fn c2_an_unclosed_quotation_mark_costs_at_most_a_megabyte() {
    let filler = "http://h/f\n".repeat(150_000);
    let (good, bad) = read(&format!("url\n\"http://h/2\n{filler}http://h/last\n"), None);
    assert!(bad.len() == 1 && bad[0].line == 2);
    assert!(matches!(bad[0].problem, BadLineProblem::LineTooLong { .. }));
    let lost = lines::MAX_LINE / 11;
    assert!((150_001 - lost - 2..=150_001 - lost + 2).contains(&good.len()));
    assert_eq!(good.last().unwrap().line, 150_003);
    assert_eq!(good.last().unwrap().url.path(), "/last");
    // Also when a line within the quotation marks is too long.
    let line = "x".repeat(lines::MAX_LINE + 1);
    let (good, bad) = read(
        &format!("url,x\nhttp://h/2,\"open\n{line}\nhttp://h/4,\n"),
        None,
    );
    assert_eq!((urls(&good), bad[0].line), (vec![(4, "http://h/4")], 2));
    // A record of many columns, and a value that is nearly too long.
    let wide = format!("url{}\nhttp://h/1\n", ",x".repeat(1000));
    assert_eq!(read(&wide, None).0.len(), 1);
    let long = format!(
        "url,x\nhttp://h/1,\"{}\"\n",
        "x".repeat(lines::MAX_LINE - 20)
    );
    assert_eq!(read(&long, None).0.len(), 1);
}

#[test]
fn folders_in_a_listing_of_haul_serve_are_skipped() {
    let text = r#"{"name": "d", "href": "/d/", "url": null, "type": "folder", "size": null}
{"name": "pipe", "href": "/pipe", "url": null, "type": "other", "size": null}
{"name": "f", "href": "/f", "url": "http://h/f", "type": "file", "size": 3}
{"url": "http://h/g", "type": 5}
{"name": "h", "href": "/h", "url": null, "type": "file", "size": 3}
{"url": "http://h/i", "type": "folder"}
"#;
    let (good, bad) = read(text, None);
    assert_eq!(
        urls(&good),
        [(3, "http://h/f"), (4, "http://h/g"), (6, "http://h/i")]
    );
    assert_problems(&bad, &[problem(5, "", "there is no URL")]);
}

#[test]
fn c2_json_lines() {
    let text = r#"
{"url": "http://h/2", "path": "a b/\u00e4", "size": 7, "sha1": "0123456789012345678901234567890123456789", "caption": {"x": [1]}}
{"url": "http://h/3", "mirrors": ["https://i/3", "ftp://j/3"], "headers": {"X-A": "b", "cookie": "s3cret"}, "size": "8", "path": null}
not json s3cret
["http://h/5"]
{"url": 5, "headers": {"Cookie": "s3cret"}}
{"path": "x"}
{"url": "http://h/8", "size": 1.5}
{"url": "http://h/9", "headers": {"Range": "s3cret"}}
{"url": "http://h/10", "path": "a\u0000b"}
{"url": "http://h/11"} x
{"url": "http://h/12\nhttp://h/13"}
{"url": "http://h/13", "sha1": "" }"#;
    let (good, bad) = read(text, None);
    assert_eq!(
        urls(&good),
        [(2, "http://h/2"), (3, "http://h/3"), (13, "http://h/13")]
    );
    assert_eq!(
        (good[0].path.as_deref(), good[0].size),
        (Some(Path::new("a b/ä")), Some(7))
    );
    assert_eq!(good[0].checksums[0].algorithm, DigestAlgorithm::Sha1);
    assert_eq!((good[1].mirrors.len(), good[1].size), (1, Some(8)));
    assert_eq!(good[1].headers["x-a"], "b");
    assert_problems(
        &bad,
        &[
            problem(4, "", "not a JSON object (character 1)"),
            problem(5, "", "not a JSON object (character 1)"),
            problem(6, "", "a value has the wrong type (before character 9)"),
            problem(7, "", "there is no URL"),
            problem(8, "1.5", "not a size in bytes"),
            problem(9, "Range", "haul sets this header field itself"),
            problem(10, "a\u{fffd}b", "the path has a NUL character"),
            problem(11, "", "not a JSON object (character 24)"),
            problem(
                12,
                "http://h/12\u{fffd}http://h/13",
                "the URL contains control characters",
            ),
        ],
    );
    assert!(!format!("{good:?}{bad:?}").contains("s3cret"));
}
