//! The result of a row of a batch, as Python gets it.
#![expect(
    clippy::too_many_arguments,
    reason = "PyO3 makes constructors of all fields"
)]

use haul_transfer::manifest::ManifestRow;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::operation::{NewArguments, new_arguments};

/// The result of a row. Its constructor is for pickle.
#[pyclass(frozen, get_all, new = "from_fields", name = "Row", module = "haul")]
pub(crate) struct ResultRow {
    index: Option<u64>,
    url: String,
    path: Option<String>,
    state: String,
    status: Option<u16>,
    bytes: u64,
    checksum: Option<String>,
    etag: Option<String>,
    attempts: u32,
    ms: u64,
    error_class: Option<String>,
    error: Option<String>,
    shard: Option<String>,
    offset: Option<u64>,
    body: Option<Py<PyBytes>>,
    value: Option<Py<PyAny>>,
}

#[pymethods]
impl ResultRow {
    fn __getnewargs_ex__<'py>(slf: &Bound<'py, Self>) -> PyResult<NewArguments<'py>> {
        let (none, fields) = new_arguments(slf, &["body", "value"])?;
        fields.update(slf.get().as_dict(slf.py())?.as_mapping())?;
        Ok((none, fields))
    }

    /// The row with what a function made of its body, or why it failed.
    fn _mapped(&self, value: Option<Py<PyAny>>, error: Option<String>) -> Self {
        let is_failed = error.is_some();
        Self {
            index: self.index,
            url: self.url.clone(),
            path: self.path.clone(),
            state: match is_failed {
                true => "failed".to_owned(),
                false => self.state.clone(),
            },
            status: self.status,
            bytes: self.bytes,
            checksum: self.checksum.clone(),
            etag: self.etag.clone(),
            attempts: self.attempts,
            ms: self.ms,
            error_class: match is_failed {
                true => Some("map".to_owned()),
                false => self.error_class.clone(),
            },
            error: error.or_else(|| self.error.clone()),
            shard: self.shard.clone(),
            offset: self.offset,
            body: None,
            value,
        }
    }

    /// Whether it has not failed: the file is there, from now or from an earlier run.
    #[getter]
    fn ok(&self) -> bool {
        self.error_class.is_none() && self.state != "failed"
    }

    /// All fields but the body.
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("index", self.index)?;
        dict.set_item("url", &self.url)?;
        dict.set_item("path", &self.path)?;
        dict.set_item("state", &self.state)?;
        dict.set_item("status", self.status)?;
        dict.set_item("bytes", self.bytes)?;
        dict.set_item("checksum", &self.checksum)?;
        dict.set_item("etag", &self.etag)?;
        dict.set_item("attempts", self.attempts)?;
        dict.set_item("ms", self.ms)?;
        dict.set_item("error_class", &self.error_class)?;
        dict.set_item("error", &self.error)?;
        dict.set_item("shard", &self.shard)?;
        dict.set_item("offset", self.offset)?;
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        let error = self.error.as_deref();
        let error = error.map_or_else(String::new, |error| format!(", error={error:?}"));
        format!(
            "haul.Row(url={:?}, state={:?}, bytes={}{error})",
            self.url, self.state, self.bytes
        )
    }
}

impl ResultRow {
    pub(crate) fn of_manifest_row(py: Python<'_>, row: ManifestRow, body: Option<Vec<u8>>) -> Self {
        let shard = row.shard;
        Self {
            index: row.line.map(|line| line.saturating_sub(1)),
            url: row.url,
            path: row.path.filter(|_| row.error.is_none()),
            state: row.state.name().to_owned(),
            status: row.status,
            bytes: row.bytes,
            checksum: row
                .checksums
                .first()
                .map(|(algorithm, hex)| format!("{algorithm}:{hex}")),
            etag: row.etag,
            attempts: row.attempts,
            ms: row.timings.total,
            error_class: row
                .error
                .as_ref()
                .map(|error| error.class.name().to_owned()),
            error: row.error.map(|error| error.text),
            offset: shard.as_ref().map(|location| location.offset),
            shard: shard.map(|location| location.shard),
            body: body.map(|body| PyBytes::new(py, &body).unbind()),
            value: None,
        }
    }
}
