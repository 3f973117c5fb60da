//! Which way to a target is tried first, and which after it.
//!
//! Proxies are tried in the order that they were given in. The one that worked is kept until it fails, and one that could not be reached
//! comes last for a while: whoever is behind a firewall that says nothing should not wait for it with every connection. Going
//! straight is tried when no proxy can be reached, and is first only while all of them are known to be away; it is never kept, for a
//! laptop that comes back to the office is to use the proxy again.

use std::time::Duration;

/// For how long one that could not be reached comes last.
const HELD: Duration = Duration::from_secs(30);

/// A way to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamRoute {
    /// By the proxies of this number.
    By(usize),
    /// By none.
    Straight,
}

/// Why a way led nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteFailure {
    /// The proxy could not be reached, or is none.
    Away,
    /// It was reached, and gave no answer in its time.
    Slow,
    /// It says that it cannot reach the target, or is in trouble itself.
    Unreachable,
    /// It refuses: by its rules, or for want of a login. Another would be a way around the rule.
    Refused,
    /// It led to the target, and that is at fault itself: its TLS is none, or not trusted.
    Target,
}

impl RouteFailure {
    /// Whether another way is worth a try.
    #[must_use]
    pub fn leads_on(self, to: UpstreamRoute) -> bool {
        match (self, to) {
            (Self::Away | Self::Slow, _) | (Self::Unreachable, UpstreamRoute::By(_)) => true,
            // The proxy was there: straight is for when it is not.
            (Self::Unreachable, UpstreamRoute::Straight) | (Self::Refused | Self::Target, _) => {
                false
            }
        }
    }
}

/// The ways that there are.
#[derive(Debug, Clone)]
pub struct UpstreamRoutes {
    /// Until when each of the proxies comes last.
    held: Vec<Duration>,
    /// The one that worked last.
    kept: usize,
    /// Whether there is a way without any.
    straight: bool,
}

impl UpstreamRoutes {
    /// As many proxies, and perhaps the way without any of them. Without proxies there is only that.
    #[must_use]
    pub fn new(proxies: usize, straight: bool) -> Self {
        Self {
            held: vec![Duration::ZERO; proxies],
            kept: 0,
            straight: straight || proxies == 0,
        }
    }

    /// All ways, each once, in the order in which to try them at `now`.
    #[must_use]
    pub fn order(&self, now: Duration) -> Vec<UpstreamRoute> {
        let count = self.held.len();
        let round = (0..count).map(|n| (self.kept + n) % count);
        let (held, free): (Vec<usize>, Vec<usize>) = round.partition(|way| self.held[*way] > now);
        let straight = self.straight.then_some(UpstreamRoute::Straight);
        let by = |ways: Vec<usize>| ways.into_iter().map(UpstreamRoute::By);
        by(free).chain(straight).chain(by(held)).collect()
    }

    /// A way led to a target.
    pub fn worked(&mut self, way: UpstreamRoute) {
        if let UpstreamRoute::By(number) = way
            && let Some(held) = self.held.get_mut(number)
        {
            *held = Duration::ZERO;
            self.kept = number;
        }
    }

    /// A way led nowhere.
    pub fn failed(&mut self, way: UpstreamRoute, setback: RouteFailure, now: Duration) {
        if let (UpstreamRoute::By(number), RouteFailure::Away) = (way, setback)
            && let Some(held) = self.held.get_mut(number)
        {
            *held = now + HELD;
        }
    }
}

