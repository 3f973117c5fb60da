//! SigV4 for S3: headers of a request, or the query of a URL.

use std::time::{Duration, SystemTime};

use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SessionTokenMode, SignableBody, SignableRequest,
    SignatureLocation, SigningError, SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;
use haul_digest::hex;
use http::header::{CONTENT_TYPE, HOST};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method};
use url::Url;

#[derive(Debug, Clone, Copy)]
pub(crate) struct SignatureScope<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) region: &'a str,
    pub(crate) time: SystemTime,
}

/// Why a request could not be signed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SignatureError {
    /// A header field is not text.
    #[error("the header field {0} cannot be signed")]
    Header(HeaderName),
    /// The signing library refused.
    #[error(transparent)]
    Signing(#[from] SigningError),
    /// A parameter is missing, which cannot happen.
    #[error("the signature has no parameters")]
    Parameters(#[from] v4::signing_params::BuildError),
    /// A signature is not a header value, which cannot happen.
    #[error(transparent)]
    Value(#[from] http::header::InvalidHeaderValue),
}

/// How the payload is named in the signature.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SignedPayload<'a> {
    /// By its SHA-256.
    Bytes(&'a [u8]),
    /// By this SHA-256.
    Sha256(&'a [u8]),
    Unsigned,
}

/// Adds the signature of a request to its head. It covers Host, the fields that say what the body is, and all of Amazon's:
/// proxies and some stores change others on the way (row F26).
pub(crate) fn sign_head(
    head: &mut Parts,
    url: &Url,
    payload: SignedPayload<'_>,
    scope: SignatureScope<'_>,
) -> Result<(), SignatureError> {
    let mut headers = Vec::with_capacity(8);
    for (name, value) in &head.headers {
        if is_signed(name) {
            let value = value
                .to_str()
                .map_err(|_| SignatureError::Header(name.clone()))?;
            headers.push((name.as_str(), value));
        }
    }
    let body = match payload {
        SignedPayload::Bytes(bytes) => SignableBody::Bytes(bytes),
        SignedPayload::Sha256(digest) => SignableBody::Precomputed(hex(digest)),
        SignedPayload::Unsigned => SignableBody::UnsignedPayload,
    };
    let method = head.method.as_str();
    let request = SignableRequest::new(method, url.as_str(), headers.into_iter(), body)?;
    let params = scope.params(settings(SignatureLocation::Headers, None))?;
    let (instructions, _) = sign(request, &params)?.into_parts();
    let (signature_headers, _) = instructions.into_parts();
    for header in signature_headers {
        let mut value = HeaderValue::from_str(header.value())?;
        value.set_sensitive(header.sensitive());
        head.headers
            .insert(HeaderName::from_static(header.name()), value);
    }
    Ok(())
}

/// A URL that is good for one method until it expires.
pub(crate) fn presign(
    method: &Method,
    url: &Url,
    expires_in: Duration,
    scope: SignatureScope<'_>,
) -> Result<Url, SignatureError> {
    let host = haul_net::authority(url);
    let headers = [("host", &*host)].into_iter();
    let body = SignableBody::UnsignedPayload;
    let request = SignableRequest::new(method.as_str(), url.as_str(), headers, body)?;
    let settings = settings(SignatureLocation::QueryParams, Some(expires_in));
    let params = scope.params(settings)?;
    let (instructions, _) = sign(request, &params)?.into_parts();
    let mut url = url.clone();
    let mut query = url
        .query()
        .map_or_else(String::new, |query| format!("{query}&"));
    let pairs = instructions.params().iter().map(|(name, value)| {
        format!(
            "{}={}",
            crate::address::escaped_query(name),
            crate::address::escaped_query(value)
        )
    });
    query.push_str(&pairs.collect::<Vec<_>>().join("&"));
    url.set_query(Some(&query));
    Ok(url)
}

impl<'a> SignatureScope<'a> {
    fn params(
        self,
        settings: SigningSettings,
    ) -> Result<aws_sigv4::http_request::SigningParams<'a>, SignatureError> {
        let params = v4::SigningParams::builder()
            .identity(self.identity)
            .region(self.region)
            .name("s3")
            .time(self.time)
            .settings(settings)
            .build()?;
        Ok(params.into())
    }
}

fn settings(location: SignatureLocation, expires_in: Option<Duration>) -> SigningSettings {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    settings.session_token_mode = SessionTokenMode::Include;
    settings.signature_location = location;
    settings.expires_in = expires_in;
    settings
}

fn is_signed(name: &HeaderName) -> bool {
    *name == HOST
        || *name == CONTENT_TYPE
        || name.as_str() == "content-md5"
        || name.as_str().starts_with("x-amz-")
}
