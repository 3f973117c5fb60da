//! Rows B2, B3 and C6: manifests that crashes and disks have damaged. Whatever the file contains, no job counts as done
//! that was not.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

use super::fixtures::{MemoryStorage, any_row, append, row, rows};
use super::{BOTH, as_read};
use crate::disk::PartialStorage;
use crate::manifest::format::ManifestFormat;
use crate::manifest::*;

/// The key of a job: URL and path.
type JobKey = (String, Option<String>);

fn name(row: &ManifestRow) -> JobKey {
    (row.url.clone(), row.path.clone())
}

/// Rows that are hard to write as CSV: quotation marks and commas.
fn rows_hard_to_quote() -> Vec<ManifestRow> {
    let mut rows: Vec<ManifestRow> = (0..5).map(|n| row(n, n % 2 == 0)).collect();
    rows[2].path = Some("commas,\"quotation marks\" in a path".into());
    rows[4].etag = Some("W/\"a,b\"".into());
    rows
}

fn manifest_bytes(path: &Path, rows: &[ManifestRow]) -> Vec<u8> {
    let _ = std::fs::remove_file(path);
    drop(append(path, rows));
    std::fs::read(path).unwrap()
}

/// Opens a manifest of these bytes and returns which of these jobs count as done; `None` when the file is refused, and
/// then it must not have changed.
fn done(path: &Path, bytes: &[u8], among: &[ManifestRow]) -> Option<HashSet<JobKey>> {
    std::fs::write(path, bytes).unwrap();
    match Manifest::open(path) {
        Ok((_, previous_runs)) => {
            let names = among.iter().map(name);
            Some(
                names
                    .filter(|(url, path)| previous_runs.is_done(url, path.as_deref()))
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

/// The same without a disk, for a test that calls it often.
fn done_in_memory(format: &str, bytes: &[u8], among: &[JobKey]) -> Option<HashSet<JobKey>> {
    let storage: Arc<dyn PartialStorage> = Arc::new(MemoryStorage(bytes.to_vec()));
    let format = ManifestFormat::from_path(Path::new(format)).unwrap();
    let previous_runs = PreviousRuns::read(&storage, format).unwrap()?.previous_runs;
    let is_done = |(url, path): &&JobKey| previous_runs.is_done(url, path.as_deref());
    Some(among.iter().filter(is_done).cloned().collect())
}

fn file(dir: &tempfile::TempDir, name: &str) -> PathBuf {
    dir.path().join(name)
}

#[test]
fn c6_a_manifest_cut_anywhere_keeps_its_complete_rows() {
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let (path, all) = (file(&dir, name), rows_hard_to_quote());
        let whole = manifest_bytes(&path, &all);
        // Where rows end: the length of a manifest of the first `n` rows.
        let ends: Vec<usize> = (0..=all.len())
            .map(|n| manifest_bytes(&path, &all[..n]).len())
            .collect();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let kept = ends
                .iter()
                .filter(|end| **end <= cut)
                .count()
                .saturating_sub(1);
            let previous_runs = append(&path, &[row(9, true)]);
            let torn = cut
                - ends
                    .iter()
                    .filter(|end| **end <= cut)
                    .max()
                    .copied()
                    .unwrap_or(0);
            let expected = (torn > 0).then_some(ManifestWarning::Torn { bytes: torn as u64 });
            assert_eq!(
                previous_runs.warnings(),
                expected.as_slice(),
                "{name} cut at {cut}"
            );
            drop(previous_runs);
            let expected = [&all[..kept], &[row(9, true)]].concat();
            assert_eq!(rows(&path), expected, "{name} cut at {cut}");
        }
    }
}

#[test]
fn b2_zeros_are_cut_off_at_the_end_and_ignored_elsewhere() {
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let (path, all) = (file(&dir, name), rows_hard_to_quote());
        let whole = manifest_bytes(&path, &all);
        for zeros in [1, 511, 4096, 3 << 20] {
            let bytes = [&whole[..], &vec![0; zeros]].concat();
            assert_eq!(done(&path, &bytes, &all).unwrap().len(), 3);
            assert_eq!(std::fs::read(&path).unwrap(), whole, "{name}");
            assert_eq!(done(&path, &vec![0; zeros], &all), Some(HashSet::new()));
        }
        let last = manifest_bytes(&path, &all[..4]).len();
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
        let (path, all) = (file(&dir, format), rows_hard_to_quote());
        // Also asks for URLs and paths that differ by one bit, which the damage must not make done.
        let near = |n: u64| {
            let pair = |url: u64, path: u64| (row(url, true).url, row(path, true).path);
            [pair(n ^ 1, n), pair(n, n ^ 1)]
        };
        let queried: Vec<JobKey> = all.iter().map(name).chain((0..5).flat_map(near)).collect();
        let whole = manifest_bytes(&path, &all);
        let header = manifest_bytes(&path, &[]).len();
        let right = done_in_memory(format, &whole, &queried).unwrap();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                let Some(found) = done_in_memory(format, &bytes, &queried) else {
                    assert!(at < header, "{format} byte {at} bit {bit}: refused");
                    continue;
                };
                assert!(
                    found.is_subset(&right),
                    "{format} byte {at} bit {bit}: {found:?}"
                );
                // At most two rows are lost: the one with the flipped bit, and one whose newline it was. A damaged
                // header may cost a column and so all rows.
                let most = found.len() + 2 >= right.len() || at < header;
                assert!(most, "{format} byte {at} bit {bit}: {found:?}");
            }
        }
    }
}

