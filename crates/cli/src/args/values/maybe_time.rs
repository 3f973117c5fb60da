//! Times of which none may be wanted: `0` is never, or at once.

use std::str::FromStr;

use super::{Duration, ValueError};

/// A time; none is written as 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MaybeTime(pub(crate) Option<std::time::Duration>);

impl FromStr for MaybeTime {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text.trim() {
            "0" | "0s" => Ok(Self(None)),
            _ => text.parse().map(|time: Duration| Self(Some(time.0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_a_time_too() {
        let some = |seconds| Ok(MaybeTime(Some(std::time::Duration::from_secs(seconds))));
        assert_eq!("0".parse(), Ok(MaybeTime(None)));
        assert_eq!("0s".parse(), Ok(MaybeTime(None)));
        assert_eq!("90".parse(), some(90));
        assert_eq!("1m".parse(), some(60));
        assert!("0x".parse::<MaybeTime>().is_err() && "".parse::<MaybeTime>().is_err());
    }
}
