//! The hosts that requests may share connections to, and a bound on what rests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::host::Http2Host;
use crate::request::RouteKey;

/// How many hosts are remembered. Most are those that have HTTP/1.1 alone, of which only that is known.
const MAX_HOSTS: usize = 10_000;

/// After how many new connections it is seen to what rests, as a share of what may rest.
const IDLE_CHECKS: usize = 4;

/// Hosts by route.
#[derive(Debug)]
pub(crate) struct Http2Pool {
    state: Mutex<Http2PoolState>,
    /// How many connections may rest in all; a quarter more may do so for a while.
    max_idle: usize,
}

#[derive(Debug, Default)]
struct Http2PoolState {
    hosts: HashMap<RouteKey, Arc<Http2Host>>,
    /// Connections that were made since it was last seen to what rests.
    opened_since_check: usize,
}

impl Http2Pool {
    pub(crate) fn new(max_idle: usize) -> Self {
        Self {
            state: Mutex::default(),
            max_idle,
        }
    }

    /// The host of a route.
    pub(crate) fn host(&self, route: &RouteKey) -> Arc<Http2Host> {
        let mut table = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = table.hosts.get(route) {
            return Arc::clone(host);
        }
        if table.hosts.len() >= MAX_HOSTS {
            // Whoever holds one of them goes on with it.
            table.hosts.retain(|_, host| !host.has_no_connections());
        }
        let host = Arc::new(Http2Host::new());
        table.hosts.insert(route.clone(), Arc::clone(&host));
        host
    }

    /// A shared connection was made: now and then the oldest of those that nobody uses are closed.
    pub(crate) fn connection_opened(&self) {
        let mut table = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        table.opened_since_check += 1;
        if table.opened_since_check <= self.max_idle / IDLE_CHECKS {
            return;
        }
        table.opened_since_check = 0;
        let hosts: Vec<Arc<Http2Host>> = table.hosts.values().map(Arc::clone).collect();
        drop(table);
        let mut resting: Vec<_> = hosts
            .iter()
            .flat_map(|host| {
                host.idle_connections()
                    .map(move |(since, lane)| (since, lane, host))
            })
            .collect();
        resting.sort_unstable_by_key(|(since, ..)| *since);
        let beyond = resting.len().saturating_sub(self.max_idle);
        for (_, lane, host) in &resting[..beyond] {
            host.close_idle(*lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(host: usize) -> RouteKey {
        RouteKey {
            is_tls: true,
            host: host.to_string().into(),
            port: 443,
            has_client_certificate: false,
        }
    }

    #[test]
    fn a_route_has_one_host_and_hosts_have_a_bound() {
        let hosts = Http2Pool::new(128);
        let one = hosts.host(&route(0));
        assert!(Arc::ptr_eq(&one, &hosts.host(&route(0))));
        assert!(!Arc::ptr_eq(&one, &hosts.host(&route(1))));
        for n in 0..=MAX_HOSTS * 2 {
            hosts.host(&route(n));
        }
        assert!(hosts.state.lock().unwrap().hosts.len() <= MAX_HOSTS);
    }
}
