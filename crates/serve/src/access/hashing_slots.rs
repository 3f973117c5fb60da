//! Places for those who wait for their password to be hashed.
//!
//! There is a bounded number of places, and one address gets a part of them at most: whoever fills their part with guesses keeps
//! their own others out, and not everybody. An address is a network where that is what a client has (IPv6, 64 bits). Clients of
//! a proxy on this machine all come from the own address, which is therefore not counted.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places.
#[derive(Debug)]
pub(super) struct HashingQueue {
    slots: Arc<Semaphore>,
    /// Places of one address.
    max_per_address: usize,
    /// Who holds how many; has no zeros, so it is no longer than there are places.
    per_address: Mutex<HashMap<IpAddr, usize>>,
}

/// A place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct HashingQueueSlot {
    queue: Arc<HashingQueue>,
    /// Whose part it counts for.
    address: Option<IpAddr>,
    /// Given back after the count is.
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

    /// A place, if there is one for that peer.
    pub(super) fn try_acquire(self: &Arc<Self>, peer: Option<IpAddr>) -> Option<HashingQueueSlot> {
        let permit = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        let counted = peer.and_then(client_network);
        if let Some(network) = counted {
            let mut held = self
                .per_address
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let count = held.get(&network).copied().unwrap_or_default();
            if count >= self.max_per_address {
                return None;
            }
            held.insert(network, count + 1);
        }
        Some(HashingQueueSlot {
            queue: Arc::clone(self),
            address: counted,
            _permit: permit,
        })
    }
}

impl Drop for HashingQueueSlot {
    fn drop(&mut self) {
        let Some(network) = self.address else {
            return;
        };
        let mut held = self
            .queue
            .per_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match held.get_mut(&network) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(held.remove(&network)),
        }
    }
}

/// What counts as one client; `None` for the own machine.
fn client_network(address: IpAddr) -> Option<IpAddr> {
    match address.to_canonical() {
        own if own.is_loopback() => None,
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
    fn one_address_does_not_fill_it() {
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
    fn a_network_is_one_address_and_the_own_machine_is_none() {
        let queue = Arc::new(HashingQueue::new(8, 1));
        let _one = queue.try_acquire(peer("2001:db8::1")).expect("a place");
        assert!(queue.try_acquire(peer("2001:db8::ffff:2")).is_none());
        let _next = queue.try_acquire(peer("2001:db8:0:1::1")).expect("a place");
        let own: Vec<_> = ["127.0.0.1", "::1", "127.0.0.1"]
            .map(|own| queue.try_acquire(peer(own)))
            .into();
        assert!(own.iter().all(Option::is_some));
        let unknown = [queue.try_acquire(None), queue.try_acquire(None)];
        assert!(unknown.iter().all(Option::is_some));
    }
}
