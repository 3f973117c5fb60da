//! What a partial file that is dropped takes with it, and what it leaves.

use haul_plan::ResourceVersion;

use super::*;
use crate::journal::SavedRange;

/// A partial file of four bytes whose journal claims them if there are `spans`.
fn held(dir: &Path, spans: &[SavedRange]) -> PartialDownload {
    let url = Url::parse("http://h.test/f").unwrap();
    let target = DownloadPaths::new(dir.join("f"));
    let mut partial = PartialDownload::open(target, &url, &GetOptions::default()).unwrap();
    let header = JournalHeader::new(&url, 4, &ResourceVersion::default(), &[]);
    let mut journal = partial.open_journal(Some(&header)).unwrap().unwrap();
    partial.storage.write_at(0, &["four".into()]).unwrap();
    journal.append(spans).unwrap();
    partial
}

fn claimed() -> SavedRange {
    SavedRange {
        start: 0,
        end: 4,
        crc: crate::checksum::crc32c(b"four"),
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn b1_claimed_bytes_stay_and_useless_ones_go() {
    for (spans, left) in [
        (vec![claimed()], vec!["f.haul-journal", "f.haul-part"]),
        (Vec::new(), Vec::new()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        drop(held(dir.path(), &spans));
        assert_eq!(names(dir.path()), left);
    }
}

/// For want of a descriptor, or when a disk or a file server is ill. A directory in its place is as unreadable.
#[test]
fn b4_a_journal_that_cannot_be_read_just_now_is_no_reason_to_throw_bytes_away() {
    let dir = tempfile::tempdir().unwrap();
    let partial = held(dir.path(), &[claimed()]);
    let (journal, away) = (partial.paths.journal(), dir.path().join("away"));
    std::fs::rename(&journal, &away).unwrap();
    std::fs::create_dir(&journal).unwrap();
    drop(partial);
    std::fs::remove_dir(&journal).unwrap();
    std::fs::rename(&away, &journal).unwrap();
    assert_eq!(names(dir.path()), ["f.haul-journal", "f.haul-part"]);
    assert_eq!(
        std::fs::read(dir.path().join("f.haul-part")).unwrap(),
        b"four"
    );
}
