//! The signatures of an aws-chunked body: each covers the one before it, the first the request's
//! (S3 API reference, "Transferring Payload in Multiple Chunks", "Including Trailing Headers").

use haul_digest::hex;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::{S3ErrorCode, S3Failure, S3SigningKey};

/// The SHA-256 of nothing, which a chunk's signed text has in the place of its header.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Verifies the signatures of the chunks and of the trailer, in their order.
#[derive(Debug)]
pub(crate) struct ChunkSignatures {
    key: S3SigningKey,
    /// The time of the request, as it is signed.
    date: String,
    /// `YYYYMMDD/REGION/s3/aws4_request`.
    scope: String,
    /// The signature before: at first the request's.
    previous: String,
}

impl ChunkSignatures {
    /// Continues the signature of a request.
    pub(super) fn new(key: S3SigningKey, date: String, scope: String, seed: String) -> Self {
        Self {
            key,
            date,
            scope,
            previous: seed,
        }
    }

    /// Verifies the signature of the next chunk.
    ///
    /// # Errors
    /// `SignatureDoesNotMatch`.
    pub(crate) fn verify_chunk(&mut self, sha256: &[u8], signature: &str) -> Result<(), S3Failure> {
        let payload = format!("{EMPTY_SHA256}\n{}", hex(sha256));
        self.verify("AWS4-HMAC-SHA256-PAYLOAD", &payload, signature)
    }

    /// Verifies the signature of the trailer, whose fields are written `name:value` LF, sorted by
    /// their names.
    ///
    /// # Errors
    /// `SignatureDoesNotMatch`.
    pub(crate) fn verify_trailer(
        &mut self,
        fields: &str,
        signature: &str,
    ) -> Result<(), S3Failure> {
        let payload = hex(&Sha256::digest(fields.as_bytes()));
        self.verify("AWS4-HMAC-SHA256-TRAILER", &payload, signature)
    }

    fn verify(&mut self, kind: &str, payload: &str, signature: &str) -> Result<(), S3Failure> {
        let (date, scope, previous) = (&self.date, &self.scope, &self.previous);
        let text = format!("{kind}\n{date}\n{scope}\n{previous}\n{payload}");
        let expected = self.key.sign(text.as_bytes());
        if bool::from(expected.as_bytes().ct_eq(signature.as_bytes())) {
            self.previous = expected;
            Ok(())
        } else {
            Err(S3ErrorCode::SignatureDoesNotMatch.into())
        }
    }
}
