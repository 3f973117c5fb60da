//! Results as columns, for Arrow.

use haul_transfer::manifest::{
    COLUMNS, ColumnScope, ColumnType, ColumnValue, JobRowState, ManifestColumn, ManifestRow,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::bodies::{SharedBodyColumn, row_index};
use crate::column_buffer::ColumnBuffer;
use crate::remedies::remedies_hint;
use crate::result_row::{python_name, python_value};

fn table_columns() -> impl Iterator<Item = &'static ManifestColumn> {
    COLUMNS
        .iter()
        .filter(|column| column.scope == ColumnScope::Table)
}

/// The columns of tables, with Arrow's names of their types, which are those that Spark has, too.
pub(crate) fn column_types() -> Vec<(&'static str, &'static str)> {
    let arrow_type = |column: &ManifestColumn| match column.column_type {
        ColumnType::Int32 | ColumnType::OptionalInt32 => "int32",
        ColumnType::Int64 | ColumnType::OptionalInt64 => "int64",
        ColumnType::Text | ColumnType::Texts => "string",
    };
    table_columns()
        .map(|column| (python_name(column), arrow_type(column)))
        .collect()
}

/// The columns of this many rows without results.
#[pyfunction]
pub(crate) fn empty_columns(py: Python<'_>, count: usize) -> PyResult<Bound<'_, PyDict>> {
    ResultColumns::new(SharedBodyColumn::default()).into_dict(py, count)
}

/// Results that were collected, each at the place of its row. Whatever can be done as they come is: at the end one thread works alone.
#[derive(Default)]
pub(crate) struct ResultColumns {
    /// Whether a result came.
    has_result: Vec<bool>,
    /// The values of each of [`table_columns`].
    columns: Vec<Vec<ColumnValue<'static>>>,
    /// The first row that failed, and its place.
    first_failure: Option<(usize, Box<ManifestRow>)>,
    bodies: SharedBodyColumn,
}

impl ResultColumns {
    /// Columns without results. The batch puts its bodies into this one.
    pub(crate) fn new(bodies: SharedBodyColumn) -> Self {
        Self {
            columns: table_columns().map(|_| Vec::new()).collect(),
            bodies,
            ..Self::default()
        }
    }

    pub(crate) fn extend(&mut self, rows: impl IntoIterator<Item = ManifestRow>) {
        rows.into_iter().for_each(|row| self.add(row));
    }

    fn add(&mut self, mut row: ManifestRow) {
        let Some(index) = row.line.and_then(row_index) else {
            return;
        };
        if self.has_result.len() <= index {
            self.resize((index + 1).next_power_of_two());
        }
        if row.error.is_some() {
            row.path = None;
        }
        self.has_result[index] = true;
        for (column, values) in table_columns().zip(&mut self.columns) {
            values[index] = (column.get)(&row).into_owned();
        }
        if row.error.is_none() {
            return;
        }
        // The bodies after it need not wait any more.
        self.bodies.lock().add(index, None);
        let first = self.first_failure.as_ref().map(|(first, _)| *first);
        if first.is_none_or(|first| index < first) {
            self.first_failure = Some((index, Box::new(row)));
        }
    }

    /// Rows without a result are failures without an error.
    fn resize(&mut self, count: usize) {
        let unknown = ManifestRow::new(None, String::new(), JobRowState::Failed);
        self.has_result.resize(count, false);
        for (column, values) in table_columns().zip(&mut self.columns) {
            values.resize_with(count, || (column.get)(&unknown).into_owned());
        }
    }

    /// The columns of so many rows, as lists, or as buffers of numbers. Those without a result are empty.
    pub(crate) fn into_dict(mut self, py: Python<'_>, count: usize) -> PyResult<Bound<'_, PyDict>> {
        self.resize(count);
        let dict = PyDict::new(py);
        // The lock is for the batch's thread, which may still run.
        let bodies = std::mem::take(&mut *self.bodies.lock());
        bodies.set_in(&dict, self.has_result.iter().copied())?;
        for (column, values) in table_columns().zip(&self.columns) {
            dict.set_item(python_name(column), python_column(py, column, values)?)?;
        }
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

/// A list, or a buffer where each row has a number.
fn python_column<'py>(
    py: Python<'py>,
    column: &ManifestColumn,
    values: &[ColumnValue<'static>],
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = match column.column_type {
        ColumnType::Int32 => number_bytes(values, u32::to_ne_bytes),
        ColumnType::Int64 => number_bytes(values, u64::to_ne_bytes),
        _ => {
            let values = values.iter().map(|value| python_value(py, value));
            return values.collect::<PyResult<Vec<_>>>()?.into_pyobject(py);
        }
    };
    Ok(Bound::new(py, ColumnBuffer::new(bytes))?.into_any())
}

fn number_bytes<N: TryFrom<u64> + Default, const SIZE: usize>(
    values: &[ColumnValue<'_>],
    bytes: fn(N) -> [u8; SIZE],
) -> Vec<u8> {
    let numbers = values
        .iter()
        .map(|value| value.number().unwrap_or_default());
    numbers.flat_map(bytes).collect()
}
