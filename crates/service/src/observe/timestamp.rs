//! Timestamps of logs and folder pages, in UTC. Formatted by hand: a log line must not allocate, and a page may have two hundred thousand
//! of them.

use std::time::SystemTime;

use time::ext::SystemTimeExt as _;
use time::{OffsetDateTime, SignedDuration};

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The first and the last second of the years that RFC 3339 can write.
const FIRST_SECOND: SignedDuration = SignedDuration::seconds(-62_167_219_200);
const LAST_SECOND: SignedDuration = SignedDuration::seconds(253_402_300_799);

/// A time of the calendar, in the years from 0 to 9999. Times before and after them become the first and the last second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UtcTimestamp(OffsetDateTime);

impl From<SystemTime> for UtcTimestamp {
    fn from(time: SystemTime) -> Self {
        let since = time
            .signed_duration_since(SystemTime::UNIX_EPOCH)
            .clamp(FIRST_SECOND, LAST_SECOND);
        Self(OffsetDateTime::UNIX_EPOCH.saturating_add(since))
    }
}

impl UtcTimestamp {
    /// Formats it as `2000-10-10T13:55:36Z` (RFC 3339).
    #[must_use]
    pub fn rfc3339(self) -> [u8; 20] {
        let (year, month, day) = self.0.to_calendar_date();
        let (hour, minute, second) = self.0.to_hms();
        let mut text = *b"0000-00-00T00:00:00Z";
        let mut put = |at: usize, two: u8| {
            (text[at], text[at + 1]) = (b'0' + two / 10, b'0' + two % 10);
        };
        put(0, u8::try_from(year / 100).unwrap_or(0));
        put(2, u8::try_from(year % 100).unwrap_or(0));
        put(5, month.into());
        put(8, day);
        put(11, hour);
        put(14, minute);
        put(17, second);
        text
    }

    /// Appends `10/Oct/2000:13:55:36 +0000`.
    pub fn write_common(self, out: &mut Vec<u8>) {
        let text = self.rfc3339();
        let month = MONTHS[usize::from(u8::from(self.0.month())) - 1].as_bytes();
        let (year, day, time) = (&text[..4], &text[8..10], &text[11..19]);
        for part in [day, b"/", month, b"/", year, b":", time, b" +0000"] {
            out.extend_from_slice(part);
        }
    }

    /// Appends `2000-10-10T13:55:36.000Z` (RFC 3339).
    pub fn write_rfc3339(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.rfc3339()[..19]);
        out.push(b'.');
        write_number(out, self.0.millisecond().into(), 3);
        out.push(b'Z');
    }
}

/// Appends a decimal number, padded with zeros to `width`.
pub fn write_number(out: &mut Vec<u8>, number: u64, width: usize) {
    // The longest u64 has twenty digits.
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    let mut rest = number;
    while rest > 0 || digits.len() - at < width.max(1) {
        at -= 1;
        // Below ten.
        digits[at] += u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn written(time: SystemTime) -> (String, String) {
        let (mut common, mut rfc3339) = (Vec::new(), Vec::new());
        UtcTimestamp::from(time).write_common(&mut common);
        UtcTimestamp::from(time).write_rfc3339(&mut rfc3339);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(common), text(rfc3339))
    }

    #[test]
    fn known_times_have_both_formats() {
        for (seconds, common, rfc3339) in [
            (0, "01/Jan/1970:00:00:00 +0000", "1970-01-01T00:00:00.000Z"),
            (
                971_186_136,
                "10/Oct/2000:13:55:36 +0000",
                "2000-10-10T13:55:36.000Z",
            ),
            (
                951_782_399,
                "28/Feb/2000:23:59:59 +0000",
                "2000-02-28T23:59:59.000Z",
            ),
            (
                951_782_400,
                "29/Feb/2000:00:00:00 +0000",
                "2000-02-29T00:00:00.000Z",
            ),
            (
                4_107_542_400,
                "01/Mar/2100:00:00:00 +0000",
                "2100-03-01T00:00:00.000Z",
            ),
            (
                253_402_300_799,
                "31/Dec/9999:23:59:59 +0000",
                "9999-12-31T23:59:59.000Z",
            ),
        ] {
            let expected = (common.to_owned(), rfc3339.to_owned());
            assert_eq!(written(at(seconds)), expected);
        }
        let late = at(971_186_136) + Duration::from_micros(7_999);
        assert_eq!(written(late).1, "2000-10-10T13:55:36.007Z");
        let early = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(written(early).0, "31/Dec/1969:23:59:59 +0000");
        let first = UNIX_EPOCH - Duration::from_secs(1 << 40);
        assert_eq!(written(first).1, "0000-01-01T00:00:00.000Z");
        assert_eq!(written(at(1 << 40)).1, "9999-12-31T23:59:59.000Z");
    }

    #[test]
    fn numbers_are_padded() {
        for (value, width, expected) in [
            (0, 0, "0"),
            (0, 2, "00"),
            (7, 3, "007"),
            (1234, 2, "1234"),
            (u64::MAX, 0, "18446744073709551615"),
        ] {
            let mut out = Vec::new();
            write_number(&mut out, value, width);
            assert_eq!(out, expected.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn dates_agree_with_httpdate(seconds in 0_u64..253_402_300_800) {
            // `Tue, 10 Oct 2000 13:55:36 GMT`
            let other = httpdate::fmt_http_date(at(seconds));
            let words: Vec<_> = other.split([' ', ',']).collect();
            let expected = format!("{}/{}/{}:{} +0000", words[2], words[3], words[4], words[5]);
            prop_assert_eq!(written(at(seconds)).0, expected);
        }
    }
}
