//! Bodies on their way through: piece by piece, none of them kept.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::HttpSession;
use super::upstream_connection::HttpUpstream;
use crate::relay::{RelayOutcome, RelaySide};

/// How long a body that its client holds back waits for the server's consent. Servers that know nothing of 100 give none; curl waits as
/// long.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);

/// The body of a request. hyper tells a client that waits for 100 Continue to go on as soon as this is first polled.
pub(super) struct RequestBody {
    incoming: Option<Incoming>,
    /// Ready when the body may be sent.
    consent: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl RequestBody {
    pub(super) fn empty() -> Self {
        Self {
            incoming: None,
            consent: None,
        }
    }

    pub(super) fn new(incoming: Incoming) -> Self {
        Self {
            incoming: Some(incoming),
            consent: None,
        }
    }

    /// A body that is not sent before the server says 100 Continue, for which `consent` is notified.
    pub(super) fn with_consent(incoming: Incoming, consent: Arc<Notify>) -> Self {
        let consent = async move {
            let _ = timeout(CONTINUE_TIMEOUT, consent.notified()).await;
        };
        Self {
            incoming: Some(incoming),
            consent: Some(Box::pin(consent)),
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(consent) = &mut self.consent {
            ready!(consent.as_mut().poll(cx));
            self.consent = None;
        }
        match &mut self.incoming {
            Some(incoming) => Pin::new(incoming).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let hint = self.incoming.as_ref().map(Body::size_hint);
        hint.unwrap_or_else(|| SizeHint::with_exact(0))
    }
}

/// The body of a response.
pub(super) enum ResponseBody {
    Empty,
    /// What is left of a text of our own.
    Text(Bytes),
    Upstream(Box<UpstreamBody>),
}

/// A body that comes from an origin or a proxy. It drives the connection that it comes over.
pub(super) struct UpstreamBody {
    incoming: Incoming,
    /// `None` when all of the body has come, or it has broken off.
    upstream: Option<HttpUpstream>,
    session: Arc<HttpSession>,
}

impl ResponseBody {
    pub(super) fn text(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<UpstreamBody> for ResponseBody {
    fn from(body: UpstreamBody) -> Self {
        Self::Upstream(Box::new(body))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Text(text) => {
                let text = std::mem::take(text);
                Poll::Ready((!text.is_empty()).then(|| Ok(Frame::data(text))))
            }
            Self::Upstream(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Text(text) => text.is_empty(),
            Self::Upstream(body) => body.upstream.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Text(text) => SizeHint::with_exact(text.len() as u64),
            Self::Upstream(body) => body.incoming.size_hint(),
        }
    }
}

impl UpstreamBody {
    pub(super) fn new(
        incoming: Incoming,
        upstream: HttpUpstream,
        session: Arc<HttpSession>,
    ) -> Self {
        Self {
            incoming,
            upstream: Some(upstream),
            session,
        }
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(upstream) = &mut self.upstream else {
            return Poll::Ready(None);
        };
        let frame = ready!(upstream.poll_frame(&mut self.incoming, cx));
        match &frame {
            Some(Err(error)) => {
                self.upstream = None;
                self.session.response_failed(target_failure(error));
            }
            Some(Ok(_)) if !self.incoming.is_end_stream() => {}
            Some(Ok(_)) | None => {
                if let Some(upstream) = self.upstream.take() {
                    self.session.response_complete(upstream);
                }
            }
        }
        Poll::Ready(frame)
    }
}

/// How a response ended that broke off.
fn target_failure(error: &hyper::Error) -> RelayOutcome {
    let source = std::error::Error::source(error);
    match source.and_then(|source| source.downcast_ref::<std::io::Error>()) {
        Some(error) => RelayOutcome::broken(RelaySide::Target, error),
        None => RelayOutcome::Broken(RelaySide::Target, error.to_string()),
    }
}
