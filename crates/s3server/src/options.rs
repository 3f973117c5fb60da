//! How a server speaks S3, and which requests are S3's.

use std::time::Duration;

use haul_serve::access::AccessRight;
use haul_service::request_host;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Uri};

use super::{S3Authenticator, S3Failure, decode_path};

/// Parameters that only S3 has: a request with one of them is S3's even if it is not signed.
const S3_PARAMETERS: [&str; 9] = [
    "list-type",
    "uploads",
    "uploadId",
    "delete",
    "location",
    "versioning",
    "versions",
    "acl",
    "tagging",
];

/// How a server speaks S3.
#[derive(Debug)]
pub struct S3Options {
    /// Verifies signatures.
    pub authenticator: S3Authenticator,
    /// What requests without a signature may do.
    pub anonymous: Option<AccessRight>,
    /// Whether requests without a signature may be plain HTTP.
    pub is_http_on: bool,
    /// Domains below which a name is a bucket. `localhost` always is one.
    pub domains: Vec<String>,
    /// How long an unfinished upload in parts is kept after its last part.
    pub upload_expiry: Duration,
}

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct S3Target {
    /// The bucket; `None` for the server.
    pub bucket: Option<String>,
    /// The key; `None` for the bucket.
    pub key: Option<String>,
}

impl S3Options {
    /// Whether a request speaks S3.
    pub(crate) fn serves(&self, method: &Method, headers: &HeaderMap, uri: &Uri) -> bool {
        let query = uri.query();
        if S3Authenticator::is_signed(headers, query) {
            return true;
        }
        if method == Method::OPTIONS {
            // The preflight of a browser: it is never signed.
            return false;
        }
        let mut parameters = query.unwrap_or_default().split('&');
        !self.is_http_on
            || self.bucket_of_host(headers, uri).is_some()
            || parameters.any(|parameter| {
                let name = parameter.split('=').next().unwrap_or_default();
                S3_PARAMETERS.contains(&name)
            })
    }

    /// Whether a request is one of an upload in parts to a plain URL, or looks for its object: its rights are those of plain HTTP.
    pub(crate) fn is_http_upload(&self, method: &Method, headers: &HeaderMap, uri: &Uri) -> bool {
        let Some(query) = uri.query().filter(|_| self.is_http_on) else {
            return false;
        };
        // Who may do everything without a login is a client of S3 that does not sign.
        let is_anonymous =
            self.anonymous == Some(AccessRight::Write) && !headers.contains_key(AUTHORIZATION);
        let mut parameters = query.split('&');
        let is_of_upload = |parameter: &str| match parameter.split('=').next() {
            Some("uploads") => method == Method::POST && !is_anonymous,
            Some("uploadId") => method != Method::OPTIONS && !is_anonymous,
            Some("x-id") => parameter == "x-id=HeadObject" && method == Method::HEAD,
            _ => false,
        };
        let path = uri.path().trim_start_matches('/');
        let is_object = path.contains('/') && !path.ends_with('/');
        parameters.any(is_of_upload)
            && is_object
            && !S3Authenticator::is_signed(headers, Some(query))
            && self.bucket_of_host(headers, uri).is_none()
    }

