//! The commit thread keeps the order of writes: first the bytes become durable, then the names, then the rows.
//!
//! Files come to it unnamed. A [sink](super::sink) collects a group of them, makes the group durable with one sync and
//! puts the files in place. Only then are their jobs done: counted, published, and recorded in the manifest. So a row
//! never tells of a file that a power cut could take, and a power cut costs at most one group of files.

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

/// Messages that are received at once.
const MAX_RECEIVE: usize = 64;

/// A group does not wait for more files when none has come for this long. The first number is the least. The second is
/// a multiple of the last commit's duration, so that single files do not keep a slow disk busy.
const QUIET: (Duration, u32) = (Duration::from_millis(50), 8);

/// A message to the commit thread.
#[derive(Debug)]
pub(super) enum CommitMessage {
    /// A file with verified content. It is neither durable nor visible yet.
    File(Box<VerifiedFile>),
    /// A job that ended without a file to commit.
    Ended(Box<EndedJob>),
}

/// The outcome of a job.
#[derive(Debug)]
pub(super) struct EndedJob {
    pub(super) row: ManifestRow,
    /// Why the job failed, if it did.
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

    /// A job that ended without an error.
    pub(super) fn succeeded(row: ManifestRow) -> Self {
        Self { row, error: None }
    }
}

impl CommitMessage {
    /// A job that failed.
    pub(super) fn failed(job: &BatchJob, error: GetError) -> Self {
        Self::Ended(Box::new(EndedJob::failed(job, error)))
    }

    /// A job that ended without an error and without a file to commit.
    pub(super) fn ended(row: ManifestRow) -> Self {
        Self::Ended(Box::new(EndedJob::succeeded(row)))
    }
}

/// An error and its sources in one line.
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

/// Commits groups of files.
pub(super) struct CommitThread {
    outcomes: OutcomeRecorder,
    /// The size of groups.
    options: CommitGroupOptions,
    sink: Box<dyn BatchSink>,
    /// When the last file came.
    last_file_at: Instant,
    /// How long a group waits after the last file.
    quiet_period: Duration,
}

impl CommitThread {
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

    /// Runs until all senders are dropped.
    pub(super) fn run(
        mut self,
        runtime: &Handle,
        mut messages: mpsc::Receiver<Vec<CommitMessage>>,
    ) {
        let mut received = Vec::with_capacity(MAX_RECEIVE);
        let mut linger_deadline = Instant::now();
        loop {
            let idle = self.sink.pending().0 == 0 && self.outcomes.has_no_pending_rows();
            let count = runtime.block_on(async {
                let count = messages.recv_many(&mut received, MAX_RECEIVE);
                if idle {
                    return Some(count.await);
                }
                timeout_at(self.commit_deadline(linger_deadline), count)
                    .await
                    .ok()
            });
            if idle {
                linger_deadline = Instant::now() + self.options.linger;
            }
            for message in received.drain(..).flatten() {
                self.receive(message);
                if self.is_group_full() {
                    self.commit();
                    linger_deadline = Instant::now() + self.options.linger;
                }
            }
            let ended = count == Some(0);
            if ended || Instant::now() >= self.commit_deadline(linger_deadline) {
                self.commit();
                linger_deadline = Instant::now() + self.options.linger;
            }
            if ended {
                return self.finish();
            }
        }
    }

    /// When the group is committed: at `linger_deadline`, or earlier if no more files come.
    fn commit_deadline(&self, linger_deadline: Instant) -> Instant {
        match self.sink.pending().0 {
            0 => linger_deadline,
            _ => linger_deadline.min(self.last_file_at + self.quiet_period),
        }
    }

    /// Whether the group is full, or too many jobs have failed to wait for more.
    fn is_group_full(&self) -> bool {
        let (files, bytes) = self.sink.pending();
        let most = self.options.max_files;
        let enough = files >= most || bytes >= self.options.max_bytes;
        enough || self.outcomes.pending_rows() >= most || self.outcomes.will_exceed_error_limit()
    }

    fn receive(&mut self, message: CommitMessage) {
        match message {
            CommitMessage::File(written) => {
                self.last_file_at = Instant::now();
                if let Err(ended) = self.sink.add(written) {
                    self.outcomes.record(*ended);
                }
            }
            CommitMessage::Ended(ended) => self.outcomes.record(*ended),
        }
    }

    /// Finishes the archive, unless the batch was stopped.
    fn finish(self) {
        if !self.outcomes.is_stopped()
            && let Err(error) = self.sink.finish(self.outcomes.nothing_succeeded())
        {
            self.outcomes.halt(&error);
        }
    }

    /// Commits the group, then writes its rows.
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
