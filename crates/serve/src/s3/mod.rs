//! The S3 dialect: the same files, as objects in buckets, for clients of S3.
//!
//! This half decides who sent a request, and whether its body is what the sender meant:
//!
//! - `keys`: the access keys and what each may do.
//! - `auth`: [`S3Authenticator`] verifies the signature of a request, in its header or its query.
//! - `body`: decodes and checks the body while it arrives: aws-chunked, digests, checksums.
//! - `xml`: reads the documents of requests, and writes those of responses.
//! - `error`: [`S3Failure`], the error that all of it returns, and its document.
//!
//! A request passes them in this order:
//!
//! 1. [`S3Query::parse`] decodes the query, [`decode_path`] the path, and
//!    [`S3Authenticator::authenticate`] finds the sender. An anonymous request gets its mode from
//!    [`PayloadMode::anonymous`], if it is let in at all.
//! 2. [`S3Permissions::allows`] is asked for each bucket that the operation touches.
//! 3. [`S3Query::with_moved_fields`] adds the fields that a presigned URL carries. From here on
//!    they are the request's fields.
//! 4. [`BodyExpectations::parse`] reads what the head says about the body. Up to here nothing of
//!    the body was asked for.
//! 5. `S3BodySource` is read in the place of the body. At its end its outcome has the digests.

mod auth;
mod body;
mod error;
mod keys;
pub mod xml;

pub use auth::{
    ChunkSignatures, PayloadMode, S3AuthRequest, S3Authentication, S3Authenticator, S3Identity,
    S3Query, StreamingPayload, decode_path,
};
pub use body::{
    AnnouncedChecksum, AwsChunkedDecoder, BodyDigests, BodyExpectations, BodyVerifier,
    TrailerField, checksum_algorithm_of_name, checksum_element, checksum_field, checksum_name,
    stored_content_encoding,
};
#[expect(unused_imports, reason = "the operations read bodies through these")]
pub(crate) use body::{S3BodyOutcome, S3BodySource, body_failure};
pub use error::{S3ErrorCode, S3Failure, S3ResponseIds};
pub use keys::{
    S3AccessKey, S3KeyRule, S3KeyRuleError, S3KeyScope, S3Keys, S3KeysError, S3Permissions,
    S3SigningKey,
};
