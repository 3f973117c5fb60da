//! The manifest as its callers see it: rows are read back, one process has it at a time, and no other file is changed.

mod damage;
mod disk;
mod fixtures;
mod previous_runs;

use std::path::Path;

use haul_plan::DigestAlgorithm;
use proptest::prelude::*;

use self::fixtures::{any_row, append, row, rows};
use self::previous_runs::jobs_done;
use crate::archive::ShardEntryLocation;
use crate::manifest::fields::one_line;
use crate::manifest::*;

pub(super) const BOTH: [&str; 2] = ["m.jsonl", "m.csv"];

#[test]
fn c6_only_one_process_has_a_manifest_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.jsonl");
    let (manifest, previous_runs) = Manifest::open(&path).unwrap();
    let refused = Manifest::open(&path).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("another haul has {} open", path.display())
    );
    drop((manifest, previous_runs));
    assert!(Manifest::open(&path).is_ok());
}

#[test]
fn the_extension_selects_the_format() {
    let dir = tempfile::tempdir().unwrap();
    for good in ["a.jsonl", "a.ndjson", "a.JSONL", "a.csv", "a.b.Csv"] {
        assert!(Manifest::open(&dir.path().join(good)).is_ok(), "{good}");
    }
    for bad in ["a.json", "a", "csv", ".csv", "a.csv.gz"] {
        let error = Manifest::open(&dir.path().join(bad))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(".jsonl") && error.contains(".csv"),
            "{error}"
        );
        assert!(!dir.path().join(bad).exists());
    }
    std::fs::create_dir(dir.path().join("d.csv")).unwrap();
    let error = Manifest::open(&dir.path().join("d.csv")).unwrap_err();
    assert!(
        matches!(error, ManifestError::NotARegularFile { .. }),
        "{error}"
    );
}

#[test]
fn a_file_that_is_not_a_manifest_is_refused_and_not_changed() {
    let list = "{\"url\":\"http://h.test/1\",\"path\":\"p\"}";
    let states = "{\"state\":\"done\",\"title\":\"tidy up\"}\n{\"state\":\"CA\",\"url\":\"http://h.test\"}\n";
    let table = "state,url,path\ndone,http://h.test/1,p\n";
    let objects = [
        list,
        "{\"a\":1}\n{\"b\":2}\n",
        "[1,2]",
        "{\"state\":\"CA\"}",
        states,
        "text\n",
        "\n\n",
        "\0\0x\n",
        table,
    ];
    let tables = [
        "a,b\n1,2\n",
        "url,path\nhttp://h.test/1,p\n",
        "url",
        "state,url,path,check,url\n",
        table,
        "\n",
        "\0\n",
        list,
        "\"state,url",
    ];
    let files = objects
        .map(|text| ("m.jsonl", text))
        .into_iter()
        .chain(tables.map(|text| ("m.csv", text)));
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let error = Manifest::open(&path).expect_err(text);
        assert!(
            matches!(error, ManifestError::NotAManifest { .. }),
            "{error}: {text:?}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn unknown_columns_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.csv");
    drop(append(&path, &[row(0, true)]));
    // A newer haul or a spreadsheet may have changed the order of columns, added one, removed two, and written CRLF and
    // a byte order mark.
    let text = std::fs::read_to_string(&path).unwrap();
    let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut lines = text.lines().map(fields);
    let (header, first) = (lines.next().unwrap(), lines.next().unwrap());
    let reordered = |fields: &[String], new: &str| {
        let left: Vec<&str> = fields.iter().rev().map(String::as_str).collect();
        format!(
            "{},{new},{}\r\n",
            left[..3].join(","),
            left[3..]
                .iter()
                .filter(|f| !f.contains("ms_"))
                .copied()
                .collect::<Vec<_>>()
                .join(",")
        )
    };
    let drop_ms: Vec<String> = first
        .iter()
        .enumerate()
        .filter(|(at, _)| !header[*at].starts_with("ms_"))
        .map(|(_, f)| f.clone())
        .collect();
    std::fs::write(
        &path,
        format!(
            "\u{feff}{}{}",
            reordered(&header, "mine"),
            reordered(&drop_ms, "kept")
        ),
    )
    .unwrap();
    let previous_runs = append(&path, &[row(1, true)]);
    assert_eq!(jobs_done(&previous_runs, 3), [0]);
    drop(previous_runs);
    let (_manifest, previous_runs) = Manifest::open(&path).unwrap();
    assert_eq!(jobs_done(&previous_runs, 3), [0, 1]);
    assert_eq!(
        previous_runs
            .done_row("http://h.test/0", Some("d/0"))
            .and_then(|row| row.etag)
            .as_deref(),
        Some("\"v0\"")
    );
    assert!(
        previous_runs.warnings().is_empty(),
        "{:?}",
        previous_runs.warnings()
    );
    assert!(std::fs::read_to_string(&path).unwrap().contains(",kept,"));
}

