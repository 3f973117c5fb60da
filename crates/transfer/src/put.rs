//! Uploads: to S3 in parts, several at a time, resumed after an interruption, verified end to end; to other servers by one PUT.
//!
//! [`UploadEngine::put`] stores one file or stream. `part_plan` decides how a file is divided, `kept_parts` what an earlier run's parts are worth;
//! [`haul_s3::S3Client`] sends; this module reads, checks, remembers and retries.
//!
//! A file's bytes are read twice: for the checksum that goes out in the header of a part, and when the part is sent. So no part is in
//! memory, whatever its size, and the store refuses bytes that changed in between. The file's size, time and inode must be the same at the
//! end as at the beginning; else nothing is published. What the store computed of the whole object is compared with what was read.
//!
//! [`UploadBatch`] runs many uploads, which [`UploadJobSource`] brings: [`FileJobs`] of files and folders, [`CopyJobs`]
//! of objects. [`UnfinishedUploads`] removes what earlier runs have left at the store.
//!
//! `file_part` is a range of a file as a request's body, `slots` says how many requests are under way over all files, `journal` remembers
//! the parts that the store has, `multipart` and `single_request` send one file, `stream` standard input; `object_copy`
//! lets the store copy an object, `http_put` stores a file under a URL. `context` is what all of these use, `engine` what a caller sees.

mod batch;
mod context;
mod copy_jobs;
mod engine;
mod error;
mod expected_object;
mod file_jobs;
mod file_part;
mod http_put;
mod job_source;
mod journal;
mod kept_parts;
mod multipart;
mod multipart_requests;
mod object_copy;
mod object_headers;
mod options;
mod part_plan;
mod single_request;
mod slots;
mod stream;
mod unfinished;
mod upload_row;

pub use batch::{UploadBatch, UploadSummary};
pub use copy_jobs::{CopyJobs, CopySettings, CopyTargetError};
pub use engine::UploadEngine;
pub use error::PutError;
pub use file_jobs::{FileJobSettings, FileJobs, LeftOutCounts, PathList};
pub use job_source::{FoundUpload, UploadJobSource};
#[cfg(feature = "fuzzing")]
pub(crate) use journal::{read_upload_journal, upload_journal_line};
pub use kept_parts::{KnownPart, kept_parts};
pub use object_headers::ObjectHeaders;
pub use options::{
    PutOptions, SourceObject, UnusableNameError, UploadInput, UploadJob, UploadOutcome,
    UploadTarget,
};
pub use part_plan::{MAX_PART_BYTES, MIN_PART_BYTES, PartPlan, PartPlanError};
pub use unfinished::UnfinishedUploads;
