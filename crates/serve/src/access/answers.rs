//! What a judgement comes to.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, StatusCode};

use super::grant::Grant;
use super::pending::PendingLogin;

/// What is to be done with a request.
#[derive(Debug)]
pub enum Judged {
    /// Serve it.
    Granted(Grant),
    /// Answer this.
    Refused(Refusal),
    /// A password must be hashed before this can be said.
    NeedsHashing(PendingLogin),
}

/// An answer that serves nothing. Its text (`Display`) is for the body; it says nothing that the request did not know.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{why}")]
pub struct Refusal {
    /// Why.
    pub why: Why,
    /// The fields `WWW-Authenticate`, one for each way to log in; empty unless the status is 401.
    pub challenges: Arc<[HeaderValue]>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// It needs more than strangers may do.
    #[error("this needs a login")]
    Stranger,
    /// The same where nobody can log in, and links are signed.
    #[error("this needs a signed link")]
    Unsigned,
    /// The Authorization field cannot be read, or there are two.
    #[error("the Authorization field cannot be understood")]
    Malformed,
    /// Nobody has these. The same is said of names that do not exist.
    #[error("the user name or password, or the token, is wrong")]
    Wrong,
    /// Somebody who is known, but not for this.
    #[error("you may not do this here")]
    NotAllowed,
    /// The signature was right once.
    #[error("this link has expired: ask for a new one")]
    Expired,
    /// The signature is not of this request, or not of this server's key.
    #[error(
        "the signature of this link is wrong: it holds for one method and one address, which must be kept as they are"
    )]
    BadSignature,
    /// Too many wait for their passwords to be looked at.
    #[error("too many logins are under way: try again in a moment")]
    Busy,
}

impl Refusal {
    pub(super) fn new(why: Why) -> Self {
        Self {
            why,
            challenges: Arc::from([]),
        }
    }

    /// The status of the answer: 401, 403 or 503.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.why {
            // Where nobody can log in there is nothing to challenge for, which a 401 must (RFC 9110 15.5.2).
            Why::Stranger | Why::Malformed | Why::Wrong if self.challenges.is_empty() => {
                StatusCode::FORBIDDEN
            }
            Why::Stranger | Why::Malformed | Why::Wrong => StatusCode::UNAUTHORIZED,
            Why::Unsigned | Why::NotAllowed | Why::Expired | Why::BadSignature => {
                StatusCode::FORBIDDEN
            }
            Why::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// For `Retry-After`.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        (self.why == Why::Busy).then_some(Duration::from_secs(2))
    }
}
