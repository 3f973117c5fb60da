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

use super::clerk::CommitMessage;
use super::errand::{BatchJob, BatchJobStrategy};
use super::shared::BatchState;
use super::sink::{FileBytes, VerifiedFile, drop_aside};
use super::table::{FetchedFile, deliver};
use super::there::verify;
use crate::disk::{ascribe, blocking};
use crate::error::GetError;
use crate::get::failure::{AttemptFailure, RedirectedTo};
use crate::get::quick::{LargeResponse, SingleResponseFetch, SingleResponseOutcome};
use crate::manifest::{ManifestRow, RowState};
use crate::options::DownloadOutcome;

/// Works until no job may run.
pub(super) async fn work(shared: Arc<BatchState>, first: (JobTicket, Box<BatchJob>)) {
    let mut next = Some(first);
    while let Some((ticket, errand)) = next {
        run(&shared, ticket, errand).await;
        // The place that has come free is this worker's; what else may run by now is for others.
        next = shared.next();
        if next.is_some() {
            shared.recruit();
        }
    }
    shared.over.notify_one();
}

/// One try of a job.
async fn run(shared: &Arc<BatchState>, ticket: JobTicket, mut errand: Box<BatchJob>) {
    errand.begun.get_or_insert_with(Instant::now);
    errand.attempts += 1;
    let _running = shared
        .underway
        .begin(errand.job.id, &errand.job.url, ticket);
    let ranges = match shared.nameless.road_of(&mut errand) {
        BatchJobStrategy::Quick { ranges } => ranges,
        BatchJobStrategy::Engine => return large(shared, ticket, errand, None).await,
        BatchJobStrategy::There => {
            let delivery = blocking(|| verify(&errand, &shared.stop));
            ended(shared, ticket, 0, JobRunResult::Done);
            if let Some(delivery) = delivery {
                let _ = shared.clerk.send(vec![delivery]).await;
            }
            return;
        }
    };
    let target = errand.target();
    let quick = SingleResponseFetch {
        engine: &shared.engine,
        job: &errand.job,
        have: errand.have.as_ref(),
        expect: errand.expect(&shared.engine.options().expect),
        ranges,
        directory: target.directory(),
        patience: shared.patience,
        budget: &shared.budget,
        fetched: &shared.fetched,
    };
    let came = tokio::select! {
        biased;
        // What came of it so far is in no row and on no disk: it will be begun again.
        () = shared.stop.cancelled() => return,
        came = quick.ask(|answer| heard(shared, ticket, answer)) => came,
    };
    if came.is_ok() {
        granted(shared, &mut errand);
    }
    match came {
        Ok(SingleResponseOutcome::Whole(whole)) => {
            ended(shared, ticket, whole.bytes, JobRunResult::Done);
            let whole = *whole;
            lay(shared, FetchedFile { errand, whole }).await;
        }
        Ok(SingleResponseOutcome::NotModified(head)) => {
            ended(shared, ticket, 0, JobRunResult::Done);
            // A 304 need not repeat the tag; the next run asks with it all the same.
            let row = ManifestRow {
                etag: errand.have.as_ref().and_then(|have| have.etag.clone()),
                ..errand.answered(RowState::Skipped, &head)
            };
            let _ = shared.clerk.send(vec![CommitMessage::ended(row)]).await;
        }
        Ok(SingleResponseOutcome::Large(begun)) => {
            errand.status = Some(begun.status());
            large(shared, ticket, errand, Some(*begun)).await;
        }
        Err(failure) => failed(shared, ticket, errand, failure).await,
    }
}

/// What had been denied was given after all.
fn granted(shared: &BatchState, errand: &mut BatchJob) {
    if let Some(host) = errand.denied.take() {
        shared.denials().granted(&host);
    }
}

