//! Verifies the signature of a request.
//!
//! The checks come in this order: the form of the signature, its region and time, its access key,
//! which fields it covers, and last the signature itself. Each has the code that S3 has for it.

use std::time::{Duration, SystemTime};

use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE};
use http::{HeaderMap, Method, Uri};
use subtle::ConstantTimeEq as _;

use super::amz_date::{AmzDate, iso_time};
use super::canonical_request::{SignedHead, signature_scope, string_to_sign};
use super::chunk_signatures::ChunkSignatures;
use super::credential::{
    ClaimedSignature, PresignedClaim, SignaturePlace, parse_header, parse_query, version_2,
};
use super::payload::{CONTENT_SHA256, DeclaredPayload, PayloadMode, UNSIGNED_PAYLOAD};
use super::query::S3Query;
use crate::{S3ErrorCode, S3Failure, S3Keys, S3Permissions};

/// How far the clock of a client may be off.
const MAX_SKEW: Duration = Duration::from_secs(15 * 60);

/// Maximum bytes of a canonical request that an error repeats.
const MAX_SHOWN: usize = 8 << 10;

/// Verifies the signatures of requests to one server.
#[derive(Debug)]
pub struct S3Authenticator {
    keys: S3Keys,
    region: String,
}

/// A request's head as it was received.
#[derive(Debug, Clone, Copy)]
pub(crate) struct S3AuthRequest<'a> {
    pub method: &'a Method,
    /// Path and query as they were sent. Over HTTP/2, its authority is the host.
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
    /// The query, decoded.
    pub query: &'a S3Query,
    /// The server's time.
    pub now: SystemTime,
}

/// Who sent a request.
#[derive(Debug)]
pub(crate) enum S3Authentication {
    /// It carries no signature. What it may do is the caller's decision;
    /// [`PayloadMode::anonymous`] says how its body is sent.
    Anonymous,
    Signed(S3Identity),
}

/// The sender of a signed request.
#[derive(Debug)]
pub(crate) struct S3Identity {
    /// The access key ID, which is in the configuration.
    pub access_key: String,
    /// What the request may do.
    pub permissions: S3Permissions,
    /// How its body is signed.
    pub payload: PayloadMode,
}

/// A signature whose form and time are right.
struct TimelyClaim<'a> {
    claimed: ClaimedSignature,
    date: AmzDate,
    /// The value of `x-amz-content-sha256`.
    payload: &'a str,
}

impl S3Authenticator {
    /// An authenticator with the server's keys and region.
    #[must_use]
    pub fn new(keys: S3Keys, region: impl Into<String>) -> Self {
        Self {
            keys,
            region: region.into(),
        }
    }

    /// The server's region.
    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Whether a request speaks S3's dialect: its header or query has a signature, of whatever
    /// version. Cheap, for a server that serves other requests, too.
    pub(crate) fn is_signed(headers: &HeaderMap, raw_query: Option<&str>) -> bool {
        let is_aws = |value: &http::HeaderValue| value.as_bytes().starts_with(b"AWS");
        headers.get(AUTHORIZATION).is_some_and(is_aws)
            || raw_query.is_some_and(|query| {
                query.split('&').any(|parameter| {
                    let name = parameter.split('=').next().unwrap_or_default();
                    SIGNATURE_PARAMETERS.contains(&name)
                })
            })
    }

