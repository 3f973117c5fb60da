//! Tests of the merge and its decisions, among them against sets in memory.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::comparison::{SyncComparison, SyncDecision, SyncEntry, SyncOptions};
use super::merge_decisions::{SyncMerge, SyncMergeError, SyncSide};

type Row = Result<SyncEntry, &'static str>;

fn entry(key: &str, size: u64, seconds: u64) -> SyncEntry {
    SyncEntry {
        key: key.into(),
        size,
        modified: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
        entity_tag: None,
        is_unread: false,
    }
}

fn merge(
    options: &SyncOptions,
    source: &[Row],
    destination: &[Row],
) -> Vec<Result<SyncDecision, SyncMergeError<&'static str>>> {
    let (source, destination) = (source.to_vec(), destination.to_vec());
    SyncMerge::new(options.clone(), source.into_iter(), destination.into_iter()).collect()
}

/// The decision about a key that both sides have.
fn decide(options: &SyncOptions, source: &SyncEntry, destination: &SyncEntry) -> SyncDecision {
    let mut decisions = merge(options, &[Ok(source.clone())], &[Ok(destination.clone())]);
    assert_eq!(decisions.len(), 1);
    decisions.remove(0).unwrap()
}

fn with_deletes(max_deletes: u64) -> SyncOptions {
    SyncOptions {
        max_deletes: Some(max_deletes),
        ..SyncOptions::default()
    }
}

#[test]
fn another_size_or_a_newer_source_is_copied() {
    let options = SyncOptions::default();
    let old = entry("a", 1, 10);
    for (source, is_copied) in [
        (entry("a", 1, 10), false),
        (entry("a", 1, 9), false),
        (entry("a", 1, 11), true),
        (entry("a", 2, 9), true),
    ] {
        let expected = if is_copied {
            SyncDecision::Copy(source.clone())
        } else {
            SyncDecision::Keep
        };
        assert_eq!(decide(&options, &source, &old), expected, "{source:?}");
    }
}

#[test]
fn the_same_tag_is_the_same_version_and_another_one_says_nothing() {
    let tagged = |tag: &str, size, seconds| SyncEntry {
        entity_tag: Some(tag.to_owned()),
        ..entry("a", size, seconds)
    };
    let options = SyncOptions::default();
    let destination = tagged("t", 1, 10);
    for (source, is_copied) in [
        (tagged("t", 1, 11), false),
        (tagged("u", 1, 11), true),
        (tagged("u", 1, 8), false),
        (tagged("t", 2, 9), true),
    ] {
        let decision = decide(&options, &source, &destination);
        assert_eq!(decision != SyncDecision::Keep, is_copied, "{source:?}");
    }
}

#[test]
fn fractions_of_a_second_are_no_difference_and_unknown_times_are_one() {
    let options = SyncOptions::default();
    let whole = entry("a", 1, 10);
    let later = |nanos| SyncEntry {
        modified: whole
            .modified
            .map(|time| time + Duration::from_nanos(nanos)),
        ..whole.clone()
    };
    assert_eq!(
        decide(&options, &later(999_999_999), &whole),
        SyncDecision::Keep
    );
    let newer = later(1_000_000_000);
    assert_eq!(
        decide(&options, &newer, &whole),
        SyncDecision::Copy(newer.clone())
    );
    let unknown = SyncEntry {
        modified: None,
        ..whole.clone()
    };
    assert_eq!(
        decide(&options, &whole, &unknown),
        SyncDecision::Copy(whole.clone())
    );
    assert_eq!(
        decide(&options, &unknown, &whole),
        SyncDecision::Copy(unknown.clone())
    );
}

#[test]
fn a_change_in_the_second_of_the_upload_is_found_by_content() {
    let object = SyncEntry {
        entity_tag: Some("t".to_owned()),
        ..entry("a", 1, 10)
    };
    let options = SyncOptions::default();
    for seconds in [9, 10] {
        let source = entry("a", 1, seconds);
        let compare = SyncDecision::CompareContent {
            source: source.clone(),
            destination: object.clone(),
        };
        assert_eq!(decide(&options, &source, &object), compare);
    }
    let old = entry("a", 1, 8);
    assert_eq!(decide(&options, &old, &object), SyncDecision::Keep);
    // A downloaded file without extended attributes has the time of its object.
    assert_eq!(
        decide(&options, &object, &entry("a", 1, 10)),
        SyncDecision::Keep
    );
}

