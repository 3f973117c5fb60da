//! The way of one job, from its URL to its file: which steps, in which order.
//!
//! The first request decides the road: a part leads to [`segmented`](super::segmented), everything at once to
//! [`sequential`](super::sequential). A road may end with the word that the resource changed or that ranges cannot be
//! trusted; then the steps begin again, and the [`Course`] sees to it that they do not do so for ever.

use std::path::PathBuf;
use std::sync::Arc;

use haul_plan::{Course, Version};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::Inner;
use super::finish::Wanted;
use super::first::{Begun, Brings, Question};
use super::hosts::{Host, Permit};
use super::partial::Partial;
use super::place::{Place, look};
use super::segmented::First;
use super::sequential::Body;
use crate::disk::{Remembered, Target};
use crate::error::GetError;
use crate::options::{Existing, Job, Outcome};

/// A job under way.
#[derive(Debug)]
pub(super) struct Run<'a> {
    /// What all jobs share.
    pub(super) engine: &'a Inner,
    /// What is to be done.
    pub(super) job: &'a Job,
    /// Ends it early.
    pub(super) stop: CancellationToken,
    /// Its troubles so far.
    pub(super) course: Course,
    /// Where requests go: the job's URL, or where that was redirected to.
    pub(super) url: Url,
    /// For messages, until the name is known the directory.
    pub(super) path: PathBuf,
    /// Whether ranges were given up.
    pub(super) one_stream: bool,
    /// Whether If-Range may be sent.
    pub(super) if_range: bool,
    /// What the outcome will say.
    pub(super) tally: Tally,
    /// When the job began.
    pub(super) started: Instant,
}

/// Numbers for the outcome, added up over all roads taken.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Bytes over the wire.
    pub(super) fetched: u64,
    /// Bytes kept from an earlier run.
    pub(super) resumed: u64,
    /// Requests that brought bytes.
    pub(super) segments: u64,
    /// Connections settled on.
    pub(super) connections: usize,
}

/// A file on its way: who holds its bytes, and what they must be.
#[derive(Debug)]
pub(super) struct Landing {
    /// The partial file.
    pub(super) partial: Partial,
    /// Which version it is of.
    pub(super) version: Version,
    /// What its digests must be.
    pub(super) wanted: Wanted,
    /// Which host it comes from.
    pub(super) host: Arc<Host>,
}

impl<'a> Run<'a> {
    pub(super) fn new(engine: &'a Inner, job: &'a Job, stop: CancellationToken) -> Self {
        Self {
            engine,
            job,
            stop,
            course: Course::new(engine.options.retry.clone()),
            url: job.url.clone(),
            path: PathBuf::new(),
            one_stream: false,
            if_range: true,
            tally: Tally::default(),
            started: Instant::now(),
        }
    }

    /// Does the job.
    pub(super) async fn run(mut self) -> Result<Outcome, GetError> {
        let place = Place::resolve(&self.job.output)?;
        self.path = place.path().to_owned();
        if let Place::Stream(sink) = place {
            return self.outward(sink).await;
        }
        let mut partial = None;
        loop {
            match self.attempt(&place, &mut partial).await {
                Ok(None) => {}
                Ok(Some(outcome)) => return Ok(outcome),
                Err(error) => {
                    if let Some(partial) = partial.take() {
                        partial.abandon_unless_resumable();
                    }
                    return Err(error);
                }
            }
        }
    }

    /// One pass over the steps; `None` when they must begin again.
    async fn attempt(
        &mut self,
        place: &Place,
        held: &mut Option<Partial>,
    ) -> Result<Option<Outcome>, GetError> {
        let have = self.prepare(place, held).await?;
        if let Some(partial) = held.take_if(|partial| self.is_whole(partial)) {
            return self.finish_resumed(partial).await.map(Some);
        }
        let host = self.engine.hosts.of(&self.url);
        let permit = self.permit(&host).await?;
        let pinned = held
            .as_ref()
            .and_then(|p| p.resumed.as_ref())
            .map(|r| r.header.version());
        let range = self.first_range(held.as_ref());
        let begun = self
            .begin(Question {
                range,
                pinned: pinned.as_ref(),
                have,
            })
            .await?;
        if begun.answer.redirected {
            self.url = begun.answer.url.clone();
        }
        if matches!(begun.brings, Brings::NotModified) {
            begun.answer.discard().await;
            if let Some(partial) = held.take() {
                partial.abandon_unless_resumable();
            }
            return Ok(Some(self.not_modified(place)));
        }
        let partial = self.land(place, held.take(), &begun).await?;
        self.take_road(begun, partial, (host, permit), held).await
    }

