//! Content-Range (RFC 9110 14.4), for bytes.

use std::ops::Range;

/// A parsed Content-Range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContentRange {
    /// The bytes of the body; `None` in the form of a 416 (`bytes */N`).
    pub range: Option<Range<u64>>,
    /// Bytes in the whole representation; `None` for `*`.
    pub total: Option<u64>,
}

/// Why a Content-Range cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ContentRangeError {
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
    pub(crate) fn parse(value: &[u8]) -> Result<Self, ContentRangeError> {
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
mod tests;
