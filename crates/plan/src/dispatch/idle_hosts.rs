//! What the dispatcher remembers of hosts that have no job at the moment.
//!
//! Of most hosts that is nothing. Only hosts that cannot be reached or that refuse requests are worth remembering: forgetting
//! one costs a few timeouts, or a few refusals. With a limit of requests a second, hosts that had one just now are
//! remembered, too. The number is bounded, and the oldest entry goes first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::host_control::HostControl;
use super::host_health::HostHealth;
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
}

/// Hosts without jobs.
#[derive(Debug, Default)]
pub(super) struct IdleHosts {
    /// By name, with the number of the insertion.
    hosts: HashMap<Arc<str>, (u64, IdleHost)>,
    /// Insertions in their order. Those of hosts that were taken out since are still here.
    order: VecDeque<(u64, Arc<str>)>,
    /// The next insertion's number.
    next_number: u64,
}

impl IdleHosts {
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
    fn hosts_that_come_and_go_leave_nothing() {
        let mut hosts = IdleHosts::default();
        for _ in 0..10_000 {
            hosts.insert("x".into(), paused_until(1));
            hosts.take("x");
        }
        assert!(hosts.order.len() < 100 && hosts.len() == 0);
    }
}
