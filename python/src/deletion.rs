//! `delete`: objects of a store.

use haul_transfer::ErrorClass;
use haul_transfer::bucket::{DeletionError, DeletionOptions, NamedObjects, delete_named};
use pyo3::prelude::*;

use crate::engine::Engine;
use crate::errors::{HaulError, chain_text};
use crate::file_rows::{FileRowKind, FileTask, TransferHandle};
use crate::object_names::ObjectArguments;

/// The arguments of a deletion.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct DeleteArguments {
    objects: ObjectArguments,
    max_delete: Option<u64>,
    dry_run: bool,
}

#[pymethods]
impl Engine {
    /// Starts a deletion.
    fn delete(&self, arguments: DeleteArguments) -> PyResult<TransferHandle> {
        let named = arguments.objects.named("urls")?;
        let max = arguments.max_delete;
        let kind = FileRowKind::Delete;
        Ok(TransferHandle::start(
            self,
            kind,
            arguments.dry_run,
            move |task| async move { Box::pin(delete(&task, &named, max)).await },
        )?)
    }
}

async fn delete(
    task: &FileTask,
    named: &[NamedObjects],
    max: Option<u64>,
) -> Result<(), HaulError> {
    let session = task.context.session(true).await?;
    let options = task.deletion_options();
    let engine = |events| delete_named(&session, named, max, options, events);
    match task.with_rows(engine).await {
        Ok(_) => Ok(()),
        Err(error) => Err(HaulError::of_ended_deletion(&error)),
    }
}

impl FileTask {
    /// Every key has a row.
    pub(crate) fn deletion_options(&self) -> DeletionOptions {
        DeletionOptions {
            dry_run: self.is_dry_run,
            shares_refusals: false,
        }
    }
}

impl HaulError {
    /// Why a deletion ended early.
    pub(crate) fn of_ended_deletion(error: &DeletionError) -> Self {
        match error {
            DeletionError::Store(error) => Self::of_bucket(error, None),
            DeletionError::Refused { .. } => Self::of_class(ErrorClass::Network, error.to_string()),
            DeletionError::List(_) => Self::of_class(ErrorClass::LocalIo, chain_text(error)),
            DeletionError::TooMany { .. } => {
                let error = Self::usage(format!("{error} (max_delete): haul deleted none"));
                error.with_hint("is the prefix correct? a larger max_delete allows this")
            }
        }
    }
}
