//! The time of a signature: `YYYYMMDDTHHMMSSZ`, as the signed text has it, and as a moment.

use std::time::{Duration, SystemTime};

use time::{Date, Month, OffsetDateTime, Time};

/// The time of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AmzDate {
    /// `20130524T000000Z`.
    pub(super) text: String,
    /// The same moment.
    pub(super) time: SystemTime,
}

impl AmzDate {
    /// Parses the basic format of ISO 8601; `None` for any other, and before 1970.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = |from: usize, to: usize| {
            let part = text.get(from..to)?;
            let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| part.parse::<u16>().ok()).flatten()
        };
        let small = |from: usize| u8::try_from(digits(from, from + 2)?).ok();
        if text.len() != 16 || text.as_bytes()[8] != b'T' || text.as_bytes()[15] != b'Z' {
            return None;
        }
        let month = Month::try_from(small(4)?).ok()?;
        let date = Date::from_calendar_date(digits(0, 4)?.into(), month, small(6)?).ok()?;
        let time = Time::from_hms(small(9)?, small(11)?, small(13)?).ok()?;
        let seconds = date.with_time(time).assume_utc().unix_timestamp();
        let since = Duration::from_secs(u64::try_from(seconds).ok()?);
        Some(Self {
            text: text.to_owned(),
            time: SystemTime::UNIX_EPOCH.checked_add(since)?,
        })
    }

    /// The time of a Date field (RFC 9110 5.6.7).
    pub(super) fn from_http_date(text: &str) -> Option<Self> {
        let time = httpdate::parse_http_date(text).ok()?;
        let at = OffsetDateTime::from(time);
        let text = format!(
            "{:04}{:02}{:02}T{:02}{:02}{:02}Z",
            at.year(),
            u8::from(at.month()),
            at.day(),
            at.hour(),
            at.minute(),
            at.second()
        );
        Some(Self { text, time })
    }

    /// The day, `YYYYMMDD`.
    pub(super) fn day(&self) -> &str {
        self.text.get(..8).unwrap_or_default()
    }
}

/// A moment as S3's documents have it: `2013-05-24T00:00:00Z`.
pub(crate) fn iso_time(time: SystemTime) -> String {
    let at = OffsetDateTime::from(time);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_parsed_in_their_one_format() {
        let date = AmzDate::parse("20130524T000001Z").unwrap();
        assert_eq!(iso_time(date.time), "2013-05-24T00:00:01Z");
        assert_eq!(date.day(), "20130524");
        assert_eq!(
            AmzDate::from_http_date("Fri, 24 May 2013 00:00:01 GMT"),
            Some(date)
        );
        for wrong in [
            "",
            "20130524",
            "20130524T000001",
            "20130524T0000010",
            "2013-05-24T00:00Z",
            "20131324T000000Z",
            "20130230T000000Z",
            "20130524T240000Z",
            "+0130524T000000Z",
            "2013052éT00000Z",
            "19691231T235959Z",
        ] {
            assert_eq!(AmzDate::parse(wrong), None, "{wrong}");
        }
    }
}
