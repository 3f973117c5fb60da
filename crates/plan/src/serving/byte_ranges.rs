//! Which bytes a Range asks for (RFC 9110 14.1, 14.2), rows D7.
//!
//! A server may always ignore a Range, and a client must bear the whole (14.2). So whatever cannot be read, is of another unit, or
//! would cost more than the whole is answered whole. Only a Range that is understood and names nothing that is there is refused.
//!
//! **What costs too much** (14.2 allows to refuse "more than two overlapping ranges" and "many small ranges"; 17.15): more
//! ranges than a limit, more of them that overlap earlier ones than a limit, and ranges that together are longer than the file.
//!
//! **What is put together.** 15.3.7.2 lets a server join ranges that overlap or touch, in any order. Here that is done only to
//! neighbours in the list, where the later begins inside the earlier or right behind it: `0-99,100-199` is one part, and without a
//! multipart body. Everything else stays in the order that was asked for, since who asks for the end first wants it first.
//!
//! **Empty files** have no bytes to name, and no Content-Range can be written of them. A Range on one is ignored: many clients
//! send `bytes=0-` with every request, and a 200 without bytes is what they need.
//!
//! **Numbers beyond 64 bits** count as the largest of them: beyond the end of every file, and all equal.

use std::ops::Range;

use http::HeaderMap;
use http::header::RANGE;

/// What a Range may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeLimits {
    /// Members of the list, the empty ones too. 1 allows no multipart answers, 0 no ranges at all.
    pub max_ranges: usize,
    /// Ranges that have a byte in common with an earlier one of the list.
    pub max_overlaps: usize,
}

impl Default for RangeLimits {
    fn default() -> Self {
        Self {
            // Readers of PDF and video ask for tens. Each part costs some hundred bytes of head and a send of its own.
            max_ranges: 100,
            // The RFC's number.
            max_overlaps: 2,
        }
    }
}

/// Which bytes are sent. Ranges are never empty and never reach beyond the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeSelection {
    /// All of them, as if there were no Range: 200.
    Whole,
    /// One range: 206 with Content-Range.
    Single(Range<u64>),
    /// At least two, in the order they were asked for: 206 with multipart/byteranges.
    Multiple(Vec<Range<u64>>),
    /// Nothing of what was asked for exists: 416 with `Content-Range: bytes */LENGTH`.
    Unsatisfiable,
}

/// Which of a file's `len` bytes a GET asks for. Allocates only for two ranges and more.
///
/// A Range that stands in two lines is malformed, since it is no list field (14.2), and so ignored.
#[must_use]
pub fn select_ranges(headers: &HeaderMap, len: u64, limits: &RangeLimits) -> RangeSelection {
    let mut lines = headers.get_all(RANGE).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => select_ranges_of_value(line.as_bytes(), len, limits),
        _ => RangeSelection::Whole,
    }
}

/// [`select_ranges`], by a Range's value alone.
#[must_use]
pub fn select_ranges_of_value(value: &[u8], len: u64, limits: &RangeLimits) -> RangeSelection {
    if len == 0 {
        return RangeSelection::Whole;
    }
    match parse_ranges(value, len, limits) {
        Some(parts) => parts.selection(len, limits),
        None => RangeSelection::Whole,
    }
}

/// The parts that exist; `None` for a value that is malformed, of another unit or too long a list.
fn parse_ranges(value: &[u8], len: u64, limits: &RangeLimits) -> Option<SelectedRanges> {
    let value = value.trim_ascii();
    let equals = value.iter().position(|byte| *byte == b'=')?;
    let (unit, set) = (&value[..equals], &value[equals + 1..]);
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let mut parts = SelectedRanges::default();
    let mut is_empty = true;
    for (index, member) in set.split(|byte| *byte == b',').enumerate() {
        if index >= limits.max_ranges {
            return None;
        }
        // Empty members of a list are passed over (5.6.1.2).
        let member = member.trim_ascii();
        if !member.is_empty() {
            is_empty = false;
            RangeSpec::read(member)?
                .clamp_to(len)
                .into_iter()
                .for_each(|range| parts.push(range));
        }
    }
    (!is_empty).then_some(parts)
}

/// One member of the list (14.1.1).
#[derive(Clone, Copy)]
enum RangeSpec {
    /// `A-B`, or `A-`, which is taken for `A-` and the largest number.
    From { first: u64, last: u64 },
    /// `-N`: so many bytes at the end.
    Last(u64),
}

impl RangeSpec {
    fn read(member: &[u8]) -> Option<Self> {
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

    /// What there is of it in a file that is not empty.
    fn clamp_to(self, len: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::From { first, last } => first..last.saturating_add(1).min(len),
            Self::Last(count) => len.saturating_sub(count)..len,
        };
        (!range.is_empty()).then_some(range)
    }
}

/// Digits only; what is too large is the largest there is.
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

/// What was asked for and exists, as it will be sent.
#[derive(Default)]
struct SelectedRanges {
    /// The only part: one needs no allocation. Empty once there are two.
    single: Option<Range<u64>>,
    /// All of them, if there are two or more.
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
        // At most a hundred against a hundred. Parts that were joined cover the same bytes as the ranges they are of.
        let overlaps = self
            .ranges()
            .iter()
            .any(|part| part.start < range.end && range.start < part.end);
        self.overlaps += usize::from(overlaps);
        let neighbour = self.ranges().last_mut();
        if let Some(part) = neighbour.filter(|part| (part.start..=part.end).contains(&range.start))
        {
            part.end = part.end.max(range.end);
        } else if !self.multiple.is_empty() {
            self.multiple.push(range);
        } else if let Some(first) = self.single.take() {
            self.multiple.extend([first, range]);
        } else {
            self.single = Some(range);
        }
    }

    fn selection(mut self, len: u64, limits: &RangeLimits) -> RangeSelection {
        let lengths = self.ranges().iter().map(|part| part.end - part.start);
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
#[path = "byte_ranges_tests.rs"]
mod tests;
