//! Requests that are signed, as S3 wants it: the interface that a dialect implements.
//!
//! The client asks the signer for the URL behind an `s3://` URL, and lets it sign each head before it is sent. A refusal may
//! tell the signer something (another region, a wrong clock, an expired token) after which another try makes sense. Signed
//! requests follow no redirect: what was signed for one host, and its body, is for no other.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use http::request::Parts;
use http::{HeaderMap, StatusCode};
use url::Url;

use crate::request_body::RequestBody;

/// The scheme of URLs that a signer resolves.
pub const SIGNED_SCHEME: &str = "s3";

/// Bytes of a refusal that the signer sees. S3's errors have some hundred.
pub(crate) const MAX_REFUSAL_BYTES: usize = 16 * 1024;

pub type SignerFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, SignerError>> + Send + 'a>>;

/// Why a request could not be signed.
pub type SignerError = Box<dyn StdError + Send + Sync>;

/// A response that refused a signed request.
#[derive(Debug)]
pub struct Refusal<'a> {
    /// The `s3://` URL of the request.
    pub url: &'a Url,
    /// The status: 301, 307, 400 or 403.
    pub status: StatusCode,
    pub headers: &'a HeaderMap,
    /// The beginning of the body. Empty for a HEAD.
    pub body: &'a [u8],
}

/// Signs requests for `s3://` URLs.
pub trait RequestSigner: fmt::Debug + Send + Sync {
    /// The http or https URL that a request for this URL goes to.
    fn resolve<'a>(&'a self, url: &'a Url) -> SignerFuture<'a, Url>;

    /// Adds a signature to the head of a request for `url`, which goes to `resolved`. All other fields of the head are final.
    fn sign<'a>(
        &'a self,
        url: &'a Url,
        resolved: &'a Url,
        head: &'a mut Parts,
        body: &'a RequestBody,
    ) -> SignerFuture<'a, ()>;

    /// Takes what a refusal says. Returns whether the request should be resolved, signed and sent once more.
    fn handle_refusal<'a>(&'a self, refusal: Refusal<'a>) -> SignerFuture<'a, bool>;
}
