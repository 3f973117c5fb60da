//! What is remembered of hosts that have no job here at the moment.
//!
//! Of most that is nothing. Only those that were given up, are suspect, or refuse are worth it: forgetting one costs a few
//! timeouts, or a few refusals. So the memory is bounded, and the one remembered longest ago goes first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::host_control::HostControl;
use super::host_health::HostHealth;

/// Hosts at most: some 10 MB of them.
const MAX_HOSTS: usize = 65_536;

/// What there is to know of a host.
#[derive(Debug, Default)]
pub(super) struct IdleHost {
    /// Whether it can be reached.
    pub(super) health: HostHealth,
    /// What it refuses.
    pub(super) control: Option<Box<HostControl>>,
    /// Until when nothing should be asked.
    pub(super) paused_until: Duration,
}

/// Hosts without jobs.
#[derive(Debug, Default)]
pub(super) struct IdleHosts {
    hosts: HashMap<Arc<str>, (u64, IdleHost)>,
    /// In the order they were remembered, with the number of the time; those that were recalled since are still in it.
    order: VecDeque<(u64, Arc<str>)>,
    /// The next time's number.
    next_number: u64,
}

impl IdleHosts {
    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn insert(&mut self, name: Arc<str>, what: IdleHost) {
        self.next_number += 1;
        self.order.push_back((self.next_number, Arc::clone(&name)));
        self.hosts.insert(name, (self.next_number, what));
        while self.hosts.len() > MAX_HOSTS {
            let Some((time, name)) = self.order.pop_front() else {
                break;
            };
            if self
                .hosts
                .get(&name)
                .is_some_and(|(known, _)| *known == time)
            {
                self.hosts.remove(&name);
            }
        }
        // Hosts that come and go would fill the order without ever filling the memory.
        if self.order.len() > 2 * self.hosts.len() + 64 {
            let hosts = &self.hosts;
            self.order
                .retain(|(time, name)| hosts.get(name).is_some_and(|(known, _)| known == time));
        }
    }

    /// What is known of a host that has a job again.
    pub(super) fn take(&mut self, name: &str) -> IdleHost {
        if self.hosts.is_empty() {
            return IdleHost::default();
        }
        self.hosts
            .remove(name)
            .map(|(_, what)| what)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(seconds: u64) -> IdleHost {
        IdleHost {
            paused_until: Duration::from_secs(seconds),
            ..IdleHost::default()
        }
    }

    #[test]
    fn the_oldest_go_and_one_that_was_remembered_again_is_not_old() {
        let mut memory = IdleHosts::default();
        for n in 0..MAX_HOSTS {
            memory.insert(n.to_string().into(), rest(1));
        }
        assert_eq!(memory.take("0").paused_until, Duration::from_secs(1));
        memory.insert("0".into(), rest(2));
        for n in 0..10 {
            memory.insert(format!("new {n}").into(), rest(3));
        }
        assert_eq!(memory.len(), MAX_HOSTS);
        assert_eq!(memory.take("1").paused_until, Duration::ZERO);
        assert_eq!(memory.take("0").paused_until, Duration::from_secs(2));
        assert_eq!(memory.take("new 9").paused_until, Duration::from_secs(3));
    }

    #[test]
    fn hosts_that_come_and_go_leave_nothing() {
        let mut memory = IdleHosts::default();
        for _ in 0..10_000 {
            memory.insert("x".into(), rest(1));
            memory.take("x");
        }
        assert!(memory.order.len() < 100 && memory.len() == 0);
    }
}
