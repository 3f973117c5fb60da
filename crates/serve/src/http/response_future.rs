//! Answers that are there at once, and those that take something that may wait: a look at the disk, an upload, a listing, a login's hash.
//!
//! The former need no future of their own; the latter are boxed, so that a connection that has nothing to do is small.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;

use super::error_response::ServeResponse;
use crate::connection::TrackedBody;

/// An answer, now or later.
pub(super) enum ResponseFuture {
    /// It is there.
    Now(ServeResponse),
    /// It takes something that may wait.
    Later(BoxedResponse<ServeResponse>),
}

/// Something that may wait.
pub(super) type BoxedResponse<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl ResponseFuture {
    /// What may wait.
    pub(super) fn later(answer: impl Future<Output = ServeResponse> + Send + 'static) -> Self {
        Self::Later(Box::pin(answer))
    }

    /// Waits for it.
    pub(super) async fn get(self) -> ServeResponse {
        match self {
            Self::Now(answer) => answer,
            Self::Later(answer) => answer.await,
        }
    }
}

/// What hyper waits for.
#[expect(
    clippy::large_enum_variant,
    reason = "it is made in place, where a box would be an allocation for each small file"
)]
pub(crate) enum ResponseFutureState {
    /// It is there; taken once.
    Now(Option<Response<TrackedBody>>),
    /// It takes something that may wait.
    Later(BoxedResponse<Response<TrackedBody>>),
}

impl Future for ResponseFutureState {
    type Output = Result<Response<TrackedBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(answer) => answer
                .take()
                .map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer))),
            Self::Later(answer) => answer.as_mut().poll(cx).map(Ok),
        }
    }
}
