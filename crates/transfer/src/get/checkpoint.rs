//! Checkpoints: what was written becomes what is claimed to be on disk.
//!
//! When one is due [`CheckpointSchedule`] says. In this order, always: take the pieces, sync the file, append the records, sync the journal (row B2). It runs on a
//! thread of its own while the download goes on, one at a time; on a real disk the regular syncs are also the
//! write-behind that keeps the last sync short.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use haul_plan::{CheckpointOptions, CheckpointSchedule};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::unsynced_ranges::merge_adjacent;
use crate::disk::PartialStorage;
use crate::journal::{DiscardedRange, Journal, SavedRange};

/// Keeps a job's journal.
#[derive(Debug)]
pub(super) struct Checkpointer {
    /// The file whose bytes are claimed.
    storage: Arc<dyn PartialStorage>,
    /// The journal; with a checkpoint while that runs. `None` when no state shall be left (`--no-resume`).
    journal: Option<Journal>,
    /// The checkpoint that runs.
    running: JoinSet<io::Result<Option<Journal>>>,
    /// Where records are cut.
    piece_length: Option<u64>,
    /// Ranges that the next checkpoint takes back.
    to_discard: Vec<DiscardedRange>,
    /// Ranges that the one which runs takes back.
    being_discarded: Vec<DiscardedRange>,
    /// Ranges that nothing claims any more.
    discarded: Vec<DiscardedRange>,
    /// Says when one is due.
    clock: CheckpointSchedule,
    /// The moment that the clock's times count from.
    epoch: Instant,
}

impl Checkpointer {
    /// A keeper that goes on with this journal.
    pub(super) fn new(
        storage: Arc<dyn PartialStorage>,
        journal: Option<Journal>,
        options: CheckpointOptions,
    ) -> Self {
        Self {
            storage,
            journal,
            running: JoinSet::new(),
            piece_length: None,
            to_discard: Vec::new(),
            being_discarded: Vec::new(),
            discarded: Vec::new(),
            clock: CheckpointSchedule::new(options),
            epoch: Instant::now(),
        }
    }

    /// The same with records that end where pieces of so many bytes do.
    pub(super) fn with_piece_length(self, cut: Option<u64>) -> Self {
        Self {
            piece_length: cut,
            ..self
        }
    }

    /// Whether a checkpoint should begin now that so many bytes are written and not claimed.
    pub(super) fn is_due(&self, unclaimed: u64) -> bool {
        let bad = !self.to_discard.is_empty() && self.running.is_empty();
        bad || self.clock.is_due(self.now(), unclaimed)
    }

    /// Bytes in the file turned out to be bad: the next checkpoint takes back what is claimed of them. Whoever calls this hands
    /// that checkpoint all pieces written there so far.
    pub(super) fn discard(&mut self, range: Range<u64>) {
        let Range { start, end } = range;
        self.to_discard.push(DiscardedRange { start, end });
    }

    /// Ranges that were taken back, each once: from now on they may be written anew.
    pub(super) fn take_discarded(&mut self) -> Vec<Range<u64>> {
        let gone = std::mem::take(&mut self.discarded);
        gone.into_iter().map(|gone| gone.start..gone.end).collect()
    }

    /// Begins a checkpoint over these pieces on its own thread.
    pub(super) fn begin(&mut self, pieces: Vec<SavedRange>) {
        self.clock.on_started(self.now());
        let (storage, journal) = (Arc::clone(&self.storage), self.journal.take());
        self.being_discarded = std::mem::take(&mut self.to_discard);
        let (gone, cut) = (self.being_discarded.clone(), self.piece_length);
        self.running.spawn_blocking(move || {
            checkpoint(&*storage, journal, merge_adjacent(pieces, cut), &gone)
        });
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Waits for the checkpoint that runs; never returns when none does. Cancel safe.
    ///
    /// # Errors
    /// The error of the disk: the job cannot keep its state. The journal is closed for good then, with what was claimed before:
    /// a kernel that could not write pages may forget them, so that nothing later in this run can be known to be on disk.
    pub(super) async fn wait(&mut self) -> io::Result<()> {
        match self.running.join_next().await {
            Some(Ok(journal)) => {
                self.clock.on_finished(self.now());
                self.journal = journal?;
                self.discarded.append(&mut self.being_discarded);
                Ok(())
            }
            Some(Err(e)) => Err(io::Error::other(e)),
            None => std::future::pending().await,
        }
    }

    /// Waits until none runs, then makes a last one over these pieces.
    ///
    /// # Errors
    /// The error of the disk.
    pub(super) async fn close(&mut self, pieces: Vec<SavedRange>) -> io::Result<()> {
        while !self.running.is_empty() {
            self.wait().await?;
        }
        if !pieces.is_empty() || !self.to_discard.is_empty() {
            self.begin(pieces);
            self.wait().await?;
        }
        Ok(())
    }
}

/// The steps, in the order that makes them safe.
fn checkpoint(
    storage: &dyn PartialStorage,
    journal: Option<Journal>,
    spans: Vec<SavedRange>,
    gone: &[DiscardedRange],
) -> io::Result<Option<Journal>> {
    storage.sync()?;
    let Some(mut journal) = journal else {
        return Ok(None);
    };
    journal.append_and_discard(&spans, gone)?;
    Ok(Some(journal))
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
