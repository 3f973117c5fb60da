//! Decides which failures of something that fails again and again (a write to a full disk) are reported: its first, and its recovery.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between two reports, for something that fails and works by turns.
const QUIET: Duration = Duration::from_secs(60);

/// The failures of one thing.
#[derive(Debug, Default)]
pub struct FailureReports {
    last_report: Option<Instant>,
    /// Set while it fails.
    episode: Option<FailureEpisode>,
}

/// From a failure to the next success.
#[derive(Debug)]
struct FailureEpisode {
    is_reported: bool,
    /// What all its failures have cost together.
    cost: u64,
}

impl FailureReports {
    /// Counts a failure and its cost, in the caller's unit. Returns whether to report it.
    pub fn failed(&mut self, cost: u64, now: Instant) -> bool {
        if let Some(episode) = &mut self.episode {
            episode.cost += cost;
            return false;
        }
        let is_reported = self.last_report.is_none_or(|last| now - last >= QUIET);
        if is_reported {
            self.last_report = Some(now);
        }
        self.episode = Some(FailureEpisode { is_reported, cost });
        is_reported
    }

    /// Counts a success. If the failures before it were reported, returns what they have cost.
    pub fn worked(&mut self) -> Option<u64> {
        let episode = self.episode.take()?;
        episode.is_reported.then_some(episode.cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_once_and_an_intermittent_one_once_a_minute() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut failures = FailureReports::default();
        assert_eq!(failures.worked(), None);
        assert!(failures.failed(2, at(0)));
        assert!(!failures.failed(3, at(1000)));
        assert_eq!(failures.worked(), Some(5));
        assert_eq!(failures.worked(), None);
        assert!(failures.failed(1, at(2000)));
        assert_eq!(failures.worked(), Some(1));
        assert!(!failures.failed(1, at(2059)));
        assert_eq!(failures.worked(), None);
        assert!(failures.failed(1, at(2060)));
    }
}
