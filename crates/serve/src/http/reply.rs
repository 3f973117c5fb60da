//! Answers that are there at once, and those that take something that may wait: a look at the disk, an upload, a listing, a login's hash.
//!
//! The former need no future of their own; the latter are boxed, so that a connection that has nothing to do is small.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;

use super::answer::Answer;
use crate::conn::Watched;

/// An answer, now or later.
pub(super) enum Reply {
    /// It is there.
    Now(Answer),
    /// It takes something that may wait.
    Later(Later<Answer>),
}

/// Something that may wait.
pub(super) type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Reply {
    /// What may wait.
    pub(super) fn later(answer: impl Future<Output = Answer> + Send + 'static) -> Self {
        Self::Later(Box::pin(answer))
    }

    /// Waits for it.
    pub(super) async fn get(self) -> Answer {
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
pub(crate) enum Answering {
    /// It is there; taken once.
    Now(Option<Response<Watched>>),
    /// It takes something that may wait.
    Later(Later<Response<Watched>>),
}

impl Future for Answering {
    type Output = Result<Response<Watched>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Now(answer) => answer
                .take()
                .map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer))),
            Self::Later(answer) => answer.as_mut().poll(cx).map(Ok),
        }
    }
}
