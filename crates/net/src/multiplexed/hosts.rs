//! The hosts that requests may share connections to, and a bound on what rests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::host::Http2Host;
use crate::route::RouteKey;

/// How many hosts are remembered. Most are those that have HTTP/1.1 alone, of which only that is known.
const CAPACITY: usize = 10_000;

/// After how many new connections it is seen to what rests, as a share of what may rest.
const SHARE: usize = 4;

/// Hosts by route.
#[derive(Debug)]
pub(crate) struct Http2Pool {
    table: Mutex<Http2PoolState>,
    /// How many connections may rest in all; a quarter more may do so for a while.
    total: usize,
}

#[derive(Debug, Default)]
struct Http2PoolState {
    hosts: HashMap<RouteKey, Arc<Http2Host>>,
    /// Connections that were made since it was last seen to what rests.
    opened: usize,
}

impl Http2Pool {
    pub(crate) fn new(total: usize) -> Self {
        Self {
            table: Mutex::default(),
            total,
        }
    }

    /// The host of a route.
    pub(crate) fn of(&self, route: &RouteKey) -> Arc<Http2Host> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = table.hosts.get(route) {
            return Arc::clone(host);
        }
        if table.hosts.len() >= CAPACITY {
            // Whoever holds one of them goes on with it.
            table.hosts.retain(|_, host| !host.is_empty());
        }
        let host = Arc::new(Http2Host::new());
        table.hosts.insert(route.clone(), Arc::clone(&host));
        host
    }

    /// A shared connection was made: now and then the oldest of those that nobody uses are closed.
    pub(crate) fn opened(&self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.opened += 1;
        if table.opened <= self.total / SHARE {
            return;
        }
        table.opened = 0;
        let hosts: Vec<Arc<Http2Host>> = table.hosts.values().map(Arc::clone).collect();
        drop(table);
        let mut resting: Vec<_> = hosts
            .iter()
            .flat_map(|host| host.resting().map(move |(since, lane)| (since, lane, host)))
            .collect();
        resting.sort_unstable_by_key(|(since, ..)| *since);
        let beyond = resting.len().saturating_sub(self.total);
        for (_, lane, host) in &resting[..beyond] {
            host.close(*lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(host: usize) -> RouteKey {
        RouteKey {
            secure: true,
            host: host.to_string().into(),
            port: 443,
            certified: false,
        }
    }

    #[test]
    fn a_route_has_one_host_and_hosts_have_a_bound() {
        let hosts = Http2Pool::new(128);
        let one = hosts.of(&route(0));
        assert!(Arc::ptr_eq(&one, &hosts.of(&route(0))));
        assert!(!Arc::ptr_eq(&one, &hosts.of(&route(1))));
        for n in 0..=CAPACITY * 2 {
            hosts.of(&route(n));
        }
        assert!(hosts.table.lock().unwrap().hosts.len() <= CAPACITY);
    }
}
