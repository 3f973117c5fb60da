//! URLs that carry their own permission and expire.
//!
//! A signature is valid for one request until a moment: one method (HEAD goes with GET), one path
//! (a folder's ends in its slash) and one query. The query is signed byte by byte and in order,
//! since a parameter like `format=tar` changes the response, and other parameters may be added some
//! day: who signs a link to a picture has not signed all that can be asked about it. So adding
//! anything to a link breaks it, as with other stores. To list a folder, or to take it as a tar
//! file, a link must be signed for exactly that.
//!
//! This text is signed with HMAC-SHA256 (RFC 2104). The fields are unambiguous, since none but the
//! last can contain a line feed:
//!
//! ```text
//! haul-url-v1 LF METHOD LF escaped path LF expiry, in seconds since 1970 LF each other parameter,
//! followed by &
//! ```
//!
//! The host is not signed: two servers that share a key can make links for both, and a store does
//! not know its own host names. The signature is the parameter `haul-signature`, in base64 for
//! URLs, and is compared as text, so no other spelling of it is valid. The signature alone decides
//! about a request that carries one.

use std::borrow::Cow;
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
use url::Url;
use zeroize::Zeroizing;

use super::auth_files::warn_if_exposed;
use super::rules::AccessRight;
use crate::{ObjectKey, ObjectKeyError, RequestPath};

pub const EXPIRES_PARAMETER: &str = "haul-expires";

pub const SIGNATURE_PARAMETER: &str = "haul-signature";

/// First line of the signed text: no other use of the same key signs a text that begins so.
const VERSION: &str = "haul-url-v1";

/// Minimum bytes of a key: a shorter one could be guessed with one link at hand.
const MIN_KEY_BYTES: usize = 16;

const MAX_KEY_BYTES: usize = 4096;

/// A method that a URL can be signed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SignableMethod {
    /// GET, and HEAD.
    Get,
    /// Replaces the file.
    Put,
    /// Deletes the file.
    Delete,
}

/// The key that signs: any bytes, at least 16. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct SigningKey(Zeroizing<Vec<u8>>);

/// Why a signing key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SigningKeyError {
    /// Too few bytes, or too many.
    #[error(
        "a signing key has at least {MIN_KEY_BYTES} bytes, and up to {MAX_KEY_BYTES}; `openssl rand -base64 32` makes one"
    )]
    Length,
    /// Its file cannot be read.
    #[error("the signing key cannot be read from {path}")]
    Io {
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The result of checking a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignatureCheck {
    /// The query has no signature.
    Unsigned,
    Valid(SignableMethod),
    /// The signature is valid, but expired.
    Expired,
    /// The signature is not valid.
    Invalid,
}

impl SignableMethod {
    /// The method that a request's method must be signed as.
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

impl SigningKey {
    /// A key of these bytes. A line feed at their end is not part of it, so that a file made with a
    /// text editor holds the same key as a variable.
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

    /// Reads a key from a file. Blocks.
    ///
    /// # Errors
    /// When the file cannot be read, or the key is too short or too long.
    pub fn read(path: &Path) -> Result<Self, SigningKeyError> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_KEY_BYTES + 4));
        let result = std::fs::File::open(path).and_then(|file| {
            warn_if_exposed(path, &file);
            file.take(MAX_KEY_BYTES as u64 + 3).read_to_end(&mut bytes)
        });
        result.map_err(|source| SigningKeyError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::new(&bytes)
    }

    /// The whole query of a signed URL: the parameters of `query` that are not the signature's,
    /// then expiry and signature.
    #[must_use]
    pub fn sign(
        &self,
        method: SignableMethod,
        path: &RequestPath,
        query: Option<&str>,
        expires: SystemTime,
    ) -> String {
        let expires = seconds(expires).unwrap_or(0).to_string();
        let signed = SignedQuery::parse(query.unwrap_or_default());
        let signature = self.signature(method, path, &expires, &signed.other_parameters);
        format!(
            "{}{EXPIRES_PARAMETER}={expires}&{SIGNATURE_PARAMETER}={signature}",
            signed.other_parameters
        )
    }

    /// Checks whether the query alone permits a request.
    pub(super) fn verify(
        &self,
        method: &Method,
        path: &RequestPath,
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
        let expected = self.signature(method, path, expires, &query.other_parameters);
        if !bool::from(expected.as_bytes().ct_eq(signature.as_bytes())) {
            return SignatureCheck::Invalid;
        }
        // Checked last, so that only the holder of a valid signature learns when it expires. A
        // clock before 1970 is wrong; every signature counts as expired then.
        match (seconds(now), expires.parse::<u64>()) {
            (Some(now), Ok(expires)) if now < expires => SignatureCheck::Valid(method),
            _ => SignatureCheck::Expired,
        }
    }

    /// The signature, in base64.
    fn signature(
        &self,
        method: SignableMethod,
        path: &RequestPath,
        expires: &str,
        other_parameters: &str,
    ) -> String {
        let mut escaped = path.key.escaped();
        if path.is_folder && !path.key.is_root() {
            escaped.push('/');
        }
        // HMAC takes keys of every length. An empty signature is never sent, and an empty one would
        // be refused.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            return String::new();
        };
        mac.update(
            format!("{VERSION}\n{method}\n{escaped}\n{expires}\n{other_parameters}").as_bytes(),
        );
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

/// Seconds since 1970.
fn seconds(time: SystemTime) -> Option<u64> {
    let elapsed = time.duration_since(UNIX_EPOCH).ok()?;
    Some(elapsed.as_secs())
}

/// A query with its signature replaced, for the log: a reader of the log could use the link.
#[must_use]
pub fn redact_signature(query: &str) -> Cow<'_, str> {
    if !query.contains(SIGNATURE_PARAMETER) {
        return Cow::Borrowed(query);
    }
    let parameters =
        query.split('&').map(
            |parameter| match parameter_value(parameter, SIGNATURE_PARAMETER) {
                Some(_) => format!("{SIGNATURE_PARAMETER}=***"),
                None => parameter.to_owned(),
            },
        );
    Cow::Owned(parameters.collect::<Vec<_>>().join("&"))
}

