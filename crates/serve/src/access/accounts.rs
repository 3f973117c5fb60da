//! From what was configured to the tables that requests are judged by.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::auth_files::{AuthFile, HashedRule, TokenFile};
use super::digest::{SecretDigest, SecretDigestKind, SecretHasher};
use super::password_hash::PasswordHash;
use super::rules::{AuthRule, TokenRule};
use super::scope::{AccessScope, AnonymousAccess};
use super::signed_url::SigningKey;

/// Who may do what. With nothing in it everybody may do everything.
#[derive(Debug, Clone, Default)]
pub struct AccessOptions {
    /// Users whose passwords are at hand.
    pub users: Vec<AuthRule>,
    /// Users whose passwords are hashed. A file without a user still closes the store.
    pub auth_files: Vec<AuthFile>,
    /// Tokens.
    pub tokens: Vec<TokenRule>,
    /// More tokens. A file without a token still closes the store.
    pub token_files: Vec<TokenFile>,
    /// What those may do who bring none of these.
    pub anonymous: AnonymousAccess,
    /// Checks URLs that carry their own permission. A key alone closes the store to all others.
    pub signing_key: Option<SigningKey>,
    /// How much the hashing of passwords may cost.
    pub logins: LoginOptions,
}

/// Bounds of what logins may cost.
#[derive(Debug, Clone)]
pub struct LoginOptions {
    /// Passwords hashed at a time, each on a thread of its own with the memory that its hash wants.
    pub concurrent_hashes: NonZeroUsize,
    /// Logins that may wait for their turn; one more is told to come again.
    pub max_waiting: usize,
    /// Of both together, those of one address (IPv6: of 64 bits of it), so that one client does not shut out the others.
    pub max_per_address: NonZeroUsize,
    /// Right logins that are remembered, and as many wrong ones; a hundred bytes each.
    pub cache_entries: usize,
    /// How long a right login is remembered after it was last of use.
    pub success_lifetime: Duration,
    /// How long a wrong one is: a program that repeats itself costs one hash in this time.
    pub failure_lifetime: Duration,
}

impl Default for LoginOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            // Half of the machine goes on serving those who are known.
            concurrent_hashes: NonZeroUsize::new(cores / 2).unwrap_or(NonZeroUsize::MIN),
            // At 50 ms a hash the last of them waits for three seconds on one core.
            max_waiting: 64,
            // A download with twice the usual connections, which all bring the same new login at once.
            max_per_address: NonZeroUsize::MIN.saturating_add(31),
            // More users than this on one machine share the cache by turns.
            cache_entries: 8192,
            // A browser that pauses between two pages is not asked for another hash.
            success_lifetime: Duration::from_secs(600),
            // Long enough for a loop without a pause, short beside a person who tries again.
            failure_lifetime: Duration::from_secs(30),
        }
    }
}

/// Why the configuration makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The rules of one user differ in the password, so that one of them is a mistake.
    #[error(
        "user {user:?} has two passwords: give each rule of a user the same password, or the same hash"
    )]
    TwoPasswords {
        /// Who.
        user: String,
    },
}

/// A user.
#[derive(Debug)]
pub(super) struct UserAccount {
    /// For the log.
    pub(super) user: Arc<str>,
    /// How the password is known.
    pub(super) password: StoredPassword,
    /// What they may do.
    pub(super) scopes: Arc<[AccessScope]>,
}

/// What a password is held against.
#[derive(Debug)]
pub(super) enum StoredPassword {
    /// The digest of name and password.
    Digest(SecretDigest),
    /// Takes its time.
    Hash(Arc<PasswordHash>),
}

/// All users and tokens.
#[derive(Debug)]
pub(super) struct UserAccounts {
    pub(super) hasher: SecretHasher,
    /// By the digest of the name.
    pub(super) users: HashMap<SecretDigest, UserAccount>,
    /// By the digest of the token.
    pub(super) tokens: HashMap<SecretDigest, Arc<[AccessScope]>>,
    /// Every hash of a user. Strangers are held against one of these, whichever their name leads to: then a name that nobody has
    /// takes as long as one that somebody has, whatever hashes are in use.
    pub(super) hashes: Vec<Arc<PasswordHash>>,
    /// What strangers are compared with.
    pub(super) dummy_digest: SecretDigest,
}

/// A user while the rules are gathered.
struct UserAccountBuilder {
    user: String,
    password: StoredPassword,
    scopes: Vec<AccessScope>,
}

impl UserAccounts {
    pub(super) fn new(options: &AccessOptions) -> Result<Self, AccessError> {
        let digests = SecretHasher::new();
        let mut users = HashMap::new();
        for rule in &options.users {
            let proof = digests.digest(
                SecretDigestKind::Login,
                &[&rule.user, rule.password.expose()],
            );
            let entry = digests.digest(SecretDigestKind::User, &[&rule.user]);
            add_rule(
                &mut users,
                entry,
                (&rule.user, StoredPassword::Digest(proof), &rule.scope),
            )?;
        }
        for HashedRule { user, hash, scope } in
            options.auth_files.iter().flat_map(|file| &file.rules)
        {
            let proof = StoredPassword::Hash(Arc::new(hash.clone()));
            add_rule(
                &mut users,
                digests.digest(SecretDigestKind::User, &[user]),
                (user, proof, scope),
            )?;
        }
        let mut tokens: HashMap<SecretDigest, Vec<AccessScope>> = HashMap::new();
        let files = options.token_files.iter().flat_map(|file| &file.rules);
        for rule in options.tokens.iter().chain(files) {
            let digest = digests.digest(SecretDigestKind::Token, &[rule.token.expose()]);
            tokens.entry(digest).or_default().push(rule.scope.clone());
        }
        let users: HashMap<SecretDigest, UserAccount> = users
            .into_iter()
            .map(|(digest, user)| (digest, user.into()))
            .collect();
        let hashes = users
            .values()
            .filter_map(|account| match &account.password {
                StoredPassword::Hash(hash) => Some(Arc::clone(hash)),
                StoredPassword::Digest(_) => None,
            });
        Ok(Self {
            hashes: hashes.collect(),
            tokens: tokens
                .into_iter()
                .map(|(digest, scopes)| (digest, scopes.into()))
                .collect(),
            dummy_digest: SecretHasher::random_digest(),
            users,
            hasher: digests,
        })
    }
}

/// Adds a rule to its user.
fn add_rule(
    users: &mut HashMap<SecretDigest, UserAccountBuilder>,
    entry: SecretDigest,
    (user, proof, scope): (&str, StoredPassword, &AccessScope),
) -> Result<(), AccessError> {
    let known = users.entry(entry).or_insert_with(|| UserAccountBuilder {
        user: user.to_owned(),
        password: proof.clone(),
        scopes: Vec::new(),
    });
    if known.password != proof {
        return Err(AccessError::TwoPasswords {
            user: user.to_owned(),
        });
    }
    known.scopes.push(scope.clone());
    Ok(())
}

impl Clone for StoredPassword {
    fn clone(&self) -> Self {
        match self {
            Self::Digest(digest) => Self::Digest(*digest),
            Self::Hash(hash) => Self::Hash(Arc::clone(hash)),
        }
    }
}

impl PartialEq for StoredPassword {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Digest(one), Self::Digest(other)) => one.matches(other),
            (Self::Hash(one), Self::Hash(other)) => one == other,
            _ => false,
        }
    }
}

impl From<UserAccountBuilder> for UserAccount {
    fn from(gathered: UserAccountBuilder) -> Self {
        Self {
            user: gathered.user.into(),
            password: gathered.password,
            scopes: gathered.scopes.into(),
        }
    }
}