#[test]
fn b3_a_stray_quotation_mark_costs_one_row_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "m.csv");
    // The rows have no tags, because the quotation marks of a tag would close the open one.
    let all: Vec<ManifestRow> = (0..2000)
        .map(|n| ManifestRow {
            etag: None,
            ..row(n, true)
        })
        .collect();
    let text = String::from_utf8(manifest_bytes(&path, &all)).unwrap();
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
fn b3_damaged_lines_are_reported_and_not_changed() {
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, name);
        let all: Vec<ManifestRow> = (0..30).map(|n| row(n, true)).collect();
        let text = String::from_utf8(manifest_bytes(&path, &all)).unwrap();
        let damaged = text.replace("http://h.test/1", "http://h.test/\"1");
        let found = done(&path, damaged.as_bytes(), &all).unwrap();
        assert_eq!(found.len(), 19, "{name}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
        let (_manifest, previous_runs) = Manifest::open(&path).unwrap();
        let [warning @ ManifestWarning::Damaged { count: 11, lines }] = previous_runs.warnings()
        else {
            panic!("{:?}", previous_runs.warnings())
        };
        let header = u64::from(name == "m.csv");
        assert_eq!(lines[..3], [2 + header, 11 + header, 12 + header]);
        let first = 2 + header;
        assert!(warning.to_string().starts_with(&format!(
            "11 of its lines are damaged and are ignored: {first}, "
        )));
        assert!(warning.to_string().ends_with(" and others"));
    }
}

/// Damage to a manifest. Positions are relative to its length.
#[derive(Debug, Clone)]
enum InjectedManifestDamage {
    /// One byte changes.
    Set(prop::sample::Index, u8),
    /// Bytes are missing.
    Lose(prop::sample::Index, usize),
    /// Bytes are zeros, as after an unfinished write.
    Zero(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
}

impl InjectedManifestDamage {
    fn apply(&self, bytes: &mut Vec<u8>) {
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

    /// A job is done only if a row said so before the damage, and the damaged file can be appended to.
    #[test]
    fn b3_no_damage_makes_a_job_done(
        all in prop::collection::vec(any_row(), 1..6),
        damages in prop::collection::vec(any_damage(), 1..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let all: Vec<ManifestRow> = all.iter().map(as_read).collect();
        for format in BOTH {
            let path = file(&dir, format);
            let mut bytes = manifest_bytes(&path, &all);
            let was_done = |row: &&ManifestRow| row.state == JobRowState::Done || (row.state == JobRowState::Skipped && row.status == Some(304));
            let right: HashSet<JobKey> = all.iter().filter(was_done).map(name).collect();
            damages.iter().for_each(|damage| damage.apply(&mut bytes));
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
    fn b3_no_bytes_cause_a_panic(bytes: Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        for format in BOTH {
            let found = done(&file(&dir, format), &bytes, &[row(0, true)]);
            prop_assert!(found.is_none_or(|found| found.is_empty()));
        }
    }
}
