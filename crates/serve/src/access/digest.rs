//! Secrets as digests of one length, under a key that lives as long as the process.
//!
//! What was configured and what a request brings are compared as digests, so that neither the length of a secret nor how much of a
//! guess was right shows in how long it takes. Digests also stand in tables: whoever times a look-up learns something of a
//! digest whose key they do not have, and thus nothing.

use std::fmt;

use subtle::ConstantTimeEq as _;

/// What a digest is of. No two kinds have a digest in common.
#[derive(Debug, Clone, Copy)]
pub(super) enum SecretDigestKind {
    /// A user's name.
    User = 1,
    /// A name with its password.
    Login = 2,
    /// A token.
    Token = 3,
}

/// A digest of a secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SecretDigest([u8; 32]);

impl SecretDigest {
    /// Whether both are the same, in the same time whatever they are.
    pub(super) fn matches(&self, other: &Self) -> bool {
        #[cfg(test)]
        super::counters::count_comparison();
        self.0.ct_eq(&other.0).into()
    }

    /// One of `count` places, which is always the same for this digest and says nothing of it. `count` is not 0.
    pub(super) fn index(&self, count: usize) -> usize {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        let place = u64::from_le_bytes(first) % (count as u64).max(1);
        usize::try_from(place).unwrap_or_default()
    }
}

/// Shows nothing: with the key at hand a digest could be tried against guesses.
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

    /// The digest of some parts, which are told apart by their lengths.
    pub(super) fn digest(&self, kind: SecretDigestKind, parts: &[&str]) -> SecretDigest {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&[kind as u8]);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        SecretDigest(*hasher.finalize().as_bytes())
    }

    /// A digest of nothing, which nothing has: what a stranger is compared with.
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
    fn parts_and_kinds_are_told_apart() {
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
    fn places_are_within_bounds() {
        let digest = SecretHasher::random_digest();
        assert!((1..50).all(|count| digest.index(count) < count));
    }
}
