//! Results as columns, for Arrow.

use haul_transfer::manifest::{JobRowState, ManifestRow};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::bodies::{SharedBodyColumn, row_index};
use crate::column_buffer::ColumnBuffer;
use crate::remedies::remedies_hint;

/// Results that were collected, each at the place of its row. Whatever can be done as they come is: at the end one thread works alone.
#[derive(Default)]
pub(crate) struct ResultColumns {
    /// None where no result came.
    states: Vec<Option<JobRowState>>,
    paths: Vec<Option<String>>,
    statuses: Vec<Option<u16>>,
    bytes: Vec<u64>,
    checksums: Vec<Option<String>>,
    attempts: Vec<u32>,
    /// Milliseconds.
    times: Vec<u64>,
    error_classes: Vec<Option<&'static str>>,
    error_texts: Vec<Option<String>>,
    shards: Vec<Option<String>>,
    offsets: Vec<Option<u64>>,
    /// The first row that failed, and its place.
    first_failure: Option<(usize, Box<ManifestRow>)>,
    bodies: SharedBodyColumn,
}

impl ResultColumns {
    /// Columns without results. The batch puts its bodies into this one.
    pub(crate) fn new(bodies: SharedBodyColumn) -> Self {
        Self {
            bodies,
            ..Self::default()
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
        if self.states.len() <= index {
            self.resize((index + 1).next_power_of_two());
        }
        self.states[index] = Some(row.state);
        self.statuses[index] = row.status;
        self.bytes[index] = row.bytes;
        let checksum = row.checksums.first();
        self.checksums[index] = checksum.map(|(algorithm, hex)| format!("{algorithm}:{hex}"));
        self.attempts[index] = row.attempts;
        self.times[index] = row.timings.total;
        (self.shards[index], self.offsets[index]) = match &row.shard {
            Some(location) => (Some(location.shard.clone()), Some(location.offset)),
            None => (None, None),
        };
        let error = row.error.as_ref();
        self.error_classes[index] = error.map(|error| error.class.name());
        self.error_texts[index] = error.map(|error| error.text.as_str().into());
        if error.is_none() {
            self.paths[index] = row.path;
            return;
        }
        self.paths[index] = None;
        // The bodies after it need not wait any more.
        self.bodies.lock().add(index, None);
        let first = self.first_failure.as_ref().map(|(first, _)| *first);
        if first.is_none_or(|first| index < first) {
            self.first_failure = Some((index, Box::new(row)));
        }
    }

    fn resize(&mut self, count: usize) {
        self.states.resize(count, None);
        self.paths.resize(count, None);
        self.statuses.resize(count, None);
        self.bytes.resize(count, 0);
        self.checksums.resize(count, None);
        self.attempts.resize(count, 0);
        self.times.resize(count, 0);
        self.error_classes.resize(count, None);
        self.error_texts.resize(count, None);
        self.shards.resize(count, None);
        self.offsets.resize(count, None);
    }

    /// The columns of so many rows, as lists, or as buffers of numbers. Those without a result are empty.
    pub(crate) fn into_dict(mut self, py: Python<'_>, count: usize) -> PyResult<Bound<'_, PyDict>> {
        self.resize(count);
        let dict = PyDict::new(py);
        // The lock is for the batch's thread, which may still run.
        let bodies = std::mem::take(&mut *self.bodies.lock());
        bodies.set_in(&dict, self.states.iter().map(Option::is_some))?;
        let names = [JobRowState::Done, JobRowState::Failed, JobRowState::Skipped]
            .map(|state| (state, PyString::new(py, state.name())));
        let name = |state: &Option<JobRowState>| {
            let state = state.unwrap_or(JobRowState::Failed);
            names
                .iter()
                .find(|(named, _)| *named == state)
                .map(|(_, name)| name)
        };
        dict.set_item("state", self.states.iter().map(name).collect::<Vec<_>>())?;
        dict.set_item("path", &self.paths)?;
        dict.set_item("status", &self.statuses)?;
        let bytes = self.bytes.iter().flat_map(|bytes| bytes.to_ne_bytes());
        dict.set_item("bytes", ColumnBuffer::new(bytes.collect()))?;
        dict.set_item("checksum", &self.checksums)?;
        let attempts = self
            .attempts
            .iter()
            .flat_map(|attempts| attempts.to_ne_bytes());
        dict.set_item("attempts", ColumnBuffer::new(attempts.collect()))?;
        let times = self.times.iter().flat_map(|time| time.to_ne_bytes());
        dict.set_item("ms", ColumnBuffer::new(times.collect()))?;
        dict.set_item("error_class", &self.error_classes)?;
        dict.set_item("error", &self.error_texts)?;
        dict.set_item("shard", &self.shards)?;
        dict.set_item("offset", &self.offsets)?;
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
        Option<String>,
        bool,
    )> {
        let (_, row) = self.first_failure.as_ref()?;
        let error = row.error.as_ref()?;
        Some((
            error.class.name(),
            &error.text,
            &error.cause,
            row.status,
            Some(row.url.as_str()).filter(|url| !url.is_empty()),
            remedies_hint(&error.remedies),
            error.is_transient,
        ))
    }
}
