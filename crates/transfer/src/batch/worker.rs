//! A worker: takes a job, makes its request, hands on what came, takes the next.
//!
//! It decides nothing. What a failure leads to says the job's [`FailurePolicy`](haul_plan::FailurePolicy); which job is next, and when one
//! that failed is due again, the [`JobDispatcher`](haul_plan::dispatch::JobDispatcher). A job that waits is no task and holds no
//! connection: it lies in the dispatcher.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use haul_net::{FetchResponse, Kind};
use haul_plan::dispatch::{JobRunReport, JobRunResult, JobTicket};
use haul_plan::{FailureContext, RecoveryAction, RequestFailure};
use http::StatusCode;
use tokio::time::Instant;

use super::existing_file::verify_existing;
use super::group_commit::CommitMessage;
use super::job::{BatchJob, BatchJobStrategy};
use super::sink::{FileContent, VerifiedFile, drop_aside};
use super::state::BatchState;
use super::write_buffer::{FetchedFile, flush};
use crate::disk::{blocking, set_owner};
use crate::error::GetError;
use crate::get::attempt_failure::{AttemptFailure, RedirectedTo};
use crate::get::single_response::{
    LargeResponse, ResponseInfo, SingleResponseFetch, SingleResponseOutcome,
};
use crate::manifest::{ManifestRow, RowState};
use crate::options::DownloadOutcome;

/// Works until no job may run.
pub(super) async fn work(shared: Arc<BatchState>, first: (JobTicket, Box<BatchJob>)) {
    let mut next = Some(first);
    while let Some((ticket, job)) = next {
        run(&shared, ticket, job).await;
        // The place that has come free is this worker's; what else may run by now is for others.
        next = shared.next();
        if next.is_some() {
            shared.recruit();
        }
    }
    shared.over.notify_one();
}

/// One try of a job.
async fn run(shared: &Arc<BatchState>, ticket: JobTicket, mut job: Box<BatchJob>) {
    job.first_attempt_at.get_or_insert_with(Instant::now);
    job.attempts += 1;
    let _running = shared
        .underway
        .begin(job.download.id, &job.download.url, ticket);
    let ranges = match shared.nameless.strategy_of(&mut job) {
        BatchJobStrategy::SingleResponse { ranges } => ranges,
        BatchJobStrategy::PartialFile => return large(shared, ticket, job, None).await,
        BatchJobStrategy::VerifyExisting => {
            let delivery = blocking(|| verify_existing(&job, &shared.stop));
            ended(shared, ticket, 0, JobRunResult::Done);
            if let Some(delivery) = delivery {
                let _ = shared.clerk.send(vec![delivery]).await;
            }
            return;
        }
    };
    let target = job.paths();
    let quick = SingleResponseFetch {
        engine: &shared.engine,
        job: &job.download,
        stored_validators: job.stored_validators.as_ref(),
        expected_content: job.content_expectation(&shared.engine.options().expected_content),
        send_range: ranges,
        directory: target.directory(),
        min_time_limit: shared.patience,
        memory_budget: &shared.budget,
        fetched_bytes: &shared.fetched,
    };
    let came = tokio::select! {
        biased;
        // What came of it so far is in no row and on no disk: it will be begun again.
        () = shared.stop.cancelled() => return,
        came = quick.fetch(|answer| heard(shared, ticket, answer)) => came,
    };
    if came.is_ok() {
        granted(shared, &mut job);
    }
    match came {
        Ok(SingleResponseOutcome::Whole(whole)) => {
            ended(shared, ticket, whole.bytes, JobRunResult::Done);
            let whole = *whole;
            lay(shared, FetchedFile { job, file: whole }).await;
        }
        Ok(SingleResponseOutcome::NotModified(head)) => {
            ended(shared, ticket, 0, JobRunResult::Done);
            let row = not_modified_row(&job, &head);
            let _ = shared.clerk.send(vec![CommitMessage::ended(row)]).await;
        }
        Ok(SingleResponseOutcome::Large(begun)) => {
            job.status = Some(begun.status());
            large(shared, ticket, job, Some(*begun)).await;
        }
        Err(failure) => failed(shared, ticket, job, failure).await,
    }
}

/// The row of a file that has not changed. A 304 need not repeat the tag; the next run asks with it all the same.
fn not_modified_row(job: &BatchJob, head: &ResponseInfo) -> ManifestRow {
    let etag = job
        .stored_validators
        .as_ref()
        .and_then(|have| have.etag.clone());
    ManifestRow {
        etag,
        ..job.row_of_response(RowState::Skipped, head)
    }
}

/// What had been denied was given after all.
fn granted(shared: &BatchState, job: &mut BatchJob) {
    if let Some(host) = job.forbidding_host.take() {
        shared.denials().granted(&host);
    }
}

