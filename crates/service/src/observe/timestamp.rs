//! Timestamps of logs, in UTC. By hand, since a log line must not allocate and needs only two formats.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A time of the calendar, to the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UtcTimestamp {
    year: u64,
    /// From 1.
    month: u64,
    /// From 1.
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    millisecond: u64,
}

impl From<SystemTime> for UtcTimestamp {
    /// Times before 1970, from clocks that were never set, become the epoch.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (year, month, day) = date_of_day(since.as_secs() / 86_400);
        let second = since.as_secs() % 86_400;
        Self {
            year,
            month,
            day,
            hour: second / 3_600,
            minute: second / 60 % 60,
            second: second % 60,
            millisecond: u64::from(since.subsec_millis()),
        }
    }
}

impl UtcTimestamp {
    /// Appends `10/Oct/2000:13:55:36 +0000`.
    pub fn write_common(self, out: &mut Vec<u8>) {
        write_number(out, self.day, 2);
        out.push(b'/');
        let month = usize::try_from(self.month - 1).unwrap_or_default();
        out.extend_from_slice(MONTHS[month].as_bytes());
        out.push(b'/');
        write_number(out, self.year, 4);
        out.push(b':');
        self.write_time(out);
        out.extend_from_slice(b" +0000");
    }

    /// Appends `2000-10-10T13:55:36.000Z` (RFC 3339).
    pub fn write_rfc3339(self, out: &mut Vec<u8>) {
        write_number(out, self.year, 4);
        out.push(b'-');
        write_number(out, self.month, 2);
        out.push(b'-');
        write_number(out, self.day, 2);
        out.push(b'T');
        self.write_time(out);
        out.push(b'.');
        write_number(out, self.millisecond, 3);
        out.push(b'Z');
    }

    fn write_time(self, out: &mut Vec<u8>) {
        write_number(out, self.hour, 2);
        out.push(b':');
        write_number(out, self.minute, 2);
        out.push(b':');
        write_number(out, self.second, 2);
    }
}

/// The year, month and day of a day since the epoch: Howard Hinnant's `civil_from_days`, whose years begin in March, so that the
/// leap day is the last.
fn date_of_day(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year + era * 400 + u64::from(month <= 2);
    (year, month, day)
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
    use std::time::Duration;

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
        assert_eq!(written(early).0, "01/Jan/1970:00:00:00 +0000");
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
