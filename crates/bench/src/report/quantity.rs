//! Numbers as reports show them: three digits, and one unit for a column.

use crate::results::RatioInterval;

/// From this mean size on, a rate is shown in bytes.
const BYTES_WORTH_A_RATE: f64 = 65_536.0;
const MEBIBYTE: f64 = 1_048_576.0;

/// The unit of a column of times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TimeUnit {
    pub(super) symbol: &'static str,
    pub(super) per_second: f64,
}

impl TimeUnit {
    /// The unit in which the shortest of these seconds still has digits and the longest is no long number.
    pub(super) fn for_times(seconds: impl IntoIterator<Item = f64>) -> Self {
        let (symbol, per_second) = match ends(seconds) {
            (low, high) if high >= 1.0 && low >= 0.05 || high >= 100.0 => ("s", 1.0),
            (_, high) if high > 0.0 && high < 0.001 => ("µs", 1e6),
            _ => ("ms", 1e3),
        };
        Self { symbol, per_second }
    }

    /// The number, without the unit.
    pub(super) fn show(self, seconds: f64) -> String {
        three_digits(seconds * self.per_second)
    }
}

/// The least and the greatest of the numbers above 0; without any, the greatest is 0.
pub(super) fn ends(numbers: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let positive = numbers.into_iter().filter(|number| *number > 0.0);
    positive.fold((f64::MAX, 0.0), |(low, high), number| {
        (low.min(number), high.max(number))
    })
}

/// How long a run took.
pub(super) fn show_duration(seconds: f64) -> String {
    match (seconds / 60.0).floor() {
        0.0 => format!("{} s", three_digits(seconds)),
        minutes => format!("{minutes:.0} min {:.0} s", (seconds % 60.0).floor()),
    }
}

/// Requests a second, or MiB a second where a request carries enough for that to be of interest.
pub(super) fn show_rate(successes: f64, bytes: f64, seconds: f64) -> String {
    if successes <= 0.0 || seconds <= 0.0 {
        return String::new();
    }
    if bytes / successes >= BYTES_WORTH_A_RATE {
        format!("{} MiB/s", three_digits(bytes / MEBIBYTE / seconds))
    } else {
        format!("{}/s", three_digits(successes / seconds))
    }
}

/// Bytes as MiB.
pub(super) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / MEBIBYTE
}

/// The ratio and its interval, all with the digits that suit the ratio.
pub(super) fn show_ratio(ratio: RatioInterval) -> String {
    let decimals = ratio_decimals(ratio.ratio);
    format!("{:.decimals$} {}", ratio.ratio, show_interval(ratio))
}

/// The interval alone, in parentheses.
pub(super) fn show_interval(ratio: RatioInterval) -> String {
    let decimals = ratio_decimals(ratio.ratio);
    format!("({:.decimals$} to {:.decimals$})", ratio.low, ratio.high)
}

fn ratio_decimals(ratio: f64) -> usize {
    match ratio {
        ..0.1 => 3,
        _ => decimals(ratio).min(2),
    }
}

/// A number with about three digits, and never in powers of ten.
pub(super) fn three_digits(number: f64) -> String {
    format!("{number:.*}", decimals(number))
}

fn decimals(number: f64) -> usize {
    match number.abs() {
        0.0 | 99.95.. => 0,
        9.995.. => 1,
        0.9995.. => 2,
        0.01.. => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let shown = |number| three_digits(number);
        assert_eq!(shown(0.0), "0");
        assert_eq!(shown(0.4363), "0.436");
        assert_eq!(shown(3.318), "3.32");
        assert_eq!(shown(43.61), "43.6");
        assert_eq!(shown(99.96), "100");
        assert_eq!(shown(1003.75), "1004");
    }

    #[test]
    fn a_column_has_one_unit() {
        let unit = |times: &[f64]| TimeUnit::for_times(times.iter().copied()).symbol;
        assert_eq!(unit(&[0.097, 0.436, 3.3]), "s");
        assert_eq!(unit(&[0.0002, 1.003]), "ms");
        assert_eq!(unit(&[0.0002, 0.0007]), "µs");
        assert_eq!(unit(&[0.4]), "ms");
        assert_eq!(unit(&[]), "ms");
        assert_eq!(show_duration(8.2), "8.20 s");
        assert_eq!(show_duration(192.4), "3 min 12 s");
    }

    #[test]
    fn rates_are_of_bytes_where_files_are_large() {
        assert_eq!(show_rate(100.0, 102_400.0, 0.5), "200/s");
        assert_eq!(show_rate(2.0, 20.0 * MEBIBYTE, 0.5), "40.0 MiB/s");
        assert_eq!(show_rate(0.0, 0.0, 0.5), "");
    }

    #[test]
    fn an_interval_has_the_digits_of_its_ratio() {
        let ratio = |ratio, low, high| show_ratio(RatioInterval { ratio, low, high });
        assert_eq!(ratio(0.5321, 0.4981, 0.5702), "0.53 (0.50 to 0.57)");
        assert_eq!(ratio(12.34, 11.1, 14.0), "12.3 (11.1 to 14.0)");
        assert_eq!(ratio(0.0123, 0.0111, 0.014), "0.012 (0.011 to 0.014)");
    }
}