/// Lays a file on the table, and writes what makes an armful. That takes a while: the place goes to another worker.
async fn lay(shared: &Arc<BatchState>, fetched: FetchedFile) {
    let armful = shared.table.push(fetched);
    if !armful.is_empty() {
        shared.recruit();
        flush(armful, shared).await;
    }
}

/// The head of an answer came: the job is not one that waits for a connection.
fn heard(shared: &Arc<BatchState>, ticket: JobTicket, answer: &FetchResponse) {
    let now = shared.now();
    shared
        .dispatch()
        .on_response_head(ticket, answer.max_streams, now);
    shared.recruit();
}

fn ended(shared: &Arc<BatchState>, ticket: JobTicket, bytes: u64, how: JobRunResult) {
    let now = shared.now();
    let mut dispatch = shared.dispatch();
    dispatch.on_finished(ticket, JobRunReport { bytes, result: how }, now);
    shared.made_room(&dispatch);
}

/// The roads of partial files, with the answer that is there already.
async fn large(
    shared: &Arc<BatchState>,
    ticket: JobTicket,
    job: Box<BatchJob>,
    begun: Option<LargeResponse>,
) {
    // Without an answer nobody knows yet whether its host gives one.
    if begun.is_some() {
        shared.dispatch().on_large_file(ticket, shared.now());
        shared.recruit();
    }
    let target = job.paths();
    let result = match blocking(|| std::fs::create_dir_all(target.directory())) {
        Ok(()) => {
            let stop = shared.stop.clone();
            shared.engine.run(&job.download, begun, stop).await
        }
        Err(source) => {
            let path = target.directory().to_owned();
            Err(GetError::local("create", path, source))
        }
    };
    let delivery = match result {
        Ok(outcome) => {
            ended(shared, ticket, outcome.fetched, JobRunResult::Done);
            shared.fetched.fetch_add(outcome.fetched, Ordering::Relaxed);
            arrived(job, outcome)
        }
        Err(GetError::Interrupted { .. }) => return,
        Err(mut error) => {
            drop_aside(
                &job,
                match &mut error {
                    GetError::AllSourcesFailed { last, .. } => last,
                    error => error,
                },
            );
            if let GetError::Transport { source, .. } = &error {
                note(shared, &job, source);
            }
            ended(shared, ticket, 0, how_ended(&error));
            CommitMessage::failed(&job, error)
        }
    };
    let _ = shared.clerk.send(vec![delivery]).await;
}

/// What there is to tell of a job that a road of partial files has brought to its end.
fn arrived(job: Box<BatchJob>, outcome: DownloadOutcome) -> CommitMessage {
    let state = match outcome.not_modified {
        true => RowState::Skipped,
        false => RowState::Done,
    };
    if job.uses_mirror() {
        blocking(|| set_owner(job.paths().path(), job.resource_id()));
    }
    let row = ManifestRow {
        bytes: outcome.bytes,
        checksums: outcome.checksums,
        etag: outcome.etag,
        attempts: job.attempts + outcome.retries,
        ..job.row(state)
    };
    match job.staging_path.clone() {
        None => CommitMessage::ended(row),
        Some(staged) => CommitMessage::File(Box::new(VerifiedFile {
            job,
            row,
            content: FileContent::Staged(staged),
            modified: 0,
            _open_permit: None,
        })),
    }
}

/// Carries out what the course says about a failure.
async fn failed(
    shared: &Arc<BatchState>,
    ticket: JobTicket,
    mut job: Box<BatchJob>,
    failure: AttemptFailure,
) {
    if let AttemptFailure::Transport { error, .. } = &failure {
        note(shared, &job, error);
    }
    let action = action(shared, &mut job, &failure);
    tracing::debug!(?action, "{failure}");
    let wait = match action {
        RecoveryAction::GiveUp => {
            ended(shared, ticket, 0, how(shared, &mut job, &failure));
            // What this machine could not do it can do for no other source.
            let elsewhere = !matches!(failure, AttemptFailure::Local(_));
            if elsewhere && job.switch_to_mirror(&shared.engine.options().retry) {
                shared.retries.fetch_add(1, Ordering::Relaxed);
                return shared.put_back(job);
            }
            let error = failure.into_error(&job.download.url, None, &job.path);
            let failed = vec![CommitMessage::failed(&job, error)];
            let _ = shared.clerk.send(failed).await;
            return;
        }
        RecoveryAction::Retry(_) if turns(shared, &mut job, &failure) => {
            ended(shared, ticket, 0, how(shared, &mut job, &failure));
            shared.retries.fetch_add(1, Ordering::Relaxed);
            return shared.put_back(job);
        }
        RecoveryAction::Retry(wait)
        | RecoveryAction::Fewer(wait)
        | RecoveryAction::ResolveAgain(wait) => wait,
        RecoveryAction::OneStream => {
            job.strategy = BatchJobStrategy::SingleResponse { ranges: false };
            Duration::ZERO
        }
        RecoveryAction::WithoutIfRange | RecoveryAction::StartOver => Duration::ZERO,
    };
    shared.retries.fetch_add(1, Ordering::Relaxed);
    let how = how(shared, &mut job, &failure);
    let now = shared.now();
    shared.dispatch().retry_later(ticket, job, wait, how, now);
}

