//! The view of a batch: how many files of how many, how fast, what failed.
//!
//! A batch has too many files for a line each. A terminal shows a line of figures and one for the slowest job; failures are printed as they
//! occur, with a limit a second; each file has a line with `-v` only.

use std::time::Duration;

use console::{measure_text_width, truncate_str};
use haul_transfer::TransferEvent;
use haul_transfer::TransferWarning;
use haul_transfer::batch::{BatchSnapshot, BatchSummary, SlowJob};
use haul_transfer::manifest::{JobRowState, ManifestRow};

use super::frame::compose_line;
use super::meter::RateMeter;
use super::remaining::RemainingTime;
use super::text::{bytes_text, files_rate_text, speed_text, time_text};
use super::throttle::LineThrottle;
use super::view::ProgressView;
use crate::message::{error_text, sanitize, transfer_warning};
use crate::report::{self, ended_files};

#[derive(Debug)]
pub(super) struct BatchView {
    /// No messages.
    quiet: bool,
    /// A line for each file.
    verbose: bool,
    snapshot: BatchSnapshot,
    /// When the first snapshot arrived.
    since: Option<Duration>,
    /// Files that end, a second.
    file_rate: RateMeter,
    byte_rate: RateMeter,
    remaining_time: RemainingTime,
    /// Limits the messages about failures.
    failure_throttle: LineThrottle,
    /// Limits warnings.
    warning_throttle: LineThrottle,
}

impl BatchView {
    pub(super) fn new(quiet: bool, verbose: bool) -> Self {
        Self {
            quiet,
            verbose,
            snapshot: BatchSnapshot::default(),
            since: None,
            file_rate: RateMeter::new(Duration::ZERO, 0),
            byte_rate: RateMeter::new(Duration::ZERO, 0),
            remaining_time: RemainingTime::default(),
            failure_throttle: LineThrottle::default(),
            warning_throttle: LineThrottle::default(),
        }
    }

    /// The line of a job that has ended, if it has one.
    fn row_line(&mut self, now: Duration, row: &ManifestRow) -> Option<String> {
        match row.state {
            _ if self.quiet => None,
            JobRowState::Failed if self.verbose || self.failure_throttle.admit(now) => {
                Some(error_text(&sanitize(&report::row_failure_text(row)), None))
            }
            JobRowState::Done | JobRowState::Skipped if self.verbose => {
                Some(sanitize(&report::row_line(row)))
            }
            _ => None,
        }
    }

    /// The line of a warning, if it is shown.
    fn warning_line(
        &mut self,
        now: Duration,
        warning: &TransferWarning,
        url: Option<&str>,
    ) -> Option<String> {
        let shown = !self.quiet && (self.verbose || self.warning_throttle.admit(now));
        shown.then(|| transfer_warning("", warning, url))
    }

    /// The slowest job, if it is slow.
    fn slow_job(&self) -> Option<&SlowJob> {
        let slowest = self.snapshot.slowest.as_ref();
        slowest.filter(|slow| slow.elapsed >= SLOW)
    }
}

/// How much of the batch has ended, up to 1: of its bytes if all are known, else of its files.
fn ended_share(summary: &BatchSummary) -> f64 {
    let (ended, all) = match summary.planned_bytes {
        Some(planned) if planned > 0 => (summary.ended_bytes, planned),
        _ => (ended_files(summary), summary.listed),
    };
    match all {
        0 => 1.0,
        all => (ended as f64 / all as f64).min(1.0),
    }
}

/// `5.0 MiB of 305 MiB`, if all sizes are known.
fn planned_text(summary: &BatchSummary) -> Option<String> {
    let planned = summary.planned_bytes.filter(|planned| *planned > 0)?;
    let ended = bytes_text(summary.ended_bytes.min(planned));
    let of = if summary.list_complete {
        "of"
    } else {
        "of at least"
    };
    Some(format!("{ended} {of} {}", bytes_text(planned)))
}

/// `1207/400000`, or as much of it as fits.
fn count_text(summary: &BatchSummary, room: usize) -> String {
    let ended = ended_files(summary);
    let (long, short) = if summary.list_complete {
        // As wide at the start as at the end, so that the following columns stay.

        let listed = summary.listed.to_string();
        let wide = format!("{ended:>width$}/{listed}", width = listed.len());
        (wide, format!("{ended}/{listed}"))
    } else {
        (format!("{ended} so far"), ended.to_string())
    };
    let bare = ended.to_string();
    [long, short]
        .into_iter()
        .find(|text| text.len() <= room)
        .unwrap_or(bare)
}

/// A job that has run for less is not slow, and another would be shown each time.
const SLOW: Duration = Duration::from_secs(2);

