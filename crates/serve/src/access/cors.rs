//! CORS: which other pages may use the store from a browser (the Fetch standard, 3.2).
//!
//! Browsers keep a page from reading what another origin answers unless that answer names the page's origin, and ask beforehand, by
//! OPTIONS, when a page wants more than a form could send. Both are answered here from what was configured, without a word on the
//! files: a preflight has no credentials, and its answer is the same for every key.

use std::str::FromStr;
use std::time::Duration;

use http::header::{
    ACCEPT_RANGES, ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONTENT_DISPOSITION,
    CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, IF_UNMODIFIED_SINCE, LOCATION, RANGE, RETRY_AFTER, VARY,
};
use http::{HeaderMap, HeaderValue, Method};

use super::permissions::{PermissionSource, Permissions};
use super::web_origin::{WebOrigin, WebOriginError, request_origin};

/// Digests of what is sent (RFC 9530).
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");

/// Digests of what is held (RFC 9530).
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// The oldest of them.
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// Whose pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedOrigins {
    /// These; none of them is no CORS at all.
    List(Vec<WebOrigin>),
    /// All pages there are. They get what strangers get, and what a script brings a token for, and no login that a browser stored.
    Any,
}

/// What other pages may do.
#[derive(Debug, Clone)]
pub struct CorsOptions {
    /// Whose pages. None by default.
    pub origins: AllowedOrigins,
    /// What they may do: by default read.
    pub allowed_methods: Vec<Method>,
    /// What they may say: by default what this store understands.
    pub allowed_headers: Vec<HeaderName>,
    /// What they may read of an answer besides the body: by default what this store says.
    pub exposed_headers: Vec<HeaderName>,
    /// Whether browsers add the logins they have stored to what these pages ask. Also wanted by pages that bring a login (not a
    /// token) themselves and write with it, since the one cannot be told from the other here.
    pub credentials: bool,
    /// How long browsers keep the answer to a preflight.
    pub max_age: Duration,
}

/// Whether a page of another site may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrossSiteWrite {
    /// It may.
    Allowed,
    /// It might with this login if it were let use those that browsers store ([`CorsOptions::credentials`]): which of the two it
    /// is cannot be seen. A token it may use.
    NeedsCredentials,
    /// It may not.
    Denied,
}

/// Why it makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CorsError {
    /// Browsers refuse that too.
    #[error("the pages of every origin cannot be let use stored logins: name the origins")]
    AnyWithCredentials,
    /// A method that no header can hold, or more headers than fit.
    #[error("the methods or headers for other pages do not fit into a header field")]
    HeaderField,
}

/// The answers, made once.
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
            // An hour: what was configured anew is seen within it. Browsers cap it at two.
            max_age: Duration::from_secs(3600),
        }
    }
}

impl FromStr for AllowedOrigins {
    type Err = WebOriginError;

    /// `*`, or origins with commas between them.
    fn from_str(text: &str) -> Result<Self, WebOriginError> {
        if text.trim() == "*" {
            return Ok(Self::Any);
        }
        let each = text.split(',').map(|origin| origin.trim().parse());
        each.collect::<Result<_, _>>().map(Self::List)
    }
}

impl CorsPolicy {
    /// Writes down what will be answered.
    ///
    /// # Errors
    /// See [`CorsError`].
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

    /// Whether there is none.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        matches!(&self.origins, AllowedOrigins::List(list) if list.is_empty())
    }

    /// The header fields of the answer (204) to a preflight; `None` for what is none. Only for OPTIONS. A page that is not let gets
    /// an answer without permission in it.
    #[must_use]
    pub fn preflight_headers(&self, request: &HeaderMap) -> Option<HeaderMap> {
        if self.is_disabled() || !request.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            return None;
        }
        request_origin(request)?;
        let mut answer = HeaderMap::new();
        if self.add_allowed_origin(request, &mut answer) {
            answer.insert(ACCESS_CONTROL_ALLOW_METHODS, self.methods.clone());
            answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, self.headers.clone());
            answer.insert(ACCESS_CONTROL_MAX_AGE, self.max_age.clone());
        }
        Some(answer)
    }

    /// Adds to an answer of whatever status what lets the page read it. Fields that are there stay.
    pub fn add_headers(&self, request: &HeaderMap, answer: &mut HeaderMap) {
        if !self.is_disabled() && self.add_allowed_origin(request, answer) {
            answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, self.exposed.clone());
        }
    }

    /// Whether a request that [`is_cross_site`](super::is_cross_site) may write nevertheless: because its page was configured to,
    /// or because it was granted by what no browser adds by itself. Every page is no page in particular, so `*` does not let
    /// pages use the logins that browsers have stored.
    #[must_use]
    pub fn cross_site_write(
        &self,
        request: &HeaderMap,
        method: &Method,
        grant: &Permissions,
    ) -> CrossSiteWrite {
        let is_named = self.origins == AllowedOrigins::Any || self.listed_origin(request).is_some();
        match grant.source {
            PermissionSource::Token | PermissionSource::Signature => CrossSiteWrite::Allowed,
            _ if !is_named || !self.write_methods.contains(method) => CrossSiteWrite::Denied,
            // Without leave to use stored logins a page could still send a form with one.
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

    /// Names the origin in the answer, if it may be.
    fn add_allowed_origin(&self, request: &HeaderMap, answer: &mut HeaderMap) -> bool {
        if self.origins == AllowedOrigins::Any {
            answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            return true;
        }
        // Whatever is answered: a cache must not give one origin's answer to another, nor that of a program to a page.
        // A preflight's is told both what is allowed and what any answer is told.
        if !answer.get_all(VARY).iter().any(|vary| vary == "Origin") {
            answer.append(VARY, HeaderValue::from_static("Origin"));
        }
        let Some(origin) = self.listed_origin(request) else {
            return false;
        };
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        if self.credentials {
            answer.insert(
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

#[cfg(test)]
#[path = "cors_tests.rs"]
mod tests;
