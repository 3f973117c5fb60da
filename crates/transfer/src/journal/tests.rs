//! The format: records are read back as they were written, and damage is detected.

mod damage;

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
fn a_header_matches_its_url_without_credentials_and_contains_no_part_of_it() {
    let header = header("http://user:secret@h.test/f?token=abc#part");
    assert!(header.belongs_to(&Url::parse("http://h.test/f?token=abc").unwrap()));
    assert!(!header.belongs_to(&Url::parse("http://h.test/g?token=abc").unwrap()));
    assert!(!header.belongs_to(&Url::parse("http://h.test/f?token=abc&id=1").unwrap()));
    // A renewed link (row A37).
    assert!(header.belongs_to(&Url::parse("http://h.test/f?token=abd").unwrap()));
    let older = JournalHeader {
        resource: None,
        ..header.clone()
    };
    assert!(older.belongs_to(&Url::parse("http://h.test/f?token=abc").unwrap()));
    assert!(!older.belongs_to(&Url::parse("http://h.test/f?token=abd").unwrap()));
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
fn a_zone_is_known_again_by_the_name_of_its_interface() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    let url = |text: &str| haul_net::parse_url(text).unwrap();
    Journal::create(&path, &header(url("http://[fe80::1%lo]/f").as_str())).unwrap();
    for same in ["http://[fe80::1%25lo]/f", "http://[fe80::1%1]/f"] {
        assert!(load_journal(&path, &url(same)).unwrap().is_some(), "{same}");
    }
    let other = load_journal(&path, &url("http://[fe80::1%2]/f"));
    assert!(!matches!(other, Ok(Some(_))));
}

#[test]
fn a_rewritten_header_replaces_the_first_one_and_keeps_the_ranges() {
    let dir = tempfile::tempdir().unwrap();
    let (path, url) = (dir.path().join("j"), Url::parse("http://h.test/f").unwrap());
    let range = SavedRange {
        start: 0,
        end: 10,
        crc: 1,
    };
    let first = header(url.as_str());
    let mut journal = Journal::create(&path, &first).unwrap();
    journal.append(std::slice::from_ref(&range)).unwrap();
    let updated = first
        .clone()
        .with_join_evidence(JournalEvidence::Pieces)
        .with_join_evidence(JournalEvidence::Digest);
    journal.rewrite_header(&updated).unwrap();
    let loaded = load_journal(&path, &url).unwrap().unwrap();
    assert_eq!(
        (&loaded.header, &loaded.saved_ranges[..]),
        (&updated, &[range][..])
    );
    assert_eq!(loaded.header.joined, JournalEvidence::Pieces);
    assert_eq!(
        loaded.journal_length,
        std::fs::metadata(&path).unwrap().len()
    );
    // A header of another file is damage.
    journal.rewrite_header(&header("http://h.test/g")).unwrap();
    assert!(matches!(
        load_journal(&path, &url),
        Err(UnusableJournal::Damaged)
    ));
}

#[test]
fn appended_ranges_are_read_back_also_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    let url = Url::parse("http://h.test/f").unwrap();
    let range = |start| SavedRange {
        start,
        end: start + 10,
        crc: 1,
    };
    let mut journal = Journal::create(&path, &header("http://h.test/f")).unwrap();
    journal.append(&[range(0), range(10)]).unwrap();
    let loaded = load_journal(&path, &url).unwrap().unwrap();
    let mut journal = Journal::reopen(&path, loaded.journal_length).unwrap();
    journal.append(&[range(500)]).unwrap();
    let loaded = load_journal(&path, &url).unwrap().unwrap();
    assert_eq!(
        loaded.ranges().iter().collect::<Vec<_>>(),
        [0..20, 500..510]
    );
    std::fs::remove_file(&path).unwrap();
    assert!(load_journal(&path, &url).unwrap().is_none());
}

#[test]
fn ranges_outside_the_file_are_damage() {
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

    /// Whatever a byte is changed to, the line is refused or still has the same meaning.
    #[test]
    fn b3_a_changed_byte_is_detected(start in 0u64..1000, at: prop::sample::Index, mask in 1u8..) {
        let record = JournalRecord::Done(SavedRange { start, end: 1000, crc: 7 });
        let mut line = record.to_line().trim_end().as_bytes().to_vec();
        let at = at.index(line.len());
        line[at] ^= mask;
        prop_assert!(JournalRecord::from_line(&line).is_none_or(|read| read == record));
    }

    #[test]
    fn arbitrary_bytes_do_not_make_it_panic(line: Vec<u8>) {
        let _ = JournalRecord::from_line(&line);
    }
}
