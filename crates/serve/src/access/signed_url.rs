//! URLs that carry their own permission and expire.
//!
//! A signature is for one request: one method (HEAD goes with GET), one path (a folder's ends in its slash) and one query, until a
//! moment. The query is part of it as it stands, byte by byte and in its order: a parameter like `format=tar` changes what an
//! answer holds, others may do so one day, and who signed a link to a picture has not signed all that can be asked about it. So a
//! link breaks when something is added to it, as with other stores. A folder is listed, or taken as a tar file, by a link that was
//! signed for just that.
//!
//! What is signed is this, with the key, by HMAC-SHA256 (RFC 2104); each field ends where it must, since no field but the last can
//! hold a line feed:
//!
//! ```text
//! haul-url-v1 LF METHOD LF escaped path LF expiry, in seconds since 1970 LF each parameter that is not ours, followed by &
//! ```
//!
//! The host is not in it: a key that two servers share makes links for both, and a store does not know by which names it is
//! reached. The signature stands in the query as `haul-signature`, in base64 for URLs, and is compared as that text, so that no
//! other spelling of it holds. A request that carries one is judged by it alone.

mod query;

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::Method;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::auth_files::warn_if_exposed;
use super::scope::AccessRight;
use crate::RequestPath;
use query::SignedQuery;
pub use query::redact_signature;

/// The parameter that says until when.
pub const EXPIRES_PARAMETER: &str = "haul-expires";

/// The parameter that proves it.
pub const SIGNATURE_PARAMETER: &str = "haul-signature";

/// Says what the signature is of, and of which kind: no other use of the same key makes the same text.
const VERSION: &str = "haul-url-v1";

/// Bytes of the shortest key: fewer can be guessed at home, with one link at hand.
const MIN_KEY_BYTES: usize = 16;

/// Bytes of the longest.
const MAX_KEY_BYTES: usize = 4096;

/// A method that a URL can be signed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SignableMethod {
    /// And HEAD.
    Get,
    /// Replaces the file.
    Put,
    /// Removes it.
    Delete,
}

/// Another method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a URL is signed for GET, PUT or DELETE")]
pub struct SignableMethodError;

/// The key that signs, at least 16 bytes of whatever kind. Printing it prints nothing of it.
#[derive(Clone)]
pub struct SigningKey(Zeroizing<Vec<u8>>);

/// Why something is no key.
#[derive(Debug, thiserror::Error)]
pub enum SigningKeyError {
    /// Too few bytes.
    #[error(
        "a signing key has at least {MIN_KEY_BYTES} bytes, and up to {MAX_KEY_BYTES}; `openssl rand -base64 32` makes one"
    )]
    Length,
    /// The file that it is in.
    #[error("the signing key cannot be read from {path}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// What a query says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignatureCheck {
    /// Nothing of a signature.
    Unsigned,
    /// That it may, as far as this method goes.
    Valid(SignableMethod),
    /// That it might have.
    Expired,
    /// Nothing that holds.
    Invalid,
}

impl SignableMethod {
    /// The signature that a method wants.
    fn for_method(method: &Method) -> Option<Self> {
        match *method {
            Method::GET | Method::HEAD => Some(Self::Get),
            Method::PUT => Some(Self::Put),
            Method::DELETE => Some(Self::Delete),
            _ => None,
        }
    }

    pub(super) fn required_right(self) -> AccessRight {
        match self {
            Self::Get => AccessRight::Read,
            Self::Put | Self::Delete => AccessRight::Write,
        }
    }
}

impl fmt::Display for SignableMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        })
    }
}

impl FromStr for SignableMethod {
    type Err = SignableMethodError;

    fn from_str(text: &str) -> Result<Self, SignableMethodError> {
        let all = [Self::Get, Self::Put, Self::Delete];
        let mut same = all
            .into_iter()
            .filter(|method| method.to_string().eq_ignore_ascii_case(text));
        same.next().ok_or(SignableMethodError)
    }
}

