//! One attempt of a job: its request, and what follows from the response.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_net::ConnectObserver;
use tokio::time::Instant;

use super::WorkerPool;
use crate::batch::commit::{CommitMessage, FetchedFileContent, VerifiedFile, remove_wrong_staged};
use crate::batch::dispatch::{JobRunResult, JobTicket};
use crate::batch::existing_file::verify_existing;
use crate::batch::job::{BatchJob, BatchJobStrategy};
use crate::batch::outcome::JobOutcome;
use crate::batch::write_buffer::FetchedFile;
use crate::disk::blocking;
use crate::error::GetError;
use crate::get::{
    AttemptError, DownloadStart, HandedOverResponse, ResponseInfo, SingleResponseFetch,
    SingleResponseOutcome, WholeFile, download,
};
use crate::manifest::{JobRowState, ManifestRow};
use crate::options::DownloadOutcome;

pub(super) struct Attempt<'a> {
    pub(super) pool: &'a Arc<WorkerPool>,
    /// The dispatcher's ticket for this attempt.
    pub(super) ticket: JobTicket,
    pub(super) job: Box<BatchJob>,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(pool: &'a Arc<WorkerPool>, ticket: JobTicket, job: Box<BatchJob>) -> Self {
        Self { pool, ticket, job }
    }

    /// Makes the attempt. If the batch is stopped meanwhile, the job has no outcome and the next run begins it again.
    pub(super) async fn run(mut self) {
        let (pool, job) = (self.pool, &mut self.job);
        job.first_attempt_at.get_or_insert_with(Instant::now);
        let _running = pool
            .running_jobs
            .begin(job.download.id, job.url(), self.ticket);
        let strategy = pool.unnamed_files.strategy_of(job);
        if !matches!(strategy, BatchJobStrategy::VerifyExisting) {
            job.attempts += 1;
        }
        match strategy {
            BatchJobStrategy::SingleResponse { ranges } => self.fetch_single_response(ranges).await,
            BatchJobStrategy::PartialFile => self.download_partial_file(None).await,
            BatchJobStrategy::VerifyExisting => self.verify_existing().await,
        }
    }

    async fn fetch_single_response(mut self, send_range: bool) {
        let (pool, ticket, job) = (self.pool, self.ticket, &self.job);
        let expected_content = &pool.engine.options().expected_content;
        let monitor = pool.engine.monitor(job.first_attempt_at);
        let on_connected = |round_trip| {
            if pool.queue.on_connected(ticket, round_trip) {
                pool.start_jobs();
            }
        };
        let fetch = SingleResponseFetch {
            engine: &pool.engine,
            job: &job.download,
            url: job.url(),
            stored_validators: job.stored_validators.as_ref(),
            expected_content: job.content_expectation(expected_content),
            send_range,
            has_other_sources: job.has_other_sources(),
            path: &job.path,
            written_path: job.written_path(),
            min_time_limit: pool.body_timeout,
            memory_budget: &pool.memory_budget,
            fetched_bytes: pool.counters.fetched_bytes(),
            monitor: &monitor,
            on_connected: ConnectObserver(&on_connected),
        };
        let fetched = tokio::select! {
            biased;
            limit = monitor.time_over() => Err(AttemptError::limit_exceeded(limit, None, job.url())),
            // The job no longer waits for a connection, so others may.
            fetched = fetch.fetch(|response| {
                if pool.queue.on_response_head(ticket, response.max_streams) {
                    pool.start_jobs();
                }
            }) => fetched,
            () = pool.stop.cancelled() => return,
        };
        if fetched.is_ok() {
            self.on_usable_response();
        }
        match fetched {
            Ok(SingleResponseOutcome::Whole(file)) => self.on_whole_file(file).await,
            Ok(SingleResponseOutcome::NotModified(response)) => {
                self.on_not_modified(&response).await;
            }
            Ok(SingleResponseOutcome::Large(response)) => {
                self.job.status = Some(response.status());
                self.download_partial_file(Some(*response)).await;
            }
            Err(error) => self.on_failure(*error).await,
        }
    }

    /// Puts the file into the write buffer, and writes the buffer if it is full.
    async fn on_whole_file(self, file: Box<WholeFile>) {
        self.end(file.bytes, JobRunResult::Done);
        let Self { pool, job, .. } = self;
        let types = &pool.engine.options().expected_content.media_types;
        if types.is_empty() && file.is_page(job.url(), &job.path) {
            pool.counters.count_page();
        }
        let full_buffer = pool.write_buffer.push(FetchedFile { job, file });
        if !full_buffer.is_empty() {
            // Writing takes a while. This worker's place goes to another.
            pool.start_jobs();
            pool.flush(full_buffer).await;
        }
    }

    /// A 304 need not repeat the tag, so the row has the old one, for the next `--update`.
    async fn on_not_modified(self, response: &ResponseInfo) {
        self.end(0, JobRunResult::Done);
        let row = ManifestRow {
            // As in the row of the download: the next run compares it with the file.
            bytes: self.job.path.metadata().map_or(0, |found| found.len()),
            etag: self.job.stored_tag().map(str::to_owned),
            ..self.job.row_of_response(JobRowState::Skipped, response)
        };
        self.commit(JobOutcome::success(row)).await;
    }

    async fn verify_existing(self) {
        let outcome = blocking(|| verify_existing(&self.job, &self.pool.stop));
        self.end(0, JobRunResult::Done);
        if let Some(outcome) = outcome {
            self.commit(outcome).await;
        }
    }

    /// Downloads through a partial file, beginning with the response if there is one.
    async fn download_partial_file(self, response: Option<HandedOverResponse>) {
        let pool = self.pool;
        // Without a response it is unknown whether the host sends one.
        if response.is_some() {
            pool.on_large_file(self.ticket);
        }
        let paths = self.job.paths();
        let directory = paths.directory();
        let result = match blocking(|| std::fs::create_dir_all(directory)) {
            Ok(()) => {
                let start = DownloadStart {
                    source: self.job.source(),
                    failed_sources: self.job.failed_sources(),
                    response,
                    first_request_at: self.job.first_attempt_at,
                    known_tag: self.job.stored_tag(),
                    ..DownloadStart::default()
                };
                let stop = pool.stop.clone();
                download(&pool.engine, &self.job.download, start, stop).await
            }
            Err(error) => Err(GetError::io("create", directory.to_owned(), error)),
        };
        match result {
            Ok(outcome) => {
                self.end(outcome.fetched, JobRunResult::Done);
                let fetched_bytes = pool.counters.fetched_bytes();
                fetched_bytes.fetch_add(outcome.fetched, Ordering::Relaxed);
                self.on_partial_file_done(outcome).await;
            }
            Err(GetError::Interrupted { .. }) => {}
            Err(mut error) => {
                let cause = match &mut error {
                    GetError::AllSourcesFailed { last, .. } => last,
                    error => error,
                };
                remove_wrong_staged(&self.job, cause);
                self.end(0, self.host_report(&error));
                let outcome = JobOutcome::failed(&self.job, error);
                self.commit(outcome).await;
            }
        }
    }

    /// The file has its name, or is staged for the archive.
    async fn on_partial_file_done(self, outcome: DownloadOutcome) {
        let Self { pool, job, .. } = self;
        let state = if outcome.not_modified {
            JobRowState::Skipped
        } else {
            JobRowState::Done
        };
        let row = ManifestRow {
            bytes: outcome.bytes,
            checksums: outcome.checksums,
            etag: match outcome.etag {
                None if outcome.not_modified => job.stored_tag().map(str::to_owned),
                etag => etag,
            },
            attempts: job.attempts + outcome.retries,
            ..job.row(state)
        };
        let message = match job.staging_path.clone() {
            None => JobOutcome::success(row).into(),
            Some(staging_path) => {
                let file = VerifiedFile {
                    job,
                    row,
                    last_modified: None,
                    _open_permit: None,
                };
                CommitMessage::File(Box::new(file), FetchedFileContent::Staged(staging_path))
            }
        };
        let _ = pool.commits.send(vec![message]).await;
    }

    /// Reports to the dispatcher that the job needs no further attempt from this host.
    pub(super) fn end(&self, bytes: u64, result: JobRunResult) {
        self.pool.queue.on_finished(self.ticket, bytes, result);
    }

    /// Sends the outcome to the commit thread.
    pub(super) async fn commit(&self, outcome: JobOutcome) {
        // The commit thread ends after the workers, unless it panicked, and then the batch ends.
        let _ = self.pool.commits.send(vec![outcome.into()]).await;
    }
}
