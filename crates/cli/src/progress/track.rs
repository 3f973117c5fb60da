//! What is known of a running job, and how numbers are written.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The rate is taken over this long: steady for the eye, and soon right after a change.
const SPAN: Duration = Duration::from_secs(3);

/// A running job.
#[derive(Debug)]
pub(crate) struct Track {
    /// Bytes in place over time, the oldest first.
    looks: VecDeque<(Instant, u64)>,
    /// Bytes in the whole, if known.
    pub(crate) length: Option<u64>,
}

impl Track {
    /// A job that begins with some bytes in place.
    pub(crate) fn new(now: Instant, done: u64, length: Option<u64>) -> Self {
        Self { looks: VecDeque::from([(now, done)]), length }
    }

    /// Takes a look.
    pub(crate) fn look(&mut self, now: Instant, done: u64) {
        self.looks.push_back((now, done));
        while self.looks.len() > 2 && self.looks.get(1).is_some_and(|(then, _)| now.duration_since(*then) > SPAN) {
            self.looks.pop_front();
        }
    }

    /// Bytes in place.
    pub(crate) fn done(&self) -> u64 {
        self.looks.back().map_or(0, |(_, done)| *done)
    }

    /// Bytes a second of late.
    pub(crate) fn rate(&self) -> f64 {
        let (Some((then, before)), Some((now, after))) = (self.looks.front(), self.looks.back()) else { return 0.0 };
        let seconds = now.duration_since(*then).as_secs_f64();
        if seconds <= 0.0 { 0.0 } else { after.saturating_sub(*before) as f64 / seconds }
    }

    /// Time left at that rate, if both are known.
    pub(crate) fn left(&self) -> Option<Duration> {
        let missing = self.length?.saturating_sub(self.done());
        let seconds = missing as f64 / self.rate();
        // A time beyond a hundred hours is no news.
        (seconds.is_finite() && seconds < 360_000.0).then(|| Duration::from_secs_f64(seconds))
    }
}

/// `96.0 MiB`.
pub(crate) fn bytes_text(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1023.5 {
            return if unit == "B" { format!("{value:.0} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// `94.1 MiB/s`, from bytes and time.
pub(crate) fn rate_text(bytes: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-9);
    format!("{}/s", bytes_text(bytes as f64 / seconds))
}

/// `1:02:03` or `2:03`.
pub(crate) fn time_text(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(bytes_text(0.0), "0 B");
        assert_eq!(bytes_text(1023.0), "1023 B");
        assert_eq!(bytes_text(1024.0 * 1024.0), "1.0 MiB");
        assert_eq!(bytes_text(1e15), "909.5 TiB");
        assert_eq!(time_text(Duration::from_secs(3723)), "1:02:03");
        assert_eq!(time_text(Duration::from_secs(59)), "0:59");
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_is_that_of_the_last_seconds() {
        let mut track = Track::new(Instant::now(), 1000, Some(12_000));
        for done in 1..=10u64 {
            tokio::time::advance(Duration::from_secs(1)).await;
            track.look(Instant::now(), 1000 + done * if done > 5 { 1000 } else { 0 });
        }
        assert!((track.rate() - 1000.0).abs() < 1.0, "{}", track.rate());
        assert_eq!(track.left(), Some(Duration::from_secs(1)));
    }
}
