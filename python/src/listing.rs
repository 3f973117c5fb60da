//! `list`: the objects of a store, page by page.

use std::time::UNIX_EPOCH;

use haul_s3::{ListedObject, S3Address};
use haul_transfer::bucket::{KeyPattern, ListingPage, ObjectListing};
use pyo3::prelude::*;

use crate::engine::Engine;
use crate::errors::HaulError;
use crate::object_names::{FilterArguments, object_address};
use crate::running::{RunningTask, TaskContext};

/// Pages of up to a thousand objects that may wait for Python.
const PAGES: usize = 4;

/// The arguments of a list.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ListArguments {
    url: String,
    recursive: bool,
    glob: bool,
    filter: FilterArguments,
}

/// Address, key, size, entity tag, seconds since 1970, storage class. A folder has its address and key alone.
type ListedRow = (
    String,
    String,
    Option<u64>,
    Option<String>,
    Option<f64>,
    Option<String>,
);

/// A running list.
#[pyclass(frozen, module = "haul._haul")]
pub(crate) struct ListHandle(RunningTask<Vec<ListedRow>>);

#[pymethods]
impl Engine {
    /// Starts a list.
    fn list(&self, arguments: ListArguments) -> PyResult<ListHandle> {
        let address = object_address("url", &arguments.url)?;
        let is_pattern = arguments.glob && KeyPattern::is_pattern(&address.key);
        if arguments.filter.is_given() && !arguments.recursive {
            let text = "include and exclude: they choose among what is below a folder";
            return Err(HaulError::usage(text)
                .with_hint("add recursive=True")
                .into());
        }
        let task = RunningTask::start(&self.state, PAGES, |context| async move {
            let session = context.session(true).await?;
            let (is_recursive, filter) = (arguments.recursive, arguments.filter.filter());
            let listing =
                ObjectListing::start(&session, &address, is_pattern, is_recursive, filter);
            list(&context, &address, listing).await
        })?;
        Ok(ListHandle(task))
    }
}

async fn list(
    context: &TaskContext<Vec<ListedRow>>,
    address: &S3Address,
    mut listing: ObjectListing,
) -> Result<(), HaulError> {
    loop {
        let page = listing
            .next_page()
            .await
            .map_err(|error| HaulError::of_bucket(&error, Some(address.to_string())))?;
        let Some(ListingPage { folders, objects }) = page else {
            return Ok(());
        };
        let folders = folders.into_iter().map(|key| {
            let url = address.with_key(&*key).to_string();
            (url, key, None, None, None, None)
        });
        let objects = objects.into_iter().map(|object| row(address, object));
        context.send(folders.chain(objects).collect()).await;
    }
}

fn row(address: &S3Address, object: ListedObject) -> ListedRow {
    let modified = object.modified().and_then(|time| {
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        Some(since.as_secs_f64())
    });
    (
        address.with_key(&*object.key).to_string(),
        object.key,
        Some(object.size),
        Some(object.etag),
        modified,
        Some(object.storage_class),
    )
}

#[pymethods]
impl ListHandle {
    /// A page that has come, after waiting for it for so many seconds at most. `None` when there will be no more.
    fn next_page(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<Vec<ListedRow>>> {
        let pages = py.detach(|| self.0.receive(1, seconds))?;
        Ok(pages.map(|pages| pages.into_iter().flatten().collect()))
    }

    fn cancel(&self) {
        self.0.cancel();
    }
}
