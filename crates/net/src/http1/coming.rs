//! Connections that are being made before the requests that need them are known.
//!
//! A request waits for one of them, whichever is ready first, in place of making another one beside them. One that fails lets a request
//! go on without it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::request::RouteKey;

/// The connections on their way, by route.
#[derive(Debug)]
pub(crate) struct ComingConnections<C> {
    by_route: Mutex<foldhash::HashMap<Arc<RouteKey>, RouteConnections<C>>>,
}

#[derive(Debug)]
struct RouteConnections<C> {
    /// Connections that are being made.
    coming: usize,
    /// Requests that wait for one, never more than are coming.
    waiting: VecDeque<oneshot::Sender<C>>,
}

/// A connection that is being made. Dropped, it does not come.
#[derive(Debug)]
pub(crate) struct ComingConnection<'a, C> {
    all: &'a ComingConnections<C>,
    route: Arc<RouteKey>,
}

impl<C> Default for ComingConnections<C> {
    fn default() -> Self {
        Self {
            by_route: Mutex::default(),
        }
    }
}

impl<C> ComingConnections<C> {
    /// So many connections are about to be made; as many fewer as are coming already.
    pub(crate) fn announce_up_to(
        &self,
        number: usize,
        route: &Arc<RouteKey>,
    ) -> Vec<ComingConnection<'_, C>> {
        let mut by_route = self.lock();
        let coming = by_route.get(route).map_or(0, |entry| entry.coming);
        if number <= coming {
            return Vec::new();
        }
        let entry = by_route
            .entry(Arc::clone(route))
            .or_insert_with(|| RouteConnections {
                coming: 0,
                waiting: VecDeque::new(),
            });
        entry.coming = number;
        let announced = (coming..number).map(|_| ComingConnection {
            all: self,
            route: Arc::clone(route),
        });
        announced.collect()
    }

    /// Waits for a connection that no other request waits for. `None` if there is none, or it failed. Cancel safe.
    pub(crate) async fn next(&self, route: &RouteKey) -> Option<C> {
        let waiter = {
            let mut by_route = self.lock();
            let entry = by_route.get_mut(route)?;
            entry.waiting.retain(|waiter| !waiter.is_closed());
            let (sender, waiter) = oneshot::channel();
            if entry.waiting.len() == entry.coming {
                return None;
            }
            entry.waiting.push_back(sender);
            waiter
        };
        waiter.await.ok()
    }

    fn lock(&self) -> MutexGuard<'_, foldhash::HashMap<Arc<RouteKey>, RouteConnections<C>>> {
        self.by_route.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> ComingConnection<'_, C> {
    /// Hands the connection to the request that has waited longest; returns it if none waits.
    pub(crate) fn made(self, mut connection: C) -> Option<C> {
        loop {
            let waiter = {
                let mut by_route = self.all.lock();
                let entry = by_route.get_mut(&self.route);
                entry.and_then(|entry| entry.waiting.pop_front())
            };
            let Some(waiter) = waiter else {
                return Some(connection);
            };
            connection = waiter.send(connection).err()?;
        }
    }
}

impl<C> Drop for ComingConnection<'_, C> {
    fn drop(&mut self) {
        let mut by_route = self.all.lock();
        if let Some(entry) = by_route.get_mut(&self.route) {
            entry.coming -= 1;
            entry.waiting.truncate(entry.coming);
            if entry.coming == 0 {
                by_route.remove(&self.route);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::{FutureExt, join};

    use super::*;

    fn route() -> Arc<RouteKey> {
        Arc::new(RouteKey {
            is_tls: true,
            host: "host".into(),
            port: 443,
            has_client_certificate: false,
        })
    }

    fn two<'a>(
        coming: &'a ComingConnections<u32>,
        route: &Arc<RouteKey>,
    ) -> [ComingConnection<'a, u32>; 2] {
        coming.announce_up_to(2, route).try_into().unwrap()
    }

    #[tokio::test]
    async fn as_many_requests_wait_as_connections_come_and_the_first_gets_the_first() {
        let (coming, route) = (ComingConnections::default(), route());
        assert_eq!(coming.next(&route).now_or_never(), Some(None));
        let [one, two] = two(&coming, &route);
        assert_eq!(coming.announce_up_to(2, &route).len(), 0, "both are coming");
        // A request that is given up waits no longer.
        assert_eq!(coming.next(&route).now_or_never(), None);
        let made = async {
            assert_eq!(coming.next(&route).now_or_never(), Some(None), "a third");
            assert_eq!((two.made(1), one.made(2)), (None, None));
        };
        let first_and_second = join(coming.next(&route), coming.next(&route));
        assert_eq!(join(first_and_second, made).await.0, (Some(1), Some(2)));
        let third = coming.announce_up_to(1, &route).pop().unwrap();
        assert_eq!(third.made(3), Some(3), "nobody waits");
        assert_eq!(coming.next(&route).now_or_never(), Some(None));
    }

    #[tokio::test]
    async fn a_connection_that_fails_lets_the_last_request_go() {
        let (coming, route) = (ComingConnections::default(), route());
        let [one, two] = two(&coming, &route);
        let made = async {
            drop(one);
            assert_eq!(two.made(1), None);
        };
        let first_and_second = join(coming.next(&route), coming.next(&route));
        assert_eq!(join(first_and_second, made).await.0, (Some(1), None));
    }
}
