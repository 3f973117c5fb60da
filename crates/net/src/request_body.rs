//! The body of a request: nothing, bytes in memory, or a source that can be opened more than once.
//!
//! A request may have to be sent again: over a new connection when an idle one turns out to be closed, or with other
//! credentials. So a body is described here, and opened for each time that it is sent.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::task::AtomicWaker;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// How long a request that says `Expect: 100-continue` waits for the response before it sends its body all the same
/// (RFC 9110 10.1.1): some servers never say 100. curl waits as long.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);

/// A body while it is sent. Its errors end the request.
pub type BodyStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send + Sync>>;

/// Where a body's bytes come from.
pub trait BodySource: fmt::Debug + Send + Sync {
    /// Bytes of the body; `None` sends it in chunks, which HTTP/1.0 servers and S3 refuse.
    fn length(&self) -> Option<u64>;

    /// Opens the body at its beginning.
    ///
    /// # Errors
    /// The bytes cannot be read, or not a second time.
    fn open(&self) -> io::Result<BodyStream>;
}

/// The body of a request. Cloning shares the bytes.
#[derive(Debug, Clone, Default)]
pub enum RequestBody {
    /// No body, as GET has it.
    #[default]
    Empty,
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes that are read while they are sent.
    Source(Arc<dyn BodySource>),
}

impl RequestBody {
    /// Whether there is no body at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// The length, if it is known before the body is sent.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Source(source) => source.length(),
        }
    }

    pub(crate) fn open(&self) -> io::Result<OutgoingBody> {
        Ok(match self {
            Self::Empty => OutgoingBody::Empty,
            Self::Bytes(bytes) => OutgoingBody::Bytes(Some(bytes.clone())),
            Self::Source(source) => OutgoingBody::Stream(Box::new(OutgoingStream {
                body: source.open()?,
                length: source.length(),
                progress: BodyProgress::default(),
                wait: None,
            })),
        })
    }
}

/// A body as hyper sends it.
pub(crate) enum OutgoingBody {
    Empty,
    Bytes(Option<Bytes>),
    Stream(Box<OutgoingStream>),
}

/// A body from a [`BodySource`].
pub(crate) struct OutgoingStream {
    body: BodyStream,
    length: Option<u64>,
    progress: BodyProgress,
    /// Waits for 100 Continue.
    wait: Option<ContinueWait>,
}

/// How far a body has been sent, for whoever waits for the response. Clones share one count.
#[derive(Debug, Clone, Default)]
pub(crate) struct BodyProgress(Arc<AtomicU64>);

/// A body that waits for 100 Continue.
struct ContinueWait {
    signal: ContinueSignal,
    timer: Pin<Box<Sleep>>,
}

/// Says that the peer wants the body.
#[derive(Clone, Default)]
pub(crate) struct ContinueSignal(Arc<ContinueState>);

#[derive(Default)]
struct ContinueState {
    is_wanted: AtomicBool,
    waker: AtomicWaker,
}

impl BodyProgress {
    /// Bytes that hyper has taken.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl ContinueSignal {
    /// The peer sent 100 Continue.
    pub(crate) fn allow(&self) {
        self.0.is_wanted.store(true, Ordering::Release);
        self.0.waker.wake();
    }
}

impl ContinueWait {
    /// Ready when the body may be sent.
    fn poll_allowed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let state = &self.signal.0;
        state.waker.register(cx.waker());
        if state.is_wanted.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        self.timer.as_mut().poll(cx)
    }
}

impl OutgoingBody {
    /// How far this body has been sent. A body in memory is sent with the head, or nearly so.
    pub(crate) fn progress(&self) -> Option<BodyProgress> {
        match self {
            Self::Empty | Self::Bytes(_) => None,
            Self::Stream(stream) => Some(stream.progress.clone()),
        }
    }

    /// Holds the body back until `signal` allows it, or for a second. A body in memory is small enough to be sent in vain.
    pub(crate) fn wait_for(&mut self, signal: ContinueSignal) {
        if let Self::Stream(stream) = self {
            stream.wait = Some(ContinueWait {
                signal,
                timer: Box::pin(sleep(CONTINUE_TIMEOUT)),
            });
        }
    }
}

impl Body for OutgoingBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let stream = match self.get_mut() {
            Self::Empty => return Poll::Ready(None),
            Self::Bytes(bytes) => return Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Self::Stream(stream) => stream,
        };
        if let Some(wait) = &mut stream.wait {
            std::task::ready!(wait.poll_allowed(cx));
            stream.wait = None;
        }
        let chunk = std::task::ready!(stream.body.as_mut().poll_next(cx));
        if let Some(Ok(chunk)) = &chunk {
            let bytes = chunk.len() as u64;
            stream.progress.0.fetch_add(bytes, Ordering::Relaxed);
        }
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Bytes(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Stream(stream) => stream.length == Some(stream.progress.bytes()),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Bytes(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Stream(stream) => stream
                .length
                .map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

impl fmt::Debug for OutgoingBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Bytes(_) => "Bytes",
            Self::Stream(_) => "Stream",
        })
    }
}
