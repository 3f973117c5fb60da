//! The thread that keeps the order of things: bytes durable, then names, then rows.
//!
//! Files come without names. A [sink](super::sink) gathers a group of them, makes it durable at once, and gives it its place; only then are
//! they *done*: counted, told, and written down. So a row never stands for what a power cut could take, and what one costs is a
//! group of files.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::counters::OutcomeRecorder;
use super::job::BatchJob;
use super::options::CommitGroupOptions;
use super::sink::{BatchSink, VerifiedFile};
use crate::error::GetError;
use crate::manifest::{ManifestRow, RowError, RowState};

/// Hand-overs that are taken at once.
const ARMFUL: usize = 64;

/// When no file has come for this long, a group is not waited with: at least; and so many times what the last one took, so that a slow
/// disk is not kept busy by files that come one by one.
const QUIET: (Duration, u32) = (Duration::from_millis(50), 8);

/// What the clerk is told.
#[derive(Debug)]
pub(super) enum CommitMessage {
    /// A file, written and right, not durable and not visible.
    File(Box<VerifiedFile>),
    /// A job that ended without a file for the clerk to see to.
    Ended(Box<EndedJob>),
}

/// A job that ended, and the row to write.
#[derive(Debug)]
pub(super) struct EndedJob {
    /// The row.
    pub(super) row: ManifestRow,
    /// Why it failed, if it did.
    pub(super) error: Option<GetError>,
}

impl EndedJob {
    /// A job that failed.
    pub(super) fn failed(job: &BatchJob, error: GetError) -> Self {
        let mut row = job.row(RowState::Failed);
        row.error = Some(RowError {
            class: error.class(),
            text: error_chain(&error),
        });
        if let GetError::Status { status, .. } | GetError::Unauthorized { status, .. } = &error {
            row.status = Some(status.as_u16());
        }
        let error = Some(error);
        Self { row, error }
    }

    /// A job that ended as its row says.
    pub(super) fn succeeded(row: ManifestRow) -> Self {
        Self { row, error: None }
    }
}

impl CommitMessage {
    /// A job that failed.
    pub(super) fn failed(job: &BatchJob, error: GetError) -> Self {
        Self::Ended(Box::new(EndedJob::failed(job, error)))
    }

    /// A job that ended well without a file for the clerk.
    pub(super) fn ended(row: ManifestRow) -> Self {
        Self::Ended(Box::new(EndedJob::succeeded(row)))
    }
}

/// An error and what it came from, in one line.
pub(super) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let inner = source.to_string();
        if !text.contains(&inner) {
            text.push_str(": ");
            text.push_str(&inner);
        }
        next = source.source();
    }
    text
}

/// The clerk.
pub(super) struct CommitThread {
    /// Counts, tells and writes down.
    outcomes: OutcomeRecorder,
    /// How large groups are.
    options: CommitGroupOptions,
    /// Where files go.
    sink: Box<dyn BatchSink>,
    /// When the last file came.
    last_file_at: Instant,
    /// When none has come for this long, the group is not waited with.
    quiet_period: Duration,
}

impl CommitThread {
    /// A clerk with empty hands.
    pub(super) fn new(
        outcomes: OutcomeRecorder,
        options: CommitGroupOptions,
        sink: Box<dyn BatchSink>,
    ) -> Self {
        Self {
            outcomes,
            options,
            sink,
            last_file_at: Instant::now(),
            quiet_period: QUIET.0,
        }
    }

    /// Works until nobody sends any more.
    pub(super) fn run(
        mut self,
        runtime: &Handle,
        mut deliveries: mpsc::Receiver<Vec<CommitMessage>>,
    ) {
        let mut armful = Vec::with_capacity(ARMFUL);
        let mut due = Instant::now();
        loop {
            let idle = self.sink.pending().0 == 0 && self.outcomes.has_no_pending_rows();
            let came = runtime.block_on(async {
                let came = deliveries.recv_many(&mut armful, ARMFUL);
                if idle {
                    return Some(came.await);
                }
                timeout_at(self.commit_deadline(due), came).await.ok()
            });
            if idle {
                due = Instant::now() + self.options.linger;
            }
            for delivery in armful.drain(..).flatten() {
                self.receive(delivery);
                if self.is_group_full() {
                    self.commit();
                    due = Instant::now() + self.options.linger;
                }
            }
            let ended = came == Some(0);
            if ended || Instant::now() >= self.commit_deadline(due) {
                self.commit();
                due = Instant::now() + self.options.linger;
            }
            if ended {
                return self.finish();
            }
        }
    }

    /// When the group is made durable that is to be so `linger` after its first file: sooner, if no other comes.
    fn commit_deadline(&self, linger: Instant) -> Instant {
        match self.sink.pending().0 {
            0 => linger,
            _ => linger.min(self.last_file_at + self.quiet_period),
        }
    }

    /// Whether enough has come for a group, or too much has failed for another.
    fn is_group_full(&self) -> bool {
        let (files, bytes) = self.sink.pending();
        let most = self.options.max_files;
        let enough = files >= most || bytes >= self.options.max_bytes;
        enough || self.outcomes.pending_rows() >= most || self.outcomes.will_exceed_error_limit()
    }

    fn receive(&mut self, delivery: CommitMessage) {
        match delivery {
            CommitMessage::File(written) => {
                self.last_file_at = Instant::now();
                if let Err(ended) = self.sink.add(written) {
                    self.outcomes.record(*ended);
                }
            }
            CommitMessage::Ended(ended) => self.outcomes.record(*ended),
        }
    }

    /// The end of a batch that was not stopped is the end of its archive.
    fn finish(self) {
        if !self.outcomes.is_stopped()
            && let Err(error) = self.sink.finish(self.outcomes.nothing_succeeded())
        {
            self.outcomes.halt(&error);
        }
    }

    /// Makes the group durable, then writes its rows.
    fn commit(&mut self) {
        let begun = Instant::now();
        for ended in self.sink.commit() {
            self.outcomes.record(ended);
        }
        self.quiet_period = QUIET.0.max(QUIET.1 * begun.elapsed());
        if !self.outcomes.write_rows() {
            return;
        }
        if let Err(error) = self.sink.rows_written() {
            self.outcomes.halt(&error);
        }
    }
}
