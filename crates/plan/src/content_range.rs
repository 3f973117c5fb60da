//! Content-Range (RFC 9110 14.4), for bytes.

use std::ops::Range;

/// A parsed Content-Range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentRange {
    /// The bytes of the body; `None` in the form of a 416 (`bytes */N`).
    pub range: Option<Range<u64>>,
    /// Bytes in the whole representation; `None` for `*`.
    pub total: Option<u64>,
}

/// Why a Content-Range cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ContentRangeError {
    /// Not of the form `bytes A-B/N`.
    #[error("Content-Range cannot be read")]
    Malformed,
    /// A number larger than any file.
    #[error("Content-Range has a number that is too large")]
    Overflow,
    /// The last byte is before the first.
    #[error("Content-Range runs backwards")]
    Reversed,
    /// The range reaches beyond the total.
    #[error("Content-Range reaches beyond its own total")]
    BeyondTotal,
}

impl ContentRange {
    /// Parses a header's value.
    ///
    /// # Errors
    /// A value that is not exactly of the RFC's form, or contradicts itself.
    pub fn parse(value: &[u8]) -> Result<Self, ContentRangeError> {
        use ContentRangeError::{BeyondTotal, Malformed, Overflow, Reversed};
        let text = std::str::from_utf8(value).map_err(|_| Malformed)?.trim();
        let (unit, rest) = text.split_once(' ').ok_or(Malformed)?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return Err(Malformed);
        }
        let (range, total) = rest.trim_start().split_once('/').ok_or(Malformed)?;
        let total = if total == "*" {
            None
        } else {
            Some(number(total)?)
        };
        if range == "*" {
            // The form without a range must have a total.
            return if total.is_some() {
                Ok(Self { range: None, total })
            } else {
                Err(Malformed)
            };
        }
        let (first, last) = range.split_once('-').ok_or(Malformed)?;
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(Reversed);
        }
        let end = last.checked_add(1).ok_or(Overflow)?;
        if total.is_some_and(|total| end > total) {
            return Err(BeyondTotal);
        }
        Ok(Self {
            range: Some(first..end),
            total,
        })
    }
}

/// Digits only, and no more than a file may have.
fn number(text: &str) -> Result<u64, ContentRangeError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ContentRangeError::Malformed);
    }
    // No file system has files of 2^63 bytes, and offsets are signed in every system call.
    let number: u64 = text.parse().map_err(|_| ContentRangeError::Overflow)?;
    if number > i64::MAX.unsigned_abs() {
        Err(ContentRangeError::Overflow)
    } else {
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
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
}
