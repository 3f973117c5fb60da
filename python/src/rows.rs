//! The rows of a batch: pulled from a Python iterator by the batch's own thread, as many as the batch has room for.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haul_transfer::list::{BadLine, BadLineProblem, ListEntry, ListUrlParser, parse_list_url};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyIterator, PyString};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Rows that are pulled at once, at most: taking the interpreter's lock costs more than a row.
const MAX_CHUNK: usize = 512;

/// A chunk that takes longer is smaller the next time: its first rows wait for its last.
const CHUNK_TIME: Duration = Duration::from_millis(1);

/// The name of the list in messages.
const LIST_NAME: &str = "the rows";

/// The exception that ended an iterator.
pub(crate) type IteratorFailure = Arc<Mutex<Option<PyErr>>>;

/// Entries made of Python's rows.
pub(crate) struct PythonRows {
    iterator: Py<PyIterator>,
    chunk: usize,
    pulled: VecDeque<Result<ListEntry, BadLine>>,
    urls: ListUrlParser,
    /// Rows so far.
    count: u64,
    is_ended: bool,
    failure: IteratorFailure,
    /// Ends the batch if the iterator fails.
    stop: CancellationToken,
}

impl PythonRows {
    /// The rows of an iterable.
    ///
    /// # Errors
    /// It cannot be iterated over.
    pub(crate) fn new(
        rows: &Bound<'_, PyAny>,
        failure: IteratorFailure,
        stop: CancellationToken,
    ) -> PyResult<Self> {
        Ok(Self {
            iterator: rows.try_iter()?.unbind(),
            chunk: 1,
            pulled: VecDeque::new(),
            urls: ListUrlParser::default(),
            count: 0,
            is_ended: false,
            failure,
            stop,
        })
    }

    /// Pulls the next rows. Blocks as long as the iterator does.
    fn pull(&mut self) {
        let started = Instant::now();
        let pulled = Python::try_attach(|py| {
            let mut iterator = self.iterator.bind(py).clone();
            for _ in 0..self.chunk {
                let item = match iterator.next() {
                    None => {
                        self.is_ended = true;
                        break;
                    }
                    Some(item) => item?,
                };
                self.count += 1;
                let entry = entry(&item, self.count, &mut self.urls)?;
                self.pulled.push_back(entry);
            }
            PyResult::Ok(())
        });
        self.chunk = match started.elapsed() > CHUNK_TIME {
            true => (self.chunk / 2).max(1),
            false => (self.chunk * 2).min(MAX_CHUNK),
        };
        match pulled {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                self.is_ended = true;
                self.stop.cancel();
            }
            // The interpreter has ended.
            None => self.is_ended = true,
        }
    }
}

impl Iterator for PythonRows {
    type Item = Result<ListEntry, BadLine>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.pulled.is_empty() && !self.is_ended && !self.stop.is_cancelled() {
            self.pull();
        }
        self.pulled.pop_front()
    }
}

/// The entry of a row: a URL, or a dict with a URL and what else is known of the file.
fn entry(
    row: &Bound<'_, PyAny>,
    line: u64,
    urls: &mut ListUrlParser,
) -> PyResult<Result<ListEntry, BadLine>> {
    if let Ok(url) = row.cast::<PyString>() {
        return Ok(entry_of_url(url, line, urls));
    }
    if is_missing(row) {
        return Ok(Err(bad_row(line, BadLineProblem::NoUrl)));
    }
    match row.cast::<PyDict>() {
        Ok(fields) => Ok(entry_of_dict(fields, line)),
        Err(_) => Err(PyTypeError::new_err(format!(
            "a row is a URL or a dict with a url, not {}",
            row.get_type().name()?
        ))),
    }
}

/// Whether a value is none: also what pandas has in its place.
fn is_missing(value: &Bound<'_, PyAny>) -> bool {
    if value.is_none() {
        return true;
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return number.value().is_nan();
    }
    let name = value.get_type().name();
    name.is_ok_and(|name| matches!(name.to_str(), Ok("NAType" | "NaTType")))
}

fn bad_row(line: u64, problem: BadLineProblem) -> BadLine {
    BadLine {
        list_name: LIST_NAME.into(),
        line,
        excerpt: String::new(),
        url: None,
        problem,
    }
}

