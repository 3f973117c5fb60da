//! Times, sizes and numbers: `1m30s`, `1.5M`, `16`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use haul_transfer::MinRate;
use haul_transfer::put::{MAX_PART_BYTES, MIN_PART_BYTES};

use super::{ValueError, quoted};

/// A time, from a millisecond to a year. A number without a unit counts seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DurationArg(pub(crate) Duration);

impl From<Duration> for DurationArg {
    fn from(time: Duration) -> Self {
        Self(time)
    }
}

impl fmt::Display for DurationArg {
    /// `500ms`, `75s`, `5m`, `1h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.subsec_millis());
        match (seconds, millis) {
            (_, 1..) => write!(f, "{}ms", self.0.as_millis()),
            (3600.., _) if seconds % 3600 == 0 => write!(f, "{}h", seconds / 3600),
            (300.., _) if seconds % 60 == 0 => write!(f, "{}m", seconds / 60),
            _ => write!(f, "{seconds}s"),
        }
    }
}

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
        Ok(Self(Duration::from_secs_f64(seconds)))
    }
}

/// The times after which a system can be told to probe a silent peer, in seconds (tcp(7)).
const KEEPALIVE: std::ops::RangeInclusive<f64> = 1.0..=32_767.0;

/// A time, or none, written as 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptionalTimeArg(pub(crate) Option<Duration>);

impl fmt::Display for OptionalTimeArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => DurationArg(time).fmt(f),
            None => f.write_str("0"),
        }
    }
}

impl FromStr for OptionalTimeArg {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text.trim() {
            "0" | "0s" => Ok(Self(None)),
            _ => text.parse().map(|time: DurationArg| Self(Some(time.0))),
        }
    }
}

/// How long a peer may be silent before TCP probes it.
pub(crate) fn keepalive(text: &str) -> Result<OptionalTimeArg, ValueError> {
    let time: OptionalTimeArg = text.parse()?;
    let is_possible = |time: Duration| KEEPALIVE.contains(&time.as_secs_f64());
    if time.0.is_none_or(is_possible) {
        return Ok(time);
    }
    let wrong = ValueError::new(format!("{} is out of range", quoted(text)));
    Err(wrong.with_hint("from 1s to 32767s, or 0 for none"))
}

/// A number of bytes, at least one. All units are powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeArg(pub(crate) u64);

impl fmt::Display for SizeArg {
    /// In bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SizeArg {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wrong = || {
            ValueError::new(format!("{} is not a size", quoted(text)))
                .with_hint("write a size as 500k, 5M or 1.5G")
        };
        let (number, unit) = split_number(text.trim());
        let power = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 1,
            "m" | "mb" | "mib" => 2,
            "g" | "gb" | "gib" => 3,
            "t" | "tb" | "tib" => 4,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let bytes = number * 1024f64.powi(power);
        // An exbibyte at most: sums of larger offsets could overflow.
        if !(1.0..=1024f64.powi(6)).contains(&bytes) {
            return Err(ValueError::new(format!("{} is out of range", quoted(text)))
                .with_hint("from 1 byte to 1024 petabytes"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was checked"
        )]
        Ok(Self(bytes as u64))
    }
}

/// The lowest rate of a download, `RATE[:TIME]`, or 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MinRateArg(pub(crate) MinRate);

impl FromStr for MinRateArg {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (rate, time) = text
            .split_once(':')
            .map_or((text, None), |(rate, time)| (rate, Some(time)));
        let window = time.map_or(Ok(MinRate::DEFAULT_WINDOW), |time| {
            time.parse().map(|time: DurationArg| time.0)
        })?;
        let bytes_per_second = match rate.trim() {
            "0" => 0,
            rate => {
                let wrong = |_| {
                    ValueError::new(format!("{} is not a rate", quoted(rate)))
                        .with_hint("write bytes a second, as 500 or 20k, perhaps with a time, as 20k:1m; 0 means no limit")
                };
                rate.parse::<SizeArg>().map_err(wrong)?.0
            }
        };
        Ok(Self(MinRate {
            bytes_per_second,
            window,
        }))
    }
}

/// A count, such as retries.
pub(crate) fn non_negative_number<T: FromStr>(text: &str) -> Result<T, ValueError> {
    text.trim().parse().map_err(|_| {
        ValueError::new(format!("{} is not a number", quoted(text))).with_hint("write 0 or more")
    })
}

/// The size of a part, in S3's limits.
pub(crate) fn part_size(text: &str) -> Result<SizeArg, ValueError> {
    let size: SizeArg = text.parse()?;
    if (MIN_PART_BYTES..=MAX_PART_BYTES).contains(&size.0) {
        Ok(size)
    } else {
        let error = ValueError::new(format!("{} is not a part size", quoted(text)));
        Err(error.with_hint("from 5M to 5G"))
    }
}

/// A number of connections. More than some hundreds make a download slower and annoy the origin.
pub(crate) fn connection_count(text: &str) -> Result<u16, ValueError> {
    let number = text
        .trim()
        .parse()
        .ok()
        .filter(|number| (1..=256).contains(number));
    number.ok_or_else(|| {
        ValueError::new(format!("{} is not a number of connections", quoted(text)))
            .with_hint("from 1 to 256")
    })
}

