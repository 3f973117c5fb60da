//! Turns the configuration into the tables against which requests are checked.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use subtle::ConstantTimeEq as _;

use super::auth_files::{AuthFile, HashedRule, TokenFile};
use super::password_hash::PasswordHash;
use super::rules::{AccessScope, AnonymousAccess, AuthRule, TokenRule};
use super::signed_url::SigningKey;

/// Who may do what. If all of it is empty, everybody may do everything.
#[derive(Debug, Clone, Default)]
pub struct AccessOptions {
    /// Users whose passwords are known in plain text.
    pub users: Vec<AuthRule>,
    /// Users whose passwords are hashed. A file without a user still closes the store.
    pub auth_files: Vec<AuthFile>,
    pub tokens: Vec<TokenRule>,
    /// More tokens. A file without a token still closes the store.
    pub token_files: Vec<TokenFile>,
    /// What requests without credentials may do.
    pub anonymous: AnonymousAccess,
    /// Checks URLs that carry their own permission. A key alone closes the store to all other
    /// requests.
    pub signing_key: Option<SigningKey>,
    /// Bounds the cost of password hashing.
    pub logins: LoginOptions,
}

/// Bounds of what logins may cost.
#[derive(Debug, Clone)]
pub struct LoginOptions {
    /// Passwords hashed at a time, each on a thread of its own with the memory that its hash wants.
    pub concurrent_hashes: NonZeroUsize,
    /// Logins that may wait for that; further ones get 503 and may try again.
    pub max_waiting: usize,
    /// Waiting and hashing logins of one address (for IPv6: of its /64), so that one client does
    /// not shut out the others.
    pub max_per_address: NonZeroUsize,
    /// Successful logins that are cached, and as many failed ones; each takes a hundred bytes.
    pub cache_entries: usize,
    /// How long a successful login stays cached after its last use.
    pub success_lifetime: Duration,
    /// How long a failed login stays cached: a program that repeats itself costs one hash in this
    /// time.
    pub failure_lifetime: Duration,
}

impl Default for LoginOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            // The other half of the cores serves clients that are logged in.
            concurrent_hashes: NonZeroUsize::new(cores / 2).unwrap_or(NonZeroUsize::MIN),
            // At 50 ms a hash the last one waits for three seconds on one core.
            max_waiting: 64,
            // A download with twice the usual number of connections, which all send the same new
            // login at once.
            max_per_address: NonZeroUsize::MIN.saturating_add(31),
            // With more users than this on one machine, entries evict each other.
            cache_entries: 8192,
            // A browser that pauses between two pages does not cost another hash.
            success_lifetime: Duration::from_secs(600),
            // Long enough for a loop without a pause, short for a person who tries again.
            failure_lifetime: Duration::from_secs(30),
        }
    }
}

/// Why a configuration contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The rules of one user differ in the password, so one of them is a mistake.
    #[error(
        "user {user:?} has two passwords: give each rule of a user the same password, or the same hash"
    )]
    TwoPasswords { user: String },
}

#[derive(Debug)]
pub(super) struct UserAccount {
    /// For the log.
    pub(super) user: Arc<str>,
    pub(super) password: StoredPassword,
    /// What the user may do.
    pub(super) scopes: Arc<[AccessScope]>,
}

/// What a password is compared with.
#[derive(Debug)]
pub(super) enum StoredPassword {
    /// The digest of user name and password.
    Digest(SecretDigest),
    /// A slow hash.
    Hash(Arc<PasswordHash>),
}

#[derive(Debug)]
pub(super) struct UserAccounts {
    pub(super) hasher: SecretHasher,
    /// By the digest of the name.
    pub(super) users: HashMap<SecretDigest, UserAccount>,
    pub(super) tokens: HashMap<SecretDigest, Arc<[AccessScope]>>,
    /// Every hash of a user. The password of an unknown user is checked against one of these,
    /// chosen by the name. So an unknown name takes as long as a known one, whatever hashes are in
    /// use.
    pub(super) hashes: Vec<Arc<PasswordHash>>,
    /// A random digest that unknown credentials are compared with.
    pub(super) dummy_digest: SecretDigest,
}

