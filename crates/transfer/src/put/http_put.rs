//! A file or standard input under a URL: one PUT, which a server such as `haul serve`, nginx or Apache stores.
//!
//! Where the server is `haul serve --s3`, a large file is sent in parts, as to S3, under the login that the PUT would have. The server says
//! so in its response to OPTIONS, which is requested beside the PUT, whose body waits for it.
//!
//! A large body waits for `100 Continue`, so that a server which refuses it need not read it; one that refuses to be asked gets it at once.
//! A file is sent again from its beginning when the connection breaks, and standard input as long as nothing of it was read.

use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use haul_net::{BodySource, BodyStream, FetchRequest, FetchResponse, RequestBody};
use haul_plan::requested_wait;
use http::header::{ETAG, EXPECT};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::context::{UploadContext, UploadRequestError};
use super::error::PutError;
use super::file_part::{OpenFile, SentBytes};
use super::multipart;
use super::multipart_requests::multipart_limit;
use super::options::{UploadInput, UploadOutcome, UploadTarget};
use crate::disk::blocking;
use crate::get::first_line;

/// Shorter bodies are sent at once: asking first would cost a round trip. curl has the same limit.
const EXPECT_BYTES: u64 = 1 << 20;

/// Bytes of a chunk of standard input.
const CHUNK: usize = 256 << 10;

/// Chunks of standard input that wait to be sent.
const CHUNKS_AHEAD: usize = 4;

/// Bytes of a response that are read for its first line.
const MAX_TEXT: usize = 2048;

pub(super) async fn upload(context: &UploadContext<Url>) -> Result<UploadOutcome, PutError> {
    match &context.job.input {
        UploadInput::File(path) => upload_file(context, path).await,
        UploadInput::Stdin => upload_stdin(context).await,
        UploadInput::Object(source) => Err(PutError::local(
            "send",
            source.address.to_string(),
            io::ErrorKind::Unsupported.into(),
        )),
    }
}

async fn upload_file(context: &UploadContext<Url>, path: &Path) -> Result<UploadOutcome, PutError> {
    let opened = OpenFile::open(path);
    let file = Arc::new(opened.map_err(|error| PutError::local("read", path, error))?);
    let size = file.snapshot.size;
    context.announce(Some(path), Some(size)).await;
    let may_send_body = CancellationToken::new();
    let send_whole = || Box::pin(send_file(context, &file, &may_send_body));
    let mut sending = send_whole();
    let mut asking = Box::pin(in_parts(context, size));
    let (parts, mut early_end) = tokio::select! {
        biased;
        parts = &mut asking => (parts, None),
        ended = &mut sending => (asking.await, Some(ended)),
    };
    if let Some(parts) = parts {
        drop(sending);
        let upload = Box::pin(multipart::upload(&parts, path, Arc::clone(&file)));
        match context.with_progress(Some(size), upload).await {
            // Where there is no such bucket, or not this right, the PUT has the better answer.
            Err(PutError::Store(error)) if error.is_refused_begin() => {}
            // Parts count while they replace a file, and a PUT need not.
            Err(PutError::Store(error)) if error.code() == "EntityTooLarge" => {
                multipart::abort_earlier(&context.state, path, &parts.target, false).await?;
                context.sent.job.store(0, Ordering::Relaxed);
            }
            other => return other,
        }
        (sending, early_end) = (send_whole(), None);
    }
    may_send_body.cancel();
    let headers = match early_end {
        Some(ended) => ended?,
        None => sending.await?,
    };
    let is_unchanged = blocking(|| file.is_unchanged(path));
    if is_unchanged.map_err(|error| PutError::local("read", path, error))? {
        Ok(outcome(context, &headers, size))
    } else {
        Err(PutError::ChangedAfterwards { path: path.into() })
    }
}

/// Sends a file by one PUT, whose body waits until it may be sent.
async fn send_file(
    context: &UploadContext<Url>,
    file: &Arc<OpenFile>,
    may_send_body: &CancellationToken,
) -> Result<HeaderMap, PutError> {
    let size = file.snapshot.size;
    let sending = context.send_with_slot(|| {
        context.sent.restart();
        let body = match file.body(0..size, &context.sent, None) {
            RequestBody::Source(body) => RequestBody::Source(Arc::new(WaitingBody {
                body,
                may_be_sent: may_send_body.clone(),
            })),
            in_memory => in_memory,
        };
        Box::pin(send(context, body))
    });
    context.with_progress(Some(size), sending).await
}

