//! The published examples, and requests signed by AWS's own library.

mod mutations;
mod published;
mod refusals;

pub(crate) use published::chunked_upload as published_chunked_upload;

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
    SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};

use super::authenticator::S3Identity;
use super::*;
use crate::{S3ErrorCode, S3Failure, S3KeyRule, S3Keys};

/// The credentials of the published examples.
const ACCESS_KEY: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// 24 May 2013, 00:00:00 UTC, the time of the published examples.
const EXAMPLE_TIME: Duration = Duration::from_secs(1_369_353_600);

fn example_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + EXAMPLE_TIME
}

fn authenticator() -> S3Authenticator {
    let rules = S3KeyRule::parse_lines(&format!("{ACCESS_KEY}:{SECRET}:ro:examplebucket")).unwrap();
    S3Authenticator::new(S3Keys::new(rules).unwrap(), "us-east-1")
}

/// A request's head.
#[derive(Debug, Clone)]
struct TestHead {
    method: Method,
    target: String,
    headers: Vec<(String, String)>,
}

impl TestHead {
    fn new(method: Method, target: &str, headers: &[(&str, &str)]) -> Self {
        Self {
            method,
            target: target.to_owned(),
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    fn header_map(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn authenticate_at(&self, now: SystemTime) -> Result<S3Authentication, S3Failure> {
        let uri: http::Uri = self.target.parse().unwrap();
        let query = S3Query::parse(uri.query())?;
        authenticator().authenticate(&S3AuthRequest {
            method: &self.method,
            uri: &uri,
            headers: &self.header_map(),
            query: &query,
            now,
        })
    }

    /// The sender, or the code of the refusal.
    fn identity_at(&self, now: SystemTime) -> Result<S3Identity, S3ErrorCode> {
        match self.authenticate_at(now) {
            Ok(S3Authentication::Signed(identity)) => Ok(identity),
            Ok(S3Authentication::Anonymous) => panic!("{self:?} is signed"),
            Err(failure) => Err(failure.code),
        }
    }

    /// The same at the time of the published examples.
    fn identity(&self) -> Result<S3Identity, S3ErrorCode> {
        self.identity_at(example_time())
    }

    /// The same head, signed by AWS's library.
    fn signed(self, settings: SigningSettings, payload: SignableBody<'_>) -> Self {
        let identity = Credentials::new(ACCESS_KEY, SECRET, None, None, "test").into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region("us-east-1")
            .name("s3")
            .time(example_time())
            .settings(settings)
            .build()
            .unwrap()
            .into();
        let host = self.headers.iter().find(|(name, _)| name == "host");
        let url = format!("http://{}{}", host.unwrap().1, self.target);
        let headers = self.headers.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        let request = SignableRequest::new(self.method.as_str(), &url, headers, payload).unwrap();
        let (instructions, _) = sign(request, &params).unwrap().into_parts();
        let mut request = Request::builder().uri(&url).body(()).unwrap();
        instructions.apply_to_request_http1x(&mut request);
        let mut signed = self;
        for (name, value) in request.headers() {
            signed = signed.with(name.as_str(), value.to_str().unwrap());
        }
        signed.target = request.uri().path_and_query().unwrap().to_string();
        signed
    }
}

fn signing_settings(location: SignatureLocation) -> SigningSettings {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    if location == SignatureLocation::QueryParams {
        settings.expires_in = Some(Duration::from_secs(3600));
        settings.payload_checksum_kind = PayloadChecksumKind::NoHeader;
    }
    settings.signature_location = location;
    settings
}
