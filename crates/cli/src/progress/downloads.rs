//! The view of single downloads.

use std::time::Duration;

use haul_transfer::TransferEvent;

use super::board::{DownloadsProgress, RunningDownload};
use super::frame::progress_lines;
use super::notes::EventMessages;
use super::text::{bytes_text, connections_text, speed_text, time_text};
use super::view::ProgressView;

/// Single downloads, each with a line where there is space.
pub(super) struct DownloadsView {
    messages: EventMessages,
    progress: DownloadsProgress,
}

impl DownloadsView {
    pub(super) fn new(messages: EventMessages, jobs: usize) -> Self {
        Self {
            messages,
            progress: DownloadsProgress::new(jobs),
        }
    }
}

impl ProgressView for DownloadsView {
    fn on_event(&mut self, now: Duration, event: &TransferEvent) -> Option<String> {
        self.progress.on_event(now, event);
        self.messages.line_for(event)
    }

    fn on_tick(&mut self, now: Duration) -> Option<String> {
        self.progress.on_tick(now);
        None
    }

    fn since(&self) -> Option<Duration> {
        Some(self.progress.running.values().next()?.since)
    }

    fn terminal_lines(&self, size: (u16, u16)) -> Vec<String> {
        if self.progress.running.is_empty() {
            return Vec::new();
        }
        progress_lines(&self.progress, size)
    }

    fn log_line(&self) -> Option<String> {
        let running = self.progress.running.values().next()?;
        Some(if self.progress.jobs == 1 {
            job_log_line(running)
        } else {
            total_log_line(&self.progress)
        })
    }
}

fn job_log_line(running: &RunningDownload) -> String {
    let RunningDownload {
        name, done, length, ..
    } = running;
    if running.is_verifying {
        return format!("{name}  {}, verifying", bytes_text(*done));
    }
    let of = length.map_or_else(String::new, |length| {
        let percent = done.saturating_mul(100).checked_div(length).unwrap_or(100);
        format!(" of {}, {percent}%", bytes_text(length))
    });
    let left = length.and_then(|length| running.rate.time_for(length.saturating_sub(*done)));
    let left = left.map_or_else(String::new, |left| format!(", {} left", time_text(left)));
    let rate = speed_text(running.rate.per_second());
    format!(
        "{name}  {}{of}, {rate}{left}, {}",
        bytes_text(*done),
        connections_text(running.connections)
    )
}

fn total_log_line(board: &DownloadsProgress) -> String {
    let rate = speed_text(board.rate.per_second());
    let (ended, jobs, brought) = (board.ended, board.jobs, bytes_text(board.received_bytes()));
    format!(
        "{ended} of {jobs} files, {brought}, {rate}, {}",
        connections_text(board.connections())
    )
}
