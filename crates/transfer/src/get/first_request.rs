//! The first request of a download: a ranged GET that already carries data.
//!
//! It learns the length, the version and whether ranges work, and costs no round trip of its own. Whatever goes wrong
//! before a usable answer came is decided here by the course, with the one connection that there is.

use std::ops::Range;

use haul_net::FetchResponse;
use haul_plan::{ContentCoding, FailureContext, RecoveryAction, ResourceVersion, ResponseVerdict};
use http::HeaderMap;
use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH};

use super::attempt_failure::AttemptFailure;
use super::request::RangeRequest;
use super::run::DownloadRun;
use crate::disk::StoredValidators;
use crate::error::GetError;
use crate::journal::JournalHeader;

/// A first answer that a road can begin with.
#[derive(Debug)]
pub(super) struct FirstResponse {
    /// The answer; its body is not read yet.
    pub(super) answer: FetchResponse,
    /// What it brings.
    pub(super) brings: FirstResponseContent,
}

/// What a first answer brings.
#[derive(Debug)]
pub(super) enum FirstResponseContent {
    /// A part: ranges work.
    Part {
        /// Which bytes.
        range: Range<u64>,
        /// Of how many.
        total: u64,
        /// Of which version.
        version: ResourceVersion,
    },
    /// Everything, over this one connection.
    Whole {
        /// How much, if that is said.
        length: Option<u64>,
        /// Of which version.
        version: ResourceVersion,
        /// A coding that was applied unasked.
        encoding: Option<ContentCoding>,
    },
    /// The resource has no bytes.
    Empty(ResourceVersion),
    /// The file that is there is the newest.
    NotModified,
    /// What an earlier run left is of another version, or longer than the resource.
    OtherVersion,
}

impl FirstResponseContent {
    /// What a verdict brings; the verdict where it brings nothing.
    pub(super) fn of(verdict: ResponseVerdict) -> Result<Self, Box<ResponseVerdict>> {
        Ok(match verdict {
            ResponseVerdict::Part {
                range,
                total,
                version,
            } => Self::Part {
                range,
                total,
                version,
            },
            ResponseVerdict::Whole {
                length,
                version,
                encoding,
            } => Self::Whole {
                length,
                version,
                encoding,
            },
            ResponseVerdict::Empty { version } => Self::Empty(version),
            ResponseVerdict::NotModified => Self::NotModified,
            nothing => return Err(Box::new(nothing)),
        })
    }
}

/// What the first request asks for.
#[derive(Debug, Default)]
pub(super) struct FirstRequest<'a> {
    /// Bytes; `None` asks for everything without a Range.
    pub(super) range: Option<Range<u64>>,
    /// The version that an earlier run left bytes of.
    pub(super) pinned: Option<&'a ResourceVersion>,
    /// Whose version that is: other hosts' validators say nothing about it.
    pub(super) from: Option<&'a JournalHeader>,
    /// The file that may be new enough (`--update`).
    pub(super) have: Option<StoredValidators>,
}

impl DownloadRun<'_> {
    /// Asks until a usable answer came or the course gives up.
    pub(super) async fn begin(
        &mut self,
        question: FirstRequest<'_>,
    ) -> Result<FirstResponse, GetError> {
        loop {
            let failure = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(GetError::INTERRUPTED),
                asked = self.ask_first(&question) => match asked {
                    Ok(begun) => {
                        self.course.on_usable_answer();
                        return Ok(begun);
                    }
                    Err(failure) => failure,
                },
            };
            // Bytes from the first on are the whole file as far as anybody knows: only others are worth naming.
            let range = question.range.clone().filter(|range| range.start > 0);
            self.divert(failure, range).await?;
        }
    }

    async fn ask_first(
        &self,
        question: &FirstRequest<'_>,
    ) -> Result<FirstResponse, AttemptFailure> {
        let home = self.home();
        // On one stream everything comes anew: bytes of an earlier run, of whichever version, are of no use to it.
        let (range, pinned) = match self.one_stream {
            true => (None, None),
            false => (question.range.clone(), question.pinned),
        };
        let pinned = pinned.filter(|_| {
            question
                .from
                .is_none_or(|from| from.has_validators_of(home))
        });
        let ask = RangeRequest {
            own: &self.job.headers,
            client: &self.engine.client,
            url: &self.url,
            given: self.given(self.source),
            range,
            pinned,
            if_range: self.if_range,
            shared: false,
            conditions: question.have.as_ref().map(conditions).unwrap_or_default(),
        };
        let (answer, verdict) = ask.send().await?;
        let brings = match FirstResponseContent::of(verdict) {
            Ok(brings) => brings,
            Err(verdict) if pinned.is_some() && is_other(&verdict) => {
                FirstResponseContent::OtherVersion
            }
            Err(verdict) => {
                let failure = AttemptFailure::from_verdict(*verdict, &answer);
                answer.discard().await;
                return Err(failure);
            }
        };
        Ok(FirstResponse { answer, brings })
    }

    /// Carries out what the course says about a failure of the only connection; an error when it says to give up.
    pub(super) async fn heal(
        &mut self,
        failure: AttemptFailure,
        range: Option<Range<u64>>,
    ) -> Result<FirstRequestRetry, GetError> {
        let redirected = self.url != *self.home();
        let standing = FailureContext {
            flowing: 0,
            redirected,
            jitter: rand::random(),
        };
        let action = failure.trouble().map_or(RecoveryAction::GiveUp, |t| {
            self.course.on_trouble(t, standing)
        });
        tracing::debug!(?action, "{failure}");
        match action {
            RecoveryAction::GiveUp => return Err(failure.into_error(&self.url, range, &self.path)),
            RecoveryAction::Retry(wait) | RecoveryAction::Fewer(wait) => {
                self.wait(wait, &failure).await?
            }
            RecoveryAction::ResolveAgain(wait) => {
                self.url = self.home().clone();
                self.wait(wait, &failure).await?;
            }
            RecoveryAction::WithoutIfRange => self.if_range = false,
            RecoveryAction::OneStream => self.one_stream = true,
            RecoveryAction::StartOver => return Ok(FirstRequestRetry::StartOver),
        }
        Ok(FirstRequestRetry::Again)
    }
}

/// What follows a failure that did not end the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstRequestRetry {
    /// Ask again.
    Again,
    /// Discard what came: the resource changed.
    StartOver,
}

/// Whether a verdict says that what an earlier run left is not of this version.
fn is_other(verdict: &ResponseVerdict) -> bool {
    matches!(
        verdict,
        ResponseVerdict::Changed { .. } | ResponseVerdict::PastEnd { .. }
    )
}

/// Header fields that ask for an answer only if the origin has something newer than the file that is there.
pub(super) fn conditions(have: &StoredValidators) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(etag) = have.etag.as_deref().and_then(|etag| etag.parse().ok()) {
        headers.insert(IF_NONE_MATCH, etag);
    }
    if let Ok(date) = httpdate::fmt_http_date(have.modified).parse() {
        headers.insert(IF_MODIFIED_SINCE, date);
    }
    headers
}
