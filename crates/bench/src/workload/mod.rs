//! Workloads: what measures a cell. `requests` sends many requests with the load generator, `transfer` moves files with haul's own engine.

mod requests;

pub use requests::RequestsCell;

use crate::Cell;
use crate::experiment::WorkloadKind;

/// Why a cell could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A level is none of its factor's.
    #[error(transparent)]
    Level(#[from] crate::cell::LevelError),
}

/// Checks that a workload has a factor, and the factor a level.
///
/// # Errors
/// What is wrong, for whoever wrote the experiment.
pub(crate) fn check_level(workload: WorkloadKind, factor: &str, level: &str) -> Result<(), String> {
    let (name, factors) = match workload {
        WorkloadKind::Requests => ("requests", requests::FACTORS),
        WorkloadKind::Transfer => ("transfer", requests::FACTORS),
    };
    if !factors.contains(&factor) {
        let known = factors.join(", ");
        return Err(format!(
            "the workload {name} has no factor {factor:?}, but {known}"
        ));
    }
    let cell = Cell::new([(factor, level)]);
    let checked = match workload {
        WorkloadKind::Requests => RequestsCell::parse(&cell).map(drop),
        WorkloadKind::Transfer => RequestsCell::parse(&cell).map(drop),
    };
    checked.map_err(|error| error.to_string())
}