fn slow_line(slow: &SlowJob, room: usize) -> String {
    let (url, facts) = slow_facts(slow);
    let mut facts = facts.into_iter();
    let fields = [
        (Some("slowest".to_owned()), 0),
        (facts.next(), 2),
        (facts.next(), 3),
    ];
    // The URL is cut at its end: its host says more than its query.
    let wide = fields
        .iter()
        .filter_map(|(field, _)| field.as_deref())
        .map(|field| measure_text_width(field) + 2)
        .sum();
    let url = match room.saturating_sub(wide) {
        0..8 => None,
        left => Some(truncate_str(&url, left, "…").into_owned()),
    };
    let [first, second, third] = fields;
    compose_line("", None, &[first, second, third, (url, 1)], room)
}

/// The job's URL, and how long it has run and how much it has received.
fn slow_facts(slow: &SlowJob) -> (String, Vec<String>) {
    let mut facts = vec![time_text(slow.elapsed)];
    facts.extend(slow.bytes.map(bytes_text));
    (haul_net::redacted_url(&slow.url), facts)
}

impl ProgressView for BatchView {
    fn on_event(&mut self, now: Duration, event: &TransferEvent) -> Option<String> {
        match event {
            TransferEvent::BatchProgress(board) => {
                self.since.get_or_insert(now);
                self.snapshot = BatchSnapshot::clone(board);
                None
            }
            TransferEvent::BatchRow(row) => self.row_line(now, row),
            TransferEvent::Warning { warning, url, .. } => {
                self.warning_line(now, warning, url.as_deref())
            }
            _ => None,
        }
    }

    fn on_tick(&mut self, now: Duration) -> Option<String> {
        self.file_rate
            .observe(now, ended_files(&self.snapshot.summary));
        self.byte_rate.observe(now, self.snapshot.summary.fetched);
        self.remaining_time.observe(now, &self.snapshot.summary);
        if let Some(hidden) = self.failure_throttle.take_hidden(now) {
            return Some(format!("haul: {hidden} more failures are not shown"));
        }
        let hidden = self.warning_throttle.take_hidden(now)?;
        Some(format!("haul: {hidden} more warnings are not shown"))
    }

    fn since(&self) -> Option<Duration> {
        self.since
    }

    fn terminal_lines(&self, (height, width): (u16, u16)) -> Vec<String> {
        if self.since.is_none() {
            return Vec::new();
        }
        let summary = &self.snapshot.summary;
        let share = summary.list_complete.then(|| ended_share(summary));
        let room = usize::from(width).saturating_sub(1);
        let count = count_text(summary, room);
        let failed = (summary.failed > 0).then(|| format!("{} failed", summary.failed));
        let left = summary.list_complete.then(|| {
            let left = self
                .remaining_time
                .remaining()
                .map_or_else(|| "-:--".to_owned(), time_text);
            format!("{left:>7}")
        });
        // Most important first; drawn in the order of the second value.
        let fields = [
            (Some(count), 0),
            (failed, 5),
            (
                Some(format!(
                    "{:>10}",
                    files_rate_text(self.file_rate.per_second())
                )),
                1,
            ),
            (left, 3),
            (
                Some(format!("{:>11}", speed_text(self.byte_rate.per_second()))),
                2,
            ),
            (Some(format!("{:>2} running", self.snapshot.running)), 4),
            (planned_text(summary), 6),
        ];
        let mut lines = vec![compose_line("", share, &fields, room)];
        // One line stays free for the cursor.
        if height > 2
            && let Some(slow) = self.slow_job()
        {
            lines.push(slow_line(slow, room));
        }
        lines
    }

    fn log_line(&self) -> Option<String> {
        self.since?;
        let summary = &self.snapshot.summary;
        let count = if summary.list_complete {
            format!("{} of {} files", ended_files(summary), summary.listed)
        } else {
            format!("{} files so far", ended_files(summary))
        };
        let failed = match summary.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let left = self.remaining_time.remaining();
        let left = left.map_or_else(String::new, |left| format!(", {} left", time_text(left)));
        let slow = self.slow_job().map_or_else(String::new, |slow| {
            let (url, facts) = slow_facts(slow);
            format!("; slowest {url}, {}", facts.join(", "))
        });
        Some(format!(
            "{count}{failed}, {}, {}, {}{left}, {} running{slow}",
            files_rate_text(self.file_rate.per_second()),
            planned_text(summary).unwrap_or_else(|| bytes_text(summary.fetched)),
            speed_text(self.byte_rate.per_second()),
            self.snapshot.running
        ))
    }
}
