//! Which way to a target is tried first, and which after it.
//!
//! Proxies are tried in the order that they were given in. The one that worked is kept until it fails, and one that could not be reached
//! comes last for a while: whoever is behind a firewall that says nothing should not wait for it with every connection. Going
//! straight is tried when no proxy can be reached, and is first only while all of them are known to be away; it is never kept, for a
//! laptop that comes back to the office is to use the proxy again.

use std::time::Duration;

/// For how long one that could not be reached comes last.
const UNREACHABLE_PENALTY: Duration = Duration::from_secs(30);

/// A way to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamRoute {
    /// By the proxies of this number.
    Proxies(usize),
    /// By none.
    Direct,
}

/// Why a way led nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteFailure {
    /// The proxy could not be reached, or is none.
    ProxyUnreachable,
    /// It was reached, and gave no answer in its time.
    NoAnswer,
    /// It says that it cannot reach the target, or is in trouble itself.
    TargetUnreachable,
    /// It refuses: by its rules, or for want of a login. Another would be a way around the rule.
    Refused,
    /// It led to the target, and that is at fault itself: its TLS is none, or not trusted.
    TargetTls,
}

impl RouteFailure {
    /// Whether another way is worth a try.
    #[must_use]
    pub fn allows(self, to: UpstreamRoute) -> bool {
        match (self, to) {
            (Self::ProxyUnreachable | Self::NoAnswer, _)
            | (Self::TargetUnreachable, UpstreamRoute::Proxies(_)) => true,
            // The proxy was there: straight is for when it is not.
            (Self::TargetUnreachable, UpstreamRoute::Direct)
            | (Self::Refused | Self::TargetTls, _) => false,
        }
    }
}

/// The ways that there are.
#[derive(Debug, Clone)]
pub struct UpstreamRoutes {
    /// Until when each of the proxies comes last.
    unreachable_until: Vec<Duration>,
    /// The one that worked last.
    last_working: usize,
    /// Whether there is a way without any.
    direct: bool,
}

impl UpstreamRoutes {
    /// As many proxies, and perhaps the way without any of them. Without proxies there is only that.
    #[must_use]
    pub fn new(proxies: usize, straight: bool) -> Self {
        Self {
            unreachable_until: vec![Duration::ZERO; proxies],
            last_working: 0,
            direct: straight || proxies == 0,
        }
    }

    /// All ways, each once, in the order in which to try them at `now`.
    #[must_use]
    pub fn order(&self, now: Duration) -> Vec<UpstreamRoute> {
        let count = self.unreachable_until.len();
        let round = (0..count).map(|n| (self.last_working + n) % count);
        let (held, free): (Vec<usize>, Vec<usize>) =
            round.partition(|way| self.unreachable_until[*way] > now);
        let straight = self.direct.then_some(UpstreamRoute::Direct);
        let by = |ways: Vec<usize>| ways.into_iter().map(UpstreamRoute::Proxies);
        by(free).chain(straight).chain(by(held)).collect()
    }

    /// A way led to a target.
    pub fn record_success(&mut self, way: UpstreamRoute) {
        if let UpstreamRoute::Proxies(number) = way
            && let Some(held) = self.unreachable_until.get_mut(number)
        {
            *held = Duration::ZERO;
            self.last_working = number;
        }
    }

    /// A way led nowhere.
    pub fn record_failure(&mut self, way: UpstreamRoute, setback: RouteFailure, now: Duration) {
        if let (UpstreamRoute::Proxies(number), RouteFailure::ProxyUnreachable) = (way, setback)
            && let Some(held) = self.unreachable_until.get_mut(number)
        {
            *held = now + UNREACHABLE_PENALTY;
        }
    }
}

