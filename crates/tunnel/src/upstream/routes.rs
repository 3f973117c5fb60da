//! Which route to a target is tried first, and which after it.
//!
//! Proxies are tried in the order in which they were given. The one that worked is kept until it fails, and
//! one that could not be reached comes last for a while: a user behind a firewall that drops packets should
//! not wait for it with every connection. The direct route is tried when no proxy can be reached, and is
//! first only while all of them are known to be unreachable; it is never kept, because a laptop that comes
//! back to the office is to use the proxy again.

use std::time::Duration;

/// For how long a proxy that could not be reached comes last.
const UNREACHABLE_PENALTY: Duration = Duration::from_secs(30);

/// A route to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpstreamRoute {
    /// Through the chain of proxies of this number.
    Proxies(usize),
    /// Without proxies.
    Direct,
}

/// Why a route failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteFailure {
    /// The proxy could not be reached, or is not a proxy.
    ProxyUnreachable,
    /// The proxy was reached, and did not respond in its time.
    NoAnswer,
    /// The proxy says that it cannot reach the target, or is in trouble itself.
    TargetUnreachable,
    /// The proxy refuses: by its rules, or because a login is missing. Another route would bypass the rule.
    Refused,
    /// The route reached the target, whose TLS is missing or not trusted.
    TargetTls,
}

impl RouteFailure {
    /// Whether another route is worth a try.
    #[must_use]
    pub(super) fn allows(self, to: UpstreamRoute) -> bool {
        match (self, to) {
            (Self::ProxyUnreachable | Self::NoAnswer, _)
            | (Self::TargetUnreachable, UpstreamRoute::Proxies(_)) => true,
            // The proxy was reached: the direct route is for when it is not.
            (Self::TargetUnreachable, UpstreamRoute::Direct)
            | (Self::Refused | Self::TargetTls, _) => false,
        }
    }
}

/// The routes that there are.
#[derive(Debug, Clone)]
pub(super) struct UpstreamRoutes {
    /// Until when each of the proxies comes last.
    unreachable_until: Vec<Duration>,
    /// The proxy that worked last.
    last_working: usize,
    /// Whether there is a direct route.
    direct: bool,
}

impl UpstreamRoutes {
    /// As many proxies, and perhaps the direct route. Without proxies there is only that one.
    #[must_use]
    pub(super) fn new(proxies: usize, direct: bool) -> Self {
        Self {
            unreachable_until: vec![Duration::ZERO; proxies],
            last_working: 0,
            direct: direct || proxies == 0,
        }
    }

    /// All routes, each once, in the order in which to try them at `now`.
    #[must_use]
    pub(super) fn order(&self, now: Duration) -> Vec<UpstreamRoute> {
        let count = self.unreachable_until.len();
        let round = (0..count).map(|n| (self.last_working + n) % count);
        let (unreachable, reachable): (Vec<usize>, Vec<usize>) =
            round.partition(|route| self.unreachable_until[*route] > now);
        let direct = self.direct.then_some(UpstreamRoute::Direct);
        let through = |routes: Vec<usize>| routes.into_iter().map(UpstreamRoute::Proxies);
        through(reachable)
            .chain(direct)
            .chain(through(unreachable))
            .collect()
    }

    /// A route led to a target.
    pub(super) fn record_success(&mut self, route: UpstreamRoute) {
        if let UpstreamRoute::Proxies(number) = route
            && let Some(until) = self.unreachable_until.get_mut(number)
        {
            *until = Duration::ZERO;
            self.last_working = number;
        }
    }

    /// A route failed.
    pub(super) fn record_failure(
        &mut self,
        route: UpstreamRoute,
        failure: RouteFailure,
        now: Duration,
    ) {
        if let (UpstreamRoute::Proxies(number), RouteFailure::ProxyUnreachable) = (route, failure)
            && let Some(until) = self.unreachable_until.get_mut(number)
        {
            *until = now + UNREACHABLE_PENALTY;
        }
    }
}

