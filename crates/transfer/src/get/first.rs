//! The first request of a download: a ranged GET that already carries data.
//!
//! It learns the length, the version and whether ranges work, and costs no round trip of its own. Whatever goes wrong
//! before a usable answer came is decided here by the course, with the one connection that there is.

use std::ops::Range;

use haul_net::Answer;
use haul_plan::{Action, ContentCoding, Standing, Verdict, Version};
use http::HeaderMap;
use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH};

use super::ask::Ask;
use super::failure::Failure;
use super::job::Run;
use crate::disk::Remembered;
use crate::error::GetError;
use crate::journal::Header;

/// A first answer that a road can begin with.
#[derive(Debug)]
pub(super) struct Begun {
    /// The answer; its body is not read yet.
    pub(super) answer: Answer,
    /// What it brings.
    pub(super) brings: Brings,
}

/// What a first answer brings.
#[derive(Debug)]
pub(super) enum Brings {
    /// A part: ranges work.
    Part {
        /// Which bytes.
        range: Range<u64>,
        /// Of how many.
        total: u64,
        /// Of which version.
        version: Version,
    },
    /// Everything, over this one connection.
    Whole {
        /// How much, if that is said.
        length: Option<u64>,
        /// Of which version.
        version: Version,
        /// A coding that was applied unasked.
        encoding: Option<ContentCoding>,
    },
    /// The resource has no bytes.
    Empty(Version),
    /// The file that is there is the newest.
    NotModified,
    /// What an earlier run left is of another version, or longer than the resource.
    OtherVersion,
}

impl Brings {
    /// What a verdict brings; the verdict where it brings nothing.
    pub(super) fn of(verdict: Verdict) -> Result<Self, Box<Verdict>> {
        Ok(match verdict {
            Verdict::Part {
                range,
                total,
                version,
            } => Self::Part {
                range,
                total,
                version,
            },
            Verdict::Whole {
                length,
                version,
                encoding,
            } => Self::Whole {
                length,
                version,
                encoding,
            },
            Verdict::Empty { version } => Self::Empty(version),
            Verdict::NotModified => Self::NotModified,
            nothing => return Err(Box::new(nothing)),
        })
    }
}

/// What the first request asks for.
#[derive(Debug, Default)]
pub(super) struct Question<'a> {
    /// Bytes; `None` asks for everything without a Range.
    pub(super) range: Option<Range<u64>>,
    /// The version that an earlier run left bytes of.
    pub(super) pinned: Option<&'a Version>,
    /// Whose version that is: other hosts' validators say nothing about it.
    pub(super) from: Option<&'a Header>,
    /// The file that may be new enough (`--update`).
    pub(super) have: Option<Remembered>,
}

impl Run<'_> {
    /// Asks until a usable answer came or the course gives up.
    pub(super) async fn begin(&mut self, question: Question<'_>) -> Result<Begun, GetError> {
        loop {
            let failure = tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(GetError::STOPPED),
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

    async fn ask_first(&self, question: &Question<'_>) -> Result<Begun, Failure> {
        let home = self.home();
        // On one stream everything comes anew: bytes of an earlier run, of whichever version, are of no use to it.
        let (range, pinned) = match self.one_stream {
            true => (None, None),
            false => (question.range.clone(), question.pinned),
        };
        let pinned = pinned.filter(|_| question.from.is_none_or(|from| from.is_pinned_by(home)));
        let ask = Ask {
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
        let brings = match Brings::of(verdict) {
            Ok(brings) => brings,
            Err(verdict) if pinned.is_some() && is_other(&verdict) => Brings::OtherVersion,
            Err(verdict) => {
                let failure = Failure::from_verdict(*verdict, &answer);
                answer.discard().await;
                return Err(failure);
            }
        };
        Ok(Begun { answer, brings })
    }

    /// Carries out what the course says about a failure of the only connection; an error when it says to give up.
    pub(super) async fn heal(
        &mut self,
        failure: Failure,
        range: Option<Range<u64>>,
    ) -> Result<Healed, GetError> {
        let redirected = self.url != *self.home();
        let standing = Standing {
            flowing: 0,
            redirected,
            jitter: rand::random(),
        };
        let action = failure
            .trouble()
            .map_or(Action::GiveUp, |t| self.course.on_trouble(t, standing));
        tracing::debug!(?action, "{failure}");
        match action {
            Action::GiveUp => return Err(failure.into_error(&self.url, range, &self.path)),
            Action::Retry(wait) | Action::Fewer(wait) => self.wait(wait, &failure).await?,
            Action::ResolveAgain(wait) => {
                self.url = self.home().clone();
                self.wait(wait, &failure).await?;
            }
            Action::WithoutIfRange => self.if_range = false,
            Action::OneStream => self.one_stream = true,
            Action::StartOver => return Ok(Healed::StartOver),
        }
        Ok(Healed::Again)
    }
}

/// What follows a failure that did not end the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Healed {
    /// Ask again.
    Again,
    /// Discard what came: the resource changed.
    StartOver,
}

/// Whether a verdict says that what an earlier run left is not of this version.
fn is_other(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Changed { .. } | Verdict::PastEnd { .. })
}

/// Header fields that ask for an answer only if the origin has something newer than the file that is there.
pub(super) fn conditions(have: &Remembered) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(etag) = have.etag.as_deref().and_then(|etag| etag.parse().ok()) {
        headers.insert(IF_NONE_MATCH, etag);
    }
    if let Ok(date) = httpdate::fmt_http_date(have.modified).parse() {
        headers.insert(IF_MODIFIED_SINCE, date);
    }
    headers
}
