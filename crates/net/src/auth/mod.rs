//! Who we are to an origin or a proxy: credentials and the answers to their challenges (RFC 9110 11).

mod challenge;
mod netrc;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use percent_encoding::percent_decode_str;
use url::Url;

pub(crate) use challenge::Challenges;
pub use netrc::{Netrc, NetrcError};

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
    pub(crate) fn basic(&self) -> String {
        format!(
            "Basic {}",
            STANDARD.encode(format!("{}:{}", self.user, self.password.expose()))
        )
    }
}

/// What a user gave to authenticate with.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// For the origin of the URL that was given, and no other.
    pub login: Option<Login>,
    /// The same, as a token (RFC 6750).
    pub bearer: Option<Secret>,
    /// By host name, for every host named in it.
    pub netrc: Option<Netrc>,
}

/// Answers origins' challenges, and remembers them so that the next request need not be challenged.
#[derive(Debug, Default)]
pub(crate) struct Authenticator {
    credentials: Credentials,
    /// The challenge that an origin last made and that was answered.
    sessions: Mutex<HashMap<String, Challenges>>,
}

/// How many origins' challenges are remembered.
const SESSIONS: usize = 1024;

impl Authenticator {
    pub(crate) fn new(credentials: Credentials) -> Self {
        Self {
            credentials,
            sessions: Mutex::default(),
        }
    }

    /// The Authorization for a request, if there is any. `given` is the URL that the user gave: its origin alone gets the
    /// credentials that were not said to be for a host.
    pub(crate) fn authorize(&self, url: &Url, given: &Url) -> Option<HeaderValue> {
        let ours = url.origin() == given.origin();
        if let Some(token) = self.credentials.bearer.as_ref().filter(|_| ours) {
            return sensitive(&format!("Bearer {}", token.expose()));
        }
        let login = self.login(url, given)?;
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sessions.get_mut(&url.origin().ascii_serialization());
        let answer = known.and_then(|session| session.answer(&login, "GET", request_target(url)));
        sensitive(&answer.unwrap_or_else(|| login.basic()))
    }

    /// An origin answered 401: whether another Authorization than the one that was sent is worth a try.
    pub(crate) fn challenged(&self, url: &Url, given: &Url, challenges: Challenges) -> bool {
        if self.login(url, given).is_none() || !challenges.has_digest() {
            return false;
        }
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let key = url.origin().ascii_serialization();
        // The same nonce again: the answer to it was wrong, and would be so again.
        if sessions
            .get(&key)
            .is_some_and(|known| known.same_nonce(&challenges))
        {
            return false;
        }
        if sessions.len() >= SESSIONS {
            sessions.clear();
        }
        sessions.insert(key, challenges);
        true
    }

    fn login(&self, url: &Url, given: &Url) -> Option<Login> {
        if url.origin() == given.origin() {
            if !given.username().is_empty() {
                let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
                let password = Secret::new(decode(given.password().unwrap_or_default()));
                return Some(Login {
                    user: decode(given.username()),
                    password,
                });
            }
            if let Some(login) = &self.credentials.login {
                return Some(login.clone());
            }
        }
        self.credentials.netrc.as_ref()?.login(url.host_str()?)
    }
}

/// A header that is never shown in a log.
pub(crate) fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Path and query, as the request line has them.
fn request_target(url: &Url) -> &str {
    &url[url::Position::BeforePath..url::Position::AfterQuery]
}
