//! What is told of a log that cannot be written: that it began, and that it is over, and nothing for each line.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

/// Of a disk that fails and works by turns no more is told within this.
const QUIET: Duration = Duration::from_secs(60);

/// What there is to tell of a log that goes on.
#[derive(Debug)]
pub enum LogNews {
    /// It cannot be written: lines are dropped, and counted, until it can.
    Failing(io::Error),
    /// It can be written again.
    Mended {
        /// Lines that were dropped meanwhile, for that.
        dropped: u64,
    },
    /// Its file cannot be opened again under its name: the old one is written on.
    NotReopened(io::Error),
}

/// Who is told, on the thread that writes.
pub(super) type Tell = Box<dyn FnMut(LogNews) + Send>;

/// A sink's failures. Whether one is told is what these say.
#[derive(Debug, Default)]
pub(super) struct Failing {
    /// When one was told last.
    told: Option<Instant>,
    /// That it is failing now, and whether that was told.
    now: Option<Episode>,
}

/// From a failure to what is written after it.
#[derive(Debug)]
struct Episode {
    is_told: bool,
    /// Lines that it has cost.
    dropped: u64,
}

impl Failing {
    /// So many lines were not written. Whether that is told.
    pub(super) fn failed(&mut self, lines: u64, now: Instant) -> bool {
        if let Some(episode) = &mut self.now {
            episode.dropped += lines;
            return false;
        }
        let is_told = self.told.is_none_or(|told| now - told >= QUIET);
        if is_told {
            self.told = Some(now);
        }
        self.now = Some(Episode {
            is_told,
            dropped: lines,
        });
        is_told
    }

    /// Some were. How many had been dropped, if that is told.
    pub(super) fn worked(&mut self) -> Option<u64> {
        let over = self.now.take()?;
        over.is_told.then_some(over.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once_and_one_that_comes_and_goes_once_a_minute() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut failing = Failing::default();
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
