//! The way of one job, from its URL to its file: which steps, in which order.
//!
//! The first request decides the road: a part leads to [`segmented`](super::segmented), everything at once to
//! [`sequential`](super::sequential). A road may end with the word that the resource changed or that ranges cannot be
//! trusted; then the steps begin again, and the [`Course`] sees to it that they do not do so for ever.

use std::path::PathBuf;

use haul_plan::{Course, Version};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::Inner;
use super::first::{Begun, Brings, Question};
use super::hosts::Permit;
use super::landing::Landing;
use super::partial::Partial;
use super::place::Place;
use super::segmented::First;
use super::sequential::Body;
use crate::disk::{Target, blocking};
use crate::error::GetError;
use crate::options::{Existing, Job, Outcome, Output};

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
        let place = Place::resolve(&self.job.output, self.engine.options.existing)?;
        self.path = place.path().to_owned();
        if let Place::Stream(sink) = place {
            if let Output::File(path) = &self.job.output {
                self.path = path.clone();
            }
            return self.outward(sink).await;
        }
        let done = self.inward(&place).await;
        done.map_err(|error| error.kept(blocking(|| self.is_kept(&place))))
    }

    /// Downloads into a file.
    async fn inward(&mut self, place: &Place) -> Result<Outcome, GetError> {
        let mut partial = None;
        loop {
            if let Some(outcome) = self.attempt(place, &mut partial).await? {
                return Ok(outcome);
            }
        }
    }

    /// Whether the same command would go on from where this one ended: asked of the disk, as that command will.
    fn is_kept(&self, place: &Place) -> bool {
        let named = self.path != place.path() || matches!(place, Place::Named(_));
        let target = if named {
            Some(Target::new(self.path.clone()))
        } else {
            place.guess(&self.job.url)
        };
        self.engine.options.resume
            && target.is_some_and(|target| Partial::is_kept(&target, &self.job.url))
    }

    /// One pass over the steps; `None` when they must begin again.
    async fn attempt(
        &mut self,
        place: &Place,
        held: &mut Option<Partial>,
    ) -> Result<Option<Outcome>, GetError> {
        let have = self.prepare(place, held).await?;
        // To replace a file, the version must be one that the origin has now; to add one it is enough that it had it.
        let adds = self.engine.options.existing == Existing::Keep;
        if let Some(partial) = held.take_if(|partial| adds && self.is_whole(partial)) {
            return self.finish_resumed(partial).await.map(Some);
        }
        let permit = self.permit().await?;
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
        let Some(permit) = self.admitted(permit) else {
            // The host that delivers has no room for us: its answer is let go, and asked for again when there is.
            return Ok(None);
        };
        if matches!(begun.brings, Brings::NotModified) {
            begun.answer.discard().await;
            return self.not_modified(place).await.map(Some);
        }
        let partial = self.land(place, held.take(), &begun).await?;
        self.take_road(begun, partial, permit, held).await
    }

    async fn take_road(
        &mut self,
        begun: Begun,
        partial: Partial,
        permit: Permit,
        held: &mut Option<Partial>,
    ) -> Result<Option<Outcome>, GetError> {
        let Begun { answer, brings } = begun;
        let wanted = self.wanted(&answer.headers, &brings);
        let mut landing = Landing {
            partial,
            version: Version::default(),
            wanted,
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
                let first = First {
                    answer: Some((answer, range)),
                    permit,
                };
                if self.may_join(&landing.version, &landing.wanted) {
                    self.name(Some(total), &landing).await;
                    Box::pin(self.segmented(landing, total, first, held)).await
                } else {
                    self.unpinned(landing, total, first, held).await
                }
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
                Box::pin(self.sequential(landing, body, held)).await
            }
            Brings::Empty(version) => {
                landing.version = version;
                answer.discard().await;
                self.name(Some(0), &landing).await;
                self.complete(&mut landing, None, 0).await.map(Some)
            }
        }
    }
}