/// A user while the rules are collected.
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
            let password = digests.digest(
                SecretDigestKind::Login,
                &[&rule.user, rule.password.expose()],
            );
            let entry = digests.digest(SecretDigestKind::User, &[&rule.user]);
            add_rule(
                &mut users,
                entry,
                &rule.user,
                StoredPassword::Digest(password),
                &rule.scope,
            )?;
        }
        for HashedRule { user, hash, scope } in
            options.auth_files.iter().flat_map(|file| &file.rules)
        {
            let password = StoredPassword::Hash(Arc::new(hash.clone()));
            add_rule(
                &mut users,
                digests.digest(SecretDigestKind::User, &[user]),
                user,
                password,
                scope,
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

fn add_rule(
    users: &mut HashMap<SecretDigest, UserAccountBuilder>,
    entry: SecretDigest,
    user: &str,
    password: StoredPassword,
    scope: &AccessScope,
) -> Result<(), AccessError> {
    let account = users.entry(entry).or_insert_with(|| UserAccountBuilder {
        user: user.to_owned(),
        password: password.clone(),
        scopes: Vec::new(),
    });
    if account.password != password {
        return Err(AccessError::TwoPasswords {
            user: user.to_owned(),
        });
    }
    account.scopes.push(scope.clone());
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
    fn from(builder: UserAccountBuilder) -> Self {
        Self {
            user: builder.user.into(),
            password: builder.password,
            scopes: builder.scopes.into(),
        }
    }
}

/// What a digest is of. Digests of different kinds never agree.
#[derive(Debug, Clone, Copy)]
pub(super) enum SecretDigestKind {
    /// A user's name.
    User = 1,
    /// A user's name with the password.
    Login = 2,
    Token = 3,
}

/// A keyed digest of a secret.
///
/// Secrets as digests of equal length, under a key that lives as long as the process.
///
/// Configured secrets and those of requests are compared as digests, so the time of a comparison
/// reveals neither the length of a secret nor how much of a guess was right. Digests are also keys
/// of hash tables: timing a look-up reveals something about a digest, which is worthless without
/// the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SecretDigest([u8; 32]);

impl SecretDigest {
    /// Compares in constant time.
    pub(super) fn matches(&self, other: &Self) -> bool {
        #[cfg(test)]
        super::counters::count_comparison();
        self.0.ct_eq(&other.0).into()
    }

    /// An index below `count`, always the same for this digest, that reveals nothing about the
    /// secret. `count` must not be 0.
    pub(super) fn index(&self, count: usize) -> usize {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        let place = u64::from_le_bytes(first) % (count as u64).max(1);
        usize::try_from(place).unwrap_or_default()
    }
}

/// Shows nothing: with the key at hand, guesses could be tried against a digest.
impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

pub(super) struct SecretHasher {
    /// Random, made at start-up, never shown.
    key: zeroize::Zeroizing<[u8; 32]>,
}

impl SecretHasher {
    pub(super) fn new() -> Self {
        Self {
            key: zeroize::Zeroizing::new(rand::random()),
        }
    }

    /// The digest of several strings. Their lengths are part of it, so `["ab", "c"]` and `["a",
    /// "bc"]` differ.
    pub(super) fn digest(&self, kind: SecretDigestKind, parts: &[&str]) -> SecretDigest {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&[kind as u8]);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        SecretDigest(*hasher.finalize().as_bytes())
    }

    /// A random digest that no secret has: unknown credentials are compared with it.
    pub(super) fn random_digest() -> SecretDigest {
        SecretDigest(rand::random())
    }
}

impl fmt::Debug for SecretHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digests")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_kinds_have_different_digests() {
        let digests = SecretHasher::new();
        let all = [
            digests.digest(SecretDigestKind::Login, &["ab", "c"]),
            digests.digest(SecretDigestKind::Login, &["a", "bc"]),
            digests.digest(SecretDigestKind::Login, &["abc", ""]),
            digests.digest(SecretDigestKind::Login, &["abc"]),
            digests.digest(SecretDigestKind::User, &["abc"]),
            digests.digest(SecretDigestKind::Token, &["abc"]),
            SecretHasher::new().digest(SecretDigestKind::Token, &["abc"]),
            SecretHasher::random_digest(),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(one.matches(one));
            assert!(
                all[at + 1..].iter().all(|other| !one.matches(other)),
                "{at}"
            );
        }
    }

    #[test]
    fn indices_are_within_bounds() {
        let digest = SecretHasher::random_digest();
        assert!((1..50).all(|count| digest.index(count) < count));
    }
}