impl SigningKey {
    /// A key of these bytes. A line feed at their end is not part of it, so that a file made with a text editor and a variable
    /// hold the same key.
    ///
    /// # Errors
    /// When there are too few or too many.
    pub fn new(bytes: &[u8]) -> Result<Self, SigningKeyError> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        match bytes.len() {
            MIN_KEY_BYTES..=MAX_KEY_BYTES => Ok(Self(Zeroizing::new(bytes.to_vec()))),
            _ => Err(SigningKeyError::Length),
        }
    }

    /// The key that is in a file. Blocks.
    ///
    /// # Errors
    /// When it cannot be read, or is too short or too long.
    pub fn read(path: &Path) -> Result<Self, SigningKeyError> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_KEY_BYTES + 4));
        let read = std::fs::File::open(path).and_then(|file| {
            warn_if_exposed(path, &file);
            file.take(MAX_KEY_BYTES as u64 + 3).read_to_end(&mut bytes)
        });
        read.map_err(|source| SigningKeyError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::new(&bytes)
    }

    /// The whole query of a URL that may be used for this until then: `query`, what of it is not ours, with expiry and signature.
    #[must_use]
    pub fn sign(
        &self,
        method: SignableMethod,
        named: &RequestPath,
        query: Option<&str>,
        expires: SystemTime,
    ) -> String {
        let expires = seconds(expires).unwrap_or(0).to_string();
        let signed = SignedQuery::parse(query.unwrap_or_default());
        let signature = self.signature(method, named, (&expires, &signed.other_parameters));
        format!(
            "{}{EXPIRES_PARAMETER}={expires}&{SIGNATURE_PARAMETER}={signature}",
            signed.other_parameters
        )
    }

    /// Whether a request may be served for its query alone.
    pub(super) fn verify(
        &self,
        method: &Method,
        named: &RequestPath,
        query: Option<&str>,
        now: SystemTime,
    ) -> SignatureCheck {
        let query = SignedQuery::parse(query.unwrap_or_default());
        let (expires, signature) = match (&query.expires[..], &query.signatures[..]) {
            ([], []) => return SignatureCheck::Unsigned,
            ([expires], [signature]) if is_number(expires) && !signature.is_empty() => {
                (*expires, *signature)
            }
            _ => return SignatureCheck::Invalid,
        };
        let Some(method) = SignableMethod::for_method(method) else {
            return SignatureCheck::Invalid;
        };
        let right = self.signature(method, named, (expires, &query.other_parameters));
        if !bool::from(right.as_bytes().ct_eq(signature.as_bytes())) {
            return SignatureCheck::Invalid;
        }
        // Only now, so that none but those who have a right signature learn when it ends. A clock that stands before 1970 says
        // nothing of the time, and what may have expired has.
        match (seconds(now), expires.parse::<u64>()) {
            (Some(now), Ok(expires)) if now < expires => SignatureCheck::Valid(method),
            _ => SignatureCheck::Expired,
        }
    }

    /// In base64.
    fn signature(
        &self,
        method: SignableMethod,
        named: &RequestPath,
        (expires, others): (&str, &str),
    ) -> String {
        let mut path = named.key.escaped();
        if named.is_folder && !named.key.is_root() {
            path.push('/');
        }
        // HMAC takes keys of every length. An empty signature is never sent, and as none it would be refused.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            return String::new();
        };
        mac.update(format!("{VERSION}\n{method}\n{path}\n{expires}\n{others}").as_bytes());
        URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    }
}

impl FromStr for SigningKey {
    type Err = SigningKeyError;

    fn from_str(text: &str) -> Result<Self, SigningKeyError> {
        Self::new(text.as_bytes())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(***)")
    }
}

fn is_number(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Since 1970.
fn seconds(time: SystemTime) -> Option<u64> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

#[cfg(test)]
#[path = "signed_tests.rs"]
mod tests;
