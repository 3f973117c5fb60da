//! A worker: takes a job, makes its request, hands on what came, takes the next.
//!
//! It decides nothing. What a failure leads to says the job's [`Course`](haul_plan::Course); which job is next, and when one
//! that failed is due again, the [`Dispatch`](haul_plan::dispatch::Dispatch). A job that waits is no task and holds no
//! connection: it lies in the dispatcher.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use haul_net::{Answer, Kind};
use haul_plan::dispatch::{Ended, How, Ticket};
use haul_plan::{Action, Standing, Trouble};
use http::StatusCode;
use tokio::time::Instant;

use super::clerk::Delivery;
use super::errand::{Errand, Road};
use super::shared::Shared;
use super::sink::{Bytes, Written, drop_aside};
use super::table::{Parcel, deliver};
use super::there::verify;
use crate::disk::{ascribe, blocking};
use crate::error::GetError;
use crate::get::failure::{Failure, Led};
use crate::get::quick::{Came, Large, Quick};
use crate::manifest::{Row, State};
use crate::options::Outcome;

/// Works until no job may run.
pub(super) async fn work(shared: Arc<Shared>, first: (Ticket, Box<Errand>)) {
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
async fn run(shared: &Arc<Shared>, ticket: Ticket, mut errand: Box<Errand>) {
    errand.begun.get_or_insert_with(Instant::now);
    errand.attempts += 1;
    let _running = shared
        .underway
        .begin(errand.job.id, &errand.job.url, ticket);
    let ranges = match shared.nameless.road_of(&mut errand) {
        Road::Quick { ranges } => ranges,
        Road::Engine => return large(shared, ticket, errand, None).await,
        Road::There => {
            let delivery = blocking(|| verify(&errand, &shared.stop));
            ended(shared, ticket, 0, How::Done);
            if let Some(delivery) = delivery {
                let _ = shared.clerk.send(vec![delivery]).await;
            }
            return;
        }
    };
    let target = errand.target();
    let quick = Quick {
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
        Ok(Came::Whole(whole)) => {
            ended(shared, ticket, whole.bytes, How::Done);
            let whole = *whole;
            lay(shared, Parcel { errand, whole }).await;
        }
        Ok(Came::NotModified(head)) => {
            ended(shared, ticket, 0, How::Done);
            // A 304 need not repeat the tag; the next run asks with it all the same.
            let row = Row {
                etag: errand.have.as_ref().and_then(|have| have.etag.clone()),
                ..errand.answered(State::Skipped, &head)
            };
            let _ = shared.clerk.send(vec![Delivery::ended(row)]).await;
        }
        Ok(Came::Large(begun)) => {
            errand.status = Some(begun.status());
            large(shared, ticket, errand, Some(*begun)).await;
        }
        Err(failure) => failed(shared, ticket, errand, failure).await,
    }
}

/// What had been denied was given after all.
fn granted(shared: &Shared, errand: &mut Errand) {
    if let Some(host) = errand.denied.take() {
        shared.denials().granted(&host);
    }
}

/// Lays a file on the table, and writes what makes an armful. That takes a while: the place goes to another worker.
async fn lay(shared: &Arc<Shared>, parcel: Parcel) {
    let armful = shared.table.put(parcel);
    if !armful.is_empty() {
        shared.recruit();
        deliver(armful, shared).await;
    }
}

/// The head of an answer came: the job is not one that waits for a connection.
fn heard(shared: &Arc<Shared>, ticket: Ticket, answer: &Answer) {
    let now = shared.now();
    shared
        .dispatch()
        .delivering(ticket, answer.multiplexed, now);
    shared.recruit();
}

fn ended(shared: &Arc<Shared>, ticket: Ticket, bytes: u64, how: How) {
    let now = shared.now();
    let mut dispatch = shared.dispatch();
    dispatch.ended(ticket, Ended { bytes, how }, now);
    shared.made_room(&dispatch);
}

/// The roads of partial files, with the answer that is there already.
async fn large(shared: &Arc<Shared>, ticket: Ticket, errand: Box<Errand>, begun: Option<Large>) {
    // Without an answer nobody knows yet whether its host gives one.
    if begun.is_some() {
        shared.dispatch().large(ticket, shared.now());
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
            ended(shared, ticket, outcome.fetched, How::Done);
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
            Delivery::failed(&errand, error)
        }
    };
    let _ = shared.clerk.send(vec![delivery]).await;
}

/// What there is to tell of a job that a road of partial files has brought to its end.
fn arrived(errand: Box<Errand>, outcome: Outcome) -> Delivery {
    let state = match outcome.not_modified {
        true => State::Skipped,
        false => State::Done,
    };
    if errand.is_elsewhere() {
        blocking(|| ascribe(errand.target().path(), errand.resource()));
    }
    let row = Row {
        bytes: outcome.bytes,
        checksums: outcome.checksums,
        etag: outcome.etag,
        attempts: errand.attempts + outcome.retries,
        ..errand.row(state)
    };
    match errand.staged.clone() {
        None => Delivery::ended(row),
        Some(staged) => Delivery::Written(Box::new(Written {
            errand,
            row,
            bytes: Bytes::Staged(staged),
            modified: 0,
            _open: None,
        })),
    }
}

