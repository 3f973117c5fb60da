//! A moment as the time since 1970, to the nanosecond, also before 1970.
//!
//! As stat(2) has it, seconds are rounded down and the nanoseconds are counted up from there: a tenth of a second before 1970 is second -1
//! and 900,000,000 nanoseconds. As a text that same moment is `-0.1`, and not `-1.9` (row F34).

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds in a second.
const SECOND: i128 = 1_000_000_000;

/// A moment. As text it is decimal seconds since 1970, with a minus sign before that, as rclone has it in the metadata of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime {
    nanoseconds: i128,
}

/// Why a text is not a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not seconds since 1970")]
pub struct UnixTimeError;

impl UnixTime {
    /// The moment that stat(2) gives as two numbers.
    #[must_use]
    pub fn from_stat(seconds: i64, nanoseconds: i64) -> Self {
        Self::from_nanoseconds(i128::from(seconds) * SECOND + i128::from(nanoseconds))
    }

    /// The moment so many nanoseconds after 1970, or before it.
    #[must_use]
    pub fn from_nanoseconds(nanoseconds: i128) -> Self {
        Self { nanoseconds }
    }

    /// Nanoseconds since 1970; negative before.
    #[must_use]
    pub fn nanoseconds(self) -> i128 {
        self.nanoseconds
    }

    /// Whole seconds since 1970, rounded down; negative before.
    #[must_use]
    pub fn whole_seconds(self) -> i128 {
        self.nanoseconds.div_euclid(SECOND)
    }

    /// The moment as the standard library has it; `None` if that cannot hold it.
    #[must_use]
    pub fn to_system_time(self) -> Option<SystemTime> {
        let span = self.nanoseconds.unsigned_abs();
        let seconds = u64::try_from(span / SECOND.unsigned_abs()).ok()?;
        let rest = u32::try_from(span % SECOND.unsigned_abs()).ok()?;
        let span = Duration::new(seconds, rest);
        if self.nanoseconds < 0 {
            UNIX_EPOCH.checked_sub(span)
        } else {
            UNIX_EPOCH.checked_add(span)
        }
    }
}

impl From<SystemTime> for UnixTime {
    fn from(time: SystemTime) -> Self {
        let signed = |span: Duration| i128::try_from(span.as_nanos()).unwrap_or(i128::MAX);
        Self::from_nanoseconds(match time.duration_since(UNIX_EPOCH) {
            Ok(since) => signed(since),
            Err(before) => -signed(before.duration()),
        })
    }
}

impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.nanoseconds < 0 { "-" } else { "" };
        let span = self.nanoseconds.unsigned_abs();
        let second = SECOND.unsigned_abs();
        write!(f, "{sign}{}.{:09}", span / second, span % second)
    }
}

impl FromStr for UnixTime {
    type Err = UnixTimeError;

    /// Parses seconds with an optional fraction. Digits beyond nanoseconds are cut off.
    fn from_str(text: &str) -> Result<Self, UnixTimeError> {
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(seconds) || !is_number(fraction) {
            return Err(UnixTimeError);
        }
        let seconds: u64 = seconds.parse().map_err(|_| UnixTimeError)?;
        let padded = format!("{fraction:0<9}");
        let rest: i128 = padded[..9].parse().map_err(|_| UnixTimeError)?;
        let span = i128::from(seconds) * SECOND + rest;
        Ok(Self::from_nanoseconds(if is_negative {
            -span
        } else {
            span
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What rclone reads: the digits around the point, then the sign (swift's FloatStringToTime).
    fn read_by_rclone(text: &str) -> i128 {
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let nanoseconds: i128 = format!("{fraction:0<9}")[..9].parse().unwrap();
        sign * (seconds.parse::<i128>().unwrap() * SECOND + nanoseconds)
    }

    /// What rclone writes: no zeros at the end.
    fn written_by_rclone(nanoseconds: i128) -> String {
        let sign = if nanoseconds < 0 { "-" } else { "" };
        let digits = format!("{:010}", nanoseconds.unsigned_abs());
        let (seconds, fraction) = digits.split_at(digits.len() - 9);
        match fraction.trim_end_matches('0') {
            "" => format!("{sign}{seconds}"),
            fraction => format!("{sign}{seconds}.{fraction}"),
        }
    }

    #[test]
    fn f34_a_tenth_of_a_second_before_1970_is_minus_a_tenth() {
        for (seconds, nanoseconds, text) in [
            (-1, 900_000_000, "-0.100000000"),
            (-2, 100_000_000, "-1.900000000"),
            (-86_401, 500_000_000, "-86400.500000000"),
            (-1, 0, "-1.000000000"),
            (0, 0, "0.000000000"),
            (1, 5, "1.000000005"),
        ] {
            let time = UnixTime::from_stat(seconds, nanoseconds);
            assert_eq!(time.to_string(), text);
            assert_eq!(text.parse(), Ok(time));
            assert_eq!(time.whole_seconds(), i128::from(seconds), "{text}");
        }
        for wrong in [
            "",
            "-",
            "1.",
            ".5",
            "1e9",
            "--1",
            "+1",
            "1.5.5",
            "99999999999999999999",
        ] {
            assert_eq!(wrong.parse::<UnixTime>(), Err(UnixTimeError), "{wrong}");
        }
        let longer = "1.0000000059999".parse();
        assert_eq!(longer, Ok(UnixTime::from_nanoseconds(1_000_000_005)));
    }

    proptest! {
        #[test]
        fn f34_every_time_comes_back(seconds in -(1_i64 << 40)..1 << 40, nanoseconds in 0..1_000_000_000_i64) {
            let time = UnixTime::from_stat(seconds, nanoseconds);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
            prop_assert_eq!(time.to_system_time().map(UnixTime::from), Some(time));
            prop_assert_eq!(time.whole_seconds(), i128::from(seconds));
            prop_assert_eq!(read_by_rclone(&time.to_string()), time.nanoseconds());
            prop_assert_eq!(written_by_rclone(time.nanoseconds()).parse(), Ok(time));
        }

        #[test]
        fn f34_no_text_is_a_panic(text in "[-0-9.+eé]{0,40}") {
            if let Ok(time) = text.parse::<UnixTime>() {
                let _ = (time.to_system_time(), time.to_string());
            }
        }
    }
}
