//! How refusals (429, 503, resets) lower a host's number of requests.
//!
//! A single refusal shows nothing: an origin that takes four requests at once refuses half of eight, an origin
//! that fails at random refuses one in a hundred whatever the number is, and to lower the number for each of those would end at
//! one. So a few refusals are ignored, and responses allow further ones; more of them lower the number to the requests that were not
//! refused. Refusals of requests made before that belong to the same event, and only show how far down the limit is.
//!
//! After a while the limit is lifted by one. If that one is refused, the next lift takes twice as long; if not, the next lift is
//! larger and comes soon, since then the refusals were a passing problem, not a limit.
//!
//! A refusal that names a time pauses the host until then, whatever else is under way (row A42). After the first pause it takes several such
//! refusals in a row: a few among responses may be about their files, or come from a host that refuses at random.
//!
//! A host that refuses everything has [failed](super::host_health), once for all requests of that moment (row A46).

use std::time::Duration;

/// Refusals that are ignored: fewer would be exceeded by accident every few thousand responses, where one in a hundred is
/// refused.
const FORGIVEN_REFUSALS: f32 = 3.0;

/// The share of a refusal that a response forgives: an origin in trouble may refuse one request in ten whatever their number,
/// and one that has a limit refuses far more of those beyond it.
const FORGIVEN_PER_RESPONSE: f32 = 0.10;

/// How long a limit holds: at first, and at most.
const LIMIT_DURATION: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// Refusals in a row, among requests that are under way, that pause no host once more.
const MAX_STRAY_REFUSALS: u32 = 3;

/// What follows a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostRefusalAction {
    None,
    /// The host gets no request for this long, as it asks.
    Pause(Duration),
    /// The host refuses everything: the last requests were refused, and no other is under way. It may ask for a pause.
    HostFailed(Option<Duration>),
    /// The host asks for a pause that is too long, and refuses everything: its jobs are rejected meanwhile.
    RejectJobs(Duration),
}

/// The refusals of one host.
#[derive(Debug, Clone)]
pub(super) struct HostRefusals {
    /// Requests at once; `None` without refusals.
    limit: Option<usize>,
    /// Refusals that were not forgiven yet.
    unforgiven: f32,
    /// Refusals since the last response.
    in_a_row: u32,
    /// Whether a refusal has paused the host until the time that it named.
    has_paused: bool,
    /// When the limit was last lowered: requests made before are of that moment.
    lowered_at: Duration,
    /// When the limit is lifted.
    lift_at: Duration,
    /// How long the limit holds.
    limit_duration: Duration,
    /// Whether the limit was lifted since it was last lowered.
    was_lifted: bool,
    /// By how much the next lift raises the limit.
    lift_step: usize,
}

impl HostRefusals {
    pub(super) fn new() -> Self {
        Self {
            limit: None,
            unforgiven: 0.0,
            in_a_row: 0,
            has_paused: false,
            lowered_at: Duration::ZERO,
            lift_at: Duration::MAX,
            limit_duration: LIMIT_DURATION.0,
            was_lifted: false,
            lift_step: 1,
        }
    }

    /// Requests that are allowed at once; `None` if there is no limit.
    pub(super) fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// Whether there are refusals that responses have not outweighed yet.
    pub(super) fn has_unforgiven(&self) -> bool {
        self.unforgiven > 0.0 || self.in_a_row > 0
    }

    pub(super) fn on_response(&mut self) {
        self.unforgiven = (self.unforgiven - FORGIVEN_PER_RESPONSE).max(0.0);
        self.in_a_row = 0;
    }

