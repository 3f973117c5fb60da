//! Numbers as people read them.

use std::time::Duration;

/// `96.0 MiB`: one digit behind the point, units of 1024.
pub(crate) fn bytes_text(bytes: u64) -> String {
    scaled_text(bytes as f64)
}

/// `45.0/96.0 MiB`: both in the unit of the whole, the first as wide as the second, so that following columns stay.
pub(super) fn fraction_text(done: u64, whole: u64) -> String {
    let (value, unit) = unit(whole as f64);
    let whole = digits(value, unit);
    let done = digits(done as f64 / 1024f64.powi(unit.into()), unit);
    format!(
        "{done:>width$}/{whole} {}",
        UNITS[usize::from(unit)],
        width = whole.len()
    )
}

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

fn scaled_text(value: f64) -> String {
    let (value, unit) = unit(value);
    format!("{} {}", digits(value, unit), UNITS[usize::from(unit)])
}

/// A number in a suitable unit, and the index of the unit in [`UNITS`].
fn unit(mut value: f64) -> (f64, u8) {
    // A value that would round up to 1024 belongs to the next unit.
    const NEXT: f64 = 1023.95;
    let mut unit = 0;
    while value >= NEXT && unit < 5 {
        value /= 1024.0;
        unit += 1;
    }
    (value, unit)
}

fn digits(value: f64, unit: u8) -> String {
    if unit == 0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// `94.1 MiB/s`.
pub(super) fn speed_text(per_second: f64) -> String {
    format!("{}/s", scaled_text(per_second))
}

/// `94.1 MiB/s`, of bytes that took a time.
pub(crate) fn rate_text(bytes: u64, elapsed: Duration) -> String {
    speed_text(bytes as f64 / elapsed.as_secs_f64().max(1e-6))
}

/// `12345 files/s`, `0.4 files/s`.
pub(crate) fn files_rate_text(per_second: f64) -> String {
    // A number with enough digits needs no decimals.
    let decimals = usize::from(per_second > 0.0 && per_second < 9.95);
    format!("{per_second:.decimals$} files/s")
}

/// `0:07`, `1:02:03`, `4d 5h`.
pub(crate) fn time_text(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes, seconds) = (
        seconds / 86_400,
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
    );
    if days > 0 {
        format!("{days}d {hours}h")
    } else if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

pub(super) fn connections_text(connections: usize) -> String {
    format!(
        "{connections} connection{}",
        if connections == 1 { "" } else { "s" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_to_seven_characters_and_their_unit() {
        assert_eq!(bytes_text(0), "0 B");
        assert_eq!(bytes_text(1023), "1023 B");
        assert_eq!(bytes_text(1024), "1.0 KiB");
        assert_eq!(bytes_text((1 << 20) - 1), "1.0 MiB");
        assert_eq!(bytes_text(96 << 20), "96.0 MiB");
        assert_eq!(bytes_text(u64::MAX), "16384.0 PiB");
        assert_eq!(rate_text(1 << 20, Duration::from_millis(500)), "2.0 MiB/s");
        assert_eq!(rate_text(0, Duration::ZERO), "0 B/s");
        assert_eq!(fraction_text(45 << 20, 196 << 20), " 45.0/196.0 MiB");
        assert_eq!(fraction_text(5, 10), " 5/10 B");
        let rates = [0.0, 0.44, 9.94, 9.96, 12_345.4].map(files_rate_text);
        assert_eq!(
            rates.join(" "),
            "0 files/s 0.4 files/s 9.9 files/s 10 files/s 12345 files/s"
        );
    }

    #[test]
    fn times_are_as_short_as_possible() {
        let text = |seconds| time_text(Duration::from_secs(seconds));
        assert_eq!(
            [text(0), text(59), text(3723), text(363_600)],
            ["0:00", "0:59", "1:02:03", "4d 5h"]
        );
    }
}
