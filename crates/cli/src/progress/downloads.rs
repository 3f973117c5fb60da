//! The picture of downloads that are watched one by one.

use std::time::Duration;

use haul_transfer::TransferEvent;

use super::board::{DownloadBoard, RunningDownload};
use super::frame::frame;
use super::notes::EventMessages;
use super::picture::ProgressFrame;
use super::text::{bytes_text, speed_text, time_text};

/// Some downloads, each with a line of its own where there is room.
pub(super) struct DownloadBars {
    /// Which events are worth a line.
    notes: EventMessages,
    /// What is going on.
    board: DownloadBoard,
}

impl DownloadBars {
    pub(super) fn new(notes: EventMessages, jobs: usize) -> Self {
        Self {
            notes,
            board: DownloadBoard::new(jobs),
        }
    }
}

impl ProgressFrame for DownloadBars {
    fn event(&mut self, now: Duration, event: &TransferEvent) -> Option<String> {
        self.board.apply(now, event);
        self.notes.line(event)
    }

    fn tick(&mut self, now: Duration) -> Option<String> {
        self.board.tick(now);
        None
    }

    fn since(&self) -> Option<Duration> {
        Some(self.board.running.values().next()?.since)
    }

    fn frame(&self, size: (u16, u16)) -> Vec<String> {
        if self.board.running.is_empty() {
            return Vec::new();
        }
        frame(&self.board, size)
    }

    fn line(&self) -> Option<String> {
        let running = self.board.running.values().next()?;
        Some(if self.board.jobs == 1 {
            job_line(running)
        } else {
            total_line(&self.board)
        })
    }
}

fn job_line(running: &RunningDownload) -> String {
    let RunningDownload {
        name, done, length, ..
    } = running;
    if running.verifying {
        return format!("{name}  {}, verifying", bytes_text(*done));
    }
    let of = length.map_or_else(String::new, |length| {
        let percent = done.saturating_mul(100).checked_div(length).unwrap_or(100);
        format!(" of {}, {percent}%", bytes_text(length))
    });
    let left = length.and_then(|length| running.meter.left(length.saturating_sub(*done)));
    let left = left.map_or_else(String::new, |left| format!(", {} left", time_text(left)));
    let rate = speed_text(running.meter.rate());
    format!(
        "{name}  {}{of}, {rate}{left}, {}",
        bytes_text(*done),
        counted(running.connections)
    )
}

fn total_line(board: &DownloadBoard) -> String {
    let rate = speed_text(board.meter.rate());
    let (ended, jobs, brought) = (board.ended, board.jobs, bytes_text(board.brought()));
    format!(
        "{ended} of {jobs} files, {brought}, {rate}, {}",
        counted(board.connections())
    )
}

fn counted(connections: usize) -> String {
    format!(
        "{connections} connection{}",
        if connections == 1 { "" } else { "s" }
    )
}