#[test]
fn times_before_1970_are_in_order() {
    let at = |millis| SyncEntry {
        modified: Some(SystemTime::UNIX_EPOCH - Duration::from_millis(millis)),
        ..entry("a", 1, 0)
    };
    let options = SyncOptions::default();
    assert_eq!(decide(&options, &at(2500), &at(3000)), SyncDecision::Keep);
    let newer = at(500);
    assert_eq!(
        decide(&options, &newer, &at(1500)),
        SyncDecision::Copy(newer.clone())
    );
}

#[test]
fn contents_are_compared_only_where_sizes_are_the_same() {
    let options = SyncOptions {
        comparison: SyncComparison::Content,
        ..SyncOptions::default()
    };
    let (source, destination) = (entry("a", 1, 9), entry("a", 1, 10));
    let compare = SyncDecision::CompareContent {
        source: source.clone(),
        destination: destination.clone(),
    };
    assert_eq!(decide(&options, &source, &destination), compare);
    let larger = entry("a", 2, 9);
    assert_eq!(
        decide(&options, &larger, &destination),
        SyncDecision::Copy(larger.clone())
    );
}

#[test]
fn options_keep_what_they_name() {
    let (source, newer) = (entry("a", 1, 10), entry("a", 2, 11));
    let keep_newer = SyncOptions {
        keep_newer: true,
        ..SyncOptions::default()
    };
    assert_eq!(decide(&keep_newer, &source, &newer), SyncDecision::Keep);
    assert_eq!(
        decide(&keep_newer, &newer, &source),
        SyncDecision::Copy(newer.clone())
    );
    let ignore_existing = SyncOptions {
        ignore_existing: true,
        ..SyncOptions::default()
    };
    assert_eq!(
        decide(&ignore_existing, &newer, &source),
        SyncDecision::Keep
    );
    let existing_only = SyncOptions {
        existing_only: true,
        ..SyncOptions::default()
    };
    assert_eq!(
        merge(&existing_only, &[Ok(source.clone())], &[]),
        [Ok(SyncDecision::Keep)]
    );
    assert_eq!(
        decide(&existing_only, &newer, &source),
        SyncDecision::Copy(newer.clone())
    );
}

#[test]
fn a_source_whose_list_fails_deletes_nothing_that_it_may_have() {
    let extra = [Ok(entry("a", 1, 1)), Ok(entry("c", 1, 1))];
    let source = [Ok(entry("b", 1, 1)), Err("lost")];
    assert_eq!(
        merge(&with_deletes(u64::MAX), &source, &extra),
        [
            Ok(SyncDecision::Delete(entry("a", 1, 1))),
            Ok(SyncDecision::Create(entry("b", 1, 1))),
            Err(SyncMergeError::List("lost")),
        ]
    );
    assert_eq!(
        merge(&with_deletes(u64::MAX), &[Err("lost")], &extra),
        [Err(SyncMergeError::List("lost"))]
    );
}

