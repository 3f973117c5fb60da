//! Ranges as clients write them, and compared with a model.

use super::*;
use http::HeaderValue;
use proptest::prelude::*;

fn select(value: &str, len: u64) -> RangeSelection {
    select_ranges_of_value(value.as_bytes(), len, &RangeLimits::default())
}

fn multiple(ranges: &[Range<u64>]) -> RangeSelection {
    RangeSelection::Multiple(ranges.to_vec())
}

#[test]
fn d7_single_open_and_suffix() {
    for (value, range) in [
        ("bytes=0-499", 0..500),
        ("bytes=0-0", 0..1),
        ("bytes=999-999", 999..1000),
        ("bytes=500-5000", 500..1000),
        ("bytes=500-", 500..1000),
        ("bytes=-1", 999..1000),
        ("bytes=-1000", 0..1000),
        ("bytes=-5000", 0..1000),
        ("BYTES=0-", 0..1000),
        ("bytes=,, 7-8 ,", 7..9),
        ("bytes=0007-0008", 7..9),
    ] {
        assert_eq!(
            select(value, 1000),
            RangeSelection::Single(range),
            "{value}"
        );
    }
}

#[test]
fn d7_a_range_that_does_not_exist_is_refused_alone_and_dropped_among_others() {
    for value in [
        "bytes=1000-",
        "bytes=1000-1001",
        "bytes=-0",
        "bytes=-0,2000-",
    ] {
        assert_eq!(
            select(value, 1000),
            RangeSelection::Unsatisfiable,
            "{value}"
        );
    }
    assert_eq!(
        select("bytes=2000-,3-4,-0", 1000),
        RangeSelection::Single(3..5)
    );
    assert_eq!(
        select("bytes=3-4,2000-,9-9", 1000),
        multiple(&[3..5, 9..10])
    );
}

#[test]
fn d7_malformed_and_other_units_are_ignored() {
    for value in [
        "",
        "bytes",
        "bytes=",
        "bytes=,",
        "bytes=-",
        "bytes=5-4",
        "bytes=1",
        "bytes=a-b",
        "bytes=1-2-3",
        "bytes=--1",
        "bytes=+1-2",
        "bytes=1 - 2",
        "bytes=0x1-2",
        "bytes =1-2",
        "bytes:1-2",
        "lines=1-2",
        "1-2",
        // One malformed member spoils the field.
        "bytes=0-1,x",
        "bytes=0-1,9-8",
        "bytes=2000-,9-8",
    ] {
        assert_eq!(select(value, 1000), RangeSelection::Whole, "{value}");
    }
}

#[test]
fn d7_ranges_keep_their_order_and_only_neighbours_are_joined() {
    assert_eq!(
        select("bytes=900-,0-9", 1000),
        multiple(&[900..1000, 0..10])
    );
    assert_eq!(
        select("bytes=0-99,100-199", 1000),
        RangeSelection::Single(0..200)
    );
    assert_eq!(
        select("bytes=0-99,50-199", 1000),
        RangeSelection::Single(0..200)
    );
    assert_eq!(
        select("bytes=0-99,20-29", 1000),
        RangeSelection::Single(0..100)
    );
    // After a gap, and before the earlier one.
    assert_eq!(
        select("bytes=0-99,101-199", 1000),
        multiple(&[0..100, 101..200])
    );
    assert_eq!(
        select("bytes=100-199,0-99", 1000),
        multiple(&[100..200, 0..100])
    );
}

#[test]
fn d7_more_than_two_overlaps_select_the_whole() {
    assert_eq!(
        select("bytes=500-509,0-9,505-514,5-14", 1000),
        multiple(&[500..510, 0..10, 505..515, 5..15])
    );
    assert_eq!(
        select("bytes=500-509,0-9,505-514,5-14,508-520", 1000),
        RangeSelection::Whole
    );
    assert_eq!(select("bytes=0-9,0-9,0-9,0-9", 1000), RangeSelection::Whole);
}

