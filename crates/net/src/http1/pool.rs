//! Connections at rest, by where they lead.
//!
//! A batch takes and gives one tens of thousands of times a second, with a thousand at rest or ten thousand hosts, so nothing
//! here walks through what rests: each route has its queue, and all together are ordered by when they came. What is asked of
//! a connection, or costs a system call, is done outside the lock.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::connection::Http1Connection;
use crate::request::RouteKey;

/// A connection that rested longer than this is not used again: servers close theirs after five to seventy-five
/// seconds, and a request sent into a close costs more than a new connection.
pub(crate) const MAX_IDLE_TIME: Duration = Duration::from_secs(30);

/// What a pool asks of what it holds. Connections do; tests have something smaller.
pub(crate) trait PoolableConnection {
    /// Whether it can take a request now.
    fn is_reusable(&mut self) -> bool;
}

impl PoolableConnection for Http1Connection {
    fn is_reusable(&mut self) -> bool {
        Self::is_reusable(self)
    }
}

/// One that rests.
#[derive(Debug)]
struct IdleConnection<C> {
    /// Its place among all that ever came.
    sequence: u64,
    connection: C,
    idle_since: Instant,
}

/// Those that rest. A number is in `by_age` as long as it is in a queue.
#[derive(Debug)]
struct IdleConnections<C> {
    /// Where each route's connections rest, the oldest first. Empty queues stay for a while: they are soon used again.
    by_route: HashMap<Arc<RouteKey>, VecDeque<IdleConnection<C>>>,
    /// All of them, the oldest first.
    by_age: BTreeMap<u64, Arc<RouteKey>>,
    /// How many ever came.
    next_sequence: u64,
}

/// Connections at rest. What has rested for too long is closed when the pool is next used, whatever it is used for; until
/// then the bound on all of them holds.
#[derive(Debug)]
pub(crate) struct ConnectionPool<C = Http1Connection> {
    idle: Mutex<IdleConnections<C>>,
    /// How many are kept a route.
    max_per_route: usize,
    /// How many are kept in all.
    max_idle: usize,
}

impl<C: PoolableConnection> ConnectionPool<C> {
    pub(crate) fn new(max_per_route: usize, max_idle: usize) -> Self {
        let idle = IdleConnections {
            by_route: HashMap::new(),
            by_age: BTreeMap::new(),
            next_sequence: 0,
        };
        Self {
            idle: Mutex::new(idle),
            max_per_route,
            max_idle,
        }
    }

    /// A connection that can take a request, if one rests, with its route. The last to come is the first to go: it is the
    /// least likely to have been closed.
    pub(crate) fn take(&self, route: &RouteKey) -> Option<(Arc<RouteKey>, C)> {
        loop {
            let mut closed = Vec::new();
            let (route, mut connection) = {
                let mut idle = self.lock();
                idle.remove_expired(Instant::now(), &mut closed);
                idle.take_newest(route)?
            };
            if connection.is_reusable() {
                return Some((route, connection));
            }
        }
    }

    /// Lets a connection rest, if it can be used again and there is room for its route. Where there are too many in all,
    /// the oldest goes.
    pub(crate) fn put(&self, route: Arc<RouteKey>, mut connection: C) {
        if !connection.is_reusable() {
            return;
        }
        let now = Instant::now();
        // Declared first, so that they are dropped, which closes sockets, when the lock has been let go.
        let mut closed = Vec::new();
        let mut idle = self.lock();
        idle.remove_expired(now, &mut closed);
        let full = idle.by_route.get(&route).map_or(0, VecDeque::len) >= self.max_per_route;
        if full {
            closed.push(connection);
        } else {
            idle.push(route, connection, now);
        }
        if idle.by_age.len() > self.max_idle {
            closed.extend(idle.take_oldest());
        }
        if idle.by_route.len() > self.max_idle.saturating_mul(2) {
            idle.by_route.retain(|_, queue| !queue.is_empty());
        }
    }

    fn lock(&self) -> MutexGuard<'_, IdleConnections<C>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> IdleConnections<C> {
    fn push(&mut self, route: Arc<RouteKey>, connection: C, since: Instant) {
        self.next_sequence += 1;
        let number = self.next_sequence;
        self.by_age.insert(number, Arc::clone(&route));
        let queue = self.by_route.entry(route).or_default();
        queue.push_back(IdleConnection {
            sequence: number,
            connection,
            idle_since: since,
        });
    }

    /// The last that came for a route.
    fn take_newest(&mut self, route: &RouteKey) -> Option<(Arc<RouteKey>, C)> {
        let resting = self.by_route.get_mut(route)?.pop_back()?;
        let route = self.by_age.remove(&resting.sequence)?;
        Some((route, resting.connection))
    }

