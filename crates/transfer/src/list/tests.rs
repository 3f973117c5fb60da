//! Row C2: plain and aria2 lists, with all kinds of errors in them.

mod compression;
mod digests;
mod metalink;
mod properties;
mod records;
mod slow_lists;

use std::error::Error as _;
use std::io::Cursor;
use std::path::Path;

use super::*;

/// What is wrong with a word.
const NO_URL: &str = "not a valid URL: it does not begin with http://, https:// or s3://";

pub(super) fn open(text: impl Into<Vec<u8>>, format: Option<ListFormat>) -> DownloadList {
    DownloadList::open(Box::new(Cursor::new(text.into())), format, "list")
}

/// All entries and all bad lines of a text.
pub(super) fn read(text: &str, format: Option<ListFormat>) -> (Vec<ListEntry>, Vec<BadLine>) {
    let (good, bad): (Vec<_>, Vec<_>) = open(text, format).partition(Result::is_ok);
    let good = good.into_iter().map(Result::unwrap);
    (
        good.collect(),
        bad.into_iter().map(Result::unwrap_err).collect(),
    )
}

/// Line numbers and URLs of entries.
pub(super) fn urls(entries: &[ListEntry]) -> Vec<(u64, &str)> {
    entries
        .iter()
        .map(|entry| (entry.line, entry.url.as_str()))
        .collect()
}

/// Line numbers, excerpts and problems of bad lines.
fn problems(bad: &[BadLine]) -> Vec<(u64, &str, String)> {
    bad.iter()
        .map(|bad| {
            (
                bad.line,
                bad.excerpt.as_str(),
                bad.source().unwrap().to_string(),
            )
        })
        .collect()
}

pub(super) fn problem(line: u64, excerpt: &str, problem: &str) -> (u64, String, String) {
    (line, excerpt.to_owned(), problem.to_owned())
}

pub(super) fn assert_problems(bad: &[BadLine], expected: &[(u64, String, String)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(line, excerpt, problem)| (*line, excerpt.as_str(), problem.clone()))
        .collect();
    assert_eq!(problems(bad), expected);
}

#[test]
fn c2_plain_lists_with_all_kinds_of_bad_urls() {
    let text = "\u{feff}http://h/1\r\n\r\n# comment\r\n  # another\n\t\nhttp://h/4 \n  http://me:pw@h/5\n\
                nonsense\nftp://me:s3cret@h/x?token=s3cret\nhttp://h/6\nhttp://h/6\nhttp://h/\u{1}\nhttps://h/7";
    for format in [None, Some(ListFormat::Plain), Some(ListFormat::Aria2)] {
        let (good, bad) = read(text, format);
        assert_eq!(
            urls(&good),
            [
                (1, "http://h/1"),
                (6, "http://h/4"),
                (7, "http://me:pw@h/5"),
                (10, "http://h/6"),
                (11, "http://h/6"),
                (13, "https://h/7"),
            ]
        );
        assert_problems(
            &bad,
            &[
                problem(8, "nonsense", NO_URL),
                problem(
                    9,
                    "ftp://***@h/x?token=***",
                    "a URL must begin with http://, https:// or s3://",
                ),
                problem(
                    12,
                    "http://h/\u{fffd}",
                    "the URL contains control characters",
                ),
            ],
        );
        assert!(!format!("{good:?}{bad:?}").contains("pw@"));
    }
    assert_eq!(open(text, None).format(), ListFormat::Aria2);
    assert!(open("", None).next().is_none() && open("\n#\n", None).next().is_none());
}

#[test]
fn c2_in_a_plain_list_tabs_and_indentation_have_no_meaning() {
    let text = "http://h/1\thttp://i/1\n  out=x\n\thttp://h/3\n";
    let (good, bad) = read(text, Some(ListFormat::Plain));
    assert_eq!(urls(&good), [(3, "http://h/3")]);
    assert_problems(
        &bad,
        &[
            problem(
                1,
                "http://h/1\u{fffd}http://i/1",
                "the URL contains control characters",
            ),
            problem(2, "out=x", NO_URL),
        ],
    );
}

#[test]
fn c2_long_lines_and_other_encodings_are_left_out() {
    let long = format!("http://h/{}", "x".repeat(lines::MAX_LINE));
    let mut text = format!("http://h/1\n{long}\n  out=lost\nhttp://h/4\n").into_bytes();
    text.extend(b"http://h/\xff\nhttp://h/6\n  out=\xff\nhttp://h/8\n");
    let items: Vec<_> = open(text, None).collect();
    let shown: Vec<_> = items
        .iter()
        .map(|item| match item {
            Ok(entry) => (entry.line, entry.url.path().to_owned()),
            Err(bad) => (bad.line, bad.source().unwrap().to_string()),
        })
        .collect();
    let item = |line: u64, text: &str| (line, text.to_owned());
    assert_eq!(
        shown,
        [
            item(1, "/1"),
            item(2, "the line is longer than 1048576 bytes"),
            item(4, "/4"),
            item(5, "the line is not UTF-8"),
            item(7, "the line is not UTF-8"),
            item(8, "/8"),
        ]
    );
    for mark in [&b"\xff\xfe"[..], b"\xfe\xff", b"\xff\xfe\0\0"] {
        for format in [None, Some(ListFormat::Plain), Some(ListFormat::JsonLines)] {
            let mut items = open([mark, b"h\0t\0t\0p\0\n\0"].concat(), format);
            let bad = items.next().unwrap().unwrap_err();
            assert!(bad.line == 1 && matches!(bad.problem, BadLineProblem::Utf16));
            assert!(items.next().is_none());
        }
    }
}

