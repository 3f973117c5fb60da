//! What can go wrong with a report.

use std::io;
use std::path::PathBuf;

use super::charts::ChartError;
use crate::results::RESULTS_FORMAT;

/// A report that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A directory or file could not be made: no space, no permission.
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file is larger than results are.
    #[error(
        "{} is larger than 64 MiB, so it is not a results.json",
        path.display()
    )]
    TooLarge { path: PathBuf },
    /// A file holds something else, or a part of results.
    #[error(
        "{} is not a results.json, or is damaged",
        path.display()
    )]
    Parse {
        path: PathBuf,
        /// Where, and what is wrong there.
        source: serde_json::Error,
    },
    /// A file of another version.
    #[error(
        "{} has the format {found:?}, and this haul reads {RESULTS_FORMAT:?}; measure again, or read it with the haul that wrote it",
        path.display()
    )]
    Format {
        path: PathBuf,
        /// Its format.
        found: String,
    },
    /// A chart could not be drawn.
    #[error("cannot draw a chart")]
    Chart(#[from] ChartError),
}
