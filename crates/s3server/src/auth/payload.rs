//! How the body of a request is signed: `x-amz-content-sha256`.

use haul_plan::Checksum;
use http::HeaderMap;

use super::ChunkSignatures;
use crate::{S3ErrorCode, S3Failure};

/// The field that says how the body is signed. A presigned URL may have it as a parameter.
pub(super) const CONTENT_SHA256: &str = "x-amz-content-sha256";

/// The value for a body that is not signed.
pub(super) const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// How the body of a request is signed, and whether it is aws-chunked.
#[derive(Debug)]
pub(crate) enum PayloadMode {
    Unsigned,
    /// By the SHA-256 of the whole body.
    Sha256([u8; 32]),
    /// The body is aws-chunked.
    Streaming(StreamingPayload),
}

/// How an aws-chunked body is signed.
#[derive(Debug)]
pub(crate) struct StreamingPayload {
    /// Verifies the signatures of the chunks; `None` for a body whose chunks have none.
    pub signatures: Option<ChunkSignatures>,
    /// Whether fields may follow the last chunk.
    pub has_trailer: bool,
}

/// The value of the field, before the signature is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeclaredPayload {
    Unsigned,
    Sha256([u8; 32]),
    Streaming { is_signed: bool, has_trailer: bool },
}

impl DeclaredPayload {
    pub(super) fn parse(value: &str) -> Result<Self, S3Failure> {
        let streaming = |is_signed, has_trailer| Self::Streaming {
            is_signed,
            has_trailer,
        };
        Ok(match value {
            UNSIGNED_PAYLOAD => Self::Unsigned,
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => streaming(false, true),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => streaming(true, false),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => streaming(true, true),
            digest => Self::Sha256(parse_sha256(digest)?),
        })
    }

    /// The mode of a signed request; `signatures` continue its signature.
    pub(super) fn with_signatures(
        self,
        signatures: impl FnOnce() -> ChunkSignatures,
    ) -> PayloadMode {
        match self {
            Self::Unsigned => PayloadMode::Unsigned,
            Self::Sha256(digest) => PayloadMode::Sha256(digest),
            Self::Streaming {
                is_signed,
                has_trailer,
            } => PayloadMode::Streaming(StreamingPayload {
                signatures: is_signed.then(signatures),
                has_trailer,
            }),
        }
    }
}

impl PayloadMode {
    /// How the body of a request without a signature is sent.
    ///
    /// # Errors
    /// The field is invalid, or wants signed chunks.
    pub(crate) fn anonymous(headers: &HeaderMap) -> Result<Self, S3Failure> {
        let Some(value) = headers.get(CONTENT_SHA256) else {
            return Ok(Self::Unsigned);
        };
        match DeclaredPayload::parse(value.to_str().unwrap_or_default())? {
            DeclaredPayload::Unsigned => Ok(Self::Unsigned),
            DeclaredPayload::Sha256(digest) => Ok(Self::Sha256(digest)),
            DeclaredPayload::Streaming {
                is_signed: false,
                has_trailer,
            } => Ok(Self::Streaming(StreamingPayload {
                signatures: None,
                has_trailer,
            })),
            DeclaredPayload::Streaming { .. } => Err(S3Failure::with_message(
                S3ErrorCode::InvalidRequest,
                "Chunks cannot be signed in a request that is not.",
            )),
        }
    }
}

/// A SHA-256 in hexadecimal.
fn parse_sha256(text: &str) -> Result<[u8; 32], S3Failure> {
    let checksum = format!("sha256:{text}").parse::<Checksum>().ok();
    let digest = checksum.and_then(|checksum| checksum.digest?.try_into().ok());
    digest.ok_or_else(|| {
        let message = "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, \
            STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, or a valid sha256 value.";
        S3Failure::invalid_argument(CONTENT_SHA256, text, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed() {
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let parsed = DeclaredPayload::parse(hex).unwrap();
        assert!(matches!(parsed, DeclaredPayload::Sha256(digest) if digest[0] == 0xe3));
        for wrong in [
            "",
            "e3b0",
            "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD",
            " UNSIGNED-PAYLOAD",
        ] {
            let code = DeclaredPayload::parse(wrong).map_err(|failure| failure.code);
            assert_eq!(code, Err(S3ErrorCode::InvalidArgument), "{wrong}");
        }
    }

    #[test]
    fn g16_an_anonymous_body_may_be_chunked_but_not_signed() {
        let mode = |value: &'static str| {
            let value = http::HeaderValue::from_static(value);
            let name = http::HeaderName::from_static(CONTENT_SHA256);
            PayloadMode::anonymous(&[(name, value)].into_iter().collect())
        };
        let none = PayloadMode::anonymous(&HeaderMap::new());
        assert!(matches!(none, Ok(PayloadMode::Unsigned)));
        let chunked = mode("STREAMING-UNSIGNED-PAYLOAD-TRAILER").unwrap();
        assert!(matches!(
            chunked,
            PayloadMode::Streaming(StreamingPayload {
                signatures: None,
                has_trailer: true
            })
        ));
        let signed = mode("STREAMING-AWS4-HMAC-SHA256-PAYLOAD").map(drop);
        let code = signed.map_err(|failure| failure.code);
        assert_eq!(code, Err(S3ErrorCode::InvalidRequest));
    }
}
