//! Workloads: what is done in a cell of an experiment, once, and what was measured of it.
//!
//! [`requests`] sends many requests with the load generator, [`transfer`] moves files with haul's own engine.

pub mod requests;
pub mod transfer;

use std::io;
use std::path::PathBuf;

use crate::Cell;
use crate::cell::LevelError;
use crate::experiment::WorkloadKind;
use crate::load::LoadError;
use crate::servers::ServerError;

/// Why a cell cannot be measured. Failures of single requests and files are counted in the measurement, and are no such error.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A level that its factor does not have.
    #[error(transparent)]
    Level(#[from] LevelError),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The settings of connections to the server.
    #[error(transparent)]
    Settings(#[from] haul_s3::S3ConfigError),
    /// Files of ours cannot be stored on a server, or removed from it.
    #[error("cannot {action} {place}: {cause}")]
    Store {
        /// What was tried.
        action: &'static str,
        /// Where they are.
        place: String,
        /// Why it failed.
        cause: String,
    },
    /// This machine's disk.
    #[error("cannot {action} {}", path.display())]
    LocalIo {
        /// What was tried.
        action: &'static str,
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// TLS with our own servers.
    #[error(transparent)]
    Tls(#[from] haul_net::TlsConfigError),
    /// It was stopped, and no request had succeeded by then.
    #[error("nothing but failures: {0}")]
    OnlyFailures(String),
    #[error("interrupted")]
    Interrupted,
}

/// Checks that a workload has a factor, and the factor a level.
///
/// # Errors
/// What is wrong, for whoever wrote the experiment.
pub(crate) fn check_level(workload: WorkloadKind, factor: &str, level: &str) -> Result<(), String> {
    let (name, factors) = match workload {
        WorkloadKind::Requests => ("requests", requests::FACTORS),
        WorkloadKind::Transfer => ("transfer", transfer::FACTORS),
    };
    if !factors.split(", ").any(|known| known == factor) {
        return Err(format!(
            "the workload {name} has no factor {factor:?}, but {factors}"
        ));
    }
    let cell = Cell::new([(factor, level)]);
    let checked = match workload {
        WorkloadKind::Requests => requests::RequestsCell::parse(&cell).map(drop),
        WorkloadKind::Transfer => transfer::TransferCell::parse(&cell).map(drop),
    };
    checked.map_err(|error| error.to_string())
}