#[test]
fn c2_options_and_mirrors_in_the_format_of_aria2() {
    let sha = "ab".repeat(32);
    let text = format!(
        "http://a/1\tftp://b/1\thttps://c/1\n  out=d/e.iso\r\n\n# comment\n\tdir=data\n checksum=sha-256={sha}\n \
         checksum=sha256:{sha}\n  header=X-A: b\n  header=X-A: c\n  referer=http://r/\n  split=5\n  http-passwd=s3cret\n\
         http://a/2\n   http://a/3?out=x\n  user-agent=x\n"
    );
    let mut list = open(text.as_str(), None);
    let entry = list.next().unwrap().unwrap();
    assert_eq!((entry.line, entry.url.as_str()), (1, "http://a/1"));
    assert_eq!(
        entry
            .mirrors
            .iter()
            .map(url::Url::as_str)
            .collect::<Vec<_>>(),
        ["https://c/1"]
    );
    assert_eq!(entry.path.as_deref(), Some(Path::new("d/e.iso")));
    assert_eq!(entry.directory.as_deref(), Some(Path::new("data")));
    assert!(entry.checksums.len() == 2 && entry.checksums[0] == entry.checksums[1]);
    assert_eq!(entry.checksums[0].digest, Some(vec![0xab; 32]));
    assert_eq!(
        entry.headers.get_all("x-a").iter().collect::<Vec<_>>(),
        ["b", "c"]
    );
    assert_eq!(entry.headers["referer"], "http://r/");
    let rest: Vec<_> = list.by_ref().map(Result::unwrap).collect();
    assert_eq!(urls(&rest), [(13, "http://a/2"), (14, "http://a/3?out=x")]);
    assert!(rest[0].headers.is_empty() && rest[1].headers["user-agent"] == "x");
    assert_eq!(
        list.ignored_options().into_iter().collect::<Vec<_>>(),
        ["http-passwd"]
    );
}

#[test]
fn c2_a_bad_option_makes_its_entry_an_error() {
    let text = "  out=orphan\nhttp://a/2\n  out=../x\n  checksum=md5=00\nhttp://a/5\n  checksum=md5=00\nbad\n  out=y\n\
                http://a/9\n  out=/etc/passwd\nhttp://a/11\n  header=Cookie s3cret\nhttp://a/13\n  out=a.haul-part\n\
                http://a/15\n  header=Range: bytes=s3cret\nhttp://a/17\n  out=ok\nhttp://a/19\n  out=\n";
    let (good, bad) = read(text, None);
    assert_eq!(urls(&good), [(17, "http://a/17")]);
    assert_problems(
        &bad,
        &[
            problem(1, "out=orphan", "the option has no URL before it"),
            problem(3, "out=../x", "the path has a component '..'"),
            problem(
                6,
                "checksum=md5=00",
                "not a valid checksum: a md5 digest has 32 hexadecimal digits",
            ),
            problem(7, "bad", NO_URL),
            problem(10, "out=/etc/passwd", "the path is absolute"),
            problem(12, "header=", "write a header field as Name: value"),
            problem(
                14,
                "out=a.haul-part",
                "the path has a suffix that is reserved for temporary files",
            ),
            problem(16, "header=", "haul sets this header field itself"),
            problem(20, "out=", "the path is empty"),
        ],
    );
    let endless = "  gid=0123456789abcdef\n".repeat(60_000);
    let (good, bad) = read(&format!("http://a/1\n{endless}http://a/2\n"), None);
    assert_eq!(urls(&good), [(60_002, "http://a/2")]);
    assert!(bad.len() == 1 && matches!(bad[0].problem, BadLineProblem::LineTooLong { .. }));
}

#[test]
fn c2_a_file_that_is_no_list_has_one_error() {
    let words = "a line of some text\n".repeat(1000);
    let zeros = "\0".repeat(40_000);
    let with_entry_later = format!("{}http://h/f\n", "text\n".repeat(999));
    for (text, reason) in [
        (&words, "none of its first 1000 lines can be used"),
        (&zeros, "it is binary"),
    ] {
        let (entries, bad) = read(text, None);
        assert!(entries.is_empty());
        let expected = format!("this is not a list of URLs: {reason}");
        assert_problems(&bad, &[problem(1, "", &expected)]);
    }
    let mut items = open(with_entry_later, None);
    assert!(items.by_ref().take(999).all(|item| item.is_err()));
    assert_eq!(items.next().unwrap().unwrap().url.as_str(), "http://h/f");
    assert!(items.next().is_none());
    // A short list is not judged as a whole, nor one that had an entry.
    assert_eq!(read("text\ntext\n", None).1.len(), 2);
    assert_eq!(read(&format!("http://h/f\n{words}"), None).1.len(), 1000);
}
