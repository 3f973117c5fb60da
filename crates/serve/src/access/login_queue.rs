//! Logins whose passwords must be hashed, and the bounds of that work.
//!
//! Hashing takes tens of milliseconds of a core and tens of megabytes, and any client can make a
//! server do it. So two numbers are bounded: passwords hashed at a time, and logins that wait for
//! that. A login takes a slot when the request is authorized and gives it back when it is dropped,
//! wherever that happens. Cached logins need no slot.
//!
//! A program that opens many connections at once sends the same login on each. They wait in the
//! same queue, and all but the first find the result in the cache.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use super::accounts::{LoginOptions, SecretDigest};
use super::login_cache::LoginCache;
use super::password_hash::PasswordHash;
use super::rules::ZeroizedSecret;

/// What all logins share.
#[derive(Debug)]
pub(super) struct LoginQueue {
    /// Slots of the logins that wait or are being hashed.
    pub(super) slots: Arc<PasswordHashingQueue>,
    /// Permits of the logins that are being hashed.
    hash_permits: Arc<Semaphore>,
    /// Successful logins. Only clients with a valid password add to it, so a crowd without one
    /// evicts nothing.
    pub(super) successes: LoginCache,
    /// Failed logins.
    pub(super) failures: LoginCache,
}

/// A login whose password must be hashed: call [`acquire_permit`](Self::acquire_permit), then
/// [`verify`](ReadyLogin::verify) on a thread that may block, then
/// [`AccessControl::authorize_with_result`](super::AccessControl::authorize_with_result). Dropping
/// it gives its slot back.
pub struct PendingLogin {
    pub(super) queue: Arc<LoginQueue>,
    pub(super) attempt: LoginAttempt,
    pub(super) slot: PasswordHashingSlot,
}

/// A login whose password may be hashed now. Dropping it lets the next one proceed.
pub struct ReadyLogin {
    pending: PendingLogin,
    /// Held during the hashing.
    permit: OwnedSemaphorePermit,
}

pub(super) struct LoginAttempt {
    /// Of user name and password.
    pub(super) digest: SecretDigest,
    pub(super) password: ZeroizedSecret,
    /// When the request was authorized, for the cache.
    pub(super) now: SystemTime,
    /// The user's hash, or another user's if there is no such user.
    pub(super) hash: Arc<PasswordHash>,
    /// Whether the user exists and has this hash. If not, the login has failed whatever the hash
    /// says.
    pub(super) user_exists: bool,
}

/// The result of hashing. Valid for one user name with one password only.
#[derive(Debug, Clone, Copy)]
pub struct LoginResult {
    pub(super) digest: SecretDigest,
    pub(super) is_correct: bool,
}

impl LoginQueue {
    pub(super) fn new(options: &LoginOptions) -> Self {
        let concurrent = options.concurrent_hashes.get().min(Semaphore::MAX_PERMITS);
        let slots = concurrent.saturating_add(options.max_waiting);
        Self {
            slots: Arc::new(PasswordHashingQueue::new(
                slots,
                options.max_per_address.get(),
            )),
            hash_permits: Arc::new(Semaphore::new(concurrent)),
            successes: LoginCache::new(options.cache_entries, options.success_lifetime),
            failures: LoginCache::new(options.cache_entries, options.failure_lifetime),
        }
    }
}

impl PendingLogin {
    /// Waits until the password may be hashed. Cancel safe: the slot is given back.
    ///
    /// # Errors
    /// Never while the [`AccessControl`](super::AccessControl) exists.
    pub async fn acquire_permit(self) -> Result<ReadyLogin, AcquireError> {
        let permit = Arc::clone(&self.queue.hash_permits).acquire_owned().await;
        Ok(ReadyLogin {
            permit: permit?,
            pending: self,
        })
    }
}

impl ReadyLogin {
    /// Hashes the password, unless another connection has done so meanwhile. Blocks for as long as
    /// the hash takes. The result is cached even if the client has gone.
    #[must_use]
    pub fn verify(self) -> LoginResult {
        let Self { pending, permit } = self;
        let PendingLogin {
            queue,
            attempt,
            slot,
        } = pending;
        let is_correct = attempt.verify(&queue);
        drop((permit, slot));
        LoginResult {
            digest: attempt.digest,
            is_correct,
        }
    }
}

impl LoginAttempt {
    fn verify(&self, queue: &LoginQueue) -> bool {
        if queue.successes.contains(&self.digest, self.now) {
            return true;
        }
        if queue.failures.contains(&self.digest, self.now) {
            return false;
        }
        let matches = self.hash.verify(self.password.expose());
        let is_correct = matches & self.user_exists;
        let cache = if is_correct {
            &queue.successes
        } else {
            &queue.failures
        };
        cache.insert(self.digest, self.now);
        is_correct
    }
}

impl fmt::Debug for PendingLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingLogin")
    }
}

impl fmt::Debug for ReadyLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadyLogin")
    }
}

/// The slots.
///
/// Slots for logins that wait for their passwords to be hashed.
///
/// The number of slots is bounded, and so is the share of one address: a client that fills its
/// share with guesses shuts out its own users only. IPv6 addresses are counted by /64, as a client
/// has a whole one. Loopback addresses are not counted: all clients of a proxy on this machine have
/// them.
#[derive(Debug)]
pub(super) struct PasswordHashingQueue {
    slots: Arc<Semaphore>,
    /// Maximum slots of one address.
    max_per_address: usize,
    /// Slots in use by address. Holds no zeros, so it has no more entries than there are slots.
    per_address: Mutex<HashMap<IpAddr, usize>>,
}

/// A slot, given back when it is dropped.
#[derive(Debug)]
pub(super) struct PasswordHashingSlot {
    queue: Arc<PasswordHashingQueue>,
    /// The address that it counts for.
    address: Option<IpAddr>,
    /// Dropped after the count has been updated.
    _permit: OwnedSemaphorePermit,
}

impl PasswordHashingQueue {
    pub(super) fn new(places: usize, max_per_address: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            max_per_address,
            per_address: Mutex::default(),
        }
    }

    /// Takes a slot, if the peer may have one.
    pub(super) fn try_acquire(
        self: &Arc<Self>,
        peer: Option<IpAddr>,
    ) -> Option<PasswordHashingSlot> {
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
        Some(PasswordHashingSlot {
            queue: Arc::clone(self),
            address,
            _permit: permit,
        })
    }
}

impl Drop for PasswordHashingSlot {
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
        let queue = Arc::new(PasswordHashingQueue::new(4, 2));
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
        let queue = Arc::new(PasswordHashingQueue::new(8, 1));
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
