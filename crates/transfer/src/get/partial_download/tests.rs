//! What a partial file that is dropped takes with it, and what it leaves.

use haul_plan::ResourceVersion;

use super::*;
use crate::journal::SavedRange;

/// A partial file of four bytes whose journal claims them if there are `spans`.
fn partial_download(dir: &Path, spans: &[SavedRange]) -> PartialDownload {
    let url = Url::parse("http://h.test/f").unwrap();
    let target = DownloadPaths::new(dir.join("f"));
    let mut partial = PartialDownload::open(
        target,
        &url,
        &GetOptions::default(),
        ExistingFilePolicy::Keep,
    )
    .unwrap();
    let header = JournalHeader::new(&url, 4, &ResourceVersion::default(), &[]);
    let mut journal = partial.open_journal(Some(&header)).unwrap().unwrap();
    partial.storage.write_at(0, &["four".into()]).unwrap();
    journal.append(spans).unwrap();
    partial
}

fn saved_range() -> SavedRange {
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
fn b1_a_partial_file_is_kept_with_saved_ranges_and_removed_without() {
    for (spans, left) in [
        (vec![saved_range()], vec!["f.haul-journal", "f.haul-part"]),
        (Vec::new(), Vec::new()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        drop(partial_download(dir.path(), &spans));
        assert_eq!(names(dir.path()), left);
    }
}

/// As without descriptors, or while a disk or file server fails. Here a directory in its place cannot be read.
#[test]
fn b4_files_are_kept_while_the_journal_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let partial = partial_download(dir.path(), &[saved_range()]);
    let (journal, moved) = (partial.paths.journal(), dir.path().join("moved"));
    std::fs::rename(&journal, &moved).unwrap();
    std::fs::create_dir(&journal).unwrap();
    drop(partial);
    std::fs::remove_dir(&journal).unwrap();
    std::fs::rename(&moved, &journal).unwrap();
    assert_eq!(names(dir.path()), ["f.haul-journal", "f.haul-part"]);
    assert_eq!(
        std::fs::read(dir.path().join("f.haul-part")).unwrap(),
        b"four"
    );
}
