//! What can go wrong with one request, before the course has said what that means for the job.

use std::io;
use std::ops::Range;

use haul_net::FetchResponse;
use haul_plan::{RequestFailure, ResponseVerdict, UnexpectedContent, UnusableResponse};
use http::StatusCode;
use url::Url;

use crate::error::GetError;

/// Why a request brought no more bytes.
#[derive(Debug)]
pub(crate) enum AttemptFailure {
    /// The transport failed; `answered` when a usable answer had begun.
    Transport {
        /// What it said.
        error: Box<haul_net::Error>,
        /// Whether the answer had begun.
        answered: bool,
    },
    /// A status that ends or delays the job.
    Status {
        /// The answer.
        status: StatusCode,
        /// Whether credentials had been sent.
        authorized: bool,
        /// What the course is told.
        trouble: RequestFailure,
        /// Where a redirect had led, if that is who answered.
        led: Option<RedirectedTo>,
    },
    /// 401 or 407 although every credential was offered.
    Unauthorized {
        /// Which of the two.
        status: StatusCode,
        /// Whether credentials had been sent.
        authorized: bool,
        /// For whom credentials are wanted.
        realm: Option<String>,
    },
    /// An answer of which no byte may be used.
    Unusable {
        /// What the course is told.
        trouble: RequestFailure,
        /// Why, in words.
        why: String,
    },
    /// A source that has something else, or of which nothing tells that it has the same.
    Unfit(String),
    /// Another version of the resource.
    Changed,
    /// Not what was expected, though nothing is wrong with the answer.
    Unexpected(UnexpectedContent),
    /// A body that comes far too slowly for a road on which what came of it is lost when it breaks (row A19).
    Slow(Box<haul_net::Error>),
    /// The disk said no.
    Local(io::Error),
}

/// Where a redirect had led.
#[derive(Debug, Clone)]
pub(crate) struct RedirectedTo {
    /// The host there.
    pub(crate) host: String,
    /// Whether that was some time ago: what the redirect signed may have expired since (row A16).
    pub(crate) stale: bool,
}

impl AttemptFailure {
    /// A verdict that brings no bytes, as a failure. Verdicts that do bring some are the caller's to take first.
    pub(crate) fn from_verdict(verdict: ResponseVerdict, answer: &FetchResponse) -> Self {
        let (status, authorized) = (answer.status, answer.authorized);
        let led = || {
            answer.redirected.then(|| RedirectedTo {
                host: answer.url.origin().ascii_serialization(),
                stale: false,
            })
        };
        let unusable = |trouble, why: &str| Self::Unusable {
            trouble,
            why: why.to_owned(),
        };
        match verdict {
            ResponseVerdict::Changed { .. } => Self::Changed,
            ResponseVerdict::DropIfRange => {
                unusable(RequestFailure::IfRangeMisread, "If-Range is misread")
            }
            ResponseVerdict::RangeIgnored => unusable(
                RequestFailure::RangeIgnored,
                "a request for a part was answered with everything",
            ),
            ResponseVerdict::PastEnd { .. } => unusable(
                RequestFailure::PastEnd,
                "a range inside the file is said to be past its end",
            ),
            ResponseVerdict::Busy { retry_after, .. } => Self::Status {
                status,
                authorized,
                trouble: RequestFailure::Busy { retry_after },
                led: led(),
            },
            ResponseVerdict::Denied { .. } => Self::Status {
                status,
                authorized,
                trouble: RequestFailure::Denied {
                    status: status.as_u16(),
                },
                led: led(),
            },
            ResponseVerdict::Unauthorized { realm, .. } => Self::Unauthorized {
                status,
                authorized,
                realm,
            },
            ResponseVerdict::Refuse { why } => Self::refused(&why),
            // What is left would bring bytes, but not to a request like this one.
            _ => unusable(
                RequestFailure::Refused,
                "the answer does not fit the request",
            ),
        }
    }

    fn refused(why: &UnusableResponse) -> Self {
        Self::Unusable {
            trouble: RequestFailure::Refused,
            why: why.to_string(),
        }
    }

    /// The same, of an answer to a request that went where a redirect had led some time ago.
    pub(crate) fn stale(mut self, url: &Url) -> Self {
        if let Self::Status { led, .. } = &mut self {
            let host = url.origin().ascii_serialization();
            *led = Some(RedirectedTo { host, stale: true });
        }
        self
    }

    /// What the course is told; `None` when there is nothing to decide, since it is this machine that failed, or the user's word that is not met.
    pub(crate) fn trouble(&self) -> Option<RequestFailure> {
        Some(match self {
            Self::Transport { error, .. } if *error.kind() == haul_net::Kind::Protocol => {
                RequestFailure::Garbled
            }
            Self::Transport { error, answered } => RequestFailure::Transport {
                transient: error.is_transient(),
                answered: *answered,
            },
            Self::Slow(_) => RequestFailure::Transport {
                transient: true,
                answered: true,
            },
            Self::Status { trouble, .. } | Self::Unusable { trouble, .. } => *trouble,
            Self::Unauthorized { .. } => RequestFailure::Unauthorized,
            Self::Unfit(_) => RequestFailure::Refused,
            Self::Changed => RequestFailure::Changed,
            Self::Unexpected(_) | Self::Local(_) => return None,
        })
    }

    /// The error that the job ends with, if it ends with this.
    pub(crate) fn into_error(
        self,
        url: &Url,
        range: Option<Range<u64>>,
        path: &std::path::Path,
    ) -> GetError {
        let url = Box::new(haul_net::without_credentials(url));
        match self {
            Self::Transport { error, .. } | Self::Slow(error) => GetError::Transport {
                url,
                range,
                source: error,
                resumable: false,
            },
            Self::Status {
                status, authorized, ..
            } => GetError::Status {
                url,
                status,
                credentials_sent: authorized,
            },
            Self::Unauthorized {
                status,
                authorized,
                realm,
            } => GetError::Unauthorized {
                url,
                status,
                credentials_sent: authorized,
                realm,
            },
            Self::Unusable { why, .. } => GetError::UnusableResponse { url, reason: why },
            Self::Unexpected(source) => GetError::UnexpectedContent { url, source },
            Self::Unfit(why) => GetError::WrongFile { url, reason: why },
            Self::Changed => GetError::ResourceChanged { url },
            Self::Local(source) => GetError::local("write to", path.to_owned(), source),
        }
    }
}

impl std::fmt::Display for AttemptFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Transport { error, .. } => write!(f, "{error}"),
            Self::Slow(_) => f.write_str("it comes too slowly"),
            Self::Status { status, .. } | Self::Unauthorized { status, .. } => {
                write!(f, "answered {status}")
            }
            Self::Unusable { why, .. } | Self::Unfit(why) => f.write_str(why),
            Self::Changed => f.write_str("the resource changed"),
            Self::Unexpected(error) => write!(f, "{error}"),
            Self::Local(error) => write!(f, "{error}"),
        }
    }
}
