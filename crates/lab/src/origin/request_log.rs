//! The requests of an origin and their outcomes.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::RecordedRequest;

/// The log of an origin, shared by its connections.
#[derive(Debug, Default)]
pub(crate) struct RequestLog {
    entries: Mutex<RequestLogEntries>,
    /// Bytes of bodies of all requests.
    bytes_sent: AtomicU64,
}

#[derive(Debug, Default)]
struct RequestLogEntries {
    /// In the order of their arrival.
    requests: Vec<RecordedRequest>,
    counts_by_path: HashMap<String, usize>,
}

/// A request's index in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogPosition(usize);

impl RequestLog {
    /// Records a request, and fills in its number.
    pub(crate) fn record(&self, mut request: RecordedRequest) -> (RecordedRequest, LogPosition) {
        let mut entries = self.entries();
        let path = request.path().to_owned();
        let count = entries.counts_by_path.entry(path).or_default();
        request.number_for_path = *count;
        *count += 1;
        request.bytes_served_before = self.bytes_sent();
        entries.requests.push(request.clone());
        (request, LogPosition(entries.requests.len() - 1))
    }

    pub(crate) fn set_status(&self, position: LogPosition, status: u16) {
        self.change(position, |request| request.status = status);
    }

    /// Counts bytes of the response's body.
    pub(crate) fn add_bytes_sent(&self, position: LogPosition, bytes: u64) {
        self.bytes_sent.fetch_add(bytes, Ordering::Relaxed);
        self.change(position, |request| request.bytes_sent += bytes);
    }

    /// The script broke the response off.
    pub(crate) fn set_cut_off(&self, position: LogPosition) {
        self.change(position, |request| request.was_cut_off = true);
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.entries().requests.clone()
    }

    pub(crate) fn bytes_sent(&self) -> u64 {
        self.bytes_sent.load(Ordering::Relaxed)
    }

    /// How many connections have carried a request.
    pub(crate) fn connection_count(&self) -> usize {
        let entries = self.entries();
        let connections = entries.requests.iter().map(|request| request.connection);
        connections.collect::<HashSet<_>>().len()
    }

    fn change(&self, position: LogPosition, change: impl FnOnce(&mut RecordedRequest)) {
        if let Some(request) = self.entries().requests.get_mut(position.0) {
            change(request);
        }
    }

    fn entries(&self) -> MutexGuard<'_, RequestLogEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
