//! Password hashes: argon2 as a PHC string, bcrypt as `htpasswd -B` makes it.
//!
//! A hash states its own cost. A cost that no request could wait for is refused when the hash is
//! parsed, and not when somebody logs in. Older kinds (`$apr1$`, `{SHA}`, crypt) are refused: they
//! are cheap to guess.

use std::fmt;
use std::str::FromStr;

use argon2::password_hash::{PasswordHashString, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params};
use base64::Engine as _;

/// Maximum bcrypt cost: 2^16 rounds, some four seconds.
const MAX_BCRYPT_COST: u32 = 16;

/// Maximum memory of argon2, in KiB: the first choice of RFC 9106 4.
const MAX_ARGON2_MEMORY: u32 = 2 << 20;

const MAX_ARGON2_PASSES: u32 = 64;

/// The hash of a password. `Debug` shows its kind alone.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(PasswordHashKind);

#[derive(Clone, PartialEq, Eq)]
enum PasswordHashKind {
    /// Contains its parameters and its salt.
    Argon2(PasswordHashString),
    /// The text as it was written; its format has been checked.
    Bcrypt(String),
}

/// Why a text is not a usable hash. Contains nothing of the text: people write the password itself
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasswordHashError {
    /// A plain password, or a kind that is not supported.
    #[error(
        "the hash is neither argon2 ($argon2id$...) nor bcrypt ($2b$... or $2y$..., as `htpasswd -nB user` makes it)"
    )]
    Unsupported,
    /// One of the older kinds of htpasswd.
    #[error(
        "the hash is of an old kind that is easily cracked: make a bcrypt hash with `htpasswd -nB user`"
    )]
    Weak,
    /// The prefix is right, the rest is not.
    #[error("the hash is damaged: a character is missing or was added")]
    Damaged,
    /// It would cost more than a request could wait for.
    #[error(
        "the hash takes more time or memory than a login may (bcrypt: cost {MAX_BCRYPT_COST}; argon2: 2 GiB, {MAX_ARGON2_PASSES} passes)"
    )]
    TooExpensive,
}

impl PasswordHash {
    /// Whether this is the hash of that password. Blocks for as long as the hash takes, which is
    /// long.
    ///
    /// Bcrypt uses the first 72 bytes of a password alone, in every implementation.
    #[must_use]
    pub fn verify(&self, password: &str) -> bool {
        #[cfg(test)]
        super::counters::count_hash();
        match &self.0 {
            PasswordHashKind::Argon2(hash) => {
                let parsed = hash.password_hash();
                Argon2::default()
                    .verify_password(password.as_bytes(), &parsed)
                    .is_ok()
            }
            PasswordHashKind::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
        }
    }
}

impl FromStr for PasswordHash {
    type Err = PasswordHashError;

    fn from_str(text: &str) -> Result<Self, PasswordHashError> {
        if text.starts_with("$argon2") {
            return parse_argon2(text);
        }
        if ["$2a$", "$2b$", "$2y$"]
            .iter()
            .any(|kind| text.starts_with(kind))
        {
            return parse_bcrypt(text);
        }
        let is_old = ["$apr1$", "{SHA}", "$1$", "$5$", "$6$"]
            .iter()
            .any(|kind| text.starts_with(kind));
        Err(if is_old {
            PasswordHashError::Weak
        } else {
            PasswordHashError::Unsupported
        })
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            PasswordHashKind::Argon2(_) => "PasswordHash(argon2)",
            PasswordHashKind::Bcrypt(_) => "PasswordHash(bcrypt)",
        })
    }
}

fn parse_argon2(text: &str) -> Result<PasswordHash, PasswordHashError> {
    let hash = PasswordHashString::new(text).map_err(|_| PasswordHashError::Damaged)?;
    let parsed = hash.password_hash();
    Algorithm::try_from(parsed.algorithm).map_err(|_| PasswordHashError::Unsupported)?;
    let params = Params::try_from(&parsed).map_err(|_| PasswordHashError::Damaged)?;
    // Without these the text is only a set of parameters, which no password fits.
    if parsed.salt.is_none() || parsed.hash.is_none() {
        return Err(PasswordHashError::Damaged);
    }
    if params.m_cost() > MAX_ARGON2_MEMORY || params.t_cost() > MAX_ARGON2_PASSES {
        return Err(PasswordHashError::TooExpensive);
    }
    Ok(PasswordHash(PasswordHashKind::Argon2(hash)))
}