/// What the next of `ways` ways gets of the time that is left: as much as each after it, so that one that is silent leaves some.
#[must_use]
pub fn share(left: Duration, ways: usize) -> Duration {
    left / u32::try_from(ways.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn the_one_that_worked_is_kept_until_it_fails() {
        let mut ways = UpstreamRoutes::new(3, false);
        assert_eq!(
            ways.order(NOW),
            [
                UpstreamRoute::By(0),
                UpstreamRoute::By(1),
                UpstreamRoute::By(2)
            ]
        );
        ways.failed(UpstreamRoute::By(0), RouteFailure::Away, NOW);
        assert_eq!(
            ways.order(NOW),
            [
                UpstreamRoute::By(1),
                UpstreamRoute::By(2),
                UpstreamRoute::By(0)
            ]
        );
        ways.worked(UpstreamRoute::By(1));
        let later = NOW + HELD;
        assert_eq!(
            ways.order(later),
            [
                UpstreamRoute::By(1),
                UpstreamRoute::By(2),
                UpstreamRoute::By(0)
            ]
        );
        ways.failed(UpstreamRoute::By(1), RouteFailure::Away, later);
        assert_eq!(
            ways.order(later),
            [
                UpstreamRoute::By(2),
                UpstreamRoute::By(0),
                UpstreamRoute::By(1)
            ]
        );
    }

    #[test]
    fn straight_comes_after_proxies_that_may_be_there_and_before_those_that_are_not() {
        let mut ways = UpstreamRoutes::new(2, true);
        assert_eq!(
            ways.order(NOW),
            [
                UpstreamRoute::By(0),
                UpstreamRoute::By(1),
                UpstreamRoute::Straight
            ]
        );
        ways.failed(UpstreamRoute::By(0), RouteFailure::Away, NOW);
        assert_eq!(
            ways.order(NOW),
            [
                UpstreamRoute::By(1),
                UpstreamRoute::Straight,
                UpstreamRoute::By(0)
            ]
        );
        ways.failed(UpstreamRoute::By(1), RouteFailure::Away, NOW);
        ways.worked(UpstreamRoute::Straight);
        assert_eq!(ways.order(NOW)[0], UpstreamRoute::Straight);
        // It is not kept.
        assert_eq!(ways.order(NOW + HELD)[0], UpstreamRoute::By(0));
        assert_eq!(
            UpstreamRoutes::new(0, false).order(NOW),
            [UpstreamRoute::Straight]
        );
    }

    #[test]
    fn only_one_that_is_away_is_held() {
        use RouteFailure::{Refused, Slow, Target, Unreachable};
        for setback in [Slow, Unreachable, Refused, Target] {
            let mut ways = UpstreamRoutes::new(2, false);
            ways.failed(UpstreamRoute::By(0), setback, NOW);
            assert_eq!(ways.order(NOW)[0], UpstreamRoute::By(0), "{setback:?}");
        }
    }

    #[test]
    fn a_refusal_is_not_gone_around() {
        let leads = |setback: RouteFailure| {
            [UpstreamRoute::By(1), UpstreamRoute::Straight].map(|to| setback.leads_on(to))
        };
        assert_eq!(leads(RouteFailure::Away), [true, true]);
        assert_eq!(leads(RouteFailure::Slow), [true, true]);
        assert_eq!(leads(RouteFailure::Unreachable), [true, false]);
        assert_eq!(leads(RouteFailure::Refused), [false, false]);
        assert_eq!(leads(RouteFailure::Target), [false, false]);
    }

    #[test]
    fn time_is_shared_evenly() {
        let second = Duration::from_secs(1);
        assert_eq!(share(second * 15, 2), second * 15 / 2);
        assert_eq!(share(second, 1), second);
        assert_eq!(share(second, 0), second);
    }

    proptest! {
        #[test]
        fn every_way_is_in_every_order_once(
            count in 0usize..6,
            straight: bool,
            happened in prop::collection::vec((0usize..8, 0u8..5, 0u64..100), 0..30),
        ) {
            let mut ways = UpstreamRoutes::new(count, straight);
            let mut now = Duration::ZERO;
            for (number, what, seconds) in happened {
                now += Duration::from_secs(seconds);
                let way = if number < 6 { UpstreamRoute::By(number) } else { UpstreamRoute::Straight };
                match what {
                    0 => ways.worked(way),
                    1 => ways.failed(way, RouteFailure::Slow, now),
                    2 => ways.failed(way, RouteFailure::Refused, now),
                    _ => ways.failed(way, RouteFailure::Away, now),
                }
                let mut order = ways.order(now);
                // As soon as time has passed, none is held.
                let rested = ways.order(now + HELD);
                prop_assert_eq!(rested.len(), order.len());
                if count > 0 {
                    prop_assert!(rested[0] != UpstreamRoute::Straight);
                }
                order.sort_by_key(|way| match way { UpstreamRoute::By(number) => *number, UpstreamRoute::Straight => usize::MAX });
                let mut all: Vec<UpstreamRoute> = (0..count).map(UpstreamRoute::By).collect();
                all.extend((straight || count == 0).then_some(UpstreamRoute::Straight));
                prop_assert_eq!(order, all);
            }
        }
    }
}