/// The parameters of a query. Only the unescaped parameter names are recognised as ours.
///
/// Splits the query of a signed URL into the signature and the signed rest.
pub(super) struct SignedQuery<'a> {
    /// Values of the expiry; exactly one is valid.
    pub(super) expires: Vec<&'a str>,
    /// Values of the signature; exactly one is valid.
    pub(super) signatures: Vec<&'a str>,
    /// The other parameters in order, each followed by an ampersand.
    pub(super) other_parameters: String,
}

impl<'a> SignedQuery<'a> {
    pub(super) fn parse(query: &'a str) -> Self {
        let mut parsed = Self {
            expires: Vec::new(),
            signatures: Vec::new(),
            other_parameters: String::new(),
        };
        if query.is_empty() {
            return parsed;
        }
        for parameter in query.split('&') {
            if let Some(value) = parameter_value(parameter, EXPIRES_PARAMETER) {
                parsed.expires.push(value);
            } else if let Some(value) = parameter_value(parameter, SIGNATURE_PARAMETER) {
                parsed.signatures.push(value);
            } else {
                parsed.other_parameters.push_str(parameter);
                parsed.other_parameters.push('&');
            }
        }
        parsed
    }
}

/// The value of the parameter `name`, if this is it.
fn parameter_value<'a>(parameter: &'a str, name: &str) -> Option<&'a str> {
    let rest = parameter.strip_prefix(name)?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('=')
    }
}

/// Why a URL cannot be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The scheme is neither http nor https.
    #[error("only http and https URLs are signed")]
    Scheme,
    /// The path is not a valid key.
    #[error("the path of the URL is not a valid path of a store")]
    Path(#[source] ObjectKeyError),
}

/// Signs a URL, so that anybody may use it with this method until `expires`. An existing signature
/// is replaced, and the query becomes part of what is signed. The user name, password and fragment
/// are removed, since the URL is made to be given away.
///
/// The path is signed as it is. If a proxy in front of the store serves it under another path, sign
/// the path that the store sees, then replace host and path by those of the proxy.
pub fn sign_url(
    key: &SigningKey,
    method: SignableMethod,
    url: &Url,
    expires: SystemTime,
) -> Result<Url, SignError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(SignError::Scheme);
    }
    let path = ObjectKey::parse(url.path()).map_err(SignError::Path)?;
    let mut signed = url.clone();
    signed.set_fragment(None);
    // Neither fails for a URL with a host, and http URLs have one.
    let _ = signed.set_username("");
    let _ = signed.set_password(None);
    signed.set_query(Some(&key.sign(method, &path, url.query(), expires)));
    Ok(signed)
}

#[cfg(test)]
mod tests;
