//! The rows of a batch: pulled from a Python iterator by a thread of their own, as many as the batch has room for.
//!
//! An iterator may wait for results of rows that it has given, so a row must not wait for the next one: the thread hands each over at once, and
//! keeps the interpreter's lock for many rows, since taking it costs more than a row.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use haul_transfer::list::{BadLine, BadLineProblem, ListEntry, ListUrlParser, parse_list_url};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyIterator, PyString};
use tokio_util::sync::CancellationToken;

use crate::row_queue::{AfterPush, PulledRow, RowQueue};

/// Rows that are pulled at once, at most: then other threads get the interpreter's lock.
const MAX_CHUNK: usize = 512;

/// The name of the list in messages, where the number of a row says something.
const LIST_NAME: &str = "the rows";

/// The exception that ended an iterator.
pub(crate) type IteratorFailure = Arc<Mutex<Option<PyErr>>>;

/// Entries made of Python's rows. An exception of the iterator ends them: the rows before it are fetched as others.
pub(crate) struct PythonRows {
    /// Until the first row is wanted.
    puller: Option<RowPuller>,
    thread: Option<JoinHandle<()>>,
    queue: Arc<RowQueue>,
    taken: VecDeque<PulledRow>,
    failure: IteratorFailure,
    /// Stops the batch.
    stop: CancellationToken,
}

impl PythonRows {
    /// The rows of an iterable. `has_numbers`: whether messages have the number of a row.
    ///
    /// # Errors
    /// It cannot be iterated over.
    pub(crate) fn new(
        rows: &Bound<'_, PyAny>,
        has_numbers: bool,
        failure: IteratorFailure,
        stop: CancellationToken,
    ) -> PyResult<Self> {
        let queue = Arc::new(RowQueue::default());
        Ok(Self {
            puller: Some(RowPuller {
                iterator: rows.try_iter()?.unbind(),
                urls: ListUrlParser::default(),
                count: 0,
                has_numbers,
                queue: QueueEnd(Arc::clone(&queue)),
                failure: Arc::clone(&failure),
            }),
            thread: None,
            queue,
            taken: VecDeque::new(),
            failure,
            stop,
        })
    }

    fn start(&mut self, puller: RowPuller) {
        let thread = thread::Builder::new().name("haul rows".to_owned());
        match thread.spawn(move || puller.run()) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                fail(&self.failure, thread_error(&error));
                self.queue.end();
            }
        }
    }
}

fn thread_error(error: &io::Error) -> PyErr {
    crate::errors::HaulError::local("cannot start a thread for the rows", error).into()
}

fn fail(failure: &IteratorFailure, error: PyErr) {
    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
}

impl Iterator for PythonRows {
    type Item = PulledRow;

    /// Blocks as long as the iterator does.
    fn next(&mut self) -> Option<PulledRow> {
        if let Some(row) = self.taken.pop_front() {
            return Some(row);
        }
        if self.stop.is_cancelled() {
            return None;
        }
        if let Some(puller) = self.puller.take() {
            self.start(puller);
        }
        self.taken = self.queue.take();
        if self.taken.is_empty()
            && let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
        {
            std::panic::resume_unwind(panic);
        }
        self.taken.pop_front()
    }
}

impl Drop for PythonRows {
    fn drop(&mut self) {
        self.queue.close();
    }
}

struct RowPuller {
    iterator: Py<PyIterator>,
    urls: ListUrlParser,
    /// Rows so far.
    count: u64,
    has_numbers: bool,
    queue: QueueEnd,
    failure: IteratorFailure,
}

impl RowPuller {
    fn run(mut self) {
        self.pull_all();
        // A generator that is dropped runs its `finally` here, and not when this module has the interpreter's lock the next time.
        Python::try_attach(|_| drop(self));
    }

    fn pull_all(&mut self) {
        loop {
            let pulled = Python::try_attach(|py| self.pull(py));
            match pulled {
                Some(Ok(AfterPush::Continue)) => {}
                Some(Ok(AfterPush::Wait)) if self.queue.0.wait_for_room() => {}
                Some(Ok(AfterPush::Wait | AfterPush::Stop)) => return,
                Some(Err(error)) => return fail(&self.failure, error),
                // The interpreter has ended.
                None => return,
            }
        }
    }

    /// Pulls the next rows: as many as there is room for. Blocks as long as the iterator does.
    fn pull(&mut self, py: Python<'_>) -> PyResult<AfterPush> {
        let mut iterator = self.iterator.bind(py).clone();
        for _ in 0..MAX_CHUNK {
            let Some(item) = iterator.next() else {
                return Ok(AfterPush::Stop);
            };
            self.count += 1;
            let row = entry(&item?, self.count, &mut self.urls)?.map_err(|bad| {
                if self.has_numbers {
                    BadLine {
                        list_name: LIST_NAME.into(),
                        ..bad
                    }
                } else {
                    bad
                }
            });
            match self.queue.0.push(row) {
                AfterPush::Continue => {}
                after => return Ok(after),
            }
        }
        Ok(AfterPush::Continue)
    }
}

/// Ends the queue when the puller is dropped, also when it panics. The exception is there by then.
struct QueueEnd(Arc<RowQueue>);

impl Drop for QueueEnd {
    fn drop(&mut self) {
        self.0.end();
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
        list_name: "".into(),
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
        "",
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
                // The digits of a number would be taken for hexadecimal ones.
                let is_number =
                    value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>();
                if is_number && haul_plan::is_digest_name(key) {
                    let text = "a digest is a text of hexadecimal digits, not a number";
                    return Err(PyTypeError::new_err(text));
                }
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
        Err(_) => Err(PyValueError::new_err("the path is not text")),
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
