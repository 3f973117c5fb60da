//! The engine: moves one resource from its origin to this machine and never leaves a wrong file.
//!
//! [`TransferEngine`] takes [`DownloadJob`]s and gives [`DownloadOutcome`]s; what happens meanwhile it tells as [`TransferEvent`]s. `plan` decides, `net`
//! fetches, this crate writes: partial files and their journals ([`disk`], [`journal`]), digests, the final rename. It is
//! also the one layer that tries again. Of a batch there is the record of the result of each job ([`manifest`]), and tar shards in
//! place of files ([`archive`]).

pub mod archive;
pub mod batch;
mod cause;
mod checksum;
pub mod disk;
mod error;
mod event;
mod get;
mod hint;
pub mod journal;
pub mod list;
pub mod manifest;
mod options;

pub use error::{ErrorClass, GetError};
pub use event::{TransferEvent, TransferEventSender};
pub use get::TransferEngine;
pub use options::{
    ConnectionCount, DownloadJob, DownloadOutcome, ExistingFilePolicy, GetOptions, JobOutput,
};
