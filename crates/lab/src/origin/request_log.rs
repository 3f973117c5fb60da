//! The record of what was asked, and what became of it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::RecordedRequest;

/// The record of an origin; all its connections write to it.
#[derive(Debug, Default)]
pub(crate) struct RequestLog {
    /// Requests in the order they came.
    entries: Mutex<RequestLogEntries>,
    /// Bytes of bodies, all requests together.
    bytes_sent: AtomicU64,
}

#[derive(Debug, Default)]
struct RequestLogEntries {
    /// In the order they came.
    requests: Vec<RecordedRequest>,
    /// How many there were for each path.
    counts_by_path: HashMap<String, usize>,
}

/// A request's place in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogPosition(usize);

impl RequestLog {
    /// Enters a request, and gives it its number.
    pub(crate) fn record(&self, mut asked: RecordedRequest) -> (RecordedRequest, LogPosition) {
        let mut entries = self.entries();
        let count = entries
            .counts_by_path
            .entry(asked.path().to_owned())
            .or_default();
        asked.number_for_path = *count;
        *count += 1;
        asked.bytes_served_before = self.bytes_sent();
        entries.requests.push(asked.clone());
        (asked, LogPosition(entries.requests.len() - 1))
    }

    /// What was answered.
    pub(crate) fn set_status(&self, place: LogPosition, status: u16) {
        self.change(place, |asked| asked.status = status);
    }

    /// So many more bytes of the body went out.
    pub(crate) fn add_bytes_sent(&self, place: LogPosition, bytes: u64) {
        self.bytes_sent.fetch_add(bytes, Ordering::Relaxed);
        self.change(place, |asked| asked.bytes_sent += bytes);
    }

    /// The answer was broken off by the script.
    pub(crate) fn set_cut_off(&self, place: LogPosition) {
        self.change(place, |asked| asked.was_cut_off = true);
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.entries().requests.clone()
    }

    pub(crate) fn bytes_sent(&self) -> u64 {
        self.bytes_sent.load(Ordering::Relaxed)
    }

    pub(crate) fn connection_count(&self) -> usize {
        let entries = self.entries();
        let numbers = entries.requests.iter().map(|asked| asked.connection);
        numbers.collect::<HashSet<_>>().len()
    }

    fn change(&self, place: LogPosition, change: impl FnOnce(&mut RecordedRequest)) {
        if let Some(asked) = self.entries().requests.get_mut(place.0) {
            change(asked);
        }
    }

    fn entries(&self) -> MutexGuard<'_, RequestLogEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts what is open: connections, tunnels. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenCounter(Arc<AtomicUsize>);

/// One that is open, until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenCounterGuard {
    /// Where it is counted.
    open: OpenCounter,
    /// How many there were when it came, itself among them.
    pub(crate) count: usize,
}

impl OpenCounter {
    /// Counts one more.
    pub(crate) fn open(&self) -> OpenCounterGuard {
        let among = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        OpenCounterGuard {
            open: self.clone(),
            count: among,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for OpenCounterGuard {
    fn drop(&mut self) {
        self.open.0.fetch_sub(1, Ordering::SeqCst);
    }
}
