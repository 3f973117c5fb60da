//! Resolves `s3://` URLs and signs requests for them: what `haul_net` calls for each request.
//!
//! A bucket's region, the distance between the service's clock and ours, and expired credentials come from refusals
//! (rows F4, F5, F22). Requests go to the endpoint alone, whatever host a response names (row F6).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use haul_net::{Refusal, RequestBody, RequestSigner, SignerError, SignerFuture, origin_text};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use url::Url;

use crate::credentials::{CredentialsCache, CredentialsName};
use crate::endpoint::{S3Endpoint, is_region};
use crate::signature::{SignatureScope, SignedPayload, presign, sign_head};
use crate::xml::XmlNode;

/// The response field that names a bucket's region, also in responses to HEAD.
const BUCKET_REGION: &str = "x-amz-bucket-region";

/// Asks for the checksums of an object's bytes, which `get` compares.
const CHECKSUM_MODE: (HeaderName, &str) =
    (HeaderName::from_static("x-amz-checksum-mode"), "ENABLED");

/// The user pays for requests to buckets that want that (row F19).
const REQUEST_PAYER: (HeaderName, &str) =
    (HeaderName::from_static("x-amz-request-payer"), "requester");

/// Buckets whose region is remembered. A run has few.
const MAX_BUCKETS: usize = 10_000;

/// A clock that is off by less is no reason to sign by another one: S3 accepts a quarter of an hour.
const MIN_CLOCK_OFFSET: Duration = Duration::from_secs(60);

/// Signs requests to one endpoint.
pub(crate) struct S3Signer {
    endpoint: S3Endpoint,
    /// The region of buckets of which nothing else is known.
    region: String,
    /// `None` signs nothing.
    credentials: Option<CredentialsCache>,
    request_payer: bool,
    state: Mutex<SignerState>,
}

/// What refusals said.
#[derive(Debug, Default)]
struct SignerState {
    /// The regions of buckets that are not in the configured one.
    regions: HashMap<String, String>,
    /// The service's clock less ours, in seconds.
    clock_offset: i64,
    /// The credentials of the last signature.
    last_credentials: Option<CredentialsName>,
}

impl fmt::Debug for S3Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Signer")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl S3Signer {
    pub(crate) fn new(
        endpoint: S3Endpoint,
        region: String,
        credentials: Option<CredentialsCache>,
        request_payer: bool,
    ) -> Self {
        Self {
            endpoint,
            region,
            credentials,
            request_payer,
            state: Mutex::default(),
        }
    }

    /// The user's endpoint; `None` is AWS.
    pub(crate) fn endpoint_url(&self) -> Option<&Url> {
        self.endpoint.url.as_ref()
    }

    /// Whether signatures must cover the bytes of bodies: without TLS anybody on the way could replace them, and their checksums.
    pub(crate) fn signs_bodies(&self) -> bool {
        let is_plain = |url: &Url| url.scheme() == "http";
        self.credentials.is_some() && self.endpoint.url.as_ref().is_some_and(is_plain)
    }

    /// The user's endpoint, for messages; `None` is AWS.
    pub(crate) fn endpoint_text(&self) -> Option<String> {
        let url = self.endpoint.url.as_ref();
        url.map(|url| origin_text(url).into_owned())
    }

    fn state(&self) -> MutexGuard<'_, SignerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn region_of(&self, bucket: &str) -> String {
        let state = self.state();
        state.regions.get(bucket).unwrap_or(&self.region).clone()
    }

    /// The time by the service's clock.
    fn now(&self) -> SystemTime {
        let offset = self.state().clock_offset;
        let distance = Duration::from_secs(offset.unsigned_abs());
        if offset < 0 {
            SystemTime::now() - distance
        } else {
            SystemTime::now() + distance
        }
    }

    /// By how many seconds the service's clock is ahead of ours, if that had to be corrected.
    pub(crate) fn clock_offset(&self) -> Option<i64> {
        Some(self.state().clock_offset).filter(|offset| *offset != 0)
    }

    pub(crate) fn resolve_now(&self, url: &Url) -> Result<Url, url::ParseError> {
        let bucket = url.host_str().unwrap_or_default();
        let path = match url.path() {
            "" => "/",
            path => path,
        };
        self.endpoint
            .request_url(&self.region_of(bucket), bucket, path, url.query())
    }

    /// A URL of an object that is good for one method until it expires.
    pub(crate) async fn presigned(
        &self,
        method: &Method,
        url: &Url,
        expires_in: Duration,
    ) -> Result<Url, SignerError> {
        let resolved = self.resolve_now(url)?;
        let Some(cache) = &self.credentials else {
            return Ok(resolved);
        };
        let credentials = cache.get(SystemTime::now()).await?;
        let region = self.region_of(url.host_str().unwrap_or_default());
        let scope = SignatureScope {
            identity: &credentials.identity,
            region: &region,
            time: self.now(),
        };
        Ok(presign(method, &resolved, expires_in, scope)?)
    }

    /// Remembers a bucket's region. Whether it is another one than before.
    fn set_region(&self, bucket: &str, region: &str) -> bool {
        let mut state = self.state();
        let known = state.regions.get(bucket).unwrap_or(&self.region);
        if !is_region(region) || state.regions.len() >= MAX_BUCKETS {
            return false;
        }
        // Another request may have been told the same before: this one was still sent to the old region.
        if known != region {
            state.regions.insert(bucket.to_owned(), region.to_owned());
        }
        true
    }

    /// Takes the service's clock from the Date of a response. Whether ours is so far off that it matters.
    fn set_clock(&self, headers: &HeaderMap) -> bool {
        let date = headers
            .get(http::header::DATE)
            .and_then(|date| date.to_str().ok());
        let date = date
            .and_then(|date| OffsetDateTime::parse(&date.replace("GMT", "+0000"), &Rfc2822).ok());
        let Some(date) = date else {
            return false;
        };
        let offset = date.unix_timestamp() - OffsetDateTime::now_utc().unix_timestamp();
        if offset.unsigned_abs() < MIN_CLOCK_OFFSET.as_secs() {
            return false;
        }
        let known = std::mem::replace(&mut self.state().clock_offset, offset);
        // Requests that were under way have the same refusal.
        if offset.abs_diff(known) >= MIN_CLOCK_OFFSET.as_secs() {
            tracing::warn!("{}", ClockOffset(offset));
        }
        true
    }
}

