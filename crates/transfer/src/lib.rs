//! The download engine: fetches resources over HTTP and writes them to files. A wrong or partial file never gets the final
//! name.
//!
//! [`TransferEngine`] takes a [`DownloadJob`], returns a [`DownloadOutcome`], and reports progress as [`TransferEvent`]s.
//! The crate `plan` decides, `net` fetches, and this crate writes: partial files and their journals ([`disk`], [`journal`]),
//! digests, the final rename. It is also the one layer that retries. A batch records the result of each job in a
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
mod folder_walk;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod get;
mod input_error;
mod job_end;
mod job_sources;
pub mod journal;
pub mod list;
pub mod manifest;
mod options;
pub mod put;
mod recovery;
mod remote_file;
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
    ConnectionReport, DownloadHandle, DownloadSnapshot, RequestSnapshot, SourceSnapshot,
    TransferEngine,
};
pub use input_error::InputError;
pub use job_end::{DownloadEnd, UploadEnd};
pub use job_sources::{BucketListFailures, IgnoredListOptions, JobSource, JobSources};
pub use options::{
    ConnectionCount, DownloadJob, DownloadOutcome, ExistingFilePolicy, GetOptions, JobOutput,
    default_state_directory,
};
pub use recovery::{RefusalReach, RequestRetries, RetryOptions};
pub use remote_file::{RemoteFile, RemoteFileMetadata};
pub use warning::TransferWarning;
