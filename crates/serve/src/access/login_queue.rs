//! Logins whose passwords must be hashed, and the bounds of that work.
//!
//! Hashing takes tens of milliseconds of a core and tens of megabytes, and any client can make a
//! server do it. So two numbers are bounded: passwords hashed at a time, and logins that wait for
//! that. A login takes a slot when the request is authorized and gives it back when it is dropped,
//! wherever that happens. Cached logins need no slot.
//!
//! A program that opens many connections at once sends the same login on each. They wait in the
//! same queue, and all but the first find the result in the cache.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::accounts::LoginOptions;
use super::decision::{AccessRefusal, AccessRefusalReason};
use super::digest::SecretDigest;
use super::hashing_slots::{HashingQueue, HashingQueueSlot};
use super::login_cache::LoginCache;
use super::password_hash::PasswordHash;
use super::secret::ZeroizedSecret;

/// What all logins share.
#[derive(Debug)]
pub(super) struct LoginQueue {
    /// Slots of the logins that wait or are being hashed.
    pub(super) slots: Arc<HashingQueue>,
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
    pub(super) slot: HashingQueueSlot,
}

/// A login whose password may be hashed now. Dropping it lets the next one proceed.
pub struct ReadyLogin {
    pending: PendingLogin,
    /// Held during the hashing.
    permit: OwnedSemaphorePermit,
}

/// A login to check.
pub(super) struct LoginAttempt {
    /// Of user name and password.
    pub(super) digest: SecretDigest,
    pub(super) password: ZeroizedSecret,
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
            slots: Arc::new(HashingQueue::new(slots, options.max_per_address.get())),
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
    /// [`AccessRefusalReason::Busy`], which cannot happen while the
    /// [`AccessControl`](super::AccessControl) exists.
    pub async fn acquire_permit(self) -> Result<ReadyLogin, AccessRefusal> {
        let permit = Arc::clone(&self.queue.hash_permits).acquire_owned().await;
        let permit = permit.map_err(|_| AccessRefusal::new(AccessRefusalReason::Busy))?;
        Ok(ReadyLogin {
            pending: self,
            permit,
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
        if queue.successes.contains_at_any_age(&self.digest) {
            return true;
        }
        if queue.failures.contains_at_any_age(&self.digest) {
            return false;
        }
        let matches = self.hash.verify(self.password.expose());
        let is_correct = matches & self.user_exists;
        let cache = if is_correct {
            &queue.successes
        } else {
            &queue.failures
        };
        cache.insert(self.digest);
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
