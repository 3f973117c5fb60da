//! The body of a request: whether it is what the sender meant.
//!
//! [`BodyExpectations`] holds what the head announces: digests, checksums, lengths, trailers.
//! [`AwsChunkedDecoder`] takes the chunks of aws-chunked apart, and [`BodyVerifier`] hashes the
//! bytes and compares them in the end. [`S3BodySource`] puts these around the body of a request:
//! an upload reads decoded bytes from it, and the end of a body that is wrong is an error, so
//! nothing of it is committed. `algorithms` has S3's names of checksums.

mod algorithms;
mod aws_chunked;
mod expectations;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the operations read bodies through it")
)]
mod source;
mod verifier;

pub use algorithms::{checksum_algorithm_of_name, checksum_element, checksum_field, checksum_name};
pub use aws_chunked::{AwsChunkedDecoder, TrailerField};
pub use expectations::{AnnouncedChecksum, BodyExpectations, stored_content_encoding};
pub(crate) use source::{S3BodyOutcome, S3BodySource, body_failure};
pub use verifier::{BodyDigests, BodyVerifier};
