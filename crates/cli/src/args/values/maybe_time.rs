//! Times that can be switched off: `0` means never, or at once.

use std::str::FromStr;

use super::{DurationArg, ValueError, quoted};

/// The times after which a system can be told to probe a silent peer, in seconds (tcp(7)).
const KEEPALIVE: std::ops::RangeInclusive<f64> = 1.0..=32_767.0;

/// A time, or none, written as 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptionalTimeArg(pub(crate) Option<std::time::Duration>);

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
    let is_possible = |time: std::time::Duration| KEEPALIVE.contains(&time.as_secs_f64());
    if time.0.is_none_or(is_possible) {
        return Ok(time);
    }
    let wrong = ValueError::new(format!("{} is out of range", quoted(text)));
    Err(wrong.with_hint("from 1s to 32767s, or 0 for none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_time() {
        let some = |seconds| {
            Ok(OptionalTimeArg(Some(std::time::Duration::from_secs(
                seconds,
            ))))
        };
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
}
