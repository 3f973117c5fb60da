//! The extension module `haul._haul`: haul's engines for Python, and nothing that decides.
//!
//! The package `haul` in Python completes arguments, waits and names things; this crate starts transfers on threads of its own and hands
//! results over. An [`engine::Engine`] is behind each `haul.Client`. A call is an [`operation::CallHandle`], which Python waits
//! for without holding the interpreter's lock; a batch is a [`batch::BatchHandle`], which pulls its rows from Python and hands results over as they
//! come. Lists, and work on many files or objects, are [`running::RunningTask`]s.

mod batch;
mod bodies;
mod column_buffer;
mod columns;
mod deletion;
mod download;
mod engine;
mod errors;
mod file_rows;
mod growing_buffer;
mod listing;
mod log;
mod object_names;
mod operation;
mod reader;
mod remedies;
mod result_row;
mod row_queue;
mod rows;
mod running;
mod settings;
mod sync;
mod upload_arguments;
mod uploads;

// All memory of the module comes from it.
use haul_allocator as _;
use haul_plan::DigestAlgorithm;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The extension module.
#[pymodule]
mod _haul {
    #[pymodule_export]
    use crate::batch::BatchHandle;
    #[pymodule_export]
    use crate::columns::empty_columns;
    #[pymodule_export]
    use crate::download::{FileResult, UploadResult};
    #[pymodule_export]
    use crate::engine::{Engine, shut_down};
    #[pymodule_export]
    use crate::file_rows::TransferHandle;
    #[pymodule_export]
    use crate::listing::ListHandle;
    #[pymodule_export]
    use crate::log::{close_log, take_log_messages};
    #[pymodule_export]
    use crate::operation::CallHandle;
    #[pymodule_export]
    use crate::reader::{BodyChunks, RemoteReader};
    #[pymodule_export]
    use crate::result_row::ResultRow;

    use super::*;

    /// Whether a text is the name of a digest, also of one that haul does not know.
    #[pyfunction]
    fn is_digest_name(name: &str) -> bool {
        haul_plan::is_digest_name(name)
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let digests = DigestAlgorithm::ALL.map(DigestAlgorithm::name);
        module.add("digest_names", PyTuple::new(module.py(), digests)?)?;
        module.add("result_columns", columns::column_types())?;
        ResultRow::add_attributes(module.py())?;
        module.add("version", env!("CARGO_PKG_VERSION"))
    }
}