    /// The first that came of all: it is the first in its queue, too.
    fn take_oldest(&mut self) -> Option<C> {
        let (_, route) = self.by_age.pop_first()?;
        let resting = self.by_route.get_mut(&route)?.pop_front()?;
        Some(resting.connection)
    }

    /// Moves those that have rested for too long to `closed`.
    fn remove_expired(&mut self, now: Instant, closed: &mut Vec<C>) {
        while let Some((_, route)) = self.by_age.first_key_value() {
            let oldest = self.by_route.get(route).and_then(VecDeque::front);
            if oldest.is_some_and(|oldest| now.duration_since(oldest.idle_since) < MAX_IDLE_TIME) {
                return;
            }
            closed.extend(self.take_oldest());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl PoolableConnection for u32 {
        /// Odd ones were closed.
        fn is_reusable(&mut self) -> bool {
            self.is_multiple_of(2)
        }
    }

    fn route(host: &str) -> Arc<RouteKey> {
        Arc::new(RouteKey {
            is_tls: false,
            host: host.into(),
            port: 80,
            has_client_certificate: false,
        })
    }

    fn idle_connections(pool: &ConnectionPool<u32>) -> Vec<u32> {
        let idle = pool.lock();
        let queues = idle.by_route.values().flatten();
        let mut all: Vec<_> = queues
            .map(|held| (held.sequence, held.connection))
            .collect();
        all.sort_unstable();
        let numbers: Vec<u64> = all.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, idle.by_age.keys().copied().collect::<Vec<_>>());
        all.into_iter().map(|(_, connection)| connection).collect()
    }

    fn take_from(pool: &ConnectionPool<u32>, host: &str) -> Option<u32> {
        let (found, connection) = pool.take(&route(host))?;
        assert_eq!(found, route(host));
        Some(connection)
    }

    #[tokio::test(start_paused = true)]
    async fn what_rested_too_long_goes_wherever_it_leads() {
        let pool = ConnectionPool::new(2, 10);
        for (host, connection) in [("a", 0), ("b", 2), ("b", 4), ("b", 6), ("b", 7)] {
            pool.put(route(host), connection);
        }
        assert_eq!(
            idle_connections(&pool),
            [0, 2, 4],
            "two a route, and no closed ones"
        );
        tokio::time::advance(MAX_IDLE_TIME / 2).await;
        pool.put(route("c"), 8);
        tokio::time::advance(MAX_IDLE_TIME / 2).await;
        assert_eq!(take_from(&pool, "d"), None);
        assert_eq!(idle_connections(&pool), [8]);
        assert_eq!(take_from(&pool, "c"), Some(8));
    }

    #[tokio::test(start_paused = true)]
    async fn all_together_have_a_bound_and_the_last_to_come_is_the_first_to_go() {
        let pool = ConnectionPool::new(2, 3);
        for (host, connection) in [("a", 0), ("b", 2), ("c", 4), ("c", 6)] {
            pool.put(route(host), connection);
        }
        assert_eq!(idle_connections(&pool), [2, 4, 6]);
        assert_eq!(take_from(&pool, "c"), Some(6));
        assert_eq!(take_from(&pool, "a"), None);
        let certified = RouteKey {
            has_client_certificate: true,
            ..(*route("b")).clone()
        };
        assert!(pool.take(&certified).is_none(), "not the same road");
    }

    #[tokio::test(start_paused = true)]
    async fn what_closed_while_it_rested_is_passed_over() {
        #[derive(Debug)]
        struct Closing(u32, u32);
        impl PoolableConnection for Closing {
            fn is_reusable(&mut self) -> bool {
                self.1 -= 1;
                self.1 > 0
            }
        }
        let pool = ConnectionPool::new(8, 8);
        for (name, uses) in [(1, 9), (2, 2), (3, 2)] {
            pool.put(route("a"), Closing(name, uses));
        }
        assert_eq!(pool.take(&route("a")).unwrap().1.0, 1);
        assert!(pool.take(&route("a")).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn ten_thousand_hosts_and_a_thousand_connections_to_one_stay_within_the_bound() {
        let pool = ConnectionPool::new(1_000, 1_000);
        for host in 0..10_000 {
            pool.put(route(&host.to_string()), host * 2);
        }
        let last: Vec<u32> = (9_000..10_000).map(|host| host * 2).collect();
        assert_eq!(idle_connections(&pool), last);
        assert!(pool.lock().by_route.len() <= 2_001);
        for connection in 0..1_001 {
            pool.put(route("one"), connection * 2);
        }
        assert_eq!(idle_connections(&pool).len(), 1_000);
        let one = || pool.take(&route("one"));
        assert_eq!(std::iter::from_fn(one).count(), 1_000);
        assert_eq!(idle_connections(&pool), [0u32; 0]);
    }
}
