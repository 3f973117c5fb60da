//! Checkpoints: what was written becomes what is claimed to be on disk.
//!
//! When one is due [`CheckpointSchedule`] says. In this order, always: take the pieces, sync the file, append the records, sync the journal (row B2). It runs on a
//! thread of its own while the download goes on, one at a time; on a real disk the regular syncs are also the
//! write-behind that keeps the last sync short.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::unsynced_ranges::merge_adjacent;
use super::{CheckpointOptions, CheckpointSchedule};
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
    /// A checkpointer that continues this journal.
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

    /// No record of the journal spans two pieces of this length.
    pub(super) fn with_piece_length(self, piece_length: Option<u64>) -> Self {
        Self {
            piece_length,
            ..self
        }
    }

    /// Whether a checkpoint should begin, given the number of bytes that are written and not in the journal.
    pub(super) fn is_due(&self, unclaimed: u64) -> bool {
        let bad = !self.to_discard.is_empty() && self.running.is_empty();
        bad || self.clock.is_due(self.now(), unclaimed)
    }

    /// Bytes in the file turned out to be bad: the next checkpoint removes them from the journal. The caller gives that checkpoint all
    /// pieces written there so far.
    pub(super) fn discard(&mut self, range: Range<u64>) {
        let Range { start, end } = range;
        self.to_discard.push(DiscardedRange { start, end });
    }

    /// Ranges that were removed from the journal, each once: from now on they may be written again.
    pub(super) fn take_discarded(&mut self) -> Vec<Range<u64>> {
        let discarded = std::mem::take(&mut self.discarded);
        let ranges = discarded.into_iter();
        ranges.map(|range| range.start..range.end).collect()
    }

    /// Begins a checkpoint over these pieces on its own thread.
    pub(super) fn begin(&mut self, pieces: Vec<SavedRange>) {
        self.clock.on_started(self.now());
        let (storage, journal) = (Arc::clone(&self.storage), self.journal.take());
        self.being_discarded = std::mem::take(&mut self.to_discard);
        let (discarded, piece_length) = (self.being_discarded.clone(), self.piece_length);
        self.running.spawn_blocking(move || {
            let spans = merge_adjacent(pieces, piece_length);
            checkpoint(&*storage, journal, spans, &discarded)
        });
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Waits for the running checkpoint; pending if there is none. Cancel safe.
    ///
    /// # Errors
    /// The disk's error: the job cannot keep its state. The journal stays closed then, as it was before: a kernel that could not write
    /// pages may forget them, so nothing written later in this run is known to be on disk.
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

    /// The journal, between checkpoints.
    pub(super) fn into_journal(self) -> Option<Journal> {
        self.journal
    }

    /// Waits until none is running, then makes a last one of these pieces.
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

/// Syncs the file, then writes the journal: it must not list bytes that are not on the disk.
fn checkpoint(
    storage: &dyn PartialStorage,
    journal: Option<Journal>,
    spans: Vec<SavedRange>,
    discarded: &[DiscardedRange],
) -> io::Result<Option<Journal>> {
    storage.sync()?;
    let Some(mut journal) = journal else {
        return Ok(None);
    };
    journal.append_and_discard(&spans, discarded)?;
    Ok(Some(journal))
}

#[cfg(test)]
mod tests;
