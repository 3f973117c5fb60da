//! Retries, as a user reads of them: requests that fail in one moment get one message.

use std::time::Duration;

use tokio::time::Instant;

use crate::event::{RetryReason, TransferEvent};
use crate::recovery::RetryNumber;
use crate::response::RequestFailure;

/// How long failures are collected before they are reported. Connections that break together do so within a few milliseconds.
const COLLECT_TIME: Duration = Duration::from_millis(50);

/// A failed request that will be sent again.
#[derive(Debug)]
pub(super) struct RetriedFailure {
    pub(super) source: usize,
    pub(super) retry: RetryNumber,
    /// When requests go on.
    pub(super) resume_at: Instant,
    /// Whether the server closed the connection.
    pub(super) is_close: bool,
    /// The failure in words.
    pub(super) reason: String,
}

/// The failures of one moment.
#[derive(Debug)]
struct RetryReport {
    /// The first of them.
    first: RetriedFailure,
    count: usize,
    due: Instant,
    is_sent: bool,
}

/// The failures of a job that are still to be reported, or were a moment ago.
#[derive(Debug, Default)]
pub(super) struct RetryReports {
    reports: Vec<RetryReport>,
}

impl RetriedFailure {
    /// Whether a failure is that of a connection that the server closed.
    pub(super) fn is_close(failure: &RequestFailure) -> bool {
        matches!(failure, RequestFailure::Disconnected { .. })
    }
}

impl RetryReports {
    /// Adds a failure to the report of the same moment, or begins a report.
    pub(super) fn add(&mut self, failure: RetriedFailure, now: Instant) {
        self.reports
            .retain(|report| !report.is_sent || now < report.first.resume_at);
        let same = |report: &&mut RetryReport| {
            report.first.source == failure.source && report.first.retry == failure.retry
        };
        if let Some(report) = self.reports.iter_mut().find(same) {
            report.count += 1;
            report.first.is_close &= failure.is_close;
            report.first.resume_at = report.first.resume_at.max(failure.resume_at);
            return;
        }
        self.reports.push(RetryReport {
            due: failure.resume_at.min(now + COLLECT_TIME),
            first: failure,
            count: 1,
            is_sent: false,
        });
    }

    /// When the next report is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let unsent = self.reports.iter().filter(|report| !report.is_sent);
        unsent.map(|report| report.due).min()
    }

    /// The reports that are due, as events of a job.
    pub(super) fn take_due(&mut self, job: u64, now: Instant) -> Vec<TransferEvent> {
        let is_due = |report: &&mut RetryReport| !report.is_sent && report.due <= now;
        let due = self.reports.iter_mut().filter(is_due);
        due.map(|report| {
            report.is_sent = true;
            TransferEvent::Retry {
                job,
                attempt: report.first.retry.number,
                limit: report.first.retry.limit,
                wait: report.first.resume_at.saturating_duration_since(now),
                reason: report.reason(),
            }
        })
        .collect()
    }
}

impl RetryReport {
    fn reason(&self) -> RetryReason {
        RetryReason {
            error: self.first.reason.clone(),
            connections: self.count,
            is_close: self.first.is_close,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(number: u32, resume_at: Instant, is_close: bool) -> RetriedFailure {
        RetriedFailure {
            source: 0,
            retry: RetryNumber { number, limit: 10 },
            resume_at,
            is_close,
            reason: "connection refused".into(),
        }
    }

    fn texts(events: Vec<TransferEvent>) -> Vec<(u32, String)> {
        let text = |event| match event {
            TransferEvent::Retry {
                attempt, reason, ..
            } => Some((attempt, reason.to_string())),
            _ => None,
        };
        events.into_iter().filter_map(text).collect()
    }

    #[test]
    fn a34_what_fails_in_one_moment_gets_one_message() {
        let now = Instant::now();
        let (later, resume_at) = (now + COLLECT_TIME, now + Duration::from_secs(1));
        let mut reports = RetryReports::default();
        for _ in 0..16 {
            reports.add(failure(1, resume_at, true), now);
        }
        assert_eq!(texts(reports.take_due(0, now)), []);
        assert_eq!(reports.next_due(), Some(later));
        let closed = "server closed 16 connections".to_owned();
        assert_eq!(texts(reports.take_due(0, later)), [(1, closed)]);
        // One that was late.
        reports.add(failure(1, resume_at, true), later);
        assert_eq!(reports.next_due(), None);
        let again = resume_at + Duration::from_secs(2);
        reports.add(failure(2, again, false), resume_at);
        let alone = "connection refused".to_owned();
        assert_eq!(texts(reports.take_due(0, again)), [(2, alone)]);
        for _ in 0..2 {
            reports.add(failure(3, again, false), again);
        }
        let several = "2 connections failed: connection refused".to_owned();
        assert_eq!(texts(reports.take_due(0, again)), [(3, several)]);
    }
}
