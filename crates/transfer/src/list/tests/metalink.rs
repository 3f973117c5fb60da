//! Metalink documents as lists: complete, compressed, damaged, and with unusable files.

use std::io::{self, Read};
use std::path::Path;

use super::compression::{gzip, zstd};
use super::{assert_problems, open, problem, read, urls};
use crate::list::*;
use crate::metalink;

const DOCUMENT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<metalink xmlns="urn:ietf:params:xml:ns:metalink">
  <file name="sub/a.iso"><size>5</size>
    <hash type="sha-256">e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855</hash>
    <url priority="2">http://b.test/a</url><url priority="1">http://a.test/a</url></file>
  <file name=".."><url>http://a.test/up</url></file>
  <file name="c"><url>ftp://a.test/c</url></file>
  <file name="d"><url>https://a.test/d</url></file>
</metalink>
"#;

#[test]
fn c2_a_bad_file_of_a_document_does_not_affect_the_others() {
    let (good, bad) = read(DOCUMENT, None);
    assert_eq!(
        urls(&good),
        [(3, "http://a.test/a"), (8, "https://a.test/d")]
    );
    let first = &good[0];
    assert_eq!(first.path.as_deref(), Some(Path::new("sub/a.iso")));
    assert_eq!((first.size, first.checksums.len()), (Some(5), 1));
    assert_eq!(first.mirrors[0].as_str(), "http://b.test/a");
    assert!(good.iter().all(|entry| entry.untrusted_hosts));
    assert_problems(
        &bad,
        &[
            problem(6, "", "a file without a usable name"),
            problem(7, "c", "it has no URL that begins with http:// or https://"),
        ],
    );
    assert!(bad.iter().all(|bad| !bad.problem.ends_list()));
    // A format that the user gives is not questioned.
    assert_eq!(read(DOCUMENT, Some(ListFormat::Plain)).0.len(), 0);
}

#[test]
fn c1_a_compressed_document_is_recognized() {
    for text in [gzip(DOCUMENT.as_bytes()), zstd(DOCUMENT.as_bytes())] {
        let list = open(text.clone(), None);
        assert_eq!(list.format(), ListFormat::Metalink);
        assert_eq!(list.filter(Result::is_ok).count(), 2);
        // Nothing of half a document is used.
        let mut half = open(&text[..text.len() / 2], Some(ListFormat::Metalink));
        let bad = half.next().unwrap().unwrap_err();
        assert!(
            matches!(bad.problem, BadLineProblem::DamagedCompression { .. }),
            "{bad:?}"
        );
        assert!(half.next().is_none());
    }
}

#[test]
fn c2_nothing_of_a_damaged_document_is_used() {
    let cut = &DOCUMENT[..DOCUMENT.find("</metalink>").unwrap()];
    for text in [cut, &cut[..cut.len() - 9]] {
        let (good, bad) = read(text, None);
        assert_eq!((good.len(), bad.len()), (0, 1));
        assert!(bad[0].problem.ends_list());
    }
    assert_eq!(read("\n", Some(ListFormat::Metalink)).1.len(), 1);
}

#[test]
fn c1_a_document_without_end_is_bounded() {
    /// A document without end, and the number of bytes read of it.
    struct EndlessDocument(u64);
    impl Read for EndlessDocument {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let text = DOCUMENT.as_bytes();
            for byte in &mut *buffer {
                *byte = text
                    .get(usize::try_from(self.0).unwrap())
                    .map_or(b' ', |byte| *byte);
                self.0 += 1;
                assert!(
                    self.0 < 2 * metalink::MAX_DOCUMENT_BYTES as u64,
                    "the document is read without a bound"
                );
            }
            Ok(buffer.len())
        }
    }
    let mut list = DownloadList::open(Box::new(EndlessDocument(0)), None, "list");
    let bad = list.next().unwrap().unwrap_err();
    let message = std::error::Error::source(&bad).unwrap().to_string();
    assert_eq!(message, "the document is larger than 16 MiB");
}