/// A number of files at once. Each needs an open connection and an open file.
pub(crate) fn job_count(text: &str) -> Result<u16, ValueError> {
    let number = text
        .trim()
        .parse()
        .ok()
        .filter(|number| (1..=4096).contains(number));
    number.ok_or_else(|| {
        ValueError::new(format!("{} is not a number of files", quoted(text)))
            .with_hint("from 1 to 4096")
    })
}

pub(crate) fn thread_count(text: &str) -> Result<usize, ValueError> {
    number_within(text, 1024, "number of threads")
}

/// A number of warm connections, or 0.
pub(crate) fn warm_connections(text: &str) -> Result<usize, ValueError> {
    match text.trim() {
        "0" => Ok(0),
        text => number_within(text, 1024, "number")
            .map_err(|wrong| wrong.with_hint("from 1 to 1024, or 0 for none")),
    }
}

/// A number of things that need memory each.
pub(crate) fn positive_number(text: &str) -> Result<usize, ValueError> {
    number_within(text, 1 << 24, "number")
}

fn number_within(text: &str, most: usize, what: &str) -> Result<usize, ValueError> {
    let wrong = match text.trim().parse::<u128>() {
        Ok(0) => "too few".to_owned(),
        Ok(number) => match usize::try_from(number)
            .ok()
            .filter(|number| *number <= most)
        {
            Some(number) => return Ok(number),
            None => "too many".to_owned(),
        },
        Err(_) => format!("not a {what}"),
    };
    Err(ValueError::new(format!("{} is {wrong}", quoted(text)))
        .with_hint(format!("from 1 to {most}")))
}

/// Splits behind a decimal number.
fn split_number(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text.split_at(end)
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
        for text in ["250ms", "75s", "1h"] {
            assert_eq!(text.parse::<DurationArg>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn zero_is_no_time() {
        let some = |seconds| Ok(OptionalTimeArg(Some(Duration::from_secs(seconds))));
        assert_eq!("0".parse(), Ok(OptionalTimeArg(None)));
        assert_eq!("0s".parse(), Ok(OptionalTimeArg(None)));
        assert_eq!("90".parse(), some(90));
        assert_eq!("1m".parse(), some(60));
        assert_eq!(keepalive("0"), Ok(OptionalTimeArg(None)));
        assert_eq!(keepalive("1s"), some(1));
        assert_eq!(keepalive("32767"), some(32_767));
        for wrong in ["999ms", "32768", "10h", "x"] {
            assert!(keepalive(wrong).is_err(), "{wrong}");
        }
        assert!("0x".parse::<OptionalTimeArg>().is_err() && "".parse::<OptionalTimeArg>().is_err());
    }

    #[test]
    fn a48_rates_with_and_without_a_time() {
        let rate = |text: &str| {
            let found = text.parse::<MinRateArg>().map(|rate| rate.0);
            found.map(|rate| (rate.bytes_per_second, rate.window.as_secs()))
        };
        assert_eq!(rate("100:5m"), Ok((100, 300)));
        assert_eq!(rate("20k"), Ok((20 << 10, 30)));
        assert_eq!(rate("0"), Ok((0, 30)));
        for (wrong, text) in [
            ("", "\"\" is not a rate"),
            ("-1", "\"-1\" is not a rate"),
            ("fast:5m", "\"fast\" is not a rate"),
            ("5m:100:1", "\"100:1\" is not a time"),
            ("100:", "\"\" is not a time"),
            ("100:0", "\"0\" is too short"),
        ] {
            let error = rate(wrong).unwrap_err();
            assert_eq!(error.to_string(), text);
            assert!(error.hint().is_some());
        }
    }

    fn size(text: &str) -> Option<u64> {
        text.parse::<SizeArg>().map(|size| size.0).ok()
    }

    #[test]
    fn units_are_powers_of_1024_however_they_are_written() {
        assert_eq!(size("5"), Some(5));
        assert_eq!(size("5B"), Some(5));
        for text in ["5k", "5K", "5 kB", "5KiB"] {
            assert_eq!(size(text), Some(5 << 10), "{text:?}");
        }
        assert_eq!(size("1.5M"), Some(3 << 19));
        assert_eq!(size("2GiB"), Some(2 << 30));
        assert_eq!(size("1T"), Some(1 << 40));
    }

    #[test]
    fn wrong_sizes_are_refused() {
        for wrong in [
            "",
            "k",
            "-1",
            "5x",
            "0",
            "1e400",
            "5 5",
            "1..5",
            "5ib",
            "9999999999T",
            "NaN",
            "inf",
        ] {
            assert_eq!(size(wrong), None, "{wrong:?}");
        }
        let error = "5x".parse::<SizeArg>().unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), error.hint()),
            (
                "\"5x\" is not a size",
                Some("write a size as 500k, 5M or 1.5G")
            )
        );
    }
}
