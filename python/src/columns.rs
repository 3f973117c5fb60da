//! Results as columns, for Arrow: bodies in one buffer in the order of the rows, and lists of the rest.

use std::collections::HashMap;

use haul_transfer::manifest::ManifestRow;
use haul_transfer::python_terms;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::body_buffer::BodyBuffer;

/// Results that were collected, by the number of their row.
#[derive(Default)]
pub(crate) struct ResultColumns {
    rows: Vec<Option<ManifestRow>>,
    bodies: BodyColumn,
}

/// Bodies in the order of their rows. Each is moved to its place as soon as those before it are there, so that little is left to do at
/// the end.
#[derive(Default)]
struct BodyColumn {
    /// The rows up to here are in place.
    rows: usize,
    bytes: Vec<u8>,
    /// The end of each row's body in `bytes`, and whether there is one.
    ends: Vec<(usize, bool)>,
    /// Bodies whose turn has not come.
    early: HashMap<usize, Vec<u8>>,
}

impl BodyColumn {
    /// Adds the bodies whose turn has come.
    fn advance(&mut self, rows: &[Option<ManifestRow>]) {
        while rows.get(self.rows).is_some_and(Option::is_some) {
            self.append();
        }
    }

    /// The buffers of an Arrow array of large binaries: validity, offsets, bytes.
    fn set_in(mut self, dict: &Bound<'_, PyDict>, count: usize) -> PyResult<()> {
        while self.rows < count {
            self.append();
        }
        let py = dict.py();
        let mut validity = vec![0_u8; count.div_ceil(8)];
        let mut offsets = Vec::with_capacity(8 * (count + 1));
        offsets.extend(0_i64.to_ne_bytes());
        for (index, (end, is_there)) in self.ends.into_iter().enumerate() {
            validity[index / 8] |= u8::from(is_there) << (index % 8);
            offsets.extend((end as u64).to_ne_bytes());
        }
        dict.set_item("body_validity", PyBytes::new(py, &validity))?;
        dict.set_item("body_offsets", PyBytes::new(py, &offsets))?;
        dict.set_item("body_data", BodyBuffer::new(self.bytes))
    }

    fn append(&mut self) {
        let body = self.early.remove(&self.rows);
        self.bytes
            .extend_from_slice(body.as_deref().unwrap_or_default());
        self.ends.push((self.bytes.len(), body.is_some()));
        self.rows += 1;
    }
}

impl ResultColumns {
    /// Adds results.
    pub(crate) fn extend(&mut self, results: Vec<(ManifestRow, Option<Vec<u8>>)>) {
        for (row, body) in results {
            self.add(row, body);
        }
    }

    fn add(&mut self, row: ManifestRow, body: Option<Vec<u8>>) {
        let Some(index) = row
            .line
            .and_then(|line| usize::try_from(line.checked_sub(1)?).ok())
        else {
            return;
        };
        if self.rows.len() <= index {
            self.rows.resize_with(index + 1, || None);
        }
        self.rows[index] = Some(row);
        if let Some(body) = body {
            self.bodies.early.insert(index, body);
        }
        self.bodies.advance(&self.rows);
    }

    /// The columns of so many rows. Those without a result are empty.
    pub(crate) fn into_dict(mut self, py: Python<'_>, count: usize) -> PyResult<Bound<'_, PyDict>> {
        self.rows.resize_with(count, || None);
        let dict = PyDict::new(py);
        std::mem::take(&mut self.bodies).set_in(&dict, count)?;
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