fn parse_bcrypt(text: &str) -> Result<PasswordHash, PasswordHashError> {
    let rest = text.get(4..).ok_or(PasswordHashError::Damaged)?;
    let (cost, coded) = rest.split_once('$').ok_or(PasswordHashError::Damaged)?;
    let is_number = cost.len() == 2 && cost.bytes().all(|byte| byte.is_ascii_digit());
    let is_coded = coded.len() == 53 && coded.is_ascii();
    if !is_number || !is_coded {
        return Err(PasswordHashError::Damaged);
    }
    let (salt, hash) = coded.split_at(22);
    for part in [salt, hash] {
        bcrypt::BASE_64
            .decode(part)
            .map_err(|_| PasswordHashError::Damaged)?;
    }
    match cost.parse() {
        Ok(4..=MAX_BCRYPT_COST) => Ok(PasswordHash(PasswordHashKind::Bcrypt(text.to_owned()))),
        Ok(17..) => Err(PasswordHashError::TooExpensive),
        _ => Err(PasswordHashError::Damaged),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::access::tests::{argon2_of, bcrypt_of};

    #[test]
    fn hashes_match_their_password() {
        for text in [argon2_of("haul"), bcrypt_of("haul")] {
            let hash: PasswordHash = text.parse().expect("a hash");
            assert!(
                hash.verify("haul") && !hash.verify("Haul") && !hash.verify(""),
                "{text}"
            );
            assert!(!format!("{hash:?}").contains('$'));
        }
        let renamed = bcrypt_of("haul").replace("$2b$", "$2y$");
        let hash: PasswordHash = renamed.parse().expect("a hash");
        assert!(hash.verify("haul"));
    }

    #[test]
    fn hashes_of_other_programs_are_accepted() {
        // By libxcrypt's crypt(3), of `haul`; Apache's htpasswd writes the same kind.
        let theirs = "$2y$04$abcdefghijklmnopqrstuuV4PAoyTbxuUxMiNeHY.fGF9c3cFQbT6";
        let hash: PasswordHash = theirs.parse().expect("a hash");
        assert!(hash.verify("haul") && !hash.verify("haul "));
    }

    #[test]
    fn malformed_hashes_are_refused() {
        let bcrypt = bcrypt_of("x");
        let argon2 = argon2_of("x");
        let short = &bcrypt[..59];
        let cases = [
            ("hunter2", PasswordHashError::Unsupported),
            ("$apr1$x$y", PasswordHashError::Weak),
            ("{SHA}x", PasswordHashError::Weak),
            (
                "$2x$04$abcdefghijklmnopqrstuu",
                PasswordHashError::Unsupported,
            ),
            ("$2b$", PasswordHashError::Damaged),
            (short, PasswordHashError::Damaged),
            (
                &bcrypt.replace("$04$", "$31$"),
                PasswordHashError::TooExpensive,
            ),
            (&bcrypt.replace("$04$", "$03$"), PasswordHashError::Damaged),
            (&bcrypt.replace("$04$", "$+4$"), PasswordHashError::Damaged),
            ("$argon2id$", PasswordHashError::Damaged),
            ("$argon2id$v=19$m=8,t=1,p=1", PasswordHashError::Damaged),
            (
                "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ",
                PasswordHashError::Damaged,
            ),
            (
                &argon2.replace("m=8", "m=4294967295"),
                PasswordHashError::TooExpensive,
            ),
            (
                &argon2.replace("t=1", "t=100000"),
                PasswordHashError::TooExpensive,
            ),
            (
                &argon2.replace("argon2id", "argon2z"),
                PasswordHashError::Unsupported,
            ),
        ];
        for (text, reason) in cases {
            assert_eq!(text.parse::<PasswordHash>(), Err(reason), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(\\$2[bxy]\\$|\\$argon2(id|i|d)?\\$|v=19\\$|m=[0-9]{1,11},t=1,p=1\\$|[./A-Za-z0-9]{0,60}|\\PC){0,6}") {
            let _ = text.parse::<PasswordHash>();
        }
    }
}
