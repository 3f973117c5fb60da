//! Idle connections, by route.
//!
//! A batch takes and returns connections tens of thousands of times a second, with a thousand idle ones or ten thousand hosts.
//! So nothing here walks through all idle connections: each route has a queue, and an index orders all of them by age. Whatever
//! looks at a connection or costs a system call happens outside the lock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::connection::Http1Connection;
use crate::request::RouteKey;

/// A connection that was idle longer than this is not used again: servers close theirs after five to seventy-five seconds, and
/// a request that runs into a close costs more than a new connection.
pub(crate) const MAX_IDLE_TIME: Duration = Duration::from_secs(30);

/// What the pool asks of a connection. Tests pool something smaller.
pub(crate) trait PoolableConnection {
    /// Whether the connection can take a request now.
    fn is_reusable(&mut self) -> bool;
}

impl PoolableConnection for Box<Http1Connection> {
    fn is_reusable(&mut self) -> bool {
        Http1Connection::is_reusable(self)
    }
}

#[derive(Debug)]
struct IdleConnection<C> {
    /// Orders all connections by when they became idle.
    sequence: u64,
    connection: C,
    idle_since: Instant,
}

/// A connection is in `by_age` exactly as long as it is in a queue.
#[derive(Debug)]
struct IdleConnections<C> {
    /// A queue for each route, the oldest connection first. Empty queues stay for a while, since they are soon used again.
    by_route: foldhash::HashMap<Arc<RouteKey>, VecDeque<IdleConnection<C>>>,
    by_age: BTreeMap<u64, Arc<RouteKey>>,
    next_sequence: u64,
}

/// The pool. Connections that were idle for too long are closed when the pool is next used, for whichever route; until then the
/// bound on all of them holds.
#[derive(Debug)]
pub(crate) struct ConnectionPool<C = Box<Http1Connection>> {
    idle: Mutex<IdleConnections<C>>,
    max_per_route: usize,
    max_idle: usize,
}

impl<C: PoolableConnection> ConnectionPool<C> {
    pub(crate) fn new(max_per_route: usize, max_idle: usize) -> Self {
        let idle = IdleConnections {
            by_route: foldhash::HashMap::default(),
            by_age: BTreeMap::new(),
            next_sequence: 0,
        };
        Self {
            idle: Mutex::new(idle),
            max_per_route,
            max_idle,
        }
    }

    /// An idle connection that can take a request, with its route. The youngest goes first: it is the least likely to have been
    /// closed.
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

    /// How many connections are idle. Some may turn out to be closed.
    pub(crate) fn idle_count(&self, route: &RouteKey) -> usize {
        self.lock().by_route.get(route).map_or(0, VecDeque::len)
    }

    /// Keeps a connection, if it can be used again and its route has room. Where there are too many in all, the oldest is closed.
    pub(crate) fn put(&self, route: Arc<RouteKey>, mut connection: C) {
        if !connection.is_reusable() {
            return;
        }
        let now = Instant::now();
        // Declared before the lock guard, and so dropped after it: dropping a connection closes its socket.
        let mut closed = Vec::new();
        let mut idle = self.lock();
        idle.remove_expired(now, &mut closed);
        let is_full = idle.by_route.get(&route).map_or(0, VecDeque::len) >= self.max_per_route;
        if is_full {
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
    fn push(&mut self, route: Arc<RouteKey>, connection: C, idle_since: Instant) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.by_age.insert(sequence, Arc::clone(&route));
        let queue = self.by_route.entry(route).or_default();
        queue.push_back(IdleConnection {
            sequence,
            connection,
            idle_since,
        });
    }

    /// Takes the youngest connection of a route.
    fn take_newest(&mut self, route: &RouteKey) -> Option<(Arc<RouteKey>, C)> {
        let idle = self.by_route.get_mut(route)?.pop_back()?;
        let route = self.by_age.remove(&idle.sequence)?;
        Some((route, idle.connection))
    }

    /// Takes the oldest connection of all. It is the oldest of its queue, too.
    fn take_oldest(&mut self) -> Option<C> {
        let (_, route) = self.by_age.pop_first()?;
        let idle = self.by_route.get_mut(&route)?.pop_front()?;
        Some(idle.connection)
    }

    /// Moves connections that were idle for too long to `closed`.
    fn remove_expired(&mut self, now: Instant, closed: &mut Vec<C>) {
        while let Some((_, route)) = self.by_age.first_key_value() {
            let oldest = self.by_route.get(route).and_then(VecDeque::front);
            if oldest.is_some_and(|idle| now.duration_since(idle.idle_since) < MAX_IDLE_TIME) {
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
        /// Odd numbers are connections that were closed.
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

    /// All idle connections by age; checks that both indexes hold the same.
    fn idle_connections(pool: &ConnectionPool<u32>) -> Vec<u32> {
        let idle = pool.lock();
        let queued = idle.by_route.values().flatten();
        let mut all: Vec<_> = queued
            .map(|idle| (idle.sequence, idle.connection))
            .collect();
        all.sort_unstable();
        let sequences: Vec<u64> = all.iter().map(|(sequence, _)| *sequence).collect();
        assert_eq!(sequences, idle.by_age.keys().copied().collect::<Vec<_>>());
        all.into_iter().map(|(_, connection)| connection).collect()
    }

    fn take_from(pool: &ConnectionPool<u32>, host: &str) -> Option<u32> {
        let (found, connection) = pool.take(&route(host))?;
        assert_eq!(found, route(host));
        Some(connection)
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_were_idle_too_long_are_closed_on_every_route() {
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
    async fn the_oldest_is_closed_at_the_bound_and_the_youngest_is_taken_first() {
        let pool = ConnectionPool::new(2, 3);
        for (host, connection) in [("a", 0), ("b", 2), ("c", 4), ("c", 6)] {
            pool.put(route(host), connection);
        }
        assert_eq!(idle_connections(&pool), [2, 4, 6]);
        assert_eq!(take_from(&pool, "c"), Some(6));
        assert_eq!(take_from(&pool, "a"), None);
        let with_certificate = RouteKey {
            has_client_certificate: true,
            ..(*route("b")).clone()
        };
        assert!(pool.take(&with_certificate).is_none(), "another route");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_closed_while_idle_is_skipped() {
        #[derive(Debug)]
        struct Closing {
            id: u32,
            remaining_checks: u32,
        }
        impl PoolableConnection for Closing {
            fn is_reusable(&mut self) -> bool {
                self.remaining_checks -= 1;
                self.remaining_checks > 0
            }
        }
        let pool = ConnectionPool::new(8, 8);
        for (id, remaining_checks) in [(1, 9), (2, 2), (3, 2)] {
            pool.put(
                route("a"),
                Closing {
                    id,
                    remaining_checks,
                },
            );
        }
        assert_eq!(pool.take(&route("a")).unwrap().1.id, 1);
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
        let take_one = || pool.take(&route("one"));
        assert_eq!(std::iter::from_fn(take_one).count(), 1_000);
        assert_eq!(idle_connections(&pool), [0u32; 0]);
    }
}
