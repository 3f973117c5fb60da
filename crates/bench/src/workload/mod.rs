//! Workloads: what is done in a cell of an experiment, once, and what was measured of it.
//!
//! [`transfer`] moves files with haul's own engine.

pub mod transfer;

use std::io;
use std::path::PathBuf;

use crate::cell::LevelError;
use crate::load::LoadError;
use crate::servers::ServerError;

/// Why a cell cannot be measured. Failures of single requests and files are counted in the measurement, and are no such error.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A level that its factor does not have.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// A server of ours.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The load generator.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The settings of connections to the server.
    #[error(transparent)]
    Settings(#[from] haul_s3::S3ConfigError),
    /// A bucket of the user cannot be prepared, or cleaned afterwards.
    #[error("cannot {action} {place}: {cause}")]
    Bucket {
        /// What was tried.
        action: &'static str,
        /// The bucket and the prefix of our objects.
        place: String,
        /// Why it failed.
        cause: String,
    },
    /// This machine's disk.
    #[error("cannot {action} {}", path.display())]
    LocalIo {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It was stopped.
    #[error("interrupted")]
    Interrupted,
}