/// The upload as one in parts, if it is large and the server takes that. What a condition compares is not the same for both: it is for the PUT.
async fn in_parts(context: &UploadContext<Url>, size: u64) -> Option<UploadContext> {
    if size <= context.state.options.single_request_bytes() || !context.job.conditions.is_empty() {
        return None;
    }
    let target = context.job.target.object()?;
    let max_bytes = tokio::select! {
        () = context.stop.cancelled() => return None,
        max_bytes = multipart_limit(&context.state, &context.target) => max_bytes?,
    };
    (size <= max_bytes).then(|| UploadContext {
        state: Arc::clone(&context.state),
        job: Arc::clone(&context.job),
        target,
        stop: context.stop.clone(),
        sent: context.sent.clone(),
        started: context.started,
    })
}

async fn upload_stdin(context: &UploadContext<Url>) -> Result<UploadOutcome, PutError> {
    context.announce(None, None).await;
    let body = RequestBody::Source(Arc::new(StdinBody {
        sent: context.sent.clone(),
        is_read: Arc::default(),
    }));
    let sending = context.send_with_slot(|| {
        Box::pin(async {
            let sent = send(context, body.clone()).await;
            sent.map_err(|error| {
                if body.can_be_opened() {
                    error
                } else {
                    HttpPutError::BodyGone(Box::new(error))
                }
            })
        })
    });
    let headers = context.with_progress(None, sending).await?;
    let size = context.sent.job.load(Ordering::Relaxed);
    Ok(outcome(context, &headers, size))
}

fn outcome(context: &UploadContext<Url>, headers: &HeaderMap, bytes: u64) -> UploadOutcome {
    let etag = headers.get(ETAG).and_then(|etag| etag.to_str().ok());
    UploadOutcome {
        target: context.job.target.clone(),
        bytes,
        resumed: 0,
        elapsed: context.started.elapsed(),
        etag: etag.unwrap_or_default().trim_matches('"').to_owned(),
        checksums: Vec::new(),
        version_id: None,
        parts: 0,
    }
}

/// Makes one attempt. Where the server refuses the expectation, this is two requests (RFC 9110 10.1.1).
async fn send(context: &UploadContext<Url>, body: RequestBody) -> Result<HeaderMap, HttpPutError> {
    let expects = body.length().is_none_or(|length| length > EXPECT_BYTES);
    let mut response = request(context, body.clone(), expects).await?;
    if response.status == StatusCode::EXPECTATION_FAILED && expects && body.can_be_opened() {
        response.discard().await;
        context.sent.restart();
        response = request(context, body, false).await?;
    }
    let url = &context.target;
    if response.status.is_success() {
        let headers = response.headers.clone();
        response.discard().await;
        Ok(headers)
    } else {
        Err(HttpPutError::of_response(url, response).await)
    }
}

/// Sends one request and waits for the head of its response.
async fn request(
    context: &UploadContext<Url>,
    body: RequestBody,
    expects: bool,
) -> Result<FetchResponse, HttpPutError> {
    let mut headers = context.job.headers.clone();
    headers.extend(context.job.conditions.clone());
    if expects {
        headers.insert(EXPECT, HeaderValue::from_static("100-continue"));
    }
    let request = FetchRequest {
        method: Method::PUT,
        headers,
        body,
        ..FetchRequest::get(&context.target)
    };
    let response = context.state.client.http().fetch(request).await;
    response.map_err(|source| HttpPutError::Transport {
        url: Box::new(context.target.clone()),
        source: Box::new(source),
    })
}

/// Why one attempt failed.
#[derive(Debug, thiserror::Error)]
enum HttpPutError {
    #[error("{source}")]
    Transport {
        url: Box<Url>,
        source: Box<haul_net::Error>,
    },
    #[error("the server answered {status}")]
    Status {
        url: Box<Url>,
        status: StatusCode,
        text: Option<String>,
        retry_after: Option<Duration>,
    },
    /// The same, of a body that was read and cannot be read again.
    #[error("{0}")]
    BodyGone(Box<Self>),
}

