//! Everything that decides, without a socket, a file or a clock.
//!
//! Time comes in as a [`std::time::Duration`] since the job began, randomness as a number, outcomes as arguments; what
//! to do next goes out as a value. That is what lets every decision be proved by properties and by simulation in
//! simulated time. The crates that do things carry these decisions out and make none of their own.
//!
//! One job's decisions meet in this order: [`SegmentPlan::first_range`] says what the first request asks for,
//! [`judge`] what each answer means, [`SegmentPlan`] who fetches which bytes next, [`ConnectionControl`] over how many
//! connections, [`CheckpointClock`] when what came is written down, and [`Course`] what follows a failure. Where a file can be had in several
//! places, [`Mirrors`] says which of them is asked.
//!
//! Many jobs' meet in [`dispatch`]: which of them runs next. [`Expectation`] says whether what came is what was meant, and
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
mod layout;
mod link_field;
mod low_water;
pub mod metalink;
mod mirrors;
mod pieces;
mod protocol;
mod ranges;
mod redirect;
mod retry;
mod segment;
pub mod serving;
mod stream;
pub mod tunnel;
mod validator;

pub use answer::{Asked, ContentCoding, Refusal, Verdict, judge};
pub use bucket::Bucket;
pub use checkpoint::{CheckpointClock, CheckpointOptions};
pub use checksum::{Algorithm, Checksum, ChecksumError};
pub use content_range::{ContentRange, ContentRangeError};
pub use control::{ConnectionControl, ControlOptions, Refused, Sample};
pub use course::{Action, Course, Standing, Trouble};
pub use denials::Denials;
pub use digest_field::{Expected, expected_digests};
pub use error_limit::{ErrorLimit, ErrorLimitError};
pub use expect::{Expectation, MediaRange, MediaRangeError, Unexpected};
pub use glob::{Glob, GlobError, GlobItem, GlobProblem};
pub use layout::{
    Candidate, Layout, PathProblem, Placed, ResourceId, Subject, Taken, Template, TemplateError,
    TemplateProblem, relative_path,
};
pub use link_field::{Duplicate, Links, links};
pub use low_water::low_water;
pub use mirrors::{
    Again, Evidence, Fate, Found, MirrorOptions, Mirrors, Mismatch, Place, breaks_enough,
};
pub use pieces::{PieceBook, Pieces, PiecesError};
pub use protocol::{Http, Offer};
pub use ranges::RangeSet;
pub use redirect::{RedirectError, RedirectOptions, follow};
pub use retry::{Decision, RetryOptions, RetryPolicy, parse_retry_after};
pub use segment::{Claim, ClaimId, Claimer, SegmentOptions, SegmentPlan, TakeOver};
pub use stream::{End, Follow, Opening, Stream};
pub use validator::{EntityTag, EntityTagError, Sameness, Version};
