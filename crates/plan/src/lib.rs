//! Everything that decides, without a socket, a file or a clock.
//!
//! Time comes in as a [`std::time::Duration`] since the job began, randomness as a number, outcomes as arguments; what
//! to do next goes out as a value. That is what lets every decision be proved by properties and by simulation in
//! simulated time. The crates that do things carry these decisions out and make none of their own.
//!
//! One job's decisions meet in this order: [`SegmentPlan::first_range`] says what the first request asks for,
//! [`judge`] what each answer means, [`SegmentPlan`] who fetches which bytes next, [`ConnectionControl`] over how many
//! connections, [`CheckpointClock`] when what came is written down, and [`FailurePolicy`] what follows a failure. Where a file can be had in several
//! places, [`SourceSet`] says which of them is asked.
//!
//! Many jobs' meet in [`dispatch`]: which of them runs next. [`ContentExpectation`] says whether what came is what was meant, and
//! [`ErrorLimit`] when going on is of no use.
//!
//! The other side of the wire is [`serving`]: what a request asks of a file server. [`tunnel`] is what stands between.

mod answer;
mod bucket;
mod checkpoint;
mod checksum;
mod content_range;
mod control;
mod course;
mod denials;
mod digest_field;
pub mod dispatch;
mod error_limit;
mod expect;
pub mod filename;
mod glob;
mod http_version;
mod layout;
mod link_field;
mod low_water;
pub mod metalink;
mod mirrors;
mod pieces;
mod ranges;
mod redirect;
mod retry;
mod segment;
pub mod serving;
mod stream;
pub mod tunnel;
mod validator;

pub use answer::{ContentCoding, RequestedContent, ResponseRejection, ResponseVerdict, judge};
pub use bucket::TokenBucket;
pub use checkpoint::{CheckpointClock, CheckpointOptions};
pub use checksum::{Checksum, ChecksumError, DigestAlgorithm};
pub use content_range::{ContentRange, ContentRangeError};
pub use control::{
    ConnectionControl, ConnectionControlOptions, ProgressSample, RefusedConnections,
};
pub use course::{FailureContext, FailurePolicy, RecoveryAction, RequestFailure};
pub use denials::ForbiddenPolicy;
pub use digest_field::{ExpectedDigest, expected_digests};
pub use error_limit::{ErrorLimit, ErrorLimitError};
pub use expect::{ContentExpectation, MediaRange, MediaRangeError, UnexpectedContent};
pub use glob::{Glob, GlobError, GlobItem, GlobProblem};
pub use http_version::{AlpnOffer, HttpVersionChoice};
pub use layout::{
    AssignedPaths, PathAssignment, PathCandidate, PathLayout, PathLayoutInput, PathTemplate,
    PathTemplateError, PathTemplateProblem, RelativePathError, ResourceId, relative_path,
};
pub use link_field::{DuplicateLink, LinkHeader, links};
pub use low_water::low_water;
pub use mirrors::{
    IntegrityEvidence, PieceRetry, SourceContent, SourceFailure, SourceMismatch, SourceRecovery,
    SourceSet, SourceSetOptions, breaks_enough,
};
pub use pieces::{PieceChecks, PieceDigests, PieceDigestsError};
pub use ranges::RangeSet;
pub use redirect::{RedirectError, RedirectOptions, follow};
pub use retry::{RetryDecision, RetryOptions, RetryPolicy, parse_retry_after};
pub use segment::{Claim, ClaimId, ClaimRequest, ClaimTakeover, SegmentOptions, SegmentPlan};
pub use stream::{StreamContinuation, StreamEnd, StreamPlan, StreamStart};
pub use validator::{EntityTag, EntityTagError, ResourceVersion, VersionMatch};
