//! The download engine: fetches resources over HTTP and writes them to files. A wrong or partial file never gets the final
//! name.
//!
//! [`TransferEngine`] takes a [`DownloadJob`], returns a [`DownloadOutcome`], and reports progress as [`TransferEvent`]s.
//! Pure modules decide (what other crates need, too, is in the crate `plan`), `net` fetches, and the rest of this crate writes:
//! partial files and their journals ([`disk`], [`journal`]), digests, the final rename. It is also the one layer that retries.
//!
//! One job uses the decisions in this order: `SegmentPlan::first_range` is the range of the first request, `classify_response`
//! checks each response, `SegmentPlan` decides which worker fetches which bytes next, `ConnectionControl` over how many
//! connections, `CheckpointSchedule` when the journal records what was written, and `RecoveryPolicy` what follows a failure, for
//! one source and for many (`SourceSet`). `DownloadLimitTracker` ends it when it goes on too slowly or for too long. For many
//! jobs, `JobDispatcher` decides which of them runs next, [`ContentExpectation`] whether a file is what the user expects, and
//! [`ErrorLimit`](batch::ErrorLimit) when the batch should stop.
//!
//! A batch records the result of each job in a
//! [`manifest`] and can write tar shards in place of files ([`archive`]). For programs, a body can go through a channel
//! ([`body_channel()`]), and a file be read at any offset ([`RemoteFile`]).

pub mod archive;
pub mod batch;
mod body_channel;
pub mod bucket;
mod cause;
mod checksum;
mod connection_control;
pub mod disk;
mod error;
mod event;
mod filename;
mod folder_walk;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod get;
mod glob;
mod input_error;
mod job_end;
mod job_sources;
pub mod journal;
mod layout;
pub mod list;
mod listed_version;
pub mod manifest;
pub mod metalink;
mod options;
pub mod put;
mod range_set;
mod recovery;
mod remote_file;
mod response;
mod sources;
pub mod sync;
mod warning;

pub use body_channel::{BodySender, body_channel};
pub use connection_control::ConnectionCountLimit;
pub use error::{
    ErrorClass, ErrorDocument, GetError, HostFailureKind, LocalError, NetworkError, OriginError,
    VerificationError,
};
pub use event::{RetryReason, TransferEvent, TransferEventSender};
pub use folder_walk::{FolderName, FolderProblem, FolderProblemKind, FolderWalk};
pub use get::{
    CheckpointOptions, DownloadLimits, ExceededLimit, MinRate, PieceDigests, PieceDigestsError,
};
pub use get::{
    ConnectionReport, DownloadHandle, DownloadSnapshot, RequestSnapshot, SourceSnapshot,
    TransferEngine,
};
pub use glob::{Glob, GlobError, GlobProblem};
pub use input_error::InputError;
pub use job_end::{DownloadEnd, UploadAbort, UploadEnd};
pub use job_sources::{BucketListFailures, IgnoredListOptions, JobSource, JobSources};
pub use layout::{
    PathLayout, PathLayoutInput, PathTemplate, PathTemplateError, PathTemplateProblem,
    RelativePathError, ResourceId, relative_path,
};
pub use listed_version::ListedVersion;
pub use options::{
    ConnectionCount, DownloadJob, DownloadOutcome, ExistingFilePolicy, GetOptions, JobOutput,
    default_state_directory,
};
pub use range_set::RangeSet;
pub use recovery::{RefusalReach, RequestRetries, RetryOptions};
pub use remote_file::{RemoteFile, RemoteFileMetadata};
pub use response::{
    ContentCoding, ContentExpectation, MediaRange, MediaRangeError, RobotsTagPolicy,
    UnexpectedContent, is_busy_status,
};
pub use warning::TransferWarning;
