//! An upload: from the wire to the store (RFC 9110 9.3.4, 13, 14.5; RFC 9530).
//!
//! What comes whole in little is begun, written and committed by one visit to a thread that may wait. What is larger is gathered, and while one
//! load is written the next one comes. Whatever ends the request before its body is whole ends the upload: nobody ever sees it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use haul_plan::{Checksum, Expected};
use haul_plan::serving::{Conditions, Outcome, sent_digests};
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap};
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use super::answer::{Answer, bare, of_store, plain};
use super::get::{current, version};
use super::Server;
use crate::Key;
use crate::store::{Disk, Meta, Put, StoreError, Upload};

/// Bytes up to which an upload is gathered before anything is done on the disk.
const SMALL: usize = 64 << 10;

/// Bytes that are gathered for one write.
const LOAD: usize = 512 << 10;

/// Why an upload came to nothing.
#[derive(Debug, thiserror::Error)]
enum PutError {
    /// The store's reason.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The body broke off, or is no HTTP.
    #[error("the body broke off")]
    Broken(#[source] hyper::Error),
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
    most: u64,
}

impl Asked {
    /// Reads a request's fields.
    ///
    /// # Errors
    /// The answer to one that cannot be done, before any of its body is asked for.
    pub(crate) fn new(server: &Server, key: Key, headers: &HeaderMap) -> Result<Self, Answer> {
        if headers.contains_key(CONTENT_RANGE) {
            let text = "a part of a file cannot be put: Content-Range is of no use here";
            return Err(plain(StatusCode::BAD_REQUEST, text));
        }
        let digests = sent_digests(headers).map_err(|error| plain(StatusCode::BAD_REQUEST, error.to_string()))?;
        let most = server.options.max_body.unwrap_or(u64::MAX);
        let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > most) {
            return Err(too_long(most));
        }
        Ok(Self {
            key,
            conditions: Conditions::parse(headers),
            digests: digests.into_iter().map(checksum).collect(),
            most,
        })
    }
}

/// Puts a request's body.
pub(crate) async fn answer(server: Arc<Server>, asked: Asked, body: Incoming) -> Answer {
    let (key, most) = (asked.key.clone(), asked.most);
    match put(&server, asked, body).await {
        Ok(put) => done(&put),
        Err(PutError::Store(error)) => of_store(&error, &key),
        Err(PutError::TooLong) => too_long(most),
        Err(PutError::Broken(error)) => {
            tracing::debug!(%key, %error, "an upload broke off");
            plain(StatusCode::BAD_REQUEST, "the body broke off")
        }
    }
}

fn done(put: &Put) -> Answer {
    let status = if put.replaced { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
    let mut answer = bare(status);
    version(&put.meta, answer.headers_mut());
    answer
}

fn too_long(most: u64) -> Answer {
    plain(StatusCode::PAYLOAD_TOO_LARGE, format!("this server takes bodies of up to {most} bytes (--max-body)"))
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

async fn put(server: &Server, asked: Asked, mut body: Incoming) -> Result<Put, PutError> {
    let (store, disk) = (Arc::clone(&server.store), &server.disk);
    let Asked {
        key,
        conditions,
        digests,
        most,
    } = asked;
    if !conditions.is_empty() {
        // Nobody sends a gigabyte to learn that it was not wanted; what counts is the look at the end.
        let (store, key, conditions) = (Arc::clone(&store), key.clone(), conditions.clone());
        disk.run(move || store.check(&key, &|meta| holds(&conditions, meta))).await?;
    }
    let mut intake = Intake {
        body: &mut body,
        left: most,
        is_over: false,
    };
    let mut load = intake.load(SMALL).await?;
    if intake.is_over {
        let all = move || {
            let mut upload = store.put(&key, digests)?;
            upload.write(&mut load)?;
            commit(upload, &conditions)
        };
        return Ok(disk.run(all).await?);
    }
    let mut held = Held {
        upload: None,
        disk: disk.clone(),
    };
    let mut writing: Writing = Box::pin(disk.run(move || {
        held.upload = Some(store.put(&key, digests)?);
        held.write(&mut load)?;
        Ok(held)
    }));
    loop {
        // The next load comes while the one before is written.
        let next = intake.load(LOAD).await;
        let mut held = writing.await?;
        let mut load = next?;
        if intake.is_over {
            let end = move || {
                held.write(&mut load)?;
                commit(held.upload.take().ok_or(StoreError::Failed)?, &conditions)
            };
            return Ok(disk.run(end).await?);
        }
        writing = Box::pin(disk.run(move || {
            held.write(&mut load)?;
            Ok(held)
        }));
    }
}

fn commit(upload: Upload, conditions: &Conditions) -> Result<Put, StoreError> {
    match conditions.is_empty() {
        true => upload.commit(None),
        false => upload.commit(Some(&|meta| holds(conditions, meta))),
    }
}

/// A load on its way to the disk.
type Writing = Pin<Box<dyn Future<Output = Result<Held, StoreError>> + Send>>;

/// An upload that ends, whoever drops it, where waiting is allowed.
struct Held {
    upload: Option<Upload>,
    disk: Disk,
}

impl Held {
    fn write(&mut self, load: &mut [Bytes]) -> Result<(), StoreError> {
        self.upload.as_mut().map_or(Ok(()), |upload| upload.write(load))
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

/// A body as it comes in.
struct Intake<'a> {
    body: &'a mut Incoming,
    /// Bytes that may still come.
    left: u64,
    /// Whether all of it has come.
    is_over: bool,
}

impl Intake<'_> {
    /// Gathers `room` bytes, or what there is.
    async fn load(&mut self, room: usize) -> Result<Vec<Bytes>, PutError> {
        let (mut load, mut bytes) = (Vec::new(), 0);
        while bytes < room && !self.is_over {
            let Some(frame) = self.body.frame().await else {
                self.is_over = true;
                break;
            };
            // Trailers say nothing that is wanted.
            if let Ok(data) = frame.map_err(PutError::Broken)?.into_data() {
                self.left = self.left.checked_sub(data.len() as u64).ok_or(PutError::TooLong)?;
                bytes += data.len();
                load.push(data);
            }
            self.is_over = self.body.is_end_stream();
        }
        Ok(load)
    }
}