/// The URL of a row that cannot be used, as results show it.
fn shown_url(text: &str) -> String {
    match parse_list_url(text.trim()) {
        Ok(url) => haul_net::redacted_url(&url),
        Err(_) => haul_net::redacted_text(text),
    }
}

fn entry_of_url(
    url: &Bound<'_, PyString>,
    line: u64,
    urls: &mut ListUrlParser,
) -> Result<ListEntry, BadLine> {
    let text = url.to_str().map_err(|error| {
        let reason = error.to_string();
        let field = "url".to_owned();
        bad_row(line, BadLineProblem::UnusableValue { field, reason })
    })?;
    match urls.parse(text.trim()) {
        Ok(url) => Ok(ListEntry::new(line, url)),
        Err(problem) => Err(BadLine {
            excerpt: haul_net::redacted_text(text).chars().take(80).collect(),
            url: Some(shown_url(text)),
            ..bad_row(line, problem)
        }),
    }
}

/// What a dict says of a file.
#[derive(Default)]
struct RowFields {
    /// The URL, then the mirrors.
    urls: Vec<String>,
    values: Vec<(String, String)>,
    headers: Vec<(String, String)>,
}

/// The entry of a dict. Unknown keys and missing values are ignored, so that rows of a table can have more columns.
fn entry_of_dict(dict: &Bound<'_, PyDict>, line: u64) -> Result<ListEntry, BadLine> {
    let mut fields = RowFields::default();
    for (key, value) in dict {
        let Some(key) = key
            .cast::<PyString>()
            .ok()
            .and_then(|key| key.to_str().ok())
        else {
            continue;
        };
        if let Err(error) = fields.add(key, &value) {
            let (field, reason) = (key.to_owned(), error.to_string());
            let bad = bad_row(line, BadLineProblem::UnusableValue { field, reason });
            return Err(fields.with_url(bad));
        }
    }
    let entry = ListEntry::from_fields(
        LIST_NAME,
        line,
        fields.urls.iter().map(String::as_str),
        fields
            .values
            .iter()
            .map(|(name, value)| (&**name, &**value)),
        fields
            .headers
            .iter()
            .map(|(name, value)| (&**name, &**value)),
    );
    entry.map_err(|bad| fields.with_url(bad))
}

impl RowFields {
    /// A row that cannot be used, with its URL as far as it is known.
    fn with_url(&self, bad: BadLine) -> BadLine {
        BadLine {
            url: self.urls.first().map(|url| shown_url(url)),
            ..bad
        }
    }

    fn add(&mut self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match key {
            "url" | "mirrors" | "headers" if is_missing(value) => {}
            "url" => self.urls.insert(0, text(value)?),
            "mirrors" if value.is_instance_of::<PyString>() => self.urls.push(text(value)?),
            "mirrors" => {
                for mirror in value.try_iter()? {
                    let mirror = mirror?;
                    if !is_missing(&mirror) {
                        self.urls.push(text(&mirror)?);
                    }
                }
            }
            "headers" => self.headers.extend(header_fields(value)?),
            _ if ListEntry::has_field(key) && !is_missing(value) => {
                self.values.push((key.to_owned(), text(value)?));
            }
            _ => {}
        }
        Ok(())
    }
}

/// The text of a value: also of a number, of bytes, and of a path.
fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_str()?.to_owned());
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        let text = std::str::from_utf8(bytes.as_bytes());
        return Ok(text
            .map_err(|error| PyValueError::new_err(error.to_string()))?
            .to_owned());
    }
    if let Ok(number) = value.extract::<i128>() {
        return Ok(number.to_string());
    }
    // Whole numbers of a column where some are missing. Others are refused as what they are.
    if let Ok(number) = value.extract::<f64>() {
        return Ok(number.to_string());
    }
    match value.extract::<PathBuf>()?.into_os_string().into_string() {
        Ok(path) => Ok(path),
        Err(_) => Err(PyValueError::new_err("the path is no text")),
    }
}

/// The fields of a dict or of pairs. A column of structs has None for the fields that a row does not have.
fn header_fields(value: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    let pairs: Vec<(String, Option<String>)> = match value.cast::<PyDict>() {
        Ok(dict) => dict.items().extract()?,
        Err(_) => value.extract()?,
    };
    let given = pairs.into_iter();
    Ok(given
        .filter_map(|(name, value)| Some((name, value?)))
        .collect())
}