    /// A request that was made at `requested_at` was refused, `open` others are under way. Returns whether that lowers the
    /// limit.
    pub(super) fn on_refused(
        &mut self,
        requested_at: Duration,
        now: Duration,
        open: usize,
        target: usize,
    ) -> bool {
        self.in_a_row = self.in_a_row.saturating_add(1);
        if let Some(limit) = self.limit
            && requested_at < self.lowered_at
        {
            self.limit = Some(limit.min(open.max(1)));
            return open < limit;
        }
        self.unforgiven += 1.0;
        if self.unforgiven <= FORGIVEN_REFUSALS || target <= 1 {
            return false;
        }
        if std::mem::take(&mut self.was_lifted) {
            self.limit_duration = (self.limit_duration * 2).min(LIMIT_DURATION.1);
        }
        self.limit = Some(open.min(target.saturating_sub(1)).max(1));
        (self.unforgiven, self.lift_step) = (0.0, 1);
        self.lowered_at = now;
        self.lift_at = now.saturating_add(self.limit_duration);
        true
    }

    /// What follows a refusal while `open` other requests are under way. Jobs wait for at most `max_retry_after`.
    pub(super) fn effect_of_refusal(
        &mut self,
        open: usize,
        retry_after: Option<Duration>,
        max_retry_after: Duration,
    ) -> HostRefusalAction {
        let refuses_everything = open == 0 && self.in_a_row > 1;
        match retry_after {
            Some(wait) if wait > max_retry_after && refuses_everything => {
                HostRefusalAction::RejectJobs(wait)
            }
            _ if refuses_everything => {
                self.has_paused |= retry_after.is_some();
                HostRefusalAction::HostFailed(retry_after)
            }
            Some(wait)
                if wait <= max_retry_after
                    && (!self.has_paused || self.in_a_row > MAX_STRAY_REFUSALS) =>
            {
                self.has_paused = true;
                HostRefusalAction::Pause(wait)
            }
            _ => HostRefusalAction::None,
        }
    }