/// Whether a source that broke is left for another.
fn turns(shared: &BatchState, job: &mut BatchJob, failure: &AttemptFailure) -> bool {
    let retry = &shared.engine.options().retry;
    let trouble = failure.trouble();
    trouble.is_some_and(|trouble| job.switch_after_breaks(trouble, retry))
}

/// Keeps why a host cannot be reached.
fn note(shared: &BatchState, job: &BatchJob, error: &haul_net::Error) {
    if is_unreachable(error.kind()) {
        shared.reasons.record(job.host(), error);
    }
}

/// What the course says about it.
fn action(shared: &BatchState, job: &mut BatchJob, failure: &AttemptFailure) -> RecoveryAction {
    let led = match failure {
        AttemptFailure::Status { led, .. } => led.as_ref(),
        AttemptFailure::Local(error) if error.kind() == ErrorKind::Unsupported => {
            let turned = job.use_partial_file();
            shared.nameless.note_unsupported(job);
            return match turned {
                true => RecoveryAction::Retry(Duration::ZERO),
                false => RecoveryAction::GiveUp,
            };
        }
        _ => None,
    };
    let trouble = failure.trouble();
    let is_403 = matches!(trouble, Some(RequestFailure::Denied { status: 403 }));
    let standing = FailureContext {
        flowing: 0,
        redirected: is_403 && led.is_some_and(|led| led.stale),
        jitter: rand::random(),
    };
    if is_403 && !standing.redirected {
        // It may be about how many ask, or about a redirect's signature: each try begins with the first URL.
        let host = denier(led, job);
        let before = job.forbidding_host.as_deref() == Some(&*host);
        let again = shared.denials().denied(&host, before);
        if again {
            job.forbidding_host = Some(host);
            return job.failure_policy.on_trouble(BUSY, standing);
        }
    }
    let action = trouble.map_or(RecoveryAction::GiveUp, |trouble| {
        job.failure_policy.on_trouble(trouble, standing)
    });
    if matches!(
        (failure, action),
        (AttemptFailure::Slow(_), RecoveryAction::Retry(_))
    ) {
        job.use_partial_file();
    }
    action
}

/// Who answered 403.
fn denier(led: Option<&RedirectedTo>, job: &BatchJob) -> String {
    led.map_or_else(|| job.host(), |led| led.host.clone())
}

/// Trouble that is tried again.
const BUSY: RequestFailure = RequestFailure::Busy { retry_after: None };

/// What the end of a job on the roads of partial files says about its host.
fn how_ended(error: &GetError) -> JobRunResult {
    match error {
        GetError::Transport { source, .. } if is_unreachable(source.kind()) => {
            JobRunResult::Unreachable
        }
        error if error.class() == crate::ErrorClass::Network => JobRunResult::Failed,
        _ => JobRunResult::Done,
    }
}

fn is_unreachable(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Connect(_)
            | Kind::ConnectTimeout(_)
            | Kind::NoSuchHost(_)
            | Kind::NoAddress(..)
            | Kind::Resolve(_)
    )
}

/// What a failure says about its host. That it refuses something says so once: what is refused again and again is at fault itself.
fn how(shared: &BatchState, job: &mut BatchJob, failure: &AttemptFailure) -> JobRunResult {
    let refused = |busy, wait| JobRunResult::Refused {
        overloaded: busy,
        retry_after: wait,
    };
    let how = match failure {
        AttemptFailure::Transport { error, answered } => match error.kind() {
            kind if is_unreachable(kind) => JobRunResult::Unreachable,
            Kind::Closed if !answered => refused(false, None),
            _ => JobRunResult::Failed,
        },
        // What an origin says that has too many requests; a 500 is about one of them.
        AttemptFailure::Status {
            trouble: RequestFailure::Busy { retry_after },
            status: StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE,
            ..
        } => refused(true, *retry_after),
        AttemptFailure::Status {
            status: StatusCode::FORBIDDEN,
            led,
            ..
        } if led.as_ref().is_none_or(|led| !led.stale)
            && shared.denials().may_be_crowd(&denier(led.as_ref(), job)) =>
        {
            refused(false, None)
        }
        AttemptFailure::Status { .. }
        | AttemptFailure::Slow(_)
        | AttemptFailure::Unauthorized { .. }
        | AttemptFailure::Unusable { .. }
        | AttemptFailure::Unfit(_) => JobRunResult::Failed,
        AttemptFailure::Changed | AttemptFailure::Unexpected(_) | AttemptFailure::Local(_) => {
            JobRunResult::Done
        }
    };
    match how {
        JobRunResult::Refused {
            retry_after: None, ..
        } if std::mem::replace(&mut job.host_refused, true) => JobRunResult::Failed,
        how => how,
    }
}
