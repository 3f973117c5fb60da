//! The result of a row of a batch, as Python gets it. Its attributes are columns of the manifest's table.

use std::borrow::Cow;

use haul_transfer::ErrorClass;
use haul_transfer::manifest::{
    COLUMNS, ColumnScope, ColumnValue, JobRowState, ManifestColumn, ManifestRow, ManifestRowError,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCFunction, PyDict, PyString, PyTuple};

use crate::operation::{NewArguments, new_arguments};

/// The class of a row whose body a function failed for.
const MAP_ERROR: &str = "map";

/// The columns of a row: URL and path are before the state, which is first in a manifest.
fn row_columns() -> impl Iterator<Item = &'static ManifestColumn> {
    let columns = COLUMNS[1..3]
        .iter()
        .chain(&COLUMNS[..1])
        .chain(&COLUMNS[3..]);
    columns.filter(|column| column.scope != ColumnScope::Manifest)
}

pub(crate) fn python_name(column: &ManifestColumn) -> &'static str {
    match column.name {
        "ms_total" => "ms",
        name => name,
    }
}

/// The result of a row.
#[pyclass(frozen, name = "Row", module = "haul")]
pub(crate) struct ResultRow {
    row: ManifestRow,
    /// Whether its error is that of a function.
    is_map_error: bool,
    #[pyo3(get)]
    body: Option<Py<PyBytes>>,
    #[pyo3(get)]
    value: Option<Py<PyAny>>,
}

#[pymethods]
impl ResultRow {
    #[new]
    #[pyo3(signature = (*, index, body, value, **columns))]
    fn new(
        index: Option<u64>,
        body: Option<Py<PyBytes>>,
        value: Option<Py<PyAny>>,
        columns: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let line = index.map(|index| index.saturating_add(1));
        let mut row = ManifestRow::new(line, String::new(), JobRowState::Failed);
        let mut is_map_error = false;
        for column in row_columns() {
            let name = python_name(column);
            let given = columns.map(|columns| columns.get_item(name)).transpose()?;
            let Some(given) = given.flatten() else {
                return Err(PyTypeError::new_err(format!("{name} is missing")));
            };
            let invalid = || PyValueError::new_err(format!("{name}: {given} is not its value"));
            match column_value(&given)? {
                ColumnValue::None => {}
                ColumnValue::Text(class) if column.name == "error_class" && class == MAP_ERROR => {
                    is_map_error = true;
                    row.error = Some(map_error(String::new()));
                }
                value => (column.set)(&mut row, value).ok_or_else(invalid)?,
            }
        }
        Ok(Self {
            row,
            is_map_error,
            body,
            value,
        })
    }

    fn __getnewargs_ex__<'py>(slf: &Bound<'py, Self>) -> PyResult<NewArguments<'py>> {
        let (none, fields) = new_arguments(slf, &["body", "value"])?;
        fields.update(slf.get().as_dict(slf.py())?.as_mapping())?;
        Ok((none, fields))
    }

    /// The row with what a function made of its body, or why it failed.
    fn _mapped(&self, value: Option<Py<PyAny>>, error: Option<String>) -> Self {
        let mut row = self.row.clone();
        let is_map_error = self.is_map_error || error.is_some();
        if let Some(error) = error {
            row.state = JobRowState::Failed;
            row.error = Some(map_error(error));
        }
        Self {
            row,
            is_map_error,
            body: None,
            value,
        }
    }

    /// The place of the row, from 0.
    #[getter]
    fn index(&self) -> Option<u64> {
        self.row.line.map(|line| line.saturating_sub(1))
    }

    /// Whether it has not failed: the file is there, from now or from an earlier run.
    #[getter]
    fn ok(&self) -> bool {
        self.row.error.is_none() && self.row.state != JobRowState::Failed
    }

    /// All fields but the body.
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("index", self.index())?;
        for column in row_columns() {
            dict.set_item(python_name(column), self.python_value(py, column)?)?;
        }
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        let error = self.row.error.as_ref();
        let error = error.map_or_else(String::new, |error| format!(", error={:?}", error.text));
        format!(
            "haul.Row(url={:?}, state={:?}, bytes={}{error})",
            self.row.url,
            self.row.state.name(),
            self.row.bytes
        )
    }
}

impl ResultRow {
    pub(crate) fn of_manifest_row(
        py: Python<'_>,
        mut row: ManifestRow,
        body: Option<Vec<u8>>,
    ) -> Self {
        if row.error.is_some() {
            row.path = None;
        }
        Self {
            row,
            is_map_error: false,
            body: body.map(|body| PyBytes::new(py, &body).unbind()),
            value: None,
        }
    }

    /// Gives the class an attribute for each column.
    pub(crate) fn add_attributes(py: Python<'_>) -> PyResult<()> {
        let class = py.get_type::<Self>();
        let property = py.import("builtins")?.getattr("property")?;
        for column in row_columns() {
            let get = |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
                let row = arguments.get_item(0)?.cast_into::<Self>()?;
                let value = row.get().python_value(row.py(), column)?;
                PyResult::Ok(value.unbind())
            };
            let get = PyCFunction::new_closure(py, None, None, get)?;
            class.setattr(python_name(column), property.call1((get,))?)?;
        }
        Ok(())
    }

    fn python_value<'py>(
        &self,
        py: Python<'py>,
        column: &ManifestColumn,
    ) -> PyResult<Bound<'py, PyAny>> {
        if self.is_map_error && column.name == "error_class" {
            return Ok(PyString::intern(py, MAP_ERROR).into_any());
        }
        python_value(py, &(column.get)(&self.row))
    }
}

/// A value as an object. One of a few names is one object for all rows.
pub(crate) fn python_value<'py>(
    py: Python<'py>,
    value: &ColumnValue<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        ColumnValue::None => py.None().into_bound(py),
        ColumnValue::Name(name) => PyString::intern(py, name).into_any(),
        ColumnValue::Text(text) => PyString::new(py, text).into_any(),
        ColumnValue::Number(number) => number.into_pyobject(py)?.into_any(),
        ColumnValue::Texts(texts) => texts.into_pyobject(py)?.into_any(),
    })
}

/// The error of a function. Its class is none of the engine's.
fn map_error(text: String) -> ManifestRowError {
    ManifestRowError::new(ErrorClass::Usage, text)
}

fn column_value(given: &Bound<'_, PyAny>) -> PyResult<ColumnValue<'static>> {
    if given.is_none() {
        return Ok(ColumnValue::None);
    }
    match given.cast::<PyString>() {
        Ok(text) => Ok(ColumnValue::Text(Cow::Owned(text.to_str()?.to_owned()))),
        Err(_) => Ok(ColumnValue::Number(given.extract()?)),
    }
}
