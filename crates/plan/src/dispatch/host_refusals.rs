//! What a host's refusals (429, 503, resets) leave of its number.
//!
//! A refusal is news only where many are: an origin that takes four at once refuses half of eight, one that fails at random
//! refuses one in a hundred whatever the number is, and to give up a place for each of those would end at one. So a few refusals
//! are forgiven, and each so many answers forgive one more; what goes beyond lowers the number to those that were not refused.
//! All that were asked before that are of the same moment, and only show how far down the limit is.
//!
//! A limit is lifted by one after a while. Where that one is refused, the while doubles; where it is not, the next step is larger
//! and comes soon, for then it was no limit but a bad moment.

use std::time::Duration;

/// So many refusals are forgiven: fewer would be met by accident every few thousand answers, where one in a hundred is refused.
const FORGIVEN_REFUSALS: f32 = 3.0;

/// An answer forgives this share of a refusal: an origin in trouble may refuse one request in ten whatever their number, and one that
/// has a limit refuses far more of those beyond it.
const FORGIVEN_PER_RESPONSE: f32 = 0.10;

/// How long a limit stands: at first, and at most.
const STANDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// The most that a host rests because Retry-After says so: longer than most limits' windows, as for a single download.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);

/// The rest after the second refusal in a row with nothing beside it, doubled with each one more: at first, and at most.
const REST: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// What one host has refused.
#[derive(Debug, Clone)]
pub(super) struct HostRefusals {
    /// No more than this at once; none while nothing was refused.
    limit: Option<usize>,
    /// Refusals that were not forgiven yet.
    unforgiven: f32,
    /// Refusals since the last answer.
    in_a_row: u32,
    /// When the limit was last lowered: what was asked before is of that moment.
    lowered_at: Duration,
    /// When it is lifted, and how long it stands.
    lift_at: Duration,
    limit_duration: Duration,
    /// Whether it was lifted since it was last lowered.
    was_lifted: bool,
    /// By how much.
    lift_step: usize,
}

impl HostRefusals {
    pub(super) fn new() -> Self {
        Self {
            limit: None,
            unforgiven: 0.0,
            in_a_row: 0,
            lowered_at: Duration::ZERO,
            lift_at: Duration::MAX,
            limit_duration: STANDS.0,
            was_lifted: false,
            lift_step: 1,
        }
    }

    /// What is allowed; none if there is no limit.
    pub(super) fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// Something was answered.
    pub(super) fn on_response(&mut self) {
        self.unforgiven = (self.unforgiven - FORGIVEN_PER_RESPONSE).max(0.0);
        self.in_a_row = 0;
    }

    /// What was asked for at `asked` was refused, `open` others are under way. Returns whether that lowers the limit.
    pub(super) fn on_refused(
        &mut self,
        (asked, now): (Duration, Duration),
        open: usize,
        target: usize,
    ) -> bool {
        self.in_a_row = self.in_a_row.saturating_add(1);
        if let Some(limit) = self.limit
            && asked < self.lowered_at
        {
            self.limit = Some(limit.min(open.max(1)));
            return open < limit;
        }
        self.unforgiven += 1.0;
        if self.unforgiven <= FORGIVEN_REFUSALS || target <= 1 {
            return false;
        }
        if std::mem::take(&mut self.was_lifted) {
            self.limit_duration = (self.limit_duration * 2).min(STANDS.1);
        }
        self.limit = Some(open.min(target.saturating_sub(1)).max(1));
        (self.unforgiven, self.lift_step) = (0.0, 1);
        self.lowered_at = now;
        self.lift_at = now.saturating_add(self.limit_duration);
        true
    }

    /// How long nothing at all should be asked, after a refusal beside which `open` others are under way.
    pub(super) fn pause_after_refusal(
        &self,
        open: usize,
        asked: Option<Duration>,
    ) -> Option<Duration> {
        if open > 0 || self.in_a_row < 2 {
            return None;
        }
        let own = REST
            .0
            .saturating_mul(1 << (self.in_a_row - 2).min(20))
            .min(REST.1);
        Some(asked.map_or(own, |asked| asked.min(MAX_RETRY_AFTER)))
    }

