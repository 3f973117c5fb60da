//! The commit thread keeps the order of writes: first the bytes become durable, then the names, then the rows.
//!
//! Files come to it unnamed. A [`BatchSink`] collects a group of them, makes the group durable with one sync and puts
//! the files in place: into [directories](directory), into an [archive](tar) or into the caller's [memory]. Only then are their jobs done: counted,
//! published, and recorded in the manifest. So a row never records a file that a power cut could take, and a power cut
//! costs at most one group of files.

mod directory;
mod memory;
mod tar;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, timeout_at};

use super::job::BatchJob;
use super::options::CommitGroupOptions;
use super::outcome::{JobOutcome, OutcomeRecorder};
use crate::error::GetError;
use crate::get::UnnamedBody;
use crate::manifest::ManifestRow;
pub(super) use directory::DirectorySink;
pub(super) use memory::MemorySink;
pub(super) use tar::{TarWriter, remove_stale_staged, remove_wrong_staged};

/// Messages that are received at once.
const MAX_RECEIVE: usize = 64;

/// A group does not wait for more files when none has come for this long, at least.
const MIN_QUIET: Duration = Duration::from_millis(50);

/// It waits for this multiple of the last commit's duration, so that single files do not keep a slow disk busy.
const QUIET_PER_COMMIT: u32 = 8;

/// A message to the commit thread.
#[derive(Debug)]
pub(super) enum CommitMessage {
    /// A file with verified content. It is neither durable nor visible yet.
    File(Box<VerifiedFile>, FetchedFileContent),
    /// The outcome of a job without a file to commit.
    Outcome(Box<JobOutcome>),
    /// The row of a job that an earlier run has done.
    DoneEarlier(Box<ManifestRow>),
}

impl From<JobOutcome> for CommitMessage {
    fn from(outcome: JobOutcome) -> Self {
        Self::Outcome(Box::new(outcome))
    }
}

#[derive(Debug)]
pub(super) struct VerifiedFile {
    pub(super) job: Box<BatchJob>,
    /// Its row, to be written when the file is durable.
    pub(super) row: ManifestRow,
    /// When it was last modified, as the origin says it.
    pub(super) last_modified: Option<String>,
    /// The permit for an open file, returned when the file is in place.
    pub(super) _open_permit: Option<OwnedSemaphorePermit>,
}

/// Where the bytes of a file are.
#[derive(Debug)]
pub(super) enum FetchedFileContent {
    /// In memory, or in an unnamed file.
    Unnamed(UnnamedBody),
    /// In a file of the staging directory, to be removed when its bytes are in their place.
    Staged(PathBuf),
}

/// A place for files.
pub(super) trait BatchSink: Send {
    /// Adds a file to the current group.
    ///
    /// # Errors
    /// The outcome of the job, if the file cannot be added.
    fn add(
        &mut self,
        file: Box<VerifiedFile>,
        content: FetchedFileContent,
    ) -> Result<(), Box<JobOutcome>>;

    /// Makes the group durable and returns the outcomes of its jobs.
    fn commit(&mut self) -> Vec<JobOutcome>;

    /// The rows of all committed groups are durable.
    ///
    /// # Errors
    /// When nothing more can be added.
    fn rows_written(&mut self) -> Result<(), GetError> {
        Ok(())
    }

    /// Ends the batch. The argument says whether jobs failed and none succeeded.
    ///
    /// # Errors
    /// When the last files are not in place.
    fn finish(self: Box<Self>, _nothing_succeeded: bool) -> Result<(), GetError> {
        Ok(())
    }
}

pub(super) struct CommitThread {
    outcomes: OutcomeRecorder,
    /// The size of groups.
    options: CommitGroupOptions,
    sink: Box<dyn BatchSink>,
    /// Files in the current group, and their bytes.
    group_files: usize,
    group_bytes: u64,
    /// When the last file arrived.
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
            group_files: 0,
            group_bytes: 0,
            last_file_at: Instant::now(),
            quiet_period: MIN_QUIET,
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
            let idle = self.group_files == 0 && self.outcomes.has_no_pending_rows();
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
        match self.group_files {
            0 => linger_deadline,
            _ => linger_deadline.min(self.last_file_at + self.quiet_period),
        }
    }

    /// Whether the group is full, or too many jobs have failed to wait for more.
    fn is_group_full(&self) -> bool {
        let max_files = self.options.max_files;
        self.group_files >= max_files
            || self.group_bytes >= self.options.max_bytes
            || self.outcomes.pending_rows() >= max_files
            || self.outcomes.will_exceed_error_limit()
    }

    fn receive(&mut self, message: CommitMessage) {
        match message {
            CommitMessage::File(file, content) => {
                self.last_file_at = Instant::now();
                let bytes = file.row.bytes;
                match self.sink.add(file, content) {
                    Ok(()) => {
                        self.group_files += 1;
                        self.group_bytes += bytes;
                    }
                    Err(outcome) => self.outcomes.record(*outcome),
                }
            }
            CommitMessage::Outcome(outcome) => self.outcomes.record(*outcome),
            CommitMessage::DoneEarlier(row) => self.outcomes.publish_done_earlier(*row),
        }
    }

    /// Finishes the archive, unless the batch was stopped.
    fn finish(mut self) {
        if self.outcomes.is_stopped() {
            return;
        }
        self.outcomes.publish_waiting_repeats();
        if let Err(error) = self.sink.finish(self.outcomes.nothing_succeeded()) {
            self.outcomes.halt(&error);
        }
    }

    /// Commits the group, then writes its rows.
    fn commit(&mut self) {
        let begun = Instant::now();
        (self.group_files, self.group_bytes) = (0, 0);
        for outcome in self.sink.commit() {
            self.outcomes.record(outcome);
        }
        self.quiet_period = MIN_QUIET.max(QUIET_PER_COMMIT * begun.elapsed());
        if !self.outcomes.write_rows() {
            return;
        }
        if let Err(error) = self.sink.rows_written() {
            self.outcomes.halt(&error);
        }
    }
}

/// A copy of an error: one failed sync is the error of many files.
fn copy_error(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