#[test]
fn d7_more_bytes_than_the_file_select_the_whole() {
    assert_eq!(select("bytes=1-,0-", 1000), RangeSelection::Whole);
    // Exactly the whole file, in another order, is what the client requested.
    assert_eq!(
        select("bytes=500-,0-499", 1000),
        multiple(&[500..1000, 0..500])
    );
}

#[test]
fn d7_a_thousand_ranges_select_the_whole() {
    let list = |count: usize| {
        let members: Vec<_> = (0..count)
            .map(|at| format!("{}-{}", at * 10, at * 10 + 1))
            .collect();
        select(&format!("bytes={}", members.join(",")), 1 << 20)
    };
    assert!(matches!(list(100), RangeSelection::Multiple(parts) if parts.len() == 100));
    assert_eq!(list(101), RangeSelection::Whole);
    assert_eq!(list(1000), RangeSelection::Whole);
    assert_eq!(
        select(&format!("bytes=0-1{}", ",".repeat(1000)), 1000),
        RangeSelection::Whole
    );
}

#[test]
fn d7_limits_can_forbid_multipart_and_ranges() {
    let select_with_max_ranges = |ranges, value: &str| {
        let limits = RangeLimits {
            max_ranges: ranges,
            ..RangeLimits::default()
        };
        select_ranges_of_value(value.as_bytes(), 1000, &limits)
    };
    assert_eq!(
        select_with_max_ranges(1, "bytes=0-1"),
        RangeSelection::Single(0..2)
    );
    assert_eq!(
        select_with_max_ranges(1, "bytes=0-1,5-6"),
        RangeSelection::Whole
    );
    assert_eq!(
        select_with_max_ranges(0, "bytes=0-1"),
        RangeSelection::Whole
    );
}

#[test]
fn d7_two_lines_and_no_line_select_the_whole() {
    let mut headers = HeaderMap::new();
    let limits = RangeLimits::default();
    assert_eq!(
        select_ranges(&headers, 1000, &limits),
        RangeSelection::Whole
    );
    headers.append(RANGE, HeaderValue::from_static("bytes=0-1"));
    assert_eq!(
        select_ranges(&headers, 1000, &limits),
        RangeSelection::Single(0..2)
    );
    headers.append(RANGE, HeaderValue::from_static("bytes=0-1"));
    assert_eq!(
        select_ranges(&headers, 1000, &limits),
        RangeSelection::Whole
    );
}

#[test]
fn d7_a_range_of_an_empty_file_is_ignored() {
    for value in ["bytes=0-", "bytes=-5", "bytes=-0", "bytes=0-0,1-1"] {
        assert_eq!(select(value, 0), RangeSelection::Whole, "{value}");
    }
}

#[test]
fn d7_numbers_beyond_64_bits_are_beyond_every_end() {
    // The second is 0 in 64 bits, the third 1000.
    for huge in [
        "9".repeat(100),
        format!("1{}", "0".repeat(99)),
        "18446744073709552616".into(),
    ] {
        let select_of_file = |value: String| select(&value, 1001);
        assert_eq!(
            select_of_file(format!("bytes=5-{huge}")),
            RangeSelection::Single(5..1001)
        );
        assert_eq!(
            select_of_file(format!("bytes=-{huge}")),
            RangeSelection::Single(0..1001)
        );
        assert_eq!(
            select_of_file(format!("bytes={huge}-")),
            RangeSelection::Unsatisfiable
        );
        let both = format!("bytes={huge}-{huge}");
        assert_eq!(
            select_ranges_of_value(both.as_bytes(), u64::MAX, &RangeLimits::default()),
            RangeSelection::Unsatisfiable
        );
    }
    assert_eq!(
        select("bytes=18446744073709551614-18446744073709551615", u64::MAX),
        RangeSelection::Single(u64::MAX - 1..u64::MAX)
    );
}

/// The length of the model's file.
const SIZE: u64 = 40;

/// A member of the list in the model.
#[derive(Debug, Clone, Copy)]
enum ModelRange {
    Between(u64, u64),
    From(u64),
    Last(u64),
}

