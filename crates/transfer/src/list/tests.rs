//! Row C2: lists of URLs and of aria2's entries, with all that may be wrong in them.

use std::error::Error as _;
use std::io::Cursor;
use std::path::Path;

use super::*;

/// Opens a text.
pub(super) fn open(text: impl Into<Vec<u8>>, format: Option<ListFormat>) -> DownloadList {
    DownloadList::open(Box::new(Cursor::new(text.into())), format, "list")
}

/// All good entries and all bad lines of a text.
pub(super) fn read(text: &str, format: Option<ListFormat>) -> (Vec<ListEntry>, Vec<BadLine>) {
    let (good, bad): (Vec<_>, Vec<_>) = open(text, format).partition(Result::is_ok);
    let good = good.into_iter().map(Result::unwrap);
    (
        good.collect(),
        bad.into_iter().map(Result::unwrap_err).collect(),
    )
}

/// Numbers and URLs of good entries.
pub(super) fn urls(entries: &[ListEntry]) -> Vec<(u64, &str)> {
    entries
        .iter()
        .map(|entry| (entry.line, entry.url.as_str()))
        .collect()
}

/// Numbers, excerpts and problems of bad lines.
fn told(bad: &[BadLine]) -> Vec<(u64, &str, String)> {
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

pub(super) fn tell(line: u64, excerpt: &str, problem: &str) -> (u64, String, String) {
    (line, excerpt.to_owned(), problem.to_owned())
}

pub(super) fn same(bad: &[BadLine], expected: &[(u64, String, String)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(line, excerpt, problem)| (*line, excerpt.as_str(), problem.clone()))
        .collect();
    assert_eq!(told(bad), expected);
}

#[test]
fn c2_plain_lists_with_everything_that_is_no_url() {
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
        same(
            &bad,
            &[
                tell(8, "nonsense", "this is no URL"),
                tell(
                    9,
                    "ftp://***@h/x?token=***",
                    "a URL must begin with http:// or https://",
                ),
                tell(12, "http://h/\u{fffd}", "a URL has no control characters"),
            ],
        );
        assert!(!format!("{good:?}{bad:?}").contains("pw@"));
    }
    assert_eq!(open(text, None).format(), ListFormat::Aria2);
    assert!(open("", None).next().is_none() && open("\n#\n", None).next().is_none());
}

#[test]
fn c2_in_a_plain_list_tabs_and_indents_are_not_special() {
    let text = "http://h/1\thttp://i/1\n  out=x\n\thttp://h/3\n";
    let (good, bad) = read(text, Some(ListFormat::Plain));
    assert_eq!(urls(&good), [(3, "http://h/3")]);
    same(
        &bad,
        &[
            tell(
                1,
                "http://h/1\u{fffd}http://i/1",
                "a URL has no control characters",
            ),
            tell(2, "out=x", "this is no URL"),
        ],
    );
}

#[test]
fn c2_long_lines_and_other_encodings_cost_themselves_alone() {
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
    let of = |line: u64, text: &str| (line, text.to_owned());
    assert_eq!(
        shown,
        [
            of(1, "/1"),
            of(2, "this is longer than 1048576 bytes"),
            of(4, "/4"),
            of(5, "this is not UTF-8"),
            of(7, "this is not UTF-8"),
            of(8, "/8"),
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
fn c2_options_and_mirrors_as_aria2_has_them() {
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
fn c2_a_bad_option_makes_its_entry_a_bad_one() {
    let text = "  out=orphan\nhttp://a/2\n  out=../x\n  checksum=md5=00\nhttp://a/5\n  checksum=md5=00\nbad\n  out=y\n\
                http://a/9\n  out=/etc/passwd\nhttp://a/11\n  header=Cookie s3cret\nhttp://a/13\n  out=a.haul-part\n\
                http://a/15\n  header=Range: bytes=s3cret\nhttp://a/17\n  out=ok\nhttp://a/19\n  out=\n";
    let (good, bad) = read(text, None);
    assert_eq!(urls(&good), [(17, "http://a/17")]);
    same(
        &bad,
        &[
            tell(1, "out=orphan", "this option belongs to no URL"),
            tell(3, "out=../x", "the path has a component '..'"),
            tell(6, "checksum=md5=00", "this is no checksum"),
            tell(7, "bad", "this is no URL"),
            tell(10, "out=/etc/passwd", "the path is absolute"),
            tell(12, "header=", "a header field is written as Name: value"),
            tell(
                14,
                "out=a.haul-part",
                "the path has a name that is kept for temporary files",
            ),
            tell(16, "header=", "this header field is set by haul itself"),
            tell(20, "out=", "the path is empty"),
        ],
    );
    let endless = "  gid=0123456789abcdef\n".repeat(60_000);
    let (good, bad) = read(&format!("http://a/1\n{endless}http://a/2\n"), None);
    assert_eq!(urls(&good), [(60_002, "http://a/2")]);
    assert!(bad.len() == 1 && matches!(bad[0].problem, BadLineProblem::LineTooLong));
}