#[test]
fn what_lies_below_a_folder_that_was_not_read_is_kept() {
    let unread = |key| SyncEntry {
        is_unread: true,
        ..entry(key, 0, 0)
    };
    let link = unread("data/");
    let source = [
        Ok(unread("data-2/")),
        Ok(link.clone()),
        Ok(entry("e", 1, 1)),
    ];
    let keys = [
        "data", "data-2/x", "data/", "data/x", "data/y/z", "data0", "e",
    ];
    let destination = keys.map(|key| Ok(entry(key, 1, 1)));
    let decisions = merge(&with_deletes(2), &source, &destination);
    let deleted: Vec<_> = decisions
        .iter()
        .filter_map(|decision| match decision {
            Ok(SyncDecision::Delete(entry)) => Some(entry.key.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(deleted, ["data", "data0"]);
    assert!(decisions.contains(&Ok(SyncDecision::LeaveOut(link.clone()))));
    // A link of the destination is not a file to delete.
    assert_eq!(
        merge(&with_deletes(9), &[], &[Ok(link)]),
        [Ok(SyncDecision::Keep)]
    );
}

#[test]
fn f31_nothing_is_copied_behind_a_link_of_the_destination() {
    let unread = |key| SyncEntry {
        is_unread: true,
        ..entry(key, 0, 0)
    };
    let source = ["a", "link/x", "link/y/z", "link0", "other"].map(|key| Ok(entry(key, 0, 0)));
    let destination = [Ok(unread("link/")), Ok(unread("other"))];
    let behind = |key| {
        Ok(SyncDecision::BehindLink {
            source: entry(key, 0, 0),
            link: "link/".into(),
        })
    };
    let copy = |key| Ok(SyncDecision::Create(entry(key, 0, 0)));
    assert_eq!(
        merge(&with_deletes(9), &source, &destination),
        [
            copy("a"),
            Ok(SyncDecision::Keep),
            behind("link/x"),
            behind("link/y/z"),
            copy("link0"),
            // Only files are compared with files.
            Ok(SyncDecision::Copy(entry("other", 0, 0))),
        ]
    );
    let existing = SyncOptions {
        existing_only: true,
        ..SyncOptions::default()
    };
    let behind = merge(&existing, &source[1..3], &destination[..1]);
    assert_eq!(behind, [const { Ok(SyncDecision::Keep) }; 3]);
}

#[test]
fn a_list_out_of_order_ends_the_sync() {
    for second in ["b", "a"] {
        let rows = [Ok(entry("b", 1, 1)), Ok(entry(second, 1, 1))];
        let error = |side| SyncMergeError::Disordered {
            side,
            key: second.into(),
        };
        let last = merge(&with_deletes(9), &rows, &[]).pop();
        assert_eq!(last, Some(Err(error(SyncSide::Source))));
        let last = merge(&with_deletes(9), &[], &rows).pop();
        assert_eq!(last, Some(Err(error(SyncSide::Destination))));
    }
}

fn tree() -> impl Strategy<Value = BTreeMap<String, (u64, u64)>> {
    proptest::collection::btree_map("[ab/!é]{1,3}", (0..2_u64, 0..3_u64), 0..20)
}

fn rows(tree: &BTreeMap<String, (u64, u64)>) -> Vec<Row> {
    let entries = tree
        .iter()
        .map(|(key, (size, time))| Ok(entry(key, *size, *time)));
    entries.collect()
}

proptest! {
    #[test]
    fn a_sync_with_deletes_makes_the_same_keys_and_sizes(source in tree(), destination in tree()) {
        let mut result = destination.clone();
        for decision in merge(&with_deletes(u64::MAX), &rows(&source), &rows(&destination)) {
            match decision.unwrap() {
                SyncDecision::Create(copied) => {
                    prop_assert!(!destination.contains_key(&copied.key));
                    result.insert(copied.key, (copied.size, u64::from(u32::MAX)));
                }
                SyncDecision::Copy(copied) => {
                    prop_assert!(destination.contains_key(&copied.key));
                    // A copy is as new as anything can be.
                    result.insert(copied.key, (copied.size, u64::from(u32::MAX)));
                }
                SyncDecision::Delete(extra) => {
                    prop_assert!(!source.contains_key(&extra.key));
                    prop_assert!(result.remove(&extra.key).is_some());
                }
                SyncDecision::Keep => {}
                other => prop_assert!(false, "{:?}", other),
            }
        }
        let sizes = |tree: &BTreeMap<String, (u64, u64)>| -> Vec<(String, u64)> {
            tree.iter().map(|(key, (size, _))| (key.clone(), *size)).collect()
        };
        prop_assert_eq!(sizes(&result), sizes(&source));
        // A second sync has nothing to do.
        for decision in merge(&with_deletes(u64::MAX), &rows(&source), &rows(&result)) {
            prop_assert_eq!(decision.unwrap(), SyncDecision::Keep);
        }
    }

    #[test]
    fn no_more_is_deleted_than_allowed(source in tree(), destination in tree(), most in 0..5_u64) {
        let extra = destination.keys().filter(|key| !source.contains_key(*key)).count() as u64;
        let decisions = merge(&with_deletes(most), &rows(&source), &rows(&destination));
        let count = |is_counted: fn(&SyncDecision) -> bool| {
            decisions.iter().flatten().filter(|decision| is_counted(decision)).count() as u64
        };
        let deleted = count(|decision| matches!(decision, SyncDecision::Delete(_)));
        prop_assert_eq!(deleted, extra.min(most));
        let refused = count(|decision| matches!(decision, SyncDecision::DeleteRefused(_)));
        prop_assert_eq!(refused, extra - deleted);
        for decision in merge(&SyncOptions::default(), &rows(&source), &rows(&destination)) {
            let decision = decision.unwrap();
            prop_assert!(matches!(decision, SyncDecision::Create(_) | SyncDecision::Copy(_) | SyncDecision::Keep));
        }
    }
}
