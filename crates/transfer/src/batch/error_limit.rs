//! The number or share of failures that stops a batch.

use std::str::FromStr;

/// Jobs that must have ended before a percentage is judged: of ten jobs three may fail by accident, of a
/// hundred hardly thirty.
const MIN_JOBS_FOR_PERCENT: u64 = 100;

/// How many jobs may fail: `N` or `P%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ErrorLimit {
    /// This many; with 0 the first failure exceeds the limit.
    Count(u64),
    /// This percentage of the jobs that have ended. It is judged from the hundredth job on, so a shorter
    /// batch never exceeds it.
    Percent(f64),
}

/// Why a text is not an [`ErrorLimit`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ErrorLimitError {
    /// Neither a number nor a number with a percent sign.
    #[error("{0:?} is neither a number of errors nor a percentage like 5%")]
    Malformed(String),
    /// Below 0% or above 100%.
    #[error("{0:?} is not a percentage from 0% to 100%")]
    PercentOutOfRange(String),
}

impl ErrorLimit {
    /// Whether `failed` of the jobs that have `ended` exceed the limit.
    #[must_use]
    pub fn is_exceeded(&self, failed: u64, ended: u64) -> bool {
        match self {
            Self::Count(most) => failed > *most,
            Self::Percent(percent_text) => {
                ended >= MIN_JOBS_FOR_PERCENT && failed as f64 * 100.0 > percent_text * ended as f64
            }
        }
    }
}

impl FromStr for ErrorLimit {
    type Err = ErrorLimitError;

    fn from_str(text: &str) -> Result<Self, ErrorLimitError> {
        let malformed = || ErrorLimitError::Malformed(text.to_owned());
        let plain = |number: &str| number.starts_with(|c: char| c.is_ascii_digit());
        let Some(percent_text) = text.trim().strip_suffix('%') else {
            let number = text.trim();
            let count = number.parse().ok().filter(|_| plain(number));
            return count.map(Self::Count).ok_or_else(malformed);
        };
        let percent_text = percent_text.trim_end();
        let percent: f64 = percent_text.parse().map_err(|_| malformed())?;
        if !(0.0..=100.0).contains(&percent) {
            return Err(ErrorLimitError::PercentOutOfRange(text.to_owned()));
        }
        // "+5", ".5", "-0" and "1e1" are refused: a number that looks odd is a typo.
        let digits = percent_text.chars().all(|c| c.is_ascii_digit() || c == '.');
        if !plain(percent_text) || !digits {
            return Err(malformed());
        }
        Ok(Self::Percent(percent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_as_users_write_them() {
        for (text, limit) in [
            ("0", ErrorLimit::Count(0)),
            (" 20 ", ErrorLimit::Count(20)),
            ("5%", ErrorLimit::Percent(5.0)),
            ("0.5 %", ErrorLimit::Percent(0.5)),
            ("100%", ErrorLimit::Percent(100.0)),
        ] {
            assert_eq!(text.parse(), Ok(limit), "{text}");
        }
        for text in [
            "", "%", "-1", "+1", "five", "5%%", "1e1%", "nan%", "1.5", "+5%", ".5%", "-0%",
        ] {
            let error = text.parse::<ErrorLimit>().unwrap_err();
            assert!(
                !matches!(error, ErrorLimitError::PercentOutOfRange(_)) || text == "nan%",
                "{text}"
            );
        }
        for text in ["101%", "-1%", "1e9%"] {
            let error = text.parse::<ErrorLimit>().unwrap_err();
            assert_eq!(error, ErrorLimitError::PercentOutOfRange(text.to_owned()));
        }
    }

    #[test]
    fn a_count_may_fail_and_a_percentage_is_judged_from_a_hundred_jobs_on() {
        assert!(!ErrorLimit::Count(3).is_exceeded(3, 3));
        assert!(ErrorLimit::Count(3).is_exceeded(4, 1_000_000));
        assert!(ErrorLimit::Count(0).is_exceeded(1, 1));
        let percent_text = ErrorLimit::Percent(5.0);
        assert!(!percent_text.is_exceeded(99, 99));
        assert!(percent_text.is_exceeded(99, 100));
        assert!(!percent_text.is_exceeded(5, 100));
        assert!(percent_text.is_exceeded(6, 100));
        assert!(ErrorLimit::Percent(0.0).is_exceeded(1, 100));
        assert!(!ErrorLimit::Percent(100.0).is_exceeded(1_000, 1_000));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text: String, failed: u64, ended: u64) {
            if let Ok(limit) = text.parse::<ErrorLimit>() {
                let _ = limit.is_exceeded(failed, ended);
            }
        }

        #[test]
        fn one_more_failure_never_ends_an_excess(percent in 0.0..100.0f64, failed in 0u64..10_000, ended in 0u64..10_000) {
            let limit = ErrorLimit::Percent(percent);
            prop_assert!(!limit.is_exceeded(failed, ended) || limit.is_exceeded(failed + 1, ended));
        }
    }
}
