//! An upload: from the wire to the store (RFC 9110 9.3.4, 13, 14.5; RFC 9530).
//!
//! What comes whole in little is begun, written and committed by one visit to a thread that may wait. What is larger is gathered, and while one
//! load is written the next one comes. Whatever ends the request before its body is whole ends the upload: nobody ever sees it.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use haul_plan::serving::{Conditions, Outcome, sent_digests};
use haul_plan::{Checksum, Expected};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, EXPECT, HeaderMap};

use super::Server;
use super::answer::{Answer, Instead, bare, of_store, plain};
use super::get::{current, version};
use super::inbound::Inbound;
use crate::Key;
use crate::conn::Line;
use crate::observe::{BodyRefusal, Fault};
use crate::store::{Disk, Meta, Now, Put, StoreError, Upload};

/// Bytes up to which an upload is gathered before anything is done on the disk.
const SMALL: usize = 64 << 10;

/// Bytes that are gathered for one write.
const LOAD: usize = 512 << 10;

/// Why an upload came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PutError {
    /// The store's reason.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The body broke off, or is no HTTP.
    #[error("the body broke off")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// More than a body may have.
    #[error("the body is longer than allowed")]
    TooLong,
}

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Where it goes.
    pub(crate) key: Key,
    /// What must hold.
    conditions: Conditions,
    /// What the bytes must hash to.
    digests: Vec<Checksum>,
    /// Bytes that may come.
    pub(crate) most: u64,
    /// Whether conditions are looked at before the body comes, too. Little that is on its way is sooner read than refused: that
    /// would end the connection.
    is_asked_first: bool,
}

impl Asked {
    /// A key and nothing else.
    pub(crate) fn plainly(server: &Server, key: Key) -> Self {
        Self {
            key,
            conditions: Conditions::default(),
            digests: Vec::new(),
            most: server.options.max_body.unwrap_or(u64::MAX),
            is_asked_first: false,
        }
    }

    /// Reads a request's fields.
    ///
    /// # Errors
    /// The answer to one that cannot be done, before any of its body is asked for.
    pub(crate) fn new(line: &Line, key: Key, headers: &HeaderMap) -> Result<Self, Instead> {
        let server = &line.server;
        if headers.contains_key(CONTENT_RANGE) {
            let text = "a part of a file cannot be put: Content-Range is of no use here";
            return Err(plain(StatusCode::BAD_REQUEST, text).into());
        }
        let digests = sent_digests(headers)
            .map_err(|error| plain(StatusCode::BAD_REQUEST, error.to_string()))?;
        let most = server.options.max_body.unwrap_or(u64::MAX);
        let length = headers
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > most) {
            server.options.metrics.refused_body(BodyRefusal::TooLarge);
            return Err(too_long(most).into());
        }
        if length.is_some_and(|length| !server.store.has_room(length)) {
            server.options.metrics.refused_body(BodyRefusal::Quota);
            return Err(of_store(&StoreError::OverQuota, &key).into());
        }
        Ok(Self {
            key,
            conditions: Conditions::parse(headers),
            digests: digests.into_iter().map(checksum).collect(),
            most,
            is_asked_first: headers.contains_key(EXPECT)
                || length.is_none_or(|length| length > SMALL as u64),
        })
    }
}

/// Puts a request's body.
pub(crate) async fn answer(line: Arc<Line>, asked: Asked, body: Inbound) -> Answer {
    let (key, most) = (asked.key.clone(), asked.most);
    match put(&line, asked, body).await {
        Ok(put) => done(&put),
        Err(error) => failed(&line, &error, &key, most),
    }
}

/// The answer to an upload that came to nothing; also counts it.
pub(crate) fn failed(line: &Line, error: &PutError, key: &Key, most: u64) -> Answer {
    let metrics = &line.server.options.metrics;
    match error {
        PutError::Store(error) => {
            match error {
                StoreError::OverQuota => metrics.refused_body(BodyRefusal::Quota),
                StoreError::NoSpace => metrics.refused_body(BodyRefusal::DiskFull),
                StoreError::Mismatch(_) => metrics.refused_body(BodyRefusal::Digest),
                StoreError::Io(_) => metrics.fault(Fault::Disk),
                _ => {}
            }
            of_store(error, key)
        }
        PutError::TooLong => {
            metrics.refused_body(BodyRefusal::TooLarge);
            too_long(most)
        }
        // What is wrong with it is that the rest did not come.
        PutError::Broken(_) if line.is_tired() => too_slow(),
        PutError::Broken(error) => {
            metrics.refused_body(BodyRefusal::Short);
            tracing::debug!(%key, %error, "an upload broke off");
            plain(
                StatusCode::BAD_REQUEST,
                "the body broke off, or is malformed",
            )
        }
    }
}

fn done(put: &Put) -> Answer {
    let status = if put.replaced {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::CREATED
    };
    let mut answer = bare(status);
    version(&put.meta, answer.headers_mut());
    answer
}

/// A body that was given up.
pub(crate) fn too_slow() -> Answer {
    let text = "the body came too slowly, or not at all: the server has waited for long enough";
    plain(StatusCode::REQUEST_TIMEOUT, text)
}

fn too_long(most: u64) -> Answer {
    plain(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("this server takes bodies of up to {most} bytes (--max-body)"),
    )
}

/// What is expected, as what the store compares with.
fn checksum(expected: Expected) -> Checksum {
    Checksum {
        algorithm: expected.algorithm,
        digest: Some(expected.digest),
    }
}

/// Whether conditions hold for what is there.
pub(crate) fn holds(conditions: &Conditions, meta: Option<&Meta>) -> bool {
    conditions.for_write(meta.map(current)) == Outcome::Proceed
}

