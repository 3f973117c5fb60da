//! Row B3: journals damaged by crashes, disks and other programs. A journal never claims a range that was not written.

use std::path::Path;

use haul_plan::ResourceVersion;
use proptest::prelude::*;
use url::Url;

use super::super::*;
use crate::checksum::crc32c;

/// Bytes in the file that the journals are about.
const LENGTH: u64 = 1000;

fn url() -> Url {
    Url::parse("http://h.test/f").unwrap()
}

/// The bytes of a journal with these ranges, and the offset where each of its lines ends.
fn journal_bytes(dir: &Path, spans: &[SavedRange]) -> (Vec<u8>, Vec<usize>) {
    let path = dir.join("written");
    let header = JournalHeader::new(&url(), LENGTH, &ResourceVersion::default(), &[]);
    Journal::create(&path, &header)
        .unwrap()
        .append(spans)
        .unwrap();
    let bytes = std::fs::read(path).unwrap();
    let ends = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    (bytes, ends)
}

/// The ranges read from these bytes, and the length of the journal that holds them. `None` if the journal is unusable.
fn read(dir: &Path, bytes: &[u8]) -> Option<(Vec<SavedRange>, u64)> {
    let path = dir.join("read");
    std::fs::write(&path, bytes).unwrap();
    let journal = load_journal(&path, &url()).ok()??;
    assert!(journal.journal_length <= bytes.len() as u64);
    Some((journal.saved_ranges, journal.journal_length))
}

fn any_spans() -> impl Strategy<Value = Vec<SavedRange>> {
    let span = (0..LENGTH, 1..LENGTH, any::<u32>()).prop_map(|(start, length, crc)| SavedRange {
        start,
        end: (start + length).min(LENGTH),
        crc,
    });
    prop::collection::vec(span, 0..6)
}

/// A damage to a journal; `Index` is a share of its length.
#[derive(Debug, Clone)]
enum JournalDamage {
    /// A bit is flipped.
    Flip(prop::sample::Index, u8),
    /// Bytes are missing.
    Lose(prop::sample::Index, usize),
    /// Bytes are zero, as a file system leaves blocks that it did not write.
    Zero(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
    /// Foreign bytes are inserted.
    Add(prop::sample::Index, Vec<u8>),
}

impl JournalDamage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        let offset = |at: &prop::sample::Index| at.index(length + 1).min(length);
        let range = |at: &prop::sample::Index, count: usize| {
            offset(at)..offset(at).saturating_add(count).min(length)
        };
        match self {
            Self::Flip(at, bit) => {
                if let Some(byte) = bytes.get_mut(offset(at)) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            Self::Lose(at, count) => drop(bytes.drain(range(at, *count))),
            Self::Zero(at, count) => bytes[range(at, *count)].fill(0),
            Self::Repeat(at, count) => {
                let part = bytes[range(at, *count)].to_vec();
                let at = offset(at);
                bytes.splice(at..at, part);
            }
            Self::Add(at, more) => {
                let at = offset(at);
                bytes.splice(at..at, more.iter().copied());
            }
        }
    }
}

fn any_damage() -> impl Strategy<Value = JournalDamage> {
    let any_offset = any::<prop::sample::Index>;
    prop_oneof![
        (any_offset(), any::<u8>()).prop_map(|(at, bit)| JournalDamage::Flip(at, bit)),
        (any_offset(), 1usize..200).prop_map(|(at, length)| JournalDamage::Lose(at, length)),
        (any_offset(), 1usize..200).prop_map(|(at, length)| JournalDamage::Zero(at, length)),
        (any_offset(), 1usize..200).prop_map(|(at, length)| JournalDamage::Repeat(at, length)),
        (any_offset(), any::<Vec<u8>>()).prop_map(|(at, more)| JournalDamage::Add(at, more)),
    ]
}

/// A number as JSON may have it, in range or not.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "999",
    "1000",
    "1001",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "1.5",
    "1e3",
    "null",
    "\"7\"",
    "[]",
];

/// A line with a right checksum and arbitrary content.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let number = || prop::sample::select(NUMBERS);
    let json = prop_oneof![
        4 => (number(), number(), number())
            .prop_map(|(start, end, crc)| format!("{{\"done\":{{\"start\":{start},\"end\":{end},\"crc\":{crc}}}}}")),
        1 => (number(), number()).prop_map(|(format, length)| format!(
            "{{\"header\":{{\"format\":{format},\"url\":\"u\",\"length\":{length},\"etag\":null,\"last_modified\":null}}}}"
        )),
        1 => prop::sample::select(&["", "{", "{}", "null", "[[[[", "{\"done\":{}}", "{\"done\":1,\"header\":2}"][..])
            .prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    json.prop_map(|json| format!("{:08x} {json}\n", crc32c(json.as_bytes())).into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Each whole line before the cut is kept, and nothing else.
    #[test]
    fn b3_a_truncated_journal_keeps_its_complete_lines(spans in any_spans(), at: prop::sample::Index) {
        let dir = tempfile::tempdir().unwrap();
        let (bytes, ends) = journal_bytes(dir.path(), &spans);
        let cut = at.index(bytes.len() + 1);
        let lines = ends.iter().filter(|end| **end <= cut).count();
        let expected = lines.checked_sub(1).map(|count| (spans[..count].to_vec(), ends[lines - 1] as u64));
        prop_assert_eq!(read(dir.path(), &bytes[..cut]), expected);
    }

    #[test]
    fn b3_a_damaged_journal_claims_nothing_that_was_not_written(
        spans in any_spans(),
        damages in prop::collection::vec(any_damage(), 1..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (mut bytes, _) = journal_bytes(dir.path(), &spans);
        damages.iter().for_each(|damage| damage.apply(&mut bytes));
        for span in read(dir.path(), &bytes).map_or_else(Vec::new, |(spans, _)| spans) {
            prop_assert!(spans.contains(&span), "{span:?}");
        }
    }

    /// A checksum is no signature: lines written by others may contain anything, but claim nothing outside the file.
    #[test]
    fn b3_lines_with_right_checksums_claim_nothing_outside_the_file(lines in prop::collection::vec(any_line(), 0..6)) {
        let dir = tempfile::tempdir().unwrap();
        let (mut bytes, _) = journal_bytes(dir.path(), &[]);
        bytes.extend(lines.concat());
        if let Some((spans, length)) = read(dir.path(), &bytes) {
            prop_assert!(spans.iter().all(|span| span.start < span.end && span.end <= LENGTH), "{spans:?}");
            prop_assert_eq!((spans.len(), length), (lines.len(), bytes.len() as u64));
        }
    }

    #[test]
    fn b3_arbitrary_bytes_do_not_make_it_panic(bytes: Vec<u8>, lines in prop::collection::vec(any_line(), 0..3)) {
        let dir = tempfile::tempdir().unwrap();
        let _ = read(dir.path(), &bytes);
        prop_assert_eq!(read(dir.path(), &[lines.concat(), bytes].concat()), None, "a header of this URL came by chance");
    }
}