    /// Finds who sent a request, by its signature.
    ///
    /// # Errors
    /// The signature is malformed, wrong, of another region, or of another time; or it cannot be
    /// verified, as that of Version 2.
    pub(crate) fn authenticate(
        &self,
        request: &S3AuthRequest<'_>,
    ) -> Result<S3Authentication, S3Failure> {
        let is_in_query = |names: &[&str]| names.iter().any(|name| request.query.contains(name));
        let mut fields = request.headers.get_all(AUTHORIZATION).iter();
        let (field, another) = (fields.next(), fields.next());
        // An empty field says as little as none.
        let field = field.filter(|field| !field.as_bytes().trim_ascii().is_empty());
        let is_presigned = is_in_query(&SIGNATURE_PARAMETERS);
        if another.is_some() || field.is_some() && is_presigned {
            let message = "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query \
                string parameter or the Authorization header should be specified";
            let failure = S3Failure::with_message(S3ErrorCode::InvalidArgument, message);
            return Err(failure.element("ArgumentName", "Authorization"));
        }
        let (place, claim) = match field {
            Some(field) => {
                let field = field.to_str().unwrap_or_default();
                (SignaturePlace::Header, self.header_claim(request, field)?)
            }
            None if is_presigned && is_in_query(&["AWSAccessKeyId"]) => return Err(version_2()),
            None if is_presigned => (SignaturePlace::Query, self.presigned_claim(request)?),
            None if is_upload_form(request) => {
                let message = "Uploads by browser forms (POST with a policy) are not implemented.";
                return Err(S3Failure::with_message(
                    S3ErrorCode::NotImplemented,
                    message,
                ));
            }
            None => return Ok(S3Authentication::Anonymous),
        };
        let has_token = request.headers.contains_key("x-amz-security-token")
            || request.query.contains("X-Amz-Security-Token");
        if has_token {
            // This server issues none.
            return Err(S3ErrorCode::InvalidToken.into());
        }
        self.verify(request, place, claim)
            .map(S3Authentication::Signed)
    }

    /// The signature in the Authorization field.
    fn header_claim<'a>(
        &self,
        request: &S3AuthRequest<'a>,
        field: &str,
    ) -> Result<TimelyClaim<'a>, S3Failure> {
        let place = SignaturePlace::Header;
        let claimed = parse_header(field)?;
        let text = |name: &str| {
            request
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let date = match text("x-amz-date") {
            Some(date) => AmzDate::parse(date),
            None => text(DATE.as_str()).and_then(AmzDate::from_http_date),
        };
        let date = date.ok_or_else(|| {
            let message = "AWS authentication requires a valid Date or x-amz-date header";
            S3Failure::with_message(S3ErrorCode::AccessDenied, message)
        })?;
        place.check_day(&claimed.day, &date)?;
        self.check_region(place, &claimed)?;
        check_skew(&date, request.now)?;
        let payload = text(CONTENT_SHA256).ok_or_else(|| {
            let message = "Missing required header for this request: x-amz-content-sha256";
            S3Failure::with_message(S3ErrorCode::InvalidRequest, message)
        })?;
        Ok(TimelyClaim {
            claimed,
            date,
            payload,
        })
    }

    /// The signature of a presigned URL. Its body is not signed unless it says so.
    fn presigned_claim<'a>(
        &self,
        request: &S3AuthRequest<'a>,
    ) -> Result<TimelyClaim<'a>, S3Failure> {
        let PresignedClaim {
            claimed,
            date,
            expires,
        } = parse_query(request.query)?;
        self.check_region(SignaturePlace::Query, &claimed)?;
        check_lifetime(&date, expires, request.now)?;
        let in_header = request.headers.get(CONTENT_SHA256);
        let payload = request
            .query
            .get("X-Amz-Content-Sha256")
            .or_else(|| in_header.and_then(|value| value.to_str().ok()));
        Ok(TimelyClaim {
            claimed,
            date,
            payload: payload.unwrap_or(UNSIGNED_PAYLOAD),
        })
    }

    fn check_region(
        &self,
        place: SignaturePlace,
        claimed: &ClaimedSignature,
    ) -> Result<(), S3Failure> {
        if claimed.region == self.region {
            Ok(())
        } else {
            Err(place.wrong_region(&claimed.region, &self.region))
        }
    }

    fn verify(
        &self,
        request: &S3AuthRequest<'_>,
        place: SignaturePlace,
        claim: TimelyClaim<'_>,
    ) -> Result<S3Identity, S3Failure> {
        let TimelyClaim {
            claimed,
            date,
            payload,
        } = claim;
        let declared = DeclaredPayload::parse(payload)?;
        let key = self.keys.find(&claimed.access_key).ok_or_else(|| {
            let failure = S3Failure::new(S3ErrorCode::InvalidAccessKeyId);
            failure.element("AWSAccessKeyId", &claimed.access_key)
        })?;
        let head = SignedHead {
            method: request.method,
            uri: request.uri,
            headers: request.headers,
            query: request.query,
        };
        head.check_signed_headers(&claimed.signed_headers)?;
        let canonical = head.canonical_request(&claimed.signed_headers, payload);
        let scope = signature_scope(&claimed);
        let text = string_to_sign(&date, &scope, &canonical);
        let signing_key = key.signing_key(&claimed.day, date.time, &self.region);
        let signature = signing_key.sign(text.as_bytes());
        if !bool::from(signature.as_bytes().ct_eq(claimed.signature.as_bytes())) {
            tracing::debug!(?place, "a signature does not match");
            return Err(mismatch(&claimed, text, &canonical));
        }
        let signatures = || ChunkSignatures::new(signing_key, date.text, scope, signature);
        Ok(S3Identity {
            access_key: claimed.access_key,
            permissions: key.permissions.clone(),
            payload: declared.with_signatures(signatures),
        })
    }
}