    /// Lifts the limit when it is time, and forgets it at `max`. Returns whether it did.
    pub(super) fn lift_if_due(&mut self, now: Duration, max: usize) -> bool {
        let Some(limit) = self.limit.filter(|_| now >= self.lift_at) else {
            return false;
        };
        if self.was_lifted {
            // The last lift was taken well.
            self.limit_duration = STANDS.0;
        }
        self.was_lifted = true;
        let lifted = limit.saturating_add(self.lift_step);
        self.lift_step = (self.lift_step * 2).min(max);
        self.limit = (lifted < max).then_some(lifted);
        self.lift_at = now.saturating_add(self.limit_duration);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn refusals_of_one_moment_leave_those_that_were_not_refused() {
        let mut refusals = HostRefusals::new();
        for open in [7, 6, 5] {
            assert!(!refusals.on_refused((ms(0), ms(50)), open, 8));
        }
        assert!(refusals.on_refused((ms(0), ms(51)), 6, 8));
        assert!(refusals.on_refused((ms(1), ms(52)), 5, 6));
        assert!(refusals.on_refused((ms(2), ms(53)), 4, 5));
        assert_eq!(refusals.limit(), Some(4));
    }

    #[test]
    fn one_answer_in_a_hundred_may_be_refused() {
        let mut refusals = HostRefusals::new();
        for n in 0..10_000 {
            refusals.on_response();
            if n % 100 == 50 {
                assert!(!refusals.on_refused((ms(n), ms(n + 1)), 15, 16), "{n}");
            }
        }
        assert_eq!(refusals.limit(), None);
    }

    /// Lowers to four at so many milliseconds.
    fn to_four(refusals: &mut HostRefusals, at: u64) {
        for _ in 0..4 {
            refusals.on_refused((ms(at), ms(at)), 4, 5);
        }
        assert_eq!(refusals.limit(), Some(4));
    }

    #[test]
    fn a_limit_that_stays_is_asked_ever_more_seldom() {
        let mut refusals = HostRefusals::new();
        to_four(&mut refusals, 0);
        for (before, at) in [(999, 1000), (2999, 3000), (6999, 7000)] {
            assert!(!refusals.lift_if_due(ms(before), 16));
            assert!(refusals.lift_if_due(ms(at), 16));
            assert_eq!(refusals.limit(), Some(5));
            to_four(&mut refusals, at);
        }
    }

    #[test]
    fn a_limit_that_has_gone_is_forgotten_soon() {
        let mut refusals = HostRefusals::new();
        to_four(&mut refusals, 0);
        assert!(refusals.lift_if_due(ms(1000), 16));
        assert_eq!(refusals.limit(), Some(5));
        assert!(refusals.lift_if_due(ms(2000), 16));
        assert_eq!(refusals.limit(), Some(7));
        assert!(refusals.lift_if_due(ms(3000), 16));
        assert_eq!(refusals.limit(), Some(11));
        assert!(refusals.lift_if_due(ms(4000), 16));
        assert_eq!(refusals.limit(), None);
    }

    #[test]
    fn a_host_that_refuses_everything_is_left_alone_for_longer_and_longer() {
        let mut refusals = HostRefusals::new();
        refusals.on_refused((ms(0), ms(0)), 0, 1);
        assert_eq!(refusals.pause_after_refusal(0, Some(ms(5000))), None);
        refusals.on_refused((ms(1), ms(1)), 0, 1);
        assert_eq!(refusals.pause_after_refusal(1, None), None);
        assert_eq!(refusals.pause_after_refusal(0, None), Some(ms(200)));
        assert_eq!(
            refusals.pause_after_refusal(0, Some(ms(5000))),
            Some(ms(5000))
        );
        assert_eq!(
            refusals.pause_after_refusal(0, Some(ms(5_000_000))),
            Some(ms(120_000))
        );
        refusals.on_refused((ms(2), ms(2)), 0, 1);
        assert_eq!(refusals.pause_after_refusal(0, None), Some(ms(400)));
        refusals.on_response();
        refusals.on_refused((ms(3), ms(3)), 0, 1);
        assert_eq!(refusals.pause_after_refusal(0, None), None);
    }
}
