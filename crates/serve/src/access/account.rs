//! From what was configured to the tables that requests are judged by.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::digest::{SecretDigest, SecretDigestKind, SecretHasher};
use super::file::{AuthFile, HashedRule, TokenFile};
use super::hash::PasswordHash;
use super::rule::{AuthRule, TokenRule};
use super::scope::{AccessScope, AnonymousAccess};
use super::signed::SigningKey;

/// Who may do what. With nothing in it everybody may do everything.
#[derive(Debug, Clone, Default)]
pub struct AccessOptions {
    /// Users whose passwords are at hand.
    pub rules: Vec<AuthRule>,
    /// Users whose passwords are hashed. A file without a user still closes the store.
    pub files: Vec<AuthFile>,
    /// Tokens.
    pub tokens: Vec<TokenRule>,
    /// More tokens. A file without a token still closes the store.
    pub token_files: Vec<TokenFile>,
    /// What those may do who bring none of these.
    pub anonymous: AnonymousAccess,
    /// Checks URLs that carry their own permission. A key alone closes the store to all others.
    pub signing: Option<SigningKey>,
    /// How much the hashing of passwords may cost.
    pub logins: LoginOptions,
}

/// Bounds of what logins may cost.
#[derive(Debug, Clone)]
pub struct LoginOptions {
    /// Passwords hashed at a time, each on a thread of its own with the memory that its hash wants.
    pub hashing: NonZeroUsize,
    /// Logins that may wait for their turn; one more is told to come again.
    pub waiting: usize,
    /// Of both together, those of one address (IPv6: of 64 bits of it), so that one client does not shut out the others.
    pub of_one_address: NonZeroUsize,
    /// Right logins that are remembered, and as many wrong ones; a hundred bytes each.
    pub remembered: usize,
    /// How long a right login is remembered after it was last of use.
    pub lifetime: Duration,
    /// How long a wrong one is: a program that repeats itself costs one hash in this time.
    pub wrong_lifetime: Duration,
}

impl Default for LoginOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            // Half of the machine goes on serving those who are known.
            hashing: NonZeroUsize::new(cores / 2).unwrap_or(NonZeroUsize::MIN),
            // At 50 ms a hash the last of them waits for three seconds on one core.
            waiting: 64,
            // A download with twice the usual connections, which all bring the same new login at once.
            of_one_address: NonZeroUsize::MIN.saturating_add(31),
            // More users than this on one machine share the cache by turns.
            remembered: 8192,
            // A browser that pauses between two pages is not asked for another hash.
            lifetime: Duration::from_secs(600),
            // Long enough for a loop without a pause, short beside a person who tries again.
            wrong_lifetime: Duration::from_secs(30),
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
    pub(super) proof: PasswordProof,
    /// What they may do.
    pub(super) scopes: Arc<[AccessScope]>,
}

/// What a password is held against.
#[derive(Debug)]
pub(super) enum PasswordProof {
    /// The digest of name and password.
    Plain(SecretDigest),
    /// Takes its time.
    Hashed(Arc<PasswordHash>),
}

/// All users and tokens.
#[derive(Debug)]
pub(super) struct UserAccounts {
    pub(super) digests: SecretHasher,
    /// By the digest of the name.
    pub(super) users: HashMap<SecretDigest, UserAccount>,
    /// By the digest of the token.
    pub(super) tokens: HashMap<SecretDigest, Arc<[AccessScope]>>,
    /// Every hash of a user. Strangers are held against one of these, whichever their name leads to: then a name that nobody has
    /// takes as long as one that somebody has, whatever hashes are in use.
    pub(super) hashes: Vec<Arc<PasswordHash>>,
    /// What strangers are compared with.
    pub(super) nobody: SecretDigest,
}

/// A user while the rules are gathered.
struct UserAccountBuilder {
    user: String,
    proof: PasswordProof,
    scopes: Vec<AccessScope>,
}

impl UserAccounts {
    pub(super) fn new(options: &AccessOptions) -> Result<Self, AccessError> {
        let digests = SecretHasher::new();
        let mut users = HashMap::new();
        for rule in &options.rules {
            let proof = digests.of(
                SecretDigestKind::Login,
                &[&rule.user, rule.password.expose()],
            );
            let entry = digests.of(SecretDigestKind::User, &[&rule.user]);
            gather(
                &mut users,
                entry,
                (&rule.user, PasswordProof::Plain(proof), &rule.scope),
            )?;
        }
        for HashedRule { user, hash, scope } in options.files.iter().flat_map(|file| &file.rules) {
            let proof = PasswordProof::Hashed(Arc::new(hash.clone()));
            gather(
                &mut users,
                digests.of(SecretDigestKind::User, &[user]),
                (user, proof, scope),
            )?;
        }
        let mut tokens: HashMap<SecretDigest, Vec<AccessScope>> = HashMap::new();
        let files = options.token_files.iter().flat_map(|file| &file.rules);
        for rule in options.tokens.iter().chain(files) {
            let digest = digests.of(SecretDigestKind::Token, &[rule.token.expose()]);
            tokens.entry(digest).or_default().push(rule.scope.clone());
        }
        let users: HashMap<SecretDigest, UserAccount> = users
            .into_iter()
            .map(|(digest, user)| (digest, user.into()))
            .collect();
        let hashes = users.values().filter_map(|account| match &account.proof {
            PasswordProof::Hashed(hash) => Some(Arc::clone(hash)),
            PasswordProof::Plain(_) => None,
        });
        Ok(Self {
            hashes: hashes.collect(),
            tokens: tokens
                .into_iter()
                .map(|(digest, scopes)| (digest, scopes.into()))
                .collect(),
            nobody: SecretHasher::nobody(),
            users,
            digests,
        })
    }
}

/// Adds a rule to its user.
fn gather(
    users: &mut HashMap<SecretDigest, UserAccountBuilder>,
    entry: SecretDigest,
    (user, proof, scope): (&str, PasswordProof, &AccessScope),
) -> Result<(), AccessError> {
    let known = users.entry(entry).or_insert_with(|| UserAccountBuilder {
        user: user.to_owned(),
        proof: proof.clone(),
        scopes: Vec::new(),
    });
    if known.proof != proof {
        return Err(AccessError::TwoPasswords {
            user: user.to_owned(),
        });
    }
    known.scopes.push(scope.clone());
    Ok(())
}

impl Clone for PasswordProof {
    fn clone(&self) -> Self {
        match self {
            Self::Plain(digest) => Self::Plain(*digest),
            Self::Hashed(hash) => Self::Hashed(Arc::clone(hash)),
        }
    }
}

impl PartialEq for PasswordProof {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plain(one), Self::Plain(other)) => one.is(other),
            (Self::Hashed(one), Self::Hashed(other)) => one == other,
            _ => false,
        }
    }
}

impl From<UserAccountBuilder> for UserAccount {
    fn from(gathered: UserAccountBuilder) -> Self {
        Self {
            user: gathered.user.into(),
            proof: gathered.proof,
            scopes: gathered.scopes.into(),
        }
    }
}
