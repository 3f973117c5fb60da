//! The body of a response: a text of our own, or one that passes piece by piece from the connection to an origin or a proxy.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::HttpSession;
use super::upstream_connection::HttpUpstream;
use crate::relay::{RelayOutcome, RelaySide};

pub(super) enum ProxyResponseBody {
    Empty,
    /// What is left of a text of our own.
    Text(Bytes),
    Upstream(Box<UpstreamBody>),
}

/// A body that is received from an origin or a proxy. Polling it drives its connection.
pub(super) struct UpstreamBody {
    incoming: Incoming,
    /// `None` when all of the body has come, or it has broken off.
    upstream: Option<HttpUpstream>,
    session: Arc<HttpSession>,
}

impl ProxyResponseBody {
    pub(super) fn text(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<UpstreamBody> for ProxyResponseBody {
    fn from(body: UpstreamBody) -> Self {
        Self::Upstream(Box::new(body))
    }
}

impl Body for ProxyResponseBody {
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