#[test]
fn unknown_keys_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.jsonl");
    drop(append(&path, &[row(0, true)]));
    let text = std::fs::read_to_string(&path).unwrap();
    let more = text
        .replacen('{', "{ \"mine\": [1, {}], ", 1)
        .replace("\n", "\r\n");
    std::fs::write(&path, format!("\u{feff}{more}")).unwrap();
    assert_eq!(jobs_done(&append(&path, &[row(1, true)]), 3), [0]);
    assert_eq!(rows(&path), [row(0, true), row(1, true)]);
}

#[test]
fn a_changed_row_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    for name in BOTH {
        let path = dir.path().join(name);
        drop(append(&path, &[row(0, true), row(1, false), row(2, true)]));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("failed", "done")).unwrap();
        let (_manifest, previous_runs) = Manifest::open(&path).unwrap();
        assert_eq!(jobs_done(&previous_runs, 3), [0, 2]);
        let line = if name == "m.csv" { 3 } else { 2 };
        assert_eq!(
            previous_runs.warnings(),
            [ManifestWarning::Damaged {
                count: 1,
                lines: vec![line]
            }]
        );
    }
}

#[test]
fn f38_both_formats_have_every_digest() {
    let checksum = |algorithm: DigestAlgorithm| (algorithm, "0f".repeat(algorithm.digest_len()));
    let mut all = Vec::new();
    for n in 0..DigestAlgorithm::ALL.len() {
        // Each is first once: the others have another column.
        let mut checksums = DigestAlgorithm::ALL.map(checksum).to_vec();
        checksums.rotate_left(n);
        all.push(ManifestRow {
            checksums,
            ..row(n as u64, true)
        });
    }
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        assert_eq!(round_trip(&path, std::slice::from_ref(&all)), all, "{name}");
    }
}

#[test]
fn every_column_has_its_value_in_both_formats() {
    let placed = ManifestRow {
        shard: Some(ShardEntryLocation {
            shard: "t.tar".into(),
            offset: 512,
            end: 1536,
        }),
        checksums: vec![(DigestAlgorithm::Md5, "0f".into()); 2],
        etag: Some("\"v3\"".into()),
        ..row(3, false)
    };
    let dir = tempfile::tempdir().unwrap();
    for name in BOTH {
        let path = dir.path().join(name);
        let read = round_trip(&path, &[vec![placed.clone()]]);
        assert_eq!(read, std::slice::from_ref(&placed));
    }
    let object = serde_json::to_value(placed.fields()).unwrap();
    for column in &COLUMNS {
        let value = match column.name.strip_prefix("ms_") {
            Some(key) => &object["ms"][key],
            None => &object[column.name],
        };
        assert!(!value.is_null(), "{}", column.name);
    }
}

#[test]
fn the_check_covers_exactly_the_fields_that_a_later_run_acts_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.jsonl");
    drop(append(&path, &[row(0, true)]));
    let text = std::fs::read_to_string(&path).unwrap();
    let original: serde_json::Value = serde_json::from_str(&text).unwrap();
    let counts_with = |key: &str, value: serde_json::Value| {
        let mut changed = original.clone();
        assert_ne!(changed[key], value, "{key}");
        changed[key] = value;
        std::fs::write(&path, format!("{changed}\n")).unwrap();
        let opened = Manifest::open(&path);
        opened.is_ok_and(|(_, previous_runs)| previous_runs.done_count() == 1)
    };
    // A user may delete a column of times or correct a line number without having to download again.
    for key in ["line", "attempts"] {
        assert!(counts_with(key, 77.into()), "{key}");
    }
    assert!(counts_with("ms", serde_json::json!({})));
    assert!(counts_with("error", "x".into()));
    for key in ["url", "path", "state", "etag", "shard"] {
        assert!(!counts_with(key, "done or not".into()), "{key}");
    }
    for key in ["status", "bytes", "offset", "end"] {
        assert!(!counts_with(key, 77.into()), "{key}");
    }
}

#[test]
fn texts_of_peers_are_written_as_one_line() {
    let dir = tempfile::tempdir().unwrap();
    for name in BOTH {
        let path = dir.path().join(name);
        let mut bad = row(0, false);
        bad.error.as_mut().unwrap().text = "so\r\ndone,http://h.test/1,d/1\u{85}".into();
        drop(append(&path, &[bad]));
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert_eq!(lines, if name == "m.csv" { 2 } else { 1 });
        assert_eq!(
            rows(&path)[0].error.as_ref().unwrap().text,
            "so  done,http://h.test/1,d/1 "
        );
    }
}

