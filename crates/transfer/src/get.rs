//! Downloads: from a URL to a whole file.
//!
//! [`engine`] is the face to callers, and [`handle`] that to programs which steer a job; several jobs run at once and share connections and the per-host limit. Inside, a job goes through
//! [`run`]: it claims a partial file ([`partial_claim`]), sends the first request ([`first_request`]), and runs a strategy, which ends with
//! a file whose every byte is written or with a reason to begin again ([`strategy`]). [`segmented`] fetches over several connections,
//! [`sequential`] over one, into a file or a pipe ([`stream_output`]). [`completion`] verifies the file and gives it its name. A batch
//! fetches small files with [`single_response`]. None of them decides what a failure leads to: [`recovery`](crate::recovery) does, for all
//! sources of a job ([`download_sources`]).

mod attempt_error;
mod checkpoint;
mod checkpoint_schedule;
mod completion;
mod connections_ahead;
mod content_decoder;
mod context;
mod decode_pipe;
mod destination;
mod download_limits;
mod download_monitor;
mod download_sources;
mod download_totals;
mod early_connections;
mod engine;
mod expectations;
mod expected_digests;
mod finished_file;
mod first_request;
mod gathered_chunks;
mod handle;
mod host_limits;
mod job_rate_limit;
mod low_water;
mod mirror_discovery;
mod page_check;
mod partial_claim;
mod partial_download;
mod piece_digests;
mod piece_verifier;
mod request;
mod reserved_names;
mod run;
mod segment_plan;
mod segmented;
mod sequential;
mod single_response;
mod snapshot;
mod source_recovery;
mod steering;
mod strategy;
mod strategy_choice;
mod stream_output;
mod stream_plan;
mod unsynced_ranges;

pub(crate) use attempt_error::{AttemptError, RedirectTarget, first_line, is_unreachable};
pub use checkpoint_schedule::CheckpointOptions;
pub(crate) use checkpoint_schedule::CheckpointSchedule;
pub(crate) use context::EngineState;
pub(crate) use download_limits::{DownloadLimitTracker, DownloadSample};
pub use download_limits::{DownloadLimits, ExceededLimit, MinRate};
pub use engine::TransferEngine;
pub(crate) use expected_digests::ExpectedDigests;
pub use handle::DownloadHandle;
pub(crate) use piece_digests::PieceChecks;
pub use piece_digests::{PieceDigests, PieceDigestsError};
pub(crate) use request::send;
pub(crate) use run::{DownloadStart, download};
pub(crate) use single_response::{
    HandedOverResponse, ResponseInfo, SingleResponseFetch, SingleResponseOutcome, UnnamedBody,
    WholeFile, memory_budget,
};
pub use snapshot::{ConnectionReport, DownloadSnapshot, RequestSnapshot, SourceSnapshot};

#[cfg(test)]
mod tests;
