//! The picture of a batch: how many files of how many, how fast, what failed.
//!
//! A batch has too many files for a line each. What stands still is one line of figures, and one for the job that takes longest;
//! what fails is told as it comes, though
//! no more than an eye can take; each end has a line with `-v` only.

use std::time::Duration;

use console::{measure_text_width, truncate_str};
use haul_transfer::TransferEvent;
use haul_transfer::batch::{BatchSnapshot, BatchSummary, SlowJob};
use haul_transfer::manifest::{ManifestRow, RowState};

use super::frame::compose;
use super::meter::RateMeter;
use super::picture::ProgressFrame;
use super::remaining::RemainingTime;
use super::text::{bytes_text, files_rate_text, speed_text, time_text};
use super::throttle::LineThrottle;
use crate::message::{error_text, harmless, warning_text};
use crate::report::{self, ended};

/// How a batch goes on.
#[derive(Debug)]
pub(super) struct BatchProgress {
    /// No line but those asked for.
    quiet: bool,
    /// A line for each end.
    verbose: bool,
    /// The last look at it.
    board: BatchSnapshot,
    /// When the first was.
    since: Option<Duration>,
    /// How fast jobs end.
    files: RateMeter,
    /// How fast bytes come.
    bytes: RateMeter,
    /// How long the rest takes.
    remaining: RemainingTime,
    /// What keeps failures from flooding the screen.
    throttle: LineThrottle,
    /// And what does so with warnings.
    warnings: LineThrottle,
}

impl BatchProgress {
    pub(super) fn new(quiet: bool, verbose: bool) -> Self {
        Self {
            quiet,
            verbose,
            board: BatchSnapshot::default(),
            since: None,
            files: RateMeter::new(Duration::ZERO, 0),
            bytes: RateMeter::new(Duration::ZERO, 0),
            remaining: RemainingTime::default(),
            throttle: LineThrottle::default(),
            warnings: LineThrottle::default(),
        }
    }

    /// The line of a job's end, if it has one.
    fn ended(&mut self, now: Duration, row: &ManifestRow) -> Option<String> {
        match row.state {
            _ if self.quiet => None,
            RowState::Failed if self.verbose || self.throttle.admits(now) => {
                Some(error_text(&harmless(&report::row_failure(row)), None))
            }
            RowState::Done | RowState::Skipped if self.verbose => {
                Some(harmless(&report::row_line(row)))
            }
            _ => None,
        }
    }

    /// The line of a warning, if it has one.
    fn warning(&mut self, now: Duration, text: &str) -> Option<String> {
        let shown = !self.quiet && (self.verbose || self.warnings.admits(now));
        shown.then(|| warning_text(&harmless(text)))
    }

    /// The job that has run for longest, if that is long.
    fn slow(&self) -> Option<&SlowJob> {
        let slowest = self.board.slowest.as_ref();
        slowest.filter(|slow| slow.elapsed >= SLOW)
    }
}

/// `1207/400000`, or as much of it as there is room for.
fn counted(summary: &BatchSummary, room: usize) -> String {
    let ended = ended(summary);
    let (long, short) = match summary.list_complete {
        // As wide at the beginning as at the end, so that what follows stands still.
        true => {
            let listed = summary.listed.to_string();
            let wide = format!("{ended:>width$}/{listed}", width = listed.len());
            (wide, format!("{ended}/{listed}"))
        }
        false => (format!("{ended} so far"), ended.to_string()),
    };
    let bare = ended.to_string();
    [long, short]
        .into_iter()
        .find(|text| text.len() <= room)
        .unwrap_or(bare)
}

/// What has run for less is not slow, and would be another one at each look.
const SLOW: Duration = Duration::from_secs(2);

fn slow_line(slow: &SlowJob, room: usize) -> String {
    let (url, facts) = slow_facts(slow);
    let mut facts = facts.into_iter();
    let fields = [
        (Some("slowest".to_owned()), 0),
        (facts.next(), 2),
        (facts.next(), 3),
    ];
    // The URL is cut to what room is left, at its end: its host says more than its query.
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
    compose("", None, &[first, second, third, (url, 1)], room)
}

/// Its URL, how long it has run, and how much of it came.
fn slow_facts(slow: &SlowJob) -> (String, Vec<String>) {
    let mut facts = vec![time_text(slow.elapsed)];
    facts.extend(slow.bytes.map(bytes_text));
    (haul_net::redacted_url(&slow.url), facts)
}

impl ProgressFrame for BatchProgress {
    fn event(&mut self, now: Duration, event: &TransferEvent) -> Option<String> {
        match event {
            TransferEvent::Board(board) => {
                self.since.get_or_insert(now);
                self.board = BatchSnapshot::clone(board);
                None
            }
            TransferEvent::Row(row) => self.ended(now, row),
            TransferEvent::Warning { text, .. } => self.warning(now, text),
            _ => None,
        }
    }

    fn tick(&mut self, now: Duration) -> Option<String> {
        self.files.look(now, ended(&self.board.summary));
        self.bytes.look(now, self.board.summary.bytes);
        self.remaining.look(now, &self.board.summary);
        if let Some(hidden) = self.throttle.hidden(now) {
            return Some(format!("haul: {hidden} more failed and are not shown"));
        }
        let hidden = self.warnings.hidden(now)?;
        Some(format!("haul: {hidden} more warnings are not shown"))
    }

    fn since(&self) -> Option<Duration> {
        self.since
    }

    fn frame(&self, (height, width): (u16, u16)) -> Vec<String> {
        if self.since.is_none() {
            return Vec::new();
        }
        let summary = &self.board.summary;
        let ended = ended(summary);
        let share = summary.list_complete.then(|| match summary.listed {
            0 => 1.0,
            listed => ended as f64 / listed as f64,
        });
        let room = usize::from(width).saturating_sub(1);
        let count = counted(summary, room);
        let failed = (summary.failed > 0).then(|| format!("{} failed", summary.failed));
        let left = summary.list_complete.then(|| {
            let left = self
                .remaining
                .left()
                .map_or_else(|| "-:--".to_owned(), time_text);
            format!("{left:>7}")
        });
        // In the order of what matters most; drawn in the order of the second column.
        let fields = [
            (Some(count), 0),
            (failed, 5),
            (
                Some(format!("{:>10}", files_rate_text(self.files.rate()))),
                1,
            ),
            (left, 3),
            (Some(format!("{:>11}", speed_text(self.bytes.rate()))), 2),
            (Some(format!("{:>2} running", self.board.running)), 4),
        ];
        let mut lines = vec![compose("", share, &fields, room)];
        // One line is kept free for the cursor.
        if height > 2
            && let Some(slow) = self.slow()
        {
            lines.push(slow_line(slow, room));
        }
        lines
    }

    fn line(&self) -> Option<String> {
        self.since?;
        let summary = &self.board.summary;
        let count = match summary.list_complete {
            true => format!("{} of {} files", ended(summary), summary.listed),
            false => format!("{} files so far", ended(summary)),
        };
        let failed = match summary.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let left = self.remaining.left();
        let left = left.map_or_else(String::new, |left| format!(", {} left", time_text(left)));
        let slow = self.slow().map_or_else(String::new, |slow| {
            let (url, facts) = slow_facts(slow);
            format!("; slowest {url}, {}", facts.join(", "))
        });
        Some(format!(
            "{count}{failed}, {}, {}, {}{left}, {} running{slow}",
            files_rate_text(self.files.rate()),
            bytes_text(summary.bytes),
            speed_text(self.bytes.rate()),
            self.board.running
        ))
    }
}