/// Lays a file on the table, and writes what makes an armful. That takes a while: the place goes to another worker.
async fn lay(shared: &Arc<BatchState>, parcel: FetchedFile) {
    let armful = shared.table.put(parcel);
    if !armful.is_empty() {
        shared.recruit();
        deliver(armful, shared).await;
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
    errand: Box<BatchJob>,
    begun: Option<LargeResponse>,
) {
    // Without an answer nobody knows yet whether its host gives one.
    if begun.is_some() {
        shared.dispatch().on_large_file(ticket, shared.now());
        shared.recruit();
    }
    let target = errand.target();
    let result = match blocking(|| std::fs::create_dir_all(target.directory())) {
        Ok(()) => {
            let stop = shared.stop.clone();
            shared.engine.run(&errand.job, begun, stop).await
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
            arrived(errand, outcome)
        }
        Err(GetError::Interrupted { .. }) => return,
        Err(mut error) => {
            drop_aside(
                &errand,
                match &mut error {
                    GetError::NoSource { last, .. } => last,
                    error => error,
                },
            );
            if let GetError::Transport { source, .. } = &error {
                note(shared, &errand, source);
            }
            ended(shared, ticket, 0, how_ended(&error));
            CommitMessage::failed(&errand, error)
        }
    };
    let _ = shared.clerk.send(vec![delivery]).await;
}

/// What there is to tell of a job that a road of partial files has brought to its end.
fn arrived(errand: Box<BatchJob>, outcome: DownloadOutcome) -> CommitMessage {
    let state = match outcome.not_modified {
        true => RowState::Skipped,
        false => RowState::Done,
    };
    if errand.is_elsewhere() {
        blocking(|| ascribe(errand.target().path(), errand.resource()));
    }
    let row = ManifestRow {
        bytes: outcome.bytes,
        checksums: outcome.checksums,
        etag: outcome.etag,
        attempts: errand.attempts + outcome.retries,
        ..errand.row(state)
    };
    match errand.staged.clone() {
        None => CommitMessage::ended(row),
        Some(staged) => CommitMessage::Written(Box::new(VerifiedFile {
            errand,
            row,
            bytes: FileBytes::Staged(staged),
            modified: 0,
            _open: None,
        })),
    }
}

/// Carries out what the course says about a failure.
async fn failed(
    shared: &Arc<BatchState>,
    ticket: JobTicket,
    mut errand: Box<BatchJob>,
    failure: AttemptFailure,
) {
    if let AttemptFailure::Transport { error, .. } = &failure {
        note(shared, &errand, error);
    }
    let action = action(shared, &mut errand, &failure);
    tracing::debug!(?action, "{failure}");
    let wait = match action {
        RecoveryAction::GiveUp => {
            ended(shared, ticket, 0, how(shared, &mut errand, &failure));
            // What this machine could not do it can do for no other source.
            let elsewhere = !matches!(failure, AttemptFailure::Local(_));
            if elsewhere && errand.turn_to_mirror(&shared.engine.options().retry) {
                shared.retries.fetch_add(1, Ordering::Relaxed);
                return shared.put_back(errand);
            }
            let error = failure.into_error(&errand.job.url, None, &errand.path);
            let failed = vec![CommitMessage::failed(&errand, error)];
            let _ = shared.clerk.send(failed).await;
            return;
        }
        RecoveryAction::Retry(_) if turns(shared, &mut errand, &failure) => {
            ended(shared, ticket, 0, how(shared, &mut errand, &failure));
            shared.retries.fetch_add(1, Ordering::Relaxed);
            return shared.put_back(errand);
        }
        RecoveryAction::Retry(wait)
        | RecoveryAction::Fewer(wait)
        | RecoveryAction::ResolveAgain(wait) => wait,
        RecoveryAction::OneStream => {
            errand.road = BatchJobStrategy::Quick { ranges: false };
            Duration::ZERO
        }
        RecoveryAction::WithoutIfRange | RecoveryAction::StartOver => Duration::ZERO,
    };
    shared.retries.fetch_add(1, Ordering::Relaxed);
    let how = how(shared, &mut errand, &failure);
    let now = shared.now();
    shared
        .dispatch()
        .retry_later(ticket, errand, wait, how, now);
}

/// Whether a source that broke is left for another.
fn turns(shared: &BatchState, errand: &mut BatchJob, failure: &AttemptFailure) -> bool {
    let retry = &shared.engine.options().retry;
    let trouble = failure.trouble();
    trouble.is_some_and(|trouble| errand.turn_from_breaks(trouble, retry))
}

/// Keeps why a host cannot be reached.
fn note(shared: &BatchState, errand: &BatchJob, error: &haul_net::Error) {
    if is_unreachable(error.kind()) {
        shared.reasons.keep(errand.host(), error);
    }
}

/// What the course says about it.
fn action(shared: &BatchState, errand: &mut BatchJob, failure: &AttemptFailure) -> RecoveryAction {
    let led = match failure {
        AttemptFailure::Status { led, .. } => led.as_ref(),
        AttemptFailure::Local(error) if error.kind() == ErrorKind::Unsupported => {
            let turned = errand.turn_to_engine();
            shared.nameless.learn_of(errand);
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
        let host = denier(led, errand);
        let before = errand.denied.as_deref() == Some(&*host);
        let again = shared.denials().denied(&host, before);
        if again {
            errand.denied = Some(host);
            return errand.course.on_trouble(BUSY, standing);
        }
    }
    let action = trouble.map_or(RecoveryAction::GiveUp, |trouble| {
        errand.course.on_trouble(trouble, standing)
    });
    if matches!(
        (failure, action),
        (AttemptFailure::Slow(_), RecoveryAction::Retry(_))
    ) {
        errand.turn_to_engine();
    }
    action
}

/// Who answered 403.
fn denier(led: Option<&RedirectedTo>, errand: &BatchJob) -> String {
    led.map_or_else(|| errand.host(), |led| led.host.clone())
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
fn how(shared: &BatchState, errand: &mut BatchJob, failure: &AttemptFailure) -> JobRunResult {
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
            && shared.denials().may_be_crowd(&denier(led.as_ref(), errand)) =>
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
        } if std::mem::replace(&mut errand.refused, true) => JobRunResult::Failed,
        how => how,
    }
}
