//! Responses that bring no file.

use std::time::Duration;

use haul_plan::{Remedy, RetryAfterText, TransferTimeLimit, WaitText};
use http::StatusCode;
use url::Url;

use crate::response::is_busy_status;

/// What an origin answered in place of a file. Display says it without the URL.
#[derive(Debug, thiserror::Error)]
pub enum OriginError {
    /// A status that ends the job.
    #[error("{}", status_text(*.status, *.credentials_sent, .realm.as_deref(), *.retry_after))]
    Status {
        status: StatusCode,
        /// Whether credentials had been sent.
        credentials_sent: bool,
        /// The realm that the missing credentials are for.
        realm: Option<String>,
        /// The time before which the origin wants no further request.
        retry_after: Option<Duration>,
        /// The first line of the response's text.
        response_text: Option<Box<str>>,
    },
    /// None of its responses could be used, whichever request was sent.
    #[error("sends responses that cannot be used: {reason}")]
    UnusableResponse {
        /// Why the last response could not be used.
        reason: String,
    },
    /// A Content-Encoding that haul cannot decode.
    #[error("sent a coding that haul cannot decode")]
    UnknownCoding { source: std::io::Error },
    /// It asks for a pause that is longer than a job waits, in responses to other jobs of the batch.
    #[error("asks to wait for {}", WaitText(*.wait))]
    AsksToWait {
        /// The length of the pause.
        wait: Duration,
    },
}

impl OriginError {
    /// A 401, or a 407 where no proxy is configured.
    pub(crate) fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Status { status, .. } if matches!(status.as_u16(), 401 | 407))
    }

    pub(super) fn cause(&self) -> String {
        match self {
            Self::Status { status, .. } => status.to_string(),
            Self::UnusableResponse { .. } => "unusable responses".into(),
            Self::UnknownCoding { .. } => "cannot be decoded".into(),
            Self::AsksToWait { .. } => "the host asks to wait".into(),
        }
    }

    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Status {
                status,
                retry_after,
                ..
            } => is_busy_status(*status) || retry_after.is_some(),
            Self::UnusableResponse { .. } | Self::AsksToWait { .. } => true,
            Self::UnknownCoding { .. } => false,
        }
    }

    pub(super) fn remedies(&self, url: &Url, is_resumable: bool) -> Vec<Remedy> {
        match self {
            Self::Status {
                retry_after: Some(wait),
                ..
            } => wait_remedies(*wait),
            Self::Status {
                status,
                credentials_sent,
                response_text,
                ..
            } => status_remedies(
                url,
                *status,
                *credentials_sent,
                response_text.as_deref(),
                is_resumable,
            ),
            Self::UnusableResponse { .. } => vec![Remedy::advice(
                "the server, or a proxy before it, is at fault: try again later",
            )],
            Self::UnknownCoding { .. } => vec![Remedy::StoreEncoded],
            Self::AsksToWait { .. } => vec![
                Remedy::advice("try again after that time"),
                Remedy::ExtendTimeLimit(TransferTimeLimit::RequestedWait),
            ],
        }
    }
}

/// For a response that asks to wait: the time is in the message.
pub(crate) fn wait_remedies(wait: Duration) -> Vec<Remedy> {
    let limit = Remedy::ExtendTimeLimit(TransferTimeLimit::RequestedWait);
    if wait.is_zero() {
        Vec::new()
    } else {
        vec![limit]
    }
}

fn status_remedies(
    url: &Url,
    status: StatusCode,
    credentials_sent: bool,
    response_text: Option<&str>,
    is_resumable: bool,
) -> Vec<Remedy> {
    let advice = |text| vec![Remedy::advice(text)];
    let try_again = |text| vec![Remedy::advice(text), Remedy::AllowRetries];
    match status.as_u16() {
        400 if url.scheme() == "http"
            && url.port().is_some()
            && response_text.is_none_or(mentions_tls) =>
        {
            advice("if the server speaks TLS on this port, use https:// instead of http://")
        }
        403 if url.scheme() == "s3" => haul_s3::access_remedies(),
        404 if url.scheme() == "s3" => vec![Remedy::ListObjects],
        407 => vec![Remedy::LogInToProxy],
        401 if credentials_sent => advice("check the user name and password, or the token"),
        401 => vec![Remedy::LogIn],
        403 if credentials_sent => vec![
            Remedy::advice("these credentials do not open it"),
            Remedy::LogIn,
        ],
        403 if is_resumable => advice(
            "the origin blocks this client for now, or the link has expired: try again later, or with a new link",
        ),
        403 => advice(
            "the link may have expired, or the origin blocks this client: open the URL in a browser",
        ),
        404 | 410 => advice("check the URL"),
        202 => advice("the server has not finished its work: try again later"),
        408 => try_again("the origin gave up waiting for the request: try again later"),
        429 => try_again("the origin wants fewer requests: try again later"),
        500 | 502..=504 => try_again("the origin has a problem: try again later"),
        // What the origin does not support stays that way.
        501 | 505 => Vec::new(),
        506.. => advice("the origin has a problem: try again later"),
        _ => Vec::new(),
    }
}

/// Whether the text of a 400 is that of nginx, Go or another server whose port speaks TLS.
fn mentions_tls(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("https") || text.contains("ssl")
}

/// `answered 404 Not Found`, or `refused the credentials: 401 Unauthorized for realm "x"`.
fn status_text(
    status: StatusCode,
    credentials_sent: bool,
    realm: Option<&str>,
    retry_after: Option<Duration>,
) -> String {
    let verb = match status.as_u16() {
        401 | 407 if credentials_sent => "refused the credentials:",
        _ => "answered",
    };
    let realm = realm.map_or_else(String::new, |realm| format!(" for realm {realm:?}"));
    format!("{verb} {status}{}{realm}", RetryAfterText(retry_after))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More retries are advised only where one may succeed, and a client that asks too often is not told that the origin has a problem.
    #[test]
    fn hints_match_the_status() {
        let hint = |status: u16, retry_after| {
            let error = OriginError::Status {
                status: StatusCode::from_u16(status).unwrap(),
                credentials_sent: false,
                realm: None,
                retry_after,
                response_text: None,
            };
            let url = Url::parse("https://example.com/file").unwrap();
            error.remedies(&url, false)
        };
        let advice = Remedy::advice;
        let too_many = "the origin wants fewer requests: try again later";
        let try_later = "the origin has a problem: try again later";
        assert_eq!(hint(429, None), [advice(too_many), Remedy::AllowRetries]);
        let wait = Remedy::ExtendTimeLimit(TransferTimeLimit::RequestedWait);
        assert_eq!(hint(429, Some(Duration::from_secs(60))), [wait]);
        let timeout = "the origin gave up waiting for the request: try again later";
        assert_eq!(hint(408, None), [advice(timeout), Remedy::AllowRetries]);
        for status in [500, 502, 503, 504] {
            assert_eq!(
                hint(status, None),
                [advice(try_later), Remedy::AllowRetries]
            );
        }
        for status in [501, 505] {
            assert_eq!(hint(status, None), []);
        }
        assert_eq!(hint(520, None), [advice(try_later)]);
    }
}
