//! All decisions of haul, without a socket, a file or a clock.
//!
//! Time is an argument, a [`std::time::Duration`] since the job began; so are random numbers and results of I/O. The next step is a return
//! value. So property tests and simulations in simulated time can test every decision. Other crates carry the decisions out and make none
//! of their own.
//!
//! One job uses them in this order: [`SegmentPlan::first_range`] is the range of the first request,
//! [`classify_response`] checks each response, [`SegmentPlan`] decides which worker fetches which bytes
//! next, [`ConnectionControl`] over how many connections, [`CheckpointSchedule`] when the journal records
//! what was written, and [`RecoveryPolicy`] what follows a failure, for one source and for many
//! ([`SourceSet`]). [`DownloadLimitTracker`] ends it when it goes on too slowly or for too long.
//!
//! For many jobs, [`dispatch`] decides which of them runs next, [`ContentExpectation`] whether a file is what
//! the user expects, and [`ErrorLimit`] when the batch should stop.
//!
//! A file that is read at any offset has its ranges from [`ReadAhead`].
//!
//! [`sync`] compares two trees and decides which files are copied and which deleted.
//!
//! [`serving`] has the decisions of a file server about its requests, [`tunnel`] those of a relay through
//! proxies.

mod body_framing;
mod checkpoint;
mod checksum;
mod checksum_list;
mod chunked_decoder;
mod content_coding;
mod content_expectation;
mod content_range;
mod download_limits;
mod error_page;
pub mod filename;
mod folder_listing;
mod glob;
mod http_version;
mod ipv6_zone;
mod layout;
mod link_header;
mod low_water;
pub mod metalink;
mod object_keys;
mod original_file;
mod piece_digests;
mod planted_file;
mod range_set;
mod read_ahead;
mod redirect;
mod remedy;
mod request_failure;
mod requested_wait;
mod response;
mod response_digests;
mod response_text;
mod robots_tag;
pub mod serving;
mod stream;
pub mod sync;
mod token_bucket;
pub mod tunnel;
mod unix_time;
pub mod upload;
mod validator;

pub use body_framing::{BodyFraming, FramingError};
pub use checkpoint::{CheckpointOptions, CheckpointSchedule};
pub use checksum::{
    Checksum, ChecksumError, DigestAlgorithm, S3ChecksumNames, decode_hex, hex, is_digest_name,
};
pub use checksum_list::{ChecksumList, ChecksumListError};
pub use chunked_decoder::{ChunkError, ChunkedDecoder, ChunkedPart};
pub use content_coding::ContentCoding;
pub use content_expectation::{
    ContentExpectation, MediaRange, MediaRangeError, UnexpectedContent, begins_html,
};
pub use content_range::{ContentRange, ContentRangeError};
pub use download_limits::{
    DownloadLimitTracker, DownloadLimits, DownloadSample, ExceededLimit, MinRate,
};
pub use error_page::{DOCUMENT_BEGINNING, begins_other_document, is_page_for_name, may_be_page};
pub use folder_listing::{FOLDER_LISTING_LINK, is_folder_listing};
pub use glob::{Glob, GlobError, GlobProblem};
pub use http_version::{
    AlpnOffer, HttpVersionChoice, REQUESTS_PER_NEW_CONNECTION, STREAMS_BEFORE_NEXT_CONNECTION,
    http2_connections, is_long_round_trip,
};
pub use ipv6_zone::{
    join_from_peer, split_zone, split_zone_of_host, split_zone_text, with_zone, zone_of_url,
};
pub use layout::{
    AssignedPaths, PathAssignment, PathCandidate, PathLayout, PathLayoutInput, PathTemplate,
    PathTemplateError, PathTemplateProblem, RelativePathError, ResourceId, relative_path,
};
pub use link_header::{DuplicateLink, LinkHeader, parse_link_headers};
pub use low_water::low_water_mark;
pub use object_keys::{KeyFilter, KeyPathError, KeyPattern, KeyRule, path_of_key};
pub use original_file::OriginalFile;
pub use piece_digests::{PieceChecks, PieceDigests, PieceDigestsError};
pub use planted_file::may_be_planted;
pub use range_set::RangeSet;
pub use read_ahead::{READ_BLOCK_BYTES, ReadAhead, ReadStep};
pub use redirect::{RedirectError, RedirectOptions, checked_location, follow_redirect};
pub use remedy::{Remedy, TlsEndpoint, TransferTimeLimit, remedies_text};
pub use request_failure::{RequestFailure, UnusableResponse};
pub use requested_wait::{
    MIN_NOTED_WAIT, RetryAfterText, WaitText, parse_retry_after, requested_wait,
};
pub use response::{
    BytesOnDisk, RequestedContent, ResponseContent, classify_response, is_busy_status,
};
pub use response_digests::{ExpectedDigest, expected_digests, redirect_digests};
pub use response_text::{MAX_RESPONSE_TEXT, first_line_of_text};
pub use robots_tag::RobotsTagPolicy;
pub use stream::{StreamContinuation, StreamEnd, StreamPlan, StreamResponseHead};
pub use token_bucket::TokenBucket;
pub use unix_time::{UnixTime, UnixTimeError};
pub use validator::{EntityTag, EntityTagError, ResourceVersion, VersionMatch, media_type};