/// The time for the next of `routes` routes, out of the time that is left: as much as for each after it, so
/// that a silent one leaves some.
#[must_use]
pub(super) fn attempt_timeout(left: Duration, routes: usize) -> Duration {
    left / u32::try_from(routes.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    #[test]
    fn the_proxy_that_worked_is_kept_until_it_fails() {
        let mut routes = UpstreamRoutes::new(3, false);
        assert_eq!(
            routes.order(NOW),
            [
                UpstreamRoute::Proxies(0),
                UpstreamRoute::Proxies(1),
                UpstreamRoute::Proxies(2)
            ]
        );
        routes.record_failure(
            UpstreamRoute::Proxies(0),
            RouteFailure::ProxyUnreachable,
            NOW,
        );
        assert_eq!(
            routes.order(NOW),
            [
                UpstreamRoute::Proxies(1),
                UpstreamRoute::Proxies(2),
                UpstreamRoute::Proxies(0)
            ]
        );
        routes.record_success(UpstreamRoute::Proxies(1));
        let later = NOW + UNREACHABLE_PENALTY;
        assert_eq!(
            routes.order(later),
            [
                UpstreamRoute::Proxies(1),
                UpstreamRoute::Proxies(2),
                UpstreamRoute::Proxies(0)
            ]
        );
        routes.record_failure(
            UpstreamRoute::Proxies(1),
            RouteFailure::ProxyUnreachable,
            later,
        );
        assert_eq!(
            routes.order(later),
            [
                UpstreamRoute::Proxies(2),
                UpstreamRoute::Proxies(0),
                UpstreamRoute::Proxies(1)
            ]
        );
    }

    #[test]
    fn the_direct_route_comes_between_reachable_and_unreachable_proxies() {
        let mut routes = UpstreamRoutes::new(2, true);
        assert_eq!(
            routes.order(NOW),
            [
                UpstreamRoute::Proxies(0),
                UpstreamRoute::Proxies(1),
                UpstreamRoute::Direct
            ]
        );
        routes.record_failure(
            UpstreamRoute::Proxies(0),
            RouteFailure::ProxyUnreachable,
            NOW,
        );
        assert_eq!(
            routes.order(NOW),
            [
                UpstreamRoute::Proxies(1),
                UpstreamRoute::Direct,
                UpstreamRoute::Proxies(0)
            ]
        );
        routes.record_failure(
            UpstreamRoute::Proxies(1),
            RouteFailure::ProxyUnreachable,
            NOW,
        );
        routes.record_success(UpstreamRoute::Direct);
        assert_eq!(routes.order(NOW)[0], UpstreamRoute::Direct);
        // It is not kept.
        assert_eq!(
            routes.order(NOW + UNREACHABLE_PENALTY)[0],
            UpstreamRoute::Proxies(0)
        );
        assert_eq!(
            UpstreamRoutes::new(0, false).order(NOW),
            [UpstreamRoute::Direct]
        );
    }

    #[test]
    fn only_an_unreachable_proxy_comes_last() {
        use RouteFailure::{NoAnswer, Refused, TargetTls, TargetUnreachable};
        for failure in [NoAnswer, TargetUnreachable, Refused, TargetTls] {
            let mut routes = UpstreamRoutes::new(2, false);
            routes.record_failure(UpstreamRoute::Proxies(0), failure, NOW);
            assert_eq!(
                routes.order(NOW)[0],
                UpstreamRoute::Proxies(0),
                "{failure:?}"
            );
        }
    }

    #[test]
    fn a_refusal_is_not_bypassed() {
        let leads = |failure: RouteFailure| {
            [UpstreamRoute::Proxies(1), UpstreamRoute::Direct].map(|to| failure.allows(to))
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
        fn every_route_is_in_every_order_once(
            count in 0usize..6,
            direct: bool,
            happened in prop::collection::vec((0usize..8, 0u8..5, 0u64..100), 0..30),
        ) {
            let mut routes = UpstreamRoutes::new(count, direct);
            let mut now = Duration::ZERO;
            for (number, what, seconds) in happened {
                now += Duration::from_secs(seconds);
                let route = if number < 6 { UpstreamRoute::Proxies(number) } else { UpstreamRoute::Direct };
                match what {
                    0 => routes.record_success(route),
                    1 => routes.record_failure(route, RouteFailure::NoAnswer, now),
                    2 => routes.record_failure(route, RouteFailure::Refused, now),
                    _ => routes.record_failure(route, RouteFailure::ProxyUnreachable, now),
                }
                let mut order = routes.order(now);
                // As soon as the penalty is over, none comes last.
                let rested = routes.order(now + UNREACHABLE_PENALTY);
                prop_assert_eq!(rested.len(), order.len());
                if count > 0 {
                    prop_assert!(rested[0] != UpstreamRoute::Direct);
                }
                order.sort_by_key(|route| match route { UpstreamRoute::Proxies(number) => *number, UpstreamRoute::Direct => usize::MAX });
                let mut all: Vec<UpstreamRoute> = (0..count).map(UpstreamRoute::Proxies).collect();
                all.extend((direct || count == 0).then_some(UpstreamRoute::Direct));
                prop_assert_eq!(order, all);
            }
        }
    }
}
