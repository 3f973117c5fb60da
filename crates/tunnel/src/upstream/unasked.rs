//! Proxies that have a login and did not ask for it.
//!
//! A request with a body is sent once, so what its proxy wants to see is asked for before. One that wants to see nothing need not be
//! asked again: each question is a request to somebody's origin. Rules of proxies differ by target, so what is known is known of a proxy
//! and a target; and since the answer to a body goes to the client unread, it is known for a time only.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use haul_net::{Proxy, Target};
use tokio::time::Instant;

/// How long it is taken for true.
const LASTING: Duration = Duration::from_secs(600);

/// Proxies and targets that are known at most.
const MOST: usize = 1024;

/// By which proxy to which target.
type UnchallengedRoute = (String, Target);

/// Who did not ask, and when that was.
#[derive(Debug, Default)]
pub(crate) struct UnchallengedProxies(Mutex<HashMap<UnchallengedRoute, Instant>>);

impl UnchallengedProxies {
    /// Whether a proxy wants to see nothing on the way to this target.
    pub(crate) fn is_known(&self, proxy: &Proxy, target: &Target) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = known.get(&way(proxy, target));
        since.is_some_and(|since| since.elapsed() < LASTING)
    }

    /// It was shown nothing, and did (or did not) ask.
    pub(crate) fn learn(&self, (proxy, target): (&Proxy, &Target), has_asked: bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if has_asked {
            // One that asks for one target's sake may have new rules for all.
            let address = proxy.address();
            known.retain(|(proxy, _), _| *proxy != address);
            return;
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(way(proxy, target), Instant::now());
    }
}

fn way(proxy: &Proxy, target: &Target) -> UnchallengedRoute {
    (proxy.address(), target.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_known_until_it_asks_and_not_for_ever() {
        let [one, two]: [Proxy; 2] =
            ["http://a.test:1", "http://b.test:1"].map(|proxy| proxy.parse().unwrap());
        let [near, far]: [Target; 2] = ["x.test:80", "y.test:80"].map(|to| to.parse().unwrap());
        let unasked = UnchallengedProxies::default();
        assert!(!unasked.is_known(&one, &near));
        unasked.learn((&one, &near), false);
        unasked.learn((&two, &near), false);
        assert!(unasked.is_known(&one, &near) && !unasked.is_known(&one, &far));
        unasked.learn((&one, &far), true);
        assert!(!unasked.is_known(&one, &near) && unasked.is_known(&two, &near));
        tokio::time::advance(LASTING).await;
        assert!(!unasked.is_known(&two, &near));
    }

    #[tokio::test]
    async fn no_more_is_kept_than_there_is_room_for() {
        let proxy: Proxy = "http://a.test:1".parse().unwrap();
        let unasked = UnchallengedProxies::default();
        for number in 0..=MOST {
            let target = format!("h{number}.test:80").parse().unwrap();
            unasked.learn((&proxy, &target), false);
        }
        assert!(unasked.0.lock().unwrap().len() <= MOST);
    }
}