#[test]
fn a_row_that_is_too_long_costs_only_its_own_job() {
    let dir = tempfile::tempdir().unwrap();
    for name in BOTH {
        let path = dir.path().join(name);
        let long = ManifestRow {
            etag: Some("x".repeat(3 << 20)),
            ..row(1, true)
        };
        drop(append(&path, &[row(0, true), long, row(2, true)]));
        let (_manifest, previous_runs) = Manifest::open(&path).unwrap();
        assert_eq!(jobs_done(&previous_runs, 3), [0, 2]);
        assert!(matches!(
            previous_runs.warnings(),
            [ManifestWarning::Damaged { count: 1, .. }]
        ));
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_a_manifest_leads_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("real.csv"), dir.path().join("link.csv"));
    std::os::unix::fs::symlink("real.csv", &link).unwrap();
    drop(append(&link, &[row(0, true)]));
    assert_eq!(rows(&path), [row(0, true)]);
}

#[test]
#[ignore = "a measurement, of use with --release alone"]
#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
fn c1_a_million_rows_are_appended_and_read_back_in_seconds() {
    for name in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let begin = std::time::Instant::now();
        let (mut manifest, previous_runs) = Manifest::open(&path).unwrap();
        for n in 0..1_000_000 {
            manifest.append(&[row(n, n % 100 != 0)]).unwrap();
        }
        manifest.sync().unwrap();
        let written = begin.elapsed();
        drop((manifest, previous_runs));
        let (_manifest, previous_runs) = Manifest::open(&path).unwrap();
        let read = begin.elapsed() - written;
        assert_eq!(previous_runs.done_count(), 990_000);
        assert!(
            written.as_secs() < 2 && read.as_secs() < 3,
            "{name}: {written:?} {read:?}"
        );
    }
}

/// A row as it is read back: each text is one line.
pub(super) fn as_read(row: &ManifestRow) -> ManifestRow {
    let mut row = row.clone();
    let texts = [
        Some(&mut row.url),
        row.path.as_mut(),
        row.etag.as_mut(),
        row.error.as_mut().map(|error| &mut error.text),
        row.shard.as_mut().map(|location| &mut location.shard),
    ];
    for text in texts.into_iter().flatten() {
        *text = one_line(text).into_owned();
    }
    row
}

fn round_trip(path: &Path, groups: &[Vec<ManifestRow>]) -> Vec<ManifestRow> {
    for group in groups {
        drop(append(path, group));
    }
    rows(path)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_rows_are_read_back_as_they_were_written(
        groups in prop::collection::vec(prop::collection::vec(any_row(), 0..4), 1..3),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let expected: Vec<ManifestRow> = groups.iter().flatten().map(as_read).collect();
        for name in BOTH {
            prop_assert_eq!(&round_trip(&dir.path().join(name), &groups), &expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// A kill keeps written bytes and loses others. (The test starts no child process to kill: a child that is being
    /// started holds the locks of all other tests.)
    #[test]
    fn c6_a_kill_at_any_moment_loses_no_synced_row(
        runs in prop::collection::vec(prop::collection::vec((0usize..40, any::<bool>()), 0..5), 1..5),
    ) {
        let dir = tempfile::tempdir().unwrap();
        for name in BOTH {
            let path = dir.path().join(name);
            let (mut tried, mut synced) = (0, 0);
            for run in &runs {
                let (mut manifest, previous_runs) = Manifest::open(&path).unwrap();
                prop_assert!((synced..=tried).contains(&previous_runs.done_count()), "{} of {synced} to {tried}", previous_runs.done_count());
                prop_assert_eq!(jobs_done(&previous_runs, tried).len() as u64, previous_runs.done_count(), "not the first of them");
                prop_assert!((0..previous_runs.done_count()).all(|n| jobs_done(&previous_runs, n + 1).contains(&n)));
                tried = previous_runs.done_count();
                for (count, sync) in run {
                    // Large rows, so that some are written before they are synced.
                    let large = |n| ManifestRow { checksums: vec![(DigestAlgorithm::Md5, "0".repeat(20_000)); 1], ..row(n, true) };
                    let more: Vec<ManifestRow> = (tried..tried + *count as u64).map(large).collect();
                    manifest.append(&more).unwrap();
                    tried += *count as u64;
                    if *sync {
                        manifest.sync().unwrap();
                        synced = tried;
                    }
                }
            }
        }
    }
}
