//! A login whose password must be hashed, and the bounds within which that happens.
//!
//! Hashing takes tens of milliseconds of a core and tens of megabytes, and anybody can make a server do it. So there are two
//! counts: how many are hashed at a time, and how many may wait for that. A place in the queue is taken when the request is judged
//! and given back when the login is dropped, wherever that happens. Those who are remembered pass by all of this.
//!
//! A program that opens many connections at once brings the same login with each. They wait in the same queue, and all but the
//! first find it remembered when their turn comes.

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

/// What logins share.
#[derive(Debug)]
pub(super) struct LoginQueue {
    /// Places of those that wait or are hashed.
    pub(super) slots: Arc<HashingQueue>,
    /// Places of those that are hashed.
    hash_permits: Arc<Semaphore>,
    /// Logins that were found right. Only who has a password gets in here, so a crowd without one displaces nobody.
    pub(super) successes: LoginCache,
    /// Logins that were found wrong.
    pub(super) failures: LoginCache,
}

/// A password to be hashed: [`permit`](Self::turn), then [`verify`](ReadyLogin::run) on a thread that may block, then
/// [`AccessControl::judge_again`](super::AccessControl::judge_again). Dropping it gives up its place in the queue.
pub struct PendingLogin {
    pub(super) queue: Arc<LoginQueue>,
    pub(super) attempt: LoginAttempt,
    /// Its place.
    pub(super) slot: HashingQueueSlot,
}

/// A password whose turn it is. Dropping it lets the next one go ahead.
pub struct ReadyLogin {
    pending: PendingLogin,
    /// Held while it is hashed.
    permit: OwnedSemaphorePermit,
}

/// What is to be found out.
pub(super) struct LoginAttempt {
    /// Of name and password.
    pub(super) digest: SecretDigest,
    pub(super) password: ZeroizedSecret,
    /// The user's, or another's if there is no such user.
    pub(super) hash: Arc<PasswordHash>,
    /// Whether there is such a user, with this hash. If not, the outcome is wrong whatever the hash says.
    pub(super) user_exists: bool,
}

/// What hashing found out. Says something of one name with one password alone.
#[derive(Debug, Clone, Copy)]
pub struct LoginResult {
    pub(super) digest: SecretDigest,
    pub(super) is_correct: bool,
}

impl LoginQueue {
    pub(super) fn new(options: &LoginOptions) -> Self {
        let hashing = options.concurrent_hashes.get().min(Semaphore::MAX_PERMITS);
        let places = hashing.saturating_add(options.max_waiting);
        Self {
            slots: Arc::new(HashingQueue::new(places, options.max_per_address.get())),
            hash_permits: Arc::new(Semaphore::new(hashing)),
            successes: LoginCache::new(options.cache_entries, options.success_lifetime),
            failures: LoginCache::new(options.cache_entries, options.failure_lifetime),
        }
    }
}

impl PendingLogin {
    /// Waits until a password may be hashed. Cancel safe: the place in the queue is given up.
    ///
    /// # Errors
    /// Does not happen while the [`AccessControl`](super::AccessControl) is there; [`AccessRefusalReason::Busy`] otherwise.
    pub async fn acquire_permit(self) -> Result<ReadyLogin, AccessRefusal> {
        let turn = Arc::clone(&self.queue.hash_permits).acquire_owned().await;
        let turn = turn.map_err(|_| AccessRefusal::new(AccessRefusalReason::Busy))?;
        Ok(ReadyLogin {
            pending: self,
            permit: turn,
        })
    }
}

impl ReadyLogin {
    /// Hashes the password, unless another connection did so meanwhile. Blocks, for as long as the hash wants. The outcome is
    /// remembered also when nobody waits for it any more.
    #[must_use]
    pub fn verify(self) -> LoginResult {
        let Self {
            pending,
            permit: turn,
        } = self;
        let PendingLogin {
            queue: logins,
            attempt: login,
            slot: place,
        } = pending;
        let is_right = login.verify(&logins);
        drop((turn, place));
        LoginResult {
            digest: login.digest,
            is_correct: is_right,
        }
    }
}

impl LoginAttempt {
    fn verify(&self, logins: &LoginQueue) -> bool {
        if logins.successes.contains_at_any_age(&self.digest) {
            return true;
        }
        if logins.failures.contains_at_any_age(&self.digest) {
            return false;
        }
        let fits = self.hash.verify(self.password.expose());
        let is_right = fits & self.user_exists;
        let outcome = if is_right {
            &logins.successes
        } else {
            &logins.failures
        };
        outcome.insert(self.digest);
        is_right
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
