//! Results as columns, for Arrow: bodies in one buffer in the order of the rows, and lists of the rest.

use haul_transfer::manifest::ManifestRow;
use haul_transfer::python_terms;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// Results that were collected, by the number of their row.
#[derive(Default)]
pub(crate) struct ResultColumns {
    rows: Vec<Option<CollectedRow>>,
}

struct CollectedRow {
    row: ManifestRow,
    body: Option<Vec<u8>>,
}

impl ResultColumns {
    /// Adds a result.
    pub(crate) fn add(&mut self, row: ManifestRow, body: Option<Vec<u8>>) {
        let Some(index) = row
            .line
            .and_then(|line| usize::try_from(line.checked_sub(1)?).ok())
        else {
            return;
        };
        if self.rows.len() <= index {
            self.rows.resize_with(index + 1, || None);
        }
        self.rows[index] = Some(CollectedRow { row, body });
    }

    /// The columns of so many rows. Those without a result are empty.
    pub(crate) fn into_dict(mut self, py: Python<'_>, count: usize) -> PyResult<Bound<'_, PyDict>> {
        self.rows.resize_with(count, || None);
        let dict = PyDict::new(py);
        self.set_bodies(&dict)?;
        let rows = || {
            self.rows
                .iter()
                .map(|row| row.as_ref().map(|found| &found.row))
        };
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
        Ok(dict)
    }

    /// The buffers of an Arrow array of large binaries: validity, offsets, bytes.
    fn set_bodies(&self, dict: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = dict.py();
        let bodies = || {
            self.rows
                .iter()
                .map(|row| row.as_ref().and_then(|row| row.body.as_deref()))
        };
        let mut validity = vec![0_u8; self.rows.len().div_ceil(8)];
        let mut offsets = Vec::with_capacity(8 * (self.rows.len() + 1));
        let mut end = 0_i64;
        offsets.extend(end.to_ne_bytes());
        for (index, body) in bodies().enumerate() {
            if let Some(body) = body {
                validity[index / 8] |= 1 << (index % 8);
                end += i64::try_from(body.len()).unwrap_or(i64::MAX);
            }
            offsets.extend(end.to_ne_bytes());
        }
        let total = usize::try_from(end).unwrap_or_default();
        let data = PyBytes::new_with(py, total, |mut buffer| {
            for body in bodies().flatten() {
                let (part, rest) = buffer.split_at_mut(body.len());
                part.copy_from_slice(body);
                buffer = rest;
            }
            Ok(())
        })?;
        dict.set_item("body_validity", PyBytes::new(py, &validity))?;
        dict.set_item("body_offsets", PyBytes::new(py, &offsets))?;
        dict.set_item("body_data", data)
    }
}
