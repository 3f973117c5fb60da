//! Slots for logins that wait for their passwords to be hashed.
//!
//! The number of slots is bounded, and so is the share of one address: a client that fills its
//! share with guesses shuts out its own users only. IPv6 addresses are counted by /64, as a client
//! has a whole one. Loopback addresses are not counted: all clients of a proxy on this machine have
//! them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots.
#[derive(Debug)]
pub(super) struct HashingQueue {
    slots: Arc<Semaphore>,
    /// Maximum slots of one address.
    max_per_address: usize,
    /// Slots in use by address. Holds no zeros, so it has no more entries than there are slots.
    per_address: Mutex<HashMap<IpAddr, usize>>,
}

/// A slot, given back when it is dropped.
#[derive(Debug)]
pub(super) struct HashingQueueSlot {
    queue: Arc<HashingQueue>,
    /// The address that it counts for.
    address: Option<IpAddr>,
    /// Dropped after the count has been updated.
    _permit: OwnedSemaphorePermit,
}

impl HashingQueue {
    pub(super) fn new(places: usize, max_per_address: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            max_per_address,
            per_address: Mutex::default(),
        }
    }

    /// Takes a slot, if the peer may have one.
    pub(super) fn try_acquire(self: &Arc<Self>, peer: Option<IpAddr>) -> Option<HashingQueueSlot> {
        let permit = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        let address = peer.and_then(client_network);
        if let Some(network) = address {
            let mut per_address = self
                .per_address
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let count = per_address.get(&network).copied().unwrap_or_default();
            if count >= self.max_per_address {
                return None;
            }
            per_address.insert(network, count + 1);
        }
        Some(HashingQueueSlot {
            queue: Arc::clone(self),
            address,
            _permit: permit,
        })
    }
}

impl Drop for HashingQueueSlot {
    fn drop(&mut self) {
        let Some(network) = self.address else {
            return;
        };
        let mut per_address = self
            .queue
            .per_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match per_address.get_mut(&network) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(per_address.remove(&network)),
        }
    }
}

/// The network that counts as one client; `None` for loopback.
fn client_network(address: IpAddr) -> Option<IpAddr> {
    match address.to_canonical() {
        loopback if loopback.is_loopback() => None,
        IpAddr::V4(address) => Some(IpAddr::V4(address)),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Some(IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[test]
    fn one_address_does_not_fill_the_queue() {
        let queue = Arc::new(HashingQueue::new(4, 2));
        let one = queue.try_acquire(peer("192.0.2.1")).expect("a place");
        let mapped = queue
            .try_acquire(peer("::ffff:192.0.2.1"))
            .expect("a place");
        assert!(queue.try_acquire(peer("192.0.2.1")).is_none());
        let other = queue.try_acquire(peer("192.0.2.2")).expect("a place");
        drop(one);
        let again = queue.try_acquire(peer("192.0.2.1")).expect("a place");
        assert!(queue.try_acquire(peer("192.0.2.1")).is_none());
        let last = queue.try_acquire(peer("192.0.2.3")).expect("a place");
        assert!(
            queue.try_acquire(peer("192.0.2.4")).is_none() && queue.try_acquire(None).is_none()
        );
        drop((mapped, other, again, last));
        assert!(queue.per_address.lock().expect("no panic").is_empty());
        assert_eq!(queue.slots.available_permits(), 4);
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address_and_loopback_does_not_count() {
        let queue = Arc::new(HashingQueue::new(8, 1));
        let _one = queue.try_acquire(peer("2001:db8::1")).expect("a place");
        assert!(queue.try_acquire(peer("2001:db8::ffff:2")).is_none());
        let _next = queue.try_acquire(peer("2001:db8:0:1::1")).expect("a place");
        let loopback: Vec<_> = ["127.0.0.1", "::1", "127.0.0.1"]
            .map(|loopback| queue.try_acquire(peer(loopback)))
            .into();
        assert!(loopback.iter().all(Option::is_some));
        let unknown = [queue.try_acquire(None), queue.try_acquire(None)];
        assert!(unknown.iter().all(Option::is_some));
    }
}
