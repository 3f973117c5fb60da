//! The hosts that requests may share connections to, and a bound on idle connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::host::Http2Host;
use crate::request::RouteKey;

/// How many hosts are remembered. Of most of them only one thing is known: they use HTTP/1.1.
const MAX_HOSTS: usize = 10_000;

/// How often idle connections are counted: each time that `max_idle` divided by this many new ones were opened.
const IDLE_CHECKS: usize = 4;

/// Hosts by route.
#[derive(Debug)]
pub(crate) struct Http2Pool {
    state: Mutex<Http2PoolState>,
    /// How many connections may be idle in all; a quarter more may be so for a while.
    max_idle: usize,
}

#[derive(Debug, Default)]
struct Http2PoolState {
    hosts: HashMap<RouteKey, Arc<Http2Host>>,
    /// Connections that were opened since idle ones were last counted.
    opened_since_check: usize,
}

impl Http2Pool {
    pub(crate) fn new(max_idle: usize) -> Self {
        Self {
            state: Mutex::default(),
            max_idle,
        }
    }

    pub(crate) fn host(&self, route: &RouteKey) -> Arc<Http2Host> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = state.hosts.get(route) {
            return Arc::clone(host);
        }
        if state.hosts.len() >= MAX_HOSTS {
            // Requests that hold one of the removed hosts go on with it.
            state.hosts.retain(|_, host| !host.has_no_connections());
        }
        let host = Arc::new(Http2Host::new());
        state.hosts.insert(route.clone(), Arc::clone(&host));
        host
    }

    /// Counts a new connection. Now and then this closes the connections that have been idle longest, beyond `max_idle`.
    pub(crate) fn connection_opened(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.opened_since_check += 1;
        if state.opened_since_check <= self.max_idle / IDLE_CHECKS {
            return;
        }
        state.opened_since_check = 0;
        let hosts: Vec<Arc<Http2Host>> = state.hosts.values().map(Arc::clone).collect();
        drop(state);
        let mut idle: Vec<_> = hosts
            .iter()
            .flat_map(|host| {
                let connections = host.idle_connections();
                connections.map(move |(since, id)| (since, id, host))
            })
            .collect();
        idle.sort_unstable_by_key(|(since, ..)| *since);
        let excess = idle.len().saturating_sub(self.max_idle);
        for (_, id, host) in &idle[..excess] {
            host.close_idle(*id);
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
    fn a_route_has_one_host_and_the_number_of_hosts_is_bounded() {
        let pool = Http2Pool::new(128);
        let host = pool.host(&route(0));
        assert!(Arc::ptr_eq(&host, &pool.host(&route(0))));
        assert!(!Arc::ptr_eq(&host, &pool.host(&route(1))));
        for n in 0..=MAX_HOSTS * 2 {
            pool.host(&route(n));
        }
        assert!(pool.state.lock().unwrap().hosts.len() <= MAX_HOSTS);
    }
}
