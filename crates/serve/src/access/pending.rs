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

use super::account::LoginOptions;
use super::answers::{AccessRefusal, AccessRefusalReason};
use super::digest::SecretDigest;
use super::hash::PasswordHash;
use super::queue::{HashingQueue, HashingQueueSlot};
use super::remembered::LoginCache;
use super::secret::ZeroizedSecret;

/// What logins share.
#[derive(Debug)]
pub(super) struct LoginQueue {
    /// Places of those that wait or are hashed.
    pub(super) queue: Arc<HashingQueue>,
    /// Places of those that are hashed.
    hashing: Arc<Semaphore>,
    /// Logins that were found right. Only who has a password gets in here, so a crowd without one displaces nobody.
    pub(super) right: LoginCache,
    /// Logins that were found wrong.
    pub(super) wrong: LoginCache,
}

/// A password to be hashed: [`turn`](Self::turn), then [`run`](ReadyLogin::run) on a thread that may block, then
/// [`AccessControl::judge_again`](super::AccessControl::judge_again). Dropping it gives up its place in the queue.
pub struct PendingLogin {
    pub(super) logins: Arc<LoginQueue>,
    pub(super) login: LoginAttempt,
    /// Its place.
    pub(super) place: HashingQueueSlot,
}

/// A password whose turn it is. Dropping it lets the next one go ahead.
pub struct ReadyLogin {
    pending: PendingLogin,
    /// Held while it is hashed.
    turn: OwnedSemaphorePermit,
}

/// What is to be found out.
pub(super) struct LoginAttempt {
    /// Of name and password.
    pub(super) digest: SecretDigest,
    pub(super) password: ZeroizedSecret,
    /// The user's, or another's if there is no such user.
    pub(super) hash: Arc<PasswordHash>,
    /// Whether there is such a user, with this hash. If not, the outcome is wrong whatever the hash says.
    pub(super) is_known: bool,
}

/// What hashing found out. Says something of one name with one password alone.
#[derive(Debug, Clone, Copy)]
pub struct LoginResult {
    pub(super) digest: SecretDigest,
    pub(super) is_right: bool,
}

impl LoginQueue {
    pub(super) fn new(options: &LoginOptions) -> Self {
        let hashing = options.hashing.get().min(Semaphore::MAX_PERMITS);
        let places = hashing.saturating_add(options.waiting);
        Self {
            queue: Arc::new(HashingQueue::new(places, options.of_one_address.get())),
            hashing: Arc::new(Semaphore::new(hashing)),
            right: LoginCache::new(options.remembered, options.lifetime),
            wrong: LoginCache::new(options.remembered, options.wrong_lifetime),
        }
    }
}

impl PendingLogin {
    /// Waits until a password may be hashed. Cancel safe: the place in the queue is given up.
    ///
    /// # Errors
    /// Does not happen while the [`AccessControl`](super::AccessControl) is there; [`AccessRefusalReason::Busy`] otherwise.
    pub async fn turn(self) -> Result<ReadyLogin, AccessRefusal> {
        let turn = Arc::clone(&self.logins.hashing).acquire_owned().await;
        let turn = turn.map_err(|_| AccessRefusal::new(AccessRefusalReason::Busy))?;
        Ok(ReadyLogin {
            pending: self,
            turn,
        })
    }
}

impl ReadyLogin {
    /// Hashes the password, unless another connection did so meanwhile. Blocks, for as long as the hash wants. The outcome is
    /// remembered also when nobody waits for it any more.
    #[must_use]
    pub fn run(self) -> LoginResult {
        let Self { pending, turn } = self;
        let PendingLogin {
            logins,
            login,
            place,
        } = pending;
        let is_right = login.is_right(&logins);
        drop((turn, place));
        LoginResult {
            digest: login.digest,
            is_right,
        }
    }
}

impl LoginAttempt {
    fn is_right(&self, logins: &LoginQueue) -> bool {
        if logins.right.knows(&self.digest) {
            return true;
        }
        if logins.wrong.knows(&self.digest) {
            return false;
        }
        let fits = self.hash.verify(self.password.expose());
        let is_right = fits & self.is_known;
        let outcome = if is_right {
            &logins.right
        } else {
            &logins.wrong
        };
        outcome.add(self.digest);
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
