//! CORS: which pages of other sites may use the store from a browser (Fetch standard, 3.2).
//!
//! A browser keeps a page from reading the response of another origin unless that response names
//! the page's origin. When a page wants more than a form could send, the browser asks beforehand by
//! OPTIONS (a preflight). Both responses follow from the configuration alone and reveal nothing
//! about files: a preflight has no credentials, and its response is the same for every key.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http::header::{
    ACCEPT_RANGES, ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONTENT_DISPOSITION,
    CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, IF_UNMODIFIED_SINCE, LOCATION, ORIGIN, RANGE, RETRY_AFTER, VARY,
};
use http::{HeaderMap, HeaderValue, Method};
use url::Url;

use super::permissions::{PermissionSource, Permissions};

/// Digests of the transferred bytes (RFC 9530).
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");

/// Digests of the stored file (RFC 9530).
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// The oldest digest field.
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// Whose pages may use the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedOrigins {
    /// These origins. An empty list turns CORS off.
    List(Vec<WebOrigin>),
    /// The pages of every site. They may do what requests without credentials may, and what a
    /// script sends a token for, but cannot use logins that a browser stored.
    Any,
}

/// What pages of other sites may do.
#[derive(Debug, Clone)]
pub struct CorsOptions {
    /// Whose pages; none by default.
    pub origins: AllowedOrigins,
    /// The methods they may use; by default those that read.
    pub allowed_methods: Vec<Method>,
    /// The header fields they may send; by default all that this store understands.
    pub allowed_headers: Vec<HeaderName>,
    /// The response header fields they may read; by default all that this store sends.
    pub exposed_headers: Vec<HeaderName>,
    /// Whether browsers add their stored logins to the requests of these pages. Pages that send a
    /// login (not a token) themselves and write with it need this too, since the server cannot tell
    /// the two apart.
    pub credentials: bool,
    /// How long browsers cache the response to a preflight.
    pub max_age: Duration,
}

/// Whether a page of another site may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrossSiteWrite {
    /// The page may write.
    Allowed,
    /// Denied with this login unless pages may use the logins that browsers store
    /// ([`CorsOptions::credentials`]): the server cannot see whether the browser stored it. The
    /// page may use a token.
    NeedsCredentials,
    /// The page may not write.
    Denied,
}

/// Why a CORS configuration is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CorsError {
    /// Browsers refuse this combination too.
    #[error("pages of every origin cannot be allowed to use stored logins: name the origins")]
    AnyWithCredentials,
    /// A method is not valid in a header, or the header is too long.
    #[error("the methods or headers for other pages do not fit into a header field")]
    HeaderField,
}

/// The response fields, formatted once.
#[derive(Debug, Clone)]
pub struct CorsPolicy {
    origins: AllowedOrigins,
    write_methods: Vec<Method>,
    credentials: bool,
    methods: HeaderValue,
    headers: HeaderValue,
    exposed: HeaderValue,
    max_age: HeaderValue,
}

impl Default for AllowedOrigins {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Default for CorsOptions {
    fn default() -> Self {
        Self {
            origins: AllowedOrigins::default(),
            allowed_methods: vec![Method::GET, Method::HEAD],
            allowed_headers: vec![
                AUTHORIZATION,
                CONTENT_TYPE,
                RANGE,
                IF_MATCH,
                IF_NONE_MATCH,
                IF_MODIFIED_SINCE,
                IF_UNMODIFIED_SINCE,
                IF_RANGE,
                CONTENT_MD5,
                CONTENT_DIGEST,
                REPR_DIGEST,
            ],
            exposed_headers: vec![
                ETAG,
                CONTENT_RANGE,
                ACCEPT_RANGES,
                CONTENT_DISPOSITION,
                CONTENT_DIGEST,
                REPR_DIGEST,
                LOCATION,
                RETRY_AFTER,
            ],
            credentials: false,
            // An hour: a new configuration takes effect within it. Browsers cap it at two.
            max_age: Duration::from_secs(3600),
        }
    }
}

impl FromStr for AllowedOrigins {
    type Err = WebOriginError;

    /// Parses `*`, or origins separated by commas.
    fn from_str(text: &str) -> Result<Self, WebOriginError> {
        if text.trim() == "*" {
            return Ok(Self::Any);
        }
        let each = text.split(',').map(|origin| origin.trim().parse());
        each.collect::<Result<_, _>>().map(Self::List)
    }
}

impl CorsPolicy {
    /// Formats the response fields.
    pub fn new(options: CorsOptions) -> Result<Self, CorsError> {
        if options.credentials && options.origins == AllowedOrigins::Any {
            return Err(CorsError::AnyWithCredentials);
        }
        let names = |headers: &[HeaderName]| header_list(headers.iter().map(HeaderName::as_str));
        Ok(Self {
            methods: header_list(options.allowed_methods.iter().map(Method::as_str))?,
            headers: names(&options.allowed_headers)?,
            exposed: names(&options.exposed_headers)?,
            max_age: HeaderValue::from(options.max_age.as_secs()),
            write_methods: options.allowed_methods,
            credentials: options.credentials,
            origins: options.origins,
        })
    }

    /// Whether no other site has any permission.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        matches!(&self.origins, AllowedOrigins::List(list) if list.is_empty())
    }

