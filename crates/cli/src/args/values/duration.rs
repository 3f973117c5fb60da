//! Times: `30`, `30s`, `500ms`, `1m30s`.

use std::str::FromStr;

use super::{ValueError, quoted, split_number};

/// A time, from a millisecond to a year. A number without a unit counts seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DurationArg(pub(crate) std::time::Duration);

impl FromStr for DurationArg {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wrong = || {
            ValueError::new(format!("{} is not a time", quoted(text)))
                .with_hint("write a time as 30s, 500ms or 1m30s")
        };
        let mut rest = text.trim();
        let mut seconds = 0.0;
        while !rest.is_empty() {
            let (number, units) = split_number(rest);
            let number: f64 = number.parse().map_err(|_| wrong())?;
            let end = units
                .find(|c: char| c.is_ascii_digit())
                .unwrap_or(units.len());
            seconds += number
                * match units[..end].trim() {
                    "" | "s" => 1.0,
                    "ms" => 1e-3,
                    "m" => 60.0,
                    "h" => 3600.0,
                    "d" => 86_400.0,
                    _ => return Err(wrong()),
                };
            rest = &units[end..];
        }
        // A timeout of more than a year has no effect; one of zero would fail everything.
        if text.trim().is_empty() {
            return Err(wrong());
        } else if seconds < 1e-3 {
            return Err(ValueError::too_short(text, "1ms"));
        } else if seconds > 31_536_000.0 {
            let too_long = ValueError::new(format!("{} is too long", quoted(text)));
            return Err(too_long.with_hint("the longest time is 365d"));
        }
        Ok(Self(std::time::Duration::from_secs_f64(seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_users_write_them() {
        let time = |text: &str| {
            text.parse::<DurationArg>()
                .map(|time| time.0.as_millis())
                .ok()
        };
        assert_eq!(time("30"), Some(30_000));
        assert_eq!(time("1m30s"), Some(90_000));
        assert_eq!(time("1m 30s"), Some(90_000));
        assert_eq!(time("250ms"), Some(250));
        assert_eq!(time("1.5s"), Some(1500));
        assert_eq!(time("1h"), Some(3_600_000));
        assert_eq!(time("1d12h"), Some(129_600_000));
        for wrong in ["", "s", "5x", "-1s", "0", "99999h", "1.2.3", "NaN"] {
            assert_eq!(time(wrong), None, "{wrong:?}");
        }
    }
}
