//! What is told of something that fails again and again, as a write to a full disk: that it began, and that it is over.

use std::time::Duration;

use tokio::time::Instant;

/// Of what fails and works by turns no more is told within this.
const QUIET: Duration = Duration::from_secs(60);

/// Something's failures, and whether one is told.
#[derive(Debug, Default)]
pub struct FailureReports {
    /// When one was told last.
    told: Option<Instant>,
    /// That it is failing now, and whether that was told.
    now: Option<FailureEpisode>,
}

/// From a failure to the next success.
#[derive(Debug)]
struct FailureEpisode {
    is_told: bool,
    /// What it has cost.
    cost: u64,
}

impl FailureReports {
    /// It failed, which has cost so much. Whether that is told.
    pub fn failed(&mut self, cost: u64, now: Instant) -> bool {
        if let Some(episode) = &mut self.now {
            episode.cost += cost;
            return false;
        }
        let is_told = self.told.is_none_or(|told| now - told >= QUIET);
        if is_told {
            self.told = Some(now);
        }
        self.now = Some(FailureEpisode { is_told, cost });
        is_told
    }

    /// It worked. What failing had cost before, if that was told.
    pub fn worked(&mut self) -> Option<u64> {
        let over = self.now.take()?;
        over.is_told.then_some(over.cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once_and_one_that_comes_and_goes_once_a_minute() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut failing = FailureReports::default();
        assert_eq!(failing.worked(), None);
        assert!(failing.failed(2, at(0)));
        assert!(!failing.failed(3, at(1000)));
        assert_eq!(failing.worked(), Some(5));
        assert_eq!(failing.worked(), None);
        assert!(failing.failed(1, at(2000)));
        assert_eq!(failing.worked(), Some(1));
        assert!(!failing.failed(1, at(2059)));
        assert_eq!(failing.worked(), None);
        assert!(failing.failed(1, at(2060)));
    }
}