    /// Looks at what lies under the names, as far as they are known, and takes hold of what an earlier run left.
    async fn prepare(
        &mut self,
        place: &Place,
        held: &mut Option<Partial>,
    ) -> Result<Option<Remembered>, GetError> {
        let Some(guess) = place.guess(&self.job.url) else {
            return Ok(None);
        };
        let known = matches!(place, Place::Named(_)) || Partial::exists(&guess);
        if known {
            self.claim(&guess)?;
        }
        let existing = self.engine.options.existing;
        let have = if known || existing == Existing::Update {
            look(&guess, existing)?
        } else {
            None
        };
        if held.is_none() && known {
            *held = Some(self.open(guess).await?);
        }
        Ok(have)
    }

    /// Takes a final name, unless another job of this engine has it.
    fn claim(&self, target: &Target) -> Result<(), GetError> {
        self.engine
            .names
            .claim(target.path(), self.job.id, &self.job.url)
    }

    async fn open(&self, target: Target) -> Result<Partial, GetError> {
        let partial = Partial::open(target, &self.job.url, self.engine.options.resume)?;
        if let Some(why) = &partial.discarded {
            let part = partial.target.part();
            self.warn(format!(
                "what an earlier run left in {} is not used: {why}",
                part.display()
            ))
            .await;
        }
        Ok(partial)
    }

    /// Takes hold of the file that the answer is for; what an earlier run left is kept only if it is of this version.
    async fn land(
        &mut self,
        place: &Place,
        held: Option<Partial>,
        begun: &Begun,
    ) -> Result<Partial, GetError> {
        let named = place.named(&self.job.url, &begun.answer.headers);
        let mut partial = match (held, named) {
            (Some(partial), Some(target))
                if partial.target == target || matches!(place, Place::Named(_)) =>
            {
                partial
            }
            (Some(partial), None) => partial,
            (_, Some(target)) => {
                self.claim(&target)?;
                if self.engine.options.existing == Existing::Keep {
                    look(&target, Existing::Keep)?;
                }
                self.open(target).await?
            }
            (None, None) => {
                return Err(GetError::IsDirectory {
                    path: self.path.clone(),
                });
            }
        };
        self.path = partial.target.path().to_owned();
        let fits = match (&begun.brings, &partial.resumed) {
            (Brings::Part { total, version, .. }, Some(resumed)) => {
                resumed.header.length == *total && resumed.header.version().same(version)
            }
            (_, resumed) => resumed.is_none(),
        };
        if !fits {
            self.warn(
                "the origin has another version than an earlier run left bytes of: starting again"
                    .into(),
            )
            .await;
            partial.clear()?;
        }
        Ok(partial)
    }

    async fn take_road(
        &mut self,
        begun: Begun,
        partial: Partial,
        (host, permit): (Arc<Host>, Permit),
        held: &mut Option<Partial>,
    ) -> Result<Option<Outcome>, GetError> {
        let Begun { answer, brings } = begun;
        let wanted = self.wanted(&answer.headers, &brings);
        let mut landing = Landing {
            partial,
            version: Version::default(),
            wanted,
            host,
        };
        match brings {
            Brings::OtherVersion | Brings::NotModified => {
                drop(answer);
                *held = Some(landing.partial);
                Ok(None)
            }
            Brings::Part {
                range,
                total,
                version,
            } => {
                landing.version = version;
                self.name(Some(total), &landing).await;
                let first = First {
                    answer: Some((answer, range)),
                    permit,
                };
                self.segmented(landing, total, first, held).await
            }
            Brings::Whole {
                length,
                version,
                encoding,
            } => {
                landing.version = version;
                self.name(length, &landing).await;
                let body = Body {
                    answer,
                    length,
                    encoding,
                    _permit: permit,
                };
                self.sequential(landing, body, held).await
            }
            Brings::Empty(version) => {
                landing.version = version;
                answer.discard().await;
                self.name(Some(0), &landing).await;
                self.complete(landing, None, 0).await.map(Some)
            }
        }
    }
}