    /// The header fields of the response (204) to a preflight; `None` if this is no preflight. Only
    /// for OPTIONS. A page without permission gets a response without the permitting fields.
    #[must_use]
    pub fn preflight_headers(&self, request: &HeaderMap) -> Option<HeaderMap> {
        if self.is_disabled() || !request.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            return None;
        }
        request_origin(request)?;
        let mut response = HeaderMap::new();
        if self.add_allowed_origin(request, &mut response) {
            response.insert(ACCESS_CONTROL_ALLOW_METHODS, self.methods.clone());
            response.insert(ACCESS_CONTROL_ALLOW_HEADERS, self.headers.clone());
            response.insert(ACCESS_CONTROL_MAX_AGE, self.max_age.clone());
        }
        Some(response)
    }

    /// Adds the fields that let a page read the response, whatever its status. Other fields stay.
    pub fn add_headers(&self, request: &HeaderMap, response: &mut HeaderMap) {
        if !self.is_disabled() && self.add_allowed_origin(request, response) {
            response.insert(ACCESS_CONTROL_EXPOSE_HEADERS, self.exposed.clone());
        }
    }

    /// Whether a request that is [cross-site](super::is_cross_site) may write nevertheless: because
    /// its page is configured to, or because its credentials are of a kind that no browser adds by
    /// itself. `*` does not let pages use the logins that browsers store.
    #[must_use]
    pub fn cross_site_write(
        &self,
        request: &HeaderMap,
        method: &Method,
        permissions: &Permissions,
    ) -> CrossSiteWrite {
        let is_named = self.origins == AllowedOrigins::Any || self.listed_origin(request).is_some();
        match permissions.source {
            PermissionSource::Token | PermissionSource::Signature => CrossSiteWrite::Allowed,
            _ if !is_named || !self.write_methods.contains(method) => CrossSiteWrite::Denied,
            // If stored logins were allowed, a page could send a form with one.
            PermissionSource::Login if !self.credentials => CrossSiteWrite::NeedsCredentials,
            PermissionSource::Open | PermissionSource::Anonymous | PermissionSource::Login => {
                CrossSiteWrite::Allowed
            }
        }
    }

    /// The origin of a request, if it is on the list.
    fn listed_origin<'a>(&self, request: &'a HeaderMap) -> Option<&'a HeaderValue> {
        let AllowedOrigins::List(list) = &self.origins else {
            return None;
        };
        request_origin(request).filter(|stated| list.iter().any(|origin| origin.matches(stated)))
    }

    /// Adds the origin to the response if it is allowed. Returns whether it is.
    fn add_allowed_origin(&self, request: &HeaderMap, response: &mut HeaderMap) -> bool {
        if self.origins == AllowedOrigins::Any {
            response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            return true;
        }
        // Always added: a cache must not give one origin's response to another, nor that of a
        // program to a page. A preflight's response passes here twice.
        if !response.get_all(VARY).iter().any(|vary| vary == "Origin") {
            response.append(VARY, HeaderValue::from_static("Origin"));
        }
        let Some(origin) = self.listed_origin(request) else {
            return false;
        };
        response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        if self.credentials {
            response.insert(
                ACCESS_CONTROL_ALLOW_CREDENTIALS,
                HeaderValue::from_static("true"),
            );
        }
        true
    }
}

fn header_list<'a>(names: impl Iterator<Item = &'a str>) -> Result<HeaderValue, CorsError> {
    let text = names.collect::<Vec<_>>().join(", ");
    HeaderValue::from_str(&text).map_err(|_| CorsError::HeaderField)
}

/// An origin as browsers write it: `https://app.example`, with a port unless it is the scheme's
/// default.
///
/// Web origins (RFC 6454): the scheme, host and port of a page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WebOrigin(String);

/// Why a text is not an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WebOriginError {
    /// Any page can make its origin `null`.
    #[error("any page can send the origin `null`, so it cannot be allowed")]
    Null,
    /// Any other text.
    #[error(
        "an origin is written https://host or http://host, with :port if needed, and nothing after it"
    )]
    Malformed,
}

impl WebOrigin {
    pub(super) fn matches(&self, value: &HeaderValue) -> bool {
        // Browsers write an origin in one way only.
        value.as_bytes() == self.0.as_bytes()
    }
}

impl FromStr for WebOrigin {
    type Err = WebOriginError;

    fn from_str(text: &str) -> Result<Self, WebOriginError> {
        if text == "null" {
            return Err(WebOriginError::Null);
        }
        let rest = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"))
            .ok_or(WebOriginError::Malformed)?;
        let host = rest.strip_suffix('/').unwrap_or(rest);
        // A URL parser would take these for the end of the host.
        if host.contains(['/', '\\', '@', '?', '#', '*'])
            || host.chars().any(|sign| sign.is_control() || sign == ' ')
        {
            return Err(WebOriginError::Malformed);
        }
        let url = Url::parse(text).map_err(|_| WebOriginError::Malformed)?;
        Ok(Self(url.origin().ascii_serialization()))
    }
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value of the Origin field; `None` if there is none, or more than one.
pub(super) fn request_origin(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut all = headers.get_all(ORIGIN).iter();
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests;
