//! Ranges as origins write them, and fields made of the tokens of proper ones.
//!
//! Random bytes hardly ever get past a parser's first check; these do. What the parser understood must be in the text.

use super::*;
use proptest::prelude::*;

#[test]
fn a1_the_plain_forms() {
    let parse = |text: &str| ContentRange::parse(text.as_bytes()).unwrap();
    assert_eq!(
        parse("bytes 0-499/1234"),
        ContentRange {
            range: Some(0..500),
            total: Some(1234)
        }
    );
    assert_eq!(
        parse("Bytes 0-0/1"),
        ContentRange {
            range: Some(0..1),
            total: Some(1)
        }
    );
    assert_eq!(
        parse("bytes 5-9/*"),
        ContentRange {
            range: Some(5..10),
            total: None
        }
    );
    assert_eq!(
        parse("bytes */0"),
        ContentRange {
            range: None,
            total: Some(0)
        }
    );
}

#[test]
fn a8_overflow_reversed_beyond_and_junk_are_refused() {
    use ContentRangeError::{BeyondTotal, Malformed, Overflow, Reversed};
    for (text, error) in [
        ("bytes 9-5/10", Reversed),
        ("bytes 0-10/10", BeyondTotal),
        ("bytes 0-18446744073709551615/*", Overflow),
        ("bytes 0-9/99999999999999999999999", Overflow),
        ("bytes 0-9/9223372036854775808", Overflow),
        ("bytes */*", Malformed),
        ("bytes 0-9", Malformed),
        ("bytes -9/10", Malformed),
        ("bytes 0-/10", Malformed),
        ("bytes +0-9/10", Malformed),
        ("bytes 0-9/10, 20-29/30", Malformed),
        ("items 0-9/10", Malformed),
        ("bytes=0-9/10", Malformed),
        ("", Malformed),
    ] {
        assert_eq!(ContentRange::parse(text.as_bytes()), Err(error), "{text:?}");
    }
    assert_eq!(ContentRange::parse(b"bytes \xff-9/10"), Err(Malformed));
}

proptest! {
    #[test]
    fn any_value_is_refused_or_consistent(value: Vec<u8>) {
        if let Ok(ContentRange { range: Some(range), total }) = ContentRange::parse(&value) {
            prop_assert!(range.start < range.end);
            prop_assert!(total.is_none_or(|total| range.end <= total));
        }
    }

    #[test]
    fn a_well_formed_value_is_parsed(first in 0u64..1 << 62, length in 1u64..1 << 40, more in 0u64..1 << 40) {
        let (last, total) = (first + length - 1, first + length + more);
        let read = ContentRange::parse(format!("bytes {first}-{last}/{total}").as_bytes()).unwrap();
        prop_assert_eq!(read, ContentRange { range: Some(first..first + length), total: Some(total) });
    }
}

/// Numbers, and texts that some take for one.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "9",
    "10",
    "499",
    "007",
    "4095",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "*",
    "",
    "-1",
    "+1",
    "0x10",
    "1e3",
    "1_0",
    "\u{663}",
];

/// A Content-Range with up to two wrong tokens.
fn any_content_range() -> impl Strategy<Value = String> {
    let number = || prop::sample::select(NUMBERS);
    let small = || (0u64..50).prop_map(|n| n.to_string());
    let count = move || prop_oneof![4 => small(), 1 => number().prop_map(str::to_owned)];
    let sign = |right: &'static str| prop_oneof![12 => Just(right), 1 => prop::sample::select(&["", " ", "-", "/", ",", "=", "--", "\t"][..])];
    let unit = prop_oneof![8 => Just("bytes"), 1 => prop::sample::select(&["Bytes", "items", "", "byte", " bytes"][..])];
    (
        unit,
        sign(" "),
        count(),
        sign("-"),
        count(),
        sign("/"),
        count(),
    )
        .prop_map(|(unit, a, first, b, last, c, total)| {
            format!("{unit}{a}{first}{b}{last}{c}{total}")
        })
}

/// The numbers in a text, in their order.
fn numbers(text: &str) -> Vec<u128> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .map(|digits| digits.parse().unwrap())
        .collect()
}

proptest! {
    #[test]
    fn a8_a_parsed_content_range_has_the_numbers_of_its_text(text in any_content_range()) {
        if let Ok(ContentRange { range, total }) = ContentRange::parse(text.as_bytes()) {
            let first_and_last = range.iter().flat_map(|range| [range.start, range.end - 1]);
            let understood: Vec<u128> = first_and_last.chain(total).map(u128::from).collect();
            prop_assert_eq!(understood, numbers(&text), "{:?}", text);
            prop_assert!(range.is_some() || total.is_some());
            prop_assert!(range.is_none_or(|range| range.start < range.end && total.is_none_or(|total| range.end <= total)));
        }
    }

    #[test]
    fn a8_a_proper_content_range_is_parsed(first in 0u64..1000, more in 0u64..1000, beyond in prop::option::of(0u64..1000)) {
        let last = first + more;
        let total = beyond.map(|beyond| last + 1 + beyond);
        let written = total.map_or_else(|| "*".to_owned(), |total| total.to_string());
        let found = ContentRange::parse(format!("bytes {first}-{last}/{written}").as_bytes());
        prop_assert_eq!(found, Ok(ContentRange { range: Some(first..last + 1), total }));
    }
}
