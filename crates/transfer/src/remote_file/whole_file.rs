//! Files that are read whole: their server has no ranges, or nothing tells their versions apart, so one response has to bring all of it.

use bytes::{Bytes, BytesMut};
use haul_net::FetchResponse;

use super::read_ahead::ReadAhead;
use super::source::RemoteFileSource;
use crate::error::{GetError, NetworkError};
use crate::get::AttemptError;
use crate::response::{RequestFailure, ResponseContent, UnusableResponse};

/// The largest file that is read whole. A program may have many of them open.
const MAX_IN_MEMORY: u64 = 64 << 20;

/// A response that may bring all of a file.
pub(super) struct WholeResponse {
    pub(super) response: FetchResponse,
    pub(super) content: ResponseContent,
}

/// Reads a file into memory, all of it from one response.
///
/// # Errors
/// [`NetworkError::NoRandomAccess`] for one that is too large; else the error of the last request.
pub(super) async fn read_whole(
    source: &mut RemoteFileSource,
    first: WholeResponse,
) -> Result<Bytes, GetError> {
    let mut reason = "its origin has no ranges";
    let mut next = Some(first);
    loop {
        let WholeResponse { response, content } = match next.take() {
            Some(first) => first,
            None => {
                let (response, content) = source.request(ReadAhead::FIRST_REQUEST).await?;
                WholeResponse { response, content }
            }
        };
        let length = match content {
            ResponseContent::NotModified => unreachable!("no condition was sent"),
            ResponseContent::Empty { .. } => Some(0),
            ResponseContent::Part { range, total, .. } if range == (0..total) => Some(total),
            ResponseContent::Part { total, .. } => {
                reason = "its origin sends neither ETag nor Last-Modified";
                check_length(source, total, reason)?;
                response.discard().await;
                source.give_up_ranges();
                continue;
            }
            ResponseContent::Whole {
                coding: Some(coding),
                ..
            } => {
                let failure = RequestFailure::Unusable(UnusableResponse::Encoded(coding));
                let url = source.location();
                return Err(AttemptError::response(failure, &response, &url).error);
            }
            ResponseContent::Whole { length, .. } => length,
        };
        check_length(source, length.unwrap_or(0), reason)?;
        let body = WholeBody {
            response,
            length,
            reason,
        };
        match body.read(source).await {
            Ok(bytes) => return Ok(bytes),
            // None of its bytes is kept.
            Err(error) => source.recover(*error, 0).await?,
        }
    }
}

/// A response with all of a file.
struct WholeBody {
    response: FetchResponse,
    /// Its bytes, if its head says so.
    length: Option<u64>,
    /// Why it has to be read whole.
    reason: &'static str,
}

impl WholeBody {
    async fn read(mut self, source: &RemoteFileSource) -> Result<Bytes, Box<AttemptError>> {
        let mut bytes = BytesMut::new();
        loop {
            let received = bytes.len() as u64;
            let missing = self.length.map(|length| length.saturating_sub(received));
            let chunk = source.unless_stopped(self.response.chunk()).await;
            let chunk = match chunk.map_err(AttemptError::without_recovery)? {
                Ok(Some(chunk)) => chunk,
                Ok(None) => match (self.length, missing) {
                    (Some(length), Some(1..)) => {
                        let truncated = UnusableResponse::TruncatedBody { received, length };
                        let failure = RequestFailure::Unusable(truncated);
                        let url = source.location();
                        return Err(AttemptError::response(failure, &self.response, &url));
                    }
                    _ => {
                        self.response.recycle();
                        return Ok(bytes.freeze());
                    }
                },
                Err(error) => {
                    let url = source.location();
                    return Err(AttemptError::transport(error, true, &url, None));
                }
            };
            // Bytes beyond the announced length are not bytes of the file (row A11).
            let most = missing.and_then(|missing| usize::try_from(missing).ok());
            let kept = chunk.slice(..most.unwrap_or(usize::MAX).min(chunk.len()));
            let length = received + kept.len() as u64;
            check_length(source, length, self.reason).map_err(AttemptError::without_recovery)?;
            bytes.extend_from_slice(&kept);
            if kept.len() < chunk.len() {
                return Ok(bytes.freeze());
            }
        }
    }
}

fn check_length(
    source: &RemoteFileSource,
    length: u64,
    reason: &'static str,
) -> Result<(), GetError> {
    if length <= MAX_IN_MEMORY {
        return Ok(());
    }
    Err(GetError::network(
        source.location(),
        NetworkError::NoRandomAccess {
            reason,
            limit: MAX_IN_MEMORY,
        },
    ))
}