/// What the next of `ways` ways gets of the time that is left: as much as each after it, so that one that is silent leaves some.
#[must_use]
pub fn attempt_timeout(left: Duration, ways: usize) -> Duration {
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
                UpstreamRoute::Proxies(0),
                UpstreamRoute::Proxies(1),
                UpstreamRoute::Proxies(2)
            ]
        );
        ways.record_failure(
            UpstreamRoute::Proxies(0),
            RouteFailure::ProxyUnreachable,
            NOW,
        );
        assert_eq!(
            ways.order(NOW),
            [
                UpstreamRoute::Proxies(1),
                UpstreamRoute::Proxies(2),
                UpstreamRoute::Proxies(0)
            ]
        );
        ways.record_success(UpstreamRoute::Proxies(1));
        let later = NOW + UNREACHABLE_PENALTY;
        assert_eq!(
            ways.order(later),
            [
                UpstreamRoute::Proxies(1),
                UpstreamRoute::Proxies(2),
                UpstreamRoute::Proxies(0)
            ]
        );
        ways.record_failure(
            UpstreamRoute::Proxies(1),
            RouteFailure::ProxyUnreachable,
            later,
        );
        assert_eq!(
            ways.order(later),
            [
                UpstreamRoute::Proxies(2),
                UpstreamRoute::Proxies(0),
                UpstreamRoute::Proxies(1)
            ]
        );
    }

    #[test]
    fn straight_comes_after_proxies_that_may_be_there_and_before_those_that_are_not() {
        let mut ways = UpstreamRoutes::new(2, true);
        assert_eq!(
            ways.order(NOW),
            [
                UpstreamRoute::Proxies(0),
                UpstreamRoute::Proxies(1),
                UpstreamRoute::Direct
            ]
        );
        ways.record_failure(
            UpstreamRoute::Proxies(0),
            RouteFailure::ProxyUnreachable,
            NOW,
        );
        assert_eq!(
            ways.order(NOW),
            [
                UpstreamRoute::Proxies(1),
                UpstreamRoute::Direct,
                UpstreamRoute::Proxies(0)
            ]
        );
        ways.record_failure(
            UpstreamRoute::Proxies(1),
            RouteFailure::ProxyUnreachable,
            NOW,
        );
        ways.record_success(UpstreamRoute::Direct);
        assert_eq!(ways.order(NOW)[0], UpstreamRoute::Direct);
        // It is not kept.
        assert_eq!(
            ways.order(NOW + UNREACHABLE_PENALTY)[0],
            UpstreamRoute::Proxies(0)
        );
        assert_eq!(
            UpstreamRoutes::new(0, false).order(NOW),
            [UpstreamRoute::Direct]
        );
    }

    #[test]
    fn only_one_that_is_away_is_held() {
        use RouteFailure::{NoAnswer, Refused, TargetTls, TargetUnreachable};
        for setback in [NoAnswer, TargetUnreachable, Refused, TargetTls] {
            let mut ways = UpstreamRoutes::new(2, false);
            ways.record_failure(UpstreamRoute::Proxies(0), setback, NOW);
            assert_eq!(ways.order(NOW)[0], UpstreamRoute::Proxies(0), "{setback:?}");
        }
    }

    #[test]
    fn a_refusal_is_not_gone_around() {
        let leads = |setback: RouteFailure| {
            [UpstreamRoute::Proxies(1), UpstreamRoute::Direct].map(|to| setback.allows(to))
        };
        assert_eq!(leads(RouteFailure::ProxyUnreachable), [true, true]);
        assert_eq!(leads(RouteFailure::NoAnswer), [true, true]);
        assert_eq!(leads(RouteFailure::TargetUnreachable), [true, false]);
        assert_eq!(leads(RouteFailure::Refused), [false, false]);
        assert_eq!(leads(RouteFailure::TargetTls), [false, false]);
    }

    #[test]
    fn time_is_shared_evenly() {
        let second = Duration::from_secs(1);
        assert_eq!(attempt_timeout(second * 15, 2), second * 15 / 2);
        assert_eq!(attempt_timeout(second, 1), second);
        assert_eq!(attempt_timeout(second, 0), second);
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
                let way = if number < 6 { UpstreamRoute::Proxies(number) } else { UpstreamRoute::Direct };
                match what {
                    0 => ways.record_success(way),
                    1 => ways.record_failure(way, RouteFailure::NoAnswer, now),
                    2 => ways.record_failure(way, RouteFailure::Refused, now),
                    _ => ways.record_failure(way, RouteFailure::ProxyUnreachable, now),
                }
                let mut order = ways.order(now);
                // As soon as time has passed, none is held.
                let rested = ways.order(now + UNREACHABLE_PENALTY);
                prop_assert_eq!(rested.len(), order.len());
                if count > 0 {
                    prop_assert!(rested[0] != UpstreamRoute::Direct);
                }
                order.sort_by_key(|way| match way { UpstreamRoute::Proxies(number) => *number, UpstreamRoute::Direct => usize::MAX });
                let mut all: Vec<UpstreamRoute> = (0..count).map(UpstreamRoute::Proxies).collect();
                all.extend((straight || count == 0).then_some(UpstreamRoute::Direct));
                prop_assert_eq!(order, all);
            }
        }
    }
}
