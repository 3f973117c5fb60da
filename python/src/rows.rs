//! The rows of a batch: pulled from a Python iterator by the batch's own thread, as many as the batch has room for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haul_transfer::list::{BadLine, BadLineProblem, ListEntry, parse_list_url};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyString};
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
                let entry = entry(&item, self.count)?;
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
fn entry(row: &Bound<'_, PyAny>, line: u64) -> PyResult<Result<ListEntry, BadLine>> {
    if row.is_none() {
        return Ok(Err(bad_row(line, BadLineProblem::NoUrl)));
    }
    if let Ok(url) = row.cast::<PyString>() {
        let parsed = parse_list_url(url.to_str()?.trim());
        return Ok(match parsed {
            Ok(url) => Ok(ListEntry::new(line, url)),
            Err(problem) => Err(BadLine {
                excerpt: haul_net::redacted_text(url.to_str()?)
                    .chars()
                    .take(80)
                    .collect(),
                url: Some(shown_url(url.to_str()?)),
                ..bad_row(line, problem)
            }),
        });
    }
    match row.cast::<PyDict>() {
        Ok(fields) => entry_of_dict(fields, line),
        Err(_) => Err(PyTypeError::new_err(format!(
            "a row is a URL or a dict with a url, not {}",
            row.get_type().name()?
        ))),
    }
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

/// The entry of a dict. Unknown keys and values of None are ignored, so that rows of a table can have more columns.
fn entry_of_dict(fields: &Bound<'_, PyDict>, line: u64) -> PyResult<Result<ListEntry, BadLine>> {
    let (mut urls, mut values, mut headers) = (Vec::new(), Vec::new(), Vec::new());
    for (key, value) in fields {
        let key: String = key.extract()?;
        match key.as_str() {
            _ if value.is_none() => {}
            "url" => urls.insert(0, value.extract::<String>()?),
            "mirrors" => urls.extend(value.extract::<Vec<String>>()?),
            "headers" => headers.extend(header_fields(&value)?),
            // A size may be a number.
            _ => {
                if let Ok(text) = value.str()?.to_str() {
                    values.push((key, text.to_owned()));
                }
            }
        }
    }
    let values = values
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let urls = urls.iter().map(String::as_str);
    let headers = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let entry = ListEntry::from_fields(LIST_NAME, line, urls.clone(), values, headers);
    Ok(entry.map_err(|bad| BadLine {
        url: urls.clone().next().map(shown_url),
        ..bad
    }))
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
