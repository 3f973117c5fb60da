//! The body of a request as the source of an upload: decoded, hashed, and compared at its end.
//!
//! The comparison comes before the last bytes are given out, or, if it was not known that they
//! were the last, in the place of the end. So an upload that has read to the end has a body that is
//! right, and its digests are in the [`S3BodyOutcome`] by then. One that is wrong is an
//! [`UploadError::Broken`] around an [`S3Failure`]; [`body_failure`] takes it out again.
//!
//! Hashing runs where the body is read, while the portion before is written on another thread. A
//! client that sends faster than MD5 computes would never let go of the reactor, so the source
//! yields after each [`YIELD_AFTER`] bytes.

use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use haul_plan::DigestAlgorithm;
use haul_serve::dialect::{RequestBodyError, UploadError, UploadSource};

use crate::{
    AwsChunkedDecoder, BodyDigests, BodyExpectations, BodyVerifier, S3ErrorCode, S3Failure,
    TrailerField,
};

/// Bytes hashed without a pause for the other connections of the thread: about a millisecond.
const YIELD_AFTER: usize = 512 << 10;

#[derive(Debug)]
pub(crate) struct S3BodySource<S> {
    inner: S,
    /// `None` if the body is not aws-chunked.
    decoder: Option<AwsChunkedDecoder>,
    /// Received bytes that are not decoded yet.
    received: Bytes,
    /// The chunk after the one that is given out next.
    ahead: Option<Bytes>,
    /// `None` once the body was compared, or is known to be wrong.
    verifier: Option<BodyVerifier>,
    /// Bytes hashed since the last pause.
    hashed: usize,
    outcome: S3BodyOutcome,
}

/// The digests of a body, once it was read to its end and found right.
#[derive(Debug, Clone, Default)]
pub(crate) struct S3BodyOutcome(Arc<OnceLock<BodyDigests>>);

impl S3BodyOutcome {
    /// The digests; `None` before the end of the body.
    pub(crate) fn digests(&self) -> Option<&BodyDigests> {
        self.0.get()
    }
}

impl<S: UploadSource> S3BodySource<S> {
    /// Wraps a body. The outcome gets the digests that `expectations` need and those of `also`.
    pub(crate) fn new(
        inner: S,
        mut expectations: BodyExpectations,
        also: impl IntoIterator<Item = DigestAlgorithm>,
    ) -> (Self, S3BodyOutcome) {
        let streaming = expectations.take_streaming();
        let outcome = S3BodyOutcome::default();
        let source = Self {
            inner,
            decoder: streaming.map(|(payload, length)| AwsChunkedDecoder::new(payload, length)),
            received: Bytes::new(),
            ahead: None,
            verifier: Some(BodyVerifier::new(expectations, also)),
            hashed: 0,
            outcome: outcome.clone(),
        };
        (source, outcome)
    }

    /// Reads a whole document into memory.
    ///
    /// # Errors
    /// The body is wrong, or longer than `max_bytes`: `MaxMessageLengthExceeded`.
    pub(crate) async fn read_document(mut self, max_bytes: usize) -> Result<Bytes, S3Failure> {
        let mut document = BytesMut::new();
        while let Some(chunk) = self
            .next_chunk()
            .await
            .map_err(|error| body_failure(&error))?
        {
            if document.len() + chunk.len() > max_bytes {
                return Err(S3ErrorCode::MaxMessageLengthExceeded.into());
            }
            document.extend_from_slice(&chunk);
        }
        Ok(document.freeze())
    }

    /// The next decoded bytes of those received, hashed.
    fn decode(&mut self) -> Result<Option<Bytes>, S3Failure> {
        let decoded = match &mut self.decoder {
            Some(decoder) => decoder.decode(&mut self.received)?,
            None => Some(std::mem::take(&mut self.received)).filter(|bytes| !bytes.is_empty()),
        };
        if let (Some(decoded), Some(verifier)) = (&decoded, &mut self.verifier) {
            verifier.update(decoded);
            self.hashed += decoded.len();
        }
        Ok(decoded)
    }

    /// Compares the whole body.
    fn verify(&mut self) -> Result<(), S3Failure> {
        let Some(verifier) = self.verifier.take() else {
            return Ok(());
        };
        let trailer = match self.decoder.take() {
            Some(decoder) => decoder.finish()?,
            None => self.http_trailer(),
        };
        let digests = verifier.finish(&trailer)?;
        // It is set once: the verifier was there.
        let _ = self.outcome.0.set(digests);
        Ok(())
    }

    /// Checksums in the trailer of HTTP itself.
    fn http_trailer(&mut self) -> Vec<TrailerField> {
        let fields = self.inner.take_trailers().unwrap_or_default();
        let checksums = fields
            .iter()
            .filter(|(name, _)| name.as_str().starts_with("x-amz-checksum-"));
        checksums
            .map(|(name, value)| TrailerField {
                name: name.as_str().to_owned(),
                value: value.to_str().unwrap_or_default().to_owned(),
            })
            .collect()
    }

    async fn next_decoded(&mut self) -> Result<Option<Bytes>, UploadError> {
        loop {
            let next = match self.ahead.take() {
                Some(ahead) => Some(ahead),
                None => self.decode().map_err(broken)?,
            };
            if let Some(next) = next {
                self.ahead = self.decode().map_err(broken)?;
                if self.ahead.is_none() && self.inner.is_finished() {
                    self.verify().map_err(broken)?;
                }
                return Ok(Some(next));
            }
            if self.verifier.is_none() {
                return match self.outcome.digests() {
                    Some(_) => Ok(None),
                    // It has failed before.
                    None => Err(broken(S3ErrorCode::IncompleteBody.into())),
                };
            }
            match self.inner.next_chunk().await? {
                Some(received) => self.received = received,
                None => self.verify().map_err(broken)?,
            }
        }
    }
}

impl<S: UploadSource> UploadSource for S3BodySource<S> {
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, UploadError> {
        if self.hashed >= YIELD_AFTER {
            self.hashed = 0;
            tokio::task::yield_now().await;
        }
        let next = self.next_decoded().await;
        if next.is_err() {
            self.verifier = None;
            self.decoder = None;
            self.received.clear();
            self.ahead = None;
        }
        next
    }

    fn is_finished(&self) -> bool {
        self.outcome.digests().is_some() && self.ahead.is_none()
    }
}

fn broken(failure: S3Failure) -> UploadError {
    UploadError::Broken(Box::new(failure))
}

/// Why a body could not be read, or was not what it should be. Errors of the store are for the
/// caller, who knows what was stored.
pub(crate) fn body_failure(error: &UploadError) -> S3Failure {
    match error {
        UploadError::Broken(error) => {
            if let Some(failure) = error.downcast_ref::<S3Failure>() {
                return failure.clone();
            }
            match error.downcast_ref::<RequestBodyError>() {
                Some(RequestBodyError::Slow) => S3ErrorCode::RequestTimeout.into(),
                _ => S3ErrorCode::IncompleteBody.into(),
            }
        }
        UploadError::TooLong => S3ErrorCode::EntityTooLarge.into(),
        UploadError::Store(_) => S3ErrorCode::InternalError.into(),
    }
}

#[cfg(test)]
mod tests;
