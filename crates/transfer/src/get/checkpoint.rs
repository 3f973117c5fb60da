//! Checkpoints: what was written becomes what is claimed to be on disk.
//!
//! In this order, always: take the pieces, sync the file, append the records, sync the journal (row B2). It runs on a
//! thread of its own while the download goes on, one at a time; on a real disk the regular syncs are also the
//! write-behind that keeps the last sync short.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::ledger::joined;
use crate::disk::Storage;
use crate::journal::{Header, Journal, Span};

/// Keeps a job's journal.
#[derive(Debug)]
pub(super) struct Checkpointer {
    /// The file whose bytes are claimed.
    storage: Arc<dyn Storage>,
    /// The journal, once there is one; with a checkpoint while that runs.
    journal: Option<Journal>,
    /// How to make one: where, and what its first line says. `None` when no state shall be left (`--no-resume`).
    plan: Option<(PathBuf, Header)>,
    /// The checkpoint that runs.
    running: JoinSet<io::Result<Option<Journal>>>,
    /// Least time between two.
    interval: Duration,
    /// When the last one began.
    last: Instant,
}

impl Checkpointer {
    /// A keeper that makes its journal with the first checkpoint: a job shorter than that leaves no trace.
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        plan: Option<(PathBuf, Header)>,
        interval: Duration,
    ) -> Self {
        Self {
            storage,
            journal: None,
            plan,
            running: JoinSet::new(),
            interval,
            last: Instant::now(),
        }
    }

    /// Goes on with the journal of an earlier run.
    pub(super) fn with_journal(mut self, journal: Option<Journal>) -> Self {
        self.journal = journal;
        self
    }

    /// Whether a checkpoint should begin now.
    pub(super) fn is_due(&self) -> bool {
        self.running.is_empty() && self.last.elapsed() >= self.interval
    }

    /// Begins a checkpoint over these pieces on its own thread.
    pub(super) fn begin(&mut self, pieces: Vec<Span>) {
        self.last = Instant::now();
        let (storage, journal, plan) = (
            Arc::clone(&self.storage),
            self.journal.take(),
            self.plan.clone(),
        );
        self.running
            .spawn_blocking(move || checkpoint(&*storage, journal, plan, pieces));
    }

    /// Waits for the checkpoint that runs; never returns when none does. Cancel safe.
    ///
    /// # Errors
    /// What the disk said: the job cannot keep its state.
    pub(super) async fn ended(&mut self) -> io::Result<()> {
        match self.running.join_next().await {
            Some(Ok(journal)) => {
                self.journal = journal?;
                Ok(())
            }
            Some(Err(e)) => Err(io::Error::other(e)),
            None => std::future::pending().await,
        }
    }

    /// Waits until none runs, then makes a last one over these pieces.
    ///
    /// # Errors
    /// What the disk said.
    pub(super) async fn close(&mut self, pieces: Vec<Span>) -> io::Result<()> {
        while !self.running.is_empty() {
            self.ended().await?;
        }
        if !pieces.is_empty() {
            self.begin(pieces);
            self.ended().await?;
        }
        Ok(())
    }
}

/// The steps, in the order that makes them safe.
fn checkpoint(
    storage: &dyn Storage,
    journal: Option<Journal>,
    plan: Option<(PathBuf, Header)>,
    pieces: Vec<Span>,
) -> io::Result<Option<Journal>> {
    storage.sync()?;
    let Some((path, header)) = plan else {
        return Ok(None);
    };
    let mut journal = match journal {
        Some(journal) => journal,
        None => Journal::create(&path, &header)?,
    };
    journal.append(&joined(pieces))?;
    Ok(Some(journal))
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
