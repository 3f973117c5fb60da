//! Responses that are ready at once, and those that wait for the disk, a body or a password hash.
//!
//! The former need no future; the latter are boxed, so that an idle connection is small.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;

use super::error_response::ServeResponse;
use crate::connection::TrackedBody;

/// A response, now or later.
pub(super) enum ResponseFuture {
    Now(ServeResponse),
    /// The response needs something that may wait.
    Later(BoxedResponse<ServeResponse>),
}

/// A boxed future of a response.
pub(super) type BoxedResponse<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl ResponseFuture {
    /// A response that may wait.
    pub(super) fn later(response: impl Future<Output = ServeResponse> + Send + 'static) -> Self {
        Self::Later(Box::pin(response))
    }

    /// Waits for the response.
    pub(super) async fn resolve(self) -> ServeResponse {
        match self {
            Self::Now(response) => response,
            Self::Later(response) => response.await,
        }
    }
}

/// The future that hyper polls.
#[expect(
    clippy::large_enum_variant,
    reason = "it is made in place, where a box would be an allocation for each small file"
)]
pub(crate) enum ResponseFutureState {
    /// The response, until it is taken.
    Now(Option<Response<TrackedBody>>),
    /// The response needs something that may wait.
    Later(BoxedResponse<Response<TrackedBody>>),
}

impl Future for ResponseFutureState {
    type Output = Result<Response<TrackedBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(response) => response
                .take()
                .map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            Self::Later(response) => response.as_mut().poll(cx).map(Ok),
        }
    }
}
