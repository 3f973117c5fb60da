//! When to try another number of connections, and which smaller one.

use std::time::Duration;

use super::level::RateSamples;

/// A window while holding, at most: long enough to average bursts of half a second.
pub(super) const LONGEST: Duration = Duration::from_secs(1);

/// The shortest, twice that of a ramp: with less than a second to go nothing that is found pays any more.
const SHORTEST: Duration = Duration::from_millis(100);

/// Between them a window is this share of the time that the job still takes: a trial that is clearly a loss ends with its
/// first window, so at half the rate it costs a twentieth; and shorter windows scatter more than they save.
const SHARE: f64 = 0.1;

/// Windows between trials: at first, and at most. One more connection for two windows in ten costs next to nothing, and a
/// link that has become wider without becoming faster for those who are there is noticed in no other way.
const EVERY: (u32, u32) = (4, 10);

/// Each connection brings this share of what a single one brought: then hardly anything is shared, and fewer would bring
/// less. The ramp's short windows are not more exact than this.
const UNSHARED: f64 = 0.7;

/// Each connection brings so many times what a single one brought: then that was still coming up to speed, and proves
/// nothing.
const UNTRUE: f64 = 1.2;

/// How long a number counts as too small after a trial of it brought less: a trial can be misled by a link that scatters,
/// and half the connections for a second in a minute cost less than a percent.
const TOO_FEW_FOR: Duration = Duration::from_secs(60);

/// A window while holding, when so many bytes are still to come at this rate.
pub(super) fn window(remaining: u64, rate: f64) -> Duration {
    let seconds = SHARE * remaining as f64 / rate.max(1.0);
    Duration::from_secs_f64(seconds.clamp(SHORTEST.as_secs_f64(), LONGEST.as_secs_f64()))
}

/// When the next trial is due, and what is known of smaller numbers.
#[derive(Debug)]
pub(super) struct ProbeSchedule {
    /// When the next trial is due.
    due: Duration,
    /// How many windows after a settling that is.
    pause: u32,
    /// So many brought less, and until when that is believed.
    too_few: (usize, Duration),
    /// What a single connection brought, in bytes a second, since the link last changed; 0 if that is unknown.
    single: f64,
}

impl Default for ProbeSchedule {
    fn default() -> Self {
        Self {
            due: Duration::MAX,
            pause: EVERY.0,
            too_few: (0, Duration::ZERO),
            single: 0.0,
        }
    }
}

impl ProbeSchedule {
    /// The ramp left a level behind.
    pub(super) fn climbed_from(&mut self, level: &RateSamples) {
        if level.connections() == 1 {
            self.single = level.mean();
        }
    }

    /// What a single connection brought says nothing about this link.
    pub(super) fn forget_single(&mut self) {
        self.single = 0.0;
    }

    /// A number was settled on: not yet another.
    pub(super) fn wait(&mut self, now: Duration, window: Duration) {
        self.due = now.saturating_add(window * self.pause);
    }

    pub(super) fn is_due(&self, now: Duration) -> bool {
        now >= self.due
    }

    /// A trial has ended: what paid may pay again soon, what did not is asked more seldom.
    pub(super) fn tried(&mut self, paid: bool) {
        self.pause = if paid {
            1
        } else {
            (self.pause.max(EVERY.0) * 2).min(EVERY.1)
        };
    }

    /// So few brought less than there was before.
    pub(super) fn brought_less(&mut self, connections: usize, now: Duration) {
        self.too_few = (connections, now.saturating_add(TOO_FEW_FOR));
        self.pause = EVERY.0;
    }

    /// A number below a level's that might bring as much: half, or at first what would be enough if nothing were shared.
    pub(super) fn doubts(
        &self,
        level: &RateSamples,
        ceiling: usize,
        now: Duration,
    ) -> Option<usize> {
        let half = level.connections() / 2;
        let (few, until) = self.too_few;
        let few = if now < until { few } else { 0 };
        let each = level.mean() / level.connections() as f64;
        let untrue = each > UNTRUE * self.single && level.connections() < ceiling;
        let unshared = self.single > 0.0 && each >= UNSHARED * self.single && !untrue;
        // As long as no step up has failed, one tells more: it costs less, and a ramp that noise has ended is set right.
        let up_first = self.pause == EVERY.0 && few == 0 && level.connections() < ceiling;
        if half <= few || unshared || up_first {
            return None;
        }
        let enough = (1..half).find(|count| *count as f64 * self.single >= level.mean());
        Some(enough.filter(|_| few == 0).unwrap_or(half))
    }
}
