//! Work that a server repeats: each [`Chore`] at its own interval, one run of it at a time, on a thread that may wait for a disk.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

/// How often the memory is checked.
const TRIM_HEAP_EVERY: Duration = Duration::from_millis(500);

/// Connections that must have come to rest before a trim is worthwhile: some ten megabytes.
const ENOUGH: u64 = 500;

/// Work to repeat.
#[expect(missing_debug_implementations, reason = "it is two closures")]
pub struct Chore {
    every: Duration,
    /// Checked on the runtime: a chore that is not due wakes no other thread.
    is_due: Box<dyn FnMut() -> bool + Send>,
    run: Arc<dyn Fn() + Send + Sync>,
}

impl Chore {
    /// Work that is due after each interval, and at the start.
    pub fn new(every: Duration, run: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            every,
            is_due: Box::new(|| true),
            run: Arc::new(run),
        }
    }

    /// Returns free memory to the system, by `trim`, when many connections have come to rest: `rests` counts them.
    pub fn trim_heap(mut rests: impl FnMut() -> u64 + Send + 'static, trim: fn()) -> Self {
        let mut trimmer = HeapTrimmer::default();
        Self {
            is_due: Box::new(move || trimmer.is_due(rests())),
            ..Self::new(TRIM_HEAP_EVERY, trim)
        }
    }

    /// Repeats the work. A disk that hangs gets one run, not one more each time. Panics as the work does.
    pub async fn repeat(mut self) {
        let mut ticks = interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if (self.is_due)() {
                let run = Arc::clone(&self.run);
                if let Err(error) = spawn_blocking(move || run()).await {
                    std::panic::resume_unwind(error.into_panic());
                }
            }
        }
    }
}

/// Decides when freed memory of connections is returned to the system.
///
/// A connection uses some twenty kilobytes while something happens on it, and a wave of connections leaves that behind as free memory in
/// many small pieces. It is better kept while the next wave comes; once it is calm, ten thousand idle connections need half of the memory.
#[derive(Debug, Default)]
struct HeapTrimmer {
    /// The count at the last check.
    last_seen: u64,
    /// The count at the last trim.
    last_trimmed: u64,
}

impl HeapTrimmer {
    /// Checks the number of times that connections came to rest. Returns whether to trim: many have come to rest since the last trim, and
    /// hardly any since the last check.
    fn is_due(&mut self, rests: u64) -> bool {
        let is_calm = rests - self.last_seen < ENOUGH;
        let is_much = rests - self.last_trimmed >= ENOUGH;
        self.last_seen = rests;
        if is_calm && is_much {
            self.last_trimmed = rests;
        }
        is_calm && is_much
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_after_a_wave() {
        let mut trimmer = HeapTrimmer::default();
        let counts = [0, 10, 5_000, 10_000, 10_020, 10_020, 10_400, 10_600, 10_600];
        let trimmed: Vec<u64> = counts
            .into_iter()
            .filter(|rests| trimmer.is_due(*rests))
            .collect();
        assert_eq!(trimmed, [10_020, 10_600]);
    }
}
