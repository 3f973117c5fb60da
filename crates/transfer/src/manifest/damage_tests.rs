//! Rows B2, B3 and C6: manifests as crashes and disks leave them. Whatever lies there, no job counts as done that was not.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

use super::fixtures::{MemoryStorage, any_row, append, row, rows};
use super::format::ManifestFormat;
use super::*;
use crate::disk::PartialStorage;

const BOTH: [&str; 2] = ["m.jsonl", "m.csv"];

/// What a job is known by.
type JobName = (String, Option<String>);

fn name(row: &ManifestRow) -> JobName {
    (row.url.clone(), row.path.clone())
}

/// Rows with everything that makes a table awkward: quotation marks, commas, a path of several lines.
fn awkward() -> Vec<ManifestRow> {
    let mut rows: Vec<ManifestRow> = (0..5).map(|n| row(n, n % 2 == 0)).collect();
    rows[2].path = Some("several\nlines,\"of\" a path\r\n".into());
    rows[4].etag = Some("W/\"a,b\"".into());
    rows
}

/// The bytes of a manifest of these rows.
fn written(path: &Path, rows: &[ManifestRow]) -> Vec<u8> {
    let _ = std::fs::remove_file(path);
    drop(append(path, rows));
    std::fs::read(path).unwrap()
}

/// Which of these jobs count as done in a file of these bytes; `None` when it is refused, and then not touched.
fn done(path: &Path, bytes: &[u8], among: &[ManifestRow]) -> Option<HashSet<JobName>> {
    std::fs::write(path, bytes).unwrap();
    match Manifest::open(path) {
        Ok((_, past)) => {
            let names = among.iter().map(name);
            Some(
                names
                    .filter(|(url, path)| past.is_done(url, path.as_deref()))
                    .collect(),
            )
        }
        Err(ManifestError::NotAManifest { .. }) => {
            assert_eq!(std::fs::read(path).unwrap(), bytes);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The same without a disk, for when it is asked often.
fn done_in_memory(format: &str, bytes: &[u8], among: &[JobName]) -> Option<HashSet<JobName>> {
    let storage: Arc<dyn PartialStorage> = Arc::new(MemoryStorage(bytes.to_vec()));
    let format = ManifestFormat::from_path(Path::new(format)).unwrap();
    let past = PreviousRuns::read(&storage, format).unwrap()?.previous_runs;
    let is_done = |(url, path): &&JobName| past.is_done(url, path.as_deref());
    Some(among.iter().filter(is_done).cloned().collect())
}

fn file(dir: &tempfile::TempDir, name: &str) -> PathBuf {
    dir.path().join(name)
}

#[test]
fn c6_a_manifest_cut_anywhere_keeps_its_whole_rows_and_goes_on() {
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let (path, all) = (file(&dir, name), awkward());
        let whole = written(&path, &all);
        // Rows end where a manifest of so many does.
        let ends: Vec<usize> = (0..=all.len())
            .map(|n| written(&path, &all[..n]).len())
            .collect();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let kept = ends
                .iter()
                .filter(|end| **end <= cut)
                .count()
                .saturating_sub(1);
            let past = append(&path, &[row(9, true)]);
            let torn = cut
                - ends
                    .iter()
                    .filter(|end| **end <= cut)
                    .max()
                    .copied()
                    .unwrap_or(0);
            let expected = (torn > 0).then_some(ManifestWarning::Torn { bytes: torn as u64 });
            assert_eq!(past.warnings(), expected.as_slice(), "{name} cut at {cut}");
            drop(past);
            let expected = [&all[..kept], &[row(9, true)]].concat();
            assert_eq!(rows(&path), expected, "{name} cut at {cut}");
        }
    }
}

#[test]
fn b2_zeros_at_the_end_are_cut_off_and_elsewhere_passed_over() {
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let (path, all) = (file(&dir, name), awkward());
        let whole = written(&path, &all);
        for zeros in [1, 511, 4096, 3 << 20] {
            let bytes = [&whole[..], &vec![0; zeros]].concat();
            assert_eq!(done(&path, &bytes, &all).unwrap().len(), 3);
            assert_eq!(std::fs::read(&path).unwrap(), whole, "{name}");
            assert_eq!(done(&path, &vec![0; zeros], &all), Some(HashSet::new()));
        }
        let last = written(&path, &all[..4]).len();
        let bytes = [
            &whole[..last],
            &vec![0; 2 << 20],
            &whole[last - 30..last],
            &whole[last..],
        ]
        .concat();
        assert_eq!(done(&path, &bytes, &all).unwrap().len(), 3, "{name}");
    }
}

#[test]
fn b3_no_flipped_bit_makes_a_job_done() {
    for format in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let (path, all) = (file(&dir, format), awkward());
        // With neighbours of each, one bit away, which must not become done by it.
        let near = |n: u64| {
            let pair = |url: u64, path: u64| (row(url, true).url, row(path, true).path);
            [pair(n ^ 1, n), pair(n, n ^ 1)]
        };
        let asked: Vec<JobName> = all.iter().map(name).chain((0..5).flat_map(near)).collect();
        let whole = written(&path, &all);
        let header = written(&path, &[]).len();
        let right = done_in_memory(format, &whole, &asked).unwrap();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                let Some(found) = done_in_memory(format, &bytes, &asked) else {
                    assert!(at < header, "{format} byte {at} bit {bit}: refused");
                    continue;
                };
                assert!(
                    found.is_subset(&right),
                    "{format} byte {at} bit {bit}: {found:?}"
                );
                // Two rows at most: that of the bit, and one that lost its line's end to it; or all to a header with a
                // column less.
                let most = found.len() + 2 >= right.len() || at < header;
                assert!(most, "{format} byte {at} bit {bit}: {found:?}");
            }
        }
    }
}

