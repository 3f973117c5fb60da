//! Row C2 in records: tables and JSON lines, and what may be wrong in them.

use std::path::Path;

use haul_plan::DigestAlgorithm;

use super::tests::{read, same, tell, urls};
use super::*;

#[test]
fn c2_tables_have_columns_quotes_and_lines_within_them() {
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
fn c2_bad_records_of_a_table() {
    let text = "url,path,size,md5\nhttp://h/2,/a,1,\nhttp://h/3,a,-1,\nhttp://h/4,a,1,zz\n,a,1,\nhttp://h/a,b,c,d,e\n\
                x,,,\n\"http://h/8\nhttp://h/9\",a\nhttp://h/10\nhttp://h/11,\"never closed,\nhttp://h/12";
    let (good, bad) = read(text, None);
    assert_eq!(urls(&good), [(10, "http://h/10")]);
    same(
        &bad,
        &[
            tell(2, "/a", "the path is absolute"),
            tell(3, "-1", "this is no size in bytes"),
            tell(4, "zz", "this is no checksum"),
            tell(5, "", "there is no URL"),
            tell(6, "http://h/a", "there are 5 columns and 4 names for them"),
            tell(7, "x", "this is no URL"),
            tell(
                8,
                "http://h/8\u{fffd}http://h/9",
                "a URL has no control characters",
            ),
            tell(11, "", "a quote does not end"),
        ],
    );
    for header in ["path,size\nhttp://h/1,2\n", "\"url\n", "\u{1}\n"] {
        let (good, bad) = read(header, Some(ListFormat::Csv));
        assert!(good.is_empty() && bad.len() == 1, "{header}");
        assert!(matches!(bad[0].problem, BadLineProblem::NoUrlColumn));
    }
}

#[test]
fn c2_a_quote_that_does_not_end_costs_a_megabyte_at_most() {
    let filler = "http://h/f\n".repeat(150_000);
    let (good, bad) = read(&format!("url\n\"http://h/2\n{filler}http://h/last\n"), None);
    assert!(bad.len() == 1 && bad[0].line == 2);
    assert!(matches!(bad[0].problem, BadLineProblem::LineTooLong));
    let lost = lines::MAX_LINE / 11;
    assert!((150_001 - lost - 2..=150_001 - lost + 2).contains(&good.len()));
    assert_eq!(good.last().unwrap().line, 150_003);
    assert_eq!(good.last().unwrap().url.path(), "/last");
    // The same where it is a line within the quotes that is too long.
    let line = "x".repeat(lines::MAX_LINE + 1);
    let (good, bad) = read(
        &format!("url,x\nhttp://h/2,\"open\n{line}\nhttp://h/4,\n"),
        None,
    );
    assert_eq!((urls(&good), bad[0].line), (vec![(4, "http://h/4")], 2));
    // A value of many columns, and one that is nearly too long.
    let wide = format!("url{}\nhttp://h/1\n", ",x".repeat(1000));
    assert_eq!(read(&wide, None).0.len(), 1);
    let long = format!(
        "url,x\nhttp://h/1,\"{}\"\n",
        "x".repeat(lines::MAX_LINE - 20)
    );
    assert_eq!(read(&long, None).0.len(), 1);
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
    same(
        &bad,
        &[
            tell(4, "", "this is no JSON object (character 1)"),
            tell(5, "", "this is no JSON object (character 1)"),
            tell(
                6,
                "",
                "a value is not of the type that it should be (before character 9)",
            ),
            tell(7, "", "there is no URL"),
            tell(8, "1.5", "this is no size in bytes"),
            tell(9, "Range", "this header field is set by haul itself"),
            tell(10, "a\u{fffd}b", "the path has a NUL character"),
            tell(11, "", "this is no JSON object (character 24)"),
            tell(
                12,
                "http://h/12\u{fffd}http://h/13",
                "a URL has no control characters",
            ),
        ],
    );
    assert!(!format!("{good:?}{bad:?}").contains("s3cret"));
}
