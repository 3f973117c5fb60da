//! How numbers are written for people.

use std::time::Duration;

/// `96.0 MiB`: one digit behind the point, units of 1024.
pub(crate) fn bytes_text(bytes: u64) -> String {
    scaled(bytes as f64)
}

fn scaled(mut value: f64) -> String {
    // What would round up to 1024 is one of the next unit.
    const NEXT: f64 = 1023.95;
    if value < NEXT {
        return format!("{value:.0} B");
    }
    for unit in ["KiB", "MiB", "GiB", "TiB"] {
        value /= 1024.0;
        if value < NEXT {
            return format!("{value:.1} {unit}");
        }
    }
    format!("{:.1} PiB", value / 1024.0)
}

/// `94.1 MiB/s`.
pub(super) fn speed_text(per_second: f64) -> String {
    format!("{}/s", scaled(per_second))
}

/// `94.1 MiB/s`, of bytes that took a time.
pub(crate) fn rate_text(bytes: u64, elapsed: Duration) -> String {
    speed_text(bytes as f64 / elapsed.as_secs_f64().max(1e-6))
}

/// `0:07`, `1:02:03`, `4d 5h`.
pub(super) fn time_text(time: Duration) -> String {
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
    }

    #[test]
    fn times_are_as_long_as_they_need_be() {
        let text = |seconds| time_text(Duration::from_secs(seconds));
        assert_eq!(
            [text(0), text(59), text(3723), text(363_600)],
            ["0:00", "0:59", "1:02:03", "4d 5h"]
        );
    }
}
