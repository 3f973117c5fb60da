//! The outcome of authorizing a request.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, StatusCode};

use super::login_queue::PendingLogin;
use super::permissions::Permissions;

/// What is to be done with a request.
#[derive(Debug)]
pub enum AccessDecision {
    /// Serve it with these permissions.
    Granted(Permissions),
    /// Respond with this refusal.
    Refused(AccessRefusal),
    /// Undecided until a password has been hashed.
    NeedsHashing(PendingLogin),
}

/// A refusal. Its text (`Display`) is the response body; it reveals nothing that the client did not
/// know.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct AccessRefusal {
    /// Decides the status and the text.
    pub reason: AccessRefusalReason,
    /// The `WWW-Authenticate` fields, one for each scheme; empty unless the status is 401.
    pub challenges: Arc<[HeaderValue]>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccessRefusalReason {
    /// Requests without credentials may not do this.
    #[error("this needs a login")]
    LoginRequired,
    /// The same where there are no logins, only signed links.
    #[error("this needs a signed link")]
    SignatureRequired,
    /// The Authorization field cannot be parsed, or there are two.
    #[error("the Authorization field is malformed")]
    MalformedAuthorization,
    /// Nobody has these credentials. The same is said for unknown names.
    #[error("the user name or password, or the token, is wrong")]
    WrongCredentials,
    /// The user is known but lacks this permission.
    #[error("you may not do this here")]
    NotAllowed,
    /// The signature is valid, but expired.
    #[error("this link has expired: ask for a new one")]
    LinkExpired,
    /// The signature does not fit this request or this server's key.
    #[error(
        "the signature of this link is wrong: it is valid for one method and one URL, neither of which may be changed"
    )]
    BadSignature,
    /// Too many logins wait for their passwords to be checked.
    #[error("too many logins at once: try again in a moment")]
    Busy,
}

impl AccessRefusal {
    pub(super) fn new(reason: AccessRefusalReason) -> Self {
        Self {
            reason,
            challenges: Arc::from([]),
        }
    }

    /// The status of the response: 401, 403 or 503.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.reason {
            // Without logins there is nothing to challenge for, and a 401 must carry a challenge
            // (RFC 9110 15.5.2).
            AccessRefusalReason::LoginRequired
            | AccessRefusalReason::MalformedAuthorization
            | AccessRefusalReason::WrongCredentials
                if self.challenges.is_empty() =>
            {
                StatusCode::FORBIDDEN
            }
            AccessRefusalReason::LoginRequired
            | AccessRefusalReason::MalformedAuthorization
            | AccessRefusalReason::WrongCredentials => StatusCode::UNAUTHORIZED,
            AccessRefusalReason::SignatureRequired
            | AccessRefusalReason::NotAllowed
            | AccessRefusalReason::LinkExpired
            | AccessRefusalReason::BadSignature => StatusCode::FORBIDDEN,
            AccessRefusalReason::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The value of `Retry-After`, if the response has one.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        (self.reason == AccessRefusalReason::Busy).then_some(Duration::from_secs(2))
    }
}
