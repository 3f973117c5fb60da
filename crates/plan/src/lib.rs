//! Decisions that several crates share, without a socket, a file or a clock. What one crate alone decides is a pure module of that crate.
//!
//! Time is an argument, a [`std::time::Duration`] since the job began; so are random numbers and results of I/O. The next step is a return
//! value. So property tests and simulations in simulated time can test every decision. Other crates carry the decisions out.
//!
//! For both ends of HTTP: versions of a resource and their validators ([`ResourceVersion`], [`EntityTag`]), digests ([`Checksum`],
//! [`expected_digests`]), how a body ends ([`BodyFraming`], [`ChunkedDecoder`]), [requested waits](requested_wait()), zones of IPv6 addresses,
//! rates ([`TokenBucket`]). [`serving`] has the decisions of a file server about its requests that its dialects share. [`Remedy`] is what a
//! user can do about an error.

mod body_framing;
mod checksum;
mod chunked_decoder;
mod folder_listing;
mod http_version;
mod ipv6_zone;
mod original_file;
mod planted_file;
mod remedy;
mod requested_wait;
mod response_digests;
pub mod serving;
mod token_bucket;
mod unix_time;
pub mod upload;
mod validator;

pub use body_framing::{BodyFraming, FramingError, content_length, printable};
pub use checksum::{
    Checksum, ChecksumError, DigestAlgorithm, S3ChecksumNames, decode_hex, hex, is_digest_name,
};
pub use chunked_decoder::{ChunkError, ChunkedDecoder, ChunkedPart};
pub use folder_listing::{FOLDER_LISTING_LINK, is_folder_listing};
pub use http_version::{
    AlpnOffer, HttpVersionChoice, REQUESTS_PER_NEW_CONNECTION, STREAMS_BEFORE_NEXT_CONNECTION,
    http2_connections, is_long_round_trip,
};
pub use ipv6_zone::{
    join_from_peer, split_zone, split_zone_of_host, split_zone_text, with_zone, zone_of_url,
};
pub use original_file::OriginalFile;
pub use planted_file::may_be_planted;
pub use remedy::{Remedy, TlsEndpoint, TransferTimeLimit, remedies_text};
pub use requested_wait::{
    MIN_NOTED_WAIT, RetryAfterText, WaitText, parse_retry_after, requested_wait,
};
pub use response_digests::{ExpectedDigest, expected_digests, redirect_digests};
pub use token_bucket::TokenBucket;
pub use unix_time::{UnixTime, UnixTimeError};
pub use validator::{EntityTag, EntityTagError, ResourceVersion, VersionMatch, media_type};
