//! Who we are to an origin or a proxy: credentials and the answers to their challenges (RFC 9110 11).

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
pub(crate) use challenge::AuthChallenges;
pub use challenge::Authorization;
pub use netrc::{Netrc, NetrcError};

use crate::credential_scope::CredentialScope;
use crate::request_target::origin_form;
use crate::secret::Secret;

/// A user name and its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The name.
    pub user: String,
    /// The password.
    pub password: Secret,
}

impl Login {
    /// Basic (RFC 7617), in UTF-8.
    #[must_use]
    pub(crate) fn basic_header(&self) -> String {
        format!(
            "Basic {}",
            STANDARD.encode(format!("{}:{}", self.user, self.password.expose()))
        )
    }
}

/// What a user gave to authenticate with.
#[derive(Debug, Clone, Default)]
pub struct UserCredentials {
    /// For the origin of the URL that was given, and no other.
    pub login: Option<Login>,
    /// The same, as a token (RFC 6750).
    pub bearer: Option<Secret>,
    /// By host name, for every host named in it, wherever a redirect leads; its default is for the given origin alone.
    pub netrc: Option<Netrc>,
}

/// Answers origins' challenges, and remembers them so that the next request need not be challenged.
#[derive(Debug, Default)]
pub(crate) struct Authenticator {
    credentials: UserCredentials,
    /// What each origin last wanted to see.
    cache: AuthCache,
}

impl Authenticator {
    pub(crate) fn new(credentials: UserCredentials) -> Self {
        Self {
            credentials,
            cache: AuthCache::default(),
        }
    }

    /// What a request shows, if there is any. `given` is the URL that the user gave: its origin alone gets the
    /// credentials that were not said to be for a host.
    pub(crate) fn authorize(&self, url: &Url, given: &Url) -> Option<Authorization> {
        if let Some(token) = self.bearer(url, given) {
            let value = sensitive_header(&format!("Bearer {}", token.expose()))?;
            return Some(Authorization {
                value,
                nonce: None,
                is_first_use: true,
            });
        }
        let login = self.login(url, given)?;
        let peer = url.origin().ascii_serialization();
        let known = self
            .cache
            .authorize(&peer, &login, ("GET", origin_form(url)));
        // Basic goes ahead, as with curl: there are origins that say 404 to strangers and never ask who they are.
        known.or_else(|| Authorization::basic(&login))
    }

    /// An origin answered 401 to a request that carried `shown`: whether showing something else is worth a try.
    pub(crate) fn record_challenge(
        &self,
        url: &Url,
        given: &Url,
        challenges: &AuthChallenges,
        shown: Option<&Authorization>,
    ) -> bool {
        let has_login = self.bearer(url, given).is_none() && self.login(url, given).is_some();
        let peer = url.origin().ascii_serialization();
        has_login && self.cache.record_refusal(&peer, challenges, shown)
    }

    fn bearer(&self, url: &Url, given: &Url) -> Option<&Secret> {
        let token = self.credentials.bearer.as_ref();
        token.filter(|_| CredentialScope::for_url(url, given) == CredentialScope::UserOrigin)
    }

    fn login(&self, url: &Url, given: &Url) -> Option<Login> {
        let netrc = self.credentials.netrc.as_ref();
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let written = |url: &Url| Login {
            user: decode(url.username()),
            password: Secret::new(decode(url.password().unwrap_or_default())),
        };
        if CredentialScope::for_url(url, given) == CredentialScope::Other {
            // Redirects and links are stripped of theirs: what is here stands in a document, for this very host.
            if !url.username().is_empty() {
                return Some(written(url));
            }
            // The hosts named in a netrc are; its default is whom the user meant to ask, and no other.
            return netrc?.login_by_name(url.host_str()?);
        }
        if !given.username().is_empty() {
            return Some(written(given));
        }
        if let Some(login) = &self.credentials.login {
            return Some(login.clone());
        }
        netrc?.login(url.host_str()?)
    }
}

/// A header that is never shown in a log. Beyond ASCII it is UTF-8; `None` for what would break the line.
pub(crate) fn sensitive_header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(text.as_bytes()).ok()?;
    value.set_sensitive(true);
    Some(value)
}
