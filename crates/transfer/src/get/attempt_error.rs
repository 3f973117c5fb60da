//! A request that brought no bytes, or not all of them: the class of its failure, and the error that its job may end with.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use haul_net::{FetchResponse, Kind};
use http::StatusCode;
use url::Url;

use super::ExceededLimit;
use crate::error::{ErrorDocument, GetError, NetworkError, OriginError, VerificationError};
use crate::response::{RequestFailure, UnexpectedContent, first_line_of_text};
use crate::sources::SourceMismatch;

/// Why a request brought no more bytes.
#[derive(Debug)]
pub(crate) struct AttemptError {
    /// The class of the failure. `None` where the recovery policy has nothing to decide, since this machine failed.
    pub(crate) failure: Option<RequestFailure>,
    /// The error of the job, if it ends with this.
    pub(crate) error: GetError,
    /// The target of a redirect, if the response came from there.
    pub(crate) redirect: Option<RedirectTarget>,
    /// Bytes of the body that arrived before the failure, where the strategy does not keep them.
    pub(crate) lost_bytes: u64,
}

/// Where a redirect led.
#[derive(Debug, Clone)]
pub(crate) struct RedirectTarget {
    pub(crate) host: String,
    /// Whether the redirect is some time old: a signature in it may have expired since (row A16).
    pub(crate) is_stale: bool,
}

impl AttemptError {
    /// The transport failed. `answered`: a usable response had begun. `range`: the bytes that the request is for, where an error
    /// should name them.
    pub(crate) fn transport(
        error: haul_net::Error,
        answered: bool,
        url: &Url,
        range: Option<Range<u64>>,
    ) -> Box<Self> {
        let failure = transport_failure(&error, answered);
        Self::of_transport(failure, error, url, range)
    }

    /// A body arrived so slowly that a strategy which keeps partial progress should fetch it (row A19).
    pub(crate) fn too_slow(error: haul_net::Error, url: &Url) -> Box<Self> {
        Self::of_transport(RequestFailure::TooSlow, error, url, None)
    }

    /// A download exceeded its limit. One that is too slow is requested again with a strategy that keeps partial progress, if it has a
    /// length and so something to resume.
    pub(crate) fn limit_exceeded(
        limit: ExceededLimit,
        length: Option<u64>,
        url: &Url,
    ) -> Box<Self> {
        let error = GetError::network(shown_url(url), NetworkError::LimitExceeded { limit });
        match (limit, length) {
            (ExceededLimit::MinRate { .. }, Some(_)) => {
                Self::of_source(RequestFailure::TooSlow, error)
            }
            _ => Self::without_recovery(error),
        }
    }

    fn of_transport(
        failure: RequestFailure,
        error: haul_net::Error,
        url: &Url,
        range: Option<Range<u64>>,
    ) -> Box<Self> {
        Self::of_source(
            failure,
            GetError::network(
                shown_url(url),
                NetworkError::Transport {
                    range,
                    source: Box::new(error),
                },
            ),
        )
    }

    /// The response cannot be used.
    pub(crate) fn response(
        failure: RequestFailure,
        response: &FetchResponse,
        url: &Url,
    ) -> Box<Self> {
        let url = shown_url(url);
        let secrets = response.request_secrets();
        let media_type = haul_plan::media_type(&response.headers);
        let of_status =
            |status: &StatusCode, realm, retry_after: &Option<Duration>| OriginError::Status {
                status: *status,
                credentials_sent: response.authorized,
                realm,
                retry_after: *retry_after,
                response_text: None,
            };
        let error = match &failure {
            RequestFailure::Busy {
                status,
                retry_after,
            } => GetError::origin(url, of_status(status, None, retry_after)),
            RequestFailure::RangeRefused { status } | RequestFailure::Denied { status } => {
                GetError::origin(url, of_status(status, None, &None))
            }
            RequestFailure::Unauthorized { status, realm } => {
                let realm = realm.as_deref().map(|realm| secrets.redact(realm));
                GetError::origin(url, of_status(status, realm, &None))
            }
            RequestFailure::Changed => {
                GetError::verification(url, VerificationError::ResourceChanged)
            }
            RequestFailure::ErrorPage => GetError::verification(
                url,
                VerificationError::ErrorPage {
                    document: Box::new(ErrorDocument {
                        media_type: media_type.map(|text| secrets.redact(&text).into()),
                        length: response.remaining(),
                        text: None,
                    }),
                },
            ),
            unusable => GetError::origin(
                url,
                OriginError::UnusableResponse {
                    reason: secrets.redact(&unusable.to_string()),
                },
            ),
        };
        let redirect = response.redirected.then(|| RedirectTarget {
            host: haul_net::origin_text(&response.url).into_owned(),
            is_stale: false,
        });
        Box::new(Self {
            failure: Some(failure),
            error,
            redirect,
            lost_bytes: 0,
        })
    }