/// Parameters of presigned URLs, of Version 4 and 2.
const SIGNATURE_PARAMETERS: [&str; 4] = [
    "X-Amz-Algorithm",
    "X-Amz-Signature",
    "X-Amz-Credential",
    "AWSAccessKeyId",
];

/// Whether a browser's form uploads a file: its signature is in the body.
fn is_upload_form(request: &S3AuthRequest<'_>) -> bool {
    let content_type = request.headers.get(CONTENT_TYPE);
    request.method == Method::POST
        && content_type.is_some_and(|value| value.as_bytes().starts_with(b"multipart/form-data"))
}

/// Refuses a request that was signed long before or after now: it may be a repetition.
fn check_skew(date: &AmzDate, now: SystemTime) -> Result<(), S3Failure> {
    let skew = now
        .duration_since(date.time)
        .unwrap_or_else(|error| error.duration());
    if skew <= MAX_SKEW {
        return Ok(());
    }
    Err(S3Failure::new(S3ErrorCode::RequestTimeTooSkewed)
        .element("RequestTime", &date.text)
        .element("ServerTime", iso_time(now))
        .element(
            "MaxAllowedSkewMilliseconds",
            MAX_SKEW.as_millis().to_string(),
        ))
}

/// Refuses a presigned URL that is not valid yet, or no longer.
fn check_lifetime(date: &AmzDate, expires: Duration, now: SystemTime) -> Result<(), S3Failure> {
    let denied = |message: &'static str| {
        S3Failure::with_message(S3ErrorCode::AccessDenied, message)
            .element("X-Amz-Expires", expires.as_secs().to_string())
    };
    if date
        .time
        .duration_since(now)
        .is_ok_and(|early| early > MAX_SKEW)
    {
        return Err(denied("Request is not valid yet").element("ServerTime", iso_time(now)));
    }
    let end = date.time + expires;
    if end < now {
        return Err(denied("Request has expired")
            .element("Expires", iso_time(end))
            .element("ServerTime", iso_time(now)));
    }
    Ok(())
}

/// The failure about a wrong signature, with what the server signed: the author of a client finds
/// the difference there. Nothing of it is secret: the client has sent it all.
fn mismatch(claimed: &ClaimedSignature, text: String, canonical: &[u8]) -> S3Failure {
    let shown = &canonical[..canonical.len().min(MAX_SHOWN)];
    S3Failure::new(S3ErrorCode::SignatureDoesNotMatch)
        .element("AWSAccessKeyId", &claimed.access_key)
        .element("StringToSign", text)
        .element("SignatureProvided", &claimed.signature)
        .element("CanonicalRequest", String::from_utf8_lossy(shown))
}
