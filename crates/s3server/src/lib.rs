//! The S3 dialect of the server: the files of a [`FileStore`](haul_serve::store::FileStore), as objects in buckets, for clients of S3.
//!
//! [`S3Dialect`] is what a [`FileServer`](haul_serve::FileServer) gets as its dialect. `service` carries requests out. All other modules
//! decide, without I/O, what a request asks for, who sent it, and whether its body is what the sender meant:
//!
//! - `keys`: the access keys and what each may do. It also reads them from a file.
//! - `auth`: [`S3Authenticator`] verifies the signature of a request, in its header or its query.
//! - `body`: decodes and checks the body while it arrives: aws-chunked, digests, checksums.
//! - `options`: which requests are S3's, and their buckets and keys; `operation`: what they ask for.
//! - `completion`: which parts make an object, and its entity tag and checksum; `object_checksum`: which checksum
//!   an object gets, and which one a client says it has; `copy`: what is copied.
//! - `tags`: tags of objects; `unsupported`: fields that must not be ignored.
//! - `xml`: reads the documents of requests, and writes those of responses.
//! - `error`: `S3Failure`, the error that all of it returns, and its document.
//!
//! A request passes them in this order:
//!
//! 1. `S3Query::parse` decodes the query, `decode_path` the path, and
//!    `S3Authenticator::authenticate` finds the sender. An anonymous request gets its mode from
//!    `PayloadMode::anonymous`, if it is let in at all.
//! 2. `S3Permissions::allows` is asked for each bucket that the operation touches.
//! 3. `S3Query::with_moved_fields` adds the fields that a presigned URL carries. From here on
//!    they are the request's fields.
//! 4. `BodyExpectations::parse` reads what the head says about the body. Up to here nothing of
//!    the body was asked for.
//! 5. `BodyVerifier` takes the body. The operations themselves are in `service`.

mod auth;
mod body;
mod completion;
mod copy;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod keys;
mod object_checksum;
mod operation;
mod options;
mod service;
mod tags;
mod unsupported;
mod xml;

pub use auth::S3Authenticator;
pub use keys::{S3KeyRule, S3KeyRuleError, S3KeyScope, S3Keys, S3KeysError};
pub use options::S3Options;
pub use service::S3Dialect;

#[cfg(test)]
pub(crate) use auth::published_chunked_upload;
pub(crate) use auth::{
    ChunkSignatures, PayloadMode, S3AuthRequest, S3Authentication, S3Query, StreamingPayload,
    decode_path, iso_time,
};
pub(crate) use body::{
    AnnouncedChecksum, AwsChunkedDecoder, BodyDigests, BodyExpectations, BodyVerifier,
    TrailerField, checksum_algorithm_of_name, checksum_element, checksum_field, checksum_name,
    stored_content_encoding,
};
pub(crate) use completion::{
    chosen_parts, completed_attributes, parse_part_number, without_checksums,
};
pub(crate) use copy::{
    check_copy_to_itself, copied_algorithm, copied_range, parse_copy_source, replaces,
};
pub(crate) use error::{S3ErrorCode, S3Failure, S3ResponseIds};
pub(crate) use keys::{S3Permissions, S3SigningKey};
pub(crate) use object_checksum::{
    check_object, check_part_algorithm, checksum_of_object, checksum_type, requested_algorithm,
    upload_checksum,
};
pub(crate) use operation::{BucketSetting, S3Operation};
pub(crate) use options::S3Target;
pub(crate) use tags::parse_tag_header;
pub(crate) use unsupported::check_supported;