    /// What a request is about, by its host and its path.
    ///
    /// # Errors
    /// `InvalidURI` for a path that is not UTF-8.
    pub(crate) fn target(&self, headers: &HeaderMap, uri: &Uri) -> Result<S3Target, S3Failure> {
        let path = decode_path(uri.path())?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) = match self.bucket_of_host(headers, uri) {
            Some(bucket) => (bucket, path),
            None => {
                let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
                (bucket.to_owned(), key)
            }
        };
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Ok(S3Target {
            key: text(key),
            bucket: text(&bucket),
        })
    }

    /// The bucket of a host such as `bucket.localhost`.
    fn bucket_of_host(&self, headers: &HeaderMap, uri: &Uri) -> Option<String> {
        let host = request_host(headers, uri)?;
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.to_ascii_lowercase();
        let domains = self.domains.iter().map(String::as_str).chain(["localhost"]);
        let mut buckets = domains.filter_map(|domain| name.strip_suffix(domain)?.strip_suffix('.'));
        buckets
            .next()
            .filter(|bucket| !bucket.is_empty())
            .map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::HOST;

    use super::*;
    use crate::S3Keys;

    fn options(is_http_on: bool) -> S3Options {
        S3Options {
            authenticator: S3Authenticator::new(S3Keys::default(), "us-east-1"),
            anonymous: None,
            is_http_on,
            domains: vec!["s3.example".to_owned()],
            upload_expiry: Duration::ZERO,
        }
    }

    #[test]
    fn buckets_are_in_the_path_or_in_the_host() {
        let target = |host: &'static str, path: &'static str| {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            let found = options(false)
                .target(&headers, &Uri::from_static(path))
                .expect("a target");
            (found.bucket, found.key)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(target("127.0.0.1:80", "/"), (None, None));
        assert_eq!(target("localhost:80", "/b"), (some("b"), None));
        assert_eq!(target("x", "/b/k%2Fl//m/"), (some("b"), some("k/l//m/")));
        assert_eq!(target("b.localhost:9000", "/k?x"), (some("b"), some("k")));
        assert_eq!(target("b.c.s3.example", "/"), (some("b.c"), None));
        assert_eq!(target(".s3.example", "/b"), (some("b"), None));
    }

    /// The signature covers the authority, so a bucket that Host alone names is not what was signed.
    #[test]
    fn the_authority_of_a_target_names_the_bucket_and_host_does_not() {
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("secret.localhost"))]);
        let target = |uri: &'static str| options(false).target(&headers, &Uri::from_static(uri));
        let of_path = target("http://127.0.0.1:80/public/f").expect("a target");
        assert_eq!(of_path.bucket.as_deref(), Some("public"));
        let of_host = target("http://public.localhost/f").expect("a target");
        assert_eq!(of_host.bucket.as_deref(), Some("public"));
    }

    #[test]
    fn g16_requests_without_signature_are_s3s_where_http_is_off_or_they_ask_as_s3() {
        let serves = |is_http_on, uri: &'static str| {
            let uri = Uri::from_static(uri);
            options(is_http_on).serves(&Method::GET, &HeaderMap::new(), &uri)
        };
        assert!(serves(false, "/b/k"));
        assert!(!serves(true, "/b/k") && !serves(true, "/b/k?sort=name"));
        assert!(serves(true, "/b?list-type=2") && serves(true, "/b?x&location"));
        assert!(serves(true, "/b/k?X-Amz-Signature=0"));
    }

    #[test]
    fn an_upload_in_parts_without_a_signature_is_plain_http_where_that_is_on() {
        let is_upload = |is_http_on, method: Method, uri: &'static str| {
            let uri = Uri::from_static(uri);
            options(is_http_on).is_http_upload(&method, &HeaderMap::new(), &uri)
        };
        assert!(is_upload(true, Method::POST, "/b/k?uploads="));
        assert!(is_upload(true, Method::PUT, "/b/k?partNumber=1&uploadId=x"));
        assert!(is_upload(true, Method::HEAD, "/b/k?x-id=HeadObject"));
        for (method, uri) in [
            (Method::GET, "/b?uploads="),
            (Method::GET, "/b/k?x-id=GetObject"),
            (Method::HEAD, "/b/k?x-id=1"),
            (Method::HEAD, "/k?x-id=HeadObject"),
            (Method::HEAD, "/b/?x-id=HeadObject"),
            (Method::PUT, "/b/k"),
            (Method::OPTIONS, "/b/k?uploadId=x"),
            (Method::POST, "/b/k?uploads&X-Amz-Signature=0"),
            (Method::POST, "http://b.localhost/k?uploads"),
        ] {
            assert!(!is_upload(true, method, uri), "{uri}");
        }
        assert!(!is_upload(false, Method::POST, "/b/k?uploads="));
        let open = S3Options {
            anonymous: Some(AccessRight::Write),
            ..options(true)
        };
        let uri = Uri::from_static("/b/k?uploads");
        assert!(!open.is_http_upload(&Method::POST, &HeaderMap::new(), &uri));
        let login = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Basic eDp5"))]);
        assert!(open.is_http_upload(&Method::POST, &login, &uri));
    }
}