    /// Lifts the limit when it is time, and drops it at `max`. Returns whether it did.
    pub(super) fn lift_if_due(&mut self, now: Duration, max: usize) -> bool {
        let Some(limit) = self.limit.filter(|_| now >= self.lift_at) else {
            return false;
        };
        if self.was_lifted {
            // The last lift met no refusal.
            self.limit_duration = LIMIT_DURATION.0;
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
    fn refusals_of_one_moment_lower_the_limit_to_the_requests_not_refused() {
        let mut refusals = HostRefusals::new();
        for open in [7, 6, 5] {
            assert!(!refusals.on_refused(ms(0), ms(50), open, 8));
        }
        assert!(refusals.on_refused(ms(0), ms(51), 6, 8));
        assert!(refusals.on_refused(ms(1), ms(52), 5, 6));
        assert!(refusals.on_refused(ms(2), ms(53), 4, 5));
        assert_eq!(refusals.limit(), Some(4));
    }

    #[test]
    fn one_response_in_a_hundred_may_be_a_refusal() {
        let mut refusals = HostRefusals::new();
        for n in 0..10_000 {
            refusals.on_response();
            if n % 100 == 50 {
                assert!(!refusals.on_refused(ms(n), ms(n + 1), 15, 16), "{n}");
            }
        }
        assert_eq!(refusals.limit(), None);
    }

    /// Lowers the limit to four, at this number of milliseconds.
    fn lower_to_four(refusals: &mut HostRefusals, at: u64) {
        for _ in 0..4 {
            refusals.on_refused(ms(at), ms(at), 4, 5);
        }
        assert_eq!(refusals.limit(), Some(4));
    }

    #[test]
    fn a_limit_that_stays_is_tested_ever_more_seldom() {
        let mut refusals = HostRefusals::new();
        lower_to_four(&mut refusals, 0);
        for (before, at) in [(999, 1000), (2999, 3000), (6999, 7000)] {
            assert!(!refusals.lift_if_due(ms(before), 16));
            assert!(refusals.lift_if_due(ms(at), 16));
            assert_eq!(refusals.limit(), Some(5));
            lower_to_four(&mut refusals, at);
        }
    }

    #[test]
    fn a_limit_that_has_gone_is_dropped_soon() {
        let mut refusals = HostRefusals::new();
        lower_to_four(&mut refusals, 0);
        assert!(refusals.lift_if_due(ms(1000), 16));
        assert_eq!(refusals.limit(), Some(5));
        assert!(refusals.lift_if_due(ms(2000), 16));
        assert_eq!(refusals.limit(), Some(7));
        assert!(refusals.lift_if_due(ms(3000), 16));
        assert_eq!(refusals.limit(), Some(11));
        assert!(refusals.lift_if_due(ms(4000), 16));
        assert_eq!(refusals.limit(), None);
    }

    /// The longest wait of these tests.
    const MAX_WAIT: Duration = Duration::from_secs(900);

    #[test]
    fn a46_a_host_has_failed_when_the_last_of_several_requests_is_refused() {
        let mut refusals = HostRefusals::new();
        let effect =
            |refusals: &mut HostRefusals, open| refusals.effect_of_refusal(open, None, MAX_WAIT);
        // One refusal may be about its file.
        refusals.on_refused(ms(0), ms(0), 0, 1);
        assert_eq!(effect(&mut refusals, 0), HostRefusalAction::None);
        refusals.on_refused(ms(1), ms(1), 0, 1);
        assert_eq!(effect(&mut refusals, 1), HostRefusalAction::None);
        let failed = HostRefusalAction::HostFailed(None);
        assert_eq!(effect(&mut refusals, 0), failed);
        refusals.on_response();
        refusals.on_refused(ms(2), ms(2), 0, 1);
        assert_eq!(effect(&mut refusals, 0), HostRefusalAction::None);
    }

    #[test]
    fn a42_the_first_refusal_that_names_a_time_pauses_the_host_and_later_ones_if_nothing_else_came()
    {
        let mut refusals = HostRefusals::new();
        let minutes = Some(Duration::from_secs(300));
        let pause = HostRefusalAction::Pause(Duration::from_secs(300));
        // Other requests are under way.
        refusals.on_refused(ms(0), ms(0), 7, 8);
        assert_eq!(refusals.effect_of_refusal(7, minutes, MAX_WAIT), pause);
        refusals.on_response();
        // Perhaps only this file is refused.
        refusals.on_refused(ms(1), ms(1), 7, 8);
        let none = HostRefusalAction::None;
        assert_eq!(refusals.effect_of_refusal(7, minutes, MAX_WAIT), none);
        refusals.on_refused(ms(2), ms(2), 7, 8);
        assert_eq!(refusals.effect_of_refusal(7, minutes, MAX_WAIT), none);
        let mut alone = refusals.clone();
        let failed = HostRefusalAction::HostFailed(minutes);
        assert_eq!(alone.effect_of_refusal(0, minutes, MAX_WAIT), failed);
        for _ in 0..2 {
            refusals.on_refused(ms(2), ms(2), 7, 8);
        }
        assert_eq!(refusals.effect_of_refusal(7, minutes, MAX_WAIT), pause);
    }

    #[test]
    fn a_second_retry_after_of_an_hour_rejects_jobs_unless_others_are_running() {
        let mut refusals = HostRefusals::new();
        let hour = Duration::from_secs(3600);
        refusals.on_refused(ms(0), ms(0), 5, 6);
        assert_eq!(
            refusals.effect_of_refusal(5, Some(hour), MAX_WAIT),
            HostRefusalAction::None
        );
        refusals.on_refused(ms(0), ms(1), 4, 6);
        let rejects = HostRefusalAction::RejectJobs(hour);
        assert_eq!(refusals.effect_of_refusal(0, Some(hour), MAX_WAIT), rejects);
        // One that is under way may be a file that the host sends.
        assert_eq!(
            refusals.effect_of_refusal(1, Some(hour), MAX_WAIT),
            HostRefusalAction::None
        );
        refusals.on_response();
        refusals.on_refused(ms(2), ms(3), 4, 6);
        assert_eq!(
            refusals.effect_of_refusal(0, Some(hour), MAX_WAIT),
            HostRefusalAction::None
        );
    }
}
