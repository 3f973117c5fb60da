//! The body of a request: whether it is what the sender meant.
//!
//! [`BodyExpectations`] holds what the head announces: digests, checksums, lengths, trailers.
//! [`AwsChunkedDecoder`] takes the chunks of aws-chunked apart, and [`BodyVerifier`] hashes the
//! bytes and compares them in the end. The service puts these around the body of a request.
//! `algorithms` has S3's names of checksums.

mod algorithms;
mod aws_chunked;
mod expectations;
mod verifier;

pub(crate) use algorithms::{
    checksum_algorithm_of_name, checksum_element, checksum_field, checksum_name,
};
pub(crate) use aws_chunked::{AwsChunkedDecoder, TrailerField};
pub(super) use expectations::checksum_in_header;
pub(crate) use expectations::{AnnouncedChecksum, BodyExpectations, stored_content_encoding};
pub(crate) use verifier::{BodyDigests, BodyVerifier};
