//! The S3 dialect of the client: addresses, credentials, signatures, operations and their XML.
//!
//! [`S3Config::connect`] makes an [`S3Client`]. Its methods are S3's operations, one request each; [`S3Client::http`] is the same
//! connections, credentials and signatures for whoever requests `s3://` URLs with ranges and bodies of its own. Bytes move over
//! `haul_net`. Nothing here retries: `transfer` does, by what [`S3Error`] says.
//!
//! Modules build on each other in this order: `address`, `endpoint`, `xml`, `error`, `checksums`; `credentials_http` and `credentials`
//! (by `aws-config`), `signature` (by `aws-sigv4`), `signer`; `client`; the operations of `objects`, `multipart` and `buckets`; `config`.

mod address;
mod buckets;
mod checksums;
mod client;
mod config;
mod credentials;
mod credentials_http;
mod endpoint;
mod error;
mod multipart;
mod objects;
mod signature;
mod signer;
mod xml;

pub use address::{
    DownloadUrlError, S3Address, S3AddressError, escaped_key, lacks_scheme, parse_download_url,
};
pub use buckets::{
    DeleteFailure, ListedBucket, ListedObject, MAX_DELETED_KEYS, ObjectListRequest, ObjectPage,
};
pub use checksums::checksum_field;
pub use client::S3Client;
pub use config::{S3Config, S3ConfigError};
pub use endpoint::AddressingStyle;
pub use error::{S3Error, S3ErrorKind, ServiceError, access_remedies, error_text};
pub use multipart::{MAX_PARTS, MultipartUpload, PendingUpload, UploadedPart};
pub use objects::{CopySource, ObjectMetadata, StoredObject};
pub use xml::{XmlNode, XmlReadError, escaped_text};
