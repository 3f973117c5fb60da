//! Connections at rest, by where they lead.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::connection::Connection;

/// A connection that rested longer than this is not used again: servers close theirs after five to seventy-five
/// seconds, and a request sent into a close costs more than a new connection.
const REST: Duration = Duration::from_secs(30);

/// Connections at rest in all, each of them a file descriptor: eight hosts with as many as they may have, and far below the
/// 1024 that a process usually gets.
pub(crate) const TOTAL: usize = 128;

/// Where a connection leads: requests with equal routes can share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// Scheme, host and port of the origin; for absolute-form requests those of the proxy.
    pub(crate) peer: String,
    /// The proxy in between, with its login's user: two users never share a connection.
    pub(crate) proxy: Option<String>,
    /// Whether our certificate was shown: who merely was redirected here must not ask with it.
    pub(crate) certified: bool,
}

/// One that rests.
#[derive(Debug)]
struct Resting<C> {
    route: Route,
    connection: C,
    since: Instant,
}

/// What a pool asks of what it holds. Connections do; tests have something smaller.
pub(crate) trait Reusable {
    /// Whether it can take a request now.
    fn is_reusable(&mut self) -> bool;
}

impl Reusable for Connection {
    fn is_reusable(&mut self) -> bool {
        Self::is_reusable(self)
    }
}

/// Connections at rest. What has rested for too long is closed when the pool is next used, whatever it is used for; until
/// then the bound on all of them holds.
#[derive(Debug)]
pub(crate) struct Pool<C = Connection> {
    /// By the time that they came. The last to come is the first to go: it is the least likely to have been closed.
    idle: Mutex<VecDeque<Resting<C>>>,
    /// How many are kept a route.
    each: usize,
    /// How many are kept in all.
    total: usize,
}

impl<C: Reusable> Pool<C> {
    pub(crate) fn new(each: usize, total: usize) -> Self {
        Self {
            idle: Mutex::default(),
            each,
            total,
        }
    }

    /// A connection that can take a request, if one rests.
    pub(crate) fn take(&self, route: &Route) -> Option<C> {
        let mut idle = self.rested();
        while let Some(at) = idle.iter().rposition(|resting| resting.route == *route) {
            let mut resting = idle.remove(at)?;
            if resting.connection.is_reusable() {
                return Some(resting.connection);
            }
        }
        None
    }

    /// Lets a connection rest, if it can be used again and there is room for its route. Where there are too many in all,
    /// the oldest goes.
    pub(crate) fn give(&self, route: Route, mut connection: C) {
        if !connection.is_reusable() {
            return;
        }
        let mut idle = self.rested();
        let alike = idle.iter().filter(|resting| resting.route == route);
        if alike.count() >= self.each {
            return;
        }
        idle.push_back(Resting {
            route,
            connection,
            since: Instant::now(),
        });
        if idle.len() > self.total {
            idle.pop_front();
        }
    }

    /// Those that have not rested for too long.
    fn rested(&self) -> MutexGuard<'_, VecDeque<Resting<C>>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while idle
            .front()
            .is_some_and(|oldest| oldest.since.elapsed() >= REST)
        {
            idle.pop_front();
        }
        idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Reusable for u32 {
        /// Odd ones were closed.
        fn is_reusable(&mut self) -> bool {
            self.is_multiple_of(2)
        }
    }

    fn route(peer: &str) -> Route {
        Route {
            peer: peer.into(),
            proxy: None,
            certified: false,
        }
    }

    fn held(pool: &Pool<u32>) -> Vec<u32> {
        let idle = pool.idle.lock().unwrap();
        idle.iter().map(|resting| resting.connection).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_rested_too_long_goes_wherever_it_leads() {
        let pool = Pool::new(2, 10);
        for (peer, connection) in [("a", 0), ("b", 2), ("b", 4), ("b", 6), ("b", 7)] {
            pool.give(route(peer), connection);
        }
        assert_eq!(held(&pool), [0, 2, 4], "two a route, and no closed ones");
        tokio::time::advance(REST / 2).await;
        pool.give(route("c"), 8);
        tokio::time::advance(REST / 2).await;
        assert_eq!(pool.take(&route("d")), None);
        assert_eq!(held(&pool), [8]);
        assert_eq!(pool.take(&route("c")), Some(8));
    }

    #[tokio::test(start_paused = true)]
    async fn all_together_have_a_bound_and_the_last_to_come_is_the_first_to_go() {
        let pool = Pool::new(2, 3);
        for (peer, connection) in [("a", 0), ("b", 2), ("c", 4), ("c", 6)] {
            pool.give(route(peer), connection);
        }
        assert_eq!(held(&pool), [2, 4, 6]);
        assert_eq!(pool.take(&route("c")), Some(6));
        assert_eq!(pool.take(&route("a")), None);
        let certified = Route {
            certified: true,
            ..route("b")
        };
        assert_eq!(pool.take(&certified), None, "not the same road");
    }
}
