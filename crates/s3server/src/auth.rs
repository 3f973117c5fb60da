//! Signature Version 4 of a request: who sent it.
//!
//! [`S3Authenticator`] takes a request's head as it was received, and finds the access key that
//! signed it (S3 API reference, "Authenticating Requests"). It refuses what S3 refuses, with S3's
//! codes. `credential` parses where the signature is, `canonical_request` builds what is signed,
//! `query` decodes the query, `payload` says how the body is signed, and `chunk_signatures`
//! continues the signature over the chunks of the body. The clock is an argument.

mod amz_date;
mod authenticator;
mod canonical_request;
mod chunk_signatures;
mod credential;
mod payload;
mod query;
#[cfg(test)]
mod tests;

pub(crate) use amz_date::iso_time;
pub use authenticator::S3Authenticator;
pub(crate) use authenticator::{S3AuthRequest, S3Authentication};
pub(crate) use chunk_signatures::ChunkSignatures;
pub(crate) use payload::{PayloadMode, StreamingPayload};
pub(crate) use query::{S3Query, decode_path};
#[cfg(test)]
pub(crate) use tests::published_chunked_upload;