impl ModelRange {
    fn text(self) -> String {
        match self {
            Self::Between(first, last) => format!("{first}-{last}"),
            Self::From(first) => format!("{first}-"),
            Self::Last(count) => format!("-{count}"),
        }
    }

    fn is_valid(self) -> bool {
        !matches!(self, Self::Between(first, last) if first > last)
    }

    /// Its bytes, each requested by itself: the RFC's words and no arithmetic on ends.
    fn bytes(self) -> Vec<u64> {
        (0..SIZE)
            .filter(|at| match self {
                Self::Between(first, last) => first <= *at && *at <= last,
                Self::From(first) => first <= *at,
                Self::Last(count) => SIZE - at <= count,
            })
            .collect()
    }
}

fn any_member() -> impl Strategy<Value = ModelRange> {
    prop_oneof![
        6 => (0..SIZE + 5, 0u64..12).prop_map(|(first, more)| ModelRange::Between(first, first + more)),
        1 => (0..SIZE + 5, 0..SIZE + 5).prop_map(|(first, last)| ModelRange::Between(first, last)),
        1 => (0..SIZE + 5).prop_map(ModelRange::From),
        1 => (0..SIZE + 5).prop_map(ModelRange::Last),
    ]
}

/// The expected result, byte by byte: lists of bytes, joined where one begins within or right behind the one
/// before it.
fn model(members: &[ModelRange], limits: &RangeLimits) -> RangeSelection {
    if members.len() > limits.max_ranges || !members.iter().all(|member| member.is_valid()) {
        return RangeSelection::Whole;
    }
    let (mut seen, mut overlaps) = (Vec::new(), 0);
    let mut parts: Vec<Vec<u64>> = Vec::new();
    for bytes in members.iter().map(|member| member.bytes()) {
        let Some(first) = bytes.first() else { continue };
        overlaps += usize::from(bytes.iter().any(|at| seen.contains(at)));
        seen.extend_from_slice(&bytes);
        match parts.last_mut() {
            Some(part) if part.contains(first) || part.last() == first.checked_sub(1).as_ref() => {
                part.extend(bytes);
                part.sort_unstable();
                part.dedup();
            }
            _ => parts.push(bytes),
        }
    }
    let total: usize = parts.iter().map(Vec::len).sum();
    if overlaps > limits.max_overlaps || total as u64 > SIZE {
        return RangeSelection::Whole;
    }
    let ranges: Vec<_> = parts
        .iter()
        .map(|part| part[0]..part[part.len() - 1] + 1)
        .collect();
    match &ranges[..] {
        [] => RangeSelection::Unsatisfiable,
        [one] => RangeSelection::Single(one.clone()),
        _ => RangeSelection::Multiple(ranges),
    }
}

proptest! {
    #[test]
    fn d7_the_selection_is_that_of_a_list_of_bytes(members in prop::collection::vec(any_member(), 1..8), max_ranges in 1usize..10, max_overlaps in 0usize..4) {
        let limits = RangeLimits { max_ranges, max_overlaps };
        let list: Vec<_> = members.iter().map(|member| member.text()).collect();
        let value = format!("bytes={}", list.join(", "));
        prop_assert_eq!(select_ranges_of_value(value.as_bytes(), SIZE, &limits), model(&members, &limits), "{}", value);
    }

    #[test]
    fn d7_no_value_panics_or_selects_more_than_there_is(value in r"(bytes=)?[-0-9, ]{0,60}|.{0,20}", len in prop_oneof![0u64..100, any::<u64>()]) {
        let limits = RangeLimits::default();
        let parts = match select_ranges_of_value(value.as_bytes(), len, &limits) {
            RangeSelection::Single(range) => vec![range],
            RangeSelection::Multiple(ranges) => {
                prop_assert!(ranges.len() >= 2);
                ranges
            }
            RangeSelection::Whole | RangeSelection::Unsatisfiable => vec![],
        };
        prop_assert!(parts.len() <= limits.max_ranges);
        prop_assert!(parts.iter().all(|part| part.start < part.end && part.end <= len));
        prop_assert!(parts.iter().map(|part| u128::from(part.end - part.start)).sum::<u128>() <= u128::from(len));
    }
}
