//! Everything that decides, without a socket, a file or a clock.
//!
//! Time comes in as a [`std::time::Duration`] since the job began, randomness as a number, outcomes as arguments; what
//! to do next goes out as a value. That is what lets every decision be proved by properties and by simulation in
//! simulated time. The crates that do things carry these decisions out and make none of their own.
//!
//! One job's decisions meet in this order: [`SegmentPlan::first_range`] says what the first request asks for,
//! [`classify_response`] what each answer means, [`SegmentPlan`] who fetches which bytes next, [`ConnectionControl`] over how many
//! connections, [`CheckpointSchedule`] when what came is written down, and [`FailurePolicy`] what follows a failure. Where a file can be had in several
//! places, [`SourceSet`] says which of them is asked.
//!
//! Many jobs' meet in [`dispatch`]: which of them runs next. [`ContentExpectation`] says whether what came is what was meant, and
//! [`ErrorLimit`] when going on is of no use.
//!
//! The other side of the wire is [`serving`]: what a request asks of a file server. [`tunnel`] is what stands between.

mod checkpoint;
mod checksum;
mod connection_control;
mod content_expectation;
mod content_range;
pub mod dispatch;
mod error_limit;
mod failure_policy;
pub mod filename;
mod forbidden_policy;
mod glob;
mod http_version;
mod layout;
mod link_header;
mod low_water;
pub mod metalink;
mod piece_digests;
mod range_set;
mod redirect;
mod response;
mod response_digests;
mod retry;
mod segment;
pub mod serving;
mod sources;
mod stream;
mod token_bucket;
pub mod tunnel;
mod validator;

pub use checkpoint::{CheckpointOptions, CheckpointSchedule};
pub use checksum::{Checksum, ChecksumError, DigestAlgorithm};
pub use connection_control::{
    ConnectionControl, ConnectionControlOptions, ConnectionRefusal, ProgressSample,
};
pub use content_expectation::{ContentExpectation, MediaRange, MediaRangeError, UnexpectedContent};
pub use content_range::{ContentRange, ContentRangeError};
pub use error_limit::{ErrorLimit, ErrorLimitError};
pub use failure_policy::{FailureContext, FailurePolicy, RecoveryAction, RequestFailure};
pub use forbidden_policy::ForbiddenPolicy;
pub use glob::{Glob, GlobError, GlobProblem, GlobUrl};
pub use http_version::{AlpnOffer, HttpVersionChoice};
pub use layout::{
    AssignedPaths, PathAssignment, PathCandidate, PathLayout, PathLayoutInput, PathTemplate,
    PathTemplateError, PathTemplateProblem, RelativePathError, ResourceId, relative_path,
};
pub use link_header::{DuplicateLink, LinkHeader, parse_link_headers};
pub use low_water::low_water_mark;
pub use piece_digests::{PieceChecks, PieceDigests, PieceDigestsError};
pub use range_set::RangeSet;
pub use redirect::{RedirectError, RedirectOptions, follow_redirect};
pub use response::{
    ContentCoding, RequestedContent, ResponseVerdict, UnusableResponse, classify_response,
};
pub use response_digests::{ExpectedDigest, expected_digests};
pub use retry::{RetryBudget, RetryDecision, RetryOptions, parse_retry_after};
pub use segment::{Claim, ClaimId, ClaimRequest, ClaimTakeover, SegmentOptions, SegmentPlan};
pub use sources::{
    IntegrityEvidence, PieceRetry, SourceContent, SourceFailure, SourceMismatch, SourceRecovery,
    SourceSet, SourceSetOptions, breaks_enough,
};
pub use stream::{StreamContinuation, StreamEnd, StreamPlan, StreamStart};
pub use token_bucket::TokenBucket;
pub use validator::{EntityTag, EntityTagError, ResourceVersion, VersionMatch};
