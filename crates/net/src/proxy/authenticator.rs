//! Logs in to HTTP proxies: what to send with a request, and what a refusal means for the next one.
//!
//! A proxy with Digest must not see the password, so the login waits for a challenge, and the cache remembers that for later requests.
//! Some proxies refuse without a challenge. Then the login goes by Basic, over whatever the proxy is reached by: it is the proxy's own
//! login, the user gave it for this proxy, and any proxy could have asked for Basic. A proxy that has ever asked for another scheme never
//! gets it ([`AuthCache`]).

use http::StatusCode;
use url::Url;

use super::Proxy;
use crate::auth::{AuthCache, AuthChallenges, Authorization, NO_CHALLENGES};
use crate::error::{Error, Kind};

/// The challenges of HTTP proxies, to CONNECT and to requests in absolute-form alike.
#[derive(Debug, Default)]
pub(crate) struct ProxyAuthenticator(AuthCache);

/// The proxy has not seen the credentials that it asks for.
#[derive(Debug, thiserror::Error)]
#[error(
    "it asked for credentials after it had received the request, which cannot be sent twice; the next request will carry them"
)]
struct LateProxyChallenge;

impl ProxyAuthenticator {
    /// The credentials for a request; `None` as long as nothing says that the proxy wants some.
    pub(crate) fn authorize(
        &self,
        proxy: &Proxy,
        method: &str,
        target: &str,
    ) -> Option<Authorization> {
        let login = proxy.login.as_ref()?;
        let known = self.0.authorize(&proxy.auth_key(), login, method, target);
        known.or_else(|| {
            let basic = proxy
                .is_basic_sent_first
                .then(|| Authorization::basic(login));
            basic.flatten()
        })
    }

    /// The proxy refused a request that carried `refused`, with these challenges or without any. Returns the credentials for the next
    /// try, if it makes sense.
    pub(crate) fn retry(
        &self,
        proxy: &Proxy,
        challenges: &AuthChallenges,
        refused: Option<&Authorization>,
        method: &str,
        target: &str,
    ) -> Option<Authorization> {
        let (key, login) = (proxy.auth_key(), proxy.login.as_ref()?);
        self.0
            .retry(&key, challenges, refused, login, method, target)
    }

    /// The same for a request whose next try gets its credentials by [`ProxyAuthenticator::authorize`]. Returns whether there should be one.
    pub(crate) fn record_refusal(
        &self,
        proxy: &Proxy,
        challenges: &AuthChallenges,
        refused: Option<&Authorization>,
    ) -> bool {
        let key = proxy.auth_key();
        proxy.login.is_some() && self.0.record_refusal(&key, challenges, refused)
    }

    /// The proxy closed the connection instead of a response to a request in absolute-form. Returns whether another try, with the login,
    /// makes sense: only for the first requests, since a connection may break for many reasons.
    pub(crate) fn record_close(&self, proxy: &Proxy) -> bool {
        !proxy.is_basic_sent_first
            && self.0.is_unknown(&proxy.auth_key())
            && self.record_refusal(proxy, &NO_CHALLENGES, None)
    }

    /// Whether the proxy gets its login although it has never asked for one.
    pub(crate) fn is_unasked(&self, proxy: &Proxy) -> bool {
        let key = proxy.auth_key();
        let is_sent = proxy.is_basic_sent_first || !self.0.is_unknown(&key);
        proxy.login.is_some() && is_sent && !self.0.has_asked(&key)
    }

    /// The error of a final 407: the proxy asks for credentials, or for others, or it asked too late.
    pub(crate) fn error(
        &self,
        proxy: &Proxy,
        challenges: &AuthChallenges,
        is_late: bool,
        url: &Url,
    ) -> Error {
        let error = Error::new(Kind::ProxyAuth(challenges.realm()), url)
            .redacted_by(&proxy.request_secrets(url));
        if self.is_unasked(proxy) {
            return error.with_unasked_login();
        }
        match challenges.unsupported() {
            Some(unsupported) => error.with_source(unsupported),
            None if is_late => error.with_source(LateProxyChallenge),
            None => error,
        }
    }
}

/// Whether a proxy's response may be its way to say that it wants a login.
pub(crate) fn is_login_refusal(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403 | 407)
}
