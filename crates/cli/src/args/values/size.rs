//! Numbers of bytes: `5`, `500k`, `1.5M`, `2GiB`.

use std::str::FromStr;

use super::{ValueError, quoted, split_number};

/// A number of bytes, at least one. All units are powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeArg(pub(crate) u64);

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

#[cfg(test)]
mod tests {
    use super::*;

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
