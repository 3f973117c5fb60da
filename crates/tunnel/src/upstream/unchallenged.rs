//! Proxies that have a login of ours and did not ask for it.
//!
//! A request with a body is sent once, so a probe asks its proxy before what it wants to see. A proxy that wants to see nothing need not
//! be probed again: each probe is a request to an origin. A proxy's rules differ by target, so this is known of a proxy and a target; and
//! since they may change, it is known for a time only.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use haul_net::{Proxy, Target};
use tokio::time::Instant;

/// How long it is taken for true.
const LIFETIME: Duration = Duration::from_secs(600);

/// The most proxies and targets that are remembered.
const MAX_ROUTES: usize = 1024;

/// A proxy's address, and a target behind it.
type UnchallengedRoute = (String, Target);

/// By which proxies to which targets a request went that showed no login, and when that was.
#[derive(Debug, Default)]
pub(crate) struct UnchallengedProxies(Mutex<HashMap<UnchallengedRoute, Instant>>);

impl UnchallengedProxies {
    /// Whether a proxy has let a request for this target pass without a login.
    pub(crate) fn is_known(&self, proxy: &Proxy, target: &Target) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = known.get(&(proxy.address(), target.clone()));
        since.is_some_and(|since| since.elapsed() < LIFETIME)
    }

    /// A proxy was shown no login, and challenged that or not.
    pub(crate) fn record(&self, proxy: &Proxy, target: &Target, is_challenged: bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let address = proxy.address();
        if is_challenged {
            // A proxy that asks for one target's sake may have new rules for all.
            known.retain(|(proxy, _), _| *proxy != address);
            return;
        }
        if known.len() >= MAX_ROUTES {
            known.clear();
        }
        known.insert((address, target.clone()), Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_proxy_is_unchallenged_until_it_asks_and_not_for_ever() {
        let [one, two]: [Proxy; 2] =
            ["http://a.test:1", "http://b.test:1"].map(|proxy| proxy.parse().unwrap());
        let [near, far]: [Target; 2] = ["x.test:80", "y.test:80"].map(|to| to.parse().unwrap());
        let unchallenged = UnchallengedProxies::default();
        assert!(!unchallenged.is_known(&one, &near));
        unchallenged.record(&one, &near, false);
        unchallenged.record(&two, &near, false);
        assert!(unchallenged.is_known(&one, &near) && !unchallenged.is_known(&one, &far));
        unchallenged.record(&one, &far, true);
        assert!(!unchallenged.is_known(&one, &near) && unchallenged.is_known(&two, &near));
        tokio::time::advance(LIFETIME).await;
        assert!(!unchallenged.is_known(&two, &near));
    }

    #[tokio::test]
    async fn no_more_routes_are_kept_than_the_limit() {
        let proxy: Proxy = "http://a.test:1".parse().unwrap();
        let unchallenged = UnchallengedProxies::default();
        for number in 0..=MAX_ROUTES {
            let target = format!("h{number}.test:80").parse().unwrap();
            unchallenged.record(&proxy, &target, false);
        }
        assert!(unchallenged.0.lock().unwrap().len() <= MAX_ROUTES);
    }
}