    /// A page in place of the file, which its first bytes tell.
    pub(crate) fn error_page(response: &FetchResponse, beginning: &[u8], url: &Url) -> Box<Self> {
        let error = Self::response(RequestFailure::ErrorPage, response, url);
        error.with_response_text(first_line(response, beginning))
    }

    /// The same, with the first line of the response's text, where that is not a file.
    pub(crate) fn with_response_text(mut self: Box<Self>, text: Option<String>) -> Box<Self> {
        let text = text.map(Into::into);
        match &mut self.error {
            GetError::Origin {
                error: OriginError::Status { response_text, .. },
                ..
            } => *response_text = text,
            GetError::Verification {
                error: VerificationError::ErrorPage { document },
                ..
            } => document.text = text,
            _ => {}
        }
        self
    }

    /// A source has another file than the job wants, or nothing shows that it has the same.
    pub(crate) fn wrong_file(mismatch: SourceMismatch, url: &Url) -> Box<Self> {
        Self::of_source(
            RequestFailure::WrongFile,
            GetError::verification(
                shown_url(url),
                VerificationError::WrongFile {
                    reason: mismatch.to_string(),
                },
            ),
        )
    }

    /// The file is not the one that the user expects, though the response is fine.
    pub(crate) fn unexpected(
        mut source: UnexpectedContent,
        response: &FetchResponse,
        url: &Url,
    ) -> Box<Self> {
        if let UnexpectedContent::MediaType { actual, .. } = &mut source {
            *actual = response.request_secrets().redact(actual);
        }
        Self::of_source(
            RequestFailure::WrongFile,
            GetError::verification(
                shown_url(url),
                VerificationError::UnexpectedContent {
                    status: Some(response.status),
                    source,
                },
            ),
        )
    }

    /// The origin forbids the use of the file by this directive, though the response is fine.
    pub(crate) fn forbidden_by_robots_tag(
        directive: &'static str,
        response: &FetchResponse,
        url: &Url,
    ) -> Box<Self> {
        Self::of_source(
            RequestFailure::WrongFile,
            GetError::verification(
                shown_url(url),
                VerificationError::ForbiddenByRobotsTag {
                    status: response.status,
                    directive,
                },
            ),
        )
    }

    /// The disk failed: no other source can help.
    pub(crate) fn local(path: PathBuf, source: io::Error) -> Box<Self> {
        Self::without_recovery(GetError::io("write to", path, source))
    }

    /// An error that ends the job, whatever the recovery policy would say.
    pub(crate) fn without_recovery(error: GetError) -> Box<Self> {
        Box::new(Self {
            failure: None,
            error,
            redirect: None,
            lost_bytes: 0,
        })
    }

    fn of_source(failure: RequestFailure, error: GetError) -> Box<Self> {
        Box::new(Self {
            failure: Some(failure),
            error,
            redirect: None,
            lost_bytes: 0,
        })
    }

    /// The same, for a request that went to the target of an old redirect.
    pub(crate) fn from_stale_redirect(mut self: Box<Self>, url: &Url) -> Box<Self> {
        self.redirect = Some(RedirectTarget {
            host: haul_net::origin_text(url).into_owned(),
            is_stale: true,
        });
        self
    }

    /// The same, for a body that broke off after this number of bytes.
    pub(crate) fn after_bytes(mut self: Box<Self>, bytes: u64) -> Box<Self> {
        self.lost_bytes = bytes;
        self
    }

    /// The error in words, where its URL is named beside it.
    pub(crate) fn reason(&self) -> String {
        self.error.reason()
    }
}

/// The first line of a response's text, without the secrets of its request. They are masked before the text is cut.
pub(crate) fn first_line(response: &FetchResponse, body: &[u8]) -> Option<String> {
    first_line_of_text(response.request_secrets().redact_bytes(body).as_bytes())
}

/// The class of a transport error.
fn transport_failure(error: &haul_net::Error, answered: bool) -> RequestFailure {
    let transient = error.is_transient();
    match error.kind() {
        _ if is_unreachable(error) => RequestFailure::Unreachable { transient },
        Kind::Closed => RequestFailure::Disconnected { answered },
        Kind::Protocol => RequestFailure::Garbled,
        _ => RequestFailure::Transport {
            transient,
            answered,
        },
    }
}

/// Whether no connection was made.
pub(crate) fn is_unreachable(error: &haul_net::Error) -> bool {
    matches!(
        error.kind(),
        Kind::Connect(_)
            | Kind::ConnectTimeout(_)
            | Kind::NoSuchHost(_)
            | Kind::NoAddress(..)
            | Kind::Resolve(_)
    )
}

fn shown_url(url: &Url) -> Box<Url> {
    Box::new(haul_net::without_credentials(url))
}
