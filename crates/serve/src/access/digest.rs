//! Secrets as digests of equal length, under a key that lives as long as the process.
//!
//! Configured secrets and those of requests are compared as digests, so the time of a comparison
//! reveals neither the length of a secret nor how much of a guess was right. Digests are also keys
//! of hash tables: timing a look-up reveals something about a digest, which is worthless without
//! the key.

use std::fmt;

use subtle::ConstantTimeEq as _;

/// What a digest is of. Digests of different kinds never agree.
#[derive(Debug, Clone, Copy)]
pub(super) enum SecretDigestKind {
    /// A user's name.
    User = 1,
    /// A user's name with the password.
    Login = 2,
    /// A token.
    Token = 3,
}

/// A keyed digest of a secret.
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

/// Makes digests.
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