#[test]
fn b3_a_quotation_mark_that_opens_by_mistake_swallows_no_other_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "m.csv");
    // So many that those behind the damage are more than are followed.
    // And without tags, whose own quotation marks would close it.
    let all: Vec<ManifestRow> = (0..2000)
        .map(|n| ManifestRow {
            etag: None,
            ..row(n, true)
        })
        .collect();
    let text = String::from_utf8(written(&path, &all)).unwrap();
    for n in [3, 700, 1998, 1999] {
        let damaged = text.replace(
            &format!(",http://h.test/{n},"),
            &format!(",\"http://h.test/{n},"),
        );
        let found = done(&path, damaged.as_bytes(), &all).unwrap();
        assert_eq!(found.len(), 1999, "{n}");
        assert!(!found.contains(&name(&all[n])));
    }
}

#[test]
fn b3_damaged_lines_are_named_and_left_as_they_are() {
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, name);
        let all: Vec<ManifestRow> = (0..30).map(|n| row(n, true)).collect();
        let text = String::from_utf8(written(&path, &all)).unwrap();
        let damaged = text.replace("http://h.test/1", "http://h.test/\"1");
        let found = done(&path, damaged.as_bytes(), &all).unwrap();
        assert_eq!(found.len(), 19, "{name}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        let (_manifest, past) = Manifest::open(&path).unwrap();
        let [warning @ ManifestWarning::Damaged { count: 11, lines }] = past.warnings() else {
            panic!("{:?}", past.warnings())
        };
        let header = u64::from(name == "m.csv");
        assert_eq!(lines[..3], [2 + header, 11 + header, 12 + header]);
        let first = 2 + header;
        assert!(warning.to_string().starts_with(&format!(
            "11 of its lines are damaged and count for nothing: {first}, "
        )));
        assert!(warning.to_string().ends_with(" and others"));
    }
}

/// A way to damage a manifest; places are shares of its length.
#[derive(Debug, Clone)]
enum InjectedManifestDamage {
    /// A byte is another.
    Set(prop::sample::Index, u8),
    /// Bytes are lost.
    Lose(prop::sample::Index, usize),
    /// Bytes are zeros, as a file system leaves what it did not write.
    Zero(prop::sample::Index, usize),
    /// Bytes stand twice.
    Repeat(prop::sample::Index, usize),
}

impl InjectedManifestDamage {
    fn done_to(&self, bytes: &mut Vec<u8>) {
        let whole = bytes.len();
        let part = |at: &prop::sample::Index, length: usize| {
            let at = at.index(whole + 1);
            at..at.saturating_add(length).min(whole)
        };
        match self {
            Self::Set(at, byte) => bytes[part(at, 1)].fill(*byte),
            Self::Lose(at, length) => drop(bytes.drain(part(at, *length))),
            Self::Zero(at, length) => bytes[part(at, *length)].fill(0),
            Self::Repeat(at, length) => {
                let part = part(at, *length);
                let twice = bytes[part.clone()].to_vec();
                bytes.splice(part.start..part.start, twice);
            }
        }
    }
}

fn any_damage() -> impl Strategy<Value = InjectedManifestDamage> {
    let place = any::<prop::sample::Index>;
    let byte = prop_oneof![any::<u8>(), prop::sample::select(&b"\",\n\r{}:\\"[..])];
    prop_oneof![
        (place(), byte).prop_map(|(at, byte)| InjectedManifestDamage::Set(at, byte)),
        (place(), 1usize..600).prop_map(|(at, length)| InjectedManifestDamage::Lose(at, length)),
        (place(), 1usize..600).prop_map(|(at, length)| InjectedManifestDamage::Zero(at, length)),
        (place(), 1usize..600).prop_map(|(at, length)| InjectedManifestDamage::Repeat(at, length)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Done is what some row said was done, whatever happens to the file; and it can be appended to.
    #[test]
    fn b3_a_damaged_manifest_makes_nothing_done(
        all in prop::collection::vec(any_row(), 1..6),
        damages in prop::collection::vec(any_damage(), 1..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        for format in BOTH {
            let path = file(&dir, format);
            let mut bytes = written(&path, &all);
            let said = |row: &&ManifestRow| row.state == RowState::Done || (row.state == RowState::Skipped && row.status == Some(304));
            let right: HashSet<JobName> = all.iter().filter(said).map(name).collect();
            damages.iter().for_each(|damage| damage.done_to(&mut bytes));
            if let Some(found) = done(&path, &bytes, &all) {
                prop_assert!(found.is_subset(&right), "{:?}", found);
                let before = rows(&path);
                drop(append(&path, &[row(9, true)]));
                let after = rows(&path);
                prop_assert!(before.iter().all(|row| after.contains(row)));
                prop_assert_eq!(after.last().map(name), Some(name(&row(9, true))));
            }
        }
    }

    #[test]
    fn b3_no_bytes_at_all_make_it_panic(bytes: Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        for format in BOTH {
            let found = done(&file(&dir, format), &bytes, &[row(0, true)]);
            prop_assert!(found.is_none_or(|found| found.is_empty()));
        }
    }
}
