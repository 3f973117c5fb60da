//! One request and its answer, from the end of the head to the last byte: what is counted and logged.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, REFERER, USER_AGENT};
use http::{HeaderValue, Method, Response, StatusCode, Uri, Version, request};
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::time::Instant;

use super::line::{ConnectionState, TimeoutPause};
use super::tail::UnflushedResponse;
use crate::body::ServeBody;
use crate::observe::{AccessRecord, ConnectionFault};

/// What a log has for a request whose peer went away before there was an answer: no status of HTTP's, but what nginx made usual.
const GONE: StatusCode = match StatusCode::from_u16(499) {
    Ok(status) => status,
    Err(_) => StatusCode::BAD_REQUEST,
};

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct HttpExchange {
    line: Arc<ConnectionState>,
    method: Method,
    /// When its head was whole.
    began: Instant,
    /// Bytes that had gone over the connection before.
    sent_before: u64,
    /// What a log tells beyond what is counted. None without a log.
    told: Option<Box<ExchangeLogFields>>,
    /// Whether an answer to it exists, which ends it.
    is_answered: bool,
}

/// What a log tells.
#[derive(Debug)]
struct ExchangeLogFields {
    when: SystemTime,
    user: Option<Arc<str>>,
    target: Uri,
    version: Version,
    /// Counted by the body while it comes.
    received: Arc<AtomicU64>,
    referer: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
}

/// An answer that has left the service.
#[derive(Debug)]
pub(crate) struct FinishedExchange {
    exchange: HttpExchange,
    status: StatusCode,
    /// Bytes of its body that were given away.
    given: u64,
    /// Whether that was not all of it.
    is_cut_short: bool,
}

/// An answer's body, watched until it is dropped.
#[derive(Debug)]
pub(crate) struct TrackedBody {
    body: ServeBody,
    /// Taken when it ends.
    exchange: Option<(HttpExchange, StatusCode)>,
    given: u64,
    /// Whether all of it was given away.
    is_whole: bool,
    /// While the body has nothing to give, its peer waits for the server.
    pause: Option<TimeoutPause>,
    /// On HTTP/2, what the pieces that were given share.
    tail: Option<Arc<UnflushedResponse>>,
}

impl HttpExchange {
    /// A request's head is whole.
    pub(crate) fn begin(line: &Arc<ConnectionState>, head: &request::Parts) -> Self {
        line.patience().head_done();
        let told = line.server.options.access_log.is_some().then(|| {
            Box::new(ExchangeLogFields {
                when: SystemTime::now(),
                user: None,
                target: head.uri.clone(),
                version: head.version,
                received: Arc::default(),
                referer: head.headers.get(REFERER).cloned(),
                user_agent: head.headers.get(USER_AGENT).cloned(),
            })
        });
        Self {
            line: Arc::clone(line),
            method: head.method.clone(),
            began: Instant::now(),
            sent_before: line.sent(),
            told,
            is_answered: false,
        }
    }

    /// Where the bytes of its body are to be counted, if anybody wants to know.
    pub(crate) fn received_counter(&self) -> Option<Arc<AtomicU64>> {
        self.told.as_ref().map(|told| Arc::clone(&told.received))
    }

    /// Whom it was let in as.
    pub(crate) fn set_user(&mut self, user: Option<&Arc<str>>) {
        if let Some(told) = &mut self.told {
            told.user = user.cloned();
        }
    }

    /// It is answered.
    pub(crate) fn respond(mut self, mut answer: Response<ServeBody>) -> Response<TrackedBody> {
        if self.line.is_last() {
            let close = HeaderValue::from_static("close");
            answer.headers_mut().insert(CONNECTION, close);
        }
        if self.method == Method::HEAD {
            behead(&mut answer);
        }
        let now = self.line.now();
        self.line.patience().response_started(now);
        self.is_answered = true;
        let status = answer.status();
        // What has no body by its nature is whole at once: hyper does not ask for it.
        let is_whole = answer.body().is_end_stream();
        answer.map(|body| TrackedBody {
            body,
            exchange: Some((self, status)),
            given: 0,
            is_whole,
            pause: None,
            tail: None,
        })
    }
}

/// Leaves of an answer to HEAD what HEAD asks for: over HTTP/2 hyper would send the body.
fn behead(answer: &mut Response<ServeBody>) {
    let body = std::mem::replace(answer.body_mut(), ServeBody::Empty);
    if let Some(len) = body.len().filter(|len| *len > 0) {
        answer.headers_mut().insert(CONTENT_LENGTH, len.into());
    }
}