impl HttpPutError {
    async fn of_response(url: &Url, mut response: FetchResponse) -> Self {
        let retry_after = requested_wait(response.status, &response.headers, SystemTime::now());
        let (status, body) = (response.status, response.first_bytes(MAX_TEXT).await);
        let text = first_line(&response, &body);
        response.recycle();
        Self::Status {
            url: Box::new(url.clone()),
            status,
            text,
            retry_after,
        }
    }
}

impl UploadRequestError for HttpPutError {
    fn is_transient(&self) -> bool {
        match self {
            Self::Transport { source, .. } => source.is_transient(),
            Self::Status {
                status,
                retry_after,
                ..
            } => match status.as_u16() {
                408 | 425 | 429 | 500 | 502 | 503 | 504 => true,
                // A rate limit (row A42).
                403 => retry_after.is_some(),
                _ => false,
            },
            Self::BodyGone(_) => false,
        }
    }

    fn is_throttling(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                matches!(status.as_u16(), 429 | 503 | 403) && self.is_transient()
            }
            Self::Transport { .. } => false,
            Self::BodyGone(error) => error.is_throttling(),
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::Transport { .. } => None,
            Self::BodyGone(error) => error.retry_after(),
        }
    }

    fn has_responded(&self) -> bool {
        match self {
            Self::Transport { source, .. } => !source.is_first_contact(),
            Self::Status { .. } => true,
            Self::BodyGone(error) => error.has_responded(),
        }
    }
}

impl From<HttpPutError> for PutError {
    fn from(error: HttpPutError) -> Self {
        match error {
            HttpPutError::Transport { url, source } => Self::Transport { url, source },
            HttpPutError::Status { url, status, .. }
                if status == StatusCode::PRECONDITION_FAILED =>
            {
                Self::Condition {
                    target: UploadTarget::Url(*url),
                }
            }
            HttpPutError::Status {
                url,
                status,
                text,
                retry_after,
            } => Self::Status {
                url,
                status,
                text,
                retry_after,
            },
            HttpPutError::BodyGone(error) => (*error).into(),
        }
    }
}

/// A body that waits until it may be sent.
#[derive(Debug)]
struct WaitingBody {
    body: Arc<dyn BodySource>,
    may_be_sent: CancellationToken,
}

impl BodySource for WaitingBody {
    fn length(&self) -> Option<u64> {
        self.body.length()
    }

    fn open(&self) -> io::Result<BodyStream> {
        let waiting = self.may_be_sent.clone().cancelled_owned();
        let nothing = stream::once(waiting.map(|()| Ok(Bytes::new())));
        Ok(Box::pin(nothing.chain(self.body.open()?)))
    }
}

/// Standard input as a body, which can be opened until it is read. Its length is not known, so it is sent in chunks.
#[derive(Debug)]
struct StdinBody {
    sent: SentBytes,
    /// Whether it was read, and so is gone.
    is_read: Arc<AtomicBool>,
}

impl BodySource for StdinBody {
    fn length(&self) -> Option<u64> {
        None
    }

    fn open(&self) -> io::Result<BodyStream> {
        if self.is_read.load(Ordering::Relaxed) {
            return Err(io::Error::other("standard input cannot be sent twice"));
        }
        let (sent, is_read) = (self.sent.clone(), Arc::clone(&self.is_read));
        Ok(Box::pin(stream::unfold(None, move |chunks| {
            let sent = sent.clone();
            let mut chunks = chunks.unwrap_or_else(|| {
                is_read.store(true, Ordering::Relaxed);
                stdin_chunks()
            });
            async move {
                let chunk = chunks.recv().await?;
                if let Ok(chunk) = &chunk {
                    sent.add(chunk.len() as u64);
                }
                Some((chunk, Some(chunks)))
            }
        })))
    }
}

/// Begins to read standard input.
fn stdin_chunks() -> mpsc::Receiver<io::Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    tokio::task::spawn_blocking(move || read_stdin(&sender));
    receiver
}

/// Reads standard input until its end, or until nobody wants it.
fn read_stdin(sender: &mpsc::Sender<io::Result<Bytes>>) {
    loop {
        let mut chunk = vec![0; CHUNK];
        let read = io::stdin().lock().read(&mut chunk);
        let chunk = match read {
            Ok(0) => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map(|length| {
                chunk.truncate(length);
                Bytes::from(chunk)
            }),
        };
        let is_last = chunk.is_err();
        if sender.blocking_send(chunk).is_err() || is_last {
            return;
        }
    }
}
