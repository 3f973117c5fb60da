//! Which bytes a Range selects (RFC 9110 14.1, 14.2), rows D7.
//!
//! A server may always ignore a Range, and a client must accept the whole file (14.2). So a Range that is
//! malformed, is of another unit, or would cost more than the whole file is ignored. Only a well-formed Range
//! of which no byte exists is refused.
//!
//! **What costs too much** (14.2 allows to refuse "more than two overlapping ranges" and "many small ranges";
//! 17.15): more ranges than a limit, more of them that overlap earlier ones than a limit, and ranges that
//! together are longer than the file.
//!
//! **What is joined.** 15.3.7.2 lets a server join ranges that overlap or touch, in any order. Here only
//! neighbours in the list are joined, where the later one begins inside the earlier one or right behind it:
//! `0-99,100-199` is one range, and needs no multipart body. All others are sent in the requested order,
//! since a client that requests the end first wants it first.
//!
//! **Empty files** have no bytes to name, and no Content-Range can be written for them. A Range on one is
//! ignored: many clients send `bytes=0-` with every request, and need a 200 without bytes.
//!
//! **Numbers beyond 64 bits** count as the largest of them: beyond the end of every file, and all equal.

use std::ops::Range;

use http::HeaderMap;
use http::header::RANGE;

/// Limits on the cost of a Range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeLimits {
    /// Members of the list, the empty ones included. 1 allows no multipart responses, 0 no ranges at all.
    pub max_ranges: usize,
    /// Ranges that have a byte in common with an earlier one of the list.
    pub max_overlaps: usize,
}

impl Default for RangeLimits {
    fn default() -> Self {
        Self {
            // Readers of PDF and video request tens. Each range costs some hundred bytes of head and a send
            // of its own.
            max_ranges: 100,
            // The RFC's number.
            max_overlaps: 2,
        }
    }
}

/// The bytes to send. Ranges are never empty and never reach beyond the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeSelection {
    /// The whole file, as if there were no Range: 200.
    Whole,
    /// One range: 206 with Content-Range.
    Single(Range<u64>),
    /// At least two ranges, in the requested order: 206 with multipart/byteranges.
    Multiple(Vec<Range<u64>>),
    /// No requested byte exists: 416 with `Content-Range: bytes */LENGTH`.
    Unsatisfiable,
}

/// Selects which of a file's `len` bytes a GET requests. Allocates only for two ranges and more.
///
/// A Range in two lines is malformed, since it is not a list field (14.2), and so ignored.
#[must_use]
pub fn select_ranges(headers: &HeaderMap, len: u64, limits: &RangeLimits) -> RangeSelection {
    let mut lines = headers.get_all(RANGE).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => select_ranges_of_value(line.as_bytes(), len, limits),
        _ => RangeSelection::Whole,
    }
}

/// [`select_ranges`], by the value of the Range field.
#[must_use]
pub fn select_ranges_of_value(value: &[u8], len: u64, limits: &RangeLimits) -> RangeSelection {
    if len == 0 {
        return RangeSelection::Whole;
    }
    match parse_ranges(value, len, limits) {
        Some(ranges) => ranges.selection(len, limits),
        None => RangeSelection::Whole,
    }
}

/// The ranges that exist; `None` for a value that is malformed, of another unit or too long a list.
fn parse_ranges(value: &[u8], len: u64, limits: &RangeLimits) -> Option<SelectedRanges> {
    let value = value.trim_ascii();
    let equals = value.iter().position(|byte| *byte == b'=')?;
    let (unit, set) = (&value[..equals], &value[equals + 1..]);
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let mut ranges = SelectedRanges::default();
    let mut is_empty = true;
    for (index, member) in set.split(|byte| *byte == b',').enumerate() {
        if index >= limits.max_ranges {
            return None;
        }
        // Empty members of a list are skipped (5.6.1.2).
        let member = member.trim_ascii();
        if !member.is_empty() {
            is_empty = false;
            RangeSpec::parse(member)?
                .clamp_to(len)
                .into_iter()
                .for_each(|range| ranges.push(range));
        }
    }
    (!is_empty).then_some(ranges)
}

/// One member of the list (14.1.1).
#[derive(Clone, Copy)]
enum RangeSpec {
    /// `A-B`; `A-` counts as `A-` and the largest number.
    From { first: u64, last: u64 },
    /// `-N`: this many bytes at the end.
    Last(u64),
}

impl RangeSpec {
    fn parse(member: &[u8]) -> Option<Self> {
        let dash = member.iter().position(|byte| *byte == b'-')?;
        let (first, last) = (&member[..dash], &member[dash + 1..]);
        if first.is_empty() {
            return saturating_number(last).map(Self::Last);
        }
        let first = saturating_number(first)?;
        let last = if last.is_empty() {
            u64::MAX
        } else {
            saturating_number(last)?
        };
        // A range that runs backwards makes the whole field invalid (14.1.1).
        (first <= last).then_some(Self::From { first, last })
    }

    /// The range within a file that is not empty; `None` if no byte of it exists.
    fn clamp_to(self, len: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::From { first, last } => first..last.saturating_add(1).min(len),
            Self::Last(count) => len.saturating_sub(count)..len,
        };
        (!range.is_empty()).then_some(range)
    }
}

/// Parses digits; a number that is too large is the largest.
fn saturating_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |number: u64, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    }))
}

/// The requested ranges that exist, as they will be sent.
#[derive(Default)]
struct SelectedRanges {
    /// The only range: one needs no allocation. Empty once there are two.
    single: Option<Range<u64>>,
    /// All ranges, if there are two or more.
    multiple: Vec<Range<u64>>,
    /// How many ranges had bytes of earlier ones.
    overlaps: usize,
}

impl SelectedRanges {
    fn ranges(&mut self) -> &mut [Range<u64>] {
        if self.multiple.is_empty() {
            self.single.as_mut_slice()
        } else {
            &mut self.multiple
        }
    }

    fn push(&mut self, range: Range<u64>) {
        // At most a hundred against a hundred. Joined ranges cover the same bytes as the ones they are made of.
        let overlaps = self
            .ranges()
            .iter()
            .any(|earlier| earlier.start < range.end && range.start < earlier.end);
        self.overlaps += usize::from(overlaps);
        let last = self.ranges().last_mut();
        if let Some(last) = last.filter(|last| (last.start..=last.end).contains(&range.start)) {
            last.end = last.end.max(range.end);
        } else if !self.multiple.is_empty() {
            self.multiple.push(range);
        } else if let Some(first) = self.single.take() {
            self.multiple.extend([first, range]);
        } else {
            self.single = Some(range);
        }
    }

    fn selection(mut self, len: u64, limits: &RangeLimits) -> RangeSelection {
        let lengths = self.ranges().iter().map(|range| range.end - range.start);
        let total = lengths.fold(0, u64::saturating_add);
        if self.overlaps > limits.max_overlaps || total > len {
            return RangeSelection::Whole;
        }
        match self.single {
            Some(range) => RangeSelection::Single(range),
            None if self.multiple.is_empty() => RangeSelection::Unsatisfiable,
            None => RangeSelection::Multiple(self.multiple),
        }
    }
}

#[cfg(test)]
mod tests;
