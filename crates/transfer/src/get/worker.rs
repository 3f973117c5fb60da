//! One worker: claims a segment, fetches it over its connection, writes it, until nothing is left to claim.
//!
//! This is the hot path. Pieces that have arrived are gathered ([`Batch`]) and written with one call; between two writes
//! there is one short lock and one CRC. A worker decides nothing: the plan says what to fetch and how many
//! of the bytes at hand still belong to it, and a failure is handed to the coordinator as it is.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use haul_net::Answer;
use haul_plan::ClaimId;

use super::batch::Batch;
use super::failure::Failure;
use super::shared::{Held, Shared};
use crate::checksum::Crc32c;
use crate::disk::blocking;
use crate::event::{Event, EventSender};
use crate::journal::Span;

/// A worker's surroundings.
#[derive(Debug)]
pub(super) struct Worker {
    /// Which of the job's workers this is, from 0 on.
    pub(super) number: usize,
    /// Which job.
    pub(super) job: u64,
    /// What the job's workers share.
    pub(super) shared: Arc<Shared>,
    /// Where ended segments are told.
    pub(super) events: EventSender,
}

/// How a worker ended.
#[derive(Debug)]
pub(super) struct Exit {
    /// Which worker.
    pub(super) number: usize,
    /// Why.
    pub(super) end: End,
}

/// Why a worker ended.
#[derive(Debug)]
pub(super) enum End {
    /// Nothing is left to claim, or fewer workers are wanted.
    Done,
    /// A request failed; these bytes had been asked for.
    Failed(Failure, Range<u64>),
}

impl Worker {
    /// Works until there is nothing to claim, fewer workers are wanted, or a failure.
    ///
    /// Dropping it at any await loses at most the gathered bytes: what was written is in the plan.
    pub(super) async fn run(self, first: Option<(Answer, Held)>) -> Exit {
        let number = self.number;
        let end = self.work(first).await;
        Exit { number, end }
    }

    async fn work(&self, first: Option<(Answer, Held)>) -> End {
        if let Some((answer, held)) = first
            && let Err(failure) = self.segment(Some(answer), &held).await
        {
            return End::Failed(failure, held.claim.range);
        }
        while !self.shared.retires() {
            let Some(held) = self.shared.claim() else {
                break;
            };
            if let Err(failure) = self.segment(None, &held).await {
                return End::Failed(failure, held.claim.range);
            }
        }
        End::Done
    }

    /// Fetches one claim, as far as it stays ours. Whatever happens, the claim is released.
    async fn segment(&self, answer: Option<Answer>, held: &Held) -> Result<(), Failure> {
        let _release = Release {
            shared: &self.shared,
            id: held.claim.id,
        };
        let started = self.shared.now();
        let fetch = async {
            let answer = match answer {
                Some(answer) => answer,
                None => self.shared.ask(held.claim.range.clone()).await?.0,
            };
            self.shared
                .table()
                .plan
                .first_byte(held.claim.id, self.shared.now());
            self.body(answer, held).await
        };
        let came = tokio::select! {
            came = fetch => came,
            // Another worker has taken the whole rest: this connection was too slow, and goes.
            () = held.cut.cancelled() => return Ok(()),
        };
        let (written, failure) = match came {
            Ok(written) => (written, None),
            Err(Broken { written, failure }) => (written, Some(failure)),
        };
        if written > 0 {
            self.tell(held.claim.range.start, written, started).await;
        }
        failure.map_or(Ok(()), Err)
    }

    /// Reads a body into the file; returns how many bytes got there.
    async fn body(&self, mut answer: Answer, held: &Held) -> Result<u64, Broken> {
        let _flowing = Flowing::new(&self.shared);
        let mut at = held.claim.range.start;
        let mut batch = Batch::new();
        loop {
            let broke = match batch.gather(&mut answer, &self.shared.fetched).await {
                Ok(more) if !more && batch.bytes() == 0 => break,
                Ok(_) => None,
                Err(error) => Some(error),
            };
            let ours = self
                .write(&mut batch, held.claim.id, at)
                .map_err(|failure| Broken {
                    written: at - held.claim.range.start,
                    failure,
                })?;
            at += ours.written;
            if let Some(error) = broke {
                let failure = Failure::Transport {
                    error: Box::new(error),
                    answered: true,
                };
                return Err(Broken {
                    written: at - held.claim.range.start,
                    failure,
                });
            }
            if ours.cut {
                // The rest belongs to another worker. What is left of this answer is not worth reading.
                return Ok(at - held.claim.range.start);
            }
        }
        answer.recycle();
        Ok(at - held.claim.range.start)
    }

    /// Writes what of the batch is still this worker's, and empties it.
    fn write(&self, batch: &mut Batch, id: ClaimId, at: u64) -> Result<Wrote, Failure> {
        let came = batch.bytes();
        let ours = self
            .shared
            .table()
            .plan
            .reserve(id, came, self.shared.now());
        batch.truncate(ours);
        let mut crc = Crc32c::new();
        batch.pieces().iter().for_each(|piece| crc.update(piece));
        if ours > 0 {
            blocking(|| self.shared.storage.write_at(at, batch.pieces()))
                .map_err(Failure::Local)?;
            self.shared.table().wrote(
                id,
                Span {
                    start: at,
                    end: at + ours,
                    crc: crc.finish(),
                },
            );
        }
        batch.clear();
        Ok(Wrote {
            written: ours,
            cut: ours < came,
        })
    }

    /// Tells that a request ended that had brought bytes.
    async fn tell(&self, start: u64, written: u64, started: Duration) {
        self.shared.segments.fetch_add(1, Ordering::Relaxed);
        let event = Event::Segment {
            job: self.job,
            range: start..start + written,
            elapsed: self.shared.now().saturating_sub(started),
            connection: self.number,
        };
        // Nobody listening is no reason to stop.
        let _ = self.events.send(event).await;
    }
}

/// A body that ended early: what got into the file, and why no more did.
struct Broken {
    written: u64,
    failure: Failure,
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self {
            written: 0,
            failure,
        }
    }
}

/// What became of a batch.
struct Wrote {
    /// Bytes that are in the file.
    written: u64,
    /// Whether some of the bytes at hand belonged to another worker by now.
    cut: bool,
}

/// Gives a claim back when its worker is through with it or dropped.
struct Release<'a> {
    shared: &'a Shared,
    id: ClaimId,
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.shared.release(self.id);
    }
}

/// Counts a worker among those in the middle of a body.
struct Flowing<'a>(&'a Shared);

impl<'a> Flowing<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.table().flowing += 1;
        Self(shared)
    }
}

impl Drop for Flowing<'_> {
    fn drop(&mut self) {
        self.0.table().flowing -= 1;
    }
}
