//! Credentials, and the answers to the challenges of origins and proxies (RFC 9110 11).

mod auth_cache;
mod challenge;
mod challenge_parser;
mod netrc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use percent_encoding::percent_decode_str;
use url::Url;

pub(crate) use auth_cache::AuthCache;
pub use auth_cache::MAX_AUTH_ATTEMPTS;
pub use challenge::Authorization;
pub(crate) use challenge::{AuthChallenges, NO_CHALLENGES};
pub use netrc::{Netrc, NetrcError};

use crate::credential_scope::CredentialScope;
use crate::request_target::origin_form;
use crate::secret::Secret;

/// A user name and its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: Secret,
}

impl Login {
    /// The value of a Basic Authorization field (RFC 7617), in UTF-8.
    pub(crate) fn basic_header(&self) -> String {
        let credentials = format!("{}:{}", self.user, self.password.expose());
        format!("Basic {}", STANDARD.encode(credentials))
    }
}

/// The credentials that a user gave for origins.
#[derive(Debug, Clone, Default)]
pub struct UserCredentials {
    /// For the origin of the URL that the user gave, and no other.
    pub login: Option<Login>,
    /// A token for the same origin (RFC 6750).
    pub bearer: Option<Secret>,
    /// Logins by host name: for every host that it names, wherever a redirect leads. Its default is for the user's origin alone.
    pub netrc: Option<Netrc>,
}

/// Chooses the credentials of requests to origins, and remembers challenges so that the next request need not be challenged.
#[derive(Debug, Default)]
pub(crate) struct Authenticator {
    credentials: UserCredentials,
    cache: AuthCache,
}

impl Authenticator {
    pub(crate) fn new(credentials: UserCredentials) -> Self {
        Self {
            credentials,
            cache: AuthCache::default(),
        }
    }

    /// The credentials for a request, if there are any. `user_url` is the URL that the user gave: credentials that name no host
    /// are for its origin alone.
    pub(crate) fn authorize(
        &self,
        method: &str,
        url: &Url,
        user_url: &Url,
    ) -> Option<Authorization> {
        if let Some(token) = self.bearer(url, user_url) {
            let value = sensitive_header(&format!("Bearer {}", token.expose()))?;
            return Some(Authorization {
                value,
                nonce: None,
                is_first_use: true,
            });
        }
        let login = self.login(url, user_url)?;
        let origin = url.origin().ascii_serialization();
        let target = origin_form(url);
        let authorization = self.cache.authorize(&origin, &login, method, target);
        // Basic is sent without a challenge, as curl does: some origins answer 404 to strangers and never challenge them.
        authorization.or_else(|| Authorization::basic(&login))
    }

    /// An origin answered 401 to a request that carried `refused`. Remembers the challenge; returns whether another try makes
    /// sense.
    pub(crate) fn record_challenge(
        &self,
        url: &Url,
        user_url: &Url,
        challenges: &AuthChallenges,
        refused: Option<&Authorization>,
    ) -> bool {
        let has_login = self.bearer(url, user_url).is_none() && self.login(url, user_url).is_some();
        let origin = url.origin().ascii_serialization();
        has_login && self.cache.record_refusal(&origin, challenges, refused)
    }

    fn bearer(&self, url: &Url, user_url: &Url) -> Option<&Secret> {
        let token = self.credentials.bearer.as_ref();
        token.filter(|_| CredentialScope::for_url(url, user_url) == CredentialScope::UserOrigin)
    }

    fn login(&self, url: &Url, user_url: &Url) -> Option<Login> {
        let netrc = self.credentials.netrc.as_ref();
        match CredentialScope::for_url(url, user_url) {
            // Logins in the URLs of redirects and links are removed before. One that is left comes from a document of the user's,
            // and is for this very host. Of a netrc, only a host that it names gets its login.
            CredentialScope::Other => {
                login_in(url).or_else(|| netrc?.login_by_name(url.host_str()?))
            }
            CredentialScope::UserOrigin => login_in(user_url)
                .or_else(|| self.credentials.login.clone())
                .or_else(|| netrc?.login(url.host_str()?)),
        }
    }
}

fn login_in(url: &Url) -> Option<Login> {
    if url.username().is_empty() {
        return None;
    }
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some(Login {
        user: decode(url.username()),
        password: Secret::new(decode(url.password().unwrap_or_default())),
    })
}

/// A header value that is marked as sensitive, so that no log shows it. Text beyond ASCII is sent as UTF-8; `None` for control
/// characters.
fn sensitive_header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(text.as_bytes()).ok()?;
    value.set_sensitive(true);
    Some(value)
}
