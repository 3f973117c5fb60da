//! A response with a part of a remote file.

use std::ops::Range;

use bytes::Bytes;
use haul_net::FetchResponse;

use crate::get::AttemptError;
use crate::response::{RequestFailure, UnusableResponse};

#[derive(Debug)]
pub(super) struct PartResponse {
    response: FetchResponse,
    /// Bytes of its range that are still to come.
    missing: u64,
    /// Bytes of its range that came.
    brought: u64,
    /// Whether more came than its head announced.
    has_surplus: bool,
}

impl PartResponse {
    /// A response whose head announces this range.
    pub(super) fn new(response: FetchResponse, range: &Range<u64>) -> Self {
        Self {
            response,
            missing: range.end - range.start,
            brought: 0,
            has_surplus: false,
        }
    }

    /// Bytes of its range that are still to come.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// Bytes of its range that came.
    pub(super) fn brought(&self) -> u64 {
        self.brought
    }

    /// The next bytes of the range, of which some are missing. Cancel safe.
    ///
    /// # Errors
    /// The body broke off, or ended too early.
    pub(super) async fn next_chunk(&mut self) -> Result<Bytes, Box<AttemptError>> {
        match self.response.chunk().await {
            Ok(Some(mut chunk)) => {
                if chunk.len() as u64 > self.missing {
                    // These bytes are not bytes of the file (row A11).
                    chunk.truncate(usize::try_from(self.missing).unwrap_or(usize::MAX));
                    self.has_surplus = true;
                }
                self.missing -= chunk.len() as u64;
                self.brought += chunk.len() as u64;
                Ok(chunk)
            }
            Ok(None) => {
                let failure = RequestFailure::Unusable(UnusableResponse::TruncatedBody {
                    received: self.brought,
                    length: self.brought + self.missing,
                });
                Err(self.error(failure))
            }
            Err(error) => {
                let url = error.url().clone();
                Err(AttemptError::transport(error, true, &url, None))
            }
        }
    }

    /// The error of a response that cannot be used.
    pub(super) fn error(&self, failure: RequestFailure) -> Box<AttemptError> {
        AttemptError::response(failure, &self.response, &self.response.url)
    }

    /// Gives its connection back, if nothing follows the range.
    pub(super) async fn end(self) {
        if !self.has_surplus {
            self.response.discard().await;
        }
    }
}