/// Looks whether conditions hold before the body is asked for: nobody sends a gigabyte to learn that it was not wanted. What counts is
/// the look at the end.
async fn look(
    line: &Arc<Line>,
    key: &Key,
    conditions: Option<&Conditions>,
) -> Result<(), StoreError> {
    let Some(conditions) = conditions.filter(|conditions| !conditions.is_empty()) else {
        return Ok(());
    };
    let store = Arc::clone(&line.server.store);
    let (key, conditions) = (key.clone(), conditions.clone());
    let _pause = line.pause();
    let check = move || store.check(&key, &|meta| holds(&conditions, meta));
    line.server.disk.run(check).await.map(drop)
}

/// Puts what a source gives.
pub(crate) async fn put(
    line: &Arc<Line>,
    asked: Asked,
    source: impl Source,
) -> Result<Put, PutError> {
    let (store, disk) = (Arc::clone(&line.server.store), &line.server.disk);
    let _upload = line.server.options.metrics.upload();
    let Asked {
        key,
        conditions,
        digests,
        most,
        is_asked_first,
    } = asked;
    look(line, &key, is_asked_first.then_some(&conditions)).await?;
    let mut intake = Intake {
        source,
        left: most,
        is_over: false,
    };
    let mut load = intake.load(SMALL).await?;
    let mut held = match store.put_now(&key, &digests) {
        Now::Done(upload) => Held::new(upload?, disk),
        Now::Wait if intake.is_over => {
            let all = move || {
                let mut upload = store.put(&key, digests)?;
                upload.take(&load)?;
                upload.write(&mut load)?;
                commit(upload, &conditions)
            };
            let _pause = line.pause();
            return Ok(disk.run(all).await?);
        }
        Now::Wait => {
            let _pause = line.pause();
            Held::new(disk.run(move || store.put(&key, digests)).await?, disk)
        }
    };
    loop {
        held.upload().take(&load)?;
        let is_written = held.upload().write_now(&mut load)?;
        if intake.is_over {
            if is_written
                && conditions.is_empty()
                && let Some(done) = held.commit_now()
            {
                return Ok(done?);
            }
            return end(line, held, load, conditions).await;
        }
        if is_written {
            load = intake.load(SMALL).await?;
            continue;
        }
        let writing = disk.run(move || {
            held.upload().write(&mut load)?;
            Ok::<_, StoreError>(held)
        });
        // The next load comes while this one is written.
        let next = intake.load(LOAD).await;
        let _pause = line.pause();
        held = writing.await?;
        load = next?;
    }
}

/// Writes what is left and commits.
async fn end(
    line: &Arc<Line>,
    mut held: Held,
    mut load: Vec<Bytes>,
    conditions: Conditions,
) -> Result<Put, PutError> {
    let end = move || {
        held.upload().write(&mut load)?;
        commit(held.give(), &conditions)
    };
    let _pause = line.pause();
    Ok(line.server.disk.run(end).await?)
}

fn commit(upload: Upload, conditions: &Conditions) -> Result<Put, StoreError> {
    match conditions.is_empty() {
        true => upload.commit(None),
        false => upload.commit(Some(&|meta| holds(conditions, meta))),
    }
}

/// An upload that ends, whoever drops it, where waiting is allowed.
struct Held {
    /// `None` when it was given away.
    upload: Option<Box<Upload>>,
    disk: Disk,
}

impl Held {
    fn new(upload: Upload, disk: &Disk) -> Self {
        Self {
            upload: Some(Box::new(upload)),
            disk: disk.clone(),
        }
    }

    #[expect(
        clippy::expect_used,
        reason = "it is given away by what consumes the holder's use of it"
    )]
    fn upload(&mut self) -> &mut Upload {
        self.upload.as_mut().expect("it is held")
    }

    /// For whoever commits it.
    #[expect(clippy::expect_used, reason = "the same")]
    fn give(&mut self) -> Upload {
        *self.upload.take().expect("it is held")
    }

    /// Commits it, if that can be done without waiting.
    fn commit_now(&mut self) -> Option<Result<Put, StoreError>> {
        match self.give().commit_now() {
            Ok(done) => Some(done),
            Err(upload) => {
                self.upload = Some(upload);
                None
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            // It is begun at once; nobody needs to wait for it.
            drop(self.disk.run(move || drop(upload)));
        }
    }
}

/// Where an upload's bytes come from.
pub(crate) trait Source: Send {
    /// The next of them; `None` when all have come.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, PutError>> + Send;

    /// Whether it is known that none will come.
    fn is_over(&self) -> bool;
}

impl Source for Inbound {
    async fn next(&mut self) -> Result<Option<Bytes>, PutError> {
        let next = futures_util::StreamExt::next(self).await;
        next.transpose()
            .map_err(|error| PutError::Broken(error.into()))
    }

    fn is_over(&self) -> bool {
        self.is_end()
    }
}

/// An upload's bytes as they come in.
struct Intake<S> {
    source: S,
    /// Bytes that may still come.
    left: u64,
    /// Whether all of it has come.
    is_over: bool,
}

impl<S: Source> Intake<S> {
    /// Gathers `room` bytes, or what there is.
    async fn load(&mut self, room: usize) -> Result<Vec<Bytes>, PutError> {
        let (mut load, mut bytes) = (Vec::new(), 0);
        while bytes < room && !self.is_over {
            let Some(data) = self.source.next().await? else {
                self.is_over = true;
                break;
            };
            self.left = self
                .left
                .checked_sub(data.len() as u64)
                .ok_or(PutError::TooLong)?;
            bytes += data.len();
            load.push(data);
            self.is_over = self.source.is_over();
        }
        Ok(load)
    }
}