/// Carries out what the course says about a failure.
async fn failed(shared: &Arc<Shared>, ticket: Ticket, mut errand: Box<Errand>, failure: Failure) {
    if let Failure::Transport { error, .. } = &failure {
        note(shared, &errand, error);
    }
    let action = action(shared, &mut errand, &failure);
    tracing::debug!(?action, "{failure}");
    let wait = match action {
        Action::GiveUp => {
            ended(shared, ticket, 0, how(shared, &mut errand, &failure));
            // What this machine could not do it can do for no other source.
            let elsewhere = !matches!(failure, Failure::Local(_));
            if elsewhere && errand.turn_to_mirror(&shared.engine.options().retry) {
                shared.retries.fetch_add(1, Ordering::Relaxed);
                return shared.put_back(errand);
            }
            let error = failure.into_error(&errand.job.url, None, &errand.path);
            let failed = vec![Delivery::failed(&errand, error)];
            let _ = shared.clerk.send(failed).await;
            return;
        }
        Action::Retry(_) if turns(shared, &mut errand, &failure) => {
            ended(shared, ticket, 0, how(shared, &mut errand, &failure));
            shared.retries.fetch_add(1, Ordering::Relaxed);
            return shared.put_back(errand);
        }
        Action::Retry(wait) | Action::Fewer(wait) | Action::ResolveAgain(wait) => wait,
        Action::OneStream => {
            errand.road = Road::Quick { ranges: false };
            Duration::ZERO
        }
        Action::WithoutIfRange | Action::StartOver => Duration::ZERO,
    };
    shared.retries.fetch_add(1, Ordering::Relaxed);
    let how = how(shared, &mut errand, &failure);
    let now = shared.now();
    shared.dispatch().again(ticket, errand, wait, how, now);
}

/// Whether a source that broke is left for another.
fn turns(shared: &Shared, errand: &mut Errand, failure: &Failure) -> bool {
    let retry = &shared.engine.options().retry;
    let trouble = failure.trouble();
    trouble.is_some_and(|trouble| errand.turn_from_breaks(trouble, retry))
}

/// Keeps why a host cannot be reached.
fn note(shared: &Shared, errand: &Errand, error: &haul_net::Error) {
    if is_unreachable(error.kind()) {
        shared.reasons.keep(errand.host(), error);
    }
}

/// What the course says about it.
fn action(shared: &Shared, errand: &mut Errand, failure: &Failure) -> Action {
    let led = match failure {
        Failure::Status { led, .. } => led.as_ref(),
        Failure::Local(error) if error.kind() == ErrorKind::Unsupported => {
            let turned = errand.turn_to_engine();
            shared.nameless.learn_of(errand);
            return match turned {
                true => Action::Retry(Duration::ZERO),
                false => Action::GiveUp,
            };
        }
        _ => None,
    };
    let trouble = failure.trouble();
    let is_403 = matches!(trouble, Some(Trouble::Denied { status: 403 }));
    let standing = Standing {
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
    let action = trouble.map_or(Action::GiveUp, |trouble| {
        errand.course.on_trouble(trouble, standing)
    });
    if matches!((failure, action), (Failure::Slow(_), Action::Retry(_))) {
        errand.turn_to_engine();
    }
    action
}

/// Who answered 403.
fn denier(led: Option<&Led>, errand: &Errand) -> String {
    led.map_or_else(|| errand.host(), |led| led.host.clone())
}

/// Trouble that is tried again.
const BUSY: Trouble = Trouble::Busy { retry_after: None };

/// What the end of a job on the roads of partial files says about its host.
fn how_ended(error: &GetError) -> How {
    match error {
        GetError::Transport { source, .. } if is_unreachable(source.kind()) => How::Unreachable,
        error if error.class() == crate::Class::Network => How::Failed,
        _ => How::Done,
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
fn how(shared: &Shared, errand: &mut Errand, failure: &Failure) -> How {
    let refused = |busy, wait| How::Refused { busy, wait };
    let how = match failure {
        Failure::Transport { error, answered } => match error.kind() {
            kind if is_unreachable(kind) => How::Unreachable,
            Kind::Closed if !answered => refused(false, None),
            _ => How::Failed,
        },
        // What an origin says that has too many requests; a 500 is about one of them.
        Failure::Status {
            trouble: Trouble::Busy { retry_after },
            status: StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE,
            ..
        } => refused(true, *retry_after),
        Failure::Status {
            status: StatusCode::FORBIDDEN,
            led,
            ..
        } if led.as_ref().is_none_or(|led| !led.stale)
            && shared.denials().may_be_crowd(&denier(led.as_ref(), errand)) =>
        {
            refused(false, None)
        }
        Failure::Status { .. }
        | Failure::Slow(_)
        | Failure::Unauthorized { .. }
        | Failure::Unusable { .. }
        | Failure::Unfit(_) => How::Failed,
        Failure::Changed | Failure::Unexpected(_) | Failure::Local(_) => How::Done,
    };
    match how {
        How::Refused { wait: None, .. } if std::mem::replace(&mut errand.refused, true) => {
            How::Failed
        }
        how => how,
    }
}
