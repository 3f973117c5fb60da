//! The format: what is written is read, what is damaged is seen.

use proptest::prelude::*;
use url::Url;

use haul_plan::{DigestAlgorithm, ExpectedDigest, ResourceVersion};

use super::record::JournalRecord;
use super::*;

fn header(url: &str) -> JournalHeader {
    let version = ResourceVersion {
        etag: "\"v1\"".parse().ok(),
        last_modified: Some("then".into()),
        ..ResourceVersion::default()
    };
    let announced = ExpectedDigest {
        algorithm: DigestAlgorithm::Crc32c,
        digest: vec![1, 2, 3, 255],
        field: "Repr-Digest",
    };
    JournalHeader::new(&Url::parse(url).unwrap(), 1000, &version, &[announced])
}

#[test]
fn a_header_knows_its_url_without_credentials_and_holds_none_of_it() {
    let header = header("http://user:secret@h.test/f?token=abc#part");
    assert!(header.belongs_to(&Url::parse("http://h.test/f?token=abc").unwrap()));
    assert!(!header.belongs_to(&Url::parse("http://h.test/f?token=abd").unwrap()));
    let line = JournalRecord::Header(header.clone()).to_line();
    assert!(
        !line.contains("secret") && !line.contains("abc") && !line.contains("h.test"),
        "{line}"
    );
    let version = header.version();
    assert_eq!(
        (version.length, version.last_modified.as_deref()),
        (Some(1000), Some("then"))
    );
    assert_eq!(version.etag.unwrap().to_string(), "\"v1\"");
    let announced = header.announced_digests();
    assert_eq!(announced[0].algorithm, DigestAlgorithm::Crc32c);
    assert_eq!(announced[0].digest, [1, 2, 3, 255]);
}

#[test]
fn a_header_that_is_restated_holds_for_what_was_there_before() {
    let dir = tempfile::tempdir().unwrap();
    let (path, url) = (dir.path().join("j"), Url::parse("http://h.test/f").unwrap());
    let span = SavedRange {
        start: 0,
        end: 10,
        crc: 1,
    };
    let first = header(url.as_str());
    let mut journal = Journal::create(&path, &first).unwrap();
    journal.append(std::slice::from_ref(&span)).unwrap();
    let later = first
        .clone()
        .with_join_evidence(JournalEvidence::Pieces)
        .with_join_evidence(JournalEvidence::Digest);
    journal.rewrite_header(&later).unwrap();
    let kept = load_journal(&path, &url).unwrap().unwrap();
    assert_eq!(
        (&kept.header, &kept.saved_ranges[..]),
        (&later, &[span][..])
    );
    assert_eq!(kept.header.joined, JournalEvidence::Pieces);
    assert_eq!(kept.journal_length, std::fs::metadata(&path).unwrap().len());
    // One of another file is damage.
    journal.rewrite_header(&header("http://h.test/g")).unwrap();
    assert!(matches!(
        load_journal(&path, &url),
        Err(UnusableJournal::Damaged)
    ));
}

#[test]
fn appended_spans_are_read_back_and_a_reopened_journal_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    let url = Url::parse("http://h.test/f").unwrap();
    let span = |start| SavedRange {
        start,
        end: start + 10,
        crc: 1,
    };
    let mut journal = Journal::create(&path, &header("http://h.test/f")).unwrap();
    journal.append(&[span(0), span(10)]).unwrap();
    let kept = load_journal(&path, &url).unwrap().unwrap();
    let mut journal = Journal::reopen(&path, kept.journal_length).unwrap();
    journal.append(&[span(500)]).unwrap();
    let kept = load_journal(&path, &url).unwrap().unwrap();
    assert_eq!(kept.ranges().iter().collect::<Vec<_>>(), [0..20, 500..510]);
    std::fs::remove_file(&path).unwrap();
    assert!(load_journal(&path, &url).unwrap().is_none());
}

#[test]
fn spans_outside_the_file_are_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    let url = Url::parse("http://h.test/f").unwrap();
    for (start, end) in [(5, 5), (9, 3), (990, 1001)] {
        let mut journal = Journal::create(&path, &header("http://h.test/f")).unwrap();
        journal
            .append(&[SavedRange { start, end, crc: 0 }])
            .unwrap();
        assert!(matches!(
            load_journal(&path, &url),
            Err(UnusableJournal::Damaged)
        ));
    }
}

proptest! {
    #[test]
    fn every_record_is_read_as_it_was_written(start: u64, end: u64, crc: u32) {
        let record = JournalRecord::Done(SavedRange { start, end, crc });
        let line = record.to_line();
        prop_assert_eq!(JournalRecord::from_line(line.trim_end().as_bytes()), Some(record));
    }

    /// Whatever one byte becomes, the line is refused or says what it said.
    #[test]
    fn b3_a_flipped_byte_is_seen(start in 0u64..1000, at: prop::sample::Index, flip in 1u8..) {
        let record = JournalRecord::Done(SavedRange { start, end: 1000, crc: 7 });
        let mut line = record.to_line().trim_end().as_bytes().to_vec();
        let at = at.index(line.len());
        line[at] ^= flip;
        prop_assert!(JournalRecord::from_line(&line).is_none_or(|read| read == record));
    }

    #[test]
    fn no_bytes_make_it_panic(line: Vec<u8>) {
        let _ = JournalRecord::from_line(&line);
    }
}
