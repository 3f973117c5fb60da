//! Results as columns, for Arrow.

use haul_transfer::manifest::ManifestRow;
use haul_transfer::python_terms;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::bodies::{SharedBodyColumn, row_index};

/// Results that were collected, by the number of their row.
#[derive(Default)]
pub(crate) struct ResultColumns {
    rows: Vec<Option<ManifestRow>>,
    bodies: SharedBodyColumn,
}

impl ResultColumns {
    /// Columns without results, whose bodies come into this one.
    pub(crate) fn new(bodies: SharedBodyColumn) -> Self {
        Self {
            rows: Vec::new(),
            bodies,
        }
    }

    /// Adds results.
    pub(crate) fn extend(&mut self, rows: impl IntoIterator<Item = ManifestRow>) {
        rows.into_iter().for_each(|row| self.add(row));
    }

    fn add(&mut self, row: ManifestRow) {
        let Some(index) = row.line.and_then(row_index) else {
            return;
        };
        if row.error.is_some() {
            // The bodies after it need not wait any more.
            self.bodies.lock().add(index, None);
        }
        if self.rows.len() <= index {
            self.rows.resize_with(index + 1, || None);
        }
        self.rows[index] = Some(row);
    }

    /// The columns of so many rows. Those without a result are empty.
    pub(crate) fn into_dict(mut self, py: Python<'_>, count: usize) -> PyResult<Bound<'_, PyDict>> {
        self.rows.resize_with(count, || None);
        let dict = PyDict::new(py);
        // The lock is for the batch's thread, which may still run.
        let bodies = std::mem::take(&mut *self.bodies.lock());
        bodies.set_in(&dict, &self.rows)?;
        let rows = || self.rows.iter().map(Option::as_ref);
        let states = rows().map(|row| row.map_or("failed", |row| row.state.name()));
        dict.set_item("state", states.collect::<Vec<_>>())?;
        let paths = rows()
            .map(|row| row.and_then(|row| row.path.as_deref().filter(|_| row.error.is_none())));
        dict.set_item("path", paths.collect::<Vec<_>>())?;
        let statuses = rows().map(|row| row.and_then(|row| row.status));
        dict.set_item("status", statuses.collect::<Vec<_>>())?;
        let bytes = rows().map(|row| row.map_or(0, |row| row.bytes));
        dict.set_item("bytes", bytes.collect::<Vec<_>>())?;
        let checksums = rows().map(|row| {
            let (algorithm, hex) = row?.checksums.first()?;
            Some(format!("{algorithm}:{hex}"))
        });
        dict.set_item("checksum", checksums.collect::<Vec<_>>())?;
        let attempts = rows().map(|row| row.map_or(0, |row| row.attempts));
        dict.set_item("attempts", attempts.collect::<Vec<_>>())?;
        let times = rows().map(|row| row.map_or(0, |row| row.timings.total));
        dict.set_item("ms", times.collect::<Vec<_>>())?;
        let errors = || rows().map(|row| row.and_then(|row| row.error.as_ref()));
        let classes = errors().map(|error| error.map(|error| error.class.name()));
        dict.set_item("error_class", classes.collect::<Vec<_>>())?;
        let texts = errors().map(|error| error.map(|error| python_terms(&error.text)));
        dict.set_item("error", texts.collect::<Vec<_>>())?;
        let locations = || rows().map(|row| row.and_then(|row| row.shard.as_ref()));
        let shards = locations().map(|location| location.map(|found| found.shard.as_str()));
        dict.set_item("shard", shards.collect::<Vec<_>>())?;
        let offsets = locations().map(|location| location.map(|found| found.offset));
        dict.set_item("offset", offsets.collect::<Vec<_>>())?;
        dict.set_item("first_error", self.first_error())?;
        Ok(dict)
    }

    /// The first error, as the arguments of its exception: class, text, kind, status, URL, hint, whether a retry may help.
    #[expect(
        clippy::type_complexity,
        reason = "the arguments of a function in Python"
    )]
    fn first_error(
        &self,
    ) -> Option<(
        &str,
        &str,
        &str,
        Option<u16>,
        Option<&str>,
        Option<&str>,
        bool,
    )> {
        let mut failed = self.rows.iter().flatten();
        let (row, error) = failed.find_map(|row| Some((row, row.error.as_ref()?)))?;
        Some((
            error.class.name(),
            &error.text,
            &error.cause,
            row.status,
            Some(row.url.as_str()).filter(|url| !url.is_empty()),
            error.hint.as_deref(),
            error.is_transient,
        ))
    }
}
