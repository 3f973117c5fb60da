//! What a judgement comes to.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, StatusCode};

use super::login_queue::PendingLogin;
use super::permissions::Permissions;

/// What is to be done with a request.
#[derive(Debug)]
pub enum AccessDecision {
    /// Serve it.
    Granted(Permissions),
    /// Answer this.
    Refused(AccessRefusal),
    /// A password must be hashed before this can be said.
    NeedsHashing(PendingLogin),
}

/// An answer that serves nothing. Its text (`Display`) is for the body; it says nothing that the request did not know.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct AccessRefusal {
    /// Why.
    pub reason: AccessRefusalReason,
    /// The fields `WWW-Authenticate`, one for each way to log in; empty unless the status is 401.
    pub challenges: Arc<[HeaderValue]>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccessRefusalReason {
    /// It needs more than strangers may do.
    #[error("this needs a login")]
    LoginRequired,
    /// The same where nobody can log in, and links are signed.
    #[error("this needs a signed link")]
    SignatureRequired,
    /// The Authorization field cannot be read, or there are two.
    #[error("the Authorization field cannot be understood")]
    MalformedAuthorization,
    /// Nobody has these. The same is said of names that do not exist.
    #[error("the user name or password, or the token, is wrong")]
    WrongCredentials,
    /// Somebody who is known, but not for this.
    #[error("you may not do this here")]
    NotAllowed,
    /// The signature was right once.
    #[error("this link has expired: ask for a new one")]
    LinkExpired,
    /// The signature is not of this request, or not of this server's key.
    #[error(
        "the signature of this link is wrong: it holds for one method and one address, which must be kept as they are"
    )]
    BadSignature,
    /// Too many wait for their passwords to be looked at.
    #[error("too many logins are under way: try again in a moment")]
    Busy,
}

impl AccessRefusal {
    pub(super) fn new(reason: AccessRefusalReason) -> Self {
        Self {
            reason,
            challenges: Arc::from([]),
        }
    }

    /// The status of the answer: 401, 403 or 503.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.reason {
            // Where nobody can log in there is nothing to challenge for, which a 401 must (RFC 9110 15.5.2).
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

    /// For `Retry-After`.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        (self.reason == AccessRefusalReason::Busy).then_some(Duration::from_secs(2))
    }
}