/// What is logged of a request that was never answered.
fn unanswered(line: &ConnectionState) -> StatusCode {
    if line.server.is_aborting() {
        StatusCode::SERVICE_UNAVAILABLE
    } else if line.is_tired() {
        StatusCode::REQUEST_TIMEOUT
    } else {
        GONE
    }
}

impl Drop for HttpExchange {
    /// Its peer went away before there was an answer, or the server did, or had waited for long enough.
    fn drop(&mut self) {
        if !self.is_answered {
            let now = self.line.now();
            let mut patience = self.line.patience();
            patience.response_started(now);
            patience.response_done(now);
            drop(patience);
            self.tell(unanswered(&self.line), 0, true);
        }
    }
}

impl FinishedExchange {
    /// Counts it, and logs it.
    pub(super) fn tell(&self, is_cut_short: bool) {
        let is_cut_short = is_cut_short || self.is_cut_short;
        self.exchange.tell(self.status, self.given, is_cut_short);
    }
}

impl HttpExchange {
    fn tell(&self, status: StatusCode, given: u64, is_cut_short: bool) {
        let Self {
            line,
            method,
            began,
            told,
            ..
        } = self;
        let (took, options) = (began.elapsed(), &line.server.options);
        // Of what was cut short nobody knows but the wire, which has sent heads, too.
        let sent = match is_cut_short {
            true => given.min(line.sent().saturating_sub(self.sent_before)),
            false => given,
        };
        options.metrics.count_request(method, status, took);
        options.metrics.count_sent(sent);
        if is_cut_short {
            options.metrics.count_fault(ConnectionFault::Aborted);
        }
        let (Some(told), Some(log)) = (told, &options.access_log) else {
            return;
        };
        log.write(&AccessRecord {
            time: told.when,
            peer: line.peer.map(|peer| peer.ip()),
            user: told.user.clone(),
            method: Some(method.clone()),
            target: told.target.clone(),
            version: told.version,
            status,
            sent,
            received: told.received.load(Ordering::Relaxed),
            duration: took,
            referer: told.referer.clone(),
            user_agent: told.user_agent.clone(),
            is_incomplete: is_cut_short,
        });
    }
}

/// Logs a request that could not be read, and was answered all the same.
pub(super) fn log_unreadable(line: &ConnectionState, status: StatusCode) {
    if let Some(log) = &line.server.options.access_log {
        log.write(&AccessRecord {
            time: SystemTime::now(),
            peer: line.peer.map(|peer| peer.ip()),
            user: None,
            method: None,
            target: Uri::default(),
            version: Version::HTTP_11,
            status,
            sent: 0,
            received: 0,
            duration: std::time::Duration::ZERO,
            referer: None,
            user_agent: None,
            is_incomplete: false,
        });
    }
}

impl hyper::body::Body for TrackedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        match &polled {
            Poll::Pending if this.pause.is_none() => {
                this.pause = this
                    .exchange
                    .as_ref()
                    .map(|(exchange, _)| exchange.line.pause());
            }
            Poll::Pending => {}
            Poll::Ready(frame) => {
                this.pause = None;
                match frame {
                    Some(Ok(frame)) => {
                        this.given += frame.data_ref().map_or(0, |data| data.len() as u64);
                        this.is_whole = this.body.is_end_stream();
                    }
                    Some(Err(_)) => {}
                    None => this.is_whole = true,
                }
            }
        }
        polled.map_ok(|frame| this.followed(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl TrackedBody {
    /// Where answers do not go out one after another, each piece says itself when it has gone.
    fn followed(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        match &self.exchange {
            Some((exchange, _)) if exchange.line.is_multiplexed() => {
                let tail = self
                    .tail
                    .get_or_insert_with(|| UnflushedResponse::new(&exchange.line));
                frame.map_data(|bytes| tail.watch(bytes))
            }
            _ => frame,
        }
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.pause = None;
        if let Some((exchange, status)) = self.exchange.take() {
            let line = Arc::clone(&exchange.line);
            let finished = FinishedExchange {
                exchange,
                status,
                given: self.given,
                is_cut_short: !self.is_whole,
            };
            match &self.tail {
                Some(tail) => tail.finish(finished),
                None => line.finish(finished),
            }
        }
    }
}