/// By how many seconds the clock of a store is ahead of ours, for people.
struct ClockOffset(i64);

impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = self.0.unsigned_abs().div_ceil(60);
        let direction = if self.0 > 0 { "behind" } else { "ahead of" };
        write!(
            f,
            "the clock of this machine is {minutes} minutes {direction} the store's: haul signs by the store's clock"
        )
    }
}

impl RequestSigner for S3Signer {
    fn resolve<'a>(&'a self, url: &'a Url) -> SignerFuture<'a, Url> {
        Box::pin(async move { Ok(self.resolve_now(url)?) })
    }

    fn sign<'a>(
        &'a self,
        url: &'a Url,
        resolved: &'a Url,
        head: &'a mut Parts,
        body: &'a RequestBody,
    ) -> SignerFuture<'a, ()> {
        Box::pin(async move {
            if matches!(head.method, Method::GET | Method::HEAD) {
                let (name, value) = CHECKSUM_MODE;
                head.headers.insert(name, HeaderValue::from_static(value));
            }
            if self.request_payer {
                let (name, value) = REQUEST_PAYER;
                head.headers.insert(name, HeaderValue::from_static(value));
            }
            let Some(cache) = &self.credentials else {
                return Ok(());
            };
            let credentials = cache.get(SystemTime::now()).await?;
            self.state().last_credentials = Some(credentials.name.clone());
            let region = self.region_of(url.host_str().unwrap_or_default());
            let scope = SignatureScope {
                identity: &credentials.identity,
                region: &region,
                time: self.now(),
            };
            let payload = match body {
                RequestBody::Empty => SignedPayload::Bytes(&[]),
                RequestBody::Bytes(bytes) => SignedPayload::Bytes(bytes),
                // Over TLS a checksum in a signed field is enough against faults (row F8), and nobody changes the bytes on purpose.
                RequestBody::Source(source) => source
                    .sha256()
                    .map_or(SignedPayload::Unsigned, SignedPayload::Sha256),
            };
            Ok(sign_head(head, resolved, payload, scope)?)
        })
    }

    fn handle_refusal<'a>(&'a self, refusal: Refusal<'a>) -> SignerFuture<'a, bool> {
        Box::pin(async move {
            let bucket = refusal.url.host_str().unwrap_or_default();
            let error = XmlNode::parse(refusal.body).unwrap_or_default();
            let header = refusal.headers.get(BUCKET_REGION);
            let region = header
                .and_then(|region| region.to_str().ok())
                .unwrap_or_else(|| error.text_of("Region"));
            let code = error.text_of("Code");
            match code {
                "RequestTimeTooSkewed" => return Ok(self.set_clock(refusal.headers)),
                "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" => {
                    let refused = self.state().last_credentials.clone();
                    if let (Some(cache), Some(refused)) = (&self.credentials, refused) {
                        cache.forget(&refused).await;
                        return Ok(true);
                    }
                }
                _ => {}
            }
            let is_elsewhere = match refusal.status.as_u16() {
                301 | 307 => true,
                // A response to HEAD has no code.
                400 => matches!(
                    code,
                    "" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException"
                ),
                _ => false,
            };
            Ok(is_elsewhere && !region.is_empty() && self.set_region(bucket, region))
        })
    }
}
