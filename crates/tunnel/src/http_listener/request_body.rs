//! The body of a request, which passes piece by piece from the client's connection to the next.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long a body that its client holds back waits for the server's 100 Continue. Old servers send none; curl waits as long.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);

/// The body of a request. When it is first polled, hyper sends 100 Continue to a client that waits for it.
pub(super) struct ForwardRequestBody {
    incoming: Option<Incoming>,
    /// Ready when the body may be sent.
    go_ahead: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl ForwardRequestBody {
    pub(super) fn empty() -> Self {
        Self {
            incoming: None,
            go_ahead: None,
        }
    }

    pub(super) fn new(incoming: Incoming) -> Self {
        Self {
            incoming: Some(incoming),
            go_ahead: None,
        }
    }

    /// A body that is not sent before the server says 100 Continue, for which `go_ahead` is notified.
    pub(super) fn with_go_ahead(incoming: Incoming, go_ahead: Arc<Notify>) -> Self {
        let go_ahead = async move {
            let _ = timeout(CONTINUE_TIMEOUT, go_ahead.notified()).await;
        };
        Self {
            incoming: Some(incoming),
            go_ahead: Some(Box::pin(go_ahead)),
        }
    }
}

impl Body for ForwardRequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(go_ahead) = &mut self.go_ahead {
            ready!(go_ahead.as_mut().poll(cx));
            self.go_ahead = None;
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
