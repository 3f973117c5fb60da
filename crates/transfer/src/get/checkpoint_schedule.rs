//! When a checkpoint is due: a balance between the bytes lost to a kill and the cost of a sync.
//!
//! By time, so that a slow link's bytes are kept, and by bytes, so that a fast link's are. The first
//! checkpoint comes early, since a user who mistyped a flag stops the command within its first second. A sync
//! takes as long as the disk has data to write, so two never run at once, and bytes alone bring none before
//! as much time has passed as the last sync took.
//!
//! Order of calls: [`CheckpointSchedule::is_due`] at any time, [`CheckpointSchedule::on_started`] and
//! [`CheckpointSchedule::on_finished`] around each checkpoint. Times are durations since the job began.

use std::time::Duration;

/// Limits of a [`CheckpointSchedule`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointOptions {
    /// The first checkpoint is due after this time.
    pub first_after: Duration,
    /// Each further checkpoint is due this long after the one before began.
    pub interval: Duration,
    /// A checkpoint is due when this number of written bytes is not recorded in the journal.
    pub unrecorded_bytes: u64,
    /// The shortest time between the beginnings of two checkpoints that unrecorded bytes make due.
    pub min_interval: Duration,
}

impl Default for CheckpointOptions {
    fn default() -> Self {
        Self {
            // A user who stops a command sooner expects no progress to be kept.
            first_after: Duration::from_millis(250),
            // A second of work lost to a kill is nothing; a sync a second is cheap on any disk.
            interval: Duration::from_secs(1),
            // Half a second of a gigabit link; a faster link reaches it before the interval is over.
            unrecorded_bytes: 64 << 20,
            // Four a second on the fastest link: each is a system call or two and some kilobytes of journal.
            min_interval: Duration::from_millis(250),
        }
    }
}

/// Decides when a job's checkpoints are due.
#[derive(Debug)]
pub(crate) struct CheckpointSchedule {
    options: CheckpointOptions,
    /// When the last checkpoint began; `None` before the first.
    last_started: Option<Duration>,
    /// When the last checkpoint ended, and how long it took; `None` while one runs and before the first.
    last_finished: Option<(Duration, Duration)>,
}

impl CheckpointSchedule {
    /// A job without checkpoints so far.
    #[must_use]
    pub(crate) fn new(options: CheckpointOptions) -> Self {
        Self {
            options,
            last_started: None,
            last_finished: None,
        }
    }

    /// Whether a checkpoint should begin now. `unrecorded`: bytes that are written and not recorded in the
    /// journal.
    #[must_use]
    pub(crate) fn is_due(&self, now: Duration, unrecorded: u64) -> bool {
        let options = &self.options;
        let enough = unrecorded >= options.unrecorded_bytes;
        match (self.last_started, self.last_finished) {
            _ if unrecorded == 0 => false,
            (None, _) => enough || now >= options.first_after,
            (Some(_), None) => false,
            (Some(begun), Some((ended, took))) => {
                let since = now.saturating_sub(begun);
                let rested = now.saturating_sub(ended) >= took;
                since >= options.interval || (enough && rested && since >= options.min_interval)
            }
        }
    }

    /// A checkpoint began.
    pub(crate) fn on_started(&mut self, now: Duration) {
        self.last_started = Some(now);
        self.last_finished = None;
    }

    /// The checkpoint ended.
    pub(crate) fn on_finished(&mut self, now: Duration) {
        let begun = self.last_started.unwrap_or(now);
        self.last_finished = Some((now, now.saturating_sub(begun)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    fn schedule() -> CheckpointSchedule {
        CheckpointSchedule::new(CheckpointOptions::default())
    }

    #[test]
    fn b1_the_first_checkpoint_is_due_after_a_quarter_of_a_second_or_64_mib() {
        let schedule = schedule();
        assert!(!schedule.is_due(249 * MS, 1));
        assert!(schedule.is_due(250 * MS, 1));
        assert!(!schedule.is_due(MS, (64 << 20) - 1));
        assert!(schedule.is_due(MS, 64 << 20));
        assert!(!schedule.is_due(10_000 * MS, 0), "nothing to claim");
    }

    #[test]
    fn further_checkpoints_are_due_each_second_and_sooner_after_many_bytes() {
        let mut schedule = schedule();
        schedule.on_started(250 * MS);
        schedule.on_finished(251 * MS);
        assert!(!schedule.is_due(1249 * MS, 1) && schedule.is_due(1250 * MS, 1));
        assert!(!schedule.is_due(499 * MS, 1 << 40) && schedule.is_due(500 * MS, 1 << 40));
    }

    #[test]
    fn a_slow_disk_rests_as_long_as_its_sync_took_unless_the_interval_is_over() {
        let mut schedule = schedule();
        schedule.on_started(Duration::ZERO);
        schedule.on_finished(400 * MS);
        assert!(!schedule.is_due(799 * MS, 1 << 40) && schedule.is_due(800 * MS, 1 << 40));
        schedule.on_started(800 * MS);
        schedule.on_finished(3000 * MS);
        assert!(schedule.is_due(3000 * MS, 1));
    }

    proptest! {
        /// At any rate and on any disk: never two at once, no more than four a second, and no second without
        /// one when the disk is quick.
        #[test]
        fn checkpoints_are_neither_too_many_nor_too_few(rate in 1u64..4_000_000, sync in 0u32..400) {
            let mut schedule = schedule();
            let (mut unrecorded, mut until, mut begun) = (0, None, Vec::new());
            for ms in 0..10_000 {
                let now = ms * MS;
                unrecorded += rate;
                if until.is_some_and(|until| now >= until) {
                    schedule.on_finished(now);
                    until = None;
                }
                if schedule.is_due(now, unrecorded) {
                    prop_assert!(until.is_none(), "two at once");
                    schedule.on_started(now);
                    (unrecorded, until) = (0, Some(now + sync * MS));
                    begun.push(now);
                }
            }
            prop_assert!(begun.len() <= 41, "{} in ten seconds", begun.len());
            prop_assert!(begun.windows(2).all(|pair| pair[1] - pair[0] <= 1001 * MS));
        }
    }
}
