//! What the dispatcher remembers of hosts that have no job at the moment.
//!
//! Of most hosts that is nothing. Only hosts that cannot be reached or that refuse requests are worth remembering: forgetting
//! one costs a few timeouts, or a few refusals. With a limit of requests a second, hosts that had one just now are
//! remembered, too. The number is bounded, and the oldest entry goes first.
//!
//! A driver that runs one batch after another gives each the [`IdleHosts`] of the one before. Then the numbers of requests
//! that were found, and refusals, are remembered, too.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::host_control::HostControl;
use super::host_health::HostHealth;
use super::options::{HostRequestLimit, JobDispatcherOptions};
use super::request_rate::HostRequestRate;

/// The most hosts that are remembered: some 10 MB of them.
const MAX_HOSTS: usize = 65_536;

/// What is remembered of a host.
#[derive(Debug, Default)]
pub(super) struct IdleHost {
    pub(super) health: HostHealth,
    pub(super) control: Option<Box<HostControl>>,
    /// Until when the host gets no request.
    pub(super) paused_until: Duration,
    /// The requests of the last moment, if their number a second is limited.
    pub(super) request_rate: Option<Box<HostRequestRate>>,
    /// Streams that the host allows on a connection, if `control` knows a number of them.
    pub(super) max_streams: u32,
}

/// What a [`JobDispatcher`](super::JobDispatcher) remembers of hosts without jobs.
#[derive(Debug, Default)]
pub(crate) struct IdleHosts {
    /// By name, with the number of the insertion.
    hosts: HashMap<Arc<str>, (u64, IdleHost)>,
    /// Insertions in their order. Those of hosts that were taken out since are still here.
    order: VecDeque<(u64, Arc<str>)>,
    /// The next insertion's number.
    next_number: u64,
    /// The limits under which numbers of requests were found; `None` where these are not remembered.
    request_limits: Option<(HostRequestLimit, usize)>,
}

impl IdleHosts {
    /// Adds what another batch remembers, which is newer.
    pub(crate) fn merge(&mut self, mut newer: Self) {
        self.set_request_limits(newer.request_limits);
        for (number, name) in std::mem::take(&mut newer.order) {
            if newer.is_current(number, &name) {
                let host = newer.take(&name);
                self.insert(name, host);
            }
        }
    }

    /// Remembers also for the next batch: numbers of requests that are found under these options. Forgets those that were found
    /// under others.
    pub(super) fn remember_for_next_batch(&mut self, options: &JobDispatcherOptions) {
        self.set_request_limits(Some((options.per_host, options.max_streams)));
    }

    /// Whether it is remembered what only another batch needs.
    pub(super) fn is_for_next_batch(&self) -> bool {
        self.request_limits.is_some()
    }

    fn set_request_limits(&mut self, limits: Option<(HostRequestLimit, usize)>) {
        if self.request_limits == limits {
            return;
        }
        self.request_limits = limits;
        for (_, host) in self.hosts.values_mut() {
            (host.control, host.max_streams) = (None, 0);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn insert(&mut self, name: Arc<str>, host: IdleHost) {
        self.next_number += 1;
        self.order.push_back((self.next_number, Arc::clone(&name)));
        self.hosts.insert(name, (self.next_number, host));
        while self.hosts.len() > MAX_HOSTS {
            let Some((number, name)) = self.order.pop_front() else {
                break;
            };
            if self.is_current(number, &name) {
                self.hosts.remove(&name);
            }
        }
        // Hosts that come and go would fill the order without ever filling the map.
        if self.order.len() > 2 * self.hosts.len() + 64 {
            let order = std::mem::take(&mut self.order).into_iter();
            self.order = order
                .filter(|(number, name)| self.is_current(*number, name))
                .collect();
        }
    }

    /// Takes out what is known of a host that has a job again.
    pub(super) fn take(&mut self, name: &str) -> IdleHost {
        if self.hosts.is_empty() {
            return IdleHost::default();
        }
        self.hosts
            .remove(name)
            .map(|(_, host)| host)
            .unwrap_or_default()
    }

    /// Whether the entry for a name is the one of this insertion.
    fn is_current(&self, number: u64, name: &str) -> bool {
        self.hosts
            .get(name)
            .is_some_and(|(current, _)| *current == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paused_until(seconds: u64) -> IdleHost {
        IdleHost {
            paused_until: Duration::from_secs(seconds),
            ..IdleHost::default()
        }
    }

    #[test]
    fn the_oldest_entries_go_and_an_entry_inserted_again_is_new() {
        let mut hosts = IdleHosts::default();
        for n in 0..MAX_HOSTS {
            hosts.insert(n.to_string().into(), paused_until(1));
        }
        assert_eq!(hosts.take("0").paused_until, Duration::from_secs(1));
        hosts.insert("0".into(), paused_until(2));
        for n in 0..10 {
            hosts.insert(format!("new {n}").into(), paused_until(3));
        }
        assert_eq!(hosts.len(), MAX_HOSTS);
        assert_eq!(hosts.take("1").paused_until, Duration::ZERO);
        assert_eq!(hosts.take("0").paused_until, Duration::from_secs(2));
        assert_eq!(hosts.take("new 9").paused_until, Duration::from_secs(3));
    }

    #[test]
    fn what_is_merged_is_newer_and_the_oldest_entries_go() {
        let (mut hosts, mut newer) = (IdleHosts::default(), IdleHosts::default());
        for n in 0..MAX_HOSTS {
            hosts.insert(n.to_string().into(), paused_until(1));
        }
        newer.insert("x".into(), paused_until(2));
        newer.insert("5".into(), paused_until(2));
        newer.insert("x".into(), paused_until(3));
        hosts.merge(newer);
        assert_eq!(hosts.len(), MAX_HOSTS);
        assert_eq!(hosts.take("0").paused_until, Duration::ZERO);
        assert_eq!(hosts.take("5").paused_until, Duration::from_secs(2));
        assert_eq!(hosts.take("x").paused_until, Duration::from_secs(3));
        assert_eq!(hosts.take("6").paused_until, Duration::from_secs(1));
    }

    #[test]
    fn hosts_that_come_and_go_leave_nothing() {
        let mut hosts = IdleHosts::default();
        for _ in 0..10_000 {
            hosts.insert("x".into(), paused_until(1));
            hosts.take("x");
        }
        assert!(hosts.order.len() < 100 && hosts.len() == 0);
    }
}
